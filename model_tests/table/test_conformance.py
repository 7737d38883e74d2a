"""Tables written by Paimon itself read, at every snapshot, to the rows that Paimon's own readers give.

Those of other merge engines too: with deletion vectors their merges are done when they are read.

Clauses covered are those whose truth a foreign writer shows: layouts, metadata and vectors made elsewhere.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pktable import Table
from pktable.run.spark.runner import SparkRunner
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.real_data import PAIMON, each_paimon_table, needs_shared

Rows = list[list[Any]]


def plain(value: Any) -> Any:
    """A value as the listings spell it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, (Decimal, dt.date, dt.datetime)) else value


def expected(table: Path) -> dict[int, tuple[int, Rows]]:
    """Return per snapshot the number of rows and the rows, of which a long listing has only the first.

    No other reader reads the ORC table; it is the result of the same operations as its Parquet twin.
    """
    table = Path(str(table).replace("/cpp/orc/", "/cpp/parquet/"))
    if "jvm-0.9" in table.parts:
        listing = json.loads((table.parents[1] / "expected" / f"{table.name}.json").read_text())
        return {
            int(s): (found["n"], [row[1:] for row in found["rows"]])
            for s, found in listing["snapshots"].items()
        }
    listings = [
        json.loads((table.parent / f"{table.name}.{reader}.json").read_text())
        for reader in ("rust", "pypaimon")
    ]
    usable = next(one for one in listings if all("rows" in found for found in one["snapshots"].values()))
    return {int(s): (found["n"], found["rows"]) for s, found in usable["snapshots"].items()}


def expect_every_snapshot(table: Table, path: Path) -> None:
    listed = expected(path)
    assert [snapshot.id for snapshot in table.snapshots()] == sorted(listed)
    for snapshot, (count, rows) in listed.items():
        found = [
            [plain(value) for value in row.values()] for row in table.to_arrow(snapshot=snapshot).to_pylist()
        ]
        assert len(found) == count == table.count(snapshot=snapshot)
        if len(rows) == count:
            assert sorted(found, key=repr) == sorted(rows, key=repr)
        else:
            assert all(row in found for row in rows)


@each_paimon_table()
@covers("RD-1", "RD-4", "META-22", "DVF-4", "DVF-5", "CMT-4", "META-7", "META-17")
def test_a_table_of_paimon_reads_here_as_it_does_there(table: Path) -> None:
    expect_every_snapshot(Table.open(table), table)


@each_paimon_table()
@pytest.mark.spark
@covers("RD-1", "RD-4", "RD-12", "META-17")
def test_a_table_of_paimon_reads_on_spark_as_it_does_there(table: Path) -> None:
    found = Table.open(table, spark=spark_session())
    # However tiny: what is not for Spark's own scan goes to executors.
    found.runner = SparkRunner(spark_session())
    expect_every_snapshot(found, table)


@needs_shared
@covers("RD-3", "MRG-9", "MRG-13")
@pytest.mark.parametrize("name", ["agg", "partialupd"])
def test_of_other_merge_engines_a_fresh_read_gives_what_the_next_compaction_gives(name: str) -> None:
    table = Table.open(PAIMON / "jvm-0.9/c.db" / name)
    pairs = [
        (one.id, two.id)
        for one, two in pairwise(table.snapshots())
        if (one.commit_kind, two.commit_kind) == ("APPEND", "COMPACT")
    ]
    assert pairs
    for before, after in pairs:
        fresh, compacted = table.to_arrow(snapshot=before, fresh=True), table.to_arrow(snapshot=after)
        assert sorted(map(repr, fresh.to_pylist())) == sorted(map(repr, compacted.to_pylist()))
