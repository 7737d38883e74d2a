"""``python -m benchmarks.engines``: the compactions of each merge engine against those of deduplicate on the same rows.

A table of one bucket has a large run at the last level, and then writes of random keys of it at level 0.

* *a tenth*, *a half*: the strategy compacts level 0 alone, which has so many rows of the large run's. With deletion
  vectors it looks the keys up there; an engine that computes values also fetches the rows that it replaces, and must
  decode the other rows of their row groups to do so.
* *full*: the large run and writes of a tenth are merged into the last level.

Each is measured several times, the engines by turns, in processor seconds of this process; the least counts. The goal
is at most twice deduplicate's.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from pktable import Table

from benchmarks.machine import describe, hardware

RESULTS: Final = Path(__file__).parent / "results" / "engines.md"
COLUMNS: Final = "k BIGINT, g BIGINT, a BIGINT, b DOUBLE, s STRING"
VECTORS: Final = {"deletion-vectors.enabled": "true", "write-only": "true"}
BASELINE: Final = "deduplicate"
GOAL: Final = 2.0
WRITES: Final = 4
SHARES: Final = {"a tenth": 10, "a half": 2}
WORKS: Final = (*SHARES, "full")

ENGINES: Final[Mapping[str, Mapping[str, str]]] = {
    BASELINE: VECTORS,
    "deduplicate, deletions ignored": {**VECTORS, "ignore-delete": "true"},
    "partial-update": {**VECTORS, "merge-engine": "partial-update"},
    "partial-update, a sequence group": {
        **VECTORS,
        "merge-engine": "partial-update",
        "fields.g.sequence-group": "a,b",
    },
    "aggregation, last values": {**VECTORS, "merge-engine": "aggregation"},
    "aggregation, sums and maxima": {
        **VECTORS,
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "fields.b.aggregate-function": "sum",
        "fields.s.aggregate-function": "max",
    },
    "first-row": {"write-only": "true", "merge-engine": "first-row"},
}
"""The options of a table by what is measured."""

Seconds = dict[str, dict[str, float]]
"""Processor seconds by engine and work."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the large run (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of the report")
    options = parser.parse_args()
    about = describe()
    found: Seconds = {}
    with tempfile.TemporaryDirectory(prefix="pktable-engines-") as folder:
        for number in range(options.rounds):
            for at, name in enumerate(ENGINES):
                measured = measure(Path(folder) / f"{number}-{at}", ENGINES[name], options.rows)
                best = found.setdefault(name, measured)
                found[name] = {work: min(best[work], measured[work]) for work in WORKS}
                print(f"{name}: {measured}", file=sys.stderr)
    command = shlex.join(["python", "-m", "benchmarks.engines", *sys.argv[1:]])
    text = "\n".join(report(hardware(about), command, options.rows, found)) + "\n"
    options.out.write_text(text)
    print(text)


def measure(path: Path, options: Mapping[str, str], rows: int) -> dict[str, float]:
    """Return the processor seconds of the compactions of a new table."""
    table = Table.create(path, COLUMNS, primary_key="k", options=options)
    values, found = np.random.default_rng(1), {}
    table.upsert(columns_of(np.arange(rows), values))
    table.compact(full=True)
    for work, share in SHARES.items():
        write(table, rows, share, values)
        found[work] = seconds_of(table, full=False)
        table.compact(full=True)
    write(table, rows, SHARES["a tenth"], values)
    found["full"] = seconds_of(table, full=True)
    return found


def write(table: Table, rows: int, share: int, values: np.random.Generator) -> None:
    """Write a part of the table, one ``share``-th, of random keys."""
    for _ in range(WRITES):
        table.upsert(columns_of(values.choice(rows, rows // share // WRITES, replace=False), values))


def columns_of(keys: np.typing.NDArray[np.int64], values: np.random.Generator) -> pa.Table:
    count = len(keys)
    nulls = values.random(count) < 0.3
    return pa.table(
        {
            "k": keys,
            "g": pa.array(values.integers(0, 1000, count)),
            "a": pa.array(values.integers(0, 1 << 20, count), mask=nulls),
            "b": pa.array(values.random(count), mask=~nulls),
            "s": pa.array(np.char.add("name ", values.integers(0, 1 << 30, count).astype(str))),
        }
    )


def seconds_of(table: Table, *, full: bool) -> float:
    began = time.process_time()
    assert table.compact(full=full) is not None
    return time.process_time() - began


def report(machine: str, command: str, rows: int, found: Seconds) -> Sequence[str]:
    """Return the lines of the report."""
    baseline = found[BASELINE]
    lines = [
        "# Compactions by merge engine",
        "",
        f"Made by `{command}` on {machine}: {rows:,} rows in the large run, {WRITES} writes.",
        "Processor seconds, and in brackets the ratio to deduplicate.",
        "",
        f"| engine | {' | '.join(WORKS)} |",
        f"| --- |{' --- |' * len(WORKS)}",
    ]
    above = []
    for name, seconds in found.items():
        of_work = [seconds[work] / baseline[work] for work in WORKS]
        above += [f"{name}, {work}" for work, ratio in zip(WORKS, of_work, strict=True) if ratio > GOAL]
        cells = [f"{seconds[work]:.2f} ({ratio:.2f})" for work, ratio in zip(WORKS, of_work, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    verdict = f"not met by {'; '.join(above)}" if above else "met by all"
    return [*lines, "", f"The goal is at most {GOAL:g} times deduplicate's: {verdict}."]


if __name__ == "__main__":
    main()
