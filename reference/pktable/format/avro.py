"""Read and write Avro object containers: records in blocks, after a header with their schema.

Fastavro decodes the records, and `avro_columns` those of large blocks. This module reads the container around them: its
checks find damage, and a schema is parsed once instead of once per file. Records to write come encoded
(`manifest_fields` encodes those of manifests).

A container that we write has one block, and its sync marker is the digest of everything else in the file. Avro only
requires sixteen bytes that do not occur in the data; a metadata entry makes our reader check the digest. Files of
other writers have no digest: if one of their blocks is missing, only the size of the file shows it.

Clauses: META-3, META-13, META-22, META-23, META-34, META-36, META-38, RD-11.
"""

from __future__ import annotations

import bz2
import hashlib
import io
import itertools
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, Final

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import CorruptFileError

from pktable.format.avro_columns import NotInColumns, Records, decode_columns
from pktable.format.bounds import (
    ALWAYS_ALLOWED,
    MOST_TIMES,
    MOST_UNPACKED_BYTES,
    require_bounded,
    unpacked,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
LONGEST_VARINT: Final = 10
MOST_RECORDS: Final = 10_000
"""In a schema, those counted again that it only names: a few names in each other could stand for any number."""
ZSTD_DECOMPRESSOR: Final = zstd.ZstdDecompressor
COMPRESSOR: Final = zstd.ZstdCompressor()  # shared: creating one costs more than compressing a small manifest


def encode_long(number: int) -> bytes:
    """Return ``number`` as Avro writes it: zigzag, 7 bits per byte, lowest first."""
    rest = (number << 1) ^ (number >> 63)
    if rest < 0x80:
        return ONE_BYTE[rest]
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def encode_bytes(data: bytes) -> bytes:
    """Return ``data`` as Avro writes bytes, and the UTF-8 of a string: behind their number."""
    return encode_long(len(data)) + data


BRANCH: Final = "__pktable_branch"
ONE_BYTE: Final = [bytes([byte]) for byte in range(0x80)]
SYNC_IS_DIGEST: Final = encode_bytes(b"pktable.sync") + encode_bytes(b"blake2b")


class RecordSchema:
    """A schema to write with: its text, and the header of a container up to the sync marker."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.text = json.dumps(schema, separators=(",", ":"))
        self.header = (
            MAGIC + encode_long(3) + _entries(self.text, b"zstandard") + SYNC_IS_DIGEST + encode_long(0)
        )


def _entries(schema: str, codec: bytes) -> bytes:
    """Return the metadata of a container that every reader needs."""
    entries = {b"avro.schema": schema.encode(), b"avro.codec": codec}
    return b"".join(encode_bytes(key) + encode_bytes(value) for key, value in entries.items())


class ContainerWriter:
    """A container of many blocks, to be written one after the other behind the `header`.

    ``schema``: a union of null and the record. ``level``: of zstd, None for no compression. ``unique``: to this file;
    its digest is the sync marker. Clauses: META-73.
    """

    def __init__(self, schema: Sequence[Any], *, level: int | None, unique: bytes) -> None:
        text = json.dumps(schema, separators=(",", ":"))
        self._sync = _digest(unique)
        self._compressor = None if level is None else zstd.ZstdCompressor(level)
        codec = b"null" if level is None else b"zstandard"
        self.header = MAGIC + encode_long(2) + _entries(text, codec) + encode_long(0) + self._sync
        # The number of the branch before a record is a field of it: fastavro would look at all values for the branch.
        record = schema[1]
        fields = [{"name": BRANCH, "type": "long"}, *record["fields"]]
        self._array = _parse(json.dumps({"type": "array", "items": {**record, "fields": fields}}).encode())

    def block(self, records: Sequence[dict[str, Any]]) -> bytes:
        """Return a block of ``records``, at least one, each of which gets the number of its branch."""
        for record in records:
            record[BRANCH] = 1
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, self._array, records)
        # The array has the count before it and a zero behind it.
        count = encode_long(len(records))
        data = stream.getvalue()[len(count) : -1]
        if self._compressor is not None:
            data = self._compressor.compress(data, self._compressor.FLUSH_FRAME)
        return count + encode_long(len(data)) + data + self._sync


def encode_container(schema: RecordSchema, records: Iterable[bytes]) -> bytes:
    """Return a container of ``records``, each of them encoded. Clauses: META-3, META-36."""
    encoded = list(records)
    count = len(encoded)
    framed = b""
    if count:
        packed = COMPRESSOR.compress(b"".join(encoded), COMPRESSOR.FLUSH_FRAME)
        framed = encode_long(count) + encode_long(len(packed)) + packed
    sync = _digest(schema.header + framed)
    return schema.header + sync + framed + (sync if count else b"")


def decode_container(data: bytes, at: str) -> list[dict[str, Any]]:
    """Return the records of a container, in order. Raises CorruptFileError.

    Clauses: META-22, META-34, META-38, RD-11.
    """
    return [record for block in checked_container(data, at).blocks() for record in block]


def checked_container(data: bytes, at: str) -> Container:
    """Return a container whose sync marker is right if it is a digest. Raises CorruptFileError.

    Clauses: META-34, META-38, RD-11.
    """
    if SYNC_IS_DIGEST in data:
        sync = data[-SYNC_BYTES:]
        digest = _digest(data.replace(sync, b""))
        if digest != sync:
            raise CorruptFileError("checksum", at=at, expected=sync.hex(), found=digest.hex())
    return Container(io.BytesIO(data), len(data), at, most_unpacked=MOST_UNPACKED_BYTES)


class Container:
    """An open container, which gives its schema, and its records block by block, so that memory holds one block.

    ``file``: a binary file, read from its current position. ``size``: in bytes. ``at``: its path, for errors.
    ``most_unpacked``: bytes that all blocks together may unpack to, None for no limit. Raises CorruptFileError.
    """

    def __init__(self, file: BinaryIO, size: int, at: str, most_unpacked: int | None = None) -> None:
        self._source = _Source(file, size, at)
        self._at, self._most_unpacked = at, most_unpacked
        metadata, self._sync = _header(self._source)
        self._codec = metadata.get(b"avro.codec", b"null")
        text = metadata.get(b"avro.schema", b"")
        try:
            schema, self._physical, self._parsed = _opened(text)
        except Exception as error:  # whatever the library raises on a damaged schema
            raise CorruptFileError("Avro schema", at=at, expected="a schema", found=_brief(error)) from None
        # Paimon declares the rows of a data file nullable, but none of them is null.
        self._nullable = isinstance(schema, list) and len(schema) == 2 and schema[0] == "null"
        self.schema: dict[str, Any] = schema[1] if self._nullable else schema
        if not isinstance(self.schema, dict) or self.schema.get("type") != "record":
            raise CorruptFileError("Avro schema", at=at, expected="a record", found=_brief(self.schema))

    def blocks(self, fields: Collection[str] | None = None) -> Iterator[list[dict[str, Any]]]:
        """Yield the records of each block. ``fields``: the names to decode, None for all."""
        wanted = None
        if fields is not None:
            chosen = [field for field in self.schema["fields"] if field["name"] in fields]
            record: Any = {**self.schema, "fields": chosen}
            wanted = _parse(json.dumps(["null", record] if self._nullable else record).encode())
        for count, block in self.unpacked_blocks():
            yield self.records(count, block, wanted)

    def records(self, count: int, block: bytes, wanted: Any = None) -> list[dict[str, Any]]:
        """Return the ``count`` records of an unpacked block. Raises CorruptFileError."""
        return _records(block, self._parsed, wanted, count, self._at)

    def columns(self, count: int, block: bytes, starts: npt.NDArray[np.int64]) -> Records:
        """Return the records of an unpacked block as columns, as `decode_columns`. Raises NotInColumns."""
        if self._nullable:
            raise NotInColumns
        return decode_columns(block, self._physical, count, starts)

    def unpacked_blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of records and the bytes of each block."""
        source = self._source
        unpacked_bytes = 0
        while source.left:
            count, length = source.long("block count"), source.long("block length")
            block = _unpacked(source.take(length, "block"), self._codec, self._at)
            source.expect(self._sync, "sync marker")
            unpacked_bytes += len(block)
            if self._most_unpacked is not None and unpacked_bytes > self._most_unpacked:
                raise CorruptFileError(
                    "blocks",
                    at=self._at,
                    expected=f"at most {self._most_unpacked} bytes unpacked",
                    found="more",
                )
            yield count, block


def _header(source: _Source) -> tuple[dict[bytes, bytes], bytes]:
    source.expect(MAGIC, "magic")
    metadata: dict[bytes, bytes] = {}
    while count := source.long("metadata"):
        if count < 0:
            source.long("metadata length")
        for _ in range(abs(count)):
            key = source.take(source.long("metadata key"), "metadata key")
            metadata[key] = source.take(source.long("metadata value"), "metadata value")
    return metadata, source.take(SYNC_BYTES, "sync marker")


def _records(block: bytes, schema: Any, wanted: Any, count: int, at: str) -> list[Any]:
    # A record takes at least one byte, so a greater count is damage, and would take long to decode.
    if not 0 <= count <= len(block):
        raise CorruptFileError("block count", at=at, expected=f"at most {len(block)}", found=count)
    if not count:
        records: list[Any] = []
        end = 0
    else:
        # A block with its count before it and a zero after it is an encoded array: one call decodes it.
        head = encode_long(count)
        stream = io.BytesIO(head + block + b"\0")
        try:
            items = [None if one is None else {"type": "array", "items": one} for one in (schema, wanted)]
            records = fastavro.schemaless_reader(stream, *items)
        except Exception as error:  # whatever the library raises on damaged records
            raise CorruptFileError(
                "Avro record", at=at, expected=f"{count} records", found=_brief(error)
            ) from None
        end = stream.tell() - len(head) - 1
    if end != len(block) or len(records) != count:
        raise CorruptFileError("block length", at=at, expected=end, found=len(block))
    return records


def _unpacked(block: bytes, codec: bytes, at: str) -> bytes:
    if codec not in CODECS:
        raise CorruptFileError("Avro codec", at=at, expected=" or ".join(CODECS_NAMED), found=_brief(codec))
    try:
        return CODECS[codec](block)
    except Exception as error:  # whatever the library raises on a damaged frame
        raise CorruptFileError(
            f"{codec.decode()} block", at=at, expected="a frame", found=_brief(error)
        ) from None


def _snappy(block: bytes) -> bytes:
    """Unpack a snappy block, which begins with the unpacked length and ends with the CRC-32 of the unpacked bytes."""
    length = shift = 0
    for byte in block[:5]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if length > min(MOST_TIMES * len(block) + ALWAYS_ALLOWED, MOST_UNPACKED_BYTES):
        raise ValueError(f"{length} bytes of {len(block)}")
    data: bytes = pa.decompress(block[:-4], length, codec="snappy", asbytes=True)
    if zlib.crc32(data) != int.from_bytes(block[-4:], "big"):
        raise ValueError("bytes with another CRC-32")
    return data


CODECS: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    b"null": bytes,
    b"zstandard": lambda block: unpacked(block, zstd.ZstdDecompressor()),
    # Avro requires the block without zlib's frame; some writers leave parts of the frame's checksum at its end.
    b"deflate": lambda block: unpacked(block, zlib.decompressobj(-15), rest=4),
    b"snappy": _snappy,
    b"bzip2": lambda block: unpacked(block, bz2.BZ2Decompressor()),
    b"xz": lambda block: unpacked(block, lzma.LZMADecompressor()),
}
"""How the blocks of a container are unpacked, by codec. Older versions of Paimon wrote snappy."""

CODECS_NAMED: Final = tuple(name.decode() for name in CODECS)


@lru_cache(maxsize=64)
def _opened(text: bytes) -> tuple[Any, Any, Any]:
    """Return the schema of a container without references to records: as JSON, without logical types, and parsed."""
    schema = _written_out(json.loads(text), "", frozenset(), {}, itertools.count())
    return schema, _physical(schema), _parse(json.dumps(schema).encode())


def _written_out(
    part: Any, space: str, within: frozenset[str], known: dict[str, Any], numbers: Iterator[int]
) -> Any:
    """Return a part of a schema in which a record that is only named stands as a whole, under a name of its own.

    ``space``: its namespace. ``within``: the records around it. ``known``: gets each record, and its namespace, by
    name. ``numbers``: of records. Raises ValueError for too many.
    """

    def full(name: str, space: str) -> str:
        return name if "." in name or not space else f"{space}.{name}"

    if isinstance(part, list):
        return [_written_out(one, space, within, known, numbers) for one in part]
    if isinstance(part, str):
        name = full(part, space)
        if name in within or name not in known:
            return part
        record, of = known[name]
        return _written_out(record, of, within, known, numbers)
    if part["type"] != "record":
        inside = ("type", "items", "values")
        return {
            key: _written_out(value, space, within, known, numbers) if key in inside else value
            for key, value in part.items()
        }
    name = full(part["name"], part.get("namespace", space))
    number = next(numbers)
    if number > MOST_RECORDS:
        raise ValueError(f"more than {MOST_RECORDS} records")
    again = f"{name}.again{number}" if name in known else name
    known[name] = part, space
    inner = name.rpartition(".")[0]
    fields = [
        {**field, "type": _written_out(field["type"], inner, within | {name}, known, numbers)}
        for field in part["fields"]
    ]
    return {**part, "name": again, "fields": fields}


@lru_cache(maxsize=64)
def _parse(text: bytes) -> Any:
    """Return a parsed schema without logical types, so that times are decoded as integers."""
    schema = fastavro.parse_schema(_physical(json.loads(text)))
    require_bounded(schema)
    return schema


def _physical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _physical(part) for name, part in schema.items() if name != "logicalType"}
    return [_physical(part) for part in schema] if isinstance(schema, list) else schema


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=SYNC_BYTES).digest()


def _brief(found: object) -> str:
    return (str(found).strip().partition("\n")[0] or type(found).__name__)[:120]


class _Source:
    """A cursor over the bytes of a container that raises CorruptFileError instead of reading past the end."""

    def __init__(self, file: BinaryIO, size: int, at: str) -> None:
        self.at, self.left = at, size
        self._file = file

    def take(self, length: int, what: str) -> bytes:
        data = self._file.read(length) if 0 <= length <= self.left else b""
        if len(data) != length:
            raise CorruptFileError(
                what, at=self.at, expected=f"{length} bytes", found=f"{self.left} bytes left"
            )
        self.left -= length
        return data

    def expect(self, expected: bytes, what: str) -> None:
        found = self.take(min(len(expected), self.left), what)
        if found != expected:
            raise CorruptFileError(what, at=self.at, expected=expected.hex(), found=found.hex())

    def long(self, what: str) -> int:
        number = 0
        for i in range(LONGEST_VARINT):
            (byte,) = self.take(1, what)
            number |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise CorruptFileError(what, at=self.at, expected=f"at most {LONGEST_VARINT} bytes", found="more")
