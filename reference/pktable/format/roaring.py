"""Portable Roaring bitmaps of 32 bits, read where they lie: as bytes.

A bitmap is a table of containers. Each holds the positions of one stretch of 65536 as a sorted array of
16-bit numbers, as a bitset, or as runs of (first, length - 1). Reading a bitmap finds and checks its
containers and copies none of them; a mask touches only those it overlaps. The work is done per container,
or for many neighbours of one kind at once, never per position.

The subtle case is the table of offsets: it is missing where there are runs and fewer than four containers,
and it repeats what the containers say, so both must agree.

Clauses: DVF-2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError

COOKIE: Final = 12346
COOKIE_WITH_RUNS: Final = 12347
FEWEST_WITH_TABLE: Final = 4  # containers, in a bitmap that has runs
MOST_CONTAINERS: Final = 1 << 16
CONTAINER_POSITIONS: Final = 1 << 16
BITSET_BYTES: Final = CONTAINER_POSITIONS // 8
LARGEST_ARRAY: Final = 4096  # positions; a container of more is a bitset
ARRAY, BITSET, RUNS = range(3)

AT_ONCE: Final = 64  # containers; their bits (512 KiB) stay in the cache
FEW_RUNS: Final = 64  # of a container are faster set one by one

Mask = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Bitmap:
    """An immutable set of positions below 2^32: its portable bytes, and where its containers lie.

    ``keys``: per container, ascending, the high 16 bits of its positions. ``kinds``: ARRAY, BITSET or RUNS.
    ``sizes``: how many positions. ``starts``, ``stops``: the offsets of its bytes in ``data``.
    """

    data: memoryview
    keys: Integers
    kinds: Bits
    sizes: Integers
    starts: Integers
    stops: Integers

    @cached_property
    def cardinality(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def greatest(self) -> int:
        """The greatest position. The bitmap is not empty."""
        last = len(self.keys) - 1
        if self.kinds[last] == ARRAY:
            low = self.array_values(last, last + 1)[-1]
        elif self.kinds[last] == RUNS:
            low = self.runs(last, last + 1)[1][-1]
        else:
            low = np.flatnonzero(self._mask(last))[-1]
        return int(self.keys[last]) * CONTAINER_POSITIONS + int(low)

    def positions(self) -> Integers:
        """Return the positions, ascending."""
        parts = [np.empty(0, np.int64)]
        for kind, first, end in self.stretches(0, len(self.keys)):
            bases = self.keys[first:end] * CONTAINER_POSITIONS
            if kind == ARRAY:
                parts.append(np.repeat(bases, self.sizes[first:end]) + self.array_values(first, end))
            elif kind == BITSET:
                parts += [
                    np.flatnonzero(self._mask(i)) + self.keys[i] * CONTAINER_POSITIONS
                    for i in range(first, end)
                ]
            else:
                heads, lasts, counts = self.runs(first, end)
                parts.append(_spelled_out(heads + np.repeat(bases, counts), lasts - heads + 1))
        return np.concatenate(parts)

    def fill(self, mask: Mask, start: int) -> None:
        """Set ``mask[position - start]``, which is False, for each position of the bitmap inside ``mask``."""
        low, high = start // CONTAINER_POSITIONS, -(-(start + len(mask)) // CONTAINER_POSITIONS)
        for i in range(*self.keys.searchsorted((low, high)).tolist()):
            self._fill(mask, int(self.keys[i]) * CONTAINER_POSITIONS - start, i)

    def fill_bits(self, bits: Bits) -> None:
        """Set bit ``position & 7`` of ``bits[position >> 3]``, all 0, for each position of the bitmap inside."""
        for i in range(self.keys.searchsorted(-(-len(bits) // BITSET_BYTES))):
            part = bits[int(self.keys[i]) * BITSET_BYTES :][:BITSET_BYTES]
            part[:] = self.bits(i)[: len(part)]

    def bits(self, i: int) -> Bits:
        """Return the bits of a container as bytes."""
        if self.kinds[i] == BITSET:
            return np.frombuffer(self.data, np.uint8, BITSET_BYTES, self.starts[i])
        mask = np.zeros(CONTAINER_POSITIONS, np.bool_)
        self._fill(mask, 0, i)
        return np.packbits(mask, bitorder="little")

    def _fill(self, mask: Mask, base: int, i: int) -> None:
        """Set ``mask[base + low half]``, which is False, for each position of a container that falls inside."""
        if self.kinds[i] == ARRAY:
            at = self.array_values(i, i + 1) + np.int64(base)
            first, end = at.searchsorted((0, len(mask)))
            mask[at[first:end]] = True
        elif self.kinds[i] == RUNS and self.stops[i] - self.starts[i] <= 2 + 4 * FEW_RUNS:
            count = int(self.stops[i] - self.starts[i]) // 2
            numbers = np.frombuffer(self.data, "<u2", count, self.starts[i]).tolist()
            for head, rest in zip(numbers[1::2], numbers[2::2], strict=True):
                mask[max(base + head, 0) : max(base + head + rest + 1, 0)] = True
        else:
            found = self._mask(i)
            inside = mask[max(base, 0) : max(base + CONTAINER_POSITIONS, 0)]
            inside[:] = found[max(-base, 0) :][: len(inside)]

    def _mask(self, i: int) -> Mask:
        """Return a container of bits or runs as a mask."""
        if self.kinds[i] == BITSET:
            return np.unpackbits(self.bits(i), bitorder="little").view(np.bool_)
        heads, lasts, _ = self.runs(i, i + 1)
        bounds = np.stack([heads, lasts + 1], axis=1).reshape(-1)
        inside = np.arange(len(bounds) + 1) % 2 == 1
        return np.repeat(inside, np.diff(bounds, prepend=0, append=CONTAINER_POSITIONS))

    def words(self, first: int, end: int) -> Words:
        """Return the words of containers that are bitsets, a row each."""
        return np.frombuffer(self.data, "<u8", (end - first) * BITSET_BYTES // 8, self.starts[first]).reshape(
            end - first, -1
        )

    def stretches(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (kind, first, end) of the longest stretches of containers of one kind between ``first`` and ``end``."""
        turns = np.flatnonzero(np.diff(self.kinds[first:end])) + 1 + first
        for i, j in pairwise([first, *turns.tolist(), end]):
            if i < j:
                yield int(self.kinds[i]), i, j

    def array_values(self, first: int, end: int) -> npt.NDArray[np.uint16]:
        """Return the low halves of the positions of containers that are arrays, one after another."""
        return np.frombuffer(self.data, "<u2", int(self.sizes[first:end].sum()), self.starts[first])

    def runs(self, first: int, end: int) -> tuple[Integers, Integers, Integers]:
        """Return of containers that have runs: first and last low half of each run, and how many each has."""
        length = int(self.stops[end - 1] - self.starts[first])
        stretch = np.frombuffer(self.data, "<u2", length // 2, self.starts[first]).astype(np.int64)
        if first + 1 == end:
            counts, pairs = stretch[:1], stretch[1:]
        else:
            counts_at = (self.starts[first:end] - self.starts[first]) // 2
            counts, pairs = stretch[counts_at], np.delete(stretch, counts_at)
        return pairs[::2], pairs[::2] + pairs[1::2], counts


def _spelled_out(heads: Integers, lengths: Integers) -> Integers:
    """Return the numbers of the runs that begin at ``heads``."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(heads - before, lengths) + np.arange(int(lengths.sum()))


def read_bitmap(data: memoryview, at: str) -> Bitmap:
    """Return the bitmap at the start of ``data``; how many bytes it takes is ``len(bitmap.data)``.

    Raises CorruptFileError for whatever no writer of the format means. Clauses: DVF-2, DVF-5.
    """

    def expect(holds: Any, expected: str, found: object) -> None:
        if not holds:
            raise CorruptFileError("bitmap", at=at, expected=expected, found=found)

    expect(len(data) >= 8, "8 bytes or more", len(data))
    cookie, count = struct.unpack_from("<II", data)
    flags = np.zeros(0, np.uint8)
    if cookie & 0xFFFF == COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data[4:], np.uint8)[: (count + 7) // 8], bitorder="little")
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
    table = np.frombuffer(data, "<u4", count * has_table, head + 4 * count).astype(np.int64)
    if has_table:
        expect(np.all(table + 2 <= len(data)), "offsets inside the bitmap", "an offset beyond its end")
        raw = np.frombuffer(data, np.uint8)
        with_runs = table[kinds == RUNS]
        lengths[kinds == RUNS] = 2 + 4 * (raw[with_runs] + (raw[with_runs + 1].astype(np.int64) << 8))
    else:
        offset = body
        for i in range(count):
            if kinds[i] == RUNS:
                expect(len(data) >= offset + 2, f"{offset + 2} bytes or more", len(data))
                lengths[i] = 2 + 4 * struct.unpack_from("<H", data, offset)[0]
            offset += int(lengths[i])
    stops = body + np.cumsum(lengths)
    starts = stops - lengths
    expect(
        not has_table or np.array_equal(starts, table), "offsets where its containers are", "other offsets"
    )
    end = int(stops[-1]) if count else body
    expect(len(data) >= end, f"{end} bytes or more", len(data))
    bitmap = Bitmap(data[:end], keys, kinds, sizes, starts, stops)
    for kind, first, stop in bitmap.stretches(0, count):
        is_sound = _CHECKS[kind](bitmap, first, stop)
        expect(is_sound, "containers in order, of as many positions as they say", "others")
    return bitmap


def _sound_arrays(bitmap: Bitmap, first: int, end: int) -> bool:
    values = bitmap.array_values(first, end)
    ascend = values[1:] > values[:-1]
    ascend[np.cumsum(bitmap.sizes[first : end - 1]) - 1] = True
    return bool(ascend.all())


def _sound_bitsets(bitmap: Bitmap, first: int, end: int) -> bool:
    return all(
        np.array_equal(
            count_bits(bitmap.words(i, min(i + AT_ONCE, end))), bitmap.sizes[i : min(i + AT_ONCE, end)]
        )
        for i in range(first, end, AT_ONCE)
    )


def _sound_runs(bitmap: Bitmap, first: int, end: int) -> bool:
    heads, lasts, counts = bitmap.runs(first, end)
    if not counts.all():
        return False
    begins = np.cumsum(counts) - counts
    ascend = heads[1:] > lasts[:-1]
    ascend[begins[1:] - 1] = True
    sizes = np.add.reduceat(lasts - heads + 1, begins)
    inside = lasts.max() < CONTAINER_POSITIONS
    return bool(ascend.all() and inside and np.array_equal(sizes, bitmap.sizes[first:end]))


_CHECKS = {ARRAY: _sound_arrays, BITSET: _sound_bitsets, RUNS: _sound_runs}


def count_bits(words: Words) -> Integers:
    """Return how many bits each row of ``words`` has."""
    counts: Integers = np.bitwise_count(words).sum(axis=1, dtype=np.int64)
    return counts
