"""One table without any snapshot of it: its store, paths, schemas and options.

Every piece of work on a bucket gets a `TableContext`. It pickles, so that the same work can be sent to an
executor; caches stay behind.

Clauses: META-1, META-9, META-18, META-41, META-49, META-50, DV-2, DVF-5, RD-14, RD-22, TBL-33.
"""

from __future__ import annotations

import logging
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.options import DYNAMIC_BUCKETS, POSTPONE_BUCKET, TableOptions, parse_options
from pktable_spec.vocabulary import DELETION_VECTORS, HASH, KEY_PREFIX

from pktable.datafile.columns import file_schema
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.format.metadata.schema import TableSchema, decode_schema, options_under
from pktable.format.paths import TablePaths, partition_path
from pktable.format.types import DataType, Field, to_arrow
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import open_index
from pktable.lsm.bucket import BucketPath, BucketState, KeyOrder
from pktable.predicate import Predicate, condition_text, parse
from pktable.store.file_io import FileIO
from pktable.store.guard import guarded
from pktable.store.requests import Cache

if TYPE_CHECKING:
    from pktable.merge.engine import MergeEngine
    from pktable.merge.user_order import UserOrder

CACHED_INDEX_FILES = 64
CACHED_COLUMNS = 64
VECTORS = "deletion-vectors.enabled"
INDEX_FILES: Final = {DELETION_VECTORS: "DV index file", HASH: "hash index file"}
"""How messages call index files, by their type."""
LOG: Final = logging.getLogger("pktable")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


class TableContext:
    """A table's store, root, schemas and options, without any snapshot of it."""

    def __init__(
        self,
        store: FileIO,
        root: str,
        schema: TableSchema,
        options: TableOptions,
        schemas: Mapping[int, TableSchema],
        branch: str | None = None,
    ) -> None:
        self.store, self.root, self.schema, self.options = guarded(store, root), root, schema, options
        self.schemas = schemas
        self.paths = TablePaths(root, branch)
        self._vectors = Cache(CACHED_INDEX_FILES)
        self.stored_columns = Cache(CACHED_COLUMNS)
        """Columns of the files of a schema, as a `DataReader` found them."""
        self._same_keys = {schema.id}
        self._merging: dict[int, bool] = {}
        self._warned_of: set[str] = set()

    def schema_of(self, schema_id: int) -> TableSchema:
        """Return the schema a file was written under, also one that is newer than this object.

        Raises CorruptFileError if there is none of that id. Clauses: META-1.
        """
        known = self.schemas.get(schema_id)
        if known is None:
            path = self.paths.schema(schema_id)
            try:
                data = self.store.read(path)
            except FileNotFoundError:
                raise CorruptFileError("schema", at=path, expected="a file", found="none") from None
            known = decode_schema(data, at=path)
            self.schemas = {**self.schemas, schema_id: known}
        return known

    def has_vectors(self, schema_id: int) -> bool:
        """Return whether the table had deletion vectors under a schema of some time. Raises CorruptFileError."""
        return self.schema_of(schema_id).options.get(VECTORS, "false").lower() == "true"

    def under(self, schema: TableSchema, *, vectors: bool) -> TableContext:
        """Return the same files, to be read in the columns of ``schema``. Clauses: RD-14, RD-22.

        ``vectors``: whether it had deletion vectors. Its other options are those of today.
        """
        options = replace(self.options, deletion_vectors_enabled=vectors)
        schema = replace(schema, options=options_under(self.schema, schema))
        other = TableContext(self.store, self.root, schema, options, self.schemas, self.paths.branch)
        other._vectors, other._warned_of = self._vectors, self._warned_of
        return other

    def require_readable(self) -> None:
        """Raise UnsupportedOptionError if an option asks for other rows than those of a snapshot.

        Clauses: TBL-30, TBL-33, TBL-34.
        """
        self.options.require_readable()
        self._warn_of_unknown()

    def require_changes_readable(self) -> None:
        """Raise UnsupportedOptionError if an option says that files hold rows in another way.

        Clauses: TBL-30, TBL-33, TBL-34.
        """
        self.options.require_changes_readable()
        self._warn_of_unknown()

    def _warn_of_unknown(self) -> None:
        """Warn of each option that nobody knows, once for a table that was opened."""
        for name in self.options.unknown:
            if name not in self._warned_of:
                self._warned_of.add(name)
                what = "no release that is known has this option, and it is ignored"
                LOG.warning("%s: option %r: %s", self.root, name, what)

    def expect_keys(self, files: Iterable[DataFileMeta]) -> None:
        """Raise InvalidRequestError if a file's key has other types than the table's.

        It would be ordered otherwise, and lie in another bucket. Clauses: META-41.
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
        return self.store, self.root, self.schema, self.options, dict(self.schemas), self.paths.branch

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def condition(self, where: Any) -> str | None:
        """Return a condition on the rows as SQL, in whatever form a caller has it. Raises InvalidRequestError.

        Clauses: WH-24.
        """
        return condition_text(where, self.schema.fields)

    def predicate(self, where: Any) -> Predicate | None:
        """Return a condition on the rows, in whatever form a caller has it. Raises InvalidRequestError."""
        text = self.condition(where)
        return None if text is None else parse(text, self.schema.fields)

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
    def merge_engine(self) -> MergeEngine:
        """The table's merge engine. Raises as `engine_of` does."""
        # Late, as it brings Arrow's kernels, which metadata alone does not need.
        from pktable.merge.engine import engine_of

        return engine_of(self.schema)

    @cached_property
    def user_order(self) -> UserOrder | None:
        """The order of the option ``sequence.field``, None without it. Raises InvalidRequestError."""
        if not self.options.sequence_fields or not self.schema.primary_keys:
            return None
        from pktable.merge.user_order import user_order_of  # late, as above

        return user_order_of(self.schema)

    @property
    def hides_retractions(self) -> bool:
        """Whether a vector deletes every retraction that a compaction keeps above level 0. Clauses: DV-21."""
        return self.options.deletion_vectors_enabled and self.options.remembers_deletions

    def deeper_rows_are_merged(self, files: Iterable[DataFileMeta]) -> bool:
        """Return whether records of ``files`` above level 0 hold what deeper ones hold. Clauses: CHG-19, CHG-35.

        Files of a table that got deletion vectors later may be older than these.
        """
        if not self.options.deletion_vectors_enabled or not self.options.looks_up:
            return self.options.deeper_rows_are_merged
        return any(self._merged_under(one) for one in {file.schema_id for file in files if file.level > 0})

    def _merged_under(self, schema_id: int) -> bool:
        """Whether records of files of a schema hold what deeper ones hold. Its options are parsed once."""
        if schema_id not in self._merging:
            options = parse_options(self.schema_of(schema_id).options)
            self._merging[schema_id] = options.deeper_rows_are_merged
        return self._merging[schema_id]

    @cached_property
    def vector_bits(self) -> int:
        return 64 if self.options.deletion_vectors_bitmap64 else 32

    @property
    def has_unaware_buckets(self) -> bool:
        """Whether the table is an append table without buckets: all rows of a partition are in one. Clauses: APP-3."""
        return not self.schema.primary_keys and self.options.bucket < 1

    @property
    def has_dynamic_buckets(self) -> bool:
        """Whether an index says which bucket has which keys, and buckets grow in number. Clauses: BKT-1."""
        return self._has_room_to_grow and not self._crosses_partitions

    @property
    def moves_keys(self) -> bool:
        """Whether a key has one place in all partitions, and a write moves it to another. Clauses: BKT-21."""
        return self._has_room_to_grow and self._crosses_partitions

    @property
    def _has_room_to_grow(self) -> bool:
        return not self.has_unaware_buckets and self.options.bucket == DYNAMIC_BUCKETS

    @property
    def _crosses_partitions(self) -> bool:
        return not set(self.schema.primary_keys).issuperset(self.schema.partition_keys)

    @property
    def postpones_buckets(self) -> bool:
        """Whether written rows wait for a bucket until a compaction gives them one. Clauses: BKT-13."""
        return not self.has_unaware_buckets and self.options.bucket == POSTPONE_BUCKET

    @property
    def target_file_bytes(self) -> int:
        """The size at which a data file is closed; by default an append table has larger ones, as in Paimon."""
        given = self.schema.primary_keys or "target-file-size" in self.schema.options
        return self.options.target_file_bytes if given else 2 * self.options.target_file_bytes

    def place(self, partition: bytes, bucket: int) -> BucketPath:
        """Return the bucket's place. Raises CorruptFileError if ``partition`` is no BinaryRow of the partition keys.

        Raises InvalidRequestError if it spells no directory. Clauses: META-9.
        """
        options = self.options
        directory = self.paths.bucket(options.data_directory or "", self.partition_path(partition), bucket)
        return BucketPath(partition, bucket, directory)

    def partition_path(self, partition: bytes) -> str:
        """Return the directory of a partition, relative to the table; empty for a table without partitions.

        Raises as `place` does. Clauses: META-9.
        """
        fields = self.schema.partition_fields
        return partition_path(
            decode_row(partition, [field.type for field in fields], at=self.root),
            fields,
            legacy_names=self.options.partition_legacy_names,
            default_name=self.options.partition_default_name,
        )

    def data_path(self, place: BucketPath, file: DataFileMeta) -> str:
        """Return the path of a data file, or its URI if it lies elsewhere. Clauses: META-9, META-18, META-49."""
        return file.external_path or f"{place.directory}/{file.file_name}"

    def index_directory(self, place: BucketPath) -> str:
        """Return where the bucket's vectors are written. Clauses: META-50."""
        return place.directory if self.options.index_in_data_directory else self.paths.indexes

    def index_path(self, entry: IndexManifestEntry) -> str:
        """Return the path of an index file, or its URI if it lies elsewhere. Clauses: META-18, META-50."""
        if entry.external_path:
            return entry.external_path
        return f"{self.index_directory(self.place(entry.partition, entry.bucket))}/{entry.file_name}"

    def located(self, path: str) -> tuple[FileIO, str]:
        """Return the store that has ``path``, which may be a URI, and the path in it. Clauses: META-18, SAFE-2.

        Raises OutsideTableError for a URI that the caller has not allowed.
        """
        return self.store.elsewhere(path) if self._is_foreign(path) else (self.store, path)

    def expect_readable(self, path: str) -> None:
        """Raise as `open` would for a file that another process is about to open. Clauses: SAFE-1 to SAFE-3."""
        if self._is_foreign(path):
            self.store.expect_allowed(path)
        else:
            self.store.expect_readable(path)

    def _is_foreign(self, path: str) -> bool:
        # The root of a table on an object store is a URI itself.
        return not path.startswith(f"{self.root}/") and bool(URI.match(path))

    def open(self, path: str) -> Any:
        """Return a file to read at random positions."""
        store, path = self.located(path)
        return store.open(path)

    def vectors(self, state: BucketState) -> Mapping[str, DeletionVector]:
        """Return the vectors of a bucket by data file, decoded when they are first looked at.

        Those of the files of ``state`` are. The last few index files are remembered by path. Raises CorruptFileError,
        also for a position beyond its file. Clauses: DV-2, DV-5, DVF-5.
        """
        found: ChainMap[str, DeletionVector] = ChainMap()
        for entry in state.indexes:
            path = self.index_path(entry)
            vectors = self._vectors.get(path, partial(self._open_index, entry))
            twice = vectors.keys() & found.keys()
            if twice:
                raise CorruptFileError(
                    "vectors", at=path, expected="one per data file", found=f"{min(twice)} twice"
                )
            for file in state.files:
                vector = vectors.get(file.file_name)
                if vector is not None and vector.max_position >= file.row_count:
                    raise CorruptFileError(
                        f"vector of {file.file_name}",
                        at=path,
                        expected=f"positions below {file.row_count}",
                        found=vector.max_position,
                    )
            found.maps.append(cast(MutableMapping[str, DeletionVector], vectors))  # it is only read
        return found

    def remember_vectors(self, entry: IndexManifestEntry, vectors: Mapping[str, DeletionVector]) -> None:
        """Take ``vectors`` for what a DV index file holds that was just written with them."""
        self._vectors.put(self.index_path(entry), vectors)

    def deleted_counts(self, state: BucketState) -> dict[str, int]:
        """Return how many positions of each live data file its vector deletes, without the files that have none.

        The index manifest says so; where it was written without cardinalities, the vectors are read.
        Raises CorruptFileError. Clauses: DV-2, DVF-13.
        """
        ranges = [one for index in state.indexes for one in index.ranges or ()]
        counts = {found.data_file: found.cardinality for found in ranges}
        if None in counts.values():
            counts = {name: vector.cardinality for name, vector in self.vectors(state).items()}
        return {file.file_name: count for file in state.files if (count := counts.get(file.file_name))}

    def read_vectors(self, entry: IndexManifestEntry) -> dict[str, DeletionVector]:
        """Return all vectors of an index file by data file, not cached. Raises CorruptFileError. Clauses: DVF-5."""
        return dict(self._open_index(entry))

    def _open_index(self, entry: IndexManifestEntry) -> Mapping[str, DeletionVector]:
        return open_index(self.index_data(entry), entry.ranges or (), at=self.index_path(entry))

    def index_data(self, entry: IndexManifestEntry) -> bytes:
        """Return the bytes of an index file. Raises CorruptFileError. Clauses: BKT-2, DVF-8."""
        path, what = self.index_path(entry), INDEX_FILES[entry.index_type]
        try:
            store, place = self.located(path)
            data = store.read(place)
        except FileNotFoundError:
            raise CorruptFileError(what, at=path, expected="a file", found="none") from None
        if len(data) != entry.file_size:
            raise CorruptFileError(f"size of the {what}", at=path, expected=entry.file_size, found=len(data))
        return data
