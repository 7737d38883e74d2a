"""Read and write sets of 64-bit numbers as Java's class ``Roaring64Bitmap`` serializes them.

A number is a key, its high 48 bits, and a low half of 16 bits. In memory a set is a bitmap of low halves by key. Its
bytes are these parts. Integers are little-endian.

1. One byte: 0 for an empty set, which has no other part, and else 1.
2. The number of keys (int64), and a radix tree of the bytes of the keys, each node followed by its children. A node has
   its kind (1 byte), the number of its children (int16), its prefix, which is what all keys below it have next (1 byte
   of length), and the byte by which each child goes on, stored as the kind says. A leaf has its whole key (6 bytes,
   big-endian) and its slot (int64) instead. Its prefix means nothing; older versions leave one behind.
3. The number 1 (int32), the byte -2, the number of slots (int32), and the slots: 0 if one is empty, and else 1, a
   container's kind (1 byte), its cardinality (int32), and its positions, as in a portable bitmap of 32 bits.
4. The number of containers (int64), the number 0 (int32), and the slot that was taken last (int32).

Many bytes mean the same set: a node that has lost children keeps its kind for a while, and slots are taken in the
order in which keys came. All of them are read. A set is written as Java writes it if its numbers are added one by one,
in ascending order without signs, and run-optimised.

Clauses: MRG-30.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
from pktable_spec.errors import CorruptFileError
from pyroaring import BitMap

from pktable.format.vectors import roaring
from pktable.format.vectors.roaring import BITSET_BYTES, COOKIE, COOKIE_WITH_RUNS, Bitmap, read_bitmap

NODE4, NODE16, NODE48, NODE256, LEAF = range(5)
MOST_CHILDREN: Final = {NODE4: 4, NODE16: 16, NODE48: 48, NODE256: 256}
RUNS, BITSET, ARRAY = range(3)
KEY_BYTES: Final = 6
NO_CHILD: Final = 0xFF
EMPTY: Final = b"\0"
NOT_EMPTY: Final = b"\1"
FULL_TABLE: Final = -2

_FLAG: Final = struct.Struct("<b")
_KEY_COUNT: Final = struct.Struct("<q")
_NODE: Final = struct.Struct("<bhb")
_LEAF: Final = struct.Struct(f"<{KEY_BYTES}sq")
_SLOTS: Final = struct.Struct("<ibi")
_CONTAINER: Final = struct.Struct("<bi")
_RUN_COUNT: Final = struct.Struct("<H")
_END: Final = struct.Struct("<qii")
_ONE_CONTAINER: Final = struct.Struct("<IIHHI")
"""The head of a portable bitmap whose only container is an array or a bitset."""
_ONE_OF_RUNS: Final = struct.Struct("<HHBHH")

Bitmaps = Mapping[int, Bitmap]
"""The low halves by key, none of them empty."""


@dataclass
class _Source:
    """A cursor over bytes that raises CorruptFileError instead of reading past their end."""

    data: bytes
    at: str
    offset: int = 0

    def take(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.bytes(layout.size))

    def bytes(self, count: int) -> bytes:
        start, end = self.offset, self.offset + count
        self.expect(0 <= count <= len(self.data) - start, f"{count} bytes", len(self.data) - start)
        self.offset = end
        return self.data[start:end]

    def expect(self, holds: Any, expected: str, found: object) -> None:
        if not holds:
            where = f"{self.at}, byte {self.offset}"
            raise CorruptFileError("64-bit bitmap", at=where, expected=expected, found=found)


def decode(data: bytes, at: str) -> dict[int, Bitmap]:
    """Return the low halves of a set by key, ascending. Raises CorruptFileError for bytes that are no set."""
    source = _Source(data, at)
    head = source.bytes(1)
    source.expect(head in (EMPTY, NOT_EMPTY), "0 or 1", head.hex())
    found = {}
    if head == NOT_EMPTY:
        (count,) = source.take(_KEY_COUNT)
        slots: dict[int, int] = {}
        _read_node(source, b"", slots)
        source.expect(len(slots) == count, f"{count} keys", len(slots))
        containers = _read_containers(source)
        source.expect(slots.keys() == containers.keys(), "a container for each key", "others")
        found = {key: containers[slot] for slot, key in slots.items() if containers[slot].cardinality}
    left = len(data) - source.offset
    source.expect(not left, "no byte after the set", f"{left} bytes")
    return found


def _read_node(source: _Source, path: bytes, slots: dict[int, int]) -> None:
    """Read a node and what is below it, and put its keys, ascending, into ``slots``. ``path``: their first bytes."""
    kind, count, length = source.take(_NODE)
    prefix = source.bytes(length)
    if kind == LEAF:
        key, slot = source.take(_LEAF)
        source.expect(not count, "a leaf without children", count)
        source.expect(key.startswith(path), f"a key that begins with {path.hex()}", key.hex())
        source.expect(slot not in slots, "a slot for each key", slot)
        slots[slot] = int.from_bytes(key, "big")
        return
    source.expect(kind in MOST_CHILDREN, "the kind of a node", kind)
    source.expect(count > 0, "children", count)
    path += prefix
    source.expect(len(path) < KEY_BYTES, f"a prefix that leaves one of {KEY_BYTES} bytes", length)
    branches = _read_branches(source, kind, count)
    ascend = all(one < next_one for one, next_one in pairwise(branches))
    source.expect(len(branches) == count and ascend, f"{count} ascending bytes", branches.hex())
    for branch in branches:
        _read_node(source, path + bytes([branch]), slots)


def _read_branches(source: _Source, kind: int, count: int) -> bytes:
    """Return the byte by which each child of a node goes on."""
    if kind == NODE4:
        return source.bytes(4)[::-1][:count]
    if kind == NODE16:
        return _words_swapped(source.bytes(16))[:count]
    if kind == NODE48:
        places = _words_swapped(source.bytes(256))
        taken = [place for place in places if place != NO_CHILD]
        distinct = len(set(taken)) == len(taken) and max(taken, default=0) < MOST_CHILDREN[NODE48]
        source.expect(distinct, "a place below 48 for each child", "others")
        return bytes(branch for branch, place in enumerate(places) if place != NO_CHILD)
    bits = np.unpackbits(np.frombuffer(source.bytes(32), np.uint8), bitorder="little")
    return np.flatnonzero(bits).astype(np.uint8).tobytes()


def _read_containers(source: _Source) -> dict[int, Bitmap]:
    """Return the bitmap of each slot that is taken."""
    arrays, label, count = source.take(_SLOTS)
    source.expect((arrays, label) == (1, FULL_TABLE), "one table of slots", (arrays, label))
    found = {}
    for slot in range(count):  # each takes a byte, so that a wrong count ends with the data
        (taken,) = source.take(_FLAG)
        source.expect(taken in (0, 1), "0 or 1", taken)
        if taken:
            found[slot] = _read_container(source)
    kept, table, last = source.take(_END)
    source.expect(kept == len(found), f"{kept} containers", len(found))
    fits = table == 0 and max(found, default=0) <= last < count
    source.expect(fits, "the slot that was taken last", (table, last))
    return found


def _read_container(source: _Source) -> Bitmap:
    kind, cardinality = source.take(_CONTAINER)
    source.expect(kind in (RUNS, BITSET, ARRAY), "the kind of a container", kind)
    source.expect(0 <= cardinality <= 1 << 16, "0 to 65536 positions", cardinality)
    body = _read_body(source, kind, cardinality)
    if not cardinality and not any(body):
        return roaring.EMPTY
    if kind == RUNS:
        head = _ONE_OF_RUNS.pack(COOKIE_WITH_RUNS, 0, 1, 0, max(cardinality - 1, 0))
    elif (kind == BITSET) == (cardinality > roaring.LARGEST_ARRAY):
        head = _ONE_CONTAINER.pack(COOKIE, 1, 0, max(cardinality - 1, 0), _ONE_CONTAINER.size)
    else:
        return _of_another_kind(source, kind, cardinality, body)
    found = read_bitmap(memoryview(head + body), source.at)
    source.expect(found.cardinality == cardinality, f"{cardinality} positions", found.cardinality)
    return found


def _read_body(source: _Source, kind: int, cardinality: int) -> bytes:
    if kind == ARRAY:
        return source.bytes(2 * cardinality)
    if kind == BITSET:
        return source.bytes(BITSET_BYTES)
    (count,) = _RUN_COUNT.unpack(head := source.bytes(_RUN_COUNT.size))
    return head + source.bytes(4 * count)


def _of_another_kind(source: _Source, kind: int, cardinality: int, body: bytes) -> Bitmap:
    """Return the bitmap of a small bitset or a large array, which a portable bitmap cannot have."""
    if kind == BITSET:
        lows = np.flatnonzero(np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little"))
    else:
        lows = np.frombuffer(body, "<u2").astype(np.int64)
    ascend = len(lows) == cardinality and (lows[1:] > lows[:-1]).all()
    source.expect(ascend, f"{cardinality} ascending positions", "others")
    return Bitmap.optimized(BitMap(array("I", lows.astype(np.uint32).tobytes())))


def encode(bitmaps: Bitmaps) -> bytes:
    """Return the bytes of a set, of which ``bitmaps`` are the low halves by key."""
    keys = sorted(bitmaps)
    if not keys:
        return EMPTY
    parts = [NOT_EMPTY, _KEY_COUNT.pack(len(keys))]
    _write_nodes(parts, [key.to_bytes(KEY_BYTES, "big") for key in keys], 0, 0)
    slots = _slots_for(len(keys))
    parts.append(_SLOTS.pack(1, FULL_TABLE, slots))
    parts.extend(_container(bitmaps[key].run_optimized()) for key in keys)
    parts.append(bytes(slots - len(keys)))
    parts.append(_END.pack(len(keys), 0, len(keys) - 1))
    return b"".join(parts)


def _write_nodes(parts: list[bytes], keys: Sequence[bytes], slot: int, depth: int) -> None:
    """Append the tree of ascending keys, which agree in their first ``depth`` bytes. ``slot``: of the first of them."""
    if len(keys) == 1:
        parts.append(_NODE.pack(LEAF, 0, 0) + _LEAF.pack(keys[0], slot))
        return
    first, last = keys[0], keys[-1]
    at = next(i for i in range(depth, KEY_BYTES) if first[i] != last[i])
    starts = [0, *(i for i in range(1, len(keys)) if keys[i][at] != keys[i - 1][at])]
    branches = bytes(keys[start][at] for start in starts)
    kind = next(kind for kind, most in MOST_CHILDREN.items() if len(branches) <= most)
    parts.append(_NODE.pack(kind, len(branches), at - depth) + first[depth:at])
    parts.append(_stored_branches(kind, branches))
    for start, stop in pairwise([*starts, len(keys)]):
        _write_nodes(parts, keys[start:stop], slot + start, at + 1)


def _stored_branches(kind: int, branches: bytes) -> bytes:
    if kind == NODE4:
        return branches.ljust(4, b"\0")[::-1]
    if kind == NODE16:
        return _words_swapped(branches.ljust(16, b"\0"))
    if kind == NODE48:
        places = bytearray([NO_CHILD]) * 256
        for place, branch in enumerate(branches):
            places[branch] = place
        return _words_swapped(bytes(places))
    bits = np.zeros(256, np.uint8)
    bits[np.frombuffer(branches, np.uint8)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _words_swapped(data: bytes) -> bytes:
    """Return ``data`` with the 8 bytes of each word in the other order."""
    words = array("Q", data)
    words.byteswap()
    return words.tobytes()


def _slots_for(count: int) -> int:
    """Return how many slots Java has after it has added ``count`` containers: it adds half of them, or one."""
    slots = 1
    while slots < count:
        slots += max(slots // 2, 1)
    return slots


def _container(bitmap: Bitmap) -> bytes:
    """Return a slot that has the only container of a portable bitmap."""
    data, cardinality = bytes(bitmap.data), bitmap.cardinality
    if data[:2] == COOKIE_WITH_RUNS.to_bytes(2, "little"):
        kind, body = RUNS, data[_ONE_OF_RUNS.size :]
    else:
        kind = BITSET if cardinality > roaring.LARGEST_ARRAY else ARRAY
        body = data[_ONE_CONTAINER.size :]
    return _FLAG.pack(1) + _CONTAINER.pack(kind, cardinality) + body
