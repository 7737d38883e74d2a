"""Encoded keys compare as the keys do, whatever their types, widths and number."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, SearchStrategy
from pktable.format.types import parse_type, to_arrow
from pktable.lsm.bucket import total_order
from pktable.merge.key_encoding import encode_keys
from pktable_spec.covers import covers

INTEGERS = {"BOOLEAN": (0, 1), "TINYINT": (-(2**7), 2**7 - 1), "INT": (-(2**31), 2**31 - 1)}
LONG = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=6) | st.text("ab\0", max_size=4)
VALUES: dict[str, SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(*INTEGERS["TINYINT"]),
    "INT": st.integers(*INTEGERS["INT"]) | st.integers(-3, 3),
    "BIGINT": LONG | st.integers(-3, 3) | st.sampled_from((-(2**63), 2**63 - 1)),
    "DOUBLE": st.floats() | st.sampled_from((0.0, -0.0)),
    "DECIMAL(20, 2)": st.decimals(-(10**17), 10**17, places=2),
    "STRING": TEXTS | TEXTS.map("customer-00".__add__),
    "BYTES": st.binary(max_size=12) | st.binary(min_size=90, max_size=110),
}


def comparable(value: Any, kind: str) -> Any:
    """Return what Python orders as the table orders keys."""
    if kind == "DOUBLE":
        return total_order(value)
    return value.encode() if kind == "STRING" else value


@st.composite
def keyed(draw: Any) -> tuple[list[str], list[list[tuple[Any, ...]]]]:
    """Return types of key columns and the keys of up to three tables."""
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    keys = st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), max_size=12)
    return kinds, draw(st.lists(keys, min_size=1, max_size=3))


@covers("MRG-7")
@given(keyed())
def test_encoded_keys_compare_as_the_keys_do(drawn: tuple[list[str], list[list[tuple[Any, ...]]]]) -> None:
    kinds, tables = drawn
    types = [parse_type(f"{kind} NOT NULL") for kind in kinds]
    columns = [
        [pa.chunked_array([pa.array([key[i] for key in keys], to_arrow(t))]) for i, t in enumerate(types)]
        for keys in tables
    ]
    encoded = np.concatenate(encode_keys(columns, types))
    keys = [tuple(map(comparable, key, kinds)) for table in tables for key in table]
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    assert np.unique(encoded, return_inverse=True)[1].tolist() == [ranks[key] for key in keys]


@covers("MRG-7")
@given(st.data())
@pytest.mark.parametrize("rows", [1, 300, 5000])
def test_slices_and_many_rows_are_encoded_alike(rows: int, data: DataObject) -> None:
    width = data.draw(st.integers(0, 20))
    numbers = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 10**6, rows + 3)
    texts = pa.array([f"{'x' * width}{number}" for number in numbers])[3:]
    column = pa.chunked_array([texts[: rows // 2], texts[rows // 2 :]])
    (encoded,) = encode_keys([[column]], [parse_type("STRING NOT NULL")])
    in_order = sorted(range(rows), key=texts.to_pylist().__getitem__)
    assert np.argsort(encoded, kind="stable").tolist() == in_order


@covers("MRG-7")
def test_what_fits_a_word_is_a_number() -> None:
    def dtype(*columns: pa.Array, types: str) -> Any:
        kinds = [parse_type(f"{kind} NOT NULL") for kind in types.split("/")]
        return encode_keys([[pa.chunked_array([column]) for column in columns]], kinds)[0].dtype.kind

    orders = pa.array(np.arange(1000) * 1000)
    assert dtype(orders, pa.array(np.arange(1000) % 7), types="BIGINT/BIGINT") == "u"
    assert dtype(pa.array([f"customer-{i:09}" for i in range(1000)]), types="STRING") == "u"
    assert (
        dtype(pa.array([Decimal(i) for i in range(9)], pa.decimal128(38, 9)), types="DECIMAL(38, 9)") == "u"
    )
    apart = pa.array([-(2**63), 2**63 - 1])
    assert dtype(apart, apart, types="BIGINT/BIGINT") == "S"


def test_every_nan_is_one_key_above_all_others() -> None:
    (negative,) = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))
    assert total_order(negative) == total_order(math.nan) > total_order(math.inf)
