"""Encode and decode manifests (added and removed data files), manifest lists, and index manifests (index files).

Each of the three has a dataclass for its records and a table of their fields (`MANIFEST`, `MANIFEST_LIST`,
`INDEX_MANIFEST`). They are written as Avro; files that others wrote as ORC or Parquet are recognised by their first
bytes. In an index manifest the byte ranges of the deletion vectors are called ``_DELETIONS_VECTORS_RANGES``, and
their fields f0, f1 and f2.

Clauses: CMT-4, META-3, META-12, META-22, META-23, META-27, META-28, META-60, META-62.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import DELETION_VECTORS, HASH

from pktable.format.avro import encode_long
from pktable.format.avro_columns import Integers
from pktable.format.binary_row import arity_of
from pktable.format.metadata.manifest_fields import (
    BYTES,
    FILE_NAME,
    FILE_NAMES,
    INT,
    LONG,
    MILLIS,
    TEXT,
    TEXTS,
    RecordFile,
    RecordTable,
    as_stored,
    list_of,
    nested,
    never_null,
    optional,
    stored_records,
)
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import Field
from pktable.format.vectors.index_file import VectorRange

ADD: Final = 0
DELETE: Final = 1


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """A data file as a manifest describes it. Sizes in bytes, counts in records, time in milliseconds since 1970.

    Clauses: LSM-7, META-5, META-6.
    """

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes
    max_key: bytes
    key_stats: SimpleStats
    value_stats: SimpleStats
    min_sequence_number: int
    max_sequence_number: int
    schema_id: int
    level: int
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    delete_row_count: int | None = None
    embedded_index: bytes | None = None
    file_source: int | None = None
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None

    def value_stats_fields(self, schema: TableSchema) -> Sequence[Field] | None:
        """Return the fields of the file's ``schema`` that its value statistics describe, None if that is unknown.

        Paimon 0.9 writes statistics of a few columns without the list of these columns.
        Clauses: META-27, META-28, META-77.
        """
        if self.value_stats_cols is not None:
            return [schema.field(name) for name in self.value_stats_cols]
        if self.write_cols is None:
            described: Sequence[Field] = schema.fields
        else:
            described = [schema.field(name) for name in self.write_cols if name in schema]
        return described if arity_of(self.value_stats.min_values) == len(described) else None

    def holds(self, column: int, schema: TableSchema) -> bool:
        """Return whether the file has the column of that field id. ``schema``: the one that it was written under.

        Clauses: META-15, RD-31.
        """
        before = schema.by_id.get(column)
        return before is not None and (self.write_cols is None or before.name in self.write_cols)

    def at_level(self, level: int) -> DataFileMeta:
        """Return the same file at another level. Clauses: CMP-10."""
        return replace(self, level=level)


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file that was added to a bucket (kind `ADD`) or removed from it (kind `DELETE`). Clauses: CMT-4."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def identity(self) -> tuple[object, ...]:
        """The values by which a DELETE finds its ADD; no other entries share them. Clauses: CMT-4."""
        return _identity(self)


IDENTITY: Final = (
    "partition",
    "bucket",
    "file.level",
    "file.file_name",
    "file.extra_files",
    "file.embedded_index",
    "file.external_path",
)
_identity: Final[Callable[[ManifestEntry], tuple[object, ...]]] = attrgetter(*IDENTITY)


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """A manifest as a manifest list describes it. Clauses: META-12."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


@dataclass(frozen=True, slots=True)
class IndexManifestEntry:
    """An index file of a bucket. ``ranges``: of a DV index file, where each vector is. Clauses: DVF-8, DVF-9, DV-16."""

    kind: int
    partition: bytes
    bucket: int
    index_type: str
    file_name: str
    file_size: int
    row_count: int
    ranges: tuple[VectorRange, ...] | None
    external_path: str | None = None
    global_index: Mapping[str, Any] | None = None


def _entry_kind(value: int, at: str) -> int:
    if value not in (ADD, DELETE):
        raise ValueError(f"{ADD} or {DELETE}")
    return value


def _added(value: int, at: str) -> int:
    """Return the kind of an entry of an index manifest, which names what is there. Clauses: META-84."""
    if value != ADD:
        raise ValueError(f"{ADD}")
    return value


_ENTRY_KIND: Final = replace(INT, decode=_entry_kind)

_STATS: Final = RecordTable(
    SimpleStats,
    ("_MIN_VALUES", "min_values", BYTES),
    ("_MAX_VALUES", "max_values", BYTES),
    ("_NULL_COUNTS", "null_counts", optional(list_of(optional(LONG), "a list of integers and nulls"))),
)

_FILE: Final = RecordTable(
    DataFileMeta,
    ("_FILE_NAME", "file_name", FILE_NAME),
    ("_FILE_SIZE", "file_size", LONG),
    ("_ROW_COUNT", "row_count", LONG),
    ("_MIN_KEY", "min_key", BYTES),
    ("_MAX_KEY", "max_key", BYTES),
    ("_KEY_STATS", "key_stats", nested(_STATS, "_FILE__KEY_STATS")),
    ("_VALUE_STATS", "value_stats", nested(_STATS, "_FILE__VALUE_STATS")),
    ("_MIN_SEQUENCE_NUMBER", "min_sequence_number", LONG),
    ("_MAX_SEQUENCE_NUMBER", "max_sequence_number", LONG),
    ("_SCHEMA_ID", "schema_id", LONG),
    ("_LEVEL", "level", INT),
    ("_EXTRA_FILES", "extra_files", replace(FILE_NAMES, absent=())),
    ("_CREATION_TIME", "creation_time", optional(MILLIS)),
    ("_DELETE_ROW_COUNT", "delete_row_count", optional(LONG)),
    ("_EMBEDDED_FILE_INDEX", "embedded_index", optional(BYTES)),
    ("_FILE_SOURCE", "file_source", optional(INT)),
    ("_VALUE_STATS_COLS", "value_stats_cols", optional(TEXTS)),
    ("_EXTERNAL_PATH", "external_path", optional(TEXT)),
    ("_FIRST_ROW_ID", "first_row_id", optional(LONG)),
    ("_WRITE_COLS", "write_cols", optional(TEXTS)),
)
# A file is added, deleted, and listed again by merged manifests.
_CACHED_FILE: Final = replace(nested(_FILE, "_FILE"), encode=lru_cache(4096)(_FILE.encode))


def _entry_starts(block: bytes) -> Integers:
    """Return where entries may begin: at a version, a kind, and a BinaryRow of the first partition's arity.

    The length of a BinaryRow is a multiple of 8 and 4 more, so that of its encoded length four bits are known. Few
    other places look so. Clauses: META-3, META-4.
    """
    data = np.frombuffer(block, np.uint8)
    if len(data) < LEAST_ENTRY_BYTES:
        return np.zeros(0, np.int64)
    arity = _row_start(data, np.zeros(1, np.int64))[0]
    found: Integers = np.flatnonzero(data[:-LEAST_ENTRY_BYTES] == ENTRY_VERSION_BYTE)
    found = found[data[found + 1] <= GREATEST_KIND_BYTE]
    found = found[data[found + 2] & 0x0F == 8]
    rows = _row_start(data, found)
    for i in range(4):
        same = data[rows + i] == data[arity + i]
        found, rows = found[same], rows[same]
    return found


def _row_start(data: npt.NDArray[np.uint8], entries: Integers) -> Integers:
    """Return where the partition of each entry begins: behind version, kind, and a length of one byte or two."""
    starts: Integers = np.add(entries + 3, data[entries + 2] >> 7, dtype=np.int64)
    return starts


ENTRY_VERSION_BYTE: Final = encode_long(2)[0]
GREATEST_KIND_BYTE: Final = encode_long(DELETE)[0]
LEAST_ENTRY_BYTES: Final = 16

MANIFEST: Final = RecordFile(
    2,
    RecordTable(
        ManifestEntry,
        ("_KIND", "kind", _ENTRY_KIND),
        ("_PARTITION", "partition", BYTES),
        ("_BUCKET", "bucket", INT),
        ("_TOTAL_BUCKETS", "total_buckets", INT),
        ("_FILE", "file", _CACHED_FILE),
    ),
    starts=_entry_starts,
)

MANIFEST_LIST: Final = RecordFile(
    2,
    RecordTable(
        ManifestFileMeta,
        ("_FILE_NAME", "file_name", FILE_NAME),
        ("_FILE_SIZE", "file_size", LONG),
        ("_NUM_ADDED_FILES", "num_added_files", LONG),
        ("_NUM_DELETED_FILES", "num_deleted_files", LONG),
        ("_PARTITION_STATS", "partition_stats", nested(_STATS, "_PARTITION_STATS")),
        ("_SCHEMA_ID", "schema_id", LONG),
        ("_MIN_BUCKET", "min_bucket", optional(INT)),
        ("_MAX_BUCKET", "max_bucket", optional(INT)),
        ("_MIN_LEVEL", "min_level", optional(INT)),
        ("_MAX_LEVEL", "max_level", optional(INT)),
        ("_MIN_ROW_ID", "min_row_id", optional(LONG)),
        ("_MAX_ROW_ID", "max_row_id", optional(LONG)),
    ),
    cached=4096,  # a manifest is in the lists of many snapshots
)

_RANGE: Final = RecordTable(
    VectorRange,
    ("f0", "data_file", TEXT),
    ("f1", "offset_bytes", INT),
    ("f2", "length_bytes", INT),
    ("_CARDINALITY", "cardinality", optional(LONG)),
)

_RANGES: Final = optional(
    list_of(never_null(nested(_RANGE, "_DELETIONS_VECTORS_RANGES")), "a list of records")
)

_GLOBAL_INDEX: Final = as_stored(
    "_GLOBAL_INDEX",
    ("_ROW_RANGE_START", LONG),
    ("_ROW_RANGE_END", LONG),
    ("_INDEX_FIELD_ID", INT),
    ("_EXTRA_FIELD_IDS", optional(list_of(INT, "a list of integers"))),
    ("_INDEX_META", optional(BYTES)),
    ("_SOURCE_META", optional(BYTES)),
)

INDEX_MANIFEST: Final = RecordFile(
    1,
    RecordTable(
        IndexManifestEntry,
        ("_KIND", "kind", replace(INT, decode=_added)),
        ("_PARTITION", "partition", BYTES),
        ("_BUCKET", "bucket", INT),
        ("_INDEX_TYPE", "index_type", TEXT),
        ("_FILE_NAME", "file_name", FILE_NAME),
        ("_FILE_SIZE", "file_size", LONG),
        ("_ROW_COUNT", "row_count", LONG),
        ("_DELETIONS_VECTORS_RANGES", "ranges", _RANGES),
        ("_EXTERNAL_PATH", "external_path", optional(TEXT)),
        ("_GLOBAL_INDEX", "global_index", optional(_GLOBAL_INDEX)),
    ),
)


def encode_manifest(entries: Iterable[ManifestEntry]) -> bytes:
    """Return a manifest of ``entries``. Clauses: META-3."""
    return MANIFEST.encode(entries)


def decode_manifest(data: bytes, at: str, *, size: int | None = None) -> list[ManifestEntry]:
    """Return the entries of a manifest, in order. ``size``: of the file, as the manifest list says.

    Raises CorruptFileError. Clauses: META-22, META-23, META-34.
    """
    return MANIFEST.decode(data, at, size)


def encode_manifest_list(metas: Iterable[ManifestFileMeta]) -> bytes:
    """Return a manifest list of ``metas``. Clauses: META-3, META-12."""
    return MANIFEST_LIST.encode(metas)


def decode_manifest_list(data: bytes, at: str, *, size: int | None = None) -> list[ManifestFileMeta]:
    """Return the manifests that a manifest list names, in order. ``size``: of the file, as the snapshot says.

    Raises CorruptFileError. Clauses: META-12, META-22, META-23, META-34.
    """
    return MANIFEST_LIST.decode(data, at, size)


def sidecars_of(data: bytes, at: str) -> set[str]:
    """Return the names of the sidecars of manifests that a manifest list names. Raises CorruptFileError.

    Clauses: META-62.
    """
    return {name for record in stored_records(data, at) for name in record.get("_EXTRA_FILES") or ()}


def encode_index_manifest(entries: Iterable[IndexManifestEntry]) -> bytes:
    """Return an index manifest of ``entries``. Clauses: META-3, DVF-13."""
    return INDEX_MANIFEST.encode(entries)


def decode_index_manifest(data: bytes, at: str, *, size: int | None = None) -> list[IndexManifestEntry]:
    """Return the entries of an index manifest, in order. ``size``: of the file, where it is known.

    Raises CorruptFileError. Clauses: META-22, META-23, META-34, META-60, META-84.
    """
    entries = INDEX_MANIFEST.decode(data, at, size)
    for entry in entries:
        if entry.index_type not in (DELETION_VECTORS, HASH) and entry.global_index is None:
            expected = f"{DELETION_VECTORS}, {HASH} or a global index"
            raise CorruptFileError("_INDEX_TYPE", at=at, expected=expected, found=entry.index_type)
    return entries
