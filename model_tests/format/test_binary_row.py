"""BinaryRow: bytes worked out from real files, round trips, damage."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format.binary_row import EMPTY_ROW, decode_row, encode_row
from pktable.format.types import parse_type
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.damage.decoders import assert_no_flip_crashes, flips
from model_tests.format.strategies import atomic_types, same, values_of_type


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    types = draw(
        st.lists(atomic_types(), max_size=6) | st.lists(st.just(parse_type("INT")), min_size=56, max_size=70)
    )
    return [draw(st.none() | values_of_type(t)) for t in types], types


@covers("META-4", "META-24", "META-80")
@pytest.mark.parametrize(
    ("values", "types", "stored"),
    [
        ((), (), "000000000000000000000000"),
        ((1,), ("INT",), "00000001 0000000000000000 0100000000000000"),
        (
            (1, "a1", 10),
            ("INT", "STRING", "BIGINT"),
            "00000003 0000000000000000 0100000000000000 6131000000000082 0a00000000000000",
        ),
        (("Alice", 1), ("STRING", "INT"), "00000002 0000000000000000 416c696365000085 0100000000000000"),
        (("12345678",), ("STRING",), "00000001 0000000000000000 0800000010000000 3132333435363738"),
        ((None, -7), ("INT", "INT"), "00000002 0001000000000000 0000000000000000 f9ffffff00000000"),
        (
            (Decimal("-1.00"),),
            ("DECIMAL(20, 2)",),
            "00000001 0000000000000000 0100000010000000 9c000000000000000000000000000000",
        ),
        # A null of a wide decimal or a fine timestamp keeps its room.
        ((None,), ("DECIMAL(20, 2)",), f"00000001 0001000000000000 0000000010000000 {'00' * 16}"),
        ((None,), ("TIMESTAMP(6)",), f"00000001 0001000000000000 0000000010000000 {'00' * 8}"),
        ((-1,), ("TIMESTAMP(9)",), "00000001 0000000000000000 3f420f0010000000 ffffffffffffffff"),
        ((5_000_000,), ("TIMESTAMP(3)",), "00000001 0000000000000000 0500000000000000"),
    ],
)
def test_a_row_is_stored_as_paimon_stores_it(
    values: tuple[Any, ...], types: tuple[str, ...], stored: str
) -> None:
    parsed = [parse_type(text) for text in types]
    assert encode_row(values, parsed).hex() == stored.replace(" ", "")
    assert decode_row(bytes.fromhex(stored), parsed, at="row") == values


@covers("META-4", "META-13")
@given(rows())
def test_a_row_survives_its_bytes(row: tuple[list[Any], list[Any]]) -> None:
    values, types = row
    decoded = decode_row(encode_row(values, types), types, at="row")
    assert len(decoded) == len(values)
    assert all(map(same, decoded, values))


@covers("META-4")
@given(rows())
def test_no_prefix_of_a_row_is_a_row_of_other_values(row: tuple[list[Any], list[Any]]) -> None:
    values, types = row
    stored = encode_row(values, types)
    for cut in range(len(stored)):
        try:
            found = decode_row(stored[:cut], types, at="row")
        except CorruptFileError:
            continue
        # Only the room of a null can go unnoticed.
        assert all(map(same, found, values))


@covers("META-4")
@given(rows())
def test_a_damaged_row_never_crashes(row: tuple[list[Any], list[Any]]) -> None:
    values, types = row
    assert_no_flip_crashes(lambda data: decode_row(data, types, at="row"), encode_row(values[:6], types[:6]))


@covers("META-4")
def test_a_damaged_length_offset_or_header_is_found() -> None:
    types = [parse_type(text) for text in ("STRING", "BOOLEAN", "TINYINT", "DECIMAL(4, 0)")]
    stored = encode_row(["a long string", True, 1, Decimal(9999)], types)
    for position, byte in (
        (0, 1),
        (3, 5),
        (4, 4),
        (5, 0x10),
        (12, 3),
        (12, 96),
        (16, 1),
        (23, 1),
        (20, 2),
        (29, 1),
        (38, 1),
    ):
        damaged = bytearray(stored)
        damaged[position] = byte
        with pytest.raises(CorruptFileError, match="row"):
            decode_row(bytes(damaged), types, at="row")


@covers("META-4")
@pytest.mark.parametrize("length", [0, 17])
def test_a_decimal_of_no_byte_or_of_more_than_16_is_found(length: int) -> None:
    types = [parse_type("DECIMAL(38, 0)"), parse_type("STRING")]
    damaged = bytearray(encode_row([Decimal(10**30), "a string behind it"], types))
    damaged[12] = length  # of the first slot, in which the offset follows
    with pytest.raises(CorruptFileError, match="1 to 16 bytes"):
        decode_row(bytes(damaged), types, at="row")


@covers("META-4")
@pytest.mark.parametrize("nanos", [1_000_000, -1])
def test_a_part_of_a_millisecond_that_is_none_is_found(nanos: int) -> None:
    t = parse_type("TIMESTAMP(9)")
    stored = bytearray(encode_row([0], [t]))
    stored[12:16] = nanos.to_bytes(4, "little", signed=True)
    with pytest.raises(CorruptFileError, match="millisecond"):
        decode_row(bytes(stored), [t], at="row")


def test_what_pypaimon_writes_for_a_null_is_read() -> None:
    assert decode_row(
        bytes.fromhex("000000010001000000000000" + "00" * 8), [parse_type("TIMESTAMP(6)")], at=""
    ) == (None,)


def test_a_nested_column_is_null_in_a_row() -> None:
    types = [parse_type("ARRAY<INT>"), parse_type("INT")]
    stored = encode_row([None, 1], types)
    assert decode_row(stored, types, at="row") == (None, 1)
    with pytest.raises(CorruptFileError, match="null"):
        decode_row(stored.replace(b"\x00\x01", b"\x00\x00", 1)[: len(stored)], types, at="row")


def test_the_empty_row_has_no_fields() -> None:
    assert decode_row(EMPTY_ROW, (), at="row") == ()
    for damaged in flips(EMPTY_ROW, (0x10,)):
        with pytest.raises(CorruptFileError):
            decode_row(damaged, (), at="row")
