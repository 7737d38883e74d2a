"""``python -m benchmarks.roaring``: the RoaringBitmap table of PIP-16, reproduced and compared.

Every cell is a process of its own, whose peak memory the operating system tells; the implementations take
turns. Of the repeats the least time counts, because what else runs on a machine can only add to it.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.machine import describe, load
from benchmarks.roaring import machine
from benchmarks.roaring.cells import PER_VALUE, Cell, cells_of, expect_same_bytes
from benchmarks.roaring.plot import draw
from benchmarks.roaring.positions import KINDS, write_bits
from benchmarks.roaring.published import TABLE, Row
from benchmarks.roaring.report import write_report

RESULTS = Path(__file__).parents[1] / "results"
TURNS = {2_000_000: (2, 9), 20_000_000: (2, 3), 200_000_000: (2, 1), 2_000_000_000: (1, 1)}
"""By rows: how many turns the implementations take, and how often each measures in one turn."""
ONCE = 200_000_000
"""Rows from which on what goes value by value is measured once: minutes, in which noise is little."""
WARM_SECONDS = 3.0
"""How long the compiler of Java gets."""


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    rows = [row for row in TABLE if row.rows <= options.max and row.name in (options.rows or [row.name])]
    skipped = _skipped(rows, options)
    about = {**describe(), "RoaringBitmap": machine.roaring_version()}
    if about["java"] is None:
        sys.exit(
            "benchmarks.roaring: expected java on PATH or at JAVA_HOME (a runtime of 17 or newer), found none"
        )
    print(f"{about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB; load {about['load_before']}")
    for name, why in skipped.items():
        print(f"skipped: {name}: {why}")
    command = shlex.join(["python", "-m", "benchmarks.roaring", *(arguments or sys.argv[1:])])
    before = _before(options.out / "roaring.json", about) if options.resume else {}
    began = time.time() - 60 * before.get("minutes", 0)
    cells = [Cell(**cell) for cell in before.get("cells", ())]
    done = {(cell.row, cell.kind, cell.bits) for cell in cells}

    def save() -> None:
        result = {
            "command": command,
            "clock": options.clock,
            "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
            "minutes": round((time.time() - began) / 60, 1),
            "machine": {**about, "load_after": load()},
            "skipped": skipped,
            "cells": [asdict(cell) for cell in cells],
        }
        (options.out / "roaring.json").write_text(json.dumps(result, indent=1) + "\n")
        draw(result, options.out / "roaring.svg")
        write_report(result, options.out / "roaring.md")

    options.out.mkdir(parents=True, exist_ok=True)
    save()
    for found in _measured([row for row in rows if row.name not in skipped], options, done):
        cells += found
        save()  # hours may be behind us, and ahead
    print((options.out / "roaring.md").read_text())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roaring", description=__doc__)
    add = parser.add_argument
    names = [row.name for row in TABLE]
    add(
        "--rows",
        action="append",
        choices=names,
        metavar="ROW",
        help=f"{names[0]!r} ...; may be repeated".replace("%", "%%"),
    )
    add("--max", type=int, default=2_000_000_000, help="only rows of files of at most so many rows")
    add("--kind", action="append", choices=KINDS, help="how the deleted rows lie (default: both ways)")
    add("--bits", action="append", type=int, choices=(32, 64), help="kind of vector (default: both kinds)")
    add("--turns", type=int, help="turns, of one measurement each, instead of what fits the size")
    add("--clock", choices=("wall", "cpu"), default="wall", help="cpu: for a machine that others use too")
    add("--memory", type=float, help="GiB to count on instead of what is available")
    add("--scratch", type=Path, default=Path(tempfile.gettempdir()), help="where the positions are written")
    add("--resume", action="store_true", help="keep what the last run into the same directory measured")
    add("--out", type=Path, default=RESULTS, help="directory of the results")
    return parser.parse_args(arguments)


def _skipped(rows: Sequence[Row], options: argparse.Namespace) -> dict[str, str]:
    """Return the rows that the machine cannot take, and why."""
    memory = int(options.memory * (1 << 30)) if options.memory else machine.memory_available()
    disk = shutil.disk_usage(options.scratch).free
    found = {}
    for row in rows:
        for what, needed, available in (
            ("memory", machine.memory_needed(row.rows), memory),
            (f"disk in {options.scratch}", machine.disk_needed(row.rows), disk),
        ):
            if needed > available:
                found[row.name] = (
                    f"needs {needed / (1 << 30):.2f} GiB of {what}, {available / (1 << 30):.2f} GiB are available"
                )
    return found


def _before(path: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Return the result that is to be gone on with; exits if there is none, or it is of other circumstances."""
    if not path.is_file():
        sys.exit(f"benchmarks.roaring: --resume: expected {path}, found none")
    result: dict[str, Any] = json.loads(path.read_text())
    for name, now in about.items():
        then = result["machine"].get(name)
        if name != "load_before" and then != now:
            sys.exit(f"benchmarks.roaring: --resume: expected {name} {then}, found {now}")
    return result


def _measured(
    rows: Sequence[Row], options: argparse.Namespace, done: Set[tuple[str, str, int]]
) -> Iterator[list[Cell]]:
    """Measure what is not done, row by row, the implementations in turns; check that their bytes are the same."""
    kinds, sizes = options.kind or KINDS, options.bits or (32, 64)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress, tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        task = progress.add_task("", total=len(rows) * len(kinds) * len(sizes))
        path = Path(scratch) / "bits"
        for row in rows:
            for kind in kinds:
                todo = [bits for bits in sizes if (row.name, kind, bits) not in done]
                progress.advance(task, len(sizes) - len(todo))
                if todo:
                    progress.update(task, description=f"{row.name}, {kind}: positions")
                    write_bits(path, row, kind)
                for bits in todo:
                    cells = cells_of(row, kind, bits)
                    turns, repeats = (options.turns, 1) if options.turns else TURNS[row.rows]
                    for turn in range(turns):
                        for cell in cells:
                            once = row.rows >= ONCE and cell.implementation in PER_VALUE
                            if turn and once:
                                continue
                            what = f"{row.name}, {kind}, {bits} bits: {cell.implementation}"
                            progress.update(task, description=what)
                            cell.run(path, repeats=1 if once else repeats, warm_seconds=WARM_SECONDS)
                    expect_same_bytes(cells)
                    progress.advance(task)
                    yield cells


if __name__ == "__main__":
    main()
