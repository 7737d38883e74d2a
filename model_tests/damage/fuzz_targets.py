"""Decoders as functions of bytes alone, for the fuzzer and for ordinary tests."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pktable import CorruptFileError, InvalidRequestError
from pktable.bucket.reader import DataReader
from pktable.bucket.wanted_rows import rows_that_may_match
from pktable.catalog.manifests import Manifests
from pktable.catalog.schemas import load_schemas
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.binary_row import decode_row, encode_row
from pktable.format.metadata.manifest import (
    DataFileMeta,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
)
from pktable.format.metadata.schema import TableSchema, decode_schema
from pktable.format.metadata.snapshot import decode_snapshot
from pktable.format.metadata.stats import SimpleStats, decode_stats
from pktable.format.paths import LATEST, TablePaths
from pktable.format.types import Field, parse_columns, parse_type
from pktable.format.vectors import roaring_tree
from pktable.format.vectors.deletion_vector import (
    MAGIC_32,
    MAGIC_64,
    decode_vector,
    encode_vector,
)
from pktable.format.vectors.index_file import VectorRange, open_index
from pktable.lsm.bucket import KeyOrder
from pktable.predicate import parse
from pktable_hudi.actions import Decision
from pktable_hudi.format.avro_columns import decode_columns
from pktable_hudi.format.avro_content import decode_records, record_bounds
from pktable_hudi.format.avro_schema import fields_of, written_out
from pktable_hudi.format.bloom import DYNAMIC, decode_filter
from pktable_hudi.format.clean_files import (
    decode_clean_plan,
    decode_retained,
)
from pktable_hudi.format.delete_content import (
    decode_delete_content,
)
from pktable_hudi.format.history_files import decode_manifest as decode_history_manifest
from pktable_hudi.format.log_block import decode_log
from pktable_hudi.format.log_index import (
    decode_summary,
    index_at_end,
)
from pktable_hudi.format.positions import decode_positions
from pktable_hudi.format.properties import decode_properties
from pktable_hudi.format.timeline_files import decode_commit, decode_compaction_plan, decode_rollback_plan
from pktable_spec.options import parse_options

Target = Callable[[bytes], Any]

TYPES: Final = tuple(
    parse_type(text)
    for text in (
        "INT NOT NULL", "BIGINT", "STRING", "DECIMAL(9, 2)", "DECIMAL(38, 10)", "TIMESTAMP(3)", "TIMESTAMP(9)",
        "DATE", "DOUBLE", "FLOAT", "BOOLEAN", "TINYINT", "BYTES", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    )
)  # fmt: skip
BY_PAGES: Final = {"parquet.page.row.count.limit": "2"}  # so that small files are read by pages
COLUMNS: Final = "k INT NOT NULL, v STRING, d DECIMAL(9, 2), l ARRAY<INT>"


class OneFile:
    """A store in which every file has the same bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, path: str) -> bytes:
        return self.data

    def open(self, path: str) -> Any:
        return pa.BufferReader(self.data)

    def exists(self, path: str) -> bool:
        return path.endswith("snapshot-7")

    def list_names(self, directory: str) -> list[str]:
        return ["snapshot-7", "LATEST", "schema-0"]


def _schema(data: bytes) -> None:
    with contextlib.suppress(InvalidRequestError):  # of a type that exists and is not implemented
        decode_schema(data, at="x")


def _options(data: bytes) -> None:
    with contextlib.suppress(InvalidRequestError):
        parse_options(decode_schema(data, at="x").options)


def _store(data: bytes) -> None:
    store: Any = OneFile(data)
    log = SnapshotLog(store, TablePaths("x"))
    assert log.listed() == [7]
    log.hint(LATEST)
    with contextlib.suppress(CorruptFileError):
        log.latest()
    with contextlib.suppress(InvalidRequestError, CorruptFileError):
        load_schemas(store, TablePaths("x"))


def _rows(data: bytes) -> None:
    """A row of one to three types; its arity is made right."""
    count = data[0] % 3 + 1 if data else 1
    types = [TYPES[byte % len(TYPES)] for byte in data[1 : 1 + count].ljust(count, b"\0")]
    decode_row(struct.pack(">i", count) + data[1 + count :], types, at="x")


def _keys(data: bytes) -> None:
    kind = TYPES[data[0] % len(TYPES)] if data else TYPES[0]
    KeyOrder([kind]).key(struct.pack(">i", 1) + data[1:], "x")


def _partition(data: bytes) -> None:
    """The directory of a partition of a drawn type."""
    kinds = [kind for kind in TYPES if kind.root not in ("DOUBLE", "FLOAT", "BYTES")]
    kind = kinds[data[0] % len(kinds)] if data else kinds[0]
    fields = (Field(0, "p", kind.not_null()), Field(1, "k", TYPES[0]))
    schema = TableSchema(0, fields, 1, ("p",), ("p", "k"), {}, "", 0)
    legacy = {"partition.legacy-name": "true" if len(data) % 2 else "false"}
    store: Any = OneFile(b"")
    context = TableContext(store, "x", schema, parse_options(legacy), {0: schema})
    states = StateLoader(context, Manifests(store, TablePaths("x"), schema, context.options))
    states.bucket(TableState(), (struct.pack(">i", 1) + data[1:], 0))


def _stats(data: bytes) -> None:
    middle = len(data) // 2
    kinds = [parse_type("INT"), parse_type("STRING")]
    head = struct.pack(">i", 2)
    decode_stats(SimpleStats(head + data[:middle], head + data[middle:], (0, 1)), kinds, at="x")


def _vector(magic: bytes) -> Target:
    """A vector whose frame is right, so that the bitmaps are reached."""

    def target(data: bytes) -> None:
        body = magic + data
        blob = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        found = decode_vector(blob, at="x")
        assert encode_vector(found)
        found.mask(min(found.max_position + 1, 1 << 20))

    return target


def _index(data: bytes) -> None:
    lengths = [byte % 64 for byte in data[1 : 1 + data[0] % 4]] if data else []
    offset, ranges = 1, []
    for number, length in enumerate(lengths):
        ranges.append(VectorRange(f"f{number}", offset, length, None))
        offset += length + 8
    dict(open_index(data[1 + len(lengths) :], ranges, at="x"))


def _data_file(kind: str) -> Target:
    """A data file of a format: ``parquet``, ``orc`` or ``avro``."""

    def target(data: bytes) -> None:
        store: Any = OneFile(data)
        schema = TableSchema(0, parse_columns(COLUMNS), 9, (), ("k",), {}, "", 0)
        context = TableContext(store, "x", schema, parse_options(BY_PAGES), {0: schema})
        predicate = parse("k = 2 OR v = 'b'", schema.fields)
        none = SimpleStats(b"", b"", None)
        # A manifest gives the row count; for the seeds it is one of these.
        for rows in (1, 5):
            meta = DataFileMeta(f"x.{kind}", len(data), rows, b"", b"", none, none, 0, 0, 0, 0)
            columns = [*context.key_columns, *(field.name for field in schema.fields)]
            with contextlib.suppress(InvalidRequestError, CorruptFileError):
                reader = DataReader(context, context.place(encode_row((), ()), 0), meta)
                list(reader.read(columns))
                list(reader.read(columns, ranges=rows_that_may_match(reader, schema, predicate)))

    return target


DECIMAL: Final = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
HUDI_FIELDS: Final = {"k": ["null", "string"], "d": ["null", DECIMAL], "v": "double"}
HUDI_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": kind} for name, kind in HUDI_FIELDS.items()],
    }
)


def _supported(decode: Callable[..., Any]) -> Target:
    """A decoder of Hudi's files, of which some forms are refused by name."""

    def target(data: bytes) -> None:
        with contextlib.suppress(InvalidRequestError):
            decode(data, at="x")

    return target


def _hudi_records(data: bytes, at: str) -> None:
    _, starts, lengths = record_bounds(data, at=at)
    fields = fields_of(HUDI_SCHEMA, at=at)
    ends = (starts + lengths).tolist()
    records = [data[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    with contextlib.suppress(CorruptFileError):
        decode_columns(data, starts, lengths, written_out(HUDI_SCHEMA, at=at), fields, at=at)
    decode_records(records, HUDI_SCHEMA, at=at)


def _hudi_schema(data: bytes, at: str) -> None:
    fields_of(data.decode("utf-8", "replace"), at=at)


def _hudi_index(data: bytes, at: str) -> None:
    index_at_end(lambda count: data[len(data) - count :], len(data), at=at)


TARGETS: Final[dict[str, Target]] = {
    "snapshot": lambda data: decode_snapshot(data, at="x"),
    "schema": _schema,
    "options": _options,
    "store": _store,
    "manifest": lambda data: decode_manifest(data, "x"),
    "manifest list": lambda data: decode_manifest_list(data, "x"),
    "index manifest": lambda data: decode_index_manifest(data, "x"),
    "rows": _rows,
    "keys": _keys,
    "partition": _partition,
    "statistics": _stats,
    "vector": lambda data: decode_vector(data, at="x"),
    "vector of 32 bits": _vector(MAGIC_32),
    "vector of 64 bits": _vector(MAGIC_64),
    "index": _index,
    "set of 64-bit numbers": lambda data: roaring_tree.decode(data, "x"),
    "Parquet file": _data_file("parquet"),
    "ORC file": _data_file("orc"),
    "Avro file": _data_file("avro"),
    "Hudi log": _supported(decode_log),
    "Hudi records": _supported(_hudi_records),
    "Hudi deletes": _supported(decode_delete_content),
    "Hudi schema": _supported(_hudi_schema),
    "Hudi commit": _supported(decode_commit),
    "Hudi compaction plan": _supported(decode_compaction_plan),
    "Hudi rollback plan": _supported(decode_rollback_plan),
    "Hudi clean plan": _supported(decode_clean_plan),
    "Hudi clean": _supported(decode_retained),
    "Hudi history": _supported(decode_history_manifest),
    "Hudi decision": _supported(Decision.decode),
    "Hudi properties": _supported(decode_properties),
    "Hudi positions": lambda data: decode_positions(data, 4, at="x"),
    "Hudi bloom filter": _supported(lambda data, at: decode_filter(data, DYNAMIC, at=at)),
    "Hudi log index": _supported(_hudi_index),
    "Hudi index summary": _supported(decode_summary),
}
