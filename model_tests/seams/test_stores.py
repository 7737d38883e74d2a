"""A table lives on any `FileIO`."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, NotATableError, Table
from pktable_spec.covers import covers

from model_tests.seams.memory_store import MemoryFileIO

ROOT = "warehouse/cities"


def filled(store: MemoryFileIO) -> Table:
    table = Table.create(
        ROOT,
        "id BIGINT, city STRING, region STRING",
        primary_key=["id", "region"],
        partition_by=["region"],
        options={"deletion-vectors.enabled": "true"},
        store=store,
    )
    table.upsert(pa.table({"id": range(50), "city": ["a"] * 50, "region": ["x", "y"] * 25}))
    table.upsert(pa.table({"id": [3, 4], "city": ["b", "b"], "region": ["y", "x"]}))
    table.delete(where="id = 5")
    return table


@covers("CMT-1", "RD-1")
def test_a_table_is_written_compacted_and_read_on_any_store() -> None:
    store = MemoryFileIO()
    table = filled(store)
    assert table.count() == 49
    assert {row["id"]: row["city"] for row in table.to_arrow(where="id < 6").to_pylist()} == {
        0: "a",
        1: "a",
        2: "a",
        3: "b",
        4: "b",
    }
    again = Table.open(ROOT, store=store)
    assert again.to_arrow(snapshot=2).num_rows == 50
    again.compact(full=True)
    again.create_tag("kept", snapshot=2)
    again.expire_snapshots(retain_last=1)
    assert again.to_arrow(tag="kept").num_rows == 50
    assert not [one for one in again.check().findings if one.severity == "error"]
    assert all(path.startswith(ROOT + "/") for path in store.files)


def test_a_table_and_its_store_pickle_together() -> None:
    table = filled(MemoryFileIO())
    copy = pickle.loads(pickle.dumps(table))
    assert copy.to_arrow().sort_by("id") == table.to_arrow().sort_by("id")


def test_a_store_without_the_table_is_refused() -> None:
    with pytest.raises(NotATableError):
        Table.open(ROOT, store=MemoryFileIO())
    store = MemoryFileIO()
    filled(store)
    with pytest.raises(InvalidRequestError, match="already exists"):
        filled(store)
