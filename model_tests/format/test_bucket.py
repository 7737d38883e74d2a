"""Buckets: what the Paimon JVM computed, and the hash of one row at a time."""

from __future__ import annotations

import json
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable.format import bucket_hash as bucket
from pktable.format.binary_row import encode_row
from pktable.format.bucket_hash import bucket_of, hash_rows
from pktable.format.types import parse_type
from pktable_spec.covers import covers

from model_tests.format.strategies import array_of, atomic_types, values_of_type
from model_tests.real_data import PAIMON, needs_shared


def murmur(row: bytes) -> int:
    """The hash of a stored row, straight from its definition (TBL-5)."""

    def rotated(number: int, by: int) -> int:
        return (number << by | number >> (32 - by)) & 0xFFFFFFFF

    words = struct.unpack(f"<{(len(row) - 4) // 4}I", row[4:])
    h = 42
    for word in words:
        k = rotated(word * 0xCC9E2D51 & 0xFFFFFFFF, 15) * 0x1B873593 & 0xFFFFFFFF
        h = (rotated(h ^ k, 13) * 5 + 0xE6546B64) & 0xFFFFFFFF
    h ^= 4 * len(words)
    h = (h ^ h >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    h = (h ^ h >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


@needs_shared
@covers("TBL-5", "META-4")
def test_buckets_are_those_of_the_paimon_jvm() -> None:
    vectors = json.loads((PAIMON / "hash_vectors.json").read_text())
    assert len(vectors) == 142
    for vector in vectors:
        t = parse_type(vector["type"])
        value = vector["value"] if t.root == "STRING" else int(vector["value"])
        assert encode_row([value], [t])[4:].hex() == vector["row_hex"]
        assert hash_rows([array_of([value], t)], [t]).tolist() == [vector["hash"]]
        assert bucket_of([array_of([value], t)], [t], vector["buckets"]).tolist() == [vector["bucket"]]


@covers("TBL-5")
@pytest.mark.parametrize(
    ("value", "text", "buckets", "expected"),
    [(-7, "INT", 4, 3), ("abc", "STRING", 2, 1), (123456789012, "BIGINT", 5, 1)],
)
def test_known_keys_have_known_buckets(value: Any, text: str, buckets: int, expected: int) -> None:
    t = parse_type(text)
    assert bucket_of([array_of([value], t)], [t], buckets).tolist() == [expected]


@covers("TBL-5")
@given(st.data())
@settings(max_examples=200)
def test_columns_hash_as_their_rows_do(data: st.DataObject) -> None:
    types = data.draw(st.lists(atomic_types(), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.tuples(*(st.none() | values_of_type(t) for t in types)), max_size=5))
    columns = [array_of([row[i] for row in rows], t) for i, t in enumerate(types)]
    expected = [murmur(encode_row(row, types)) for row in rows]
    assert hash_rows(columns, types).tolist() == expected
    # A slice, and several chunks.
    start = data.draw(st.integers(0, len(rows)))
    assert hash_rows([column.slice(start) for column in columns], types).tolist() == expected[start:]
    chunked = [pa.chunked_array([column.slice(0, start), column.slice(start)]) for column in columns]
    assert hash_rows(chunked, types).tolist() == expected


@covers("TBL-5")
def test_bytes_that_lie_under_a_null_do_not_show() -> None:
    t = parse_type("STRING")
    validity, offsets = pa.py_buffer(b"\x02"), pa.py_buffer(struct.pack("<3i", 0, 9, 10))
    column = pa.Array.from_buffers(pa.string(), 2, [validity, offsets, pa.py_buffer(b"forgottenx")])
    assert column.to_pylist() == [None, "x"]
    assert hash_rows([column], [t]).tolist() == hash_rows([array_of([None, "x"], t)], [t]).tolist()


@covers("TBL-5")
def test_wide_decimals_hash_as_their_rows_do() -> None:
    t = parse_type("DECIMAL(38, 0)")
    values = [
        Decimal(sign * (256**power + more)) for power in range(15) for more in (-1, 0) for sign in (1, -1)
    ]
    assert hash_rows([array_of(values, t)], [t]).tolist() == [murmur(encode_row([v], [t])) for v in values]


@covers("TBL-5")
def test_batches_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    types = [parse_type("STRING"), parse_type("INT")]
    columns = [
        array_of([f"key {i}" * (i % 4) for i in range(50)], types[0]),
        array_of(list(range(50)), types[1]),
    ]
    whole = hash_rows(columns, types)
    monkeypatch.setattr(bucket, "BATCH_ROWS", 7)
    assert np.array_equal(hash_rows(columns, types), whole)
    assert set(bucket_of(columns, types, 3).tolist()) == {0, 1, 2}
