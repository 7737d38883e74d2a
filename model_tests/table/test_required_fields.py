"""A ROW that may be null has fields that may not: whatever makes it null, the table can be written and read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import HudiTable, InvalidRequestError, Table
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

TYPES: dict[str, tuple[str, Any]] = {
    "row": ("ROW<x INT NOT NULL>", {"x": 1}),
    "row in row": ("ROW<y ROW<x STRING NOT NULL>>", {"y": {"x": "a"}}),
    "not null": ("ROW<y ROW<x INT NOT NULL> NOT NULL> NOT NULL", {"y": {"x": 1}}),
    "every kind": (
        "ROW<a ARRAY<INT NOT NULL> NOT NULL, m MAP<INT, INT NOT NULL> NOT NULL, d DECIMAL(9, 2) NOT NULL, "
        "b BYTES NOT NULL, t TIMESTAMP(9) NOT NULL, n INT>",
        None,
    ),
    "in a list": ("ROW<a ARRAY<ROW<x INT NOT NULL>>>", {"a": [{"x": 1}, None]}),
    "in a map": ("ROW<m MAP<INT, ROW<x INT NOT NULL>>>", {"m": [(1, {"x": 1}), (2, None)]}),
}
DELETIONS: dict[str, Callable[[Any], object]] = {
    "by key": lambda table: table.delete([{"id": 1}]),
    "by condition": lambda table: table.delete(where="id = 1"),
    "by merge": lambda table: table.merge([{"id": 1}], on="id").when_matched_delete().execute(),
}


def made(path: Path, kind: str, **options: Any) -> Table:
    return Table.create(path / "t", f"id INT, r {kind}", **{"primary_key": "id", **options})


def rows_of(table: Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda row: int(row["id"]))


@covers("TBL-4")
@pytest.mark.parametrize("how", DELETIONS)
@pytest.mark.parametrize("what", TYPES)
def test_a_row_with_required_fields_is_deleted(tmp_path: Path, what: str, how: str) -> None:
    kind, value = TYPES[what]
    table = made(tmp_path, kind)
    table.upsert([{"id": 1, "r": value}, {"id": 2, "r": value}])
    DELETIONS[how](table)
    assert rows_of(table) == [{"id": 2, "r": value}]
    table.compact(full=True)
    assert rows_of(table) == [{"id": 2, "r": value}]
    assert not table.check().errors


@covers("TBL-4", "TBL-21")
@pytest.mark.spark
@pytest.mark.parametrize("how", DELETIONS)
@pytest.mark.parametrize("what", ["row", "row in row"])
def test_a_row_with_required_fields_is_deleted_on_spark(tmp_path: Path, what: str, how: str) -> None:
    kind, value = TYPES[what]
    table = made(tmp_path, kind, spark=spark_session(), runner="spark")
    table.upsert([{"id": 1, "r": value}, {"id": 2, "r": value}, {"id": 3, "r": None}])
    DELETIONS[how](table)
    assert rows_of(table) == [{"id": 2, "r": value}, {"id": 3, "r": None}]


@covers("APP-12")
@pytest.mark.parametrize("how", ["by condition", "by merge"])
def test_a_row_with_required_fields_is_deleted_from_an_append_table(tmp_path: Path, how: str) -> None:
    table = made(tmp_path, "ROW<x INT NOT NULL>", primary_key=None)
    table.append([{"id": 1, "r": {"x": 1}}, {"id": 2, "r": None}])
    DELETIONS[how](table)
    assert rows_of(table) == [{"id": 2, "r": None}]


def test_a_row_with_required_fields_is_deleted_from_a_hudi_table(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", "id STRING, r ROW<x INT NOT NULL>", key="id")
    table.upsert([{"id": "1", "r": {"x": 1}}, {"id": "2", "r": None}])
    table.delete([{"id": "1"}])
    table.compact()
    assert table.to_arrow(columns=["id", "r"]).to_pylist() == [{"id": "2", "r": None}]


@covers("MRG-9")
@pytest.mark.parametrize("function", ["last_value", "last_non_null_value"])
def test_an_aggregate_may_be_a_null_row_with_required_fields(tmp_path: Path, function: str) -> None:
    options = {"merge-engine": "aggregation", "fields.r.aggregate-function": function}
    table = made(tmp_path, "ROW<x INT NOT NULL>", options=options)
    table.upsert([{"id": 1, "r": {"x": 1}}])
    table.write_changes([{"id": 1, "r": {"x": 1}, "k": "-U"}], row_kind="k")
    assert rows_of(table) == [{"id": 1, "r": None}]
    table.compact(full=True)
    assert rows_of(table) == [{"id": 1, "r": None}]


@covers("CHG-11")
@pytest.mark.parametrize("producer", ["input", "lookup", "full-compaction"])
def test_a_changelog_has_null_rows_with_required_fields(tmp_path: Path, producer: str) -> None:
    table = made(tmp_path, "ROW<x INT NOT NULL>", options={"changelog-producer": producer})
    table.upsert([{"id": 1, "r": {"x": 1}}, {"id": 2, "r": None}])
    table.delete([{"id": 1}])
    table.compact(full=True)
    assert {"_row_kind": "+I", "id": 2, "r": None} in table.changes(0).to_pylist()


@covers("META-42")
@pytest.mark.parametrize("key", ["id", None])
def test_rows_older_than_a_row_with_required_fields_are_read_and_compacted(
    tmp_path: Path, key: str | None
) -> None:
    table = Table.create(tmp_path / "t", "id INT, q ROW<y INT>", primary_key=key)
    write = Table.upsert if key else Table.append
    write(table, [{"id": 1, "q": None}, {"id": 2, "q": {"y": 1}}])
    first = tmp_path / "t/schema/schema-0"
    schema = json.loads(first.read_bytes())
    del schema["pktable.crc32"]
    (q,) = (field for field in schema["fields"] if field["name"] == "q")

    def added(number: int, name: str) -> dict[str, Any]:
        inside = [{"id": number + 1, "name": "x", "type": "INT NOT NULL"}]
        return {"id": number, "name": name, "type": {"type": "ROW", "fields": inside}}

    q["type"]["fields"].append(added(10, "z"))
    schema |= {"id": 1, "highestFieldId": 20, "fields": [*schema["fields"], added(12, "r")]}
    first.with_name("schema-1").write_text(json.dumps(schema))
    table = Table.open(tmp_path / "t")
    expected = [{"id": 1, "q": None, "r": None}, {"id": 2, "q": {"y": 1, "z": None}, "r": None}]
    assert rows_of(table) == expected
    new = {"id": 3, "q": {"y": 1, "z": {"x": 1}}, "r": {"x": 1}}
    write(table, [new])
    table.compact(full=True)
    assert rows_of(table) == [*expected, new]
    assert table.to_arrow().cast(table.schema.arrow_schema).num_rows == 3


@covers("META-42", "TBL-63")
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("MAP<STRING, ROW<a INT>> NOT NULL", "column m: MAP<STRING, ROW<`c` INT>> NOT NULL is null in"),
        ("ROW<a INT, d INT>", "field c of a ROW: INT NOT NULL is null in rows of a data file"),
    ],
)
def test_what_a_file_lacks_is_refused_by_name_if_it_may_not_be_null(
    tmp_path: Path, kind: str, message: str, format: str
) -> None:
    table = Table.create(tmp_path, f"k INT, m {kind}", primary_key="k", options={"file.format": format})
    table.upsert([{"k": 1, "m": [("x", {"a": 1})] if "MAP" in kind else {"a": 1, "d": None}}])
    latest = tmp_path / "schema/schema-0"
    schema = json.loads(latest.read_bytes())
    del schema["pktable.crc32"]
    m = schema["fields"][1]["type"]
    added = {"id": 9, "name": "c", "type": "INT" if "MAP" in kind else "INT NOT NULL"}
    (m["value"] if "MAP" in kind else m)["fields"][0] = added
    schema |= {"id": 1, "highestFieldId": 9}
    latest.with_name("schema-1").write_text(json.dumps(schema))
    table = Table.open(tmp_path)
    for work in (table.to_arrow, lambda: table.update({"m": "m"}, where="k = 1")):
        with pytest.raises(InvalidRequestError, match=message):
            work()
    table.alter(add={"z": "INT"})  # TBL-63 is about what the change itself drops
