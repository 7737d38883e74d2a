"""Inputs that decode, for the fuzzer to begin with. They have no checksums and are not compressed."""

from __future__ import annotations

import base64
import io
import json
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
from pktable import Table
from pktable.format import avro
from pktable.format.binary_row import encode_row
from pktable.format.types import parse_type
from pktable.format.vectors.deletion_vector import (
    DeletionVector,
    encode_vector,
)
from pktable.format.vectors.index_file import encode_index
from pktable_hudi.actions import Decision
from pktable_hudi.format.bloom import filter_of
from pktable_hudi.format.clean_files import (
    CleanPlan,
    encode_clean,
    encode_clean_plan,
)
from pktable_hudi.format.delete_content import (
    DELETE_VERSION,
    Delete,
    DeleteContent,
    encode_delete_content,
)
from pktable_hudi.format.history_files import HistoryFile
from pktable_hudi.format.history_files import encode_manifest as encode_history_manifest
from pktable_hudi.format.key_summary import KeyCollation, KeySummary
from pktable_hudi.format.log_block import BlockKind, LogBlock, encode_block
from pktable_hudi.format.log_index import (
    LogIndex,
    Member,
    encode_summary,
    with_index,
)
from pktable_hudi.format.positions import encode_positions
from pktable_hudi.format.timeline_writing import encode_rollback_plan
from pktable_spec.vocabulary import SEQUENCE_NUMBER

from model_tests.damage.fuzz_targets import BY_PAGES, COLUMNS, HUDI_SCHEMA, TYPES
from model_tests.format.long_sets import to_bytes


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield inputs that decode, by target."""
    with tempfile.TemporaryDirectory(prefix="pktable-") as folder:
        path = Path(folder)
        options = {"deletion-vectors.enabled": "true", **BY_PAGES}
        table = Table.create(path, COLUMNS, primary_key=["k"], options=options)
        keys = pa.array(range(5), pa.int32())
        table.upsert(pa.table({"k": keys, "v": list("abcde"), "d": [None] * 5, "l": [[1]] * 5}))
        table.upsert(pa.table({"k": keys[:1], "v": ["z"], "d": [None], "l": [None]}))
        files = {
            "snapshot": "snapshot/snapshot-*",
            "schema": "schema/*",
            "options": "schema/*",
            "manifest": "manifest/manifest-[0-9a-f]*",
            "manifest list": "manifest/manifest-list-*",
            "index manifest": "manifest/index-manifest-*",
            "Parquet file": "bucket-0/data-*",
        }
        for name, pattern in files.items():
            for file in sorted(path.glob(pattern)):
                yield name, file.read_bytes()
                yield name, _without_checksums(file.read_bytes())
        for file in sorted(path.glob("bucket-0/data-*")):
            rows = pq.read_table(file)
            sink = pa.BufferOutputStream()
            po.write_table(rows, sink)
            yield "ORC file", sink.getvalue().to_pybytes()
            yield "Avro file", _avro(rows)
    for kind, value in (("INT NOT NULL", 5), ("STRING", "longer than inline"), ("TIMESTAMP(9)", 1_000_001)):
        position = [str(one) for one in TYPES].index(str(parse_type(kind)))
        row = encode_row([value], [parse_type(kind)])[4:]
        yield "rows", bytes([0, position]) + row
        yield "keys", bytes([position]) + row
        yield "partition", bytes([position]) + row
    for bits in (32, 64):
        vector = DeletionVector.from_positions([1, 2, 3, 70_000, 70_001], bits)
        data, ranges = encode_index({"f0": vector})
        yield "vector", encode_vector(vector)
        yield f"vector of {bits} bits", encode_vector(vector)[8:-4]
        yield "index", bytes([1, ranges[0].length_bytes]) + data
    yield "store", b"7"
    for count in (3, 9, 40):  # a node of each of the smaller kinds
        yield "set of 64-bit numbers", to_bytes([*range(9), *(i << 30 for i in range(count))])
    yield from _hudi_seeds()


def _hudi_seeds() -> Iterator[tuple[str, bytes]]:
    parsed = fastavro.parse_schema(json.loads(HUDI_SCHEMA.replace(', "logicalType": "decimal"', "")))
    record = io.BytesIO()
    fastavro.schemaless_writer(record, parsed, {"k": "key", "d": b"\1\2", "v": 0.5})
    size = len(record.getvalue())
    content = struct.pack(">iii", 3, 1, size) + record.getvalue()
    deletes = encode_delete_content(
        DeleteContent(DELETE_VERSION, [Delete("k", "p", "Long", 5), Delete("l", None)])
    )
    made = filter_of([b"key"], sized_for=4, false_positives=0.1)
    summary = KeySummary("key", "key", KeyCollation.BYTES, made)
    index = LogIndex(("1",), "0", 1, summary, 1, summary, (Member("a", 1),), (Member("b", 2),))
    block = LogBlock(BlockKind.AVRO, ((0, b"1"), (2, HUDI_SCHEMA.encode())), content)
    (indexed,) = with_index(block, index, ["key"])
    row = made.encode()
    yield "Hudi log", encode_block(block) * 2
    yield "Hudi records", content
    yield "Hudi deletes", deletes
    yield "Hudi schema", HUDI_SCHEMA.encode()
    yield "Hudi commit", json.dumps({"extraMetadata": {"schema": "{}"}}).encode()
    yield "Hudi compaction plan", b'{"operations": [{"partitionPath": "", "fileId": "g"}]}'
    paths = {"p": ["p/g_0-0-0_1.parquet"]}
    yield "Hudi rollback plan", _plain(encode_rollback_plan("2", "deltacommit", paths))
    plan = CleanPlan("KEEP_LATEST_COMMITS", "3", {"p": ["g_0-0-0_1.parquet"]})
    yield "Hudi clean plan", _plain(encode_clean_plan(plan, "t"))
    yield "Hudi clean", _plain(encode_clean(plan, "4", "3"))
    yield "Hudi history", encode_history_manifest([HistoryFile("1_2_0.parquet", 9, "1", "2", 0)])
    yield "Hudi decision", Decision("20260101000000000_20260101000000001.deltacommit", b"x").encode()
    yield "Hudi properties", b"a=b\\:c\n#d\ne\\\n f"
    yield "Hudi positions", encode_positions(np.array([1, 2, 70_000, 1 << 33]))
    yield "Hudi bloom filter", base64.b64encode(row[:13] + struct.pack(">iii", 4, 1, 1) + row)
    yield "Hudi log index", encode_block(indexed)
    yield "Hudi index summary", encode_summary(index)


def _plain(container: bytes) -> bytes:
    """Return the record of a timeline file as JSON, which shows a fuzzer more than Avro does."""
    return json.dumps(next(iter(fastavro.reader(io.BytesIO(container))))).encode()


def _avro(rows: pa.Table) -> bytes:
    """Return rows as an Avro file; their decimals are null."""
    others = {
        "v": "string",
        "d": "bytes",
        "l": {"type": "array", "items": ["null", "int"]},
        SEQUENCE_NUMBER: "long",
    }
    fields = [{"name": name, "type": ["null", others.get(name, "int")]} for name in rows.column_names]
    stored = io.BytesIO()
    fastavro.writer(stored, {"type": "record", "name": "row", "fields": fields}, rows.to_pylist())
    return stored.getvalue()


def _without_checksums(data: bytes) -> bytes:
    """Return a file of ours as another writer would have written it, blocks not compressed."""
    if data.startswith(avro.MAGIC):
        return _uncompressed(data)
    return data.partition(b',\n  "pktable.crc32"')[0] + b"\n}" if b"pktable.crc32" in data[-60:] else data


def _uncompressed(container: bytes) -> bytes:
    reader = fastavro.reader(io.BytesIO(container))
    assert reader.writer_schema is not None
    written = io.BytesIO()
    fastavro.writer(written, reader.writer_schema, list(reader), codec="null", sync_marker=bytes(16))
    return written.getvalue()
