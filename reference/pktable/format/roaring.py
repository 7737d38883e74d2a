"""Portable Roaring bitmaps as masks, one container of 65536 positions at a time.

A container is a sorted array of 16-bit numbers, a bitset, or runs of (first, length - 1). Going container by
container keeps the work per position out of Python and touches only what a mask overlaps. The input is what
the bitmap library has just written, and is trusted.

Clauses: DVF-2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

COOKIE_WITH_RUNS: Final = 12347
CONTAINER_POSITIONS: Final = 1 << 16
BITSET_BYTES: Final = CONTAINER_POSITIONS // 8
LARGEST_ARRAY: Final = 4096  # positions; a container of more is a bitset
ARRAY, BITSET, RUNS = range(3)


def fill_mask(mask: npt.NDArray[np.bool_], start: int, data: bytes) -> None:
    """Set ``mask[position - start]`` for each position of the bitmap ``data`` that falls into ``mask``."""
    end = start + len(mask)
    for first, kind, size, offset in _containers(data):
        if first >= end:
            return
        if first + CONTAINER_POSITIONS <= start:
            continue
        inside = _container(data, kind, size, offset)
        low, high = max(first, start), min(first + CONTAINER_POSITIONS, end)
        mask[low - start : high - start] = inside[low - first : high - first]


def _containers(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (first position, kind, positions or runs, offset) of each container, ascending."""
    cookie, count = struct.unpack_from("<II", data)
    flags: npt.NDArray[Any]
    if cookie & 0xFFFF == COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        flag_bytes = (count + 7) // 8
        flags = np.unpackbits(np.frombuffer(data, np.uint8, flag_bytes, 4), bitorder="little")
        offset = 4 + flag_bytes
        # Few containers come without a table of their offsets.
        table_bytes = 4 * count if count >= 4 else 0
    else:
        flags = np.zeros(count, np.uint8)
        offset = 8
        table_bytes = 4 * count
    heads = np.frombuffer(data, "<u2", 2 * count, offset).reshape(count, 2).tolist()
    offset += 4 * count + table_bytes
    for (key, last), is_run in zip(heads, flags.tolist(), strict=False):
        first = key * CONTAINER_POSITIONS
        if is_run:
            (size,) = struct.unpack_from("<H", data, offset)
            yield first, RUNS, size, offset + 2
            offset += 2 + 4 * size
        elif last < LARGEST_ARRAY:
            yield first, ARRAY, last + 1, offset
            offset += 2 * (last + 1)
        else:
            yield first, BITSET, last + 1, offset
            offset += BITSET_BYTES


def _container(data: bytes, kind: int, size: int, offset: int) -> npt.NDArray[np.bool_]:
    """Return a container as a mask of its 65536 positions."""
    if kind == BITSET:
        bits = np.frombuffer(data, np.uint8, BITSET_BYTES, offset)
        return np.unpackbits(bits, bitorder="little").view(np.bool_)
    inside = np.zeros(CONTAINER_POSITIONS, np.bool_)
    if kind == ARRAY:
        inside[np.frombuffer(data, "<u2", size, offset)] = True
        return inside
    for first, rest in np.frombuffer(data, "<u2", 2 * size, offset).reshape(size, 2).tolist():
        inside[first : first + rest + 1] = True
    return inside
