"""The content of Avro blocks: a version, a number of records, each record behind its length, and a tail.

Every reader stops after the last counted record, so a tail of any bytes may follow; `log_index` puts the index there.
The version must be 3: Hudi's Java readers take any, hudi-rs takes no other.

Clauses: LOG-7, LOG-8, LOG-9.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import fastavro
from pktable_spec.errors import CorruptFileError

from pktable.format.avro import encode_long
from pktable.format.bounds import require_bounded

BLOCK_VERSION: Final = 3
_HEAD: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class AvroContent:
    """The parts of a content. ``records``: each as Avro encodes it. ``tail``: the bytes behind the last record."""

    version: int
    records: Sequence[bytes | memoryview]
    tail: bytes | memoryview = b""


def decode_avro_content(content: bytes | memoryview, *, at: str) -> AvroContent:
    """Return the parts of the content of an Avro block. Raises CorruptFileError. Clauses: LOG-7, LOG-8."""
    view = memoryview(content)
    if len(view) < _HEAD.size:
        raise CorruptFileError("Avro block", at=at, expected=f"{_HEAD.size} bytes or more", found=len(view))
    version, count = _HEAD.unpack_from(view)
    if not 0 <= count <= (len(view) - _HEAD.size) // _LENGTH.size:
        raise CorruptFileError("record count", at=at, expected="a number of records that fit", found=count)
    records: list[memoryview] = []
    start = _HEAD.size
    for i in range(count):
        if len(view) - start < _LENGTH.size:
            raise CorruptFileError("Avro block", at=at, expected=f"{count} records", found=i)
        (length,) = _LENGTH.unpack_from(view, start)
        start += _LENGTH.size
        if not 0 <= length <= len(view) - start:
            raise CorruptFileError(
                "record length", at=at, expected=f"at most {len(view) - start}", found=length
            )
        records.append(view[start : start + length])
        start += length
    return AvroContent(version, records, view[start:])


def encode_avro_content(content: AvroContent) -> bytes:
    """Return the bytes of the content of an Avro block. Clauses: LOG-7."""
    parts: list[Any] = [_HEAD.pack(content.version, len(content.records))]
    for record in content.records:
        parts += [_LENGTH.pack(len(record)), record]
    return b"".join([*parts, content.tail])


def decode_records(
    records: Sequence[bytes | memoryview], schema: str, *, at: str, names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return records as dicts. Times are integers and decimals bytes, as Avro stores them.

    ``schema``: that of the block's header. ``names``: the fields to decode, None for all. Raises CorruptFileError.
    Clauses: LOG-7.
    """
    written, wanted = parsed_schema(schema, None, at), parsed_schema(schema, names and tuple(names), at)
    # Behind their count and before a zero they are an encoded array, which one call decodes.
    data = b"".join([encode_long(len(records)), *records, b"\0"]) if records else b"\0"
    items = [{"type": "array", "items": one} for one in (written, wanted)]
    stream = io.BytesIO(data)
    try:
        found: list[dict[str, Any]] = fastavro.schemaless_reader(stream, *items)
    except Exception as error:  # whatever the library raises on damaged records
        raise CorruptFileError(
            "Avro records", at=at, expected=f"{len(records)} records", found=_brief(error)
        ) from None
    if stream.tell() != len(data) or len(found) != len(records):
        raise CorruptFileError("Avro records", at=at, expected=f"{len(data)} bytes", found=stream.tell())
    return found


@lru_cache(maxsize=256)
def parsed_schema(schema: str, names: tuple[str, ...] | None, at: str) -> Any:
    """Return a record's schema for fastavro, without logical types, and with the fields ``names`` only if given.

    Raises CorruptFileError.
    """
    try:
        loaded = json.loads(schema)
        if names is not None:
            loaded = {**loaded, "fields": [one for one in loaded["fields"] if one["name"] in names]}
        found = fastavro.parse_schema(_physical(loaded))
        require_bounded(found)
        if found["type"] != "record":
            raise ValueError(f"a {found['type']}")
    except Exception as error:  # whatever the library raises on a damaged schema
        raise CorruptFileError(
            "Avro schema", at=at, expected="that of a record", found=_brief(error)
        ) from None
    return found


def _physical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _physical(part) for name, part in schema.items() if name != "logicalType"}
    return [_physical(part) for part in schema] if isinstance(schema, list) else schema


def _brief(found: object) -> str:
    return (str(found).strip().partition("\n")[0] or type(found).__name__)[:120]
