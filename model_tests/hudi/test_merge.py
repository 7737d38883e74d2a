"""The rows of a file slice after its log: random logs against an oracle, and each rule by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format.types import DataType, Field
from pktable_hudi.format.delete_content import Delete
from pktable_hudi.format.log_block import HeaderKey, LogBlock
from pktable_hudi.log_rows import Wanted, block_rows
from pktable_hudi.log_scan import PlacedBlock
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from model_tests.hudi.made_tables import OWN, MadeTable, Row, at_positions, instant, row, schema_of

# The oracle: one key at a time, one record at a time, as Hudi's mergers do it.


@dataclass
class Known:
    """The state of a key. ``row``: the columns, None for a delete. ``ts``: None for a delete by commit time."""

    row: dict[str, Any] | None
    ts: int | None


def completed(high: Known, low: Known) -> Known:
    if high.row is None or low.row is None:
        return high
    return Known({**low.row, **high.row}, high.ts)


def folded(old: Known, new: Known, *, in_delete_block: bool, by_event_time: bool) -> Known:
    if by_event_time:
        if in_delete_block:
            wins = old.ts is not None and (new.ts is None or new.ts >= old.ts)
        else:
            wins = old.ts is None or new.ts is None or new.ts >= old.ts
    else:
        wins = True
    return completed(new, old) if wins else completed(old, new)


def merged(base: Sequence[Row], log: Sequence[tuple[str, Any]], by_event_time: bool) -> dict[str, Any]:
    """The value of each key. ``log``: ("rows", rows) or ("deletes", (key, ts or None)s), oldest first."""
    known: dict[str, Known] = {}
    for kind, records in log:
        for one in records:
            if kind == "rows":
                key, new = one["k"], Known(dict(one), one["ts"])
            else:
                key, new = one[0], Known(None, one[1])
            old = known.get(key)
            in_delete_block = kind == "deletes"
            known[key] = (
                new
                if old is None
                else folded(old, new, in_delete_block=in_delete_block, by_event_time=by_event_time)
            )
    rows = {one["k"]: Known(dict(one), one["ts"]) for one in base}
    for key, new in known.items():
        rows[key] = (
            folded(rows[key], new, in_delete_block=False, by_event_time=by_event_time) if key in rows else new
        )
    return {key: one.row.get("v") for key, one in rows.items() if one.row is not None}


KEYS = st.sampled_from(["a", "b", "\U0001f600"])
TIMES = st.integers(-1, 3)
ROWS = st.builds(row, KEYS, TIMES, st.integers(0, 99))
PARTIAL = st.builds(lambda k, ts: {"k": k, "ts": ts}, KEYS, TIMES)
DELETES = st.tuples(KEYS, st.none() | TIMES)
LOGS = st.lists(
    st.tuples(st.just("rows"), st.lists(ROWS, min_size=1, max_size=4))
    | st.tuples(st.just("rows"), st.lists(PARTIAL, min_size=1, max_size=2))
    | st.tuples(st.just("deletes"), st.lists(DELETES, min_size=1, max_size=3)),
    max_size=8,
)
BASES = st.lists(ROWS, max_size=4, unique_by=lambda one: one["k"])


def block(table: MadeTable, number: int, kind: str, records: Sequence[Any]) -> LogBlock:
    if kind == "deletes":
        found = [Delete(key, None, None if ts is None else "Long", ts) for key, ts in records]
        return table.deletes(number, *found)
    return table.data(number, records, columns=None if "v" in records[0] else ("k", "ts"))


@covers("LOG-28", "LOG-29", "LOG-30", "LOG-31")
@given(BASES, LOGS, st.booleans(), st.booleans())
def test_random_logs_are_merged_as_the_oracle_merges_them(
    tmp_path_factory: pytest.TempPathFactory,
    base: list[Row],
    log: list[Any],
    by_event_time: bool,
    has_base: bool,
) -> None:
    mode = "EVENT_TIME_ORDERING" if by_event_time else "COMMIT_TIME_ORDERING"
    table = MadeTable(tmp_path_factory.mktemp("t") / "t", settings={"hoodie.record.merge.mode": mode})
    if has_base:
        table.base(1, base)
        table.commit(1)
    for number, (kind, records) in enumerate(log, 2):
        table.log(number, block(table, number, kind, records))
        table.commit(number)
    if has_base or log:
        assert table.rows() == merged(base if has_base else [], log, by_event_time)


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    return MadeTable(tmp_path / "t")


def write(table: MadeTable, *blocks: LogBlock) -> None:
    """Put a base file with rows a, b and c of ordering value 5, then each block in a commit of its own."""
    table.base(1, [row("a", 5, 1), row("b", 5, 1), row("c", 5, 1)], row_group_size=2)
    table.commit(1)
    for number, one in enumerate(blocks, 2):
        table.log(number, one)
        table.commit(number)


@covers("LOG-28")
def test_by_event_time_the_greater_value_wins_and_of_equal_ones_the_later(table: MadeTable) -> None:
    write(
        table,
        table.data(2, [row("a", 4, 2), row("b", 5, 2), row("c", 6, 2)]),
        table.data(3, [row("c", 5, 3)]),
    )
    assert table.rows() == {"a": 1, "b": 2, "c": 2}


@covers("LOG-29")
def test_by_commit_time_the_later_wins(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t", settings={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    write(table, table.data(2, [row("a", 4, 2)]), table.deletes(3, Delete("b", None, "Long", 1)))
    assert table.rows() == {"a": 2, "c": 1}


@covers("LOG-11", "LOG-30")
def test_a_row_that_loses_after_a_delete_by_commit_time_brings_the_base_row_back(table: MadeTable) -> None:
    write(
        table,
        table.deletes(2, *(Delete(key, None, "Int", 0) for key in "abc")),
        table.data(3, [row("a", 3, 3), row("b", 7, 3)]),
    )
    assert table.rows(instant=instant(2)) == {}
    assert table.rows() == {"a": 1, "b": 3}


@covers("LOG-30")
def test_behind_a_delete_by_commit_time_the_next_row_counts_whatever_is_between(table: MadeTable) -> None:
    write(
        table,
        table.data(2, [row("d", 9, 1), row("e", 9, 1)]),
        table.deletes(3, Delete("d", None), Delete("e", None)),
        table.deletes(4, Delete("d", None, "Long", 5)),  # does not take the place of the delete before it
        table.data(5, [row("d", 3, 5), row("e", -1, 5)]),
    )
    assert table.rows() == {"a": 1, "b": 1, "c": 1, "d": 5, "e": 5}


@covers("LOG-31")
def test_a_partial_update_takes_nothing_from_before_a_delete(table: MadeTable) -> None:
    write(
        table,
        table.data(2, [row("d", 1, 1)]),
        table.deletes(3, Delete("d", None, "Long", 2)),
        table.data(4, [{"k": "d", "ts": 3}], columns=("k", "ts")),
    )
    assert table.rows()["d"] is None


@covers("LOG-28")
def test_a_delete_with_an_ordering_value_may_come_too_late(table: MadeTable) -> None:
    write(table, table.deletes(2, Delete("a", None, "Long", 4), Delete("b", None, "Long", 5)))
    assert table.rows() == {"a": 1, "c": 1}


@covers("LOG-28")
@pytest.mark.parametrize("kind", ["rows", "partial rows", "deletes"])
def test_a_block_without_records_changes_nothing(table: MadeTable, kind: str) -> None:
    columns = ("k", "ts") if kind == "partial rows" else ("k", "ts", "v")
    write(table, table.deletes(2) if kind == "deletes" else table.data(2, [], columns=columns))
    assert table.rows() == {"a": 1, "b": 1, "c": 1}


def test_a_delete_with_an_ordering_value_of_another_type_is_refused(table: MadeTable) -> None:
    write(table, table.deletes(2, Delete("a", None, "String", "x")))
    with pytest.raises(InvalidRequestError, match="ordering value of type String"):
        table.rows()


def test_a_delete_with_a_decimal_that_the_ordering_field_cannot_hold_is_damage(table: MadeTable) -> None:
    block = table.deletes(2, Delete("a", None, "Decimal", b"\x7f" * 16))
    ordering = Field(0, "d", DataType("DECIMAL", precision=4, scale=2))
    with pytest.raises(CorruptFileError, match=r"ordering value: expected DECIMAL\(4, 2\)"):
        block_rows(PlacedBlock(block, instant(2), "log"), Wanted((), ordering))


@covers("LOG-7")
def test_a_row_without_a_key_is_damage(table: MadeTable) -> None:
    write(table, table.data(2, [row("a", 6, 2), row("b", 6, 2, _hoodie_record_key=None)]))
    with pytest.raises(CorruptFileError, match="record key: expected a key, found null"):
        table.rows()


@covers("LOG-7")
def test_a_number_that_its_column_cannot_hold_is_damage_beside_a_map_too(table: MadeTable) -> None:
    names = ("k", "ts", "v", "m")
    schema = schema_of((*OWN, *names))
    kinds = {"ts": "int", "m": {"type": "map", "values": "int"}}
    for one in schema["fields"]:
        one["type"] = ["null", kinds.get(one["name"], one["type"][1])]
    header = {HeaderKey.SCHEMA: json.dumps(schema).encode(), HeaderKey.IS_PARTIAL: b""}
    write(table, table.data(2, [row("a", 7, 2)], columns=names, header=header))
    assert table.rows()["a"] == 2
    table.log(3, table.data(3, [row("a", 1 << 40, 3)], columns=names, header=header))
    table.commit(3)
    with pytest.raises(CorruptFileError, match="Avro records: expected values of their types"):
        table.rows()


@covers("LOG-31")
def test_a_partial_update_keeps_the_other_columns(table: MadeTable) -> None:
    write(
        table,
        table.data(2, [{"k": "a", "ts": 9}, {"k": "b", "ts": 1}, {"k": "d", "ts": 1}], columns=("k", "ts")),
    )
    found = {one["k"]: (one["ts"], one["v"]) for one in table.open().to_arrow().to_pylist()}
    assert found == {"a": (9, 1), "b": (5, 1), "c": (5, 1), "d": (1, None)}


def test_a_row_may_say_that_it_is_deleted(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t", columns=("k", "ts", "v", "_hoodie_is_deleted"))
    write(
        table,
        table.data(2, [row("a", 5, 2, _hoodie_is_deleted=True), row("b", 4, 2, _hoodie_is_deleted=True)]),
    )
    assert table.rows() == {"b": 1, "c": 1}
    assert table.rows(where="k <> 'c'") == {"b": 1}


@covers("LOG-32")
@pytest.mark.parametrize(
    ("positions", "base"), [((0, 2), 1), ((1, 2), 1), ((0, 7), 1), ((0,), 1), ((0, 2), 3)], ids=str
)
def test_wrong_positions_change_no_answer(table: MadeTable, positions: tuple[int, ...], base: int) -> None:
    write(table, table.data(2, [row("a", 6, 2), row("c", 6, 2)], header=at_positions(base, *positions)))
    assert table.rows() == {"a": 2, "b": 1, "c": 2}


@covers("LOG-32")
def test_a_key_without_a_position_is_found_among_others_that_have_one(table: MadeTable) -> None:
    write(
        table,
        table.data(2, [row("b", 6, 2)], header=at_positions(1, 1)),
        table.data(3, [row("c", 6, 3), row("d", 6, 3)]),
        table.deletes(4, Delete("b", None), header=at_positions(1, 1)),
    )
    assert table.rows() == {"a": 1, "c": 3, "d": 3}


@pytest.mark.parametrize("row_group_size", [1, 9])
def test_of_base_rows_with_one_key_the_first_is_merged(table: MadeTable, row_group_size: int) -> None:
    table.base(1, [row("a", 5, 1), row("b", 5, 1), row("a", 5, 2)], row_group_size=row_group_size)
    table.commit(1)
    table.log(2, table.data(2, [row("a", 6, 9)]))
    table.commit(2)
    assert table.open().to_arrow().column("v").to_pylist() == [9, 1, 2]


def test_blocks_of_parquet_and_of_avro_with_a_tail_are_merged_alike(table: MadeTable) -> None:
    write(table, table.parquet(2, [row("a", 6, 2)]), table.data(3, [row("b", 6, 3)], tail=b"index"))
    assert table.rows() == {"a": 2, "b": 3, "c": 1}


def test_a_column_that_was_added_is_null_in_older_files_and_one_that_was_widened_is_converted(
    tmp_path: Path,
) -> None:
    old = MadeTable(tmp_path / "t", columns=("k", "ts"))
    old.base(1, [{"k": "a", "ts": 1}, {"k": "b", "ts": 1}])
    old.commit(1)
    old.columns = ("k", "ts", "v", "s")
    old.log(2, old.data(2, [row("b", 2, 7, s="x")]))
    old.commit(2)
    found = old.open().to_arrow()
    assert sorted((one["k"], one["v"], one["s"]) for one in found.to_pylist()) == [
        ("a", None, None),
        ("b", 7, "x"),
    ]
    assert old.open().to_arrow(instant=instant(1)).column_names[-2:] == ["k", "ts"]


def test_a_record_without_a_key_or_an_ordering_field_is_damage(table: MadeTable) -> None:
    write(table, table.data(2, [{"k": "a"}], columns=("k",)))
    with pytest.raises(CorruptFileError, match="expected ts"):
        table.rows()
    other = table.data(3, [row("a", 1, 1, _hoodie_record_key=None)])
    table.log(3, other)
    table.commit(3)
    with pytest.raises(CorruptFileError):
        table.rows()


@covers("LOG-12")
def test_positions_that_are_damaged_are_named(table: MadeTable) -> None:
    write(table, table.data(2, [row("a", 6, 2)], header={HeaderKey.POSITIONS: b"?"}))
    with pytest.raises(CorruptFileError, match="record positions"):
        table.rows()
