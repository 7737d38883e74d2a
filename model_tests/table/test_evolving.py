"""Writes add the columns that their rows have, and the fields inside of them, whatever form the rows have."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.format.types import Field, parse_columns, to_arrow
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

DAY = datetime.date(2024, 2, 29)
BEFORE = "k INT, r ROW<b STRING, a SMALLINT>, l ARRAY<ROW<x DATE>>, m MAP<STRING, ROW<p ROW<q INT>>>"
OLD: dict[str, Any] = {
    "k": 1,
    "r": {"b": "x", "a": 1},
    "l": [{"x": None}, None],
    "m": {"one": {"p": {"q": 1}}, "two": None},
}
BROUGHT = "k INT, r ROW<n ROW<u BIGINT>, b STRING>, l ARRAY<ROW<w STRING, x DATE>>, m MAP<STRING, ROW<p ROW<v BIGINT>>>"
NEW: list[dict[str, Any]] = [
    {"k": 2, "r": {"n": {"u": 2}, "b": "y"}, "l": [{"w": "z", "x": DAY}], "m": {"one": {"p": {"v": 3}}}},
    {"k": 3, "r": None, "l": None, "m": None},
]
AFTER = {
    "r": "ROW<`b` STRING, `a` SMALLINT, `n` ROW<`u` BIGINT>>",
    "l": "ARRAY<ROW<`x` DATE, `w` STRING>>",
    "m": "MAP<STRING, ROW<`p` ROW<`q` INT, `v` BIGINT>>>",
}
ROWS = [
    {
        "k": 1,
        "r": {"b": "x", "a": 1, "n": None},
        "l": [{"x": None, "w": None}, None],
        "m": [("one", {"p": {"q": 1, "v": None}}), ("two", None)],
    },
    {
        "k": 2,
        "r": {"b": "y", "a": None, "n": {"u": 2}},
        "l": [{"x": DAY, "w": "z"}],
        "m": [("one", {"p": {"q": None, "v": 3}})],
    },
    {"k": 3, "r": None, "l": None, "m": None},
]


@covers("TBL-45")
@pytest.mark.parametrize("spark", [pytest.param(True, marks=pytest.mark.spark), False], ids=["spark", "here"])
def test_a_write_adds_the_columns_of_its_rows(tmp_path: Path, spark: bool) -> None:
    session = spark_session() if spark else None
    table = Table.create(tmp_path / "t", "k INT, a INT, b STRING", primary_key="k", spark=session)

    def upsert(rows: list[dict[str, Any]], types: str, evolve: bool = False) -> None:
        table.upsert(session.createDataFrame(rows, types) if session else rows, evolve=evolve)

    upsert([{"k": 1, "a": 1, "b": "x"}], "k INT, a INT, b STRING", evolve=True)
    with pytest.raises(InvalidRequestError, match=r"column n is not in the table|columns: n"):
        upsert([{"k": 2, "b": "y", "n": 5}], "k INT, b STRING, n BIGINT")
    upsert([{"k": 2, "b": "y", "n": 5}], "k INT, b STRING, n BIGINT", evolve=True)
    assert list(table.columns) == ["k", "a", "b", "n"]
    assert table.to_arrow().sort_by("k").to_pylist() == [
        {"k": 1, "a": 1, "b": "x", "n": None},
        {"k": 2, "a": None, "b": "y", "n": 5},
    ]
    with pytest.raises(InvalidRequestError, match="K must be written k"):
        upsert([{"K": 2}], "K INT", evolve=True)
    with pytest.raises(InvalidRequestError, match="evolve"):
        upsert([{"k": 2}], "k INT", evolve=1)  # type: ignore[arg-type]


@covers("TBL-45", "TBL-47")
@pytest.mark.parametrize("form", ["dicts", "arrow", "pandas", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_write_adds_the_fields_inside_of_the_columns_of_its_rows(tmp_path: Path, form: str) -> None:
    session = spark_session() if form == "spark" else None
    table = Table.create(tmp_path / "t", BEFORE, primary_key="k", spark=session)

    def upsert(rows: list[dict[str, Any]], types: str) -> None:
        given: Any = rows
        if form == "pandas":
            given = pd.DataFrame(rows)
        elif form != "dicts":
            schema = pa.schema([(one.name, to_arrow(one.type)) for one in parse_columns(types)])
            given = pa.Table.from_pylist(rows, schema)
        table.upsert(session.createDataFrame(given) if session else given, evolve=True)

    upsert([OLD], BEFORE)
    assert table.schema.id == 0
    upsert(NEW, BROUGHT)
    assert {name: str(table.schema.field(name).type) for name in AFTER} == AFTER
    assert table.to_arrow().sort_by("k").to_pylist() == ROWS
    upsert(NEW, BROUGHT)
    assert table.schema.id == 1


@covers("TBL-45", "TBL-47")
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"r": {"B": "x"}}, r"columns: r\.B must be written r\.b"),
        (
            {"r": {"b": "x", "n.n": 1}},
            r"columns: 'n\.n' in r: expected the name of a new field without a dot",
        ),
        ({"r": None, "r.x": 1}, r"columns: r\.x: a new column cannot have the name of a column and a dot"),
        ({"r": {"b": 1, "n": 1}}, r"column r\.b, row 0: expected STRING, found 1"),
        ({"r": {"b": "x", "n": {1, "x"}}}, "column r: Arrow finds no type for its values"),
        ({"r": {"b": "x", "n": pd.NaT}}, "column r: Arrow finds no type for its values"),
        ({"r": {"b": "x", "n": 1, "N": 2}}, r"columns: r\.N must be written r\.n"),
        ({"l": [{"y": 1}]}, r"columns: l\.element\.x is missing, and may not be null"),
        ({"l": [{"x": None}]}, "column l"),
        ({"m": {"one": 1}}, r"column m\.value, row 0: expected ARRAY<INT>, found 1"),
    ],
)
def test_fields_that_cannot_be_added_or_left_out_are_refused(
    tmp_path: Path, row: dict[str, Any], message: str
) -> None:
    types = "k INT, r ROW<b STRING>, l ARRAY<ROW<x INT NOT NULL>>, m MAP<STRING, ARRAY<INT>>"
    table = Table.create(tmp_path / "t", types, primary_key="k")
    with pytest.raises(InvalidRequestError, match=message):
        table.upsert([{"k": 1, **row}], evolve=True)
    assert (table.schema.id, table.to_arrow().num_rows) == (0, 0)


@covers("TBL-45", "TBL-1")
def test_new_columns_and_fields_have_ids_of_their_own(tmp_path: Path) -> None:
    types = "k INT, r ROW<a INT>, s ROW<a INT>, l ARRAY<ROW<x INT>>"
    table = Table.create(tmp_path / "t", types, primary_key="k")
    row = {
        "k": 1,
        "r": {"a": 1, "z": 1},
        "s": {"a": 1, "y": {"q": "q"}},
        "l": [{"x": 1, "w": 1.5}],
        "n": 1,
        "m": 2,
    }
    table.upsert([row], evolve=True)

    def ids(fields: Iterable[Field], kind: str = "ROW") -> list[int]:
        below = [ids(part.type.children, part.type.root) for part in fields]
        return [*(part.id for part in fields if kind == "ROW"), *chain(*below)]

    found = ids(table.schema.fields)
    assert len(found) == len(set(found))
    assert max(found) == table.schema.highest_field_id
    assert table.to_arrow().to_pylist() == [row]


@covers("TBL-45", "TBL-8")
def test_a_value_that_its_new_field_cannot_hold_is_refused(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, r ROW<b STRING>", primary_key="k")
    with pytest.raises(InvalidRequestError, match=r"column r: expected ROW<.*would lose data"):
        table.upsert([{"k": 1, "r": {"n": datetime.time(1, 2, 3, 456789)}}], evolve=True)
    assert table.to_arrow().num_rows == 0


@covers("TBL-45")
def test_a_commit_id_that_is_none_is_refused_before_columns_are_added(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT", primary_key="k")
    with pytest.raises(InvalidRequestError):
        table.upsert([{"k": 1, "n": 1}], evolve=True, commit_id="one")  # type: ignore[arg-type]
    assert table.schema.id == 0


@pytest.mark.spark
@pytest.mark.versions
@covers("TBL-45")
def test_a_frame_may_lack_columns_of_any_type(tmp_path: Path) -> None:
    session = spark_session()
    types = (
        "k INT, r ROW<a INT>, b BYTES, t TIMESTAMP(3), l ARRAY<MAP<STRING, INT>>, c CHAR(3), d DECIMAL(5, 2)"
    )
    table = Table.create(tmp_path / "t", types, primary_key="k", spark=session)
    table.upsert(session.range(1).selectExpr("CAST(id AS INT) AS k"), evolve=True)
    assert table.to_arrow().to_pylist() == [{"k": 0, **dict.fromkeys("rbtlcd")}]


@pytest.mark.spark
@covers("TBL-45")
def test_the_comments_of_a_frame_are_those_of_its_new_columns(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT", primary_key="k", spark=spark_session())
    rows = spark_session().sql("SELECT 1 AS k, CAST(NULL AS STRUCT<x: INT COMMENT 'inner'>) AS r")
    table.upsert(rows.withMetadata("r", {"comment": "outer"}), evolve=True)
    r = table.schema.field("r")
    assert (r.description, r.type.children[0].description) == ("outer", "inner")
