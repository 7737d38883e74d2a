"""``python -m benchmarks.roaring``: the RoaringBitmap table of PIP-16, reproduced and compared.

Every cell is a process of its own, whose peak memory the operating system tells; the implementations take
turns. Of the repeats the least time counts, because what else runs on a machine can only add to it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.roaring import machine
from benchmarks.roaring.positions import KINDS, write_bits
from benchmarks.roaring.published import TABLE, Row
from benchmarks.roaring.report import draw, write_report

RESULTS = Path(__file__).parents[1] / "results"
IMPLEMENTATIONS = ("java-per-value", "java-bulk", "pyroaring", "ours")
TURNS = {2_000_000: (3, 15), 20_000_000: (3, 4), 200_000_000: (2, 2), 2_000_000_000: (2, 1)}
"""By rows: how many turns the implementations take, and how often each measures in one turn."""


@dataclass
class Cell:
    """What one implementation showed on one set of positions, over all its turns."""

    row: str
    percent: int
    rows: int
    kind: str
    bits: int
    implementation: str
    wall_ms: dict[str, list[float]] = field(default_factory=dict)
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    peak_bytes: int = 0

    def take(self, output: str, peak_bytes: int) -> None:
        """Add what a process printed. Its facts must be those of the turns before."""
        self.peak_bytes = max(self.peak_bytes, peak_bytes)
        for line in output.splitlines():
            name, *values = line.split()
            if len(values) == 2:
                self.wall_ms.setdefault(name, []).append(float(values[0]))
                self.cpu_ms.setdefault(name, []).append(float(values[1]))
            else:
                (value,) = values
                if self.facts.setdefault(name, value) != value:
                    sys.exit(f"{self.implementation} on {self.row}: {name} {value} after {self.facts[name]}")


def main() -> None:
    options = _options()
    rows = [
        row for row in TABLE if row.rows <= options.max and (not options.rows or row.name in options.rows)
    ]
    skipped = _skipped(rows, options)
    rows = [row for row in rows if row.name not in skipped]
    about = machine.describe()
    print(f"{about['cpu']}, {about['cores']} cores, {about['memory_gib']} GiB; load {about['load_before']}")
    for name, why in skipped.items():
        print(f"skipped: {name}: {why}")
    began = time.time()
    cells = list(_measured(rows, options))
    result = {
        "command": shlex.join(["python", "-m", "benchmarks.roaring", *sys.argv[1:]]),
        "began": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
        "minutes": round((time.time() - began) / 60, 1),
        "machine": {**about, "load_after": [round(load, 2) for load in os.getloadavg()]},
        "skipped": skipped,
        "cells": [asdict(cell) for cell in cells],
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "roaring.json").write_text(json.dumps(result, indent=1) + "\n")
    draw(result, options.out / "roaring.svg")
    write_report(result, options.out / "roaring.md")
    print((options.out / "roaring.md").read_text())


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roaring", description=__doc__)
    names = [row.name for row in TABLE]
    parser.add_argument(
        "--rows",
        action="append",
        choices=names,
        metavar="ROW",
        help="a row; may be repeated: " + ", ".join(names).replace("%", "%%"),
    )
    parser.add_argument(
        "--max", type=int, default=2_000_000_000, help="only rows of files of at most so many rows"
    )
    parser.add_argument(
        "--kind", action="append", choices=KINDS, help="how the deleted rows lie (default: both)"
    )
    parser.add_argument(
        "--bits", action="append", type=int, choices=(32, 64), help="kind of vector (default: both)"
    )
    parser.add_argument("--turns", type=int, help="turns and repeats instead of those that fit the size")
    parser.add_argument("--memory", type=float, help="GiB to count on instead of what is available")
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), help="where the positions are written"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    return parser.parse_args()


def _skipped(rows: list[Row], options: argparse.Namespace) -> dict[str, str]:
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


def _measured(rows: list[Row], options: argparse.Namespace) -> Iterator[Cell]:
    """Measure case by case, the implementations in turns; check that their bytes are the same."""
    cases = [
        (row, kind, bits)
        for row in rows
        for kind in (options.kind or KINDS)
        for bits in (options.bits or (32, 64))
    ]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress, tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        task = progress.add_task("", total=len(cases))
        for row, kind, bits in cases:
            path = Path(scratch) / f"{row.percent}-{row.rows}-{kind}.bits"
            if not path.exists():
                for old in Path(scratch).iterdir():
                    old.unlink()
                progress.update(task, description=f"{row.name}, {kind}: positions")
                write_bits(path, row, kind)
            found = [
                Cell(row.name, row.percent, row.rows, kind, bits, implementation)
                for implementation in IMPLEMENTATIONS
            ]
            turns, repeats = (options.turns, options.turns) if options.turns else TURNS[row.rows]
            for turn in range(turns):
                for cell in found:
                    # Once a value takes minutes where it takes any; more turns would tell nothing more.
                    if (
                        turn
                        and row.rows >= 200_000_000
                        and cell.implementation in ("java-per-value", "pyroaring")
                    ):
                        continue
                    progress.update(
                        task, description=f"{row.name}, {kind}, {bits} bits: {cell.implementation}"
                    )
                    cell.take(*_run(cell.implementation, path, row.rows, bits, repeats))
            _expect_same_bytes(found)
            yield from found
            progress.advance(task)


def _run(implementation: str, path: Path, rows: int, bits: int, repeats: int) -> tuple[str, int]:
    """Return what a cell printed, and its peak resident memory in bytes."""
    if implementation.startswith("java"):
        command = [*machine.java_command(machine.heap_mebibytes(rows)), implementation.removeprefix("java-")]
        warm = 3
    else:
        command = [sys.executable, "-m", "benchmarks.roaring.python_cell", implementation]
        warm = 0
    once = implementation in ("java-per-value", "pyroaring") and rows >= 200_000_000
    command += [str(path), str(rows), str(bits), str(1 if once else repeats), str(warm)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{shlex.join(command)}: exit code {process.returncode}")
    return output, usage.ru_maxrss << 10


def _expect_same_bytes(cells: list[Cell]) -> None:
    """All implementations store the same positions as the same bytes, run-optimised; per value also before."""
    for fact in ("digest", "raw-digest"):
        found: dict[str, Any] = {
            cell.implementation: cell.facts[fact] for cell in cells if fact in cell.facts
        }
        if len(set(found.values())) != 1:
            sys.exit(f"{cells[0].row}, {cells[0].kind}, {cells[0].bits} bits: {fact} differs: {found}")


if __name__ == "__main__":
    main()
