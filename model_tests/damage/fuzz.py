"""Fuzz every decoder, guided by coverage: ``python -m model_tests.damage.fuzz [SECONDS]``.

A decoder takes bytes that anyone may have written. Whatever they are, it returns or raises CorruptFileError; it
neither hangs nor takes memory without bound. atheris (libFuzzer) draws the bytes, beginning with those of real
files. Checksums are made right and blocks are not compressed, so that the bytes reach the code behind them. The first
byte of an input chooses the target.

Importable without atheris: ordinary tests use `TARGETS` and `seeds` too.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import io
import json
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

HAS_ATHERIS: Final = importlib.util.find_spec("atheris") is not None
FUZZES: Final = HAS_ATHERIS and __name__ == "__main__"
"""Whether the modules of pktable are to say which of their branches run. That makes them slow."""

if HAS_ATHERIS:
    import atheris

with atheris.instrument_imports(include=["pktable"]) if FUZZES else contextlib.nullcontext():
    import fastavro
    import numpy as np
    import pyarrow as pa
    import pyarrow.orc as po
    import pyarrow.parquet as pq
    from pktable import CorruptFileError, InvalidRequestError, Table
    from pktable.bucket.reader import DataReader
    from pktable.catalog.manifests import Manifests
    from pktable.catalog.schemas import load_schemas
    from pktable.catalog.snapshots import SnapshotLog
    from pktable.catalog.state import StateLoader, TableState
    from pktable.context import TableContext
    from pktable.format import avro
    from pktable.format.binary_row import decode_row, encode_row
    from pktable.format.hudi.avro_columns import decode_columns
    from pktable.format.hudi.avro_content import decode_records, record_bounds
    from pktable.format.hudi.avro_schema import fields_of, written_out
    from pktable.format.hudi.bloom import DYNAMIC, decode_filter, filter_of
    from pktable.format.hudi.clean_files import (
        CleanPlan,
        decode_clean_plan,
        decode_retained,
        encode_clean,
        encode_clean_plan,
    )
    from pktable.format.hudi.delete_content import (
        DELETE_VERSION,
        Delete,
        DeleteContent,
        decode_delete_content,
        encode_delete_content,
    )
    from pktable.format.hudi.history_files import HistoryFile
    from pktable.format.hudi.history_files import decode_manifest as decode_history_manifest
    from pktable.format.hudi.history_files import encode_manifest as encode_history_manifest
    from pktable.format.hudi.key_summary import KeyCollation, KeySummary
    from pktable.format.hudi.log_block import BlockKind, LogBlock, decode_log, encode_block
    from pktable.format.hudi.log_index import (
        LogIndex,
        Member,
        decode_summary,
        encode_summary,
        index_at_end,
        with_index,
    )
    from pktable.format.hudi.positions import decode_positions, encode_positions
    from pktable.format.hudi.properties import decode_properties
    from pktable.format.hudi.timeline_files import decode_commit, decode_compaction_plan, decode_rollback_plan
    from pktable.format.hudi.timeline_writing import encode_rollback_plan
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
    from pktable.format.vectors.deletion_vector import (
        MAGIC_32,
        MAGIC_64,
        DeletionVector,
        decode_vector,
        encode_vector,
    )
    from pktable.format.vectors.index_file import VectorRange, decode_index, encode_index
    from pktable.hudi.actions import Decision
    from pktable.lsm.runs import KeyOrder
    from pktable_spec.options import parse_options
    from pktable_spec.vocabulary import SEQUENCE_NUMBER

Target = Callable[[bytes], Any]

SECONDS: Final = 60
LONGEST_INPUT: Final = 1 << 13
MOST_MEMORY_MB: Final = 2048
SLOWEST_SECONDS: Final = 10

TYPES: Final = tuple(
    parse_type(text)
    for text in (
        "INT NOT NULL", "BIGINT", "STRING", "DECIMAL(9, 2)", "DECIMAL(38, 10)", "TIMESTAMP(3)", "TIMESTAMP(9)",
        "DATE", "DOUBLE", "FLOAT", "BOOLEAN", "TINYINT", "BYTES", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    )
)  # fmt: skip
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
    decode_index(data[1 + len(lengths) :], ranges, at="x")


def _data_file(kind: str) -> Target:
    """A data file of a format: ``parquet``, ``orc`` or ``avro``."""

    def target(data: bytes) -> None:
        store: Any = OneFile(data)
        schema = TableSchema(0, parse_columns(COLUMNS), 9, (), ("k",), {}, "", 0)
        context = TableContext(store, "x", schema, parse_options({}), {0: schema})
        none = SimpleStats(b"", b"", None)
        # A manifest gives the row count; for the seeds it is one of these.
        for rows in (1, 5):
            meta = DataFileMeta(f"x.{kind}", len(data), rows, b"", b"", none, none, 0, 0, 0, 0)
            columns = [*context.key_columns, *(field.name for field in schema.fields)]
            with contextlib.suppress(InvalidRequestError, CorruptFileError):
                list(DataReader(context, context.place(encode_row((), ()), 0), meta).read(columns))

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
    bounds = np.array(starts, np.int64), np.array(lengths, np.int64)
    fields = fields_of(HUDI_SCHEMA, at=at)
    records = [data[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    with contextlib.suppress(CorruptFileError):
        decode_columns(data, *bounds, written_out(HUDI_SCHEMA, at=at), fields, at=at)
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


def run_one(data: bytes) -> None:
    """Give an input to its target; what is no CorruptFileError passes."""
    if not data:
        return
    target = list(TARGETS.values())[data[0] % len(TARGETS)]
    with contextlib.suppress(CorruptFileError):
        target(data[1:])


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield inputs that decode, by target."""
    with tempfile.TemporaryDirectory(prefix="pktable-") as folder:
        path = Path(folder)
        table = Table.create(path, COLUMNS, primary_key=["k"], options={"deletion-vectors.enabled": "true"})
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


def main(arguments: Sequence[str]) -> int:
    """Fuzz for some seconds in a process of its own; return 0 if nothing was found, 1 otherwise, 2 without atheris."""
    if not HAS_ATHERIS:
        print(
            "fuzz: expected atheris, found none; pip install atheris (Linux, Python 3.10 to 3.13)",
            file=sys.stderr,
        )
        return 2
    if arguments and arguments[0] == "--here":
        atheris.Setup([sys.argv[0], *arguments[1:]], run_one)
        atheris.Fuzz()
    seconds = int(arguments[0]) if arguments else SECONDS
    with tempfile.TemporaryDirectory(prefix="pktable-fuzz-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        names = list(TARGETS)
        for number, (name, data) in enumerate(seeds()):
            (corpus / f"seed-{number}").write_bytes(bytes([names.index(name)]) + data)
        done = subprocess.run(
            [
                sys.executable, "-m", "model_tests.damage.fuzz", "--here", str(corpus),
                f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", f"-rss_limit_mb={MOST_MEMORY_MB}",
                f"-timeout={SLOWEST_SECONDS}", "-print_final_stats=1", f"-artifact_prefix={folder}/",
            ],
            capture_output=True,
            text=True,
            errors="replace",
        )  # fmt: skip
        statistics = [line for line in done.stderr.splitlines() if "stat::" in line]
        print("\n".join(statistics[:4]))
        if done.returncode:
            print(done.stdout[-2000:], done.stderr[-4000:])
            for path in sorted(Path(folder).glob("*-*")):
                if path.is_file():
                    data = path.read_bytes()
                    print(f"input of target {names[data[0] % len(names)]!r}: {data[1:].hex()}")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
