"""Everything that real tables hold decodes, means what it says, and encodes to the same again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
from pktable.datafile.columns import file_schema
from pktable.format.binary_row import decode_row, encode_row
from pktable.format.bucket_hash import bucket_of
from pktable.format.metadata.manifest import (
    ADD,
    DELETE,
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from pktable.format.metadata.schema import TableSchema, decode_schema, encode_schema
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot, encode_snapshot
from pktable.format.metadata.stats import KEY_CODE_POINTS, SimpleStats, collect_stats, decode_stats
from pktable.format.paths import partition_path
from pktable.format.types import FLOATS, TIMESTAMPS, Field, values_of
from pktable.format.vectors.index_file import encode_index, open_index
from pktable_spec.covers import covers
from pktable_spec.vocabulary import DELETION_VECTORS, KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

from model_tests.real_data import each_paimon_table


def schemas(table: Path) -> dict[int, TableSchema]:
    found = [decode_schema(path.read_bytes(), at=str(path)) for path in table.glob("schema/schema-*")]
    return {schema.id: schema for schema in found}


def snapshots(table: Path) -> list[Snapshot]:
    return [decode_snapshot(path.read_bytes(), at=str(path)) for path in table.glob("snapshot/snapshot-*")]


def manifest_lists(table: Path) -> Iterator[list[ManifestFileMeta]]:
    for snapshot in snapshots(table):
        for name, size in (
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
            (snapshot.changelog_manifest_list, None),
        ):
            path = table / "manifest" / (name or "none")
            if path.exists():
                yield decode_manifest_list(path.read_bytes(), at=str(path), size=size)


def manifests(table: Path) -> dict[str, tuple[ManifestFileMeta, list[ManifestEntry]]]:
    found = {}
    for meta in (meta for metas in manifest_lists(table) for meta in metas):
        path = table / "manifest" / meta.file_name
        found[meta.file_name] = (meta, decode_manifest(path.read_bytes(), at=str(path), size=meta.file_size))
    assert found
    return found


def index_entries(table: Path) -> list[list[IndexManifestEntry]]:
    names = {snapshot.index_manifest for snapshot in snapshots(table)} - {None}
    paths = [table / "manifest" / str(name) for name in names]
    return [decode_index_manifest(path.read_bytes(), at=str(path)) for path in paths]


def data_files(table: Path) -> Iterator[tuple[TableSchema, ManifestEntry, pa.Table]]:
    """Yield every data file that is still there, once, with its rows."""
    by_id = schemas(table)
    seen = set()
    for _, entries in manifests(table).values():
        for entry in entries:
            schema = by_id[entry.file.schema_id]
            path = table / directory(schema, entry) / entry.file.file_name
            if entry.file.file_name not in seen and path.exists():
                seen.add(entry.file.file_name)
                assert path.stat().st_size == entry.file.file_size
                with path.open("rb") as file:  # a path would have its directories read as columns
                    yield schema, entry, (po if path.suffix == ".orc" else pq).read_table(file)
    assert seen


def directory(schema: TableSchema, entry: ManifestEntry) -> str:
    types = [field.type for field in schema.partition_fields]
    values = decode_row(entry.partition, types, at="partition")
    partition = partition_path(values, schema.partition_fields)
    return f"{partition}/bucket-{entry.bucket}" if partition else f"bucket-{entry.bucket}"


@each_paimon_table(shipped=True)
@covers("META-1", "META-13")
def test_a_schema_file_keeps_its_meaning(table: Path) -> None:
    for schema in schemas(table).values():
        assert decode_schema(encode_schema(schema), at="again") == schema
        assert all(not field.type.nullable for field in schema.key_fields)
    assert schemas(table)


@each_paimon_table(shipped=True)
@covers("META-2", "META-13")
def test_a_snapshot_file_keeps_its_meaning(table: Path) -> None:
    for snapshot in snapshots(table):
        assert decode_snapshot(encode_snapshot(snapshot), at="again") == snapshot
        assert snapshot.commit_kind in ("APPEND", "COMPACT", "OVERWRITE")
    ids = [snapshot.id for snapshot in snapshots(table)]
    assert set(ids) == set(range(min(ids), max(ids) + 1))


@each_paimon_table(shipped=True)
@covers("META-3", "META-13")
def test_a_manifest_keeps_its_meaning(table: Path) -> None:
    for metas in manifest_lists(table):
        assert decode_manifest_list(encode_manifest_list(metas), at="again") == metas
    for _, entries in manifests(table).values():
        assert decode_manifest(encode_manifest(entries), at="again") == entries
    for index in index_entries(table):
        assert decode_index_manifest(encode_index_manifest(index), at="again") == index


@each_paimon_table(shipped=True)
@covers("META-12")
def test_a_manifest_list_tells_what_each_manifest_holds(table: Path) -> None:
    for meta, entries in manifests(table).values():
        schema = schemas(table)[meta.schema_id]
        assert meta.num_added_files == sum(entry.kind == ADD for entry in entries)
        assert meta.num_deleted_files == sum(entry.kind == DELETE for entry in entries)
        assert meta.schema_id == max(entry.file.schema_id for entry in entries)
        types = [field.type for field in schema.partition_fields]
        partitions = [decode_row(entry.partition, types, at="partition") for entry in entries]
        stats = decode_stats(meta.partition_stats, types, at="partition statistics")
        assert [(low, high) for low, high, _ in stats] == [
            (min(values), max(values)) for values in zip(*partitions, strict=True)
        ]
        for low, high, found in (
            (meta.min_bucket, meta.max_bucket, [entry.bucket for entry in entries]),
            (meta.min_level, meta.max_level, [entry.file.level for entry in entries]),
        ):
            assert (low, high) in ((min(found), max(found)), (None, None))


@each_paimon_table(shipped=True)
@covers("META-9", "META-31")
def test_a_data_file_lies_in_the_directory_of_its_partition_and_bucket(table: Path) -> None:
    existing = {str(path.parent.relative_to(table)) for path in table.rglob("bucket-*/data-*")}
    schema = schemas(table)
    entries = [entry for _, entries in manifests(table).values() for entry in entries]
    assert existing <= {directory(schema[entry.file.schema_id], entry) for entry in entries}


@each_paimon_table(shipped=True)
@covers("TBL-5")
def test_every_row_of_a_data_file_hashes_to_its_bucket(table: Path) -> None:
    for schema, entry, rows in data_files(table):
        fields = schema.bucket_key_fields
        if not fields:  # of an append table without buckets
            continue
        columns = [rows.column(field.name) for field in fields]
        buckets = bucket_of(columns, [field.type for field in fields], entry.total_buckets)
        assert set(buckets.tolist()) == {entry.bucket}


@each_paimon_table(shipped=True)
@covers("META-7")
def test_a_data_file_has_the_columns_we_would_write(table: Path) -> None:
    for schema, _, rows in data_files(table):
        thin = schema.options.get("data-file.thin-mode") == "true"
        expected = [f for f in file_schema(schema) if not (thin and f.name.startswith(KEY_PREFIX))]
        assert [(f.name, f.type) for f in rows.schema] == [(f.name, as_stored(f.type)) for f in expected]


def as_stored(kind: Any) -> Any:
    """Return what Arrow reads a type as: INT96 does not say whether it is an instant."""
    return pa.timestamp("ns") if pa.types.is_timestamp(kind) and kind.unit == "ns" else kind


@each_paimon_table(shipped=True)
@covers("META-5", "META-6", "META-27", "LSM-7")
def test_the_statistics_of_a_data_file_are_what_we_compute_of_its_rows(table: Path) -> None:
    limit = 16 if written_by_0_9(table) else KEY_CODE_POINTS  # 0.9 had one limit for all
    for schema, entry, rows in data_files(table):
        meta = entry.file
        assert meta.row_count == rows.num_rows
        keys = [Field(field.id, KEY_PREFIX + field.name, field.type) for field in schema.key_fields]
        for key, field in zip(keys, schema.key_fields, strict=True):
            if key.name not in rows.column_names:  # of a thin file
                rows = rows.append_column(key.name, rows.column(field.name))
        if schema.primary_keys:
            assert_keys(schema, meta, rows)
        assert_stats(meta.key_stats, keys, rows, limit)
        names = schema.value_names if meta.value_stats_cols is None else meta.value_stats_cols
        assert_stats(meta.value_stats, [schema.field(name) for name in names], rows, 16)


def written_by_0_9(table: Path) -> bool:
    case = table.parent / "case.json"
    return "jvm-0.9" in table.parts or (case.exists() and "Paimon 0.9" in case.read_text())


def assert_stats(stored: SimpleStats, fields: Sequence[Field], rows: pa.Table, truncate: int) -> None:
    """Compare statistics: as bytes, but for columns of which Paimon has none, or of NaN, and we otherwise."""
    ours = collect_stats(rows, fields, truncate=truncate)
    types = [field.type for field in fields]
    odd = {at for at, field in enumerate(fields) if is_odd(field, rows)}
    if not odd:
        assert ours == stored
    decoded = (decode_stats(stats, types, at="statistics") for stats in (stored, ours))
    for at, (found, expected) in enumerate(zip(*decoded, strict=True)):
        assert found[2] == expected[2]
        assert at in odd or found == expected


def is_odd(field: Field, rows: pa.Table) -> bool:
    column = rows.column(field.name)
    if field.type.root in FLOATS:
        return bool(pc.any(pc.is_nan(column)).as_py())
    return field.type.root in TIMESTAMPS and (field.type.precision or 0) > 6


def assert_keys(schema: TableSchema, meta: DataFileMeta, rows: pa.Table) -> None:
    columns = [(f"_KEY_{field.name}", field) for field in schema.key_fields]
    types = [field.type for field in schema.key_fields]
    for row, stored in ((0, meta.min_key), (rows.num_rows - 1, meta.max_key)):
        values = [values_of(rows.column(name).slice(row, 1), field.type)[0] for name, field in columns]
        assert encode_row(values, types) == stored
        assert decode_row(stored, types, at="key") == tuple(values)
    sequences = rows.column(SEQUENCE_NUMBER).to_numpy()
    assert (sequences.min(), sequences.max()) == (meta.min_sequence_number, meta.max_sequence_number)
    retractions = np.count_nonzero(rows.column(VALUE_KIND).to_numpy() & 1)
    assert retractions == meta.delete_row_count


@each_paimon_table(shipped=True)
@covers("DVF-1", "DVF-2", "DVF-5", "DVF-6", "DVF-7", "DVF-8", "DVF-9")
def test_an_index_of_vectors_decodes_and_encodes_to_the_same_bytes(table: Path) -> None:
    rows = {entry.file.file_name: entry.file.row_count for _, es in manifests(table).values() for entry in es}
    for entry in (entry for index in index_entries(table) for entry in index):
        path = table / "index" / entry.file_name
        if entry.index_type != DELETION_VECTORS or not path.exists():
            continue
        data = path.read_bytes()
        assert (entry.file_size, entry.row_count) == (len(data), len(entry.ranges or ()))
        vectors = dict(open_index(data, entry.ranges or (), at=str(path)))
        assert all(vector.max_position < rows[name] for name, vector in vectors.items())
        again, ranges = encode_index(vectors)
        assert again == data
        assert [(r.data_file, r.offset_bytes, r.length_bytes) for r in ranges] == [
            (r.data_file, r.offset_bytes, r.length_bytes) for r in entry.ranges or ()
        ]
