"""Lookups of keys in the log files of a group: whoever wrote them, in whatever order."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable_hudi.format.key_summary import KeyBatch, KeyCollation
from pktable_hudi.format.log_block import encode_block
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

from model_tests.hudi.indexed_logs import add, based, index_of, located, names
from model_tests.hudi.made_tables import MadeTable, row


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    return based(tmp_path / "t")


@covers("LOG-45")
def test_a_commit_that_completes_late_is_found_by_the_index_of_a_later_one(table: MadeTable) -> None:
    add(table, 2, "late", completes=False)
    path = add(table, 3, "early")
    assert names(index_of(path).members) == [2]
    assert located(table, ["late", "early"]) == {"early"}
    table.commit(2, completed=4)
    assert located(table, ["late", "early"]) == {"early", "late"}


@covers("LOG-42")
def test_a_file_that_appears_after_an_index_was_made_is_looked_up_by_itself(table: MadeTable) -> None:
    block = table.data(3, [row("early", 3, 3)])
    blocks = table.index(3, block, ["early"])  # it does not know of the file of commit 2
    add(table, 2, "late", policy=None)
    table.log(3, *blocks)
    table.commit(3)
    assert located(table, ["late", "early", "other"]) == {"late", "early"}


@covers("LOG-42")
def test_a_file_that_grew_is_looked_up_by_itself(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t", 6)
    table.base(1, [row("base", 1, 1)])
    for number in (1, 2, 3, 4):
        table.commit(number)
    first = table.log(2, table.data(2, [row("a", 2, 2)]), base=1)
    table.log(3, *table.index(3, table.data(3, [row("b", 3, 3)]), ["b"]), base=1, version=2)
    assert located(table, ["a", "b", "c"]) == {"a", "b"}
    first.write_bytes(first.read_bytes() + encode_block(table.data(4, [row("c", 4, 4)])))
    assert located(table, ["a", "b", "c"]) == {"a", "b", "c"}


@covers("LOG-38", "LOG-40", "LOG-41")
def test_the_index_of_a_file_with_several_blocks_has_the_keys_of_all(table: MadeTable) -> None:
    first, last, later = (table.data(2, [row(key, 2, 2)]) for key in "abc")
    path = table.log(2, first, *table.index(2, last, ["a", "b"]))
    table.commit(2)
    assert located(table, ["a", "b", "c"]) == {"a", "b"}
    assert table.open().check().findings == []
    path.write_bytes(path.read_bytes() + encode_block(later))  # by a writer that knows no index
    assert located(table, ["a", "b", "c"]) == {"a", "b", "c"}


@covers("LOG-26", "LOG-41")
@pytest.mark.parametrize("has_index", [True, False])
def test_rolled_back_keys_are_not_found_behind_an_index(tmp_path: Path, has_index: bool) -> None:
    table = MadeTable(tmp_path / "t", 6)
    table.base(10, [row("base", 1, 1)])
    table.commit(10)
    table.commit(40)
    gone = table.data(5, [row("gone", 2, 2)])  # an instant before the timeline, as after an archival
    table.log(5, *(table.index(5, gone, ["gone"]) if has_index else [gone]), base=10)
    assert located(table, ["gone"]) == {"gone"}
    table.log(5, table.rollback(30, 5), base=10, version=2)
    assert located(table, ["gone"]) == set()
    last = table.data(40, [row("last", 2, 2)])
    table.log(40, *(table.index(40, last, ["last"]) if has_index else [last]), base=10, version=3)
    assert located(table, ["gone", "last"]) == {"last"}


def test_a_table_without_a_base_file_is_looked_up_by_its_log(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t")
    for number in (1, 2, 3):
        add(table, number, f"k{number}")
    assert located(table, ["k1", "k2", "k3", "k4"]) == {"k1", "k2", "k3"}
    assert table.open().locate(["k1"]).to_pylist() == [{"key": "k1", "partition": "", "group": "g"}]
    with pytest.raises(InvalidRequestError, match="empty"):
        table.open().locate([""])


@covers("LOG-41")
@pytest.mark.parametrize("key", ["", None, 5, b"base"])
def test_what_is_no_key_is_not_looked_up(table: MadeTable, key: object) -> None:
    with pytest.raises(
        InvalidRequestError, match=r"^locate: expected record keys, found an empty one or one"
    ):
        table.open().locate(["base", key])  # type: ignore[list-item]


@covers("LOG-16", "LOG-41")
@pytest.mark.parametrize(
    ("low", "high"), [("b", "é"), ("b", "\U00010000"), ("b", "\ue000"), ("b\U00010000", "c")]
)
def test_a_range_admits_the_keys_that_java_orders_into_it(low: str, high: str) -> None:
    """Keys of ASCII are compared by their bytes, others by their UTF-16 code units; the answers are the same."""
    keys = ["a", "b", "b~", "bb", "c", "z"]
    every = [*keys, "é", "\ue000", "\U00010000", "\uffff"]
    java = KeyCollation.JAVA
    for asked in (keys, every):
        batch = KeyBatch(asked)
        admitted = {asked[i] for i in batch.between(low, high, java, batch.numbers)}
        assert admitted == {key for key in asked if java.of(low) <= java.of(key) <= java.of(high)}
