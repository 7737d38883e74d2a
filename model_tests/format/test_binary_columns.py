"""One field of many BinaryRows: the same as decoding them one by one, damage included."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format import binary_row
from pktable.format.binary_row import decode_column, decode_row, encode_row
from pktable.format.types import DataType, parse_type
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.damage.decoders import flips
from model_tests.format.strategies import atomic_types, same, values_of_type


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[bytes], list[DataType]]:
    types = draw(st.lists(atomic_types(), min_size=1, max_size=4) | st.just([parse_type("INT")] * 60))
    values = [[draw(st.none() | values_of_type(t)) for t in types] for _ in range(draw(st.integers(1, 4)))]
    return [bytes(encode_row(row, types)) for row in values], types


def one_by_one(rows: list[bytes], types: list[DataType], field: int) -> object:
    """Return the values of a field, or the text of the error."""
    try:
        return [decode_row(row, types, at=str(i), only=[field])[field] for i, row in enumerate(rows)]
    except CorruptFileError as error:
        return str(error)


def at_once(rows: list[bytes], types: list[DataType], field: int) -> object:
    try:
        with mock.patch.object(binary_row, "FEW_ROWS", 0):
            values, known = decode_column(rows, types, field, at=[str(i) for i in range(len(rows))])
    except CorruptFileError as error:
        return str(error)
    return [
        value.item() if there and isinstance(value, np.generic) else value if there else None
        for value, there in zip(values, known, strict=True)
    ]


@covers("META-4")
@given(columns())
def test_a_field_of_many_rows_is_decoded_as_that_of_each(found: tuple[list[bytes], list[DataType]]) -> None:
    rows, types = found
    for field in range(len(types)):
        expected: Any = one_by_one(rows, types, field)
        got: Any = at_once(rows, types, field)
        assert all(same(a, b) for a, b in zip(got, expected, strict=True))


@covers("META-4", "RD-11")
@pytest.mark.parametrize("field", [0, 1, 2, 3])
def test_damage_of_the_frame_or_the_field_is_named_as_in_a_single_row(field: int) -> None:
    types = [parse_type(text) for text in ("INT", "STRING", "BOOLEAN", "DECIMAL(20, 2)")]
    good = bytes(encode_row([7, "longer than a slot", True, None], types))
    refused = 0
    for damaged in (*flips(good), *(good[:cut] for cut in range(len(good)))):
        rows = [good, damaged, good]
        expected = one_by_one(rows, types, field)
        assert str(at_once(rows, types, field)) == str(expected)
        refused += isinstance(expected, str)
    assert refused > len(good)


@covers("META-4", "RD-11")
@pytest.mark.parametrize("kind", ["STRING", "BYTES"])
@pytest.mark.parametrize("value", ["", "a", "seven b", "eight by", "longer than a slot"])
def test_damage_of_a_string_is_named_as_in_a_single_row(kind: str, value: str) -> None:
    types = [parse_type("INT"), parse_type(kind)]
    good = bytes(encode_row([7, value if kind == "STRING" else value.encode()], types))
    refused = 0
    moved = [
        good[:24] + bytes([place]) + good[25:] for place in range(0, 40, 4)
    ]  # the offset, or a byte of the text
    for damaged in (*flips(good), *moved, *(good[:cut] for cut in range(len(good)))):
        rows = [good, damaged, good]
        expected = one_by_one(rows, types, 1)
        assert at_once(rows, types, 1) == expected
        refused += isinstance(expected, str)
    assert refused > len(good)
