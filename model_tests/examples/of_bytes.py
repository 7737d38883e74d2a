"""Examples of bytes: files of the fixtures, field by field, each byte of them in hexadecimal.

The bytes are taken apart here by `struct`, not by the codecs of pktable, and every field is compared with its clause.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

import fastavro
import pyarrow.parquet as pq
from pktable import Table
from pyroaring import BitMap

from model_tests.conform.fixtures import STORED
from model_tests.conform.tables import VECTORS, changes, counted
from model_tests.examples.shown import Example, table

MAGIC_32: Final = 1581511376
MAGIC_64: Final = 1681511377
SHOWN: Final = 24
"""Bytes of a field that are shown in full."""


class Field(NamedTuple):
    """Bytes of a file: the first one, the bytes, and their meaning."""

    offset: int
    data: bytes
    meaning: str


class Fixture:
    """A table of the archive of fixtures."""

    def __init__(self, name: str) -> None:
        with ZipFile(STORED) as archive:
            start = f"tables/{name}/"
            self.files = {
                one[len(start) :]: archive.read(one) for one in archive.namelist() if one.startswith(start)
            }

    def snapshot(self) -> tuple[str, dict[str, Any]]:
        """Return the path and the fields of the latest snapshot."""
        name = max(
            (one for one in self.files if one.startswith("snapshot/snapshot-")),
            key=lambda one: int(one.rpartition("-")[2]),
        )
        return name, json.loads(self.files[name])

    def key_columns(self) -> list[tuple[str, str]]:
        """Return the names and types of the trimmed primary key."""
        schema = json.loads(self.files["schema/schema-0"])
        types = {field["name"]: field["type"].removesuffix(" NOT NULL") for field in schema["fields"]}
        return [(name, types[name]) for name in schema["primaryKeys"] if name not in schema["partitionKeys"]]

    def avro(self, name: str) -> list[dict[str, Any]]:
        return list(fastavro.reader(io.BytesIO(self.files[f"manifest/{name}"])))

    def index(self) -> list[dict[str, Any]]:
        return self.avro(self.snapshot()[1]["indexManifest"])

    def entries(self) -> list[dict[str, Any]]:
        """Return the entries of the manifests of the latest delta."""
        lists = self.avro(self.snapshot()[1]["deltaManifestList"])
        return [entry for one in lists for entry in self.avro(one["_FILE_NAME"])]


def shown(fields: Sequence[Field]) -> str:
    """Return fields as a table, cut after `SHOWN` bytes."""
    rows = []
    for field in fields:
        more = " …" if len(field.data) > SHOWN else ""
        rows.append(
            (str(field.offset), f"`{field.data[:SHOWN].hex(' ')}{more}`", str(len(field.data)), field.meaning)
        )
    return table(("offset", "bytes", "length", "meaning"), rows)


# ----------------------------------------------------------------- deletion vectors


def index_fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a DV index file. Raises AssertionError if they are not as the clauses say."""
    assert data[0] == 1
    yield Field(0, data[:1], "version 1")
    at = 1
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        body, crc = data[at + 4 : at + 4 + length], data[at + 4 + length : at + 8 + length]
        assert struct.unpack(">I", crc)[0] == zlib.crc32(body)
        yield Field(at, data[at : at + 4], f"length {length}, big-endian")
        if struct.unpack_from(">i", body)[0] == MAGIC_32:
            yield Field(at + 4, body[:4], f"magic {MAGIC_32}, big-endian: 32 bits")
            positions = list(BitMap.deserialize(body[4:]))
            yield Field(at + 8, body[4:], f"portable Roaring bitmap of {positions}")
        else:
            assert struct.unpack_from("<i", body)[0] == MAGIC_64
            yield Field(at + 4, body[:4], f"magic {MAGIC_64}, little-endian: 64 bits")
            yield from _of_64_bits(body[4:], at + 8)
        yield Field(at + 4 + length, crc, "CRC-32 of magic and bitmap, big-endian")
        at += 8 + length


def _of_64_bits(body: bytes, offset: int) -> Iterator[Field]:
    (count,) = struct.unpack_from("<q", body)
    yield Field(offset, body[:8], f"{count} bitmap of 32 bits, little-endian")
    assert count == 1, "the fixtures have positions below 2^32"
    (key,) = struct.unpack_from("<i", body, 8)
    yield Field(offset + 8, body[8:12], f"key {key}: the high 32 bits of its positions, little-endian")
    yield Field(offset + 12, body[12:], f"portable Roaring bitmap of {list(BitMap.deserialize(body[12:]))}")


def of_vectors() -> Iterator[Example]:
    """Yield the examples of DV index files."""
    for name, title, clauses in (
        ("pairs", "A DV index file with a vector of 32 bits", "DVF-1 DVF-2 DVF-4 DVF-8 DVF-9 DVF-10 DVF-13"),
        ("pairs-of-64-bits", "A DV index file with a vector of 64 bits", "DVF-1 DVF-3 DVF-4 DVF-11"),
        ("vectors-of-both-kinds", "A DV index file with vectors of both kinds", "DVF-12"),
        ("empty-index", "A DV index file without vectors", "DVF-7 DVF-14"),
    ):
        fixture = Fixture(name)
        (entry,) = fixture.index()
        data = fixture.files[f"index/{entry['_FILE_NAME']}"]
        assert (entry["_FILE_SIZE"], entry["_ROW_COUNT"]) == (
            len(data),
            len(entry["_DELETIONS_VECTORS_RANGES"] or []),
        )
        ranges = [
            (f"`{one['f0']}`", str(one["f1"]), str(one["f2"]), str(one.get("_CARDINALITY")))
            for one in entry["_DELETIONS_VECTORS_RANGES"] or []
        ]
        text = (
            f"`index/{entry['_FILE_NAME']}` of the fixture `{name}`:\n\n{shown(list(index_fields(data)))}\n\n"
        )
        text += f"The index manifest says `_FILE_SIZE` {len(data)} and `_ROW_COUNT` {entry['_ROW_COUNT']}"
        text += (
            f", and these ranges:\n\n{table(('data file', 'offset', 'length', 'cardinality'), ranges)}"
            if ranges
            else "."
        )
        yield Example(title, tuple(clauses.split()), text)
    yield _checked()
    yield _runs()


def _checked() -> Example:
    fixture = Fixture("pairs")
    (entry,) = fixture.index()
    data = bytearray(fixture.files[f"index/{entry['_FILE_NAME']}"])
    length = struct.unpack_from(">i", data, 1)[0]
    rows = []
    for what, at in (("length", 4), ("magic", 8), ("a position", 4 + length), ("CRC-32", 8 + length)):
        changed = data.copy()
        changed[at] ^= 1
        body, crc = bytes(changed[5 : 5 + length]), struct.unpack_from(">I", changed, 5 + length)[0]
        same_size = struct.unpack_from(">i", changed, 1)[0] == length
        by = "the range" if not same_size else "the magic" if body[:4] != data[5:9] else "the CRC-32"
        assert by != "the CRC-32" or zlib.crc32(body) != crc
        rows.append((f"a bit of {what}, byte {at}", f"`{data[at]:02x}` is `{changed[at]:02x}`", by))
    text = (
        f"The same file with one bit flipped is refused:\n\n{table(('flipped', 'byte', 'noticed by'), rows)}"
    )
    return Example("A damaged vector", ("DVF-5",), text)


def _runs() -> Example:
    plain, runs = BitMap(list(range(100, 200)), optimize=False), BitMap(range(100, 200))
    before = plain.serialize()
    runs.run_optimize()
    rows = [
        ("as an array", f"`{before[:SHOWN].hex(' ')} …`", str(len(before))),
        ("run-optimised", f"`{runs.serialize().hex(' ')}`", str(len(runs.serialize()))),
    ]
    text = f"The positions 100 to 199 are one run:\n\n{table(('bitmap', 'bytes', 'length'), rows)}"
    return Example("A run-optimised bitmap", ("DVF-6",), text)


# ----------------------------------------------------------------- rows and keys


WIDTHS: Final = {"BOOLEAN": "?", "TINYINT": "b", "SMALLINT": "<h", "INT": "<i", "DATE": "<i", "BIGINT": "<q"}
"""The types of a fixed width, as `struct` has them."""


def row_fields(data: bytes, columns: Sequence[tuple[str, str]]) -> Iterator[Field]:
    """Yield the fields of a BinaryRow with its arity in front. ``columns``: names and types."""
    arity = len(columns)
    assert struct.unpack_from(">i", data)[0] == arity
    yield Field(0, data[:4], f"arity {arity}, big-endian")
    nulls = ((arity + 63 + 8) // 64) * 8
    yield Field(4, data[4 : 4 + nulls], "row kind 0 (+I), then the null bits")
    for number, (name, type) in enumerate(columns):
        at = 4 + nulls + 8 * number
        slot = data[at : at + 8]
        yield Field(at, slot, f"`{name}` {type}: {_slot(type, slot, data[4:])}")
    if len(data) > (at := 4 + nulls + 8 * arity):
        yield Field(at, data[at:], "variable part, padded to 8 bytes")


def _slot(type: str, slot: bytes, row: bytes) -> str:
    if type in WIDTHS:
        return f"{struct.unpack_from(WIDTHS[type], slot)[0]}, little-endian"
    kind, _, numbers = type.partition("(")
    digits = int(re.match(r"\d*", numbers)[0] or 0)  # type: ignore[index]
    if kind == "DECIMAL" and digits <= 18:
        return f"unscaled value {struct.unpack('<q', slot)[0]}"
    if kind == "TIMESTAMP":
        if digits <= 3:
            return f"{struct.unpack('<q', slot)[0]} ms since 1970"
        nanos, start = struct.unpack("<ii", slot)
        return f"{nanos} ns, and {struct.unpack_from('<q', row, start)[0]} ms at byte {start} of the row"
    if kind == "DECIMAL":
        length, start = struct.unpack("<ii", slot)
        value = int.from_bytes(row[start : start + length], "big", signed=True)
        return f"unscaled value {value}, {length} bytes from byte {start} of the row on"
    if slot[7] & 0x80:
        length = slot[7] & 0x7F
        return f"{slot[:length]!r}, in place; the last byte is 0x80 | {length}"
    (pointer,) = struct.unpack("<q", slot)
    start, length = pointer >> 32, pointer & 0xFFFFFFFF
    return f"{row[start : start + length]!r}, {length} bytes from byte {start} of the row on"


def of_rows() -> Iterator[Example]:
    """Yield the examples of rows, keys and statistics."""
    for name, key, clauses in (
        ("keys-of-integers", "_MIN_KEY", "META-4 META-5"),
        ("keys-of-strings", "_MAX_KEY", "META-4 META-5 META-24"),
        ("keys-of-decimals", "_MIN_KEY", "META-80"),
        ("keys-of-times", "_MIN_KEY", "META-80"),
    ):
        fixture = Fixture(name)
        entry = next(one for one in fixture.entries() if one["_KIND"] == 0)
        fields = shown(list(row_fields(entry["_FILE"][key], fixture.key_columns())))
        text = f"`{key}` of `{entry['_FILE']['_FILE_NAME']}`, fixture `{name}`:\n\n{fields}"
        yield Example(f"The BinaryRow of a key: {name}", tuple(clauses.split()), text)
    entry = next(one for one in Fixture("queries").entries() if one["_KIND"] == 0)
    stats, columns = entry["_FILE"]["_VALUE_STATS"], entry["_FILE"]["_VALUE_STATS_COLS"]
    rows = [(f"`{name}`", _bytes(stats[name])) for name in ("_MIN_VALUES", "_MAX_VALUES", "_NULL_COUNTS")]
    rows.append(("`_VALUE_STATS_COLS`", str(columns)))
    text = f"Of a data file of the fixture `queries`:\n\n{table(('field', 'value'), rows)}"
    yield Example("Statistics of values", ("META-6", "META-25", "META-26", "META-27"), text)


def _bytes(found: Any) -> str:
    if isinstance(found, bytes):
        return f"`{found.hex(' ')}`" if found else "no bytes"
    return f"`{found}`"


# ----------------------------------------------------------------- metadata


def of_metadata() -> Iterator[Example]:
    """Yield the examples of schemas, snapshots, manifests and data files."""
    fixture = Fixture("pairs")
    name, snapshot = fixture.snapshot()
    yield _json(fixture, "schema/schema-0", "A schema", "META-1 META-19 META-20 META-35")
    yield _json(fixture, name, "A snapshot", "META-2 META-11 META-21 META-35 META-53")
    lists = fixture.avro(snapshot["deltaManifestList"])
    yield _listed("An entry of a manifest list", "META-3 META-12", snapshot["deltaManifestList"], lists[0])
    yield _listed(
        "An entry of a manifest", "META-3 META-5 LSM-7", lists[0]["_FILE_NAME"], fixture.entries()[0]
    )
    (index,) = fixture.index()
    yield _listed(
        "An entry of an index manifest", "META-3 META-84 DVF-8 DVF-13", snapshot["indexManifest"], index
    )
    names = "\n".join(sorted(Fixture("partitions-of-other-types").files)[:30])
    text = f"Some of the fixture `partitions-of-other-types`:\n\n```\n{names}\n```"
    yield Example(
        "Where the files of a table lie", ("META-9", "META-31", "META-50", "META-59", "META-81"), text
    )
    yield _columns(fixture)
    yield _physical_types(Fixture("values"))
    yield from _checksums(fixture)
    yield from _upkeep()


def _json(fixture: Fixture, name: str, title: str, clauses: str) -> Example:
    data = fixture.files[name]
    checksum = re.search(rb',\s*"pktable.crc32"\s*:\s*(\d+)', data)
    assert checksum is not None
    assert zlib.crc32(data[: checksum.start()]) == int(checksum[1])
    text = f"`{name}` of the fixture `pairs`:\n\n```json\n{data.decode().strip()}\n```"
    return Example(title, tuple(clauses.split()), text)


def _listed(title: str, clauses: str, name: str, record: dict[str, Any]) -> Example:
    flat = [(field, value) for field, value in record.items() if not isinstance(value, dict)]
    flat += [
        (f"{field}.{inner}", one)
        for field, value in record.items()
        if isinstance(value, dict)
        for inner, one in value.items()
    ]
    rows = [(f"`{field}`", _bytes(value)) for field, value in flat]
    text = f"Of `manifest/{name}` of the fixture `pairs`:\n\n{table(('field', 'value'), rows)}"
    return Example(title, tuple(clauses.split()), text)


def _columns(fixture: Fixture) -> Example:
    name = next(one for one in fixture.files if one.endswith(".parquet"))
    found = pq.ParquetFile(io.BytesIO(fixture.files[name]))
    ids = {
        field.name: (field.metadata or {}).get(b"PARQUET:field_id", b"").decode()
        for field in found.schema_arrow
    }
    group = found.metadata.row_group(0)
    rows = [
        (f"`{column.path_in_schema}`", column.physical_type, ids[column.path_in_schema], column.compression)
        for column in map(group.column, range(group.num_columns))
    ]
    text = f"`{name}` of the fixture `pairs`:\n\n{table(('column', 'Parquet type', 'field id', 'compression'), rows)}"
    return Example("The columns of a data file", ("META-7", "META-8", "META-29", "META-32", "META-71"), text)


def _physical_types(fixture: Fixture) -> Example:
    name = next(one for one in fixture.files if one.endswith(".parquet"))
    found = pq.ParquetFile(io.BytesIO(fixture.files[name])).schema
    stored = {column.path: column for column in map(found.column, range(len(found.names)))}
    schema = json.loads(fixture.files["schema/schema-0"])
    rows = [
        (f"`{field['name']}`", field["type"], stored[field["name"]].physical_type)
        for field in schema["fields"]
    ]
    text = (
        f"`{name}` of the fixture `values`:\n\n{table(('column', 'type of the table', 'Parquet type'), rows)}"
    )
    return Example("The types of a data file", ("META-82",), text)


# ----------------------------------------------------------------- checksums, fences and consumers

FOOTER_ID: Final = bytes.fromhex("5a92b1d56204404f8e1238587975ebc1")


def _checksums(fixture: Fixture) -> Iterator[Example]:
    """Yield the checksums of an Avro file and of a Parquet file."""
    name = f"manifest/{fixture.snapshot()[1]['deltaManifestList']}"
    data = fixture.files[name]
    marker = data[-16:]
    assert hashlib.blake2b(data.replace(marker, b""), digest_size=16).digest() == marker
    assert fastavro.reader(io.BytesIO(data)).metadata["pktable.sync"] == "blake2b"
    rows = [Field(at, marker, "sync marker") for at in _places(data, marker)]
    text = f"`{name}` of the fixture `pairs`: the BLAKE2b of the {len(data) - 16 * len(rows)} bytes that are no marker."
    yield Example(
        "The sync marker is a checksum", ("META-14", "META-36", "META-38"), f"{text}\n\n{shown(rows)}"
    )
    name = next(one for one in fixture.files if one.endswith(".parquet"))
    data = fixture.files[name]
    (at,) = _places(data, FOOTER_ID)
    (length,) = struct.unpack_from("<i", data, len(data) - 8)
    pages, footer = struct.unpack_from(">II", data, at - 8)
    start = len(data) - 8 - length
    assert zlib.crc32(data[start : at - 4]) == footer
    fields = [
        Field(at - 8, data[at - 8 : at - 4], f"CRC-32 of the page indexes: {pages:08x}, big-endian"),
        Field(
            at - 4,
            data[at - 4 : at],
            f"CRC-32 of the footer before it, with the former: {footer:08x}, big-endian",
        ),
        Field(at, FOOTER_ID, "the UUID"),
        Field(at + 16, data[at + 16 : -8], "end of the footer"),
        Field(len(data) - 8, data[-8:-4], f"length of the footer, which begins at {start}"),
        Field(len(data) - 4, data[-4:], "PAR1"),
    ]
    text = f"The end of `{name}` of the fixture `pairs`:\n\n{shown(fields)}"
    yield Example("The footer of a data file ends with checksums", ("META-14", "META-37", "META-38"), text)


def _places(data: bytes, part: bytes) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(part), data)]


def _upkeep() -> Iterator[Example]:
    """Yield the files of an expiry and of a consumer."""
    with tempfile.TemporaryDirectory(prefix="pktable-example-") as folder, counted():
        root = Path(folder) / "t"
        made = Table.create(root, "k INT, v STRING", primary_key="k", options=VECTORS)
        for key in range(3):
            changes(made, ("+I", key, "v"), write_only=True)
        made.set_consumer("c", next_snapshot=3)
        made.expire_snapshots(retain_last=1, older_than=None)
        named = {
            f"{place}/{path.name}": path.read_text("utf-8")
            for place in ("fence", "consumer")
            for path in sorted((root / place).iterdir())
        }
    for title, clauses, start in (
        ("The fence of an expiry", "META-52 META-35", "fence/"),
        ("A consumer", "META-58", "consumer/"),
    ):
        name = max(one for one in named if one.startswith(start))
        what = f"`{name}` of a table of three writes, whose consumer reads the last one:"
        text = f"{what}\n\n```json\n{named[name].strip()}\n```"
        yield Example(title, tuple(clauses.split()), text)
