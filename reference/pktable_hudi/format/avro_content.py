"""The content of Avro blocks: a version, a number of records, each record behind its length, and a tail.

Every reader stops after the last counted record, so a tail of any bytes may follow; `log_index` puts the index there.
The version must be 3: Hudi's Java readers take any, hudi-rs takes no other.

Clauses: LOG-7, LOG-8, LOG-9.
"""

from __future__ import annotations

import contextlib
import io
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable.format.avro import encode_long
from pktable.format.bounds import require_bounded
from pktable_spec.errors import CorruptFileError

from pktable_hudi.format.avro_rows import framed_rows

BLOCK_VERSION: Final = 3
_HEAD: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AvroContent:
    """The parts of a content. ``records``: each as Avro encodes it. ``tail``: the bytes behind the last record."""

    version: int
    records: Sequence[bytes | memoryview]
    tail: bytes | memoryview = b""


def record_bounds(content: bytes | memoryview, *, at: str) -> tuple[int, Numbers, Numbers]:
    """Return the version of a content, and where each record starts and how long it is, in bytes.

    Raises CorruptFileError. Clauses: LOG-7.
    """
    size = len(content)
    if size < _HEAD.size:
        raise CorruptFileError("Avro block", at=at, expected=f"{_HEAD.size} bytes or more", found=size)
    version, count = _HEAD.unpack_from(content)
    if not 0 <= count <= (size - _HEAD.size) // _LENGTH.size:
        raise CorruptFileError("record count", at=at, expected="a number of records that fit", found=count)
    places = _places(content, count)
    starts = places[:-1] + _LENGTH.size
    lengths = places[1:] - starts
    wrong = np.flatnonzero((lengths < 0) | (places[1:] > size))
    if len(wrong):
        at_most, found = size - int(starts[wrong[0]]), int(lengths[wrong[0]])
        raise CorruptFileError("record length", at=at, expected=f"at most {at_most}", found=found)
    if len(starts) < count:
        raise CorruptFileError("Avro block", at=at, expected=f"{count} records", found=len(starts))
    return version, starts, lengths


def _places(content: bytes | memoryview, count: int) -> Numbers:
    """Return where each of ``count`` records and its length begin, then where the last one ends.

    They are fewer if a length would lie outside the content. Every length is taken as it is.
    """
    place, unpack, size = _HEAD.size, _LENGTH.unpack_from, _LENGTH.size
    places, known = [place] * (count + 1), 0
    with contextlib.suppress(struct.error):
        for known in range(1, count + 1):
            place += size + unpack(content, place)[0]
            places[known] = place
        known = count + 1
    return np.array(places[:known], np.int64)


def decode_avro_content(content: bytes | memoryview, *, at: str) -> AvroContent:
    """Return the parts of the content of an Avro block. Raises CorruptFileError. Clauses: LOG-7, LOG-8."""
    version, starts, lengths = record_bounds(content, at=at)
    view = memoryview(content)
    ends = (starts + lengths).tolist()
    records = [view[start:end] for start, end in zip(starts.tolist(), ends, strict=True)]
    return AvroContent(version, records, view[ends[-1] if ends else _HEAD.size :])


def encode_avro_content(content: AvroContent) -> bytes:
    """Return the bytes of the content of an Avro block. Clauses: LOG-7."""
    parts: list[Any] = [_HEAD.pack(content.version, len(content.records))]
    for record in content.records:
        parts += [_LENGTH.pack(len(record)), record]
    return b"".join([*parts, content.tail])


def encode_rows(rows: pa.Table, schema: Mapping[str, Any], tail: bytes = b"") -> bytes:
    """Return the content of an Avro block of ``rows``. Raises as `framed_rows`. Clauses: LOG-7, LOG-9."""
    return b"".join((_HEAD.pack(BLOCK_VERSION, rows.num_rows), framed_rows(rows, schema), tail))


def decode_records(
    records: Sequence[bytes | memoryview], schema: str, *, at: str, names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return records as dicts. Times are integers and decimals bytes, as Avro stores them.

    ``schema``: that of the block's header. ``names``: the fields to decode, None for all. Raises CorruptFileError.
    Clauses: LOG-7.
    """
    try:
        items = [parsed_schema(schema, None), parsed_schema(schema, names and tuple(names))]
    except Exception as error:  # whatever the library raises on a damaged schema
        raise CorruptFileError(
            "Avro schema", at=at, expected="that of a record", found=_brief(error)
        ) from None
    # Behind their count and before a zero they are an encoded array, which one call decodes.
    data = b"".join([encode_long(len(records)), *records, b"\0"]) if records else b"\0"
    stream = io.BytesIO(data)
    try:
        found: list[dict[str, Any]] = fastavro.schemaless_reader(
            stream, *({"type": "array", "items": one} for one in items)
        )
    except Exception as error:  # whatever the library raises on damaged records
        raise CorruptFileError(
            "Avro records", at=at, expected=f"{len(records)} records", found=_brief(error)
        ) from None
    if stream.tell() != len(data) or len(found) != len(records):
        raise CorruptFileError("Avro records", at=at, expected=f"{len(data)} bytes", found=stream.tell())
    return found


@lru_cache(maxsize=256)
def parsed_schema(schema: str, names: tuple[str, ...] | None) -> Any:
    """Return a record's schema for fastavro, without logical types, and with the fields ``names`` only if given.

    Raises ValueError, or whatever the library raises, for a damaged schema.
    """
    loaded = json.loads(schema)
    if names is not None:
        loaded = {**loaded, "fields": [one for one in loaded["fields"] if one["name"] in names]}
    found = fastavro.parse_schema(_physical(loaded))
    require_bounded(found)
    if found["type"] != "record":
        raise ValueError(f"a {found['type']}")
    return found


def _physical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _physical(part) for name, part in schema.items() if name != "logicalType"}
    return [_physical(part) for part in schema] if isinstance(schema, list) else schema


def _brief(found: object) -> str:
    return (str(found).strip().partition("\n")[0] or type(found).__name__)[:120]
