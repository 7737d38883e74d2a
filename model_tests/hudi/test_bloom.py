"""Bloom filters: Hadoop's bytes, and no key missed."""

from __future__ import annotations

import base64
import struct

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable_hudi.format.bloom import (
    DYNAMIC,
    SIMPLE,
    DynamicFilter,
    SimpleFilter,
    decode_filter,
    filter_of,
)
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from model_tests.hudi.hadoop_bloom import bits_of
from model_tests.hudi.real_tables import base_files
from model_tests.real_data import needs_hudi

HEAD = struct.Struct(">iibi")
KEYS = st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=40)


@covers("LOG-13")
@given(KEYS, st.integers(1, 50), st.sampled_from([0.3, 0.01, 1e-6]))
def test_a_filter_has_the_bits_of_its_keys_and_no_other(keys: list[bytes], size: int, rate: float) -> None:
    found = filter_of(keys, sized_for=size, false_positives=rate)
    assert found.bits.tobytes() == bits_of(keys, found.bit_count, found.hash_count)
    assert found.encode()[:13] == struct.pack(">iibi", -1, found.hash_count, 1, found.bit_count)


@covers("LOG-14")
@given(KEYS, KEYS, st.integers(1, 50))
def test_a_filter_misses_none_of_its_keys(keys: list[bytes], others: list[bytes], size: int) -> None:
    found, other = (filter_of(some, sized_for=size, false_positives=0.01) for some in (keys, others))
    read = decode_filter(base64.b64encode(found.encode()), SIMPLE, at="file")
    assert read.may_contain(keys).all()
    assert found.union(other).may_contain([*keys, *others]).all()
    grown = DynamicFilter(size, len(others), (found, other))
    read = decode_filter(base64.b64encode(grown.encode()), DYNAMIC, at="file")
    assert read.may_contain([*keys, *others]).all()


def test_one_in_a_hundred_absent_keys_passes() -> None:
    found = filter_of([b"key-%d" % i for i in range(1000)], sized_for=1000, false_positives=0.01)
    passed = found.may_contain([b"other-%d" % i for i in range(20_000)]).mean()
    assert 0.005 < passed < 0.02


@needs_hudi
@covers("LOG-13", "LOG-14")
def test_the_filters_of_real_base_files_are_rebuilt_bit_by_bit() -> None:
    kinds, astray = dict.fromkeys([SIMPLE, DYNAMIC], 0), 0
    for path in base_files():
        file = pq.ParquetFile(path)
        metadata = file.metadata.metadata
        kind = metadata.get(b"hoodie_bloom_filter_type_code", SIMPLE.encode()).decode()
        text = metadata[b"org.apache.hudi.bloomfilter"]
        stored = decode_filter(text, kind, at=str(path))
        assert base64.b64encode(stored.encode()) == text
        keys = [key.encode() for key in file.read(["_hoodie_record_key"])[0].to_pylist()]
        assert stored.may_contain(keys).all()
        in_java = sorted(keys, key=lambda key: key.decode().encode("utf-16-be"))
        ends = [metadata.get(f"hoodie_{end}_record_key".encode()) for end in ("min", "max")]
        assert ends == ([in_java[0], in_java[-1]] if keys else [None, None])
        astray += in_java != sorted(keys)
        kinds[kind] += 1
        rows = (stored,) if isinstance(stored, SimpleFilter) else stored.rows
        if len(rows) == 1:
            assert rows[0].bits.tobytes() == bits_of(keys, rows[0].bit_count, rows[0].hash_count)
    assert min(kinds.values()) > 0
    assert astray, "some files have keys whose order in Java is not that of their bytes"


@pytest.mark.parametrize("cut", range(1, 17))
def test_no_part_of_a_filter_is_a_filter(cut: int) -> None:
    data = filter_of([b"k"], sized_for=8, false_positives=0.2).encode()
    with pytest.raises(CorruptFileError):
        decode_filter(base64.b64encode(data[:-cut]), SIMPLE, at="file")
    with pytest.raises(CorruptFileError):
        decode_filter(base64.b64encode(data + bytes(cut)), SIMPLE, at="file")
    grown = DynamicFilter(8, 1, (filter_of([b"k"], sized_for=8, false_positives=0.2),)).encode()
    with pytest.raises(CorruptFileError):
        decode_filter(base64.b64encode(grown[:-cut]), DYNAMIC, at="file")


def test_filters_of_other_forms_and_empty_keys_are_refused() -> None:
    found = filter_of([b"k"], sized_for=8, false_positives=0.2)
    with pytest.raises(InvalidRequestError, match="empty key"):
        filter_of([b""], sized_for=8, false_positives=0.2)
    with pytest.raises(InvalidRequestError, match="form 5"):
        decode_filter(base64.b64encode(struct.pack(">iibi", 5, 1, 0, 8) + b"\0"), SIMPLE, at="file")
    with pytest.raises(InvalidRequestError, match="different sizes"):
        found.union(filter_of([b"k"], sized_for=9, false_positives=0.2))


@covers("LOG-13")
@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (HEAD.pack(-1, 1, 1, 8) + b"\0", "OTHER", "expected SIMPLE or DYNAMIC_V0, found OTHER"),
        (HEAD.pack(-1, 1, 1, 8) + b"\0\0", SIMPLE, f"expected {HEAD.size + 1} bytes, found {HEAD.size + 2}"),
        (HEAD.pack(-1, 0, 1, 8) + b"\0", SIMPLE, "expected hashes and bits, found 0 and 8"),
        (HEAD.pack(-1, 1, 1, 0), SIMPLE, "expected hashes and bits, found 1 and 0"),
        (HEAD.pack(-1, 1, 1, 8), DYNAMIC, "expected the number of rows"),
        (
            HEAD.pack(-1, 1, 1, 8) + struct.pack(">iii", 8, 1, 2),
            DYNAMIC,
            "expected a number of rows that fit, found 2",
        ),
        (
            HEAD.pack(-1, 1, 1, 8) + struct.pack(">iii", 8, 1, 1) + HEAD.pack(-1, 1, 1, 8) + b"\0\0",
            DYNAMIC,
            f"bytes, found {2 * HEAD.size + 14}",
        ),
    ],
)
def test_a_damaged_filter_is_refused_for_what_is_wrong(data: bytes, kind: str, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        decode_filter(base64.b64encode(data), kind, at="file")
