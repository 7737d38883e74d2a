"""Rows for a table of partial-update can leave out columns that may be null; for no other table and no overwrite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.cli.process import run
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

COLUMNS = "p INT, id INT, a INT, b STRING"
FIRST = {"p": 0, "id": 1, "a": 1, "b": "x"}
FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a dict": lambda row: row,
    "dicts": lambda row: [row],
    "a dict of lists": lambda row: {name: [value] for name, value in row.items()},
    "arrow": lambda row: pa.Table.from_pylist([row]),
    "a batch": lambda row: pa.RecordBatch.from_pylist([row]),
    "pandas": lambda row: pd.DataFrame([row]),
}


def made(
    path: Path,
    engine: str = "partial-update",
    columns: str = COLUMNS,
    options: dict[str, str] | None = None,
    **others: Any,
) -> Table:
    given: dict[str, Any] = {"primary_key": ["p", "id"], "partition_by": "p", **others}
    return Table.create(path / "t", columns, options={"merge-engine": engine, **(options or {})}, **given)


@covers("TBL-24")
@pytest.mark.parametrize("form", FORMS)
def test_a_column_that_is_left_out_stays_as_it_is(tmp_path: Path, form: str) -> None:
    table = made(tmp_path)
    table.upsert([FIRST])
    table.upsert(FORMS[form]({"p": 0, "id": 1, "a": 5}))
    table.upsert(FORMS[form]({"p": 0, "id": 2}))
    expected = [{**FIRST, "a": 5}, {"p": 0, "id": 2, "a": None, "b": None}]
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == expected


@covers("TBL-24")
def test_each_row_of_a_list_can_leave_out_other_columns(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.upsert([{"p": 0, "id": 1, "b": "y"}, {"id": 1, "p": 0, "a": 7}])
    assert table.to_arrow().to_pylist() == [{"p": 0, "id": 1, "a": 7, "b": "y"}]
    table.write_changes([{"p": 0, "id": 1, "a": 8, "kind": "+U"}], row_kind="kind")
    assert table.to_arrow().to_pylist() == [{"p": 0, "id": 1, "a": 8, "b": "y"}]


@covers("TBL-24")
@pytest.mark.parametrize(
    ("name", "text"), [("r.csv", "id,p,a\n1,0,5\n"), ("r.jsonl", '{"p": 0, "id": 1, "a": 5}\n')]
)
def test_a_file_can_leave_out_columns(tmp_path: Path, name: str, text: str) -> None:
    table = made(tmp_path)
    table.upsert([FIRST])
    (tmp_path / name).write_text(text)
    assert run(["write", table.path, str(tmp_path / name)]) == 0
    assert table.to_arrow().to_pylist() == [{**FIRST, "a": 5}]


@pytest.mark.versions
@covers("TBL-24", "TBL-21")
@pytest.mark.spark
def test_a_dataframe_of_spark_can_leave_out_columns(tmp_path: Path) -> None:
    table = made(tmp_path, spark=spark_session(), runner="spark")
    table.upsert([FIRST])
    table.upsert(spark_session().createDataFrame([(5, 1, 0)], "a INT, id INT, p INT"))
    table.upsert([{"p": 0, "id": 1, "b": "z"}])
    assert table.to_arrow().to_pylist() == [{"p": 0, "id": 1, "a": 5, "b": "z"}]
    for columns in ("a INT, id INT", "id INT, p INT, c INT"):
        with pytest.raises(InvalidRequestError, match=r"is missing|column c is not in the table"):
            table.upsert(spark_session().createDataFrame([tuple([1] * columns.count("INT"))], columns))


GROUPS: dict[str, Any] = {
    "columns": "p INT, id INT, g INT, a INT, h INT, b STRING",
    "options": {"fields.g.sequence-group": "a", "fields.h.sequence-group": "b"},
}


@covers("TBL-24", "MRG-11")
@pytest.mark.parametrize("form", FORMS)
def test_a_sequence_group_is_left_out_as_a_whole(tmp_path: Path, form: str) -> None:
    table = made(tmp_path, **GROUPS)
    for row in ({"g": 2, "a": 1}, {"h": 5, "b": "x"}, {"g": 1, "a": 9}):
        table.upsert(FORMS[form]({"p": 0, "id": 1, **row}))
    assert table.to_arrow().to_pylist() == [{"p": 0, "id": 1, "g": 2, "a": 1, "h": 5, "b": "x"}]
    for part in ({"g": 3}, {"b": "y"}):
        with pytest.raises(InvalidRequestError, match=r"column [ah] is missing"):
            table.upsert(FORMS[form]({"p": 0, "id": 1, **part}))


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a key": ({}, {"id": 1, "a": 5}, "primary-key column p is missing"),
    "not null": ({"columns": f"{COLUMNS}, c INT NOT NULL"}, {"p": 0, "id": 1, "a": 5}, "column c is missing"),
    "a misspelled one": ({}, {"p": 0, "id": 1, "aa": 5}, "column aa is not in the table"),
    "of other case": ({}, {"p": 0, "id": 1, "A": 5}, "A must be written a"),
    "deduplicate": ({"engine": "deduplicate"}, {"p": 0, "id": 1, "a": 5}, "column b is missing"),
    "aggregation": ({"engine": "aggregation"}, {"p": 0, "id": 1, "a": 5}, "column b is missing"),
    "first-row": ({"engine": "first-row"}, {"p": 0, "id": 1, "a": 5}, "column b is missing"),
}


@covers("TBL-8", "TBL-13", "TBL-24")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", REFUSED)
def test_other_columns_cannot_be_left_out(tmp_path: Path, what: str, form: str) -> None:
    options, row, message = REFUSED[what]
    table = made(tmp_path, **options)
    with pytest.raises(InvalidRequestError, match=message):
        table.upsert(FORMS[form](row))
    assert table.snapshots() == []


@covers("TBL-24")
@pytest.mark.parametrize("form", FORMS)
def test_an_overwrite_has_all_columns(tmp_path: Path, form: str) -> None:
    table = made(tmp_path)
    table.upsert([FIRST])
    for where in (None, "p = 0"):
        with pytest.raises(InvalidRequestError, match="column b is missing"):
            table.overwrite(FORMS[form]({"p": 0, "id": 1, "a": 5}), where=where)
    assert table.to_arrow().to_pylist() == [FIRST]
