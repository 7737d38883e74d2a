"""Build portable Roaring bitmaps from sorted positions and masks, and grow those there are.

While a bitmap grows, the containers that change are bits, whatever they were or will be; the others stay the
bytes they are. At the end the kind of each changed container is chosen: an array up to 4096 positions, else a
bitset, but runs where these are strictly smaller, which is what both libraries' run optimisation does. So
what a bitmap is made of depends on its positions alone, and not on how they came.

Counting runs costs more than all the rest. In a bitset of too many runs some part of it shows that already.

Clauses: DVF-2, DVF-6.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pktable.format.roaring import (
    ARRAY,
    AT_ONCE,
    BITSET,
    BITSET_BYTES,
    CONTAINER_POSITIONS,
    COOKIE,
    COOKIE_WITH_RUNS,
    FEWEST_WITH_TABLE,
    LARGEST_ARRAY,
    RUNS,
    Bitmap,
    Bits,
    Integers,
    Mask,
    Words,
    count_bits,
    read_bitmap,
)

MASKED_AT_ONCE: Final = 16  # containers; their mask (1 MiB) stays in the cache
STRIDE: Final = 64  # positions, of which the first and the last tell whether they are a run
FIRST_WORDS: Final = 256  # of the 1024 of a container, where its runs are counted first
MOST_RUNS: Final = (BITSET_BYTES - 1 - 2) // 4  # in a container of runs: one more takes as much as a bitset
ONE, LAST = np.uint64(1), np.uint64(63)


EMPTY: Final = read_bitmap(memoryview(struct.pack("<II", COOKIE, 0)), "the empty bitmap")


class BitmapBuilder:
    """A set of positions below 2^32 that grows, from the empty one or from ``base``."""

    def __init__(self, base: Bitmap | None = None) -> None:
        self._base = base or EMPTY
        self._places = {key: i for i, key in enumerate(self._base.keys.tolist())}
        self._changed: dict[int, Bits] = {}
        """By key, the bits of each container that is new or has grown."""

    def add(self, positions: Integers) -> int:
        """Add ``positions``, ascending and unique; return how many are new."""
        new = at = 0
        while at < len(positions):
            key = int(positions[at]) // CONTAINER_POSITIONS
            bound = (key + MASKED_AT_ONCE) * CONTAINER_POSITIONS
            end = len(positions) if positions[-1] < bound else int(np.searchsorted(positions, bound))
            part = positions[at:end]
            containers = int(part[-1]) // CONTAINER_POSITIONS - key + 1
            mask = np.zeros(containers * CONTAINER_POSITIONS, np.bool_)
            _set(mask, part, key * CONTAINER_POSITIONS)
            new += len(part) - self._add_bits(key, np.packbits(mask, bitorder="little"))
            at = end
        return new

    def add_mask(self, mask: Mask, start: int) -> int:
        """Add ``start + i`` for every True ``mask[i]``; return how many are new."""
        new = at = 0
        while at < len(mask):
            key, inside = divmod(start + at, CONTAINER_POSITIONS)
            part = mask[at : at + MASKED_AT_ONCE * CONTAINER_POSITIONS - inside]
            at += len(part)
            rest = -(inside + len(part)) % CONTAINER_POSITIONS
            whole = np.pad(part, (inside, rest)) if inside or rest else part
            new += int(np.count_nonzero(part)) - self._add_bits(key, np.packbits(whole, bitorder="little"))
        return new

    def _add_bits(self, key: int, bits: Bits) -> int:
        """Add the bits of containers from ``key`` on, owning them; return how many were there already."""
        already = 0
        rows = bits.reshape(-1, BITSET_BYTES)
        for i in np.flatnonzero(rows.view(np.uint64).any(axis=1)).tolist():
            before = self._bits(key + i)
            if before is not None:
                already += int(count_bits((rows[i] & before).view(np.uint64)[np.newaxis])[0])
                rows[i] |= before
            self._changed[key + i] = rows[i]
        return already

    def _bits(self, key: int) -> Bits | None:
        if key in self._changed:
            return self._changed[key]
        place = self._places.get(key)
        return None if place is None else self._base.bits(place)

    def rewrite(self, key: int) -> None:
        """Choose anew what the container of ``key`` is stored as, although its positions stay."""
        bits = self._bits(key)
        assert bits is not None
        self._changed[key] = bits

    def build(self) -> Bitmap:
        """Return the bitmap of what was added, run-optimised wherever it was."""
        changed = sorted(self._changed)
        keys = np.union1d(self._base.keys, np.array(changed, np.int64))
        kinds = np.empty(len(keys), np.uint8)
        sizes, lengths = np.empty((2, len(keys)), np.int64)
        stored: list[Any] = [None] * len(keys)
        for at, i in zip(np.searchsorted(keys, self._base.keys).tolist(), range(len(keys)), strict=False):
            stored[at] = self._base.data[self._base.starts[i] : self._base.stops[i]]
            kinds[at], sizes[at] = self._base.kinds[i], self._base.sizes[i]
        places = np.searchsorted(keys, changed)
        for first in range(0, len(changed), AT_ONCE):
            at = places[first : first + AT_ONCE]
            rows = [self._changed[key] for key in changed[first : first + AT_ONCE]]
            kinds[at], sizes[at], containers = _stored(rows)
            for place, container in zip(at.tolist(), containers, strict=True):
                stored[place] = container
        lengths[:] = [len(container) for container in stored]
        head = _head(keys, kinds, sizes, lengths)
        stops = len(head) + np.cumsum(lengths)
        return Bitmap(memoryview(b"".join([head, *stored])), keys, kinds, sizes, stops - lengths, stops)


def optimized(bitmap: Bitmap) -> Bitmap:
    """Return ``bitmap`` with every container stored as what is smallest: itself, as a rule. Clauses: DVF-6."""
    wrong = np.zeros(len(bitmap.keys), np.bool_)
    for kind, first, end in bitmap.stretches(0, len(bitmap.keys)):
        sizes = bitmap.sizes[first:end]
        if kind == RUNS:
            # Runs that take as much as the alternative stay runs.
            runs = (bitmap.stops[first:end] - bitmap.starts[first:end] - 2) // 4
            wrong[first:end] = 2 + 4 * runs > np.where(sizes > LARGEST_ARRAY, BITSET_BYTES, 2 * sizes)
        elif kind == ARRAY:
            values = bitmap.array_values(first, end).astype(np.int64)
            begins = np.cumsum(sizes) - sizes
            heads = np.diff(values, prepend=-2) != 1
            heads[begins] = True
            wrong[first:end] = _choose(sizes, np.add.reduceat(heads, begins, dtype=np.int64)) != ARRAY
        else:
            for i in range(first, end, AT_ONCE):
                stop = min(i + AT_ONCE, end)
                _, _, runs = _runs(bitmap.words(i, stop))
                wrong[i:stop] = _choose(bitmap.sizes[i:stop], runs) != BITSET
    if not wrong.any():
        return bitmap
    builder = BitmapBuilder(bitmap)
    for key in bitmap.keys[wrong].tolist():
        builder.rewrite(key)
    return builder.build()


def _choose(sizes: Integers, runs: Integers) -> Bits:
    """Return what containers of as many positions and runs are stored as. Clauses: DVF-6."""
    plain = np.where(sizes > LARGEST_ARRAY, BITSET, ARRAY)
    plain_bytes = np.where(sizes > LARGEST_ARRAY, BITSET_BYTES, 2 * sizes)
    return np.where(2 + 4 * runs < plain_bytes, RUNS, plain).astype(np.uint8)


def _stored(rows: Sequence[Bits]) -> tuple[Bits, Integers, list[Any]]:
    """Return per container, given as bits, what it is stored as, how many positions it has, and its bytes."""
    words = np.stack(rows).view(np.uint64)
    sizes = count_bits(words)
    few, heads, run_counts = _runs(words)
    kinds = _choose(sizes, run_counts)
    stored: list[Any] = [row.data for row in rows]
    arrays, runs = np.flatnonzero(kinds == ARRAY), np.flatnonzero(kinds == RUNS)
    if len(arrays):
        ends = np.cumsum(2 * sizes[arrays]).tolist()
        values = _low_halves(words[arrays]).tobytes()
        for i, start, end in zip(arrays.tolist(), [0, *ends], ends, strict=False):
            stored[i] = values[start:end]
    if len(runs):
        counts = run_counts[runs]
        firsts = _low_halves(heads[kinds[few] == RUNS])
        pairs = np.stack([firsts, _low_halves(_run_lasts(words[runs])) - firsts], axis=1)
        ends = np.cumsum(4 * counts).tolist()
        values = pairs.tobytes()
        for i, count, start, end in zip(runs.tolist(), counts.tolist(), [0, *ends], ends, strict=False):
            stored[i] = struct.pack("<H", count) + values[start:end]
    return kinds, sizes, stored


def _set(mask: Mask, positions: Integers, start: int) -> None:
    """Set ``mask[positions - start]``; positions ascending and unique.

    Deletions come in runs as a rule, and a run is set many times faster at once than one by one.
    """
    is_run = np.diff(positions[::STRIDE]) == STRIDE
    if 2 * np.count_nonzero(is_run) > len(is_run):
        bounds = np.flatnonzero(np.diff(is_run, prepend=False, append=False))
        heads = positions[bounds[::2] * STRIDE] - start
        for head, count in zip(heads.tolist(), np.diff(bounds)[::2].tolist(), strict=True):
            mask[head : head + count * STRIDE] = True
        whole = len(is_run) * STRIDE
        others = positions[:whole].reshape(-1, STRIDE)[~is_run].reshape(-1)
        positions = np.concatenate([others, positions[whole:]])
    mask[positions - start] = True


def _head(keys: Integers, kinds: Bits, sizes: Integers, lengths: Integers) -> bytes:
    """Return what stands before the containers: cookie, flags, keys and sizes, and their offsets."""
    flags = kinds == RUNS
    has_runs = bool(flags.any())
    heads = np.stack([keys, sizes - 1], axis=1).astype("<u2").tobytes()
    if has_runs:
        first = struct.pack("<I", COOKIE_WITH_RUNS | len(keys) - 1 << 16)
        first += np.packbits(flags, bitorder="little").tobytes()
    else:
        first = struct.pack("<II", COOKIE, len(keys))
    first += heads
    if has_runs and len(keys) < FEWEST_WITH_TABLE:
        return first
    offsets = len(first) + 4 * len(keys) + np.cumsum(lengths) - lengths
    return first + offsets.astype("<u4").tobytes()


def _runs(words: Words) -> tuple[Mask, Words, Integers]:
    """Return which containers may have few enough runs, the bits where those begin, and how many runs each has.

    Where there are too many for a container of runs, the number is one that is too great, and no more.
    """
    few = count_bits(_run_heads(words[:, :FIRST_WORDS])) <= MOST_RUNS
    heads = _run_heads(words[few])
    counts = np.full(len(words), MOST_RUNS + 1)
    counts[few] = count_bits(heads)
    return few, heads, counts


def _run_heads(words: Words) -> Words:
    """Return the bits before which, in the same row, the bit is not set."""
    before = words << ONE
    before[:, 1:] |= words[:, :-1] >> LAST
    found: Words = words & ~before
    return found


def _run_lasts(words: Words) -> Words:
    """Return the bits after which, in the same row, the bit is not set."""
    after = words >> ONE
    after[:, :-1] |= words[:, 1:] << LAST
    found: Words = words & ~after
    return found


def _low_halves(words: Words) -> npt.NDArray[np.uint16]:
    """Return the low halves of the positions in containers given as bits, one after another."""
    flat = words.reshape(-1)
    some = np.flatnonzero(flat)
    bits = np.flatnonzero(np.unpackbits(flat[some].view(np.uint8), bitorder="little"))
    low: npt.NDArray[np.uint16] = (some[bits >> 6] * 64 + (bits & 63)).astype("<u2")
    return low
