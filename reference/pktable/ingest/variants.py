"""Tell whether bytes are VARIANTs, many at once.

A VARIANT is a value and a dictionary of the names in it. The value begins with a byte that says what it is; an object
and an array then have their number of parts, for an object the numbers of their names, and where each part begins.
The walk goes level by level: all values, then all parts of these, and so on, with numpy for each level. No two parts
share a byte in what a writer makes, so a level of more parts than bytes ends the walk: a few bytes could stand for any
number of parts.

Clauses: TBL-64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Integers: TypeAlias = npt.NDArray[np.int64]

SHORT_STRING, OBJECT, ARRAY = 1, 2, 3  # the low two bits of the first byte; 0 is a plain value
LONG: Final = (15, 16)  # the plain values with a length of four bytes: binary and string
SIZES: Final = np.zeros(64, np.int64)
"""Bytes of plain values by their number, the first one included; 0 for numbers that nothing has."""
SIZES[:21] = [1, 1, 1, 2, 3, 5, 9, 9, 6, 10, 18, 5, 9, 9, 5, 5, 5, 9, 9, 9, 17]
MOST_SCALE: Final = np.full(64, 255)
"""The greatest byte behind the first one: of the decimals, their greatest scale."""
MOST_SCALE[8:11] = [9, 18, 38]
AT_ONCE_BYTES: Final = 1 << 20
"""Of rows that are looked at together, unless it is one: each part of a value takes some hundred bytes of its own."""
PADDING: Final = 4  # bytes behind the last one, so that a number that is cut off can be read


class _Bytes:
    """The bytes of a column of binaries. ``starts``, ``ends``: of each in ``data``."""

    def __init__(self, binaries: Any) -> None:
        _, offsets, data = binaries.buffers()
        ends = np.frombuffer(offsets, np.int32, len(binaries) + 1, binaries.offset * 4).astype(np.int64)
        first, last = int(ends[0]), int(ends[-1])
        self.starts, self.ends, self.count = ends[:-1] - first, ends[1:] - first, last - first
        plain = np.frombuffer(data, np.uint8, self.count, first) if self.count else np.zeros(0, np.uint8)
        self.data = np.concatenate([plain, np.zeros(PADDING, np.uint8)])

    def numbers(self, at: Integers, widths: Any) -> Integers:
        """Return the numbers of so many bytes, the least significant first, at places; 0 behind the end."""
        found = np.zeros(len(at), np.int64)
        least, most = int(np.min(widths, initial=4)), int(np.max(widths, initial=0))
        for place in range(most):
            byte = self.data[np.minimum(at + place, self.count)].astype(np.int64)
            found |= (byte if place < least else np.where(place < widths, byte, 0)) << (8 * place)
        return found


class _Parts(NamedTuple):
    """Values of one level. ``limit``: the latest place for the end of each. ``names``: how many it may use."""

    at: Integers
    limit: Integers
    names: Integers


def are_variants(parts: Sequence[pa.Array]) -> bool:
    """Return whether rows without nulls have the values and the dictionaries of VARIANTs.

    Text in them need not be UTF-8. Clauses: TBL-64.
    """
    rows = len(parts[0])
    if not rows:
        return True
    if rows > 1 and sum(int(pc.sum(pc.binary_length(part)).as_py()) for part in parts) > AT_ONCE_BYTES:
        half = rows // 2
        first, rest = [part.slice(0, half) for part in parts], [part.slice(half) for part in parts]
        return are_variants(first) and are_variants(rest)
    value, metadata = map(_Bytes, parts)
    names = _name_counts(metadata)
    if names is None:
        return False
    level: _Parts | None = _Parts(value.starts, value.ends, names)
    exact = True  # a value has no bytes behind it; a part can have the next one behind it
    while level is not None and len(level.at):
        level, exact = _inside(value, level, exact=exact), False
    return level is not None


def _name_counts(metadata: _Bytes) -> Integers | None:
    """Return how many names each dictionary has, None if one is damaged."""
    head = metadata.numbers(metadata.starts, 1)
    width = (head >> 6) + 1
    counts = metadata.numbers(metadata.starts + 1, width)
    offsets_at = metadata.starts + 1 + width
    names_at = offsets_at + (counts + 1) * width
    if np.any((head & 15) != 1) or np.any(names_at > metadata.ends):
        return None
    row, number = _numbered(counts + 1)
    ends = metadata.numbers(offsets_at[row] + number * width[row], width[row])
    falls = (np.diff(ends) < 0) & (np.diff(row) == 0)
    if np.any(falls) or np.any(names_at[row] + ends > metadata.ends[row]):
        return None
    return counts


def _numbered(counts: Integers) -> tuple[Integers, Integers]:
    """Return for each of all items whose it is, and its number there. ``counts``: how many each owner has."""
    owners = np.repeat(np.arange(len(counts)), counts)
    return owners, np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]


def _inside(data: _Bytes, parts: _Parts, *, exact: bool) -> _Parts | None:
    """Return the parts of values, None if one is no value. ``exact``: whether each ends at its limit."""
    at, limit, names = parts
    if np.any(at >= limit):
        return None
    head = data.numbers(at, 1)
    basic, kind = head & 3, head >> 2
    end = at + np.where(basic == SHORT_STRING, 1 + kind, SIZES[kind])
    long = np.isin(kind, LONG) & (basic == 0)
    end[long] += data.numbers(at[long] + 1, 4)
    plain = basic < OBJECT
    wrong = (end != limit if exact else end > limit) | ((basic == 0) & (SIZES[kind] == 0))
    wrong |= (basic == 0) & (MOST_SCALE[kind] < data.numbers(at + 1, 1))
    if np.any(wrong & plain):
        return None
    nested = _Parts(at[~plain], limit[~plain], names[~plain])
    return _parts_of(data, nested, basic[~plain] == OBJECT, kind[~plain], exact=exact)


def _parts_of(
    data: _Bytes, nested: _Parts, is_object: npt.NDArray[np.bool_], kind: Integers, *, exact: bool
) -> _Parts | None:
    """Return the parts of objects and arrays, None if one is neither. ``kind``: the upper six bits of their heads."""
    at, limit, names = nested
    width = (kind & 3) + 1
    name_width = np.where(is_object, (kind >> 2 & 3) + 1, 0)
    count_width = np.where((kind >> np.where(is_object, 4, 2)) & 1, 4, 1)
    counts = data.numbers(at + 1, count_width)
    names_at = at + 1 + count_width
    offsets_at = names_at + counts * name_width
    values_at = offsets_at + (counts + 1) * width
    end = values_at + data.numbers(offsets_at + counts * width, width)
    if np.any(values_at > limit) or np.any(end != limit if exact else end > limit):
        return None
    if counts.sum() > data.count:
        return None
    owner, number = _numbered(counts)
    named = data.numbers(names_at[owner] + number * name_width[owner], name_width[owner])
    if np.any(is_object[owner] & (named >= names[owner])):
        return None
    starts = values_at[owner] + data.numbers(offsets_at[owner] + number * width[owner], width[owner])
    return _Parts(starts, end[owner], names[owner])
