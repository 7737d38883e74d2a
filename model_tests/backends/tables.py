"""The backends a history can run on, each as a context that gives a way to open new tables.

`PaimonTable` is the thin adapter of `pktable.Table`, with and without Spark. Users' operations go
through the public face; what is looked into (files, vectors, records) is what the metadata and the
Parquet files hold, read without `pktable`'s readers of rows.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pktable_spec.interface import (
    EVERYTHING,
    BucketId,
    Change,
    FileInfo,
    OpenTable,
    Query,
    Row,
    Shape,
    SnapshotInfo,
    StoredRecord,
    VectorInfo,
    Wanted,
)
from pktable_spec.model.table import ModelTable
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind

from model_tests.backends.spark_session import spark_session
from model_tests.refinement.stored_vectors import stored_vectors

if TYPE_CHECKING:
    import pyarrow as pa

ROW_KIND = "op"


class PaimonTable:
    """`pktable.Table` as a `TableUnderTest`. ``spark``: a session, or None for the local runner."""

    can_stage_writes = True
    _threads = ThreadPoolExecutor(3)

    def __init__(self, shape: Shape, options: Mapping[str, str], path: Path, spark: Any = None) -> None:
        from pktable import Table

        self._shape, self._path, self._spark = shape, path, spark
        self.directory = path
        self._table = Table.create(
            path,
            ", ".join(f"{name} {kind}" for name, kind in shape.columns),
            primary_key=list(shape.primary_key),
            partition_by=list(shape.partition_keys),
            options=dict(options),
            spark=spark,
        )
        self._staged: dict[int, Any] = {}
        self._vectors: dict[str, dict[str, frozenset[int]]] = {}
        self._tickets = itertools.count()

    # ------------------------------------------------------- what users do

    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        kinds = {kind for kind, _ in changes}
        if write_only:
            self._prepare(changes, write_only=True).commit(self._commit_id())
        elif kinds == {RowKind.INSERT}:
            self._table.upsert(self._frame(self._rows(changes)))
        elif kinds == {RowKind.DELETE}:
            self._table.delete(self._frame(self._rows(changes).select(list(self._shape.primary_key))))
        else:
            self._table.write_changes(self._frame(self._rows_with_kinds(changes)), row_kind=ROW_KIND)

    def compact(self, *, full: bool = False) -> None:
        self._table.compact(full=full)

    def read(
        self, *, snapshot: int | None = None, fresh: bool = False, query: Query = EVERYTHING
    ) -> list[Row]:
        found = self._table.to_arrow(
            snapshot=snapshot,
            fresh=fresh,
            where=" AND ".join(one.sql for one in query.where) or None,
            columns=list(query.columns) if query.columns is not None else None,
            limit=query.limit,
        )
        return [tuple(row.values()) for row in found.to_pylist()]

    def read_all(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        # A small read on Spark is mostly waiting; three at a time keep two cores busy.
        do = self._threads.map if self._spark is not None else map
        return list(
            do(lambda one: self.read(snapshot=one.snapshot, fresh=one.fresh, query=one.query), wanted)
        )

    def reopen(self) -> None:
        from pktable import Table

        self._table = Table.open(self._path, spark=self._spark)

    def close(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)

    def enable_vectors(self) -> None:
        from pktable.format.metadata.schema import encode_schema

        schema = self._table.schema
        options = {**schema.options, "deletion-vectors.enabled": "true"}
        path = self._path / "schema" / f"schema-{schema.id + 1}"
        path.write_bytes(encode_schema(replace(schema, id=schema.id + 1, options=options)))
        self.reopen()

    # -------------------------------------------- what others and disks do

    def write_beside(self, first: Sequence[Change], second: Sequence[Change]) -> None:
        prepared = [self._prepare(changes, write_only=True) for changes in (first, second)]
        for one in prepared:
            # Paimon's writers do not compare their numbers with those of others when they commit.
            one.rules = ()
            one.commit(self._commit_id())

    def damage_vectors(self, number: int) -> bool:
        from pktable import CorruptFileError, Table

        files = self._table.catalog.context
        paths = [files.index_path(index) for index in self._table.catalog.state().indexes.values()]
        path = Path(paths[number % len(paths)])
        good = path.read_bytes()
        byte, bit = divmod(number % (8 * len(good)), 8)
        damaged = bytearray(good)
        damaged[-1 - byte] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            Table.open(self._path, spark=self._spark).to_arrow()
        except CorruptFileError:
            return True
        finally:
            path.write_bytes(good)
        return False

    def reorder_vectors(self) -> None:
        from pktable.format.metadata.manifest import decode_index_manifest, encode_index_manifest

        snapshot = self._table.snapshots()[-1]
        path = self._path / "manifest" / str(snapshot.index_manifest)
        entries = decode_index_manifest(path.read_bytes(), str(path))
        path.write_bytes(
            encode_index_manifest([replace(one, ranges=(one.ranges or ())[::-1]) for one in entries])
        )
        self.reopen()

    # --------------------------------------------------------- staged work

    def begin_write(self, changes: Sequence[Change], *, write_only: bool = False) -> int:
        return self._stage(self._prepare(changes, write_only=write_only))

    def begin_compaction(self, *, full: bool = False) -> int | None:
        prepared = self._table.stage_compaction(full=full)
        return self._stage(prepared) if prepared.changes else None

    def commit(self, ticket: int) -> bool:
        prepared = self._staged.pop(ticket)
        if hasattr(prepared, "commit_as_planned"):
            return not prepared.commit_as_planned(self._commit_id())
        prepared.commit(self._commit_id())
        return True

    def abandon(self, ticket: int) -> None:
        # A crash removes nothing: the files stay, and nothing may read them.
        self._staged.pop(ticket)

    def _stage(self, prepared: Any) -> int:
        ticket = next(self._tickets)
        self._staged[ticket] = prepared
        return ticket

    def _prepare(self, changes: Sequence[Change], *, write_only: bool) -> Any:
        from pktable.ingest.changes import ChangeKind

        frame = self._frame(self._rows_with_kinds(changes))
        return self._table.stage_write(frame, ChangeKind(column=ROW_KIND), write_only=write_only)

    def _commit_id(self) -> Any:
        from pktable.catalog.changes import CommitId

        return CommitId(f"test-{next(self._tickets)}")

    # --------------------------------------------------------- looking into

    def snapshots(self) -> Sequence[SnapshotInfo]:
        return [SnapshotInfo(one.id, one.commit_kind) for one in self._table.snapshots()]

    def files(self, snapshot: int) -> Sequence[FileInfo]:
        return [
            FileInfo(
                name=file.file_name,
                bucket=bucket,
                level=file.level,
                row_count=file.row_count,
                min_key=self._key(file.min_key),
                max_key=self._key(file.max_key),
                min_sequence=file.min_sequence_number,
                max_sequence=file.max_sequence_number,
                retraction_count=file.delete_row_count or 0,
                size=file.file_size,
                created=file.creation_time or 0,
            )
            for bucket, state in self._buckets(snapshot)
            for file in state.files
        ]

    def vectors(self, snapshot: int) -> Sequence[VectorInfo]:
        return [
            VectorInfo(state.index.file_name, bucket, name, positions)
            for bucket, state in self._buckets(snapshot)
            if state.index is not None
            for name, positions in self._stored_vectors(state).items()
        ]

    def _stored_vectors(self, bucket: Any) -> dict[str, frozenset[int]]:
        path = self._table.catalog.context.index_path(bucket.index)
        if path not in self._vectors:
            self._vectors[path] = stored_vectors(Path(path).read_bytes(), bucket.index.ranges or ())
        return self._vectors[path]

    def records(self, snapshot: int, file: FileInfo) -> Sequence[StoredRecord]:
        import pyarrow.parquet as pq

        state = dict(self._buckets(snapshot))[file.bucket]
        stored = next(one for one in state.files if one.file_name == file.name)
        assert Path(self._table.catalog.context.data_path(state.place, stored)).stat().st_size == file.size, (
            file
        )
        data = pq.ParquetFile(self._table.catalog.context.data_path(state.place, stored)).read()
        return [
            StoredRecord(
                tuple(record[KEY_PREFIX + name] for name in self._shape.trimmed_key),
                record[SEQUENCE_NUMBER],
                RowKind(record[VALUE_KIND]),
                tuple(record[name] for name in self._shape.names),
            )
            for record in data.to_pylist()
        ]

    def _buckets(self, snapshot: int) -> Iterator[tuple[BucketId, Any]]:
        """Yield the buckets of a snapshot as `pktable` keeps them: live files and index of vectors."""
        from pktable.format.binary_row import decode_row

        table = self._table
        state = table.catalog.state(snapshot)
        types = [field.type for field in table.schema.partition_fields]
        for identity in {**state.files, **state.indexes}:
            partition = tuple(decode_row(identity[0], types, at=str(self._path)))
            yield (partition, identity[1]), table.catalog.states.bucket(state, identity)

    def _key(self, row: bytes) -> Row:
        from pktable.format.binary_row import decode_row

        types = [field.type for field in self._table.schema.key_fields]
        return tuple(decode_row(row, types, at=str(self._path)))

    # ----------------------------------------------------------------- rows

    def _rows(self, changes: Sequence[Change]) -> pa.Table:
        import pyarrow as pa

        types = {"INT": pa.int32(), "STRING": pa.string()}
        columns = zip(*(row for _, row in changes), strict=True)
        return pa.table(
            [
                pa.array(column, types[kind])
                for column, (_, kind) in zip(columns, self._shape.columns, strict=True)
            ],
            names=list(self._shape.names),
        )

    def _rows_with_kinds(self, changes: Sequence[Change]) -> pa.Table:
        import pyarrow as pa

        return self._rows(changes).append_column(ROW_KIND, pa.array([kind.symbol for kind, _ in changes]))

    def _frame(self, rows: pa.Table) -> Any:
        return rows


@contextlib.contextmanager
def model_backend() -> Iterator[OpenTable]:
    """The oracle's mechanism, in memory."""
    yield ModelTable


@contextlib.contextmanager
def local_backend(spark: Any = None) -> Iterator[OpenTable]:
    """Tables of this process in a temporary directory, gone afterwards."""
    numbers = itertools.count()
    with tempfile.TemporaryDirectory(prefix="pktable-") as folder:

        def open_table(shape: Shape, options: Mapping[str, str]) -> PaimonTable:
            return PaimonTable(shape, options, Path(folder) / f"table-{next(numbers)}", spark)

        yield open_table


# What a small query spends its time on. Histories do without; every other test on Spark keeps Spark's defaults.
FOR_SMALL_QUERIES = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.files.minPartitionNum": "1",
}


@contextlib.contextmanager
def spark_backend() -> Iterator[OpenTable]:
    """Tables of the test process's Spark session in a temporary directory."""
    session = spark_session()
    before = {name: session.conf.get(name, None) for name in FOR_SMALL_QUERIES}
    try:
        for name, value in FOR_SMALL_QUERIES.items():
            session.conf.set(name, value)
        with local_backend(session) as open_table:
            yield open_table
    finally:
        for name, found in before.items():
            if found is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, found)


BACKENDS: Mapping[str, Callable[[], AbstractContextManager[OpenTable]]] = {
    "model": model_backend,
    "local": local_backend,
    "spark": spark_backend,
}
