"""``python -m benchmarks.thresholds``: both ways of the same work on either side of each threshold that chooses one.

A threshold is right if its first way is faster below it and the second one above it. It is not needed if a way is never
slower by much. Each row is one size of the work: the median of what a repetition takes in each way, by turns in one
process, and their ratio. Above 1 the second way is faster.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
import pyarrow as pa
from pktable import Table
from pktable.bucket import read
from pktable.datafile import parquet_pages, readers
from pktable.run import local

from benchmarks.machine import describe, hardware

RESULTS = Path(__file__).parent / "results"
ROUNDS = 7
NEVER, ALWAYS = 0, 1 << 62
MIB: Final = 1 << 20
KIB: Final = 1 << 10


@dataclass(frozen=True)
class Threshold:
    """One threshold. ``work``: yields what to do at each size, with the size in words.

    ``first``, ``second``: the values of ``name`` in ``module`` by which work of any size is done in either way.
    """

    module: Any
    name: str
    first: float
    second: float
    ways: tuple[str, str]
    work: Callable[[Path], Iterator[tuple[str, Callable[[], object]]]]

    def measured(self, folder: Path) -> Iterator[tuple[str, float, float]]:
        """Yield each size, and the milliseconds of both ways."""
        for size, work in self.work(folder):
            found: dict[float, list[float]] = {self.first: [], self.second: []}
            for _ in range(ROUNDS + 1):
                for value, spent in found.items():
                    with self._set(value):
                        spent.append(milliseconds(work))
            first, second = (statistics.median(spent[1:]) for spent in found.values())
            yield size, first, second

    def _set(self, value: float) -> ExitStack:
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(self.module, self.name, value))
            if self.module is local and self.name != "ONE_THREAD_BYTES":
                stack.enter_context(mock.patch.object(local, "ONE_THREAD_BYTES", NEVER))
            return stack.pop_all()


def milliseconds(work: Callable[[], object]) -> float:
    """Return how long ``work`` took."""
    gc.collect()
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def files_of(folder: Path, count: int, size: int) -> Table:
    """Return an append table of ``count`` data files of about ``size`` bytes each."""
    table = Table.create(
        folder,
        "k BIGINT, a DOUBLE, b STRING",
        primary_key=None,
        options={"bucket": "-1", "write-only": "true"},
    )
    random = np.random.default_rng(1)
    rows = max(1, size // 24)  # bytes of a row: of random numbers, and of a text that is short
    for _ in range(count):
        texts = [f"text {one}" for one in random.integers(0, 1000, rows)]
        table.append(pa.table({"k": random.integers(0, 1 << 60, rows), "a": random.random(rows), "b": texts}))
    return table


def whole_files(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Read tables of a few large files."""
    for total in (1, 2, 4, 8, 16, 64):
        table = files_of(folder / f"large-{total}", 4, total * MIB // 4)
        yield f"{total} MiB in 4 files", table.to_arrow


def small_files(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Read tables of many small files."""
    for size in (8, 32, 64, 128, 512):
        table = files_of(folder / f"small-{size}", 60, size * KIB)
        yield f"60 files of {size} KiB", table.to_arrow


def keyed(folder: Path, rows: int, columns: int) -> Table:
    """Return a table with one file at the top level, of even keys from 0 on."""
    names = [f"c{at}" for at in range(columns)]
    ddl = ", ".join(["k BIGINT", *(f"{name} DOUBLE" for name in names)])
    table = Table.create(folder, ddl, primary_key="k", options={"bucket": "1"})
    random = np.random.default_rng(1)
    keys = np.arange(rows) * 2
    table.upsert(pa.table({"k": keys, **{name: random.random(rows) for name in names}}))
    table.compact(full=True)
    return table


def shares(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Read ranges of keys, of a row group that is sorted by them."""
    rows = 1_000_000
    table = keyed(folder / "pages", rows, 6)
    for share in (5, 25, 50, 75, 95):
        where = f"k >= 40000 AND k < {40000 + 2 * rows * share // 100}"
        yield f"{share} % of the rows", partial(table.to_arrow, where=where)


def keys_first(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Look for a key that a file has not, and for one that it has."""
    for rows in (1 << 10, 1 << 13, 1 << 16, 1 << 19):
        table = keyed(folder / f"keys-{rows}", rows, 20)
        for called, key in (("an absent", rows + 1), ("a present", rows)):
            yield f"{rows:,} rows of 21 columns, {called} key", partial(table.to_arrow, where=f"k = {key}")


def wide(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Look for a key in files of many columns."""
    for columns in (20, 100, 200, 400, 800):
        table = keyed(folder / f"wide-{columns}", 30_000, columns)
        work = partial(table.to_arrow, columns=["k", "c1", "c2"], where="k = 30000")
        yield f"30,000 rows of {columns:,} columns, 3 of them read", work


THRESHOLDS: Final = (
    Threshold(local, "ONE_THREAD_BYTES", ALWAYS, NEVER, ("one thread", "several"), whole_files),
    Threshold(local, "SMALL_FILE_BYTES", ALWAYS, NEVER, ("one thread", "several"), small_files),
    Threshold(parquet_pages, "MOST_OF_GROUP", 1.0, 0.0, ("by pages", "whole row group"), shares),
    Threshold(read, "FEW_ROWS", ALWAYS, NEVER, ("keys first", "all columns at once"), keys_first),
    Threshold(readers, "MOST_CHUNKS", ALWAYS, NEVER, ("by pages", "without pages"), wide),
)


def report(
    about: dict[str, Any], found: Sequence[tuple[Threshold, float, list[tuple[str, float, float]]]]
) -> str:
    """Return the page."""
    lines = [
        "# Thresholds that choose a way of doing the same work",
        "",
        f"Milliseconds, the median of {ROUNDS} rounds in which both ways take turns. {hardware(about)}, Python "
        f"{about['python']}, pyarrow {about['pyarrow']}; load before: {about['load_before'][0]}. "
        "`python -m benchmarks.thresholds`. A ratio above 1 says that the second way is faster.",
    ]
    for one, value, sizes in found:
        first, second = one.ways
        lines += [
            "",
            f"## `{one.module.__name__}.{one.name}` = {value:,}",
            "",
            f"| work | {first} | {second} | ratio |",
            "| --- | ---: | ---: | ---: |",
            *(f"| {size} | {a:.1f} | {b:.1f} | {a / b:.2f} |" for size, a, b in sizes),
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thresholds", description=__doc__)
    parser.add_argument("--only", help="the name of one threshold; nothing is written")
    options = parser.parse_args()
    about, found = describe(), []
    for one in THRESHOLDS:
        if options.only in (None, one.name):
            value = getattr(one.module, one.name)
            with tempfile.TemporaryDirectory(prefix="pktable-thresholds-") as folder:
                found.append((one, value, list(one.measured(Path(folder)))))
    text = report(about, found)
    print(text)
    if options.only is None:
        (RESULTS / "thresholds.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
