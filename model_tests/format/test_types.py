"""Types: their texts, JSON, Arrow forms and values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format.types import (
    DataType,
    Field,
    from_arrow,
    highest_field_id,
    is_atomic,
    parse_columns,
    parse_field,
    parse_type,
    to_arrow,
    values_of,
)
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError

from model_tests.format.strategies import array_of, atomic_types, data_types, same, values_of_type


@covers("META-19")
@given(data_types())
def test_a_type_survives_its_json(t: DataType) -> None:
    assert parse_type(t.to_json()) == t
    assert isinstance(t.to_json(), str) == is_atomic(t)


@covers("META-19")
@given(data_types())
def test_a_type_survives_its_text(t: DataType) -> None:
    assert str(parse_type(str(t))) == str(t)
    assert to_arrow(parse_type(str(t))) == to_arrow(t)
    if is_atomic(t):
        assert parse_type(str(t)) == t


@given(data_types())
def test_an_arrow_type_survives_its_type(t: DataType) -> None:
    arrow = to_arrow(t)
    assert to_arrow(from_arrow(arrow, t.nullable)) == arrow
    assert from_arrow(arrow, t.nullable).nullable == t.nullable


@covers("META-19")
@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("integer", "INT"),
        ("dec(12)", "DECIMAL(12, 0)"),
        ("NUMERIC", "DECIMAL(10, 0)"),
        ("DOUBLE PRECISION not null", "DOUBLE NOT NULL"),
        ("TIMESTAMP", "TIMESTAMP(6)"),
        ("time", "TIME(0)"),
        ("TIME(6) WITHOUT TIME ZONE", "TIME(6)"),
        ("TIMESTAMP(3) WITHOUT TIME ZONE", "TIMESTAMP(3)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("VARCHAR(2147483647)", "STRING"),
        ("VARBINARY(2147483647)", "BYTES"),
        ("CHAR NULL", "CHAR(1)"),
        ("STRUCT<a: INT, b: ARRAY<INT NOT NULL>>", "ROW<`a` INT, `b` ARRAY<INT NOT NULL>>"),
        ("MAP<STRING, ROW<`x``y` INT>>", "MAP<STRING, ROW<`x``y` INT>>"),
    ],
)
def test_other_spellings_mean_the_same_type(spelled: str, canonical: str) -> None:
    assert str(parse_type(spelled)) == canonical


@pytest.mark.parametrize(
    "text",
    ["", "INT INT", "INT(3)", "DECIMAL(39, 0)", "DECIMAL(5, 6)", "DECIMAL(0)", "TIMESTAMP(10)", "TIME(10)", "CHAR(0)",
     "VARCHAR(2147483648)", "ARRAY", "ARRAY<>", "MAP<INT>", "ROW<>", "INT NOT",
     "BLOB", "ARRAY<INT", "é", "INT;", "ARRAY<" * 90 + "INT" + ">" * 90, "DECIMAL(" + "9" * 5000 + ")"],
)  # fmt: skip
def test_a_text_that_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"expected|defined twice"):
        parse_type(text)


@pytest.mark.parametrize("text", ["ROW<a INT, a INT>", "ARRAY<ROW<b INT, a INT, a INT>>"])
def test_two_fields_of_one_name_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="column 'a' is defined twice"):
        parse_type(text)


@pytest.mark.parametrize(
    "json",
    [None, 7, {}, {"type": "ARRAY"}, {"type": "MAP", "key": "INT"}, {"type": "ROW", "fields": {}},
     {"type": "ROW", "fields": [{"id": 0, "name": "a"}]}, {"type": ["ARRAY"]},
     {"type": "ARRAY X", "element": "INT"}],
)  # fmt: skip
def test_json_that_is_no_type_is_refused(json: object) -> None:
    with pytest.raises(InvalidRequestError):
        parse_type(json)


def test_columns_get_ids_in_order_and_nested_fields_the_next() -> None:
    columns = parse_columns(
        "id BIGINT NOT NULL, `a b` ROW<x INT, y ROW<z INT>> COMMENT 'it''s', d DECIMAL(12,2)"
    )
    assert [(c.id, c.name, c.description) for c in columns] == [
        (0, "id", None),
        (1, "a b", "it's"),
        (2, "d", None),
    ]
    assert [child.id for child in columns[1].type.children] == [3, 4]
    assert highest_field_id(columns) == 5
    assert parse_field(columns[1].to_json()) == columns[1]


@pytest.mark.parametrize("ddl", ["", "id", "id INT,", "id INT, id INT", "id INT b INT", "1 INT"])
def test_a_text_that_is_no_column_list_is_refused(ddl: str) -> None:
    with pytest.raises(InvalidRequestError):
        parse_columns(ddl)


@pytest.mark.parametrize(
    ("arrow", "text"),
    [
        (pa.uint8(), "SMALLINT"),
        (pa.uint32(), "BIGINT"),
        (pa.uint64(), "DECIMAL(20, 0)"),
        (pa.large_string(), "STRING"),
        (pa.dictionary(pa.int8(), pa.string()), "STRING"),
        (pa.binary(5), "BINARY(5)"),
        (pa.timestamp("s"), "TIMESTAMP(0)"),
        (pa.timestamp("ns", "Europe/Berlin"), "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        (pa.large_list(pa.int8()), "ARRAY<TINYINT>"),
        (pa.decimal256(38, 3), "DECIMAL(38, 3)"),
    ],
)
def test_other_arrow_types_widen_without_loss(arrow: pa.DataType, text: str) -> None:
    assert str(from_arrow(arrow)) == text


@pytest.mark.parametrize(
    "arrow", [pa.null(), pa.month_day_nano_interval(), pa.decimal256(50, 3), pa.duration("s"), pa.struct([])]
)
def test_an_arrow_type_without_a_lossless_type_is_refused(arrow: pa.DataType) -> None:
    with pytest.raises(InvalidRequestError, match="Arrow type"):
        from_arrow(arrow)


@given(st.data())
def test_values_of_a_column_are_what_was_put_in(data: st.DataObject) -> None:
    t = data.draw(atomic_types())
    values: list[Any] = data.draw(st.lists(st.none() | values_of_type(t), max_size=5))
    array = array_of(values, t)
    for column in (array, pa.chunked_array([array.slice(0, 1), array.slice(1)])):
        assert all(map(same, values_of(column, t), values))
        assert len(values_of(column, t)) == len(values)


def test_a_field_that_is_damaged_is_refused() -> None:
    good = Field(1, "a", parse_type("INT"), "about", "0").to_json()
    assert parse_field(good).description == "about"
    for name, value in (
        ("id", "1"),
        ("id", True),
        ("id", -1),
        ("name", ""),
        ("description", 3),
        ("type", None),
    ):
        with pytest.raises(InvalidRequestError):
            parse_field(good | {name: value})
