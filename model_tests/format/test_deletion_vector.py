"""Deletion vectors as sets, and as bytes of others and our own."""

from __future__ import annotations

import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format.vectors.deletion_vector import DeletionVector, decode_vector, encode_vector
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pyroaring import BitMap

from model_tests.damage.decoders import assert_no_prefix_decodes, flips
from model_tests.real_data import PAIMON, needs_shared

BITS = st.sampled_from([32, 64])
EDGES = [0, 1, 65535, 65536, 65537, 1 << 20, (1 << 31) - 1]


@st.composite
def position_sets(draw: st.DrawFn, greatest: int = (1 << 31) - 1) -> set[int]:
    """Sets that make every kind of container: arrays, bitsets, runs."""
    found = draw(st.sets(st.sampled_from(EDGES) | st.integers(0, greatest), max_size=8))
    for start, count, step in draw(
        st.lists(
            st.tuples(st.sampled_from([0, 60000, 65536, 131072]), st.integers(0, 9000), st.integers(1, 3)),
            max_size=2,
        )
    ):
        found |= set(range(start, start + count * step, step))
    return found


def decode(blob: bytes) -> DeletionVector:
    return decode_vector(blob, at="vector")


@covers("DV-1")
@given(position_sets(), BITS)
def test_a_vector_is_the_set_of_its_positions(positions: set[int], bits: int) -> None:
    vector = DeletionVector.from_positions(positions, bits=bits)
    assert vector.positions().tolist() == sorted(positions)
    assert vector.positions().dtype == np.int64
    assert (vector.cardinality, vector.max_position) == (len(positions), max(positions, default=-1))
    assert all(position in vector for position in list(positions)[:50])
    assert all((position in vector) == (position in positions) for position in (*EDGES, -1))
    assert "1" not in vector


@covers("DV-1", "RD-7")
@given(position_sets(), st.integers(0, 200_000), st.sampled_from([0, 1, 100, 65536, 70_000]))
def test_a_mask_is_true_exactly_where_a_row_is_deleted(positions: set[int], start: int, rows: int) -> None:
    expected = [position in positions for position in range(start, start + rows)]
    mask = DeletionVector.from_positions(positions).mask(rows, start)
    assert mask.dtype == np.bool_
    assert mask.tolist() == expected


@covers("DV-1")
@pytest.mark.parametrize("count", [4095, 4096, 4097])
def test_the_largest_array_and_the_smallest_bitset_make_the_same_kind_of_mask(count: int) -> None:
    mask = DeletionVector.from_positions(range(0, 2 * count, 2)).mask(2 * count)
    assert mask[::2].all()
    assert not mask[1::2].any()


@given(position_sets(), position_sets(), BITS)
def test_a_union_has_both_and_changes_neither(one: set[int], other: set[int], bits: int) -> None:
    vector = DeletionVector.from_positions(one, bits=bits)
    added = np.array(sorted(other), np.int64)
    both = vector.union(added)
    assert both == DeletionVector.from_positions(one | other, bits=bits)
    assert (both.bits, vector.positions().tolist()) == (bits, sorted(one))
    assert both != DeletionVector.from_positions(one | other | {77}) or 77 in one | other


@covers("DVF-2", "DVF-3", "DVF-4", "META-13")
@given(position_sets(), BITS)
def test_a_vector_survives_its_bytes(positions: set[int], bits: int) -> None:
    vector = DeletionVector.from_positions(positions, bits=bits)
    blob = encode_vector(vector)
    again = decode_vector(blob, at="vector", cardinality=len(positions))
    assert again == vector
    assert again.bits == bits
    assert encode_vector(again) == blob
    assert pickle.loads(pickle.dumps(vector)) == vector


@covers("DVF-3")
def test_positions_beyond_32_bits_fall_into_bitmaps_with_ascending_keys() -> None:
    positions = {3, (1 << 32) + 1, (3 << 32) + 7}
    vector = DeletionVector.from_positions(positions, bits=64)
    blob = encode_vector(vector)
    assert struct.unpack_from("<q", blob, 8) == (4,)  # key 2 is there, empty
    assert decode(blob) == vector
    assert decode(blob).max_position == (3 << 32) + 7
    assert vector.mask(4, (1 << 32) - 1).tolist() == [False, False, True, False]
    assert vector.union([1 << 33]).positions().tolist() == sorted(positions | {1 << 33})
    assert (1 << 32) + 1 in vector
    assert (2 << 32) + 1 not in vector


@covers("DVF-2", "DVF-3", "DVF-6")
@pytest.mark.parametrize(
    ("positions", "bits", "blob"),
    [
        ({1, 3}, 32, "00000018 5e43f2d0 3a300000 01000000 0000 0100 10000000 0100 0300 da2d59d3"),
        (
            {2, 3},
            64,
            "00000024 d1d33964 0100000000000000 00000000"
            "3a300000 01000000 0000 0100 10000000 0200 0300 7a813847",
        ),
        (set(), 64, "0000000c d1d33964 0000000000000000 bf18480c"),
    ],
)
def test_a_vector_is_stored_as_paimon_stores_it(positions: set[int], bits: int, blob: str) -> None:
    assert encode_vector(DeletionVector.from_positions(positions, bits=bits)).hex() == blob.replace(" ", "")
    assert decode(bytes.fromhex(blob)) == DeletionVector.from_positions(positions)


@covers("DVF-6")
def test_runs_are_stored_as_runs() -> None:
    assert len(encode_vector(DeletionVector.from_positions(range(60_000)))) < 50
    grown = DeletionVector.from_positions(range(0, 60_000, 2)).union(range(1, 60_000, 2))
    assert encode_vector(grown) == encode_vector(DeletionVector.from_positions(range(60_000)))
    plain = BitMap(list(range(60_000)), optimize=False).serialize()
    blob = resealed(encode_vector(grown), lambda body: body.__setitem__(slice(4, None), plain))
    assert len(blob) > 8192
    assert encode_vector(decode(blob)) == encode_vector(grown)


@needs_shared
@covers("DVF-3", "DVF-5")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("empty", set()),
        ("small-alternating-values", {1, 3, 5, 7, 9}),
        ("small-and-large-values", {100, 101, (1 << 31) - 1 + 100, (1 << 31) - 1 + 101}),
        ("all-container-types", None),
    ],
)
def test_vectors_of_iceberg_are_read_and_written_alike(name: str, expected: set[int] | None) -> None:
    blob = (PAIMON / "iceberg-dv" / f"{name}-position-index.bin").read_bytes()
    vector = decode(blob)
    assert encode_vector(vector) == blob
    assert vector.bits == 64
    if expected is not None:
        assert set(vector.positions().tolist()) == expected


def blobs() -> list[bytes]:
    sets: list[set[int]] = [
        set(),
        {1, 3},
        set(range(5000)) | {70_000},
        set(range(0, 9000, 2)) | set(range(70000, 71000)),
    ]
    return [encode_vector(DeletionVector.from_positions(s, bits=bits)) for s in sets[:3] for bits in (32, 64)]


@covers("DVF-5", "META-34")
@pytest.mark.parametrize("blob", blobs(), ids=len)
def test_no_damaged_vector_decodes(blob: bytes) -> None:
    assert_no_prefix_decodes(decode, blob)
    for damaged in (*flips(blob), blob + b"\0"):
        with pytest.raises(CorruptFileError):
            decode(damaged)


def resealed(blob: bytes, change: Callable[[bytearray], None]) -> bytes:
    """Return ``blob`` with its body changed and length and CRC made right again, as a wrong writer would."""
    body = bytearray(blob[4:-4])
    change(body)
    return sealed(bytes(body))


def sealed(body: bytes) -> bytes:
    """Return a body with its length and its CRC."""
    return struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


@covers("DVF-2", "DVF-3", "DVF-5")
@pytest.mark.parametrize("blob", blobs(), ids=len)
def test_a_body_that_makes_no_sense_is_found_although_its_crc_is_right(blob: bytes) -> None:
    expected = decode(blob)
    for i in range(len(blob) - 8):
        for mask in (0x01, 0x80):

            def flip(body: bytearray, i: int = i, mask: int = mask) -> None:
                body[i] ^= mask

            try:
                found = decode(resealed(blob, flip))
            except CorruptFileError:
                continue
            # Another set, well formed, is what a right CRC cannot tell; the cardinality may.
            assert encode_vector(found) == encode_vector(
                DeletionVector.from_positions(found.positions(), found.bits)
            )
            if found.cardinality != expected.cardinality:
                with pytest.raises(CorruptFileError, match="cardinality"):
                    decode_vector(resealed(blob, flip), at="vector", cardinality=expected.cardinality)


@covers("DVF-2", "DVF-5")
def test_a_32_bit_body_with_bytes_left_over_or_a_wrong_table_of_offsets_is_found() -> None:
    blob = encode_vector(DeletionVector.from_positions({1}))
    changes: list[Callable[[bytearray], None]] = [
        lambda body: body.extend(b"\0"),
        lambda body: body.__setitem__(slice(16, 20), struct.pack("<I", 17)),
    ]
    for change in changes:
        with pytest.raises(CorruptFileError, match="bitmap"):
            decode(resealed(blob, change))


@covers("DVF-3", "DVF-5")
@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.extend(b"\0"),
        lambda body: body.pop(),
        lambda body: body.clear(),
        lambda body: body.__setitem__(slice(4, 12), struct.pack("<q", 1 << 40)),
        lambda body: body.__setitem__(slice(4, 12), struct.pack("<q", -1)),
        lambda body: body.__setitem__(slice(12, 16), struct.pack("<i", -1)),
        lambda body: body.__setitem__(slice(12, 16), struct.pack("<i", 1 << 20)),
    ],
)
def test_a_64_bit_body_of_the_wrong_shape_is_found(change: Callable[[bytearray], None]) -> None:
    blob = encode_vector(DeletionVector.from_positions({1, 2}, bits=64))
    with pytest.raises(CorruptFileError):
        decode(resealed(blob, change))


@covers("DVF-3")
@pytest.mark.parametrize("count", [3, -1])
def test_a_count_of_more_bitmaps_than_there_can_be_is_found(count: int) -> None:
    body = struct.pack("<iq", 1681511377, count) + bytes(2 * 12 + 6)
    with pytest.raises(CorruptFileError, match=f"bitmap count: expected at most 2, found {count}"):
        decode(sealed(body))


@covers("DVF-3")
def test_keys_that_do_not_ascend_are_found() -> None:
    one = encode_vector(DeletionVector.from_positions({1}, bits=64))[16:-4]  # key and bitmap
    body = struct.pack("<iq", 1681511377, 2) + one + one
    with pytest.raises(CorruptFileError, match="key"):
        decode(sealed(body))


@covers("DVF-5")
def test_a_vector_of_another_cardinality_is_found() -> None:
    blob = encode_vector(DeletionVector.from_positions({1, 2}))
    with pytest.raises(CorruptFileError, match="cardinality"):
        decode_vector(blob, at="index: vector of data-1", cardinality=3)


@covers("DVF-3")
def test_the_last_bitmap_of_64_bits_may_be_empty() -> None:
    empty = bytes.fromhex("0000000c d1d33964 0000000000000000 bf18480c")

    def put(body: bytearray) -> None:
        body[4:] = bytes.fromhex("0100000000000000 05000000 3a300000 00000000")

    assert decode(resealed(empty, put)) == DeletionVector.from_positions([], bits=64)


@pytest.mark.parametrize(("positions", "bits"), [([-1], 32), ([1 << 31], 32), ([1 << 48], 64), ([-1], 64)])
def test_positions_that_cannot_be_stored_are_refused(positions: list[int], bits: int) -> None:
    with pytest.raises(InvalidRequestError, match="expected 0 to"):
        DeletionVector.from_positions(positions, bits=bits)


@needs_shared
@covers("DVF-2")
def test_the_foreign_vectors_are_there() -> None:
    assert {path.name for path in Path(PAIMON / "dv-index").iterdir()} == {"dvindex-32", "dvindex-64"}
