"""Our bitmaps against those of the Roaring library of C, byte for byte."""

from __future__ import annotations

import array
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pktable.format.vectors import roaring, roaring_builder
from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder, decode_vector, encode_vector
from pktable.format.vectors.roaring import Bitmap, read_bitmap
from pktable.format.vectors.roaring_builder import BitmapBuilder
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pyroaring import BitMap, BitMap64

from model_tests.damage.decoders import flips

CONTAINER = 1 << 16
Positions = np.ndarray


@pytest.fixture(autouse=True, scope="module", params=["small", "large"])
def however_large(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run everything with bitmaps read by the library, as small ones are, and read by us."""
    with pytest.MonkeyPatch.context() as patched:
        if request.param == "large":
            patched.setattr(roaring, "SMALL", 0)
            patched.setattr(roaring, "FEW", 0)
        yield


@st.composite
def stretches(draw: st.DrawFn) -> Positions:
    """Positions of one container, or of neighbours, of every density and length of runs."""
    start = draw(
        st.sampled_from([0, 1, 60_000, CONTAINER, 3 * CONTAINER - 70, 40 * CONTAINER, (1 << 32) - CONTAINER])
    )
    length = draw(st.sampled_from([1, 2, 63, 64, 65, 130, 5_000, CONTAINER, 2 * CONTAINER]))
    run = draw(st.sampled_from([1, 2, 3, 7, 64, 200, 3_000]))
    rate = draw(st.sampled_from([0.001, 0.05, 0.5, 0.95, 1.0]))
    seed = draw(st.integers(0, 99))
    chosen = np.random.default_rng(seed).random(length // run + 1) < rate
    chosen[0] = True
    found = start + np.flatnonzero(np.repeat(chosen, run)[:length])
    return found[found < 1 << 32]


SETS = st.lists(stretches(), min_size=1, max_size=4).map(lambda parts: np.unique(np.concatenate(parts)))


def of_the_library(positions: Positions, *, runs: bool = True) -> bytes:
    bitmap = BitMap(array.array("I", positions.astype(np.uint32).tobytes()), optimize=False)
    if runs:
        bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return data


def bytes_of_containers(data: bytes) -> int:
    containers = read_bitmap(memoryview(data), "bitmap").containers
    return int((containers.stops - containers.starts).sum())


def built(positions: Positions) -> Bitmap:
    builder = BitmapBuilder()
    assert builder.add(positions) == len(positions)
    return builder.build()


@covers("DVF-2", "DVF-6")
@given(SETS)
@example(np.arange(60_000, CONTAINER + 3))  # of its last container an array and a run take as many bytes
def test_a_bitmap_is_built_byte_for_byte_as_the_library_builds_it(positions: Positions) -> None:
    assert bytes(built(positions).data) == of_the_library(positions)


@covers("DVF-6")
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("count", [1, 2, 3, 2046, 2047, 2048, 2049])
@pytest.mark.parametrize("base", [0, CONTAINER])
def test_runs_are_chosen_exactly_where_the_library_chooses_them(length: int, count: int, base: int) -> None:
    """Around the sizes at which runs, arrays and bitsets take the same number of bytes."""
    positions = base + (np.arange(count)[:, None] * (length + 1) + np.arange(length)).reshape(-1)
    for some in (positions, positions[:-1], np.append(positions, positions[-1] + 2)):
        if len(some):
            assert bytes(built(some).data) == of_the_library(some)


@covers("DVF-2", "DVF-6")
@given(SETS, SETS, st.booleans(), st.booleans())
@example(np.arange(7), np.array([60000, 60002, 60003, 60011, 60013, 60020]), True, False)
def test_a_bitmap_that_grows_is_the_one_of_all_its_positions(
    one: Positions, other: Positions, runs: bool, as_mask: bool
) -> None:
    base = read_bitmap(memoryview(of_the_library(one, runs=runs)), "library")
    builder = BitmapBuilder(base)
    both = np.union1d(one, other)
    if as_mask and other[-1] < 50 * CONTAINER:
        mask = np.zeros(int(other[-1] - other[0]) + 3, np.bool_)
        mask[other - other[0]] = True
        new = builder.add_mask(mask, int(other[0]))
    else:
        new = builder.add(other)
    assert new == len(both) - len(one)
    grown = builder.build()
    assert bytes(base.data) == of_the_library(one, runs=runs)
    assert grown.positions().tolist() == both.tolist()
    # Runs that take as many bytes as an array stay what they were in the base; their head may differ.
    assert bytes_of_containers(bytes(grown.data)) == bytes_of_containers(of_the_library(both))
    assert runs or bytes(grown.data) == of_the_library(both)


@covers("DVF-2", "DVF-6")
@given(SETS, st.booleans())
def test_a_bitmap_of_the_library_is_read_and_optimised_alike(positions: Positions, runs: bool) -> None:
    data = of_the_library(positions, runs=runs)
    bitmap = read_bitmap(memoryview(data + b"beyond"), "library")
    assert bytes(bitmap.data) == data
    assert (bitmap.cardinality, bitmap.greatest) == (len(positions), positions[-1])
    np.testing.assert_array_equal(bitmap.positions(), positions)
    assert bytes(bitmap.run_optimized().data) == of_the_library(positions)


@given(
    SETS, st.integers(-70, 3 * CONTAINER), st.sampled_from([1, 100, 9_000, 70_000, 200_000]), st.booleans()
)
@example(np.array([1, 2, 3]), 0, 1, True)
@example(np.arange(3, 6), 0, 1, True)
def test_rows_are_filled_exactly_where_they_are_in_the_bitmap(
    positions: Positions, start: int, rows: int, runs: bool
) -> None:
    bitmap = read_bitmap(memoryview(of_the_library(positions, runs=runs)), "library")
    mask = np.zeros(rows, np.bool_)
    bitmap.fill(mask, start)
    np.testing.assert_array_equal(mask, np.isin(np.arange(start, start + rows), positions))
    bits = np.zeros(rows, np.uint8)
    bitmap.fill_bits(bits)
    expected = np.isin(np.arange(8 * rows), positions)
    np.testing.assert_array_equal(np.unpackbits(bits, bitorder="little"), expected)


@given(SETS, st.lists(st.integers(0, 200), max_size=6), st.integers(1, 300))
def test_windows_of_any_size_make_the_same_bitmap(positions: Positions, cuts: list[int], stride: int) -> None:
    parts = np.split(positions, sorted(cut * len(positions) // 200 for cut in cuts))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(roaring_builder, "STRIDE", stride)
        builder = BitmapBuilder()
        assert [builder.add(part) for part in parts] == [len(part) for part in parts]
        assert [builder.add(part) for part in parts] == [0] * len(parts)
    assert bytes(builder.build().data) == of_the_library(positions)


@covers("DVF-3", "DVF-6")
@given(SETS)
def test_a_64_bit_vector_holds_what_the_library_writes_for_64_bits(positions: Positions) -> None:
    bitmap = BitMap64(array.array("Q", positions.astype(np.uint64).tobytes()))
    bitmap.run_optimize()
    vector = DeletionVector.from_positions(positions, bits=64)
    assert encode_vector(vector)[8:-4] == bitmap.serialize()


@covers("DV-1", "DV-9")
@given(SETS, st.sampled_from([0, 1, 65, (1 << 32) - 100]))
def test_positions_and_masks_mark_alike_also_across_the_halves(positions: Positions, start: int) -> None:
    positions = positions[positions < 50 * CONTAINER]
    mask = np.zeros(int(positions.max(initial=0)) + 1, np.bool_)
    mask[positions] = True
    one, other = (VectorBuilder(DeletionVector({}, 64)) for _ in range(2))
    assert one.mark(positions + start) == other.mark_mask(mask, start) == len(positions)
    assert one.mark(positions + start) == other.mark_mask(mask, start) == 0
    assert one.vector().positions().tolist() == (positions + start).tolist()
    assert encode_vector(one.vector()) == encode_vector(other.vector())


@covers("DV-1")
@given(SETS)
def test_words_are_the_mask_as_bits(positions: Positions) -> None:
    positions = positions[positions < 50 * CONTAINER]
    vector = decode_vector(encode_vector(DeletionVector.from_positions(positions)), at="vector")
    words = vector.words()
    assert words.dtype == np.int64
    assert len(words) == (vector.max_position + 64) // 64
    np.testing.assert_array_equal(
        np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")), positions
    )


def test_masks_beyond_the_greatest_position_are_refused() -> None:
    builder = VectorBuilder(DeletionVector({}, 32))
    assert builder.mark_mask(np.array([True, False, False]), (1 << 31) - 1) == 1
    for mask, start in (([False, True], (1 << 31) - 1), ([True], 1 << 31), ([True], -1)):
        with pytest.raises(InvalidRequestError, match="expected 0 to"):
            builder.mark_mask(np.array(mask), start)
    assert builder.vector().positions().tolist() == [(1 << 31) - 1]


def damaged_bitmaps() -> list[tuple[str, bytes]]:
    """Bitmaps that no writer means, by what is wrong with them."""

    def changed(data: bytes, at: int, value: bytes) -> bytes:
        return data[:at] + value + data[at + len(value) :]

    array = of_the_library(np.array([1, 5, 9]))
    bitset = of_the_library(np.arange(0, 10_000, 2))
    runs = of_the_library(np.concatenate([np.arange(10, 90), np.arange(95, 300)]))
    many = of_the_library(np.concatenate([np.arange(100) + i * CONTAINER for i in range(5)]))
    plain = of_the_library(np.array([3, CONTAINER + 4]))
    return [
        ("nothing", b""),
        ("another cookie", changed(array, 0, b"\x3b")),
        ("more containers than there are", changed(array, 4, struct.pack("<I", 1 << 17))),
        ("an array that descends", changed(array, 16, struct.pack("<3H", 9, 5, 1))),
        ("an array with a position twice", changed(array, 16, struct.pack("<3H", 5, 5, 9))),
        ("a bitset with a bit more", changed(bitset, 16, b"\xff")),
        ("offsets that are wrong", changed(array, 12, struct.pack("<I", 20))),
        ("offsets beyond the end", changed(many, 4 + 1 + 20, struct.pack("<I", 1 << 30))),
        ("offsets that are wrong, with runs", changed(many, 4 + 1 + 20 + 4, struct.pack("<I", 47))),
        ("keys that descend", changed(plain, 8, struct.pack("<H", 2))),
        ("runs of other length than said", changed(runs, 5 + 2, struct.pack("<H", 7))),
        ("runs that overlap", changed(runs, 11, struct.pack("<4H", 10, 79, 80, 204))),
        ("runs that share a position", changed(runs, 11, struct.pack("<4H", 10, 79, 89, 204))),
        ("runs that descend", changed(runs, 11, struct.pack("<4H", 95, 204, 10, 79))),
        ("runs beyond the container", changed(runs, 11, struct.pack("<4H", 10, 79, 65500, 204))),
        ("no runs where some are said to be", changed(runs, 9, struct.pack("<H", 0))),
        ("flags of containers that are not there", changed(runs, 4, b"\x03")),
        ("a cookie of runs without any", changed(runs, 4, b"\x00")),
        *[("a prefix", data[:cut]) for data in (array, runs, many) for cut in range(0, len(data), 7)],
    ]


@covers("DVF-2", "DVF-5")
@pytest.mark.parametrize(
    "data", [pytest.param(data, id=f"{what}-{i}") for i, (what, data) in enumerate(damaged_bitmaps())]
)
def test_a_bitmap_that_no_writer_means_is_found(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="bitmap"):
        read_bitmap(memoryview(data), "bitmap")


def library_reads(data: bytes) -> bool:
    """Whether the library takes ``data`` as what it means, to the byte."""
    try:
        return bool(BitMap.deserialize(data).serialize() == data)
    except (ValueError, IndexError):
        return False


@covers("DVF-2", "DVF-5")
@pytest.mark.parametrize(
    "positions",
    [
        np.array([1, 5, 9, CONTAINER, CONTAINER + 2]),
        np.concatenate([np.arange(10, 90), np.arange(95, 300), np.array([CONTAINER, 2 * CONTAINER])]),
        np.concatenate([np.arange(100) + i * CONTAINER for i in range(5)]),
        np.arange(0, 10_000, 2),
    ],
    ids=["arrays", "runs without offsets", "runs", "bitset"],
)
def test_a_damaged_bitmap_is_read_exactly_if_the_library_reads_it(positions: Positions) -> None:
    data = of_the_library(positions)
    for damaged in flips(data[:120]):
        damaged += data[120:]
        try:
            ours = len(read_bitmap(memoryview(damaged), "bitmap").data) == len(damaged)
        except CorruptFileError:
            ours = False
        assert ours == library_reads(damaged), damaged[:120].hex()
