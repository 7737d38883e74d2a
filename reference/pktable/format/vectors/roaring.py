"""Portable Roaring bitmaps of 32 bits, kept as their bytes.

A bitmap is a table of containers. Each holds the positions of one stretch of 65536 as a sorted array of
16-bit numbers, as a bitset, or as runs of (first, length - 1). The Roaring library reads, checks and lists
small bitmaps faster than anything else here could. In a large one, which it would copy several times, the
containers are checked where they lie, many of a kind at once, and a mask touches only those it overlaps.
Both ways refuse the same bytes.

The subtle case is the table of offsets: it is missing where there are runs and fewer than four containers,
and it repeats what the containers say, so both must agree.

Clauses: DVF-2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError
from pyroaring import BitMap

COOKIE: Final = 12346
COOKIE_WITH_RUNS: Final = 12347
FEWEST_WITH_TABLE: Final = 4  # containers, in a bitmap that has runs
MOST_CONTAINERS: Final = 1 << 16
CONTAINER_POSITIONS: Final = 1 << 16
BITSET_BYTES: Final = CONTAINER_POSITIONS // 8
LARGEST_ARRAY: Final = 4096  # positions; a container of more is a bitset
ARRAY, BITSET, RUNS = range(3)

SMALL: Final = 1 << 20  # bytes, up to which the library is faster than we are
FEW: Final = 4096  # positions that are kept as an array too, because that is faster to search
FEW_RUNS: Final = 64  # of a container are faster set one by one
AT_ONCE: Final = 64  # containers; their bits (512 KiB) stay in the cache

Mask = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Expect = Callable[[Any, str, object], None]
"""Raises CorruptFileError unless its first argument holds: what was expected, what was found."""


@dataclass(frozen=True, slots=True)
class Containers:
    """The containers of a bitmap. ``keys``: the high 16 bits of their positions, ascending. ``kinds``: ARRAY,
    BITSET or RUNS. ``sizes``: positions in each. ``starts``, ``stops``: offsets of its bytes in the bitmap.
    """

    keys: Integers
    kinds: Bits
    sizes: Integers
    starts: Integers
    stops: Integers


class Container(NamedTuple):
    """One container. ``kind``: ARRAY, BITSET or RUNS. ``size``: its positions. ``body``: its bytes."""

    kind: int
    size: int
    body: Bits


class Bitmap:
    """An immutable set of positions below 2^32.

    ``data``: its portable bytes. ``is_optimized``: whether its containers are known to be run-optimised.
    ``greatest``: its greatest position, -1 if it has none.
    """

    def __init__(
        self, data: Any, cardinality: int, greatest: int | None = None, *, is_optimized: bool
    ) -> None:
        """Take what is true of ``data``; ``greatest`` is found in it if need be."""
        self.data, self.cardinality = data, cardinality
        self.is_optimized = is_optimized
        if greatest is not None:
            self.greatest = greatest

    @classmethod
    def optimized(cls, bitmap: Any) -> Bitmap:
        """Return the bitmap of the library's, which is run-optimised in passing. Clauses: DVF-6."""
        bitmap.run_optimize()
        return cls(bitmap.serialize(), len(bitmap), bitmap.max() if bitmap else -1, is_optimized=True)

    def run_optimized(self) -> Bitmap:
        """Return the bitmap of the same positions that is. Clauses: DVF-6."""
        return self if self.is_optimized else Bitmap.optimized(self.thawed())

    def thawed(self) -> Any:
        """Return a bitmap of the library's, which is the caller's."""
        return BitMap.deserialize(self.data)

    def positions(self) -> npt.NDArray[np.uint32]:
        """Return the positions, ascending."""
        found: npt.NDArray[np.uint32] = np.frombuffer(self.thawed().to_array(), np.uint32)
        return found

    @cached_property
    def _few(self) -> Integers | None:
        return self.positions().astype(np.int64) if self.cardinality <= FEW else None

    @cached_property
    def greatest(self) -> int:
        last = self._container(-1)
        if last.kind == BITSET:
            at = int(np.flatnonzero(last.body)[-1])
            low = 8 * at + int(last.body[at]).bit_length() - 1
        else:
            low = int(last.body.view("<u2")[-2 if last.kind == RUNS else -1 :].sum())
        return int(self._containers.keys[-1]) * CONTAINER_POSITIONS + low

    @cached_property
    def _containers(self) -> Containers:
        return _found(self.data, _trust)

    def fill(self, mask: Mask, start: int) -> None:
        """Set ``mask[position - start]``, which is False, for each position of the bitmap inside ``mask``."""
        if self._few is not None:
            first, end = self._few.searchsorted((start, start + len(mask)))
            mask[self._few[first:end] - start] = True
            return
        low, high = start // CONTAINER_POSITIONS, -(-(start + len(mask)) // CONTAINER_POSITIONS)
        keys = self._containers.keys
        for i in range(*keys.searchsorted((low, high)).tolist()):
            fill(mask, int(keys[i]) * CONTAINER_POSITIONS - start, self._container(i))

    def fill_bits(self, bits: Bits) -> None:
        """Set bit ``position & 7`` of ``bits[position >> 3]``, all 0, for each position of the bitmap inside."""
        for i, key in enumerate(self._containers.keys.tolist()):
            part = bits[key * BITSET_BYTES : (key + 1) * BITSET_BYTES]
            part[:] = bits_of(self._container(i))[: len(part)]

    def _container(self, i: int) -> Container:
        start, stop = int(self._containers.starts[i]), int(self._containers.stops[i])
        body = np.frombuffer(self.data, np.uint8, stop - start, start)
        return Container(int(self._containers.kinds[i]), int(self._containers.sizes[i]), body)


EMPTY: Final = Bitmap.optimized(BitMap())
EMPTY_DATA: Final = EMPTY.data


def bits_of(container: Container) -> Bits:
    """Return the bits of a container."""
    if container.kind == BITSET:
        return container.body
    mask = np.zeros(CONTAINER_POSITIONS, np.bool_)
    fill(mask, 0, container)
    return np.packbits(mask, bitorder="little")


def fill(mask: Mask, base: int, container: Container) -> None:
    """Set ``mask[base + low half]``, which is False, for each position of a container that falls inside."""
    if container.kind == BITSET:
        _copy_inside(mask, base, np.unpackbits(container.body, bitorder="little").view(np.bool_))
        return
    numbers = container.body.view("<u2")
    if container.kind == ARRAY:
        at = numbers + np.int64(base)
        first, end = at.searchsorted((0, len(mask)))
        mask[at[first:end]] = True
    elif len(numbers) <= 1 + 2 * FEW_RUNS:
        for head, rest in zip(numbers[1::2].tolist(), numbers[2::2].tolist(), strict=True):
            mask[max(base + head, 0) : max(base + head + rest + 1, 0)] = True
    else:
        heads, rests = numbers[1::2].astype(np.int64), numbers[2::2]
        bounds = np.stack([heads, heads + rests + 1], axis=1).reshape(-1)
        inside = np.arange(len(bounds) + 1) % 2 == 1
        found = np.repeat(inside, np.diff(bounds, prepend=0, append=CONTAINER_POSITIONS))
        _copy_inside(mask, base, found)


def _copy_inside(mask: Mask, base: int, found: Mask) -> None:
    """Copy ``found`` to ``mask[base:]``, as much of it as falls inside; ``base`` may be negative."""
    inside = mask[max(base, 0) : max(base + len(found), 0)]
    inside[:] = found[max(-base, 0) :][: len(inside)]


def read_bitmap(data: memoryview, at: str) -> Bitmap:
    """Return the bitmap at the start of ``data``; how many bytes it takes is ``len(bitmap.data)``.

    Raises CorruptFileError for whatever no writer of the format means. Clauses: DVF-2, DVF-5.
    """

    def expect(holds: Any, expected: str, found: object) -> None:
        if not holds:
            raise CorruptFileError("bitmap", at=at, expected=expected, found=found)

    return _read_small(data, expect) if len(data) <= SMALL else _read_large(data, expect)


def _read_small(data: memoryview, expect: Expect) -> Bitmap:
    try:
        bitmap = BitMap.deserialize(data)
        written = bitmap.serialize()
    except (ValueError, IndexError) as error:  # what the library raises on a damaged bitmap
        expect(False, "a portable Roaring bitmap", error)
    # A memoryview is compared item by item; bytes are compared many times faster.
    expect(data[: len(written)].tobytes() == written, "the bytes of what they mean", "other bytes")
    return Bitmap(written, len(bitmap), bitmap.max() if bitmap else -1, is_optimized=False)


def _read_large(data: memoryview, expect: Expect) -> Bitmap:
    expect(len(data) >= len(EMPTY_DATA), f"{len(EMPTY_DATA)} bytes or more", len(data))
    if data[: len(EMPTY_DATA)] == EMPTY_DATA:
        return EMPTY
    containers = _found(data, expect)
    end = int(containers.stops[-1])
    expect(len(data) >= end, f"{end} bytes or more", len(data))
    turns = (np.flatnonzero(np.diff(containers.kinds)) + 1).tolist()
    for first, stop in pairwise([0, *turns, len(containers.kinds)]):
        is_sound = _CHECKS[int(containers.kinds[first])](data, containers, slice(first, stop))
        expect(is_sound, "containers in order, of as many positions as they say", "others")
    return Bitmap(data[:end], int(containers.sizes.sum()), is_optimized=False)


def _found(data: Any, expect: Expect) -> Containers:
    """Return the containers, one or more, of the bitmap at the start of ``data``, whatever is in them."""
    cookie, count = struct.unpack_from("<II", data)
    flags = np.zeros(0, np.uint8)
    if cookie & 0xFFFF == COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8)[4 : 4 + (count + 7) // 8], bitorder="little")
        expect(flags.any() and not flags[count:].any(), "runs in some of its containers", "other flags")
        head, has_table = 4 + (count + 7) // 8, count >= FEWEST_WITH_TABLE
    else:
        expect(cookie == COOKIE, f"cookie {COOKIE} or {COOKIE_WITH_RUNS}", cookie)
        expect(count <= MOST_CONTAINERS, f"at most {MOST_CONTAINERS} containers", count)
        head, has_table = 8, True
    body = head + 4 * count + 4 * count * has_table
    expect(len(data) >= body, f"{body} bytes or more", len(data))
    heads = np.frombuffer(data, "<u2", 2 * count, head).reshape(count, 2).astype(np.int64)
    keys, sizes = heads[:, 0], heads[:, 1] + 1
    expect(np.all(keys[1:] > keys[:-1]), "ascending keys", "a key not above the one before")
    kinds = np.where(sizes > LARGEST_ARRAY, BITSET, ARRAY).astype(np.uint8)
    kinds[flags[:count].nonzero()] = RUNS
    lengths = np.where(kinds == ARRAY, 2 * sizes, BITSET_BYTES)
    if has_table:
        starts = np.frombuffer(data, "<u4", count, head + 4 * count).astype(np.int64)
        expect(np.all(starts + 2 <= len(data)), "offsets inside the bitmap", "an offset beyond its end")
        octets = np.frombuffer(data, np.uint8)
        with_runs = starts[kinds == RUNS]
        lengths[kinds == RUNS] = 2 + 4 * (octets[with_runs] + (octets[with_runs + 1].astype(np.int64) << 8))
        stops = body + np.cumsum(lengths)
        expect(np.array_equal(starts, stops - lengths), "offsets where its containers are", "other offsets")
        return Containers(keys, kinds, sizes, starts, stops)
    offset = body
    for i in range(count):
        if kinds[i] == RUNS:
            expect(len(data) >= offset + 2, f"{offset + 2} bytes or more", len(data))
            lengths[i] = 2 + 4 * struct.unpack_from("<H", data, offset)[0]
        offset += int(lengths[i])
    stops = body + np.cumsum(lengths)
    return Containers(keys, kinds, sizes, stops - lengths, stops)


def head_of(keys: Integers, sizes: Integers, are_runs: Mask, lengths: Integers) -> bytes:
    """Return what stands before containers of these keys, sizes and lengths in bytes. Clauses: DVF-2."""
    count = len(keys)
    if are_runs.any():
        head = struct.pack("<I", COOKIE_WITH_RUNS | count - 1 << 16)
        head += np.packbits(are_runs, bitorder="little").tobytes()
    else:
        head = struct.pack("<II", COOKIE, count)
    head += np.stack([keys, sizes - 1], axis=1).astype("<u2").tobytes()
    if are_runs.any() and count < FEWEST_WITH_TABLE:
        return head
    starts = len(head) + 4 * count + np.cumsum(lengths) - lengths
    return head + starts.astype("<u4").tobytes()


def with_containers(others: Bitmap, made: Mapping[int, Container]) -> Bitmap:
    """Return ``others`` and containers by key, none of which is theirs, and each stored as what is smallest."""
    containers = dict(made)
    if others.cardinality:
        for i, key in enumerate(others._containers.keys.tolist()):
            containers[key] = others._container(i)
    keys = np.array(sorted(containers))
    kinds, sizes, bodies = zip(*(containers[key] for key in keys.tolist()), strict=True)
    lengths = np.array([len(body) for body in bodies])
    head = head_of(keys, np.array(sizes), np.array(kinds) == RUNS, lengths)
    found = np.empty(len(head) + lengths.sum(), np.uint8)
    np.concatenate([np.frombuffer(head, np.uint8), *bodies], out=found)
    return Bitmap(found.data, sum(sizes), is_optimized=others.is_optimized)


def _trust(holds: Any, expected: str, found: object) -> None:
    assert holds, f"the bitmap was checked, but instead of {expected} there is {found}"


def _sound_arrays(data: memoryview, containers: Containers, some: slice) -> bool:
    sizes = containers.sizes[some]
    values = np.frombuffer(data, "<u2", int(sizes.sum()), containers.starts[some.start])
    ascend = values[1:] > values[:-1]
    ascend[np.cumsum(sizes[:-1]) - 1] = True
    return bool(ascend.all())


def _sound_bitsets(data: memoryview, containers: Containers, some: slice) -> bool:
    for i in range(some.start, some.stop, AT_ONCE):
        count = min(AT_ONCE, some.stop - i)
        words = np.frombuffer(data, "<u8", count * BITSET_BYTES // 8, containers.starts[i])
        if not np.array_equal(count_bits(words.reshape(count, -1)), containers.sizes[i : i + count]):
            return False
    return True


def _sound_runs(data: memoryview, containers: Containers, some: slice) -> bool:
    start, stop = int(containers.starts[some.start]), int(containers.stops[some.stop - 1])
    numbers = np.frombuffer(data, "<u2", (stop - start) // 2, start).astype(np.int64)
    counts_at = (containers.starts[some] - start) // 2
    counts, pairs = numbers[counts_at], np.delete(numbers, counts_at)
    if not counts.all():
        return False
    heads, lasts = pairs[::2], pairs[::2] + pairs[1::2]
    begins = np.cumsum(counts) - counts
    ascend = heads[1:] > lasts[:-1]
    ascend[begins[1:] - 1] = True
    sizes = np.add.reduceat(lasts - heads + 1, begins)
    inside = lasts.max() < CONTAINER_POSITIONS
    return bool(ascend.all() and inside and np.array_equal(sizes, containers.sizes[some]))


_CHECKS = {ARRAY: _sound_arrays, BITSET: _sound_bitsets, RUNS: _sound_runs}


def count_bits(words: npt.NDArray[np.uint64]) -> Integers:
    """Return how many bits each row of ``words`` has."""
    counts: Integers = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    return counts
