"""``python -m benchmarks.handover``: queries of DuckDB and polars through `Table.to_dataset`, next to their own scans.

Their own scans read the same data files and return deleted rows, too, so they do less. One percent of the rows of the
table were upserted after a full compaction: vectors delete the older rows. The floor is pyarrow's own dataset of the
same files, deleted rows and all: what an engine takes that gets its rows by Arrow. Milliseconds of the clock, the least
of the rounds, in turns; two threads each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
from pktable import Table

from benchmarks.machine import describe, hardware

RESULTS: Final = Path(__file__).parent / "results"
ROUNDS: Final = 7
GOAL: Final = 1.25
Measured = tuple[str, float, float, float]
SQL: Final = {
    "sum of a column": "SELECT sum(x), count(*) FROM {}",
    "group a range of keys": "SELECT v, sum(x) FROM {} WHERE k BETWEEN 1000 AND 50000 GROUP BY v",
    "one key": "SELECT * FROM {} WHERE k = 777",
    "all columns": "SELECT sum(k), sum(x), max(v), max(d) FROM {}",
}
LAZY: Final[dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]]] = {
    "sum of a column": lambda rows: rows.select(pl.col("x").sum()),
    "group a range of keys": lambda rows: (
        rows.filter(pl.col("k").is_between(1000, 50000)).group_by("v").agg(pl.col("x").sum())
    ),
    "one key": lambda rows: rows.filter(pl.col("k") == 777),
    "all columns": lambda rows: rows.select(
        pl.col("k").sum(), pl.col("x").sum(), pl.col("v").max(), pl.col("d").max()
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.handover", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the table (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pktable-handover-") as folder:
        table = made(folder, options.rows)
        measured = [*by_duckdb(table), *by_polars(table)]
    text = "\n".join(report(measured, options.rows)) + "\n"
    (options.out / "handover.md").write_text(text)
    print(text)


def made(folder: str, count: int) -> Table:
    """Make a table of ``count`` rows, a hundredth of them upserted again."""
    options = {"deletion-vectors.enabled": "true", "bucket": "2"}
    table = Table.create(
        f"{folder}/t", "k BIGINT, v STRING, x DOUBLE, d DATE", primary_key="k", options=options
    )
    draw = np.random.default_rng(1)
    table.upsert(rows(np.arange(count), draw))
    table.compact(full=True)
    table.upsert(rows(draw.choice(count, count // 100, replace=False), draw))
    return table


def rows(keys: Any, draw: np.random.Generator) -> pa.Table:
    texts = np.char.add("v", (keys % 1000).astype(str))
    days = pa.array((keys % 3000).astype(np.int32)).cast(pa.date32())
    return pa.table({"k": keys, "v": texts, "x": draw.random(len(keys)), "d": days})


def paths(table: Table) -> list[str]:
    return [path for split in table.scan().splits() for path in split.paths]


def by_duckdb(table: Table) -> list[Measured]:
    """Return the name of each query, and its milliseconds: through the dataset, by a scan of DuckDB, the floor."""
    connection = duckdb.connect()
    connection.execute("SET threads=2")
    ours = table.to_dataset()
    connection.register("ours", ours)
    connection.register("floor", ds.dataset(paths(table)))
    own = f"read_parquet({paths(table)})"
    return [
        (
            f"DuckDB: {name}",
            *in_turns(
                partial(_asked, connection, query.format("ours")),
                partial(_asked, connection, query.format(own)),
                partial(_asked, connection, query.format("floor")),
            ),
        )
        for name, query in SQL.items()
    ]


def by_polars(table: Table) -> list[Measured]:
    """Return the name of each query, and its milliseconds: through the dataset, by a scan of polars, the floor."""
    ours, own = pl.scan_pyarrow_dataset(table.to_dataset()), pl.scan_parquet(paths(table))
    floor = pl.scan_pyarrow_dataset(ds.dataset(paths(table)))
    return [
        (
            f"polars: {name}",
            *in_turns(*(partial(_collected, query, rows) for rows in (ours, own, floor))),
        )
        for name, query in LAZY.items()
    ]


def _asked(connection: Any, query: str) -> object:
    return connection.sql(query).fetchall()


def _collected(query: Callable[[pl.LazyFrame], pl.LazyFrame], rows: pl.LazyFrame) -> object:
    return query(rows).collect()


def in_turns(*works: Callable[[], object]) -> tuple[float, float, float]:
    """Return the least milliseconds of each piece of work."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS + 1):  # the first warms up
        for work, found in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            found.append((time.perf_counter() - began) * 1e3)
    first, second, third = (min(found[1:]) for found in times)
    return first, second, third


def report(measured: Sequence[Measured], count: int) -> list[str]:
    lines = [
        "# Queries of other engines through a dataset",
        "",
        (__doc__ or "").partition(": ")[2].strip(),
        "",
        f"{count:,} rows. {hardware(describe())}.",
        "",
        f"| query | through the dataset, ms | own scan, ms | ratio | goal {GOAL} | floor, ms | ratio to the floor |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for name, ours, own, floor in measured:
        met = "met" if ours / own <= GOAL else "missed"
        lines.append(
            f"| {name} | {ours:.1f} | {own:.1f} | {ours / own:.2f} | {met} | {floor:.1f} | {ours / floor:.2f} |"
        )
    return lines


if __name__ == "__main__":
    main()
