"""``python -m benchmarks.engines``: the compactions of each merge engine against those of deduplicate on the same rows,
and those that record a changelog against those that do not.

A table of one bucket has a large run at the last level, and then writes of random keys of it at level 0.

* *a tenth*, *a half*: the strategy compacts level 0 alone, which has so many rows of the large run's. With deletion
  vectors it looks the keys up there; an engine that computes values also fetches the rows that it replaces, and must
  decode the other rows of their row groups to do so.
* *full*: the large run and writes of a tenth are merged into the last level.

Each is measured several times, the engines by turns, in processor seconds of this process; the least counts. The goal
is at most twice deduplicate's.

A lookup changelog has two rows of each key that was there: the row before, which must be read, and the row after. The
goal is at most 1.3 times the compaction without it. How long Arrow takes to encode these rows alone is measured, too.
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
import pyarrow.parquet as pq
from pktable import Table
from pktable.datafile.columns import PARQUET_WRITE_OPTIONS

from benchmarks.machine import describe, hardware

RESULTS: Final = Path(__file__).parent / "results" / "engines.md"
COLUMNS: Final = "k BIGINT, g BIGINT, a BIGINT, b DOUBLE, s STRING"
VECTORS: Final = {"deletion-vectors.enabled": "true", "write-only": "true"}
BASELINE: Final = "deduplicate"
GOAL: Final = 2.0
CHANGELOG_GOAL: Final = 1.3
WRITES: Final = 4
SHARES: Final = {"a tenth": 10, "a half": 2}
WORKS: Final = (*SHARES, "full")

SUMS: Final = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "sum",
    "fields.s.aggregate-function": "max",
}
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
    "aggregation, sums and maxima": {**VECTORS, **SUMS},
    "first-row": {"write-only": "true", "merge-engine": "first-row"},
}
"""The options of a table by what is measured."""

RECORDED: Final[Mapping[str, Mapping[str, str]]] = {
    f"{name}, {vectors}": {**options, "write-only": "true", "deletion-vectors.enabled": enabled}
    for vectors, enabled in (("deletion vectors", "true"), ("no vectors", "false"))
    for name, options in (
        (BASELINE, {}),
        ("deduplicate, sequence.field", {"sequence.field": "g"}),
        ("partial-update", {"merge-engine": "partial-update"}),
        ("aggregation, sums and maxima", SUMS),
    )
}
"""The options of a table whose compactions are measured with and without a lookup changelog."""

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
    without: Seconds = {}
    recorded: Seconds = {}
    encoded: Seconds = {}
    with tempfile.TemporaryDirectory(prefix="pktable-engines-") as folder:
        for number in range(options.rounds):
            for at, name in enumerate(ENGINES):
                measured, _ = measure(Path(folder) / f"{number}-{at}", ENGINES[name], options.rows)
                keep_least(found, name, measured)
                print(f"{name}: {measured}", file=sys.stderr)
            for at, (name, table) in enumerate(RECORDED.items()):
                measured, _ = measure(Path(folder) / f"{number}-{at}-none", table, options.rows)
                keep_least(without, name, measured)
                looked_up = {**table, "changelog-producer": "lookup"}
                measured, encoding = measure(Path(folder) / f"{number}-{at}-lookup", looked_up, options.rows)
                keep_least(recorded, name, measured)
                keep_least(encoded, name, encoding)
                print(f"{name}, changelog: {measured}", file=sys.stderr)
    command = shlex.join(["python", "-m", "benchmarks.engines", *sys.argv[1:]])
    lines = report(hardware(about), command, options.rows, found)
    text = "\n".join([*lines, *report_of_changelogs(without, recorded, encoded)]) + "\n"
    options.out.write_text(text)
    print(text)


def keep_least(found: Seconds, name: str, measured: Mapping[str, float]) -> None:
    best = found.setdefault(name, dict(measured))
    found[name] = {work: min(best[work], measured[work]) for work in WORKS}


def measure(path: Path, options: Mapping[str, str], rows: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the processor seconds of the compactions of a new table, and of encoding what they recorded."""
    table = Table.create(path, COLUMNS, primary_key="k", options=options)
    values, found, encoding = np.random.default_rng(1), {}, {}
    table.upsert(columns_of(np.arange(rows), values))
    table.compact(full=True)
    for work, share in SHARES.items():
        write(table, rows, share, values)
        found[work], encoding[work] = seconds_of(table, full=False)
        table.compact(full=True)
    write(table, rows, SHARES["a tenth"], values)
    found["full"], encoding["full"] = seconds_of(table, full=True)
    return found, encoding


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


def seconds_of(table: Table, *, full: bool) -> tuple[float, float]:
    """Return the processor seconds of a compaction, and of encoding the rows of its changelog once more."""
    there = changelog_files(table)
    began = time.process_time()
    assert table.compact(full=full) is not None
    seconds = time.process_time() - began
    recorded = [pq.read_table(path) for path in changelog_files(table) - there]
    began = time.process_time()
    for rows in recorded:
        pq.write_table(
            rows,
            pa.BufferOutputStream(),
            compression="zstd",
            compression_level=1,
            use_dictionary=["_VALUE_KIND", "g"],
            **PARQUET_WRITE_OPTIONS,
        )
    return seconds, time.process_time() - began


def changelog_files(table: Table) -> set[Path]:
    return set(Path(table.path, "bucket-0").glob("changelog-*"))


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


def report_of_changelogs(without: Seconds, recorded: Seconds, encoded: Seconds) -> Sequence[str]:
    """Return the lines of the second part of the report."""
    lines = [
        "",
        "## With a lookup changelog",
        "",
        "Processor seconds without and with it, the ratio in brackets, and the seconds that Arrow takes to encode the",
        "rows of the changelog alone, once they are there.",
        "",
        f"| table | {' | '.join(WORKS)} |",
        f"| --- |{' --- |' * len(WORKS)}",
    ]
    met = []
    for name in recorded:
        cells = []
        for work in WORKS:
            before, after = without[name][work], recorded[name][work]
            met += [f"{name}, {work}"] if after <= CHANGELOG_GOAL * before else []
            cells.append(f"{before:.2f}, {after:.2f} ({after / before:.2f}), {encoded[name][work]:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    verdict = "; ".join(met) or "nothing"
    return [
        *lines,
        "",
        f"The goal is at most {CHANGELOG_GOAL:g} times the compaction without it, met by: {verdict}.",
    ]


if __name__ == "__main__":
    main()
