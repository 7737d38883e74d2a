"""Streams of tables whose columns are changed: each batch has the columns of the DataFrame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table, Warehouse
from pktable_spec.covers import covers
from pyspark.sql import types as st

from model_tests.changelog.tables import new_table, put
from model_tests.source.driven import Row, Stream, moved, read_all, source

CHANGES = {"read__changelog": "true"}
BIG = 1 << 40
ALTERED: list[Any] = [
    ({"add": "z STRING"}, (None,), {"v": 3, "z": "c"}, (3, "c")),
    ({"rename": {"v": "w"}}, (), {"w": 3}, (3,)),
    ({"widen": {"v": "BIGINT"}}, (), {"v": BIG}, (BIG,)),
]
"""An alteration, what it adds to older rows, what a later row has besides its id, and how it is read."""


def write(table: Table, **values: Any) -> None:
    """Write a row as other processes do, under the latest schema."""
    table = Table.open(table.path)
    names = [name for name in table.columns if name in values]
    types = {"id": pa.int64(), "z": pa.string()} | {"v": pa.int32() if values.get("v") != BIG else pa.int64()}
    rows = pa.table({name: pa.array([values[name]], types.get(name, pa.int32())) for name in names})
    table.upsert(rows) if table.schema.primary_keys else table.append(rows)


def today(table: Table) -> st.StructType:
    """Return the columns that a DataFrame of the latest changes has."""
    return source(table.path, **CHANGES).schema()


def begun(table: Table, schema: st.StructType, **options: Any) -> list[Row]:
    """Return the first batch of a stream whose DataFrame has these columns."""
    reader = source(table.path, **CHANGES, **options).streamReader(schema)
    start = reader.initialOffset()
    found = read_all(reader, reader.partitions(start, reader.latestOffset(start)), schema)
    return [tuple(row.values()) for row in found.to_pylist()]


@covers("CHG-39", "RD-14")
@pytest.mark.parametrize(
    "change", [{"rename": {"a": "b", "b": "a"}}, {"rename": {"b": "z"}, "add": "b STRING"}]
)
def test_columns_of_a_dataframe_stay_what_they_were_when_it_was_made(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, a STRING, b STRING", primary_key="id")
    table.upsert([{"id": 1, "a": "A", "b": "B"}])
    made = source(table.path, **CHANGES)
    schema = made.schema()
    made = moved(made)
    table.alter(**change)
    reader = made.streamReader(schema)
    start = reader.initialOffset()
    found = read_all(reader, reader.partitions(start, reader.latestOffset(start)), schema)
    assert found.to_pylist() == [{"_row_kind": "+I", "id": 1, "a": "A", "b": "B"}]
    made = source(table.path)
    schema = made.schema()
    table.alter(rename={"a": "b", "b": "a"})
    with pytest.raises(InvalidRequestError, match="is another one than it was"):
        moved(made).reader(schema).partitions()


@covers("CHG-39", "RD-14")
def test_options_that_change_do_not_make_a_table_another_one(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "lookup")
    put(table, ("+I", 1, 1))
    table.create_tag("first")
    table.alter(set_options={"snapshot.num-retained.max": "90"})
    latest = table.snapshots()[-1].id
    for options in (
        {"scan__snapshot_id": latest},
        {"scan__tag_name": "first"},
        {"incremental_between": f"0,{latest}"},
    ):
        made = source(table.path, **options)
        schema = made.schema()
        assert len(moved(made).reader(schema).partitions()) == 1
    stream = Stream(table.path, scan__mode="from-snapshot-full", scan__snapshot_id=latest, **CHANGES)
    assert stream.rest() == [("+I", 1, 1)]


@covers("CHG-39", "TBL-60")
def test_a_dataframe_of_a_table_reads_no_other_that_takes_its_place(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path)
    columns = "id BIGINT, v INT"
    lake.create_table("t", columns, primary_key="id").upsert([{"id": 1, "v": 1}])
    path = lake.path_of("t")
    made = source(path, **CHANGES), source(path)
    schemas = [one.schema() for one in made]
    lake.drop_table("t")
    lake.create_table("t", columns, primary_key="id", comment="another").upsert([{"id": 2, "v": 2}])
    reader = moved(made[0]).streamReader(schemas[0])
    with pytest.raises(InvalidRequestError, match="another table has taken its place"):
        reader.partitions(reader.initialOffset(), reader.latestOffset(reader.initialOffset()))
    with pytest.raises(InvalidRequestError, match="another table has taken its place"):
        moved(made[1]).reader(schemas[1]).partitions()


@pytest.fixture(params=["lookup", "none", "append"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    """Return a table with two rows, each of a snapshot that adds it."""
    if request.param == "append":
        table = Table.create(tmp_path / "t", "id BIGINT, v INT", primary_key=None)
    else:
        table = new_table(tmp_path / "t", request.param)
    write(table, id=1, v=1)
    write(table, id=2, v=2)
    return table


@covers("CHG-39")
@pytest.mark.parametrize(("alteration", "added", "later", "read"), ALTERED)
def test_a_stream_goes_on_after_the_table_was_altered(
    table: Table, alteration: dict[str, Any], added: Row, later: dict[str, Any], read: Row
) -> None:
    stream, others = Stream(table.path, **CHANGES), Stream(table.path, **CHANGES)
    assert sorted(stream.rest()) == sorted(others.rest()) == [("+I", 1, 1), ("+I", 2, 2)]
    write(table, id=4, v=4)
    table.alter(**alteration)
    stream.restart()
    assert stream.next() == [("+I", 4, 4, *added)]
    assert sorted(stream.batch(0)) == [("+I", 1, 1, *added), ("+I", 2, 2, *added)]
    new = Stream(table.path, **CHANGES)
    assert sorted(new.rest()) == [("+I", id, id, *added) for id in (1, 2, 4)]
    write(table, id=3, **later)
    assert stream.next() == new.next() == [("+I", 3, *read)]
    new = Stream(table.path, **CHANGES)
    assert sorted(new.rest()) == [
        ("+I", 1, 1, *added),
        ("+I", 2, 2, *added),
        ("+I", 3, *read),
        ("+I", 4, 4, *added),
    ]


@covers("CHG-39")
@pytest.mark.parametrize(
    ("alteration", "later", "read"),
    [
        ({"add": "z STRING"}, {"v": 3, "z": "c"}, 3),
        ({"rename": {"v": "w"}}, {"w": 3}, 3),
        ({"widen": {"v": "BIGINT"}}, {"v": 3}, 3),
        ({"drop": "v"}, {}, None),
    ],
)
def test_a_query_that_runs_goes_on_in_the_columns_with_which_it_started(
    table: Table, alteration: dict[str, Any], later: dict[str, Any], read: int | None
) -> None:
    stream, begins_later = Stream(table.path, **CHANGES), Stream(table.path, **CHANGES)
    stream.rest()
    write(table, id=4, v=4)
    table.alter(**alteration)
    assert stream.next() == [("+I", 4, 4)]
    write(table, id=3, **later)
    assert stream.next() == [("+I", 3, read)]
    assert sorted(begins_later.rest()) == [("+I", 1, 1), ("+I", 2, 2), ("+I", 3, read), ("+I", 4, 4)]


@covers("CHG-39")
@pytest.mark.parametrize("mode", ["from-snapshot", "from-snapshot-full"])
@pytest.mark.parametrize(("alteration", "added", "later", "read"), ALTERED)
def test_a_stream_from_a_snapshot_has_its_columns_or_those_of_today(
    table: Table, mode: str, alteration: dict[str, Any], added: Row, later: dict[str, Any], read: Row
) -> None:
    first = next(one.id for one in table.snapshots() if one.commit_kind == "APPEND")
    options = {"scan__mode": mode, "scan__snapshot_id": first}
    if mode == "from-snapshot-full":
        options["scan__snapshot_id"] = table.snapshots()[-1].id
    old = today(table)
    table.alter(**alteration)
    write(table, id=3, **later)
    expected = [("+I", 1, 1, *added), ("+I", 2, 2, *added), ("+I", 3, *read)]
    assert sorted(begun(table, today(table), **options)) == expected
    stream = Stream(table.path, **options, **CHANGES)
    assert stream.schema == old
    if read != (BIG,):
        assert sorted(stream.rest()) == [("+I", 1, 1), ("+I", 2, 2), ("+I", 3, 3)]
        return
    with pytest.raises(InvalidRequestError, match="a BIGINT of a data file is no INT"):
        stream.rest()


@covers("CHG-39")
def test_a_dataframe_from_before_a_rename_is_refused_by_name(table: Table) -> None:
    before = today(table)
    table.alter(rename={"v": "w"})
    message = "column v is not in the table; columns are id, w; if the table was altered after the DataFrame was made"
    with pytest.raises(InvalidRequestError, match=message):
        begun(table, before)


@covers("CHG-39", "RD-22")
def test_deletion_vectors_are_those_of_the_snapshot_and_columns_those_of_today(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "lookup")
    put(table, *(("+I", id, id) for id in range(2000)))
    put(table, ("-D", 1, None))
    deleted = table.snapshots()[-1].id
    assert table.files().column("deleted_row_count").to_pylist() == [1]
    table.compact(full=True)
    table.alter(add="z STRING", set_options={"deletion-vectors.enabled": "false"})
    found = begun(table, today(table), scan__mode="from-snapshot-full", scan__snapshot_id=deleted)
    assert sorted(found) == [("+I", id, id, None) for id in range(2000) if id != 1]
