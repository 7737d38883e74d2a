"""A table's files, as the work on one bucket sees them: where they lie and how to name new ones.

Everything here pickles, so that the same work can be sent to an executor.

Clauses: META-7, META-9, META-15, META-18, CMT-12.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.options import TableOptions, parse_options
from pktable_spec.vocabulary import KEY_PREFIX

from pktable.datafile.columns import file_schema, partition_path
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.format.metadata.schema import TableSchema, decode_schema
from pktable.format.types import DataType, Field, to_arrow
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import decode_index
from pktable.lsm.runs import KeyOrder
from pktable.store.cache import Cache
from pktable.store.file_io import FileIO, locate

REMEMBERED_INDEXES = 64
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
BUCKET_NAMES = {-2: "postpone"}


@dataclass(frozen=True, slots=True)
class Place:
    """One bucket: its partition as a BinaryRow, its number, its directory."""

    partition: bytes
    bucket: int
    directory: str

    @property
    def identity(self) -> tuple[bytes, int]:
        return self.partition, self.bucket


@dataclass(frozen=True, slots=True)
class BucketState:
    """A bucket at one snapshot: live files, and the index of their vectors. `TableFiles.vectors` loads those."""

    place: Place
    files: tuple[DataFileMeta, ...]
    index: IndexManifestEntry | None


@dataclass(frozen=True, slots=True)
class BucketChange:
    """What a compaction does to a bucket: files removed and added, and its new index of vectors.

    ``base_index`` is the index it was planned on; ``index`` the one it wants: the same where no vector
    changed, None where none is left. ``marked``: positions this compaction marked. ``created``: paths of
    the files it made, to be removed if it is not committed.
    """

    place: Place
    removed: tuple[DataFileMeta, ...]
    added: tuple[DataFileMeta, ...]
    base_index: IndexManifestEntry | None
    index: IndexManifestEntry | None
    marked: int = 0
    created: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.removed and not self.added and self.index == self.base_index


class TableFiles:
    """A table's store, root, schemas and options, without any snapshot of it."""

    def __init__(
        self,
        store: FileIO,
        root: str,
        schema: TableSchema,
        options: TableOptions,
        schemas: Mapping[int, TableSchema],
    ) -> None:
        self.store, self.root, self.schema, self.options = store, root, schema, options
        self.schemas = schemas
        self._vectors = Cache(REMEMBERED_INDEXES)
        self._same_keys = {schema.id}

    def schema_of(self, schema_id: int) -> TableSchema:
        """Return the schema a file was written under, also one that is newer than this object.

        Raises CorruptFileError if there is none of that id. Clauses: META-1.
        """
        known = self.schemas.get(schema_id)
        if known is None:
            path = f"{self.root}/schema/schema-{schema_id}"
            try:
                data = self.store.read(path)
            except FileNotFoundError:
                raise CorruptFileError("schema", at=path, expected="a file", found="none") from None
            known = decode_schema(data, at=path)
            self.schemas = {**self.schemas, schema_id: known}
        return known

    def may_hide_unmarked(self, live: Sequence[DataFileMeta]) -> bool:
        """Whether a file of ``live`` may replace rows that no vector marks.

        So may one above others that was written before the table had deletion vectors. Clauses: DV-15.
        """
        if not self.options.deletion_vectors_enabled:
            return False
        deepest = max((file.level for file in live), default=0)
        schemas = {file.schema_id for file in live if 0 < file.level < deepest}
        # The schema of an old snapshot, which `under` reads it by, had no vectors if its options say so.
        return any(not parse_options(self.schema_of(one).options).deletion_vectors_enabled for one in schemas)

    def under(self, schema: TableSchema) -> TableFiles:
        """Return the same files, to be read as the table was under ``schema``. Clauses: RD-14."""
        other = TableFiles(self.store, self.root, schema, self.options, self.schemas)
        other._vectors = self._vectors
        return other

    def expect_keys(self, files: Iterable[DataFileMeta]) -> None:
        """Raise InvalidRequestError if a file's key has other types than the table's.

        It would be ordered otherwise, and lie in another bucket. Clauses: META-15.
        """
        for schema_id in {file.schema_id for file in files} - self._same_keys:
            before, after = (
                [(field.id, to_arrow(field.type)) for field in (*schema.key_fields, *schema.partition_fields)]
                for schema in (self.schema_of(schema_id), self.schema)
            )
            if before != after:
                raise InvalidRequestError(
                    f"{self.root}: expected the types of key columns never to change, "
                    f"found others in schema {schema_id} than in schema {self.schema.id}"
                )
            self._same_keys.add(schema_id)

    def __getstate__(self) -> tuple[object, ...]:
        return self.store, self.root, self.schema, self.options, dict(self.schemas)

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    @cached_property
    def key_types(self) -> tuple[DataType, ...]:
        return tuple(field.type for field in self.schema.key_fields)

    @cached_property
    def key_columns(self) -> tuple[str, ...]:
        return tuple(KEY_PREFIX + field.name for field in self.schema.key_fields)

    @cached_property
    def stored_key_fields(self) -> tuple[Field, ...]:
        """The key fields under the names their columns have in a data file."""
        return tuple(Field(f.id, KEY_PREFIX + f.name, f.type) for f in self.schema.key_fields)

    @cached_property
    def file_schema(self) -> pa.Schema:
        """The Arrow schema of a data file. Clauses: META-7, META-8."""
        return file_schema(self.schema)

    @cached_property
    def order(self) -> KeyOrder:
        return KeyOrder(self.key_types)

    @cached_property
    def vector_bits(self) -> int:
        return 64 if self.options.deletion_vectors_bitmap64 else 32

    def place(self, partition: bytes, bucket: int) -> Place:
        """Return the bucket's place. Raises CorruptFileError if ``partition`` is no BinaryRow of the partition keys.

        Raises InvalidRequestError if it spells no directory. Clauses: META-9.
        """
        fields, options = self.schema.partition_fields, self.options
        parts = [self.root]
        if options.data_directory:
            parts.append(options.data_directory)
        if fields:
            values = decode_row(partition, [f.type for f in fields], at=self.root)
            parts.append(
                partition_path(
                    values,
                    fields,
                    legacy_names=options.partition_legacy_names,
                    default_name=options.partition_default_name,
                )
            )
        return Place(partition, bucket, "/".join([*parts, f"bucket-{BUCKET_NAMES.get(bucket, bucket)}"]))

    def data_path(self, place: Place, file: DataFileMeta) -> str:
        """Return the path of a data file, or its URI if it lies elsewhere. Clauses: META-9, META-18."""
        return file.external_path or f"{place.directory}/{file.file_name}"

    def index_directory(self, place: Place) -> str:
        """Return where the bucket's vectors are written. Clauses: META-18."""
        return place.directory if self.options.index_in_data_directory else f"{self.root}/index"

    def index_path(self, entry: IndexManifestEntry) -> str:
        """Return the path of an index of vectors, or its URI if it lies elsewhere. Clauses: META-18."""
        if entry.external_path:
            return entry.external_path
        return f"{self.index_directory(self.place(entry.partition, entry.bucket))}/{entry.file_name}"

    def located(self, path: str) -> tuple[FileIO, str]:
        """Return the store that has ``path``, which may be a URI, and the path in it. Clauses: META-18."""
        return locate(path) if URI.match(path) else (self.store, path)

    def open(self, path: str) -> Any:
        """Return a file to read at random positions."""
        store, path = self.located(path)
        return store.open(path)

    def vectors(self, state: BucketState) -> Mapping[str, DeletionVector]:
        """Return the vectors of a bucket by data file. The last few index files are remembered by path.

        Raises CorruptFileError, also for a position beyond its file. Clauses: DV-2, DVF-5.
        """
        if state.index is None:
            return {}
        entry, path = state.index, self.index_path(state.index)
        found = self._vectors.get(path, lambda: self.read_vectors(entry))
        for file in state.files:
            vector = found.get(file.file_name)
            if vector is not None and vector.max_position >= file.row_count:
                raise CorruptFileError(
                    f"vector of {file.file_name}",
                    at=path,
                    expected=f"positions below {file.row_count}",
                    found=vector.max_position,
                )
        return found

    def read_vectors(self, entry: IndexManifestEntry) -> dict[str, DeletionVector]:
        """Return the vectors of an index file by data file, read anew. Raises CorruptFileError. Clauses: DVF-5."""
        path = self.index_path(entry)
        try:
            store, place = self.located(path)
            data = store.read(place)
        except FileNotFoundError:
            raise CorruptFileError("vector index", at=path, expected="a file", found="none") from None
        if len(data) != entry.file_size:
            raise CorruptFileError("vector index size", at=path, expected=entry.file_size, found=len(data))
        return decode_index(data, entry.ranges or (), at=path)


@dataclass(slots=True)
class NewFiles:
    """Names for the files of one piece of work, and the paths made so far, to be removed if it fails."""

    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    paths: list[str] = field(default_factory=list)
    _counter: Iterator[int] = field(default_factory=lambda: iter(range(1 << 31)))

    def data_path(self, place: Place) -> str:
        return self._made(f"{place.directory}/data-{self.token}-{next(self._counter)}.parquet")

    def index_path(self, directory: str) -> str:
        return self._made(f"{directory}/index-{self.token}-{next(self._counter)}")

    def _made(self, path: str) -> str:
        self.paths.append(path)
        return path

    def remove(self, store: FileIO) -> None:
        """Delete everything made, as far as the store lets us. Clauses: CMT-12."""
        remove_quietly(store, self.paths)
        self.paths.clear()


def remove_created(store: FileIO, changes: Iterable[BucketChange]) -> None:
    """Delete the files made for changes that are not committed. Clauses: CMT-12."""
    for change in changes:
        remove_quietly(store, change.created)


def remove_quietly(store: FileIO, paths: list[str] | tuple[str, ...]) -> None:
    """Delete files that nothing refers to; what cannot be deleted stays as an orphan, which harms no read."""
    for path in paths:
        try:
            store.delete(path)
        except OSError:
            continue
