"""Tables as others write them, made of ours: the same rows in other files, described by other metadata.

`rewritten` takes the latest snapshot of a table, lets each data file be replaced by another one that holds
the same rows, and commits what came of it as the next snapshot, with manifests and a DV index file
written by the codecs alone.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
from pktable import Table
from pktable.format.metadata.manifest import (
    ADD,
    DataFileMeta,
    IndexManifestEntry,
    ManifestEntry,
    ManifestFileMeta,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
)
from pktable.format.metadata.snapshot import encode_snapshot
from pktable.format.metadata.stats import SimpleStats
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import encode_index
from pktable_spec.vocabulary import DELETION_VECTORS

Replacement = Callable[[DataFileMeta, Path], DataFileMeta]
"""Writes a file next to the one at the path, and returns its metadata."""


def rewritten(
    path: Path,
    change: Replacement,
    *,
    bits: Callable[[int], int] = lambda i: 32,
    index: Callable[[Path], tuple[Path, str | None]] = lambda bucket: (bucket.parent / "index", None),
    others: Iterable[IndexManifestEntry] = (),
    twice: Callable[[ManifestEntry], Sequence[ManifestEntry]] = lambda entry: [entry],
) -> None:
    """Commit the latest rows of the unpartitioned table at ``path`` again, in files that ``change`` makes.

    ``bits``: of the i-th vector of a bucket. ``index``: from the directory of a bucket, where its vectors go,
    and the external path of that directory if it is one. ``others``: entries of other index types.
    ``twice``: the manifest entries that leave an entry alive.
    """
    table = Table.open(path)
    state = table.catalog.state()
    assert state.snapshot is not None
    entries: list[ManifestEntry] = []
    indexes: list[IndexManifestEntry] = list(others)
    for (partition, bucket), files in state.files.items():
        directory = path / f"bucket-{bucket}"
        names: dict[str, str] = {}
        for file in files:
            other = change(file, directory / file.file_name)
            names[file.file_name] = other.file_name
            entries += twice(
                ManifestEntry(ADD, partition, bucket, table.catalog.context.options.bucket, other)
            )
        vectors = table.catalog.context.vectors(table.catalog.states.bucket(state, (partition, bucket)))
        if vectors:
            renamed = {
                names[name]: DeletionVector.from_positions(vector.positions(), bits(i))
                for i, (name, vector) in enumerate(vectors.items())
            }
            data, ranges = encode_index(renamed)
            where, external = index(directory)
            name = f"index-{uuid.uuid4()}-0"
            where.mkdir(exist_ok=True)
            (where / name).write_bytes(data)
            indexes.append(
                IndexManifestEntry(
                    0, partition, bucket, DELETION_VECTORS, name, len(data), len(ranges), ranges,
                    external_path=None if external is None else f"{external}/{name}",
                )
            )  # fmt: skip
    commit(path, entries, indexes)


def commit(path: Path, entries: Sequence[ManifestEntry], indexes: Sequence[IndexManifestEntry]) -> None:
    """Make ``entries`` and ``indexes`` all there is in a new snapshot of the table."""
    latest = Table.open(path).snapshots()[-1]

    def written(prefix: str, data: bytes) -> str:
        name = f"{prefix}-{uuid.uuid4()}-0"
        (path / "manifest" / name).write_bytes(data)
        return name

    manifest = encode_manifest(entries)
    partition = entries[0].partition
    meta = ManifestFileMeta(
        written("manifest", manifest),
        len(manifest),
        len(entries),
        0,
        SimpleStats(partition, partition, ()),
        latest.schema_id,
    )
    snapshot = replace(
        latest,
        id=latest.id + 1,
        base_manifest_list=written("manifest-list", encode_manifest_list([])),
        base_manifest_list_size=None,
        delta_manifest_list=written("manifest-list", encode_manifest_list([meta])),
        delta_manifest_list_size=None,
        index_manifest=written("index-manifest", encode_index_manifest(indexes)) if indexes else None,
    )
    (path / "snapshot" / f"snapshot-{snapshot.id}").write_bytes(encode_snapshot(snapshot))


def as_orc(file: DataFileMeta, path: Path) -> DataFileMeta:
    """Write ORC with stripes of few rows."""
    target = path.with_suffix(".orc")
    with target.open("wb") as sink, po.ORCWriter(sink, stripe_size=1, batch_size=64) as writer:
        table = read_parquet(path)
        table = table.cast(pa.schema([field.with_type(as_numbers(field.type)) for field in table.schema]))
        for start in range(0, table.num_rows, 100):
            # A slice will not do: of its structs Arrow writes the rows before it.
            writer.write(table.take(pa.array(range(start, min(start + 100, table.num_rows)))))
    return at(file, target)


def as_numbers(kind: Any) -> Any:
    """Return ``kind`` with an INT for a TIME, as ORC has it."""
    if pa.types.is_time(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(as_numbers(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(as_numbers(field.type)) for field in kind])
    return kind


def as_avro(file: DataFileMeta, path: Path) -> DataFileMeta:
    """Write Avro as Paimon does: rows nullable, times as numbers, decimals as bytes; blocks of few rows."""
    target = path.with_suffix(".avro")
    table = read_parquet(path)
    schema: Any = ["null", record("record", table.schema)]
    rows = ({f.name: stored(row[f.name], f.type) for f in table.schema} for row in table.to_pylist())
    with target.open("wb") as sink:
        fastavro.writer(sink, schema, rows, codec="zstandard", sync_interval=1000)
    return at(file, target)


def of_parquet(*changes: Replacement) -> Replacement:
    """Return what does ``changes`` to the files of ours in turn, and leaves those of others as they are."""
    turns = cycle(changes)

    def change(file: DataFileMeta, path: Path) -> DataFileMeta:
        ours = path.name.startswith("data-") and path.suffix == ".parquet"
        return next(turns)(file, path) if ours else file

    return change


def without_keys(file: DataFileMeta, path: Path) -> DataFileMeta:
    """Write Parquet as ``data-file.thin-mode`` does: without ``_KEY_`` columns."""
    table = read_parquet(path)
    target = path.with_name("thin-" + path.name)
    pq.write_table(table.select([n for n in table.column_names if not n.startswith("_KEY_")]), target)
    return at(file, target)


def elsewhere(directory: Path) -> Replacement:
    """Return what moves files to ``directory``, spelled as Hadoop spells it."""

    def move(file: DataFileMeta, path: Path) -> DataFileMeta:
        directory.mkdir(exist_ok=True)
        os.replace(path, directory / path.name)
        return replace(file, external_path=f"file:{directory / path.name}")

    return move


def with_empty_row_groups(file: DataFileMeta, path: Path) -> DataFileMeta:
    """Write Parquet in row groups of 100 rows, and one without rows before each."""
    table = read_parquet(path)
    target = path.with_name("empty-groups-" + path.name)
    with pq.ParquetWriter(target, table.schema) as writer:
        for start in range(0, table.num_rows, 100):
            writer.write_table(table.slice(0, 0))
            writer.write_table(table.slice(start, 100))
    return at(file, target)


def at(file: DataFileMeta, target: Path) -> DataFileMeta:
    return replace(file, file_name=target.name, file_size=target.stat().st_size)


def read_parquet(path: Path) -> pa.Table:
    with path.open("rb") as file:
        return pq.read_table(file)


def record(name: str, fields: Iterable[Any]) -> dict[str, Any]:
    parts = [
        {"name": f.name, "type": ["null", avro_type(f"{name}_{f.name}", f.type)]}
        if f.nullable
        else {"name": f.name, "type": avro_type(f"{name}_{f.name}", f.type)}
        for f in fields
    ]
    return {"type": "record", "name": name, "fields": parts}


def avro_type(name: str, kind: Any) -> Any:
    """Return the Avro type that Paimon writes ``kind`` as."""
    if pa.types.is_time(kind):
        return {"type": "int", "logicalType": "time-millis"}
    if pa.types.is_timestamp(kind):
        unit = {"ms": "millis", "us": "micros"}[kind.unit]
        return {"type": "long", "logicalType": f"{'local-' if kind.tz else ''}timestamp-{unit}"}
    if pa.types.is_decimal(kind):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if pa.types.is_map(kind):
        values = ["null", avro_type(name, kind.item_type)]
        if pa.types.is_string(kind.key_type):
            return {"type": "map", "values": values}
        entry = [
            {"name": "key", "type": avro_type(name + "_key", kind.key_type)},
            {"name": "value", "type": values},
        ]
        return {
            "type": "array",
            "logicalType": "map",
            "items": {"type": "record", "name": name, "fields": entry},
        }
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", avro_type(name, kind.value_type)]}
    if pa.types.is_struct(kind):
        return record(name, kind)
    plain = {
        pa.bool_(): "boolean", pa.int8(): "int", pa.int16(): "int", pa.int32(): "int", pa.int64(): "long",
        pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "bytes",
        pa.date32(): {"type": "int", "logicalType": "date"},
    }  # fmt: skip
    return plain[kind]


def stored(value: Any, kind: Any) -> Any:
    """Return a value as fastavro takes it: times that it would take as local ones as instants."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return int(pa.scalar(value, kind).cast(pa.int64()).as_py())
    if pa.types.is_map(kind):
        if pa.types.is_string(kind.key_type):
            return {key: stored(one, kind.item_type) for key, one in value}
        return [{"key": key, "value": stored(one, kind.item_type)} for key, one in value]
    if pa.types.is_list(kind):
        return [stored(one, kind.value_type) for one in value]
    if pa.types.is_struct(kind):
        return {f.name: stored(value[f.name], f.type) for f in kind}
    return value
