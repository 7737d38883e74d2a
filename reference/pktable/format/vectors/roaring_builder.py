"""Build bitmaps from sorted positions and masks, and grow those there are.

Deletions of many rows lie apart, as bits are best at, or in long runs. A container of either kind is made as it is
stored and kept so: nothing is paid per position. What is neither, or grows again, is given to the Roaring library,
which chooses for each container what is smallest; where runs of a base take no more than an array they stay runs.

Clauses: DVF-2, DVF-6.
"""

from __future__ import annotations

import array
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from pktable.format.vectors.roaring import (
    BITSET,
    BITSET_BYTES,
    CONTAINER_POSITIONS,
    FEW_RUNS,
    LARGEST_ARRAY,
    RUNS,
    Bitmap,
    Bits,
    Container,
    Integers,
    Mask,
    bits_of,
    count_bits,
    head_of,
    with_containers,
)

AT_ONCE: Final = 16  # containers; their mask (1 MiB) stays in the cache
STRIDE: Final = 64  # positions, of which the first and the last tell whether they are a run
MOST_RUNS: Final = (BITSET_BYTES - 3) // 4  # that take fewer bytes than the bits


Words = npt.NDArray[np.uint64]


class BitmapBuilder:
    """A set of positions below 2^32 that grows, from ``base`` on."""

    def __init__(self, base: Bitmap | None = None) -> None:
        self._made: dict[int, Container] = {}  # by key: bitsets and runs, as they are stored
        self._others = base.thawed() if base else BitMap()  # no container is in both
        self._count = len(self._others)

    def add(self, positions: Integers) -> int:
        """Add ``positions``, ascending and unique; return how many are new."""
        before = self._count
        at = 0
        while at < len(positions):
            key = int(positions[at]) // CONTAINER_POSITIONS
            bound = (key + AT_ONCE) * CONTAINER_POSITIONS
            end = len(positions) if positions[-1] < bound else int(np.searchsorted(positions, bound))
            self._add_near(key, positions[at:end])
            at = end
        return self._count - before

    def _add_near(self, key: int, positions: Integers) -> None:
        """Add positions of AT_ONCE containers, from ``key`` on."""
        keys = range(key, int(positions[-1]) // CONTAINER_POSITIONS + 1)
        runs = _runs_of(positions)
        if runs:
            self._add_runs(*_cut(*runs))
        elif len(positions) <= LARGEST_ARRAY * len(keys) and self._made.keys().isdisjoint(keys):
            self._add_others(_of_positions(positions))
        else:
            mask = np.zeros(len(keys) * CONTAINER_POSITIONS, np.bool_)
            mask[positions - key * CONTAINER_POSITIONS] = True
            self._add_bits(key, _packed(mask, 0))

    def add_mask(self, mask: Mask, start: int) -> int:
        """Add ``start + i`` for every True ``mask[i]``; return how many are new."""
        before = self._count
        at = 0
        while at < len(mask):
            key, inside = divmod(start + at, CONTAINER_POSITIONS)
            part = mask[at : at + AT_ONCE * CONTAINER_POSITIONS - inside]
            self._add_bits(key, _packed(part, inside))
            at += len(part)
        return self._count - before

    def build(self) -> Bitmap:
        """Return the bitmap of what was added so far."""
        others = Bitmap.optimized(self._others)
        return with_containers(others, self._made) if self._made else others

    def _add_runs(self, heads: Integers, ends: Integers) -> None:
        """Add the positions ``heads[i]`` to ``ends[i] - 1``, ascending, each run in one container."""
        of = heads // CONTAINER_POSITIONS
        firsts = np.flatnonzero(np.diff(of, prepend=-1))
        counts = np.diff(firsts, append=len(of))
        sizes = np.add.reduceat(ends - heads, firsts)
        pairs = np.stack([heads % CONTAINER_POSITIONS, ends - heads - 1], axis=1)
        bodies = np.insert(pairs.reshape(-1), 2 * firsts, counts).astype("<u2")
        stops = np.cumsum(1 + 2 * counts)
        keys = of[firsts].tolist()
        are_new = self._are_new(keys)
        are_made = _are_best_as_runs(sizes, counts) & are_new
        # What the library has already is added to run by run, without making bits of it.
        are_added = ~are_new & (counts <= FEW_RUNS)
        columns = [column.tolist() for column in (sizes, counts, firsts, stops, are_made, are_added)]
        for key, size, count, first, stop, is_made, is_added in zip(keys, *columns, strict=True):
            container = Container(RUNS, size, bodies[stop - 1 - 2 * count : stop].view(np.uint8))
            if is_made:
                self._make(key, container)
            elif is_added and key not in self._made:
                self._add_ranges(key, heads[first : first + count], ends[first : first + count])
            else:
                self._add_bits(key, bits_of(container))

    def _add_ranges(self, key: int, heads: Integers, ends: Integers) -> None:
        """Add the positions ``heads[i]`` to ``ends[i] - 1``, few runs, to a container that the library has."""
        bounds = key * CONTAINER_POSITIONS, (key + 1) * CONTAINER_POSITIONS
        before = self._others.range_cardinality(*bounds)
        for head, end in zip(heads.tolist(), ends.tolist(), strict=True):
            self._others.add_range(head, end)
        self._count += self._others.range_cardinality(*bounds) - before

    def _add_bits(self, first: int, bits: Bits) -> None:
        """Add the bits of containers from the key ``first`` on. Keeps ``bits``."""
        rows = bits.reshape(-1, BITSET_BYTES)
        keys = range(first, first + len(rows))
        for key in self._made.keys() & keys:
            made = self._made.pop(key)
            rows[key - first] |= bits_of(made)
            self._count -= made.size
        sizes = count_bits(rows.view(np.uint64))
        many = sizes > LARGEST_ARRAY
        are_made = many & self._are_new(keys)
        if are_made.any():
            are_made &= _are_best_as_bits(rows.view(np.uint64))
        are_all = bool(are_made.all())
        for i, size in zip(np.flatnonzero(are_made).tolist(), sizes[are_made].tolist(), strict=True):
            self._make(first + i, Container(BITSET, size, rows[i] if are_all else rows[i].copy()))
        if are_all:
            return
        many &= ~are_made
        if many.any():
            self._add_others(_of_bitsets(first + np.flatnonzero(many), sizes[many], rows[many]))
        for i in np.flatnonzero((sizes > 0) & (sizes <= LARGEST_ARRAY)).tolist():
            low = np.flatnonzero(np.unpackbits(rows[i], bitorder="little"))
            self._add_others(_of_positions(low + (first + i) * CONTAINER_POSITIONS))

    def _are_new(self, keys: Iterable[int]) -> Mask:
        """Return of which of these containers nothing was added yet."""
        count = self._others.range_cardinality
        return np.array(
            [
                key not in self._made
                and not (self._others and count(key * CONTAINER_POSITIONS, (key + 1) * CONTAINER_POSITIONS))
                for key in keys
            ]
        )

    def _make(self, key: int, container: Container) -> None:
        self._made[key] = container
        self._count += container.size

    def _add_others(self, positions: BitMap) -> None:
        self._count += len(positions) - self._others.intersection_cardinality(positions)
        self._others |= positions


def _runs_of(positions: Integers) -> tuple[Integers, Integers] | None:
    """Return the first position of each run and the one after its last, if most of ``positions`` are in long runs."""
    is_run = np.diff(positions[::STRIDE]) == STRIDE
    if 2 * np.count_nonzero(is_run) <= len(is_run):
        return None
    loose = np.flatnonzero(~is_run)[:, None] * STRIDE + np.arange(STRIDE)
    at = np.append(loose, np.arange(len(is_run) * STRIDE, len(positions) - 1))
    gaps = at[positions[at + 1] - positions[at] != 1]
    return positions[np.append(0, gaps + 1)], positions[np.append(gaps, len(positions) - 1)] + 1


def _cut(heads: Integers, ends: Integers) -> tuple[Integers, Integers]:
    """Return the same runs, none of them in more than one container."""
    first, last = heads[0] // CONTAINER_POSITIONS, (ends[-1] - 1) // CONTAINER_POSITIONS
    borders = np.arange(first + 1, last + 1) * CONTAINER_POSITIONS
    inside = borders[ends[heads.searchsorted(borders) - 1] > borders]
    return np.sort(np.append(heads, inside)), np.sort(np.append(ends, inside))


def _of_positions(positions: Integers) -> BitMap:
    # The library takes array.array many times faster than numpy's arrays.
    values = array.array("I", positions.astype(np.uint32).tobytes())
    assert values.itemsize == 4
    return BitMap(values, optimize=False)


def _of_bitsets(keys: Integers, sizes: Integers, rows: Bits) -> BitMap:
    """Return the bitmap whose containers have these keys, sizes and bits."""
    head = head_of(keys, sizes, np.zeros(len(keys), np.bool_), np.full(len(keys), BITSET_BYTES))
    return BitMap.deserialize(b"".join([head, rows.data]))


def _packed(mask: Mask, start: int) -> Bits:
    """Return the bits of whole containers, in the first of which ``mask`` begins at ``start``."""
    containers = -(-(start + len(mask)) // CONTAINER_POSITIONS)
    lead = start % 8
    bits = np.packbits(np.pad(mask, (lead, 0)) if lead else mask, bitorder="little")
    if len(bits) == containers * BITSET_BYTES:
        return bits
    found = np.zeros(containers * BITSET_BYTES, np.uint8)
    found[start // 8 :][: len(bits)] = bits
    return found


def _are_best_as_runs(sizes: Integers, runs: Integers) -> Mask:
    """Return which containers of so many positions in so many runs take the fewest bytes as runs."""
    are_best: Mask = 2 + 4 * runs < np.minimum(2 * sizes, BITSET_BYTES)
    return are_best


def _are_best_as_bits(words: Words) -> Mask:
    """Return for each container, which has many positions, whether it has too many runs to be stored as them."""
    one = np.uint64(1)
    at_most = count_bits(words & ~(words << one))  # a run counts again in each word that it goes on into
    are_best: Mask = at_most > MOST_RUNS
    unsure = are_best & (at_most <= MOST_RUNS + words.shape[1])
    if unsure.any():
        before = words[unsure] << one
        before[:, 1:] |= words[unsure, :-1] >> np.uint64(63)
        are_best[unsure] = count_bits(words[unsure] & ~before) > MOST_RUNS
    return are_best
