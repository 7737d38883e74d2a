"""The content of delete blocks: a version, a length, an Avro list of deleted keys, and a tail.

A delete has an **ordering value**, a union of wrapped types. The integer 0 and null mean none: such a delete takes
effect by its place in the log, whatever the ordering values of other records are. A value of another type is compared
with the ordering field of the table.

Versions 1 and 2 are objects of Java's Kryo, of tables before Hudi 0.14, and refused.

Clauses: LOG-10, LOG-11.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import fastavro
from pktable_spec.errors import CorruptFileError, InvalidRequestError

DELETE_VERSION: Final = 3
_HEAD: Final = struct.Struct(">ii")

NAMESPACE: Final = "org.apache.hudi.avro.model"
WRAPPED: Final = {
    "Boolean": "boolean",
    "Int": "int",
    "Long": "long",
    "Float": "float",
    "Double": "double",
    "Bytes": "bytes",
    "String": "string",
    "Date": "int",
    "Decimal": "bytes",
    "TimeMicros": "long",
    "TimestampMicros": "long",
}
"""The types of an ordering value, in the order of the union behind null, and how each is stored."""

DECIMAL_SCALE: Final = 15  # of the wrapped decimal

_UNION: Final = [
    "null",
    *(
        {
            "type": "record",
            "name": f"{NAMESPACE}.Ordering{name}Wrapper",
            "fields": [{"name": "value", "type": stored}],
        }
        for name, stored in WRAPPED.items()
    ),
]
_RECORD: Final = {
    "type": "record",
    "name": f"{NAMESPACE}.HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"]},
        {"name": "orderingVal", "type": _UNION},
    ],
}
_LIST: Final = fastavro.parse_schema(
    {
        "type": "record",
        "name": f"{NAMESPACE}.HoodieDeleteRecordList",
        "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": _RECORD}}],
    }
)


@dataclass(frozen=True, slots=True)
class Delete:
    """One deleted key. ``kind``: the type of its ordering value, a key of `WRAPPED`, None without one."""

    key: str
    partition: str | None
    kind: str | None = None
    value: Any = None

    @property
    def by_commit_time(self) -> bool:
        """Whether the delete takes effect by its place in the log. Clauses: LOG-11."""
        return self.kind is None or (self.kind == "Int" and self.value == 0)


@dataclass(frozen=True, slots=True)
class DeleteContent:
    """The parts of a content. ``tail``: the bytes behind the list."""

    version: int
    deletes: Sequence[Delete]
    tail: bytes | memoryview = b""


def decode_delete_content(content: bytes | memoryview, *, at: str) -> DeleteContent:
    """Return the parts of the content of a delete block.

    Raises CorruptFileError, and InvalidRequestError for versions 1 and 2. Clauses: LOG-10.
    """
    view = memoryview(content)
    if len(view) < _HEAD.size:
        raise CorruptFileError("delete block", at=at, expected=f"{_HEAD.size} bytes or more", found=len(view))
    version, length = _HEAD.unpack_from(view)
    if version in (1, 2):
        raise InvalidRequestError(
            f"{at}: delete blocks of version {version} (Kryo, before Hudi 0.14) are not supported; "
            "compact the table with Hudi first"
        )
    if version != DELETE_VERSION:
        raise CorruptFileError("delete block version", at=at, expected=DELETE_VERSION, found=version)
    if not 0 <= length <= len(view) - _HEAD.size:
        raise CorruptFileError(
            "delete list length", at=at, expected=f"at most {len(view) - _HEAD.size}", found=length
        )
    end = _HEAD.size + length
    return DeleteContent(version, _decoded(view[_HEAD.size : end], at), view[end:])


def _decoded(payload: memoryview, at: str) -> list[Delete]:
    stream = io.BytesIO(payload)
    try:
        found: Any = fastavro.schemaless_reader(stream, _LIST, None, return_record_name=True)
        deletes = [_delete(one) for one in found["deleteRecordList"]]
    except Exception as error:  # whatever the library raises on damaged records
        raise CorruptFileError(
            "delete list", at=at, expected="deleted keys", found=str(error)[:120]
        ) from None
    if stream.tell() != len(payload):
        raise CorruptFileError("delete list length", at=at, expected=stream.tell(), found=len(payload))
    return deletes


def _delete(record: Any) -> Delete:
    if record["recordKey"] is None:
        raise ValueError("a delete without a key")
    if record["orderingVal"] is None:
        return Delete(record["recordKey"], record["partitionPath"])
    name, wrapped = record["orderingVal"]
    kind = name.removeprefix(f"{NAMESPACE}.Ordering").removesuffix("Wrapper")
    return Delete(record["recordKey"], record["partitionPath"], kind, wrapped["value"])


def encode_delete_content(content: DeleteContent) -> bytes:
    """Return the bytes of the content of a delete block. Clauses: LOG-10."""
    stream = io.BytesIO()
    records = [
        {
            "recordKey": one.key,
            "partitionPath": one.partition,
            "orderingVal": one.kind and (f"{NAMESPACE}.Ordering{one.kind}Wrapper", {"value": one.value}),
        }
        for one in content.deletes
    ]
    fastavro.schemaless_writer(stream, _LIST, {"deleteRecordList": records})
    payload = stream.getvalue()
    return b"".join((_HEAD.pack(content.version, len(payload)), payload, content.tail))
