"""People of pandas, polars and pyarrow find head, len, a column by its name, and conditions of pyarrow."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pktable import InvalidRequestError, Table
from pktable_spec.covers import covers

ROWS = [
    {"id": 1, "city": "Rome", "n": 1.5, "day": dt.date(2024, 1, 1)},
    {"id": 2, "city": None, "n": None, "day": None},
    {"id": 3, "city": "O'Fallon", "n": -2.0, "day": dt.date(2024, 3, 1)},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    found = Table.create(
        tmp_path_factory.mktemp("at-home"),
        "id BIGINT COMMENT 'the key', city STRING, n DOUBLE, day DATE",
        primary_key="id",
        options={"bucket": "2"},
        comment="cities",
    )
    found.upsert(ROWS)
    return found


@covers("RD-1")
def test_head_len_and_columns(table: Table, tmp_path: Path) -> None:
    assert table.head(2).num_rows == 2
    assert table.head().num_rows == len(table) == 3
    assert sorted(table["id"].to_pylist()) == [1, 2, 3]
    assert table[["city", "id"]].column_names == ["city", "id"]
    with pytest.raises(InvalidRequestError, match="nosuch"):
        table["nosuch"]
    with pytest.raises(TypeError):
        table[0]  # type: ignore[index]
    empty = Table.create(tmp_path, "id BIGINT", primary_key="id")
    assert len(empty) == 0
    assert empty


@covers("WH-24")
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (pc.field("id") > 1, [2, 3]),
        (pc.scalar(2) >= pc.field("id"), [1, 2]),
        (pc.field("city") == "O'Fallon", [3]),
        (pc.field("id").isin([1, 3]) & ~(pc.field("id") == 3), [1]),
        (pc.field("city").is_null() | (pc.field("n") < 0), [2, 3]),
        (pc.field("city").is_valid(), [1, 3]),
        (pc.field("day") != dt.date(2024, 1, 1), [3]),
        (~pc.field("n").isin([1.5]), [3]),
    ],
)
def test_a_condition_of_pyarrow_means_what_it_says(
    table: Table, condition: pc.Expression, expected: list[int]
) -> None:
    assert sorted(table.to_arrow(where=condition)["id"].to_pylist()) == expected
    assert table.count(where=condition) == len(expected)


@covers("WH-24")
@pytest.mark.parametrize(
    "condition",
    [
        pc.field("id") > pc.field("n"),
        (pc.field("id") > 1) & (pc.utf8_upper(pc.field("city")) == "ROME"),
        pc.field("n") > float("nan"),
        pc.is_nan(pc.field("n")),
    ],
)
def test_an_expression_that_has_no_text_is_refused_whole(table: Table, condition: pc.Expression) -> None:
    with pytest.raises(InvalidRequestError, match="has no text here"):
        table.to_arrow(where=condition)


def test_statements_take_a_condition_of_pyarrow(tmp_path: Path) -> None:
    changed = Table.create(tmp_path, "id BIGINT, n INT", primary_key="id")
    changed.upsert([{"id": i, "n": i} for i in range(4)])
    changed.update({"n": "0"}, where=pc.field("id") == 1)
    changed.delete(where=pc.field("id") > 2)
    changed.overwrite([{"id": 2, "n": 7}], where=pc.field("id") >= 2)
    assert sorted(map(_values, changed.to_arrow().to_pylist())) == [(0, 0), (1, 0), (2, 7)]


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def test_a_schema_is_shown_as_a_person_reads_it(table: Table) -> None:
    assert repr(table.schema).splitlines() == [
        "schema 0: cities",
        "  id BIGINT NOT NULL  -- the key",
        "  city STRING",
        "  n DOUBLE",
        "  day DATE",
        "primary key id",
        "bucket = 2",
    ]


def test_an_expression_of_polars_says_what_to_do(table: Table) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    with pytest.raises(InvalidRequestError, match="scan_pyarrow_dataset"):
        table.to_arrow(where=polars.col("id") > 1)
    assert isinstance(table.to_arrow(where="id > 1"), pa.Table)
