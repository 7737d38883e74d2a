"""Sets of 64-bit numbers, as Java serializes them: any tree is read, damage is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format.vectors.roaring_tree import (
    ARRAY,
    BITSET,
    LEAF,
    NODE4,
    NODE16,
    NODE48,
    NODE256,
    RUNS,
    decode,
    encode,
)
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.damage.decoders import assert_no_flip_crashes, assert_no_prefix_decodes
from model_tests.format.long_sets import WORD, from_bytes, requests, to_bytes

# Bytes that version 1.2.1 of Java's class writes, by `long_sets.java_answers` with PKTABLE_ROARING_JAR.
# 5 and 2^62; between them a slot of 2^30, which was removed.
SHRUNK = (
    "0102000000000000000002000000004000040000040000000000000000000000000000000000000400000040000000000002"
    "0000000000000001000000fe03000000010201000000050000010201000000000002000000000000000000000002000000"
)
# 5; 2^30 was removed, and the leaf has got a prefix that means nothing.
WITH_PREFIX = (
    "010100000000000000040000050000000000000000000000000000000000000001000000fe02000000010201000000050000"
    "01000000000000000000000001000000"
)
# Six keys, of which the first three were removed.
THREE_OF_SIX = (
    "0103000000000000000003000500000000000005040304000000000000000003030000000000000004000000000000000004"
    "040000000000000004000000000000000005050000000000000001000000fe06000000000000010201000000000001020100"
    "00000000010201000000000003000000000000000000000005000000"
)

KEYS = st.tuples(*[st.sampled_from([0, 1, 7, 255])] * 6).map(lambda key: int.from_bytes(bytes(key), "big"))
LOWS = st.sampled_from([0, 1, 2, 3, 9, 65_535])
SETS = st.sets(st.tuples(KEYS, LOWS).map(lambda one: one[0] << 16 | one[1]), max_size=40)


def set_of(
    *nodes: bytes, containers: bytes, count: int = 1, slots: int | None = None, last: int | None = None
) -> bytes:
    """A set of ``count`` keys with the nodes and containers given."""
    table = struct.pack("<ibi", 1, -2, count if slots is None else slots) + containers
    end = struct.pack("<qii", count, 0, count - 1 if last is None else last)
    return b"\1" + struct.pack("<q", count) + b"".join(nodes) + table + end


def leaf(key: int, slot: int) -> bytes:
    return struct.pack("<bhb", LEAF, 0, 0) + key.to_bytes(6, "big") + struct.pack("<q", slot)


def branch(kind: int, count: int, body: bytes, prefix: bytes = b"") -> bytes:
    return struct.pack("<bhb", kind, count, len(prefix)) + prefix + body


def container(kind: int, cardinality: int, body: bytes) -> bytes:
    return b"\1" + struct.pack("<bi", kind, cardinality) + body


def bitset(*lows: int) -> bytes:
    bits = np.zeros(1 << 16, np.uint8)
    bits[list(lows)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


ZERO = container(ARRAY, 1, b"\0\0")
FIRST = leaf(0, 0)


@covers("MRG-30")
@pytest.mark.parametrize(
    ("data", "numbers"),
    [
        ("00", []),
        (SHRUNK, [5, 1 << 62]),
        (WITH_PREFIX, [5]),
        (THREE_OF_SIX, [3 << 16, 4 << 16, 5 << 16]),
    ],
)
def test_what_java_writes_after_removals_is_read(data: str, numbers: list[int]) -> None:
    assert from_bytes(bytes.fromhex(data)) == numbers


@covers("MRG-30")
@given(SETS)
def test_a_set_is_read_as_it_was_written(numbers: set[int]) -> None:
    data = to_bytes(numbers)
    assert from_bytes(data) == sorted(numbers)
    assert encode(decode(data, "set")) == data


@covers("MRG-30")
def test_sets_of_every_shape_are_read_as_they_were_written() -> None:
    for request in requests(seed=2):
        numbers = request.numbers
        assert from_bytes(to_bytes(numbers)) == numbers


@covers("MRG-30")
@pytest.mark.parametrize(
    ("stored", "lows"),
    [
        (container(BITSET, 2, bitset(3, 65_535)), [3, 65_535]),
        (container(ARRAY, 5_000, np.arange(5_000, dtype="<u2").tobytes()), list(range(5_000))),
        (container(RUNS, 65_536, struct.pack("<HHH", 1, 0, 65_535)), list(range(65_536))),
        (container(RUNS, 2, struct.pack("<HHHHH", 2, 4, 0, 8, 0)), [4, 8]),
        (container(ARRAY, 0, b""), []),
        (container(BITSET, 0, bitset()), []),
        (container(RUNS, 0, b"\0\0"), []),
    ],
)
def test_containers_that_java_reads_are_read(stored: bytes, lows: list[int]) -> None:
    """Also a kind that its cardinality does not ask for, and empty ones, which old versions left."""
    assert from_bytes(set_of(FIRST, containers=stored)) == lows


WRONG = {
    "a flag": b"\2",
    "a byte after the empty set": b"\0\0",
    "a byte after the set": set_of(FIRST, containers=ZERO) + b"\0",
    "the number of keys": set_of(FIRST, containers=ZERO)[:1]
    + struct.pack("<q", 2)
    + set_of(FIRST, containers=ZERO)[9:],
    "the kind of a node": set_of(branch(5, 1, b"\1" + bytes(31)), FIRST, containers=ZERO),
    "a leaf with children": set_of(struct.pack("<bhb", LEAF, 1, 0) + FIRST[4:], containers=ZERO),
    "a prefix of negative length": set_of(struct.pack("<bhb", LEAF, 0, -1) + FIRST[4:], containers=ZERO),
    "no children": set_of(branch(NODE4, 0, bytes(4)), containers=b"\0", count=0, slots=1, last=0),
    "children without number": set_of(branch(NODE4, -1, bytes(4)), containers=ZERO),
    "too many children": set_of(branch(NODE4, 5, bytes(4)), containers=ZERO),
    "a tree that is too deep": set_of(*[branch(NODE4, 1, bytes(4))] * 5_000, FIRST, containers=ZERO),
    "a prefix as long as a key": set_of(branch(NODE4, 1, bytes(4), bytes(6)), FIRST, containers=ZERO),
    "a leaf in the wrong place": set_of(branch(NODE4, 1, bytes([0, 0, 0, 1])), FIRST, containers=ZERO),
    "children in descending order": set_of(
        branch(NODE4, 2, bytes([0, 0, 0, 1])), leaf(1 << 40, 0), leaf(0, 1), containers=2 * ZERO, count=2
    ),
    "a branch twice": set_of(branch(NODE16, 2, bytes(16)), FIRST, leaf(1, 1), containers=2 * ZERO, count=2),
    "a place twice": set_of(
        branch(NODE48, 2, b"\xff" * 6 + b"\0\0" + b"\xff" * 248),
        FIRST,
        leaf(1 << 40, 1),
        containers=2 * ZERO,
        count=2,
    ),
    "a place beyond 48": set_of(
        branch(NODE48, 1, b"\xff" * 7 + b"\x30" + b"\xff" * 248), FIRST, containers=ZERO
    ),
    "fewer bits than children": set_of(
        branch(NODE256, 2, b"\1" + bytes(31)), FIRST, leaf(1 << 40, 1), containers=2 * ZERO, count=2
    ),
    "a slot twice": set_of(branch(NODE4, 2, bytes([0, 0, 1, 0])), FIRST, leaf(1 << 40, 0), containers=ZERO),
    "an empty slot": set_of(FIRST, containers=b"\0"),
    "a slot that is not there": set_of(leaf(0, 1), containers=ZERO),
    "two tables": set_of(FIRST, containers=ZERO).replace(b"\1\0\0\0\xfe", b"\2\0\0\0\xfe"),
    "the byte before the slots": set_of(FIRST, containers=ZERO).replace(b"\xfe", b"\xff"),
    "a slot that is neither": set_of(FIRST, containers=b"\2" + ZERO[1:]),
    "more slots than bytes": set_of(FIRST, containers=ZERO, slots=(1 << 31) - 1),
    "slots without number": set_of(FIRST, containers=ZERO, slots=-1),
    "the last slot": set_of(FIRST, containers=ZERO, last=1),
    "a last slot before others": set_of(FIRST, containers=ZERO, last=-1),
    "the number of containers": set_of(FIRST, containers=ZERO)[:-16] + struct.pack("<qii", 2, 0, 0),
    "the table of the last slot": set_of(FIRST, containers=ZERO)[:-16] + struct.pack("<qii", 1, 1, 0),
    "the kind of a container": set_of(FIRST, containers=container(3, 1, b"\0\0")),
    "a cardinality below zero": set_of(FIRST, containers=container(ARRAY, -1, b"\0\0")),
    "a cardinality of an array": set_of(FIRST, containers=container(ARRAY, 65_537, bytes(2 * 65_537))),
    "numbers of an empty bitset": set_of(FIRST, containers=container(BITSET, 0, bitset(7))),
    "numbers of empty runs": set_of(FIRST, containers=container(RUNS, 0, struct.pack("<HHH", 1, 4, 0))),
    "a cardinality of runs": set_of(FIRST, containers=container(RUNS, 1, struct.pack("<HHH", 1, 4, 1))),
    "runs that overlap": set_of(FIRST, containers=container(RUNS, 6, struct.pack("<HHHHH", 2, 4, 2, 5, 2))),
    "a cardinality of a bitset": set_of(FIRST, containers=container(BITSET, 5_000, bitset(*range(5_001)))),
    "a cardinality of a small bitset": set_of(FIRST, containers=container(BITSET, 2, bitset(7))),
    "an array in descending order": set_of(FIRST, containers=container(ARRAY, 2, b"\1\0\0\0")),
    "a large array of equal numbers": set_of(FIRST, containers=container(ARRAY, 5_000, bytes(10_000))),
}


@covers("MRG-30")
@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_bytes_that_are_no_set_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match=r"^set, byte \d+: 64-bit bitmap|^set: bitmap") as caught:
        decode(data, "set")
    assert "\n" not in str(caught.value)


@covers("MRG-30")
def test_the_parts_of_wrong_sets_make_right_ones() -> None:
    """Otherwise the sets above might be refused for another reason."""
    pair = [leaf(0, 1), leaf(1 << 40, 0)]
    nodes = [
        branch(NODE4, 2, bytes([0, 0, 1, 0])),
        branch(NODE16, 2, bytes([0] * 6 + [1, 0]) + bytes(8)),
        branch(NODE48, 2, b"\xff" * 6 + b"\0\1" + b"\xff" * 248),
        branch(NODE256, 2, b"\3" + bytes(31)),
    ]
    for node in nodes:
        data = set_of(node, *pair, containers=2 * ZERO, count=2)
        assert from_bytes(data) == [0, 1 << 56]


@covers("MRG-30")
def test_no_prefix_of_a_set_is_one_and_no_changed_byte_crashes() -> None:
    numbers = [5, *range(100, 300), 1 << 40, *(i << 24 for i in range(20)), WORD - 1]
    data = to_bytes(numbers)
    assert_no_prefix_decodes(lambda damaged: decode(damaged, "set"), data)
    assert_no_flip_crashes(lambda damaged: decode(damaged, "set"), data)
