"""Manifests: which data files were added and removed, which manifests there are, which indexes there are.

They are written as Avro; what others wrote as ORC or Parquet is known by its first bytes. A field that a
file does not have, because an older version wrote it, reads as null; a field that must be there and is
not, or has another type, is damage. The one spelling to know: the ranges of vectors are called
``_DELETIONS_VECTORS_RANGES``, and their fields f0, f1, f2.

Clauses: CMT-4, META-3, META-12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from pktable_spec.errors import CorruptFileError

from pktable.format.avro import decode_container, encode_container, encode_long, encode_record
from pktable.format.binary_row import arity_of
from pktable.format.bounds import is_file_name
from pktable.format.metadata import manifest_schemas
from pktable.format.metadata.columnar_records import decode_columnar
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import Field
from pktable.format.vectors.index_file import VectorRange

ADD: Final = 0
DELETE: Final = 1

ENTRY_VERSION: Final = 2
INDEX_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class DataFileMeta:
    """What a manifest knows of a data file. Sizes in bytes, counts in records, time in milliseconds.

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
        """Return the fields of the file's ``schema`` that the value statistics are of, None where none can tell.

        Paimon 0.9 copies statistics of a few columns without the list of these columns. Clauses: META-6.
        """
        if self.value_stats_cols is not None:
            return [schema.field(name) for name in self.value_stats_cols]
        return schema.fields if arity_of(self.value_stats.min_values) == len(schema.fields) else None

    def at_level(self, level: int) -> DataFileMeta:
        """Return the same file at another level. Clauses: CMP-10."""
        return replace(self, level=level)


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A data file that was added (kind 0) to a bucket or deleted (kind 1) from it. Clauses: CMT-4."""

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def identity(self) -> tuple[object, ...]:
        """What a DELETE and its ADD have in common, and nothing else has. Clauses: CMT-4."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_index,
            file.external_path,
        )


@dataclass(frozen=True, slots=True)
class ManifestFileMeta:
    """What a manifest list knows of a manifest. Clauses: META-12."""

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
    """An index file of a bucket; for one of deletion vectors, where each lies in it. Clauses: DVF-1, DV-5."""

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


def encode_manifest(entries: Iterable[ManifestEntry]) -> bytes:
    """Return a manifest of ``entries``. Clauses: META-3."""
    return encode_container(manifest_schemas.MANIFEST, map(_encoded_entry, entries))


def _encoded_entry(entry: ManifestEntry) -> bytes:
    """Return one record of a manifest: an Avro record is its fields, one after the other."""
    numbers = encode_long(entry.bucket) + encode_long(entry.total_buckets)
    partition = encode_long(len(entry.partition)) + entry.partition
    head = encode_long(ENTRY_VERSION) + encode_long(entry.kind)
    return head + partition + numbers + _encoded_file(entry.file)


@lru_cache(maxsize=4096)
def _encoded_file(file: DataFileMeta) -> bytes:
    """Return a data file as it lies in an entry; it is added, deleted, and listed anew by merged manifests."""
    return encode_record(manifest_schemas.DATA_FILE, _file_record(file))


def decode_manifest(data: bytes, at: str, *, size: int | None = None) -> list[ManifestEntry]:
    """Return the entries of a manifest, in order. ``size``: of the file, as the manifest list says.

    Raises CorruptFileError. Clauses: META-3, META-13.
    """
    return [
        ManifestEntry(
            kind=record.kind(),
            partition=record.get("_PARTITION", bytes),
            bucket=record.get("_BUCKET", int),
            total_buckets=record.get("_TOTAL_BUCKETS", int),
            file=_file(record.record("_FILE")),
        )
        for record in _records(data, at, size, ENTRY_VERSION)
    ]


def encode_manifest_list(metas: Iterable[ManifestFileMeta]) -> bytes:
    """Return a manifest list of ``metas``. Clauses: META-3, META-12."""
    return encode_container(manifest_schemas.MANIFEST_LIST, map(_encoded_meta, metas))


@lru_cache(maxsize=4096)
def _encoded_meta(meta: ManifestFileMeta) -> bytes:
    """Return one record of a manifest list; a manifest stands in the lists of many snapshots."""
    return encode_record(
        manifest_schemas.MANIFEST_LIST,
        {
            "_VERSION": ENTRY_VERSION,
            "_FILE_NAME": meta.file_name,
            "_FILE_SIZE": meta.file_size,
            "_NUM_ADDED_FILES": meta.num_added_files,
            "_NUM_DELETED_FILES": meta.num_deleted_files,
            "_PARTITION_STATS": _stats_record(meta.partition_stats),
            "_SCHEMA_ID": meta.schema_id,
            "_MIN_BUCKET": meta.min_bucket,
            "_MAX_BUCKET": meta.max_bucket,
            "_MIN_LEVEL": meta.min_level,
            "_MAX_LEVEL": meta.max_level,
            "_MIN_ROW_ID": meta.min_row_id,
            "_MAX_ROW_ID": meta.max_row_id,
        },
    )


def decode_manifest_list(data: bytes, at: str, *, size: int | None = None) -> list[ManifestFileMeta]:
    """Return the manifests that a manifest list names, in order. ``size``: of the file, as the snapshot says.

    Raises CorruptFileError. Clauses: META-3, META-12, META-13.
    """
    return [
        ManifestFileMeta(
            file_name=record.name("_FILE_NAME"),
            file_size=record.get("_FILE_SIZE", int),
            num_added_files=record.get("_NUM_ADDED_FILES", int),
            num_deleted_files=record.get("_NUM_DELETED_FILES", int),
            partition_stats=record.stats("_PARTITION_STATS"),
            schema_id=record.get("_SCHEMA_ID", int),
            min_bucket=record.optional("_MIN_BUCKET", int),
            max_bucket=record.optional("_MAX_BUCKET", int),
            min_level=record.optional("_MIN_LEVEL", int),
            max_level=record.optional("_MAX_LEVEL", int),
            min_row_id=record.optional("_MIN_ROW_ID", int),
            max_row_id=record.optional("_MAX_ROW_ID", int),
        )
        for record in _records(data, at, size, ENTRY_VERSION)
    ]


def encode_index_manifest(entries: Iterable[IndexManifestEntry]) -> bytes:
    """Return an index manifest of ``entries``. Clauses: META-3, DVF-6."""
    return encode_container(
        manifest_schemas.INDEX_MANIFEST,
        (
            encode_record(
                manifest_schemas.INDEX_MANIFEST,
                {
                    "_VERSION": INDEX_VERSION,
                    "_KIND": entry.kind,
                    "_PARTITION": entry.partition,
                    "_BUCKET": entry.bucket,
                    "_INDEX_TYPE": entry.index_type,
                    "_FILE_NAME": entry.file_name,
                    "_FILE_SIZE": entry.file_size,
                    "_ROW_COUNT": entry.row_count,
                    "_DELETIONS_VECTORS_RANGES": None
                    if entry.ranges is None
                    else [
                        {
                            "f0": r.data_file,
                            "f1": r.offset_bytes,
                            "f2": r.length_bytes,
                            "_CARDINALITY": r.cardinality,
                        }
                        for r in entry.ranges
                    ],
                    "_EXTERNAL_PATH": entry.external_path,
                    "_GLOBAL_INDEX": None if entry.global_index is None else dict(entry.global_index),
                },
            )
            for entry in entries
        ),
    )


def decode_index_manifest(data: bytes, at: str, *, size: int | None = None) -> list[IndexManifestEntry]:
    """Return the entries of an index manifest, in order. ``size``: of the file, where it is known.

    Raises CorruptFileError. Clauses: META-3, META-13.
    """
    return [
        IndexManifestEntry(
            kind=record.kind(),
            partition=record.get("_PARTITION", bytes),
            bucket=record.get("_BUCKET", int),
            index_type=record.get("_INDEX_TYPE", str),
            file_name=record.name("_FILE_NAME"),
            file_size=record.get("_FILE_SIZE", int),
            row_count=record.get("_ROW_COUNT", int),
            ranges=_ranges(record),
            external_path=record.optional("_EXTERNAL_PATH", str),
            global_index=record.optional("_GLOBAL_INDEX", dict),
        )
        for record in _records(data, at, size, INDEX_VERSION)
    ]


def _ranges(record: _Record) -> tuple[VectorRange, ...] | None:
    found = record.optional("_DELETIONS_VECTORS_RANGES", list)
    if found is None:
        return None
    ranges = [record.inside("_DELETIONS_VECTORS_RANGES", part) for part in found]
    return tuple(
        VectorRange(r.get("f0", str), r.get("f1", int), r.get("f2", int), r.optional("_CARDINALITY", int))
        for r in ranges
    )


def _stats_record(stats: SimpleStats) -> dict[str, Any]:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": stats.null_counts,
    }


def _file_record(file: DataFileMeta) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_record(file.key_stats),
        "_VALUE_STATS": _stats_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": file.extra_files,
        "_CREATION_TIME": file.creation_time,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_index,
        "_FILE_SOURCE": file.file_source,
        "_VALUE_STATS_COLS": file.value_stats_cols,
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": file.write_cols,
    }


def _file(record: _Record) -> DataFileMeta:
    return DataFileMeta(
        file_name=record.name("_FILE_NAME"),
        file_size=record.get("_FILE_SIZE", int),
        row_count=record.get("_ROW_COUNT", int),
        min_key=record.get("_MIN_KEY", bytes),
        max_key=record.get("_MAX_KEY", bytes),
        key_stats=record.stats("_KEY_STATS"),
        value_stats=record.stats("_VALUE_STATS"),
        min_sequence_number=record.get("_MIN_SEQUENCE_NUMBER", int),
        max_sequence_number=record.get("_MAX_SEQUENCE_NUMBER", int),
        schema_id=record.get("_SCHEMA_ID", int),
        level=record.get("_LEVEL", int),
        extra_files=record.texts("_EXTRA_FILES") or (),
        creation_time=record.optional("_CREATION_TIME", int),
        delete_row_count=record.optional("_DELETE_ROW_COUNT", int),
        embedded_index=record.optional("_EMBEDDED_FILE_INDEX", bytes),
        file_source=record.optional("_FILE_SOURCE", int),
        value_stats_cols=record.texts("_VALUE_STATS_COLS"),
        external_path=record.optional("_EXTERNAL_PATH", str),
        first_row_id=record.optional("_FIRST_ROW_ID", int),
        write_cols=record.texts("_WRITE_COLS"),
    )


def _records(data: bytes, at: str, size: int | None, version: int) -> list[_Record]:
    if size is not None and len(data) != size:
        raise CorruptFileError("file size", at=at, expected=size, found=len(data))
    found_fields = decode_columnar(data, at)
    if found_fields is None:
        found_fields = decode_container(data, at)
    records = [_Record(fields, at) for fields in found_fields]
    for record in records:
        found = record.get("_VERSION", int)
        if found != version:
            raise CorruptFileError("_VERSION", at=at, expected=version, found=found)
    return records


class _Record:
    """A decoded record whose fields are taken by name and type."""

    __slots__ = ("at", "fields")

    def __init__(self, fields: Mapping[str, Any], at: str) -> None:
        self.fields, self.at = fields, at

    def get(self, name: str, kind: type) -> Any:
        """Return a field that is never null."""
        value = self.fields.get(name)
        if type(value) is not kind:
            raise self._wrong(name, kind.__name__, value)
        return value

    def name(self, name: str) -> str:
        """Return the name of a file."""
        value: str = self.get(name, str)
        if not is_file_name(value):
            raise self._wrong(name, "the name of a file", value)
        return value

    def optional(self, name: str, kind: type) -> Any:
        value = self.fields.get(name)
        if value is not None and type(value) is not kind:
            raise self._wrong(name, f"{kind.__name__} or null", value)
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        values = self.optional(name, list)
        if values is None:
            return None
        for value in values:
            if type(value) is not str:
                raise self._wrong(name, "texts", value)
        return tuple(values)

    def kind(self) -> int:
        value: int = self.get("_KIND", int)
        if value not in (ADD, DELETE):
            raise self._wrong("_KIND", "0 or 1", value)
        return value

    def record(self, name: str) -> _Record:
        return self.inside(name, self.fields.get(name))

    def inside(self, name: str, value: Any) -> _Record:
        if type(value) is not dict:
            raise self._wrong(name, "a record", value)
        return _Record(value, self.at)

    def stats(self, name: str) -> SimpleStats:
        record = self.record(name)
        counts = record.optional("_NULL_COUNTS", list)
        for count in counts or ():
            if count is not None and type(count) is not int:
                raise self._wrong("_NULL_COUNTS", "integers or nulls", count)
        return SimpleStats(
            record.get("_MIN_VALUES", bytes),
            record.get("_MAX_VALUES", bytes),
            None if counts is None else tuple(counts),
        )

    def _wrong(self, name: str, expected: str, found: object) -> CorruptFileError:
        return CorruptFileError(name, at=self.at, expected=expected, found=repr(found)[:80])
