"""Manifests: the schemas of Paimon 2.0, older schemas, round trips, damage."""

from __future__ import annotations

import contextlib
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format.avro import RecordSchema, encode_long
from pktable.format.binary_row import EMPTY_ROW
from pktable.format.metadata.manifest import (
    INDEX_MANIFEST,
    MANIFEST,
    MANIFEST_LIST,
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
from pktable.format.metadata.stats import SimpleStats
from pktable.format.vectors.index_file import VectorRange
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.damage.decoders import (
    assert_no_flip_crashes,
    assert_no_flip_misleads,
    assert_no_prefix_decodes,
)
from model_tests.real_data import PAIMON, needs_shared

LONGS = st.sampled_from([0, 1, 2000, (1 << 63) - 1]) | st.integers(0, 9)
INTS = st.sampled_from([0, 1, -1, (1 << 31) - 1])
TEXTS = st.sampled_from(["", "data-1.parquet", "ä/b"])
BYTES = st.binary(max_size=4)
NAMES = st.sampled_from(["a", "data-1.parquet", "ä b"])
LISTS = st.lists(TEXTS, max_size=3).map(tuple)
EXTRAS = st.lists(NAMES, max_size=3).map(tuple)
STATS = st.builds(SimpleStats, BYTES, BYTES, st.none() | st.lists(st.none() | LONGS, max_size=3).map(tuple))


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


FILES = st.builds(
    DataFileMeta, NAMES, LONGS, LONGS, BYTES, BYTES, STATS, STATS, LONGS, LONGS, LONGS, INTS, EXTRAS,
    optional(LONGS), optional(LONGS), optional(BYTES), optional(INTS), optional(LISTS), optional(TEXTS),
    optional(LONGS), optional(LISTS),
)  # fmt: skip
ENTRIES = st.builds(ManifestEntry, st.sampled_from([0, 1]), BYTES, INTS, INTS, FILES)
METAS = st.builds(
    ManifestFileMeta, NAMES, LONGS, LONGS, LONGS, STATS, LONGS,
    optional(INTS), optional(INTS), optional(INTS), optional(INTS), optional(LONGS), optional(LONGS),
)  # fmt: skip
GLOBAL_INDEX = st.fixed_dictionaries(
    {
        "_ROW_RANGE_START": LONGS,
        "_ROW_RANGE_END": LONGS,
        "_INDEX_FIELD_ID": INTS,
        "_EXTRA_FIELD_IDS": optional(st.lists(INTS, max_size=2)),
        "_INDEX_META": optional(BYTES),
        "_SOURCE_META": optional(BYTES),
    }
)
RANGES = st.builds(VectorRange, TEXTS, INTS, INTS, optional(LONGS))
KNOWN_INDEXES = ("DELETION_VECTORS", "HASH")
INDEXES = st.builds(
    IndexManifestEntry, st.just(0), BYTES, INTS, st.sampled_from(KNOWN_INDEXES) | TEXTS, NAMES, LONGS, LONGS,
    optional(st.lists(RANGES, max_size=2).map(tuple)), optional(TEXTS), optional(GLOBAL_INDEX),
).filter(lambda index: index.global_index is not None or index.index_type in KNOWN_INDEXES)  # fmt: skip

A_STATS = SimpleStats(b"min", b"max", (0, None))
A_FILE = DataFileMeta(
    "data-1", 1322, 2, b"a", b"b", A_STATS, A_STATS, 5, 6, 0, 0, creation_time=1700000000000
)
AN_ENTRY = ManifestEntry(0, EMPTY_ROW, 0, 2, A_FILE)
A_META = ManifestFileMeta("manifest-1", 2425, 1, 0, A_STATS, 0, 0, 1, 0, 5)
AN_INDEX = IndexManifestEntry(
    0, EMPTY_ROW, 0, "DELETION_VECTORS", "index-1", 33, 1, (VectorRange("data-1", 1, 24, 2),)
)
CODECS: list[tuple[Callable[..., bytes], Callable[..., list[Any]], Any, RecordSchema]] = [
    (encode_manifest, decode_manifest, AN_ENTRY, MANIFEST.schema),
    (encode_manifest_list, decode_manifest_list, A_META, MANIFEST_LIST.schema),
    (encode_index_manifest, decode_index_manifest, AN_INDEX, INDEX_MANIFEST.schema),
]
each_codec = pytest.mark.parametrize(
    ("encode", "decode", "value", "schema"), CODECS, ids=["entries", "list", "index"]
)


@covers("META-3", "META-13")
@given(st.lists(ENTRIES, max_size=3))
def test_a_manifest_survives_its_bytes(entries: list[ManifestEntry]) -> None:
    data = encode_manifest(entries)
    assert decode_manifest(data, at="manifest", size=len(data)) == entries


@covers("META-3", "META-12", "META-13")
@given(st.lists(METAS, max_size=3))
def test_a_manifest_list_survives_its_bytes(metas: list[ManifestFileMeta]) -> None:
    data = encode_manifest_list(metas)
    assert decode_manifest_list(data, at="list", size=len(data)) == metas


@covers("META-3", "META-13", "DVF-13")
@given(st.lists(INDEXES, max_size=3))
def test_an_index_manifest_survives_its_bytes(entries: list[IndexManifestEntry]) -> None:
    data = encode_index_manifest(entries)
    assert decode_index_manifest(data, at="index", size=len(data)) == entries


@needs_shared
@covers("META-3")
@pytest.mark.parametrize(
    ("pattern", "schema"), [("manifest-list-*", 1), ("manifest-[0-9a-f]*", 0), ("index-manifest-*", 2)]
)
def test_our_schemas_are_those_of_paimon_2_to_the_letter(pattern: str, schema: int) -> None:
    directory = PAIMON / "cpp" / "parquet" / "pk_btree_e2e.db" / "pk_btree_e2e" / "manifest"
    for path in directory.glob(pattern):
        with path.open("rb") as file:
            assert fastavro.reader(file).metadata["avro.schema"] == CODECS[schema][3].text


def in_words(kind: Any) -> str:
    """Return an Avro type as the clauses say it."""
    if isinstance(kind, list):
        null, other = kind
        assert null == "null"
        return f"nullable {in_words(other)}"
    if isinstance(kind, str):
        return kind
    if "logicalType" in kind:
        return f"{kind['type']} ({kind['logicalType']})"
    return f"array of {in_words(kind['items'])}" if kind["type"] == "array" else f"`{kind['name']}`"


def records_in(kind: Any) -> Iterator[dict[str, Any]]:
    """Yield the record types in an Avro type."""
    if isinstance(kind, list):
        for one in kind:
            yield from records_in(one)
    elif isinstance(kind, dict) and kind["type"] == "record":
        yield kind
        for field in kind["fields"]:
            yield from records_in(field["type"])
    elif isinstance(kind, dict):
        yield from records_in(kind.get("items"))


@covers("META-3")
def test_the_clause_gives_every_field_that_we_write() -> None:
    text = (Path(__file__).parents[2] / "spec" / "clauses" / "81-metadata.md").read_text("utf-8")
    tables = {
        name.strip("`"): re.findall(r"^\| `(\w+)` \| (.*) \|$", rows, re.M)
        for names, rows in re.findall(
            r"^\| (.*) \| Avro type \|\n\| --- \| --- \|\n((?:\|.*\n)+)", text, re.M
        )
        for name in names.split(", ")
    }
    written = {}
    for name, codec in zip(("manifest", "manifest list", "index manifest"), CODECS, strict=True):
        for at, record in enumerate(records_in(json.loads(codec[3].text))):
            fields = [(field["name"], in_words(field["type"])) for field in record["fields"]]
            written[record["name"] if at else name] = fields
    assert tables == written


@covers("META-3")
@each_codec
def test_other_avro_readers_read_what_we_write(
    encode: Any, decode: Any, value: Any, schema: RecordSchema
) -> None:
    reader = fastavro.reader(io.BytesIO(encode([value, value])))
    assert reader.codec == "zstandard"
    assert len(list(reader)) == 2


def written_by_others(
    schema: RecordSchema, encoded: bytes, *, without: tuple[str, ...] = (), **options: Any
) -> bytes:
    """Return the records of ``encoded`` in a container of another writer, without some of their fields."""

    def reduced(part: Any) -> Any:
        if isinstance(part, dict):
            fields = [reduced(field) for field in part.get("fields", ()) if field["name"] not in without]
            return {k: reduced(v) for k, v in part.items()} | ({"fields": fields} if fields else {})
        return [reduced(item) for item in part] if isinstance(part, list) else part

    stream = io.BytesIO()
    older = fastavro.parse_schema(reduced(json.loads(schema.text)))
    fastavro.writer(stream, older, fastavro.reader(io.BytesIO(encoded)), **({"codec": "zstandard"} | options))
    return stream.getvalue()


@covers("META-22")
@each_codec
def test_a_nullable_field_that_is_absent_is_null(
    encode: Any, decode: Any, value: Any, schema: RecordSchema
) -> None:
    absent = ("_EXTERNAL_PATH", "_FIRST_ROW_ID", "_WRITE_COLS", "_VALUE_STATS_COLS", "_CARDINALITY",
              "_GLOBAL_INDEX", "_MIN_ROW_ID", "_MAX_ROW_ID")  # fmt: skip
    (found,) = decode(written_by_others(schema, encode([value]), without=absent), at="old")
    if isinstance(found, IndexManifestEntry):
        assert found.ranges == (VectorRange("data-1", 1, 24, None),)
    else:
        assert found == value


def with_field(
    encoded: bytes, record: str | None, field: str, kind: Any, value: Any, *, count: int = 1
) -> bytes:
    """Return the records of ``encoded``, each ``count`` times, with a field more in its ``record``, if any."""
    reader: Any = fastavro.reader(io.BytesIO(encoded))
    stored: Any = list(reader) * count
    schema = json.loads(json.dumps(reader.writer_schema))
    place = schema
    if record is not None:
        (outer,) = [one for one in schema["fields"] if one["name"] == record]
        kinds = outer["type"] if isinstance(outer["type"], list) else [outer["type"]]
        (place,) = [one for one in kinds if isinstance(one, dict) and one["type"] == "record"]
    place["fields"].append({"name": field, "type": kind})
    stored = [
        {**one, field: value}
        if record is None
        else {**one, record: one[record] and {**one[record], field: value}}
        for one in stored
    ]
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(schema), stored, codec="zstandard", sync_interval=1 << 30)
    return stream.getvalue()


A_GLOBAL_INDEX: dict[str, Any] = {
    "_ROW_RANGE_START": 0,
    "_ROW_RANGE_END": 9,
    "_INDEX_FIELD_ID": 1,
    "_EXTRA_FIELD_IDS": None,
    "_INDEX_META": b"m",
    "_SOURCE_META": None,
}
OPTIONAL_TEXT = ["null", "string"]
OPTIONAL_LONGS = ["null", {"type": "array", "items": "long"}]


@covers("META-60")
@pytest.mark.parametrize("count", [1, 300])  # by records, and by columns
@each_codec
def test_a_value_in_a_field_that_nobody_knows_is_refused_by_name(
    encode: Any, decode: Any, value: Any, schema: RecordSchema, count: int
) -> None:
    value = replace(value, global_index=A_GLOBAL_INDEX) if isinstance(value, IndexManifestEntry) else value
    names = {field["name"] for field in json.loads(schema.text)["fields"]}
    for record in (None, *({"_FILE", "_GLOBAL_INDEX"} & names)):
        for kind, held, shown in (
            ("int", 0, "0"),
            (OPTIONAL_TEXT, "x", "'x'"),
            (OPTIONAL_LONGS, [7], r"\[7\]"),
        ):
            data = with_field(encode([value]), record, "_OF_TOMORROW", kind, held, count=count)
            message = (
                f"^m: _OF_TOMORROW: expected no value in a field of no release that is known, found {shown}$"
            )
            with pytest.raises(CorruptFileError, match=message):
                decode(data, at="m")
        for kind, nothing in ((OPTIONAL_TEXT, None), (OPTIONAL_LONGS, []), (OPTIONAL_LONGS, None)):
            data = with_field(encode([value]), record, "_OF_TOMORROW", kind, nothing, count=count)
            assert decode(data, at="m") == [value] * count


@covers("META-60")
def test_an_index_of_a_type_that_nobody_knows_is_refused_unless_it_only_finds_rows_faster() -> None:
    unknown = replace(AN_INDEX, index_type="BTREE")
    expected = "^i: _INDEX_TYPE: expected DELETION_VECTORS, HASH or a global index, found BTREE$"
    with pytest.raises(CorruptFileError, match=expected):
        decode_index_manifest(encode_index_manifest([AN_INDEX, unknown]), "i")
    faster = replace(unknown, global_index=A_GLOBAL_INDEX)
    assert decode_index_manifest(encode_index_manifest([AN_INDEX, faster]), "i") == [AN_INDEX, faster]


@covers("META-60")
def test_fields_that_no_read_depends_on_are_ignored() -> None:
    data = with_field(
        encode_manifest([AN_ENTRY]), "_FILE", "_WRITE_COLS_SEQUENCES", OPTIONAL_LONGS, [3, 4], count=300
    )
    assert decode_manifest(data, "m") == [AN_ENTRY] * 300
    texts = ["null", {"type": "array", "items": "string"}]
    for field, kind, held in (
        ("_TOTAL_BUCKETS", ["null", "int"], 4),
        ("_EXTRA_FILES", texts, ["manifest-1.avro.sidecar"]),
    ):
        data = with_field(encode_manifest_list([A_META]), None, field, kind, held)
        assert decode_manifest_list(data, "m") == [A_META]


@covers("META-22")
@each_codec
def test_a_field_that_must_be_there_and_is_not_is_damage(
    encode: Any, decode: Any, value: Any, schema: RecordSchema
) -> None:
    for name in ("_VERSION", "_FILE_NAME", "_FILE_SIZE"):
        with pytest.raises(CorruptFileError, match=f"table/manifest-1: {name}: expected"):
            decode(written_by_others(schema, encode([value]), without=(name,)), at="table/manifest-1")


@covers("META-23", "META-34")
@pytest.mark.parametrize("codec", ["null", "zstandard", "deflate", "snappy", "bzip2", "xz"])
def test_other_codecs_are_read_and_their_damage_is_found(codec: str) -> None:
    data = packed_with(codec, encode_manifest([AN_ENTRY] * 30))
    assert decode_manifest(data, at="m") == [AN_ENTRY] * 30
    assert_no_prefix_decodes(lambda damaged: decode_manifest(damaged, at="m", size=len(data)), data)
    if codec == "snappy":
        at = data.index(b"data-1") + 2
        with pytest.raises(CorruptFileError, match="snappy"):
            decode_manifest(data[:at] + b"?" + data[at + 1 :], at="m")


def test_an_unknown_codec_is_refused_by_name() -> None:
    data = packed_with("null", encode_manifest([AN_ENTRY])).replace(b"\x08null", b"\x08lzip")
    with pytest.raises(CorruptFileError, match="Avro codec: expected null or zstandard"):
        decode_manifest(data, at="m")


def packed_with(codec: str, encoded: bytes) -> bytes:
    """Return a manifest's records in a container of another writer; snappy is packed by Arrow."""
    if codec != "snappy":
        return written_by_others(MANIFEST.schema, encoded, codec=codec)
    plain = io.BytesIO(written_by_others(MANIFEST.schema, encoded, codec="null"))
    reader = fastavro.block_reader(plain)
    blocks = [(block.num_records, block.bytes_.getvalue()) for block in reader]
    header = plain.getvalue().partition(b"\0")[0]
    sync = plain.getvalue()[-16:]
    data = header.replace(b"\x08null", b"\x0csnappy") + b"\0" + sync
    for count, block in blocks:
        packed = pa.compress(block, codec="snappy", asbytes=True) + zlib.crc32(block).to_bytes(4, "big")
        data += encode_long(count) + encode_long(len(packed)) + packed + sync
    return data


@covers("META-23", "META-34", "RD-11")
@each_codec
@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_manifests_of_other_formats_are_read_and_their_damage_crashes_nothing(
    kind: str, encode: Any, decode: Any, value: Any, schema: RecordSchema
) -> None:
    data = in_columns(kind, encode([value] * 3))
    assert decode(data, at="m", size=len(data)) == [value] * 3
    assert_no_prefix_decodes(lambda damaged: decode(damaged, at="m", size=len(data)), data)
    for at in range(0, len(data), 7):
        with contextlib.suppress(CorruptFileError):
            decode(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :], at="m", size=len(data))


@covers("META-23", "RD-11")
@pytest.mark.parametrize("size", [1 << 63, (1 << 64) - 1])
def test_a_number_of_a_columnar_manifest_that_no_long_holds_is_damage(size: int) -> None:
    stored = pa.Table.from_pylist(list(fastavro.reader(io.BytesIO(encode_manifest_list([A_META])))))
    place = stored.column_names.index("_FILE_SIZE")

    def with_size(size: int) -> bytes:
        sink = pa.BufferOutputStream()
        changed = stored.set_column(place, "_FILE_SIZE", pa.array([size], pa.uint64()))
        pq.write_table(with_types(changed), sink)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    assert decode_manifest_list(with_size(A_META.file_size), at="m") == [A_META]
    with pytest.raises(
        CorruptFileError, match=f"m: Parquet data: .*, found {size}, an integer of more than 64"
    ):
        decode_manifest_list(with_size(size), at="m")


def in_columns(kind: str, encoded: bytes) -> bytes:
    """Return the records of an Avro manifest as an ORC or Parquet file."""
    records = pa.Table.from_pylist(list(fastavro.reader(io.BytesIO(encoded))))
    sink = pa.BufferOutputStream()
    (po if kind == "orc" else pq).write_table(with_types(records), sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def with_types(records: pa.Table) -> pa.Table:
    """Return ``records`` without columns that hold only nulls or empty lists: nothing tells Arrow their type."""
    for i in reversed(range(records.num_columns)):
        field = records.schema.field(i)
        if pa.types.is_struct(field.type):
            column = records.column(i).combine_chunks()
            parts = with_types(pa.table(column.flatten(), names=[part.name for part in field.type]))
            columns = [column.combine_chunks() for column in parts.columns]
            records = records.set_column(
                i, field.name, pa.StructArray.from_arrays(columns, fields=parts.schema)
            )
        elif pa.types.is_null(getattr(field.type, "value_type", field.type)):
            records = records.remove_column(i)
    return records


@covers("META-34", "RD-11")
@each_codec
def test_no_damage_to_what_we_wrote_misleads(
    encode: Any, decode: Any, value: Any, schema: RecordSchema
) -> None:
    data = encode([value])
    assert_no_prefix_decodes(lambda damaged: decode(damaged, at="manifest"), data)
    assert_no_flip_misleads(lambda damaged: decode(damaged, at="manifest"), data)
    for damaged in (data + b"\0", data + data[-16:], b"ORC" + data):
        with pytest.raises(CorruptFileError):
            decode(damaged, at="manifest")


@covers("META-38")
def test_a_wrong_digest_is_reported_next_to_the_stored_one() -> None:
    data = bytearray(encode_manifest([AN_ENTRY]))
    data[-20] ^= 1
    with pytest.raises(
        CorruptFileError, match=r"m: checksum: expected [0-9a-f]{32}, found [0-9a-f]{32}$"
    ) as caught:
        decode_manifest(bytes(data), at="m")
    assert caught.value.expected == data[-16:].hex() != caught.value.found


@covers("RD-11")
@each_codec
def test_damage_to_what_others_wrote_never_crashes(
    encode: Any, decode: Any, value: Any, schema: RecordSchema
) -> None:
    data = written_by_others(schema, encode([value] * 3))
    assert_no_flip_crashes(lambda damaged: decode(damaged, at="manifest"), data)


@covers("META-23", "RD-11")
def test_a_container_of_others_whose_frame_is_wrong_is_found() -> None:
    data = written_by_others(MANIFEST.schema, encode_manifest([AN_ENTRY] * 3), codec="null")
    block = data.index(data[-16:]) + 16
    assert data[block] == 6  # zigzag for three records
    for at, byte in ((block, 4), (block, 8), (block, 5), (len(data) - 1, data[-1] ^ 1), (0, 0)):
        with pytest.raises(CorruptFileError):
            decode_manifest(data[:at] + bytes([byte]) + data[at + 1 :], at="manifest")


@covers("META-34")
@each_codec
def test_a_file_cut_between_blocks_is_found_by_its_size(
    encode: Any, decode: Any, value: Any, schema: RecordSchema
) -> None:
    data = written_by_others(schema, encode([value] * 3), sync_interval=1)
    assert len(decode(data, at="manifest", size=len(data))) == 3
    for cut in range(len(data)):
        with pytest.raises(CorruptFileError):
            decode(data[:cut], at="manifest", size=len(data))


@covers("META-3", "META-84")
def test_another_version_or_kind_is_refused() -> None:
    record = {"_VERSION": 3, "_KIND": 0, "_PARTITION": b"", "_BUCKET": 0, "_INDEX_TYPE": "", "_FILE_NAME": "",
              "_FILE_SIZE": 0, "_ROW_COUNT": 0}  # fmt: skip
    for change, what in (({}, "_VERSION"), ({"_VERSION": 1, "_KIND": 1}, "_KIND")):
        stream = io.BytesIO()
        fastavro.writer(stream, json.loads(INDEX_MANIFEST.schema.text), [record | change])
        with pytest.raises(CorruptFileError, match=what):
            decode_index_manifest(stream.getvalue(), at="index")


@covers("CMT-4")
def test_a_file_is_the_same_at_one_level_only() -> None:
    moved = ManifestEntry(1, EMPTY_ROW, 0, 2, A_FILE.at_level(3))
    assert moved.file.file_name == AN_ENTRY.file.file_name
    assert moved.identity != AN_ENTRY.identity
    assert ManifestEntry(1, EMPTY_ROW, 0, 2, A_FILE).identity == AN_ENTRY.identity
