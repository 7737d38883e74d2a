"""``python -m benchmarks.pages``: reads by key, with the page index of data files and without it.

The rows of one bucket are in one file, with a vector, as after a load and an upsert; or in about a thousand. The
figures are CPU milliseconds of this process, without Spark, of a table that is open and was read before. Both ways take
turns, and find the same rows.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pktable import Table
from pktable.datafile.readers import ParquetRows

from benchmarks.machine import cpu, describe, hardware

RESULTS = Path(__file__).parent / "results"
BOUNDS = ParquetRows.page_bounds
REPEATS = 5  # of a read in one measurement: the clock has hundredths of a second
LARGE, SMALL = "1 gb", "32 kb"
"""Sizes of files. The smaller one makes a thousand of two million rows."""
KEYS = {"BIGINT": lambda i: i, "STRING": lambda i: f"{i * 7919 % 1_000_003:07}-{i:08}"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the table (%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    options = parser.parse_args()
    about = describe()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="pktable-pages-") as folder:
        for kind, key in KEYS.items():
            for size in (LARGE, SMALL):
                table = filled(Path(folder) / f"{kind} {size}", kind, key, options.rows, size)
                files = table.files().num_rows
                where = f", {files:,} files" if files > 1 else ""
                for what, read in reads(table, key, options.rows).items():
                    found[f"{kind}{where}, {what}"] = measured(read, options.rounds)
    text = "\n".join(report(about, options, found)) + "\n"
    (options.out / "pages.md").write_text(text)
    print(text)


def filled(path: Path, kind: str, key: Callable[[int], Any], rows: int, size: str) -> Table:
    """Return a table of ``rows`` rows in files of a size, of which a fiftieth was written twice."""
    table = Table.create(
        path,
        f"k {kind}, a BIGINT, b STRING, c DOUBLE",
        primary_key=["k"],
        options={"deletion-vectors.enabled": "true", "bucket": "1", "target-file-size": size},
    )
    draw = np.random.default_rng(1)
    for every in (1, 50):
        numbers = range(0, rows, every)
        table.upsert(
            pa.table(
                {
                    "k": [key(i) for i in numbers],
                    "a": draw.integers(0, 1 << 40, len(numbers)),
                    "b": [f"some text of row {i}, and {i * 7919 % 1_000_003}" for i in numbers],
                    "c": draw.random(len(numbers)),
                }
            )
        )
    return table


def reads(table: Table, key: Callable[[int], Any], rows: int) -> dict[str, Callable[[], pa.Table]]:
    """Return the reads by name."""
    every = sorted(key(i) for i in range(0, rows, rows // 1000))
    some, first, last = every[::100], every[500], every[501]
    return {
        "one key": lambda: table.to_arrow(where=f"k = {some[5]!r}"),
        "one key, one column": lambda: table.to_arrow(where=f"k = {some[5]!r}", columns=["a"]),
        "10 keys": lambda: table.to_arrow(where=f"k IN ({', '.join(map(repr, some))})"),
        "a thousandth of the keys": lambda: table.to_arrow(where=f"k BETWEEN {first!r} AND {last!r}"),
        "half of the keys": lambda: table.to_arrow(where=f"k < {every[500]!r}"),
        "a value without order": lambda: table.to_arrow(where="a < 1000000"),
    }


def measured(read: Callable[[], pa.Table], rounds: int) -> dict[str, float]:
    """Return the medians of CPU milliseconds of ``read``, with the page index and without."""
    times: dict[str, list[float]] = {"with": [], "without": []}
    for _ in range(rounds):
        found = {}
        for way, answers in times.items():
            with mock.patch.object(ParquetRows, "page_bounds", BOUNDS if way == "with" else no_bounds):
                found[way] = read()
                answers.append(cpu(lambda: [read() for _ in range(REPEATS)]) * 1000 / REPEATS)
        assert found["with"].equals(found["without"]), "both ways find the same rows"
    return {way: statistics.median(answers) for way, answers in times.items()}


def no_bounds(*_: object) -> dict[str, Any]:
    """Say that no page has bounds, as a file without a page index does."""
    return {}


def report(
    about: Mapping[str, Any], options: argparse.Namespace, found: Mapping[str, Mapping[str, float]]
) -> Iterator[str]:
    yield "# Reads with the page index"
    yield ""
    yield (
        f"{options.rows:,} rows of four columns in one bucket, with a deletion vector; CPU milliseconds, medians of "
        f"{options.rounds} rounds in which both ways take turns, without Spark. {hardware(about)}, Python "
        f"{about['python']}, pyarrow {about['pyarrow']}; load before: {about['load_before'][0]}. "
        "`python -m benchmarks.pages`."
    )
    yield ""
    yield "| key, condition | with the page index | row groups alone | ratio |"
    yield "| --- | ---: | ---: | ---: |"
    for what, times in found.items():
        ratio = times["without"] / max(times["with"], 0.1)
        yield f"| {what} | {times['with']:,.1f} | {times['without']:,.1f} | {ratio:,.1f} |"


if __name__ == "__main__":
    main()
