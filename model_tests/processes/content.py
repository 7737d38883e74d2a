"""The rows that numbered writes make, and a digest of rows that follows a write in constant time.

Every write has a number of its own. It sets the row of that key, one of a few shared rows, and the row of key 0, to its
number. So rows show which writes they hold, and which of them was the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

COLUMNS: Final = "k BIGINT, v BIGINT"
SHARED: Final = 16
Digest = tuple[int, int]
"""The number of rows, and the sum of their hashes."""


def rows_of(number: int) -> dict[int, int]:
    """Return the rows that an upsert of this number sets."""
    return {0: number, -1 - number % SHARED: number, number: number}


def digest(keys: Any, values: Any) -> Digest:
    """Return the digest of rows: their number and the sum of their hashes, whatever their order."""
    k, v = np.asarray(keys, np.int64).view(np.uint64), np.asarray(values, np.int64).view(np.uint64)
    mixed = k * np.uint64(0x9E3779B97F4A7C15) + v * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    return len(k), int(mixed.sum(dtype=np.uint64))


def digest_of(rows: pa.Table) -> Digest:
    """Return the digest of the rows of a read."""
    return digest(rows["k"].to_numpy(), rows["v"].to_numpy())


class Rows:
    """The rows after some writes, and their digest."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._sum = 0

    def upsert(self, number: int) -> None:
        """Do the upsert of a number."""
        for key, value in rows_of(number).items():
            self._remove(key)
            self._rows[key] = value
            self._sum += digest([key], [value])[1]

    def delete(self, keys: Sequence[int]) -> None:
        """Delete keys, which need not be there."""
        for key in keys:
            self._remove(key)

    def _remove(self, key: int) -> None:
        if key in self._rows:
            self._sum -= digest([key], [self._rows.pop(key)])[1]

    @property
    def digest(self) -> Digest:
        """The digest of the rows as they are now."""
        return len(self._rows), self._sum % (1 << 64)
