"""Index files of deletion vectors: a version byte, then the vectors, each where its range says.

The range of a 32-bit vector counts neither its length nor its CRC, that of a 64-bit vector counts both.
Which kind a vector is, its magic says; the range must agree with the kind, and the ranges together must
cover the file.

Clauses: DVF-1 to DVF-7.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
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
    """Where the vector of a data file lies in an index file, and how many positions it holds.

    ``offset_bytes``: of its length field, from the start of the file. ``length_bytes``: see above.
    Clauses: DVF-2, DVF-3, DVF-6.
    """

    data_file: str
    offset_bytes: int
    length_bytes: int
    cardinality: int | None


def encode_index(vectors: Mapping[str, DeletionVector]) -> tuple[bytes, tuple[VectorRange, ...]]:
    """Return an index file of ``vectors``, by data file, in their order, and where each lies.

    Clauses: DVF-1, DVF-6, DVF-7.
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


def decode_index(data: bytes, ranges: Sequence[VectorRange], *, at: str) -> dict[str, DeletionVector]:
    """Return the vectors of an index file by data file. Raises CorruptFileError.

    ``ranges``: all of the file, in any order, as the index manifest has them. Clauses: DVF-1, DVF-4, DVF-5.
    """
    if data[:1] != bytes([VERSION]):
        raise CorruptFileError("index version", at=at, expected=VERSION, found=data[:1].hex() or "nothing")
    vectors: dict[str, DeletionVector] = {}
    offset = 1
    for place in sorted(ranges, key=lambda place: place.offset_bytes):
        if place.offset_bytes != offset:
            raise CorruptFileError(
                f"offset of the vector of {place.data_file}", at=at, expected=offset, found=place.offset_bytes
            )
        if place.data_file in vectors:
            raise CorruptFileError(
                "vectors", at=at, expected="one per data file", found=f"{place.data_file} twice"
            )
        end = offset + _stored_bytes(data, place)
        if end > len(data):
            raise CorruptFileError(
                f"vector of {place.data_file}", at=at, expected=f"bytes up to {end}", found=len(data)
            )
        vectors[place.data_file] = decode_vector(
            memoryview(data)[offset:end],
            at=f"{at}: vector of {place.data_file}",
            cardinality=place.cardinality,
        )
        offset = end
    if offset != len(data):
        raise CorruptFileError("index length", at=at, expected=offset, found=len(data))
    return {place.data_file: vectors[place.data_file] for place in ranges}


def _stored_bytes(data: bytes, place: VectorRange) -> int:
    """Return how many bytes the vector takes if its range is right; decoding it checks that."""
    magic = data[place.offset_bytes + struct.calcsize(">i") :][: len(MAGIC_64)]
    return max(0, place.length_bytes) + (0 if magic == MAGIC_64 else FRAME_BYTES)
