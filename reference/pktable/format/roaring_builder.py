"""Build bitmaps from sorted positions and masks, and grow those there are.

Few positions are given to the Roaring library one by one. Many, more than an array container would take, are
made the bytes of a bitmap of bitsets first, which the library takes in as a whole: that spares the work per
position. At the end it chooses what each container is stored as: what is smallest, where runs of a base that
take no more than an array stay runs.

Clauses: DVF-2, DVF-6.
"""

from __future__ import annotations

import array
import struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from pktable.format.roaring import (
    BITSET_BYTES,
    CONTAINER_POSITIONS,
    COOKIE,
    LARGEST_ARRAY,
    Bitmap,
    Bits,
    Integers,
    Mask,
    count_bits,
)

MASKED_AT_ONCE: Final = 16  # containers; their mask (1 MiB) stays in the cache
STRIDE: Final = 64  # positions, of which the first and the last tell whether they are a run


class BitmapBuilder:
    """A set of positions below 2^32 that grows, from ``base`` on."""

    def __init__(self, base: Bitmap | None = None) -> None:
        self._bitmap = base.thawed() if base else BitMap()

    def add(self, positions: Integers) -> int:
        """Add ``positions``, ascending and unique; return how many are new."""
        before = len(self._bitmap)
        at = 0
        while at < len(positions):
            key = int(positions[at]) // CONTAINER_POSITIONS
            bound = (key + MASKED_AT_ONCE) * CONTAINER_POSITIONS
            end = len(positions) if positions[-1] < bound else int(np.searchsorted(positions, bound))
            part = positions[at:end]
            containers = int(part[-1]) // CONTAINER_POSITIONS - key + 1
            if len(part) <= LARGEST_ARRAY * containers:
                self._add_each(part)
            else:
                mask = np.zeros(containers * CONTAINER_POSITIONS, np.bool_)
                _set(mask, part, key * CONTAINER_POSITIONS)
                self._add_bits(key, np.packbits(mask, bitorder="little"))
            at = end
        return len(self._bitmap) - before

    def add_mask(self, mask: Mask, start: int) -> int:
        """Add ``start + i`` for every True ``mask[i]``; return how many are new."""
        before = len(self._bitmap)
        at = 0
        while at < len(mask):
            key, inside = divmod(start + at, CONTAINER_POSITIONS)
            part = mask[at : at + MASKED_AT_ONCE * CONTAINER_POSITIONS - inside]
            rest = -(inside + len(part)) % CONTAINER_POSITIONS
            whole = np.pad(part, (inside, rest)) if inside or rest else part
            self._add_bits(key, np.packbits(whole, bitorder="little"))
            at += len(part)
        return len(self._bitmap) - before

    def build(self) -> Bitmap:
        """Return the bitmap of what was added so far."""
        return Bitmap.optimized(self._bitmap)

    def _add_bits(self, key: int, bits: Bits) -> None:
        """Add the bits of containers from ``key`` on."""
        rows = bits.reshape(-1, BITSET_BYTES)
        sizes = count_bits(rows.view(np.uint64))
        are_many = sizes > LARGEST_ARRAY
        if are_many.all():
            self._bitmap |= BitMap.deserialize(_bitsets(key + np.arange(len(rows)), sizes, rows))
            return
        if are_many.any():
            keys = key + np.flatnonzero(are_many)
            self._bitmap |= BitMap.deserialize(_bitsets(keys, sizes[are_many], rows[are_many]))
        for i in np.flatnonzero(~are_many & (sizes > 0)).tolist():
            low = np.flatnonzero(np.unpackbits(rows[i], bitorder="little"))
            self._add_each(low + (key + i) * CONTAINER_POSITIONS)

    def _add_each(self, positions: Integers) -> None:
        # The library takes array.array many times faster than numpy's arrays.
        values = array.array("I", positions.astype(np.uint32).tobytes())
        assert values.itemsize == 4
        self._bitmap |= BitMap(values, optimize=False)


def _bitsets(keys: Integers, sizes: Integers, rows: npt.NDArray[Any]) -> bytes:
    """Return the portable bitmap whose containers have these keys, sizes and bits."""
    heads = np.stack([keys, sizes - 1], axis=1).astype("<u2").tobytes()
    offsets = 8 + 8 * len(keys) + BITSET_BYTES * np.arange(len(keys))
    return b"".join(
        [struct.pack("<II", COOKIE, len(keys)), heads, offsets.astype("<u4").tobytes(), rows.data]
    )


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
