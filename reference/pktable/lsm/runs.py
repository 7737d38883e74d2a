"""The sorted runs of a bucket, newest first.

A file's keys are compared as tuples of internal values, decoded once per distinct byte string.
Floats are mapped to integers in total order first, so that tuples compare as MRG-5 says.

Clauses: LSM-2, LSM-4, MRG-5.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from pktable_spec.errors import CorruptFileError

from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.types import DataType

Key = tuple[object, ...]


class KeyOrder:
    """Decodes the keys that metadata stores. One per table; `types` are those of the trimmed primary key."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._types = tuple(types)
        self._floats = [i for i, t in enumerate(types) if t.root in ("FLOAT", "DOUBLE")]
        self._decoded: dict[bytes, Key] = {}

    def key(self, row: bytes, at: str) -> Key:
        """Return the comparable key stored as ``row``. Raises CorruptFileError."""
        key = self._decoded.get(row)
        if key is None:
            values = list(decode_row(row, self._types, at=at))
            if None in values:
                raise CorruptFileError("key", at=at, expected="no null", found=values)
            for i in self._floats:
                values[i] = total_order(float(values[i]))
            if len(self._decoded) > 100_000:
                self._decoded.clear()
            key = self._decoded[row] = tuple(values)
        return key

    def smallest(self, file: DataFileMeta) -> Key:
        return self.key(file.min_key, file.file_name)

    def greatest(self, file: DataFileMeta) -> Key:
        return self.key(file.max_key, file.file_name)


def total_order(value: float) -> int:
    """Return an integer that compares as the float does: -0.0 below 0.0, every NaN equal and greatest."""
    if value != value:
        return 1 << 63
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1


@dataclass(frozen=True, slots=True)
class Run:
    """Files of one level, in key order, their ranges disjoint. At level 0 exactly one file."""

    level: int
    files: tuple[DataFileMeta, ...]

    @property
    def size_bytes(self) -> int:
        return sum(file.file_size for file in self.files)


def sorted_runs(files: Sequence[DataFileMeta], order: KeyOrder) -> tuple[Run, ...]:
    """Return the runs of a bucket's live ``files``, newest first.

    Clauses: LSM-2, LSM-4.
    """
    fresh = sorted((file for file in files if file.level == 0), key=_age)
    levels = sorted({file.level for file in files if file.level > 0})
    return (
        *(Run(0, (file,)) for file in fresh),
        *(Run(level, level_run(files, level, order)) for level in levels),
    )


def level_run(files: Sequence[DataFileMeta], level: int, order: KeyOrder) -> tuple[DataFileMeta, ...]:
    """Return the files of ``level`` in key order."""
    return tuple(sorted((file for file in files if file.level == level), key=order.smallest))


def _age(file: DataFileMeta) -> tuple[int, int, int, str]:
    return (-file.max_sequence_number, -file.min_sequence_number, file.creation_time or 0, file.file_name)
