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
goal is at most 1.3 times the compaction without it. Arrow's part is to decode the columns that nothing else reads, and
to encode the rows of the changelog. No compaction can take less besides.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
LAST_LEVEL: Final = 5
SHARES: Final = {"a tenth": 10, "a half": 2}
WORKS: Final = (*SHARES, "full")
TIMES: Final = {"a tenth": 4, "full": 2}
"""How often in a row something is measured, once by default: what is short, or compared with little above it."""

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
    fetched: Seconds = {}
    without: Seconds = {}
    recorded: Seconds = {}
    by_arrow: Seconds = {}
    with tempfile.TemporaryDirectory(prefix="pktable-engines-") as folder:
        for number in range(options.rounds):
            for at, name in enumerate(ENGINES):
                measured, arrow = measure(Path(folder) / f"{number}-{at}", ENGINES[name], options.rows)
                keep_least(found, name, measured)
                keep_least(fetched, name, arrow)
                print(f"{name}: {measured}", file=sys.stderr)
            for at, (name, table) in enumerate(RECORDED.items()):
                measured, _ = measure(Path(folder) / f"{number}-{at}-none", table, options.rows)
                keep_least(without, name, measured)
                looked_up = {**table, "changelog-producer": "lookup"}
                measured, arrow = measure(Path(folder) / f"{number}-{at}-lookup", looked_up, options.rows)
                keep_least(recorded, name, measured)
                keep_least(by_arrow, name, arrow)
                print(f"{name}, changelog: {measured}", file=sys.stderr)
    command = shlex.join(["python", "-m", "benchmarks.engines", *sys.argv[1:]])
    lines = report(hardware(about), command, options.rows, found, fetched)
    text = "\n".join([*lines, *report_of_changelogs(without, recorded, by_arrow)]) + "\n"
    options.out.write_text(text)
    print(text)


def keep_least(found: Seconds, name: str, measured: Mapping[str, float]) -> None:
    best = found.setdefault(name, dict(measured))
    found[name] = {work: min(best[work], measured[work]) for work in WORKS}


def measure(path: Path, options: Mapping[str, str], rows: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the processor seconds of the compactions of a new table, and what Arrow takes for `also_read`."""
    table = Table.create(path, COLUMNS, primary_key="k", options=options)
    values, found, by_arrow = (
        np.random.default_rng(1),
        dict.fromkeys(WORKS, math.inf),
        dict.fromkeys(WORKS, math.inf),
    )
    table.upsert(columns_of(np.arange(rows), values))
    table.compact(full=True)
    for work in WORKS:
        columns = [] if work == "full" else also_read(options)
        for _ in range(TIMES.get(work, 1)):
            write(table, rows, SHARES.get(work, SHARES["a tenth"]), values)
            seconds, arrow = seconds_of(table, columns, full=work == "full")
            found[work], by_arrow[work] = min(found[work], seconds), min(by_arrow[work], arrow)
            table.compact(full=True)
    return found, by_arrow


def also_read(options: Mapping[str, str]) -> list[str]:
    """Return the columns of the large run that a compaction of level 0 reads, and the one it is compared with does not.

    One with a changelog is compared with one without it, another with that of deduplicate.
    """
    values = ["g", "a", "b", "s"]
    computes = options.get("merge-engine") in ("partial-update", "aggregation")
    if "changelog-producer" not in options:
        return values if computes else []
    if options["deletion-vectors.enabled"] == "false":
        return ["_KEY_k", "_SEQUENCE_NUMBER", *values]
    if computes:
        return ["_SEQUENCE_NUMBER"]
    return values[1:] if "sequence.field" in options else ["_SEQUENCE_NUMBER", *values]


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


def seconds_of(table: Table, columns: Sequence[str], *, full: bool) -> tuple[float, float]:
    """Return the processor seconds of a compaction, and those that Arrow takes to decode ``columns`` of the large run
    and to encode the changelog.
    """
    there = changelog_files(table)
    (large,) = table.files().filter(pc.field("level") == LAST_LEVEL).column("file_name").to_pylist()
    began = time.process_time()
    assert table.compact(full=full) is not None
    seconds = time.process_time() - began
    recorded = [pq.read_table(path) for path in changelog_files(table) - there]
    began = time.process_time()
    if columns:
        pq.ParquetFile(Path(table.path, "bucket-0", large), page_checksum_verification=True).read(
            columns=columns, use_threads=False
        )
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


def report(machine: str, command: str, rows: int, found: Seconds, fetched: Seconds) -> Sequence[str]:
    """Return the lines of the first part of the report."""
    baseline = found[BASELINE]
    lines = [
        "# Compactions by merge engine",
        "",
        f"Made by `{command}` on {machine}: {rows:,} rows in the large run, {WRITES} writes.",
        "Processor seconds, and in brackets the ratio to deduplicate, and the least that it can be with Arrow:",
        "deduplicate, and Arrow's decoding of the columns that are fetched.",
        "",
        f"| engine | {' | '.join(WORKS)} |",
        f"| --- |{' --- |' * len(WORKS)}",
    ]
    above = []
    for name, seconds in found.items():
        cells = []
        for work in WORKS:
            ratio = seconds[work] / baseline[work]
            arrow = fetched[name][work] / baseline[work]
            least = f"; {1 + arrow:.2f}" if also_read(ENGINES[name]) and work in SHARES else ""
            above += [f"{name}, {work}"] if ratio > GOAL else []
            cells.append(f"{seconds[work]:.2f} ({ratio:.2f}{least})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    verdict = f"not met by {'; '.join(above)}" if above else "met by all"
    return [*lines, "", f"The goal is at most {GOAL:g} times deduplicate's: {verdict}."]


def report_of_changelogs(without: Seconds, recorded: Seconds, by_arrow: Seconds) -> Sequence[str]:
    """Return the lines of the second part of the report."""
    lines = [
        "",
        "## With a lookup changelog",
        "",
        "Processor seconds without and with it, and in brackets the ratio, and the least that it can be with Arrow:",
        "the compaction without it, and Arrow's part of the changelog.",
        "",
        f"| table | {' | '.join(WORKS)} |",
        f"| --- |{' --- |' * len(WORKS)}",
    ]
    met, impossible = [], []
    for name in recorded:
        cells = []
        for work in WORKS:
            before, after, arrow = (one[name][work] for one in (without, recorded, by_arrow))
            least = (before + arrow) / before
            met += [f"{name}, {work}"] if after <= CHANGELOG_GOAL * before else []
            impossible += [f"{name}, {work}"] if least > CHANGELOG_GOAL else []
            cells.append(f"{before:.2f}, {after:.2f} ({after / before:.2f}; {least:.2f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [
        *lines,
        "",
        f"The goal is at most {CHANGELOG_GOAL:g} times the compaction without it.",
        f"Met by: {'; '.join(met) or 'nothing'}.",
        f"Out of reach with Arrow for: {'; '.join(impossible) or 'nothing'}.",
    ]


if __name__ == "__main__":
    main()
