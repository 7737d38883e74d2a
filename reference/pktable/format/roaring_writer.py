"""Choose what the containers of a bitmap are stored as, and write bitmaps of containers.

A container is an array up to 4096 positions, else a bitset, but runs where these are strictly smaller, which
is what the run optimisation of the libraries does. Counting the runs of a bitset costs more than all the
rest; some part of it shows already that they are many.

Clauses: DVF-2, DVF-6.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from pktable.format.roaring import (
    ARRAY,
    BITSET,
    BITSET_BYTES,
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
)

FIRST_WORDS: Final = 256  # of the 1024 of a container, where its runs are counted first
MOST_RUNS: Final = (BITSET_BYTES - 1 - 2) // 4  # in a container of runs: one more takes as much as a bitset
ONE, LAST = np.uint64(1), np.uint64(63)

LowHalves = npt.NDArray[np.uint16]
Stored = tuple[Bits, Integers, list[Any]]
"""Of some containers: what they are stored as, how many positions they have, and their bytes."""


class Containers:
    """The containers of a bitmap in the making, by ``keys``."""

    def __init__(self, keys: Integers) -> None:
        self._keys = keys
        self._kinds = np.zeros(len(keys), np.uint8)
        self._sizes = np.zeros(len(keys), np.int64)
        self._stored: list[Any] = [b""] * len(keys)

    def put(self, keys: Integers, containers: Stored) -> None:
        """Set the containers of some keys."""
        kinds, sizes, stored = containers
        at = self._keys.searchsorted(keys)
        self._kinds[at], self._sizes[at] = kinds, sizes
        for place, container in zip(at.tolist(), stored, strict=True):
            self._stored[place] = container

    def bitmap(self) -> Bitmap:
        lengths = np.fromiter(map(len, self._stored), np.int64, len(self._stored))
        head = _head(self._keys, self._kinds, self._sizes, lengths)
        stops = len(head) + np.cumsum(lengths)
        data = memoryview(b"".join([head, *self._stored]))
        return Bitmap(data, self._keys, self._kinds, self._sizes, stops - lengths, stops)


def choose(sizes: Integers, runs: Integers) -> Bits:
    """Return what containers of as many positions and runs are stored as. Clauses: DVF-6."""
    plain = np.where(sizes > LARGEST_ARRAY, BITSET, ARRAY)
    plain_bytes = np.where(sizes > LARGEST_ARRAY, BITSET_BYTES, 2 * sizes)
    return np.where(2 + 4 * runs < plain_bytes, RUNS, plain).astype(np.uint8)


def stored_few(positions: Integers, begins: Integers, sizes: Integers) -> Stored:
    """Return per container, given as ascending positions, what it is stored as, its size, and its bytes."""
    low = positions.astype("<u2")
    heads = run_starts(low, begins)
    run_counts = np.add.reduceat(heads, begins, dtype=np.int64)
    kinds = choose(sizes, run_counts)
    stored = _cut(low, sizes)
    if (kinds == RUNS).any():
        firsts = np.flatnonzero(heads)
        lasts = np.append(firsts[1:], len(low)) - 1
        with_runs = _stored_runs(low[firsts], low[lasts], run_counts)
        stored = [with_runs[i] if kind == RUNS else stored[i] for i, kind in enumerate(kinds.tolist())]
    return kinds, sizes, stored


def stored_bits(rows: Sequence[Bits]) -> Stored:
    """Return per container, given as bits, what it is stored as, how many positions it has, and its bytes."""
    words = np.stack(rows).view(np.uint64)
    sizes = count_bits(words)
    few, heads, run_counts = bounded_runs(words)
    kinds = choose(sizes, run_counts)
    stored: list[Any] = [row.data for row in rows]
    arrays, runs = np.flatnonzero(kinds == ARRAY), np.flatnonzero(kinds == RUNS)
    if len(arrays):
        for i, container in zip(
            arrays.tolist(), _cut(_low_halves(words[arrays]), sizes[arrays]), strict=True
        ):
            stored[i] = container
    if len(runs):
        firsts, lasts = _low_halves(heads[kinds[few] == RUNS]), _low_halves(_run_lasts(words[runs]))
        for i, container in zip(runs.tolist(), _stored_runs(firsts, lasts, run_counts[runs]), strict=True):
            stored[i] = container
    return kinds, sizes, stored


def _stored_runs(firsts: LowHalves, lasts: LowHalves, counts: Integers) -> list[bytes]:
    """Return the bytes of containers of so many runs each."""
    pairs = _cut(np.stack([firsts, lasts - firsts], axis=1), counts)
    return [struct.pack("<H", len(pair) // 4) + pair for pair in pairs]


def _cut(values: npt.NDArray[Any], counts: Integers) -> list[bytes]:
    """Return the bytes of so many of ``values`` each."""
    data = values.tobytes()
    ends = (np.cumsum(counts) * (len(data) // len(values))).tolist()
    return [data[start:end] for start, end in pairwise([0, *ends])]


def run_starts(low: LowHalves, begins: Integers) -> Mask:
    """Return which of the low halves, of containers that begin at ``begins``, is the first of a run."""
    heads = np.empty(len(low), np.bool_)
    heads[1:] = low[1:] != low[:-1] + np.uint16(1)
    heads[begins] = True
    return heads


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


def bounded_runs(words: Words) -> tuple[Mask, Words, Integers]:
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


def _low_halves(words: Words) -> LowHalves:
    """Return the low halves of the positions in containers given as bits, one after another."""
    flat = words.reshape(-1)
    some = np.flatnonzero(flat)
    bits = np.flatnonzero(np.unpackbits(flat[some].view(np.uint8), bitorder="little"))
    low: LowHalves = (some[bits >> 6] * 64 + (bits & 63)).astype("<u2")
    return low
