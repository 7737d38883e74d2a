"""``python -m benchmarks.engines_paimon``: the compactions of `benchmarks.engines` beside Paimon's own, in the JVM.

Both compact copies of the same table. Paimon's process has compacted such tables before the clock starts, so that its
compiler is warm. Of some rounds the least counts, in processor seconds of the process. The rows of both are compared.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pktable import Table

from benchmarks.compaction.contenders import java
from benchmarks.engines import (
    BASELINE,
    CHANGELOG_GOAL,
    COLUMNS,
    ENGINES,
    RECORDED,
    SHARES,
    WORKS,
    columns_of,
    write,
)
from benchmarks.machine import describe, hardware
from model_tests.interop.environments import NEWER_JVM

RESULTS: Final = Path(__file__).parent / "results" / "engines-paimon.md"
LOOKUP: Final = {"changelog-producer": "lookup"}
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    **ENGINES,
    **RECORDED,
    **{f"{name}, changelog": {**options, **LOOKUP} for name, options in RECORDED.items()},
}
"""The options of a table by what is measured."""

Seconds = dict[str, dict[str, tuple[float, float]]]
"""Processor seconds of Paimon and of pktable, by table and work."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines_paimon", description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the large run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (%(default)s)")
    parser.add_argument("--peer", default=NEWER_JVM, help="which Paimon (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of the report")
    options = parser.parse_args()
    about = describe()
    found: Seconds = {}
    for name, table in TABLES.items():
        with tempfile.TemporaryDirectory(prefix="pktable-engines-") as folder:
            found[name] = measure(Path(folder), table, options.rows, options.rounds, options.peer)
        print(f"{name}: {found[name]}", file=sys.stderr)
    command = shlex.join(["python", "-m", "benchmarks.engines_paimon", *sys.argv[1:]])
    about_run = (
        f"Made by `{command}` on {hardware(about)}, {about['java']}: {options.rows:,} rows in the large run."
    )
    text = "\n".join(report(options.peer, about_run, found)) + "\n"
    options.out.write_text(text)
    print(text)


def measure(
    folder: Path, options: Mapping[str, str], rows: int, rounds: int, peer: str
) -> dict[str, tuple[float, float]]:
    """Return the processor seconds that Paimon and pktable take for the compactions of a table."""
    grounds = ready(folder, options, rows)
    ours = {work: [folder / f"ours-{work}-{number}" for number in range(rounds)] for work in WORKS}
    theirs = {work: [folder / f"theirs-{work}-{number}" for number in range(rounds + 1)] for work in WORKS}
    for work in WORKS:
        for path in (*ours[work], *theirs[work]):
            shutil.copytree(grounds[work], path)
    warm = theirs[WORKS[0]][0]
    shutil.copytree(grounds[WORKS[0]], warm.with_name("warm"))
    order = [(WORKS[0], warm.with_name("warm")), *((work, path) for work in WORKS for path in theirs[work])]
    arguments = [
        text for work, path in order for text in ("full" if work == "full" else "level 0", f"file://{path}")
    ]
    lines = [float(line.split()[2]) for line in java(*arguments, peer=peer)]
    took = {work: [line for (of, _), line in zip(order, lines, strict=True) if of == work] for work in WORKS}
    found = {}
    for work in WORKS:
        seconds = []
        for path in ours[work]:
            table = Table.open(path)
            began = time.process_time()
            assert table.compact(full=work == "full") is not None
            seconds.append(time.process_time() - began)
        expect_equal(Table.open(ours[work][0]), Table.open(theirs[work][-1]))
        found[work] = min(took[work][-rounds:]), min(seconds)
    return found


def ready(folder: Path, options: Mapping[str, str], rows: int) -> dict[str, Path]:
    """Return for each work a table that waits for it."""
    values = np.random.default_rng(1)
    table = Table.create(folder / "large", COLUMNS, primary_key="k", options=options)
    table.upsert(columns_of(np.arange(rows), values))
    table.compact(full=True)
    found = {}
    for work in WORKS:
        found[work] = folder / work
        shutil.copytree(folder / "large", found[work])
        write(Table.open(found[work]), rows, SHARES.get(work, SHARES["a tenth"]), values)
    return found


def expect_equal(ours: Table, theirs: Table) -> None:
    """Raise AssertionError unless both tables have the same rows, sums roughly, and none at level 0."""
    assert not any(level == 0 for level in theirs.files().column("level").to_pylist()), theirs.path
    left, right = (table.to_arrow().sort_by("k") for table in (ours, theirs))
    for name in left.column_names:
        one, other = left.column(name), right.column(name)
        if pa.types.is_floating(one.type):
            one, other = (np.nan_to_num(column.to_numpy(), nan=-1) for column in (one, other))
            assert np.allclose(one, other), (theirs.path, name)
        else:
            assert one.equals(other), (theirs.path, name)


def report(peer: str, about: str, found: Seconds) -> Sequence[str]:
    """Return the lines of the report."""
    lines = [
        "# Compactions by merge engine, beside Paimon's",
        "",
        about,
        f"Processor seconds of {peer}, those of pktable, and in brackets how many times as many Paimon takes.",
        "",
        f"| table | {' | '.join(WORKS)} |",
        f"| --- |{' --- |' * len(WORKS)}",
    ]
    for name, seconds in found.items():
        cells = [
            f"{their:.2f}, {our:.2f} ({their / our:.1f})" for their, our in (seconds[work] for work in WORKS)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        f"Each engine against {BASELINE}, Paimon and pktable:",
        "",
        f"| engine | {' | '.join(WORKS)} |",
        f"| --- |{' --- |' * len(WORKS)}",
        *(f"| {name} | {ratios(found, name, BASELINE)} |" for name in ENGINES),
        "",
        f"A lookup changelog against none, Paimon and pktable; the goal is at most {CHANGELOG_GOAL:g}:",
        "",
        f"| table | {' | '.join(WORKS)} |",
        f"| --- |{' --- |' * len(WORKS)}",
        *(f"| {name} | {ratios(found, f'{name}, changelog', name)} |" for name in RECORDED),
    ]
    return lines


def ratios(found: Seconds, name: str, other: str) -> str:
    """Return the cells of how many times the seconds of ``other`` those of ``name`` are."""
    pairs = [
        [mine / its for mine, its in zip(found[name][work], found[other][work], strict=True)]
        for work in WORKS
    ]
    return " | ".join(f"{theirs:.2f}, {ours:.2f}" for theirs, ours in pairs)


if __name__ == "__main__":
    main()
