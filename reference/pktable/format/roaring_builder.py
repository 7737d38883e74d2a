"""Build bitmaps from sorted positions and masks, and grow those there are.

While a bitmap grows, a container that changes is bits, or, as long as its positions are few, it is a part of
one sorted array of positions; the others stay the bytes they are. At the end the changed containers are
stored as what is smallest. So what a bitmap is made of depends on its positions alone, and not on how they
came.

Clauses: DVF-2, DVF-6.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from pktable.format.roaring import (
    ARRAY,
    AT_ONCE,
    BITSET,
    BITSET_BYTES,
    CONTAINER_POSITIONS,
    LARGEST_ARRAY,
    RUNS,
    Bitmap,
    Bits,
    Integers,
    Mask,
    count_bits,
)
from pktable.format.roaring_writer import (
    Containers,
    bounded_runs,
    choose,
    run_starts,
    stored_bits,
    stored_few,
)

MASKED_AT_ONCE: Final = 16  # containers; their mask (1 MiB) stays in the cache
MOST_FEW: Final = 1 << 20  # positions in containers of few; they are sorted whenever some are added
STRIDE: Final = 64  # positions, of which the first and the last tell whether they are a run

EMPTY: Final = Containers(np.empty(0, np.int64)).bitmap()


class BitmapBuilder:
    """A set of positions below 2^32 that grows, from the empty one or from ``base``."""

    def __init__(self, base: Bitmap = EMPTY) -> None:
        self._base = base
        self._places = {key: i for i, key in enumerate(base.keys.tolist())}
        # A container is in one of these, or it is what it is in the base.
        self._bits: dict[int, Bits] = {}
        self._few = np.empty(0, np.int64)
        self._few_keys: set[int] = set()

    def add(self, positions: Integers) -> int:
        """Add ``positions``, ascending and unique; return how many are new."""
        if not len(positions):
            return 0
        first, last = (int(position) // CONTAINER_POSITIONS for position in (positions[0], positions[-1]))
        if len(positions) > LARGEST_ARRAY * (last - first + 1):
            return self._add_many(positions)
        keys, _, sizes = _by_container(positions)
        stay_few = [
            self._stays_few(key, size) for key, size in zip(keys.tolist(), sizes.tolist(), strict=True)
        ]
        are_few = np.repeat(stay_few, sizes)
        new = self._add_many(positions[~are_few]) + self._add_few(keys[stay_few].tolist(), positions[are_few])
        if len(self._few) > MOST_FEW:
            few, self._few, self._few_keys = self._few, self._few[:0], set()
            self._add_many(few)
        return new

    def add_mask(self, mask: Mask, start: int) -> int:
        """Add ``start + i`` for every True ``mask[i]``; return how many are new."""
        new = at = 0
        while at < len(mask):
            key, inside = divmod(start + at, CONTAINER_POSITIONS)
            part = mask[at : at + MASKED_AT_ONCE * CONTAINER_POSITIONS - inside]
            count = int(np.count_nonzero(part))
            if count <= LARGEST_ARRAY:
                new += self.add(np.flatnonzero(part) + (start + at))
            else:
                rest = -(inside + len(part)) % CONTAINER_POSITIONS
                whole = np.pad(part, (inside, rest)) if inside or rest else part
                new += count - self._add_bits(key, np.packbits(whole, bitorder="little"))
            at += len(part)
        return new

    def _stays_few(self, key: int, more: int) -> bool:
        """Whether a container is still few, or an array, with ``more`` positions."""
        place = self._places.get(key)
        if key in self._bits or more > LARGEST_ARRAY:
            return False
        if key in self._few_keys or place is None:
            return True
        return bool(self._base.kinds[place] == ARRAY and self._base.sizes[place] + more <= LARGEST_ARRAY)

    def _add_few(self, keys: list[int], positions: Integers) -> int:
        """Add positions of containers that stay few; return how many are new."""
        known = [self._few]
        for key in keys:
            place = self._places.get(key)
            if key not in self._few_keys and place is not None:
                known.append(self._base.array_values(place, place + 1) + np.int64(key * CONTAINER_POSITIONS))
        self._few_keys.update(keys)
        self._few = np.unique(np.concatenate([*known, positions]))
        return len(self._few) - sum(map(len, known))

    def _add_many(self, positions: Integers) -> int:
        """Add positions as bits; return how many are new."""
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

    def _add_bits(self, key: int, bits: Bits) -> int:
        """Add the bits of containers from ``key`` on, owning them; return how many were there already."""
        already = 0
        rows = bits.reshape(-1, BITSET_BYTES)
        for i in np.flatnonzero(rows.view(np.uint64).any(axis=1)).tolist():
            before = self._bits_of(key + i)
            if before is not None:
                already += int(count_bits((rows[i] & before).view(np.uint64)[np.newaxis])[0])
                rows[i] |= before
            self._bits[key + i] = rows[i]
        return already

    def _bits_of(self, key: int) -> Bits | None:
        """Return the bits of a container, which is no longer few then."""
        if key in self._bits:
            return self._bits[key]
        if key in self._few_keys:
            first, end = self._few.searchsorted((key * CONTAINER_POSITIONS, (key + 1) * CONTAINER_POSITIONS))
            mask = np.zeros(CONTAINER_POSITIONS, np.bool_)
            mask[self._few[first:end] - key * CONTAINER_POSITIONS] = True
            self._few = np.delete(self._few, slice(first, end))
            self._few_keys.remove(key)
            return np.packbits(mask, bitorder="little")
        place = self._places.get(key)
        return None if place is None else self._base.bits(place)

    def rewrite(self, key: int) -> None:
        """Choose anew what the container of ``key`` is stored as, although its positions stay."""
        bits = self._bits_of(key)
        assert bits is not None
        self._bits[key] = bits

    def build(self) -> Bitmap:
        """Return the bitmap of what was added, run-optimised wherever it was."""
        keys, _, sizes = _by_container(self._few)
        for key in keys[sizes > LARGEST_ARRAY].tolist():
            self.rewrite(key)
        containers = Containers(
            np.union1d(self._base.keys, np.array([*self._bits, *self._few_keys], np.int64))
        )
        base = self._base
        stored = [
            base.data[start:stop]
            for start, stop in zip(base.starts.tolist(), base.stops.tolist(), strict=True)
        ]
        containers.put(base.keys, (base.kinds, base.sizes, stored))
        if len(self._few):
            keys, begins, sizes = _by_container(self._few)
            containers.put(keys, stored_few(self._few, begins, sizes))
        changed = sorted(self._bits)
        for at in range(0, len(changed), AT_ONCE):
            some = changed[at : at + AT_ONCE]
            containers.put(np.array(some), stored_bits([self._bits[key] for key in some]))
        return containers.bitmap()


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
            heads = run_starts(bitmap.array_values(first, end), np.cumsum(sizes) - sizes)
            runs = np.add.reduceat(heads, np.cumsum(sizes) - sizes, dtype=np.int64)
            wrong[first:end] = choose(sizes, runs) != ARRAY
        else:
            for i in range(first, end, AT_ONCE):
                stop = min(i + AT_ONCE, end)
                _, _, runs = bounded_runs(bitmap.words(i, stop))
                wrong[i:stop] = choose(bitmap.sizes[i:stop], runs) != BITSET
    if not wrong.any():
        return bitmap
    builder = BitmapBuilder(bitmap)
    for key in bitmap.keys[wrong].tolist():
        builder.rewrite(key)
    return builder.build()


def _by_container(positions: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the containers of ascending ``positions``: their keys, where each begins, how many positions it has."""
    of = positions // CONTAINER_POSITIONS
    begins = np.flatnonzero(np.diff(of, prepend=-1))
    return of[begins], begins, np.diff(begins, append=len(positions))


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
