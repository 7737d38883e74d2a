"""Tables that we write are read to the same rows by Hudi on Spark and by hudi-rs, and Hudi on Spark writes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pktable import HudiTable
from pktable_spec.covers import covers

from model_tests.hudi.dying_store import DyingStore, Killed
from model_tests.hudi.written_tables import tiny_groups
from model_tests.interop.environments import HUDI_RUST, HUDI_SPARK, set_up
from model_tests.interop.peers import Peer, PeerError

pytestmark = pytest.mark.deep("Hudi's own readers do not read what is written")

COLUMNS = "k STRING, ts BIGINT, v INT, d DECIMAL(9, 2), s STRING, x DOUBLE, b BOOLEAN, l ARRAY<STRING>"
SPARK_COLUMNS = "k string, ts long, v int, d decimal(9,2), s string, x double, b boolean, l array<string>"
PLAIN = ["k", "ts", "v", "s", "x", "b", "l", "_hoodie_record_key", "_hoodie_commit_time"]
"""The columns that every reader spells in the same way."""


@pytest.fixture(scope="module")
def spark() -> Iterator[Peer]:
    yield from _peer(HUDI_SPARK)


@pytest.fixture(scope="module")
def rust() -> Iterator[Peer]:
    yield from _peer(HUDI_RUST)


def _peer(name: str) -> Iterator[Peer]:
    starts, reasons = set_up([name])
    if name not in starts:
        pytest.skip(f"{name} cannot be set up: {reasons[name]}")
    peer = Peer(name, starts[name])
    yield peer
    peer.stop()


def rows(count: int, ts: int) -> list[dict[str, Any]]:
    """So many rows; some values are null, and some keys beyond ASCII."""
    return [
        {
            "k": f"kéy-{i:03}" if i % 3 else f"k\U0001f600-{i:03}",
            "ts": ts + i % 2,
            "v": i * ts if i % 5 else None,
            "d": None,
            "s": "é" * (i % 4) if i % 7 else None,
            "x": i / 4,
            "b": i % 2 == 0,
            "l": ["a", "b"][: i % 3],
        }
        for i in range(count)
    ]


def ours(table: HudiTable, **options: Any) -> list[list[str]]:
    found = HudiTable.open(table.path).to_arrow(columns=PLAIN, **options).to_pylist()
    return sorted([json.dumps(value, sort_keys=True) for value in one.values()] for one in found)


def written(path: Path, *, by_event_time: bool) -> HudiTable:
    """A table of several file groups, with updates, late rows, deletes and a compaction in the middle."""
    table = tiny_groups(
        HudiTable.create(path, COLUMNS, key="k", ordering="ts" if by_event_time else None), rows=20
    )
    table.upsert(rows(30, 5))
    table.upsert(rows(45, 6)[20:])
    table.upsert(rows(12, 1))
    table.delete([{"k": one["k"]} for one in rows(5, 0)])
    table.compact()
    table.upsert(rows(60, 9)[40:])
    table.delete([{"k": one["k"]} for one in rows(44, 0)[41:]])
    table.upsert(rows(3, 9))
    return table


@covers("LOG-38", "LOG-56", "LOG-60", "LOG-61", "LOG-62")
@pytest.mark.parametrize("by_event_time", [True, False])
def test_others_read_the_rows_that_we_wrote_at_every_instant(
    tmp_path: Path, spark: Peer, rust: Peer, by_event_time: bool
) -> None:
    table = written(tmp_path / "t", by_event_time=by_event_time)
    table.plan_compaction()
    table.upsert(rows(2, 11))
    for instant in [*table.history()["instant"].to_pylist(), ""]:
        expected = ours(table, instant=instant or None)
        assert spark.ask("rows", table=table.path, columns=PLAIN, instant=instant) == expected, instant
        assert rust.ask("rows", table=table.path, columns=PLAIN, instant=instant) == expected, instant
    expected = ours(table, read_optimized=True)
    assert spark.ask("rows", table=table.path, columns=PLAIN, query="read_optimized") == expected


@covers("LOG-52", "LOG-53", "LOG-56")
def test_hudi_on_spark_writes_on_and_we_read_and_write_on(tmp_path: Path, spark: Peer) -> None:
    table = written(tmp_path / "t", by_event_time=True)
    table.compact()  # so that Hudi's index, which looks into base files only, finds every key
    for number, operation in enumerate(("upsert", "delete", "upsert")):
        given = [[*one.values()] for one in rows(70, 20 + number)[number * 10 : 65 + number]]
        arguments = {"schema": SPARK_COLUMNS, "operation": operation, "name": "t"}
        spark.ask("write", table=table.path, rows=given[:8] if operation == "delete" else given, **arguments)
        assert spark.ask("rows", table=table.path, columns=PLAIN) == ours(table)
        table.upsert(rows(75, 30 + number)[60:])
        assert spark.ask("rows", table=table.path, columns=PLAIN) == ours(table)
        table.compact()
        assert spark.ask("rows", table=table.path, columns=PLAIN) == ours(table)
    assert table.check().findings == []


@covers("LOG-53", "LOG-65")
def test_hudi_on_spark_rolls_a_writer_of_ours_back_that_died_and_compacts(
    tmp_path: Path, spark: Peer
) -> None:
    table = written(tmp_path / "t", by_event_time=True)
    before = ours(table)
    with pytest.raises(Killed):
        tiny_groups(HudiTable.open(table.path, store=DyingStore(9)), rows=20).upsert(rows(60, 40))
    (dead,) = table.timeline().pending
    assert spark.ask("rows", table=table.path, columns=PLAIN) == before
    row = [[*rows(8, 50)[7].values()]]
    arguments = {"schema": SPARK_COLUMNS, "operation": "upsert", "name": "t"}
    spark.ask("write", table=table.path, rows=row, **arguments)
    assert not table.timeline().pending
    assert not [path for path in (tmp_path / "t").iterdir() if dead in path.name]
    expected = ours(table)
    assert spark.ask("rows", table=table.path, columns=PLAIN) == expected
    assert spark.ask("compact", table=table.path) >= 0
    assert ours(table) == expected
    assert {one["kind"] for one in table.files().to_pylist()} == {"base"}


TIDY = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}


@covers("LOG-66", "LOG-68", "LOG-70", "LOG-71", "LOG-72")
def test_others_read_what_we_have_cleaned_and_archived_and_we_what_hudi_has(
    tmp_path: Path, spark: Peer, rust: Peer
) -> None:
    table = written(tmp_path / "t", by_event_time=True)
    table.compact()
    table.upsert(rows(3, 10))
    table.upsert(rows(4, 11))
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    for number in range(3):
        assert table.clean(retain_commits=2)
        assert table.archive(retain_writes=3, fewest=1)
        for instant in [*table.history()["instant"].to_pylist()[-2:], ""]:
            expected = ours(table, instant=instant or None)
            assert spark.ask("rows", table=table.path, columns=PLAIN, instant=instant) == expected, instant
            assert rust.ask("rows", table=table.path, columns=PLAIN, instant=instant) == expected, instant
        table.compact()  # so that Hudi's index finds every key
        for i in range(4):
            given = [[*one.values()] for one in rows(70, 20 + 10 * number + i)[i * 10 : 65 + i]]
            arguments = {"schema": SPARK_COLUMNS, "operation": "upsert", "name": "t", "settings": TIDY}
            spark.ask("write", table=table.path, rows=given, **arguments)
            assert spark.ask("rows", table=table.path, columns=PLAIN) == ours(table)
        assert [one for one in timeline.glob("*_*.clean") if b"pktable" not in one.read_bytes()]
        table.upsert(rows(75, 28 + 10 * number)[60:])
        table.compact()
        table.upsert(rows(5, 29 + 10 * number))
        assert spark.ask("rows", table=table.path, columns=PLAIN) == ours(table)
        assert table.check().findings == []
    assert len(list((timeline / "history").glob("*_0.parquet"))) > 3


def test_an_error_of_a_peer_is_reported(spark: Peer, tmp_path: Path) -> None:
    with pytest.raises(PeerError):
        spark.ask("rows", table=str(tmp_path / "none"), columns=PLAIN)
