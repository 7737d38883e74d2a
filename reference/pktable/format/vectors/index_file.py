"""Encode and decode DV index files: a version byte, then deletion vectors, whose byte ranges an index manifest lists.

The range of a 32-bit vector counts neither its length field nor its CRC; that of a 64-bit vector counts both. The
magic of a vector identifies its kind. A range must agree with the kind, and the ranges together must cover the file.

Clauses: DVF-1 to DVF-7, DVF-9 to DVF-13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pktable_spec.errors import CorruptFileError

from pktable.format.vectors.deletion_vector import (
    FRAME_BYTES,
    MAGIC_64,
    DeletionVector,
    decode_vector,
    stored_parts,
)

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class VectorRange:
    """The place of a data file's vector in a DV index file, and the number of its positions.

    ``offset_bytes``: of its length field, from the start of the file. ``length_bytes``: without length field and CRC
    for a 32-bit vector, with them for a 64-bit vector. ``cardinality``: None in files of older versions.
    Clauses: DVF-9, DVF-10, DVF-11, DVF-13.
    """

    data_file: str
    offset_bytes: int
    length_bytes: int
    cardinality: int | None


def encode_index(vectors: Mapping[str, DeletionVector]) -> tuple[bytes, tuple[VectorRange, ...]]:
    """Return a DV index file of ``vectors``, in their order, and the range of each. ``vectors``: by data file.

    Clauses: DVF-1, DVF-7, DVF-9, DVF-10, DVF-11, DVF-13.
    """
    parts = [bytes([VERSION])]
    ranges = []
    offset = 1
    for data_file, vector in vectors.items():
        stored = stored_parts(vector)
        stored_bytes = sum(map(len, stored))
        length = stored_bytes if vector.bits == 64 else stored_bytes - FRAME_BYTES
        ranges.append(VectorRange(data_file, offset, length, vector.cardinality))
        parts += stored
        offset += stored_bytes
    return b"".join(parts), tuple(ranges)


def open_index(data: bytes, ranges: Sequence[VectorRange], *, at: str) -> Mapping[str, DeletionVector]:
    """Return the vectors of a DV index file by data file, each decoded and checked when it is first asked for.

    ``ranges``: all ranges of the file, in any order, as the index manifest lists them.
    Raises CorruptFileError if the ranges do not cover the file; a look-up raises it for a damaged vector.
    Clauses: DVF-1, DVF-5, DVF-9, DVF-12.
    """
    if data[:1] != bytes([VERSION]):
        raise CorruptFileError("index version", at=at, expected=VERSION, found=data[:1].hex() or "nothing")
    places: dict[str, tuple[int, int, VectorRange]] = {}
    offset = 1
    for place in sorted(ranges, key=lambda place: place.offset_bytes):
        if place.offset_bytes != offset:
            raise CorruptFileError(
                f"offset of the vector of {place.data_file}", at=at, expected=offset, found=place.offset_bytes
            )
        if place.data_file in places:
            raise CorruptFileError(
                "vectors", at=at, expected="one per data file", found=f"{place.data_file} twice"
            )
        end = offset + _stored_bytes(data, place)
        if end > len(data):
            raise CorruptFileError(
                f"vector of {place.data_file}", at=at, expected=f"bytes up to {end}", found=len(data)
            )
        places[place.data_file] = offset, end, place
        offset = end
    if offset != len(data):
        raise CorruptFileError("index length", at=at, expected=offset, found=len(data))
    return _Vectors(data, {place.data_file: places[place.data_file] for place in ranges}, at)


class _Vectors(Mapping[str, DeletionVector]):
    """The vectors of an index file, decoded one by one. ``places``: from and to which byte each is."""

    def __init__(self, data: bytes, places: Mapping[str, tuple[int, int, VectorRange]], at: str) -> None:
        self._data, self._places, self._at = memoryview(data), places, at
        self._decoded: dict[str, DeletionVector] = {}

    def __getitem__(self, data_file: str) -> DeletionVector:
        found = self._decoded.get(data_file)
        if found is None:
            start, end, place = self._places[data_file]
            found = self._decoded[data_file] = decode_vector(
                self._data[start:end], at=f"{self._at}: vector of {data_file}", cardinality=place.cardinality
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _stored_bytes(data: bytes, place: VectorRange) -> int:
    """Return the bytes that the vector takes if its range is right, which decoding the vector checks."""
    magic = data[place.offset_bytes + struct.calcsize(">i") :][: len(MAGIC_64)]
    return max(0, place.length_bytes) + (0 if magic == MAGIC_64 else FRAME_BYTES)
