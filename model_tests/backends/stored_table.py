"""The stored side of a table, as its metadata and Parquet files hold it, read without `pktable`'s readers of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pktable_spec.interface import BucketId, FileInfo, Row, Shape, SnapshotInfo, StoredRecord, VectorInfo
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind

from model_tests.refinement.stored_vectors import stored_vectors


class StoredTable:
    """The table at ``path``, opened as ``table``."""

    def __init__(self, shape: Shape, path: str) -> None:
        self._shape, self._path = shape, path
        self._vectors: dict[str, dict[str, frozenset[int]]] = {}

    @property
    def table(self) -> Any:
        """The `pktable.Table`."""
        raise NotImplementedError

    def snapshots(self) -> Sequence[SnapshotInfo]:
        return [SnapshotInfo(one.id, one.commit_kind) for one in self.table.snapshots()]

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
        path = self.table.catalog.context.index_path(bucket.index)
        if path not in self._vectors:
            self._vectors[path] = stored_vectors(self._stored_bytes(path), bucket.index.ranges or ())
        return self._vectors[path]

    def records(self, snapshot: int, file: FileInfo) -> Sequence[StoredRecord]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        state = dict(self._buckets(snapshot))[file.bucket]
        stored = next(one for one in state.files if one.file_name == file.name)
        found = self._stored_bytes(self.table.catalog.context.data_path(state.place, stored))
        assert len(found) == file.size, file
        data = pq.ParquetFile(pa.BufferReader(found)).read()
        return [
            StoredRecord(
                tuple(record[KEY_PREFIX + name] for name in self._shape.trimmed_key),
                record[SEQUENCE_NUMBER],
                RowKind(record[VALUE_KIND]),
                tuple(record[name] for name in self._shape.names),
            )
            for record in data.to_pylist()
        ]

    def _stored_bytes(self, path: str) -> bytes:
        """Return the bytes of a file of the table, not as the table's own store reads them."""
        return Path(path).read_bytes()

    def _store_bytes(self, path: str, data: bytes) -> None:
        Path(path).write_bytes(data)

    def _buckets(self, snapshot: int) -> Iterator[tuple[BucketId, Any]]:
        """Yield the buckets of a snapshot as `pktable` keeps them: live files and DV index file."""
        from pktable.format.binary_row import decode_row

        table = self.table
        state = table.catalog.state(snapshot)
        types = [field.type for field in table.schema.partition_fields]
        for identity in {**state.files, **state.indexes}:
            partition = tuple(decode_row(identity[0], types, at=self._path))
            yield (partition, identity[1]), table.catalog.states.bucket(state, identity)

    def _key(self, row: bytes) -> Row:
        from pktable.format.binary_row import decode_row

        types = [field.type for field in self.table.schema.key_fields]
        return tuple(decode_row(row, types, at=self._path))
