"""Faults of how vectors are stored, found, remembered and verified."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from pktable import context as table_files
from pktable.context import TableContext
from pktable.format.vectors import deletion_vector
from pktable.format.vectors import index_file as dv_index
from pktable.format.vectors.deletion_vector import FRAME_BYTES, DeletionVector
from pktable.format.vectors.index_file import VectorRange
from pktable.lsm.bucket import BucketState
from pktable_spec.errors import CorruptFileError

from model_tests.mutants.registry import READ, Mutant, instead, patched

Vectors = Mapping[str, DeletionVector]


def _read_on(data: bytes, ranges: Sequence[VectorRange], *, at: str) -> dict[str, DeletionVector]:
    """Take the vectors as they follow each other for those of the data files as the ranges follow each other."""
    if data[:1] != bytes([dv_index.VERSION]):
        raise CorruptFileError("index version", at=at, expected=dv_index.VERSION, found=data[:1].hex())
    vectors, offset = {}, 1
    for place in ranges:
        (length,) = struct.unpack_from(">i", data, offset)
        end = offset + FRAME_BYTES + length
        vectors[place.data_file] = deletion_vector.decode_vector(data[offset:end], at=at)
        offset = end
    return vectors


def _positions_unchecked(vectors: Any) -> Any:
    """Without the check that positions are those of rows, which would refuse some of the faults (DV-2)."""

    def unchecked(self: TableContext, state: BucketState) -> Vectors:
        found: Vectors = vectors(self, BucketState(state.place, (), state.indexes))
        return found

    return unchecked


def _remembered_by_data_file(vectors: Any) -> Any:
    def remembered(self: TableContext, state: BucketState) -> Vectors:
        known = self.__dict__.setdefault("vectors_by_data_file", {})
        return {name: known.setdefault(name, vector) for name, vector in vectors(self, state).items()}

    return remembered


def _remembered_by_index_file(vectors: Any) -> Any:
    def remembered(self: TableContext, state: BucketState) -> Vectors:
        found = _positions_unchecked(vectors)(self, state)
        return {name: next(iter(found.values())) for name in found}

    return remembered


def _unverified(decode_vector: Any) -> Any:
    """Skip the stored checksum, as if it were right, and ask for no cardinality."""

    def decoded(blob: bytes, *, at: str, cardinality: int | None = None) -> DeletionVector:
        found: DeletionVector = decode_vector(
            bytes(blob[:-4]) + struct.pack(">I", zlib.crc32(blob[4:-4])), at=at
        )
        return found

    return decoded


MUTANTS = (
    Mutant(
        "M13",
        "an index is read on from vector to vector, not from where its ranges say",
        patched(
            (table_files, "open_index", instead(_read_on)), (TableContext, "vectors", _positions_unchecked)
        ),
        READ,
        ("DVF-9",),
        bugs=("paimon#8211",),
    ),
    Mutant(
        "M14a",
        "vectors are remembered by data file: an older one is served",
        patched((TableContext, "vectors", _remembered_by_data_file)),
        rf"{READ}|vectors_only_grow: .* lost deleted positions",
        ("DV-9", "CMT-15"),
        bugs=("delta#1899", "paimon#4966"),
    ),
    Mutant(
        "M14b",
        "vectors are remembered by index file: that of another data file is served",
        patched((TableContext, "vectors", _remembered_by_index_file)),
        rf"{READ}|vectors_only_grow: .* lost deleted positions|vectors_are_well_formed: VectorInfo",
        ("DV-1", "DVF-9"),
        bugs=("iceberg#17497",),
    ),
    Mutant(
        "M20",
        "checksum and cardinality of a vector are not verified",
        patched((dv_index, "decode_vector", _unverified)),
        "damage_is_noticed: ",
        ("DVF-5", "RD-11"),
        bugs=("delta#2079",),
    ),
    Mutant(
        "S1",
        "the length of a vector is written and read in the other byte order",
        patched((deletion_vector, "LENGTH", instead(struct.Struct("<i")))),
        "stored_vectors: length of a vector",
        ("DVF-2", "DVF-3"),
        bugs=("delta#1979", "delta#3933", "paimon#2831"),
    ),
)
