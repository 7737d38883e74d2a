"""Read, check and query portable Roaring bitmaps of 32 bits, kept in memory as their bytes.

A bitmap is a table of containers. Each container has the positions of one range of 65536, as a sorted array of
16-bit numbers, as a bitset, or as runs of (first, length - 1).

* A small bitmap is read, checked and listed by the Roaring library, which is the fastest way.
* A large one, which the library would copy several times, is checked in place, many containers of a kind at a time,
  and a mask reads only the containers that it overlaps.

Both ways refuse the same bytes. The subtle case is the table of offsets: it is absent from bitmaps that have runs and
fewer than four containers. Where it is present it repeats what follows from the containers, and both must agree.

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
FEWEST_WITH_TABLE: Final = 4  # containers of a bitmap with runs that has a table of offsets
MOST_CONTAINERS: Final = 1 << 16
CONTAINER_POSITIONS: Final = 1 << 16
BITSET_BYTES: Final = CONTAINER_POSITIONS // 8
LARGEST_ARRAY: Final = 4096  # positions; a container of more is a bitset
ARRAY, BITSET, RUNS = range(3)

SMALL: Final = 1 << 20
"""Bytes of a bitmap up to which the library reads it faster: 8 KB in 4 us against 41, 800 KB in 119 against 116."""
FEW: Final = 4096
"""Positions up to which a bitmap also keeps them as an array. Masks of 10 million rows take 0.4 ms against 3.8 then."""
FEW_RUNS: Final = 32
"""Runs of a container up to which it is faster to set them one by one: 8 in 10 us against 26, 64 in 43 against 27."""
CHECKED_AT_ONCE: Final = 64  # containers; their bits (512 KiB) stay in the processor's cache

Mask = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Expect = Callable[[Any, str, object], None]
"""Called with a condition, what was expected, and what was found. Raises CorruptFileError if the condition is false."""


@dataclass(frozen=True, slots=True)
class Containers:
    """The containers of a bitmap, one element of each array for each of them.

    ``keys``: the high 16 bits of its positions, ascending. ``kinds``: ARRAY, BITSET or RUNS. ``sizes``: the number of
    its positions. ``starts``, ``stops``: the offsets of its bytes in the bitmap.
    """

    keys: Integers
    kinds: Bits
    sizes: Integers
    starts: Integers
    stops: Integers


class Container(NamedTuple):
    """One container. ``kind``: ARRAY, BITSET or RUNS. ``size``: the number of its positions. ``body``: its bytes."""

    kind: int
    size: int
    body: Bits


class Bitmap:
    """An immutable set of positions below 2^32.

    ``data``: its portable bytes. ``cardinality``: the number of its positions. ``greatest``: its greatest position,
    -1 if it is empty. ``is_optimized``: whether its containers are known to be run-optimised.
    """

    def __init__(
        self, data: Any, cardinality: int, greatest: int | None = None, *, is_optimized: bool
    ) -> None:
        """Trust that the arguments describe ``data``. ``greatest`` is computed when it is needed and was not given."""
        self.data, self.cardinality = data, cardinality
        self.is_optimized = is_optimized
        if greatest is not None:
            self.greatest = greatest

    @classmethod
    def optimized(cls, bitmap: Any) -> Bitmap:
        """Return a bitmap of the library as a `Bitmap`; this run-optimises the argument. Clauses: DVF-6."""
        bitmap.run_optimize()
        return cls(bitmap.serialize(), len(bitmap), bitmap.max() if bitmap else -1, is_optimized=True)

    def run_optimized(self) -> Bitmap:
        """Return a bitmap of the same positions that is run-optimised. Clauses: DVF-6."""
        return self if self.is_optimized else Bitmap.optimized(self.library_copy())

    def library_copy(self) -> Any:
        """Return a new bitmap of the library with the same positions, which the caller may change."""
        return BitMap.deserialize(self.data)

    def positions(self) -> npt.NDArray[np.uint32]:
        """Return the positions, ascending."""
        found: npt.NDArray[np.uint32] = np.frombuffer(self.library_copy().to_array(), np.uint32)
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
        return int(self.containers.keys[-1]) * CONTAINER_POSITIONS + low

    @cached_property
    def containers(self) -> Containers:
        """Where each container lies in `data`, by key."""
        return _found(self.data, _trust)

    def fill(self, mask: Mask, start: int) -> None:
        """Set ``mask[position - start]`` for each position of the bitmap inside ``mask``, where all of it is False."""
        if self._few is not None:
            first, end = self._few.searchsorted((start, start + len(mask)))
            mask[self._few[first:end] - start] = True
            return
        low, high = start // CONTAINER_POSITIONS, -(-(start + len(mask)) // CONTAINER_POSITIONS)
        keys = self.containers.keys
        for i in range(*keys.searchsorted((low, high)).tolist()):
            fill(mask, int(keys[i]) * CONTAINER_POSITIONS - start, self._container(i))

    def fill_bits(self, bits: Bits) -> None:
        """Set bit ``position & 7`` of ``bits[position >> 3]`` for each position inside ``bits``, which is all 0."""
        for i, key in enumerate(self.containers.keys.tolist()):
            part = bits[key * BITSET_BYTES : (key + 1) * BITSET_BYTES]
            part[:] = bits_of(self._container(i))[: len(part)]

    def _container(self, i: int) -> Container:
        start, stop = int(self.containers.starts[i]), int(self.containers.stops[i])
        body = np.frombuffer(self.data, np.uint8, stop - start, start)
        return Container(int(self.containers.kinds[i]), int(self.containers.sizes[i]), body)


EMPTY: Final = Bitmap.optimized(BitMap())
EMPTY_DATA: Final = EMPTY.data


def bits_of(container: Container) -> Bits:
    """Return the positions of a container as a bitset."""
    if container.kind == BITSET:
        return container.body
    mask = np.zeros(CONTAINER_POSITIONS, np.bool_)
    fill(mask, 0, container)
    return np.packbits(mask, bitorder="little")


def fill(mask: Mask, base: int, container: Container) -> None:
    """Set ``mask[base + low half]``, which is False, for each position of a container that is inside ``mask``."""
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
    """Copy the part of ``found`` that is inside to ``mask[base:]``; ``base`` may be negative."""
    inside = mask[max(base, 0) : max(base + len(found), 0)]
    inside[:] = found[max(-base, 0) :][: len(inside)]


def read_bitmap(data: memoryview, at: str) -> Bitmap:
    """Return the bitmap at the start of ``data``; it takes ``len(bitmap.data)`` bytes.

    Raises CorruptFileError for bytes that no writer of the format makes. Clauses: DVF-2, DVF-5.
    """

    def expect(holds: Any, expected: str, found: object) -> None:
        if not holds:
            raise CorruptFileError("bitmap", at=at, expected=expected, found=found)

    return _read_small(data, expect) if len(data) <= SMALL else _read_large(data, expect)


def _read_small(data: memoryview, expect: Expect) -> Bitmap:
    try:
        bitmap = BitMap.deserialize(data)
        written = bitmap.serialize()
    except (ValueError, IndexError) as error:  # raised by the library for a damaged bitmap
        expect(False, "a portable Roaring bitmap", error)
    # A memoryview is compared item by item; bytes are compared many times faster.
    expect(data[: len(written)].tobytes() == written, "the bytes that its positions are written as", "others")
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
        expect(is_sound, "containers with ascending positions, as many as declared", "others")
    return Bitmap(data[:end], int(containers.sizes.sum()), is_optimized=False)


def _found(data: Any, expect: Expect) -> Containers:
    """Return the containers (at least one) of the bitmap at the start of ``data``. Their contents are not checked."""
    cookie, count = struct.unpack_from("<II", data)
    flags = np.zeros(0, np.uint8)
    if cookie & 0xFFFF == COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8)[4 : 4 + (count + 7) // 8], bitorder="little")
        expect(
            flags.any() and not flags[count:].any(), "runs in one or more of its containers", "other flags"
        )
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
        expect(np.array_equal(starts, stops - lengths), "the offsets of its containers", "other offsets")
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
    """Return the bytes before the containers. ``lengths``: bytes of each container. Clauses: DVF-2."""
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
    """Return ``others`` extended by the containers ``made``, which are given by key.

    No key may be in both, and every container must already be stored in its smallest form.
    """
    containers = dict(made)
    if others.cardinality:
        for i, key in enumerate(others.containers.keys.tolist()):
            containers[key] = others._container(i)
    keys = np.array(sorted(containers))
    kinds, sizes, bodies = zip(*(containers[key] for key in keys.tolist()), strict=True)
    lengths = np.array([len(body) for body in bodies])
    head = head_of(keys, np.array(sizes), np.array(kinds) == RUNS, lengths)
    found = np.empty(len(head) + lengths.sum(), np.uint8)
    np.concatenate([np.frombuffer(head, np.uint8), *bodies], out=found)
    return Bitmap(found.data, sum(sizes), is_optimized=others.is_optimized)


def _trust(holds: Any, expected: str, found: object) -> None:
    assert holds, f"a checked bitmap: expected {expected}, found {found}"


def _sound_arrays(data: memoryview, containers: Containers, some: slice) -> bool:
    sizes = containers.sizes[some]
    values = np.frombuffer(data, "<u2", int(sizes.sum()), containers.starts[some.start])
    ascend = values[1:] > values[:-1]
    ascend[np.cumsum(sizes[:-1]) - 1] = True
    return bool(ascend.all())


def _sound_bitsets(data: memoryview, containers: Containers, some: slice) -> bool:
    for i in range(some.start, some.stop, CHECKED_AT_ONCE):
        count = min(CHECKED_AT_ONCE, some.stop - i)
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
    """Return the number of 1 bits in each row of ``words``."""
    counts: Integers = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    return counts
