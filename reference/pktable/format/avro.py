"""Avro object containers: records behind a header that carries their schema.

Fastavro reads and writes the records; the container around them is read here, because its checks are what
damage shows by, and because a schema then needs to be parsed once and not once per file.

What we write has one block, and a sync marker that is the digest of everything else in the file. Avro
wants sixteen bytes that do not occur in the data, no more; a metadata entry tells our reader to check
them. A file of others has no such digest: there the caller's file size shows a missing block.

Clauses: META-3, META-13, META-14, RD-11.
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import fastavro
from pktable_spec.errors import CorruptFileError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
LONGEST_VARINT: Final = 10
COMPRESSOR: Final = zstd.ZstdCompressor()  # kept: making one costs more than compressing a small manifest


def encode_long(number: int) -> bytes:
    """Return ``number`` as Avro writes it: zigzag, 7 bits per byte, lowest first."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _encode_entry(key: str, value: bytes) -> bytes:
    return encode_long(len(key)) + key.encode() + encode_long(len(value)) + value


SYNC_IS_DIGEST: Final = _encode_entry("pktable.sync", b"blake2b")


class RecordSchema:
    """A schema to write with: parsed once, and its container header up to the sync marker."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self.text = json.dumps(schema, separators=(",", ":"))
        self.parsed = _parse(self.text.encode())
        entries = [
            _encode_entry("avro.schema", self.text.encode()),
            _encode_entry("avro.codec", b"zstandard"),
        ]
        self.header = MAGIC + encode_long(3) + b"".join(entries) + SYNC_IS_DIGEST + encode_long(0)


def encode_record(schema: RecordSchema, record: Mapping[str, Any]) -> bytes:
    """Return one record as it lies in a block."""
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, schema.parsed, record, disable_tuple_notation=True)
    return encoded.getvalue()


def encode_container(schema: RecordSchema, records: Iterable[bytes]) -> bytes:
    """Return a container of ``records``, each from `encode_record`. Clauses: META-3, META-13."""
    encoded = list(records)
    count = len(encoded)
    framed = b""
    if count:
        packed = COMPRESSOR.compress(b"".join(encoded), COMPRESSOR.FLUSH_FRAME)
        framed = encode_long(count) + encode_long(len(packed)) + packed
    sync = _digest(schema.header + framed)
    return schema.header + sync + framed + (sync if count else b"")


def decode_container(data: bytes, at: str, *, size: int | None = None) -> list[dict[str, Any]]:
    """Return the records of a container, in order. Raises CorruptFileError.

    ``size``: the length of the file in bytes as its reference says, where it does.
    Clauses: META-3, META-13, RD-11.
    """
    if size is not None and len(data) != size:
        raise CorruptFileError("file size", at=at, expected=size, found=len(data))
    if SYNC_IS_DIGEST in data and _digest(data.replace(data[-SYNC_BYTES:], b"")) != data[-SYNC_BYTES:]:
        raise CorruptFileError("checksum", at=at, expected=data[-SYNC_BYTES:].hex(), found="another")
    source = _Source(data, at)
    metadata, sync = _header(source)
    codec = metadata.get(b"avro.codec", b"null")
    try:
        schema = _parse(metadata.get(b"avro.schema", b""))
    except Exception as error:  # whatever the library raises on a damaged schema
        raise CorruptFileError("Avro schema", at=at, expected="a schema", found=_brief(error)) from None
    if schema.get("type") != "record":
        raise CorruptFileError("Avro schema", at=at, expected="a record", found=schema.get("type"))
    records: list[dict[str, Any]] = []
    while source.position < len(data):
        count, length = source.long("block count"), source.long("block length")
        block = _unpacked(source.take(length, "block"), codec, at)
        source.expect(sync, "sync marker")
        records += _records(block, schema, count, at)
    return records


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


def _records(block: bytes, schema: Any, count: int, at: str) -> list[Any]:
    stream = io.BytesIO(block)
    records: list[Any] = []
    # A record of ours takes at least a byte, so that a damaged count cannot keep us busy.
    if not 0 <= count <= len(block):
        raise CorruptFileError("block count", at=at, expected=f"at most {len(block)}", found=count)
    try:
        for _ in range(count):
            records.append(fastavro.schemaless_reader(stream, schema, None))
    except Exception as error:  # whatever the library raises on damaged records
        raise CorruptFileError(
            "Avro record", at=at, expected=f"{count} records", found=_brief(error)
        ) from None
    if stream.tell() != len(block):
        raise CorruptFileError("block length", at=at, expected=stream.tell(), found=len(block))
    return records


def _unpacked(block: bytes, codec: bytes, at: str) -> bytes:
    if codec == b"null":
        return block
    if codec != b"zstandard":
        raise CorruptFileError("Avro codec", at=at, expected="zstandard or null", found=_brief(codec))
    try:
        return zstd.decompress(block)
    except Exception as error:  # whatever the library raises on a damaged frame
        raise CorruptFileError("zstandard block", at=at, expected="a frame", found=_brief(error)) from None


@lru_cache(maxsize=64)
def _parse(text: bytes) -> Any:
    """Return a parsed schema without logical types: times stay the integers they are stored as."""
    return fastavro.parse_schema(_physical(json.loads(text)))


def _physical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _physical(part) for name, part in schema.items() if name != "logicalType"}
    return [_physical(part) for part in schema] if isinstance(schema, list) else schema


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=SYNC_BYTES).digest()


def _brief(found: object) -> str:
    return (str(found).strip().partition("\n")[0] or type(found).__name__)[:120]


class _Source:
    """A cursor over the bytes of a container that refuses to read past them."""

    def __init__(self, data: bytes, at: str) -> None:
        self.data, self.at, self.position = data, at, 0

    def take(self, length: int, what: str) -> bytes:
        left = len(self.data) - self.position
        if not 0 <= length <= left:
            raise CorruptFileError(what, at=self.at, expected=f"{length} bytes", found=f"{left} bytes left")
        self.position += length
        return self.data[self.position - length : self.position]

    def expect(self, expected: bytes, what: str) -> None:
        found = self.take(min(len(expected), len(self.data) - self.position), what)
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
