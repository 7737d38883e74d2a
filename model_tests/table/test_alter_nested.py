"""Changes of the fields inside of columns: old files are read right, whatever their format, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

COLUMNS = (
    "k INT, r ROW<a SMALLINT, b STRING>, l ARRAY<ROW<x INT, y ROW<z FLOAT>>>, m MAP<STRING, ROW<p DATE>>, "
    "i ARRAY<INT>"
)
ROW = {
    "k": 1,
    "r": {"a": 7, "b": "old"},
    "l": [{"x": 1, "y": {"z": 0.5}}, None],
    "m": [("one", {"p": None})],
    "i": [1, None],
}
CHANGED = {
    "k": 1,
    "r": {"c": 7, "n": None},
    "l": [{"x": 1, "y": {"z": 0.5, "w": None}}, None],
    "m": [("one", {"p": None, "q": None})],
    "i": [1, None],
}


def new_table(path: Path, **more: Any) -> Table:
    options = {
        "deletion-vectors.enabled": "true",
        "num-sorted-run.compaction-trigger": "9",
        **more.pop("options", {}),
    }
    table = Table.create(path, COLUMNS, primary_key=["k"], options=options, **more)
    Table.open(path).upsert([ROW])
    return table


def change(table: Table) -> None:
    table.alter(
        add={"r.n": "ARRAY<ROW<u INT>>", "l.element.y.w": "STRING", "m.value.q": "BIGINT"},
        rename={"r.a": "c"},
        drop="r.b",
        widen={"r.a": "BIGINT", "l.element.y.z": "DOUBLE", "i.element": "BIGINT"},
        comment={"l.element.x": "what"},
        move={"l.element.y": "FIRST", "m.value.p": "AFTER q", "r.n": "BEFORE c"},
    )


@covers("TBL-47", "TBL-39", "TBL-40", "TBL-41", "META-16", "META-42", "RD-14")
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_fields_change_and_old_rows_are_read_right(tmp_path: Path, format: str) -> None:
    table = new_table(tmp_path, options={"file.format": format})
    before, snapshot = table.schema, table.catalog.state().id
    change(table)
    assert table.to_arrow().to_pylist() == [CHANGED]
    assert table.to_arrow(snapshot=snapshot).to_pylist() == [ROW]
    r, items, m, i = (table.schema.field(name).type for name in "rlmi")
    assert str(r) == "ROW<`n` ARRAY<ROW<`u` INT>>, `c` BIGINT>"
    assert str(items) == "ARRAY<ROW<`y` ROW<`z` DOUBLE, `w` STRING>, `x` INT>>"
    assert (str(m), str(i)) == ("MAP<STRING, ROW<`q` BIGINT, `p` DATE>>", "ARRAY<BIGINT>")
    assert r.children[1].id == before.field("r").type.children[0].id
    assert items.children[0].type.children[1].description == "what"
    new = [
        r.children[0],
        r.children[0].type.children[0].type.children[0],
        items.children[0].type.children[0].type.children[1],
    ]
    assert len({one.id for one in new}) == 3
    assert min(one.id for one in new) > before.highest_field_id
    assert table.schema.highest_field_id == max(before.highest_field_id + 4, *(one.id for one in new))
    table.upsert([{**CHANGED, "k": 2, "r": {"c": 1 << 40, "n": [{"u": 3}]}}])
    table.alter(drop=["r.n"], add={"r.b": "BIGINT"}, move={"r.b": "FIRST"})  # c was first in the oldest file
    expected = [{**CHANGED, "r": {"c": 7, "b": None}}, {**CHANGED, "k": 2, "r": {"c": 1 << 40, "b": None}}]
    assert table.to_arrow().sort_by("k").to_pylist() == expected
    table.compact(full=True)
    assert Table.open(tmp_path).to_arrow().sort_by("k").to_pylist() == expected
    assert not table.check().findings


@covers("TBL-47", "TBL-41", "TBL-42", "TBL-61", "TBL-62")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drop": "r.x"}, "alter: r.x: there is no such field; expected names of fields, element"),
        ({"drop": ["r.a", "r.b"]}, "r would have no field left"),
        ({"drop": "i.element"}, "i.element is no field of a ROW, and stays"),
        ({"rename": {"m.value": "v"}}, "m.value is no field of a ROW"),
        ({"drop": "m.key"}, "m.key: there is no such field"),
        ({"add": {"i.element.x": "INT"}}, "i.element: there is no such field"),
        ({"add": {"r.a": "INT"}}, "column r.a: expected a name that no other has, found a second one"),
        ({"rename": {"r.a": "b"}}, "column r.b: expected a name that no other has"),
        ({"rename": {"r.a": ""}}, "column 'r.': expected a name that is not empty"),
        ({"add": {"r.": "INT"}}, "column 'r.': expected a name that is not empty"),
        ({"add": {"l.element.y.": "INT"}}, "column 'l.element.y.': expected a name that is not empty"),
        ({"add": {"r.\ud800": "INT"}}, r"field in r: expected text of whole characters, found '\\ud800'"),
        (
            {"add": {"r.c": f"{'ROW<a ' * 63}INT{'>' * 63}"}},
            "column r: expected types nested at most 64 levels",
        ),
        (
            {"add": {"r.c": f"{'ARRAY<' * 49}INT{'>' * 49}"}},
            "column r: expected at most 99 levels in Parquet",
        ),
        ({"comment": {"r.a": "\ud800"}}, r"comment of column r.a: expected text of whole characters"),
        ({"add": {"r.c": "INT NOT NULL"}}, "r.c is added as INT NOT NULL"),
        ({"widen": {"r.a": "TINYINT"}}, "r.a cannot become TINYINT, because not every SMALLINT is one"),
        ({"widen": {"r": "ROW<a INT>"}}, "column r cannot become"),
        ({"drop": "k.a"}, "column 'k.a' does not exist"),
        ({"move": {"r.c": "FIRST"}}, "column r.c to 'FIRST': expected one of a, b, and FIRST, LAST"),
        ({"move": {"r.a": "AFTER k"}}, "column r.a to 'AFTER k': expected another one of a, b"),
        ({"move": {"x.a": "LAST"}}, "column x.a to 'LAST': expected one of k, r"),
        ({"move": {"r.x.a": "LAST"}}, "r.x.a: there is no such field; .* found a SMALLINT, b STRING"),
        ({"move": {"i.element": "LAST"}}, "i.element: there is no such field"),
        ({"move": {"m.key.p": "LAST"}}, "m.key.p: there is no such field"),
        ({"drop": "r", "add": {"r.x": "INT"}}, "column r is dropped; expected nothing else .* change of r.x"),
        ({"drop": ["r", "r.a"]}, "column r is dropped; expected nothing else .* change of r.a"),
        ({"drop": "r.a", "rename": {"r.a": "c"}}, "column r.a is dropped"),
        ({"drop": "r.a", "widen": {"r.a": "INT"}}, "column r.a is dropped"),
        ({"drop": "r.a", "nullable": "r.a"}, "column r.a is dropped"),
        ({"drop": "l.element.y", "rename": {"l.element.y.z": "q"}}, "column l.element.y is dropped"),
        ({"drop": "r", "comment": {"r": "what"}}, "column r is dropped"),
    ],
)
def test_what_would_lose_or_confuse_values_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    table = new_table(tmp_path)
    with pytest.raises(InvalidRequestError, match=message):
        table.alter(**changes)
    assert table.schema.id == 0


@covers("TBL-63", "TBL-47", "META-42")
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    ("at", "kind", "value"),
    [
        ("v", "ROW<a INT>", {"a": None}),
        ("v.x", "ROW<x ROW<a INT>, y INT>", {"x": {"a": 1}, "y": 2}),
        ("v.value", "MAP<STRING, ROW<a INT>>", [("one", {"a": 1}), ("two", None)]),
        ("v.value.element", "MAP<INT, ARRAY<ROW<a INT>>>", [(1, [{"a": 1}, None]), (2, [])]),
    ],
)
def test_a_row_keeps_a_field_that_its_files_have(
    tmp_path: Path, at: str, kind: str, value: Any, format: str
) -> None:
    options = {"file.format": format, "write-only": "true"}
    table = Table.create(tmp_path, f"k INT, v {kind}", primary_key=["k"], options=options)
    message = f"alter: {at} would keep none of the fields that it has in files"
    with pytest.raises(InvalidRequestError, match=message):  # a write that has begun may still add a file
        table.alter(add={f"{at}.c": "INT"}, drop=f"{at}.a")
    table.upsert(pa.Table.from_pylist([{"k": 1, "v": value}], table.schema.arrow_schema))
    table.alter(add={f"{at}.c": "INT"})
    with pytest.raises(InvalidRequestError, match=message):
        table.alter(drop=f"{at}.a")
    assert table.schema.id == 1
    rows = table.to_arrow()
    table.overwrite(rows)
    table.alter(drop=f"{at}.a", add={"z": "INT"})
    found = table.to_arrow()["v"].to_pylist()
    assert found == [_without(one, "a") for one in rows["v"].to_pylist()]
    table.alter(rename={"z": "y"})


def _without(value: Any, name: str) -> Any:
    """Return a value without the fields of that name."""
    if isinstance(value, dict):
        return {one: _without(part, name) for one, part in value.items() if one != name}
    return type(value)(_without(part, name) for part in value) if isinstance(value, (list, tuple)) else value


@covers("TBL-47", "TBL-42")
def test_a_field_that_an_option_names_stays(tmp_path: Path) -> None:
    options = {
        "merge-engine": "aggregation",
        "fields.l.aggregate-function": "nested_update",
        "fields.l.nested-key": "x",
    }
    table = Table.create(tmp_path, "k INT, l ARRAY<ROW<x INT, v INT>>", primary_key=["k"], options=options)
    for changes in ({"drop": "l.element.x"}, {"rename": {"l.element.x": "y"}}):
        with pytest.raises(InvalidRequestError, match=r"option fields\.l\.nested-key names it"):
            table.alter(**changes)
    table.alter(rename={"l.element.v": "w"})


@covers("TBL-47")
def test_a_column_whose_name_has_a_dot_is_a_column(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, `r.a` INT, r ROW<a INT, b INT>", primary_key=["k"])
    table.alter(rename={"r.a": "whole", "r.b": "part"})
    assert table.schema.value_names == ("k", "whole", "r")
    assert str(table.schema.field("r").type) == "ROW<`a` INT, `part` INT>"


@pytest.mark.spark
@covers("TBL-47", "RD-12")
def test_spark_reads_changed_fields(tmp_path: Path) -> None:
    table = new_table(tmp_path, spark=spark_session(), runner="spark")
    change(table)
    (found,) = table.read().collect()
    assert found.asDict(recursive=True) == {**CHANGED, "m": {"one": {"p": None, "q": None}}}
    assert table.read(where="k = 1").selectExpr("r.c", "l[0].y.w").collect() == [(7, None)]
