"""The files of the history, where actions go that have left the timeline.

``manifest_N`` names Parquet files, and the greatest N counts; ``_version_`` says it once more, for Hudi. A Parquet file
``FIRST_LAST_LEVEL.parquet`` has one row for each action, in the order of their instants.

Clauses: LOG-71.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pktable.format.bounds import is_file_name
from pktable_spec.errors import CorruptFileError

VERSION_FILE, MANIFEST = "_version_", "manifest_"
HISTORY_FILE: Final = re.compile(r"(?P<first>[0-9]+)_(?P<last>[0-9]+)_(?P<level>[0-9]{1,3})\.parquet")
INSTANT, COMPLETION, METADATA = "instantTime", "completionTime", "metadata"

_FIELDS: Final = {
    **dict.fromkeys((INSTANT, COMPLETION, "action"), "string"),
    **dict.fromkeys((METADATA, "plan"), "bytes"),
}
_AVRO: Final = {
    "type": "record",
    "name": "HoodieLSMTimelineInstant",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        *({"name": name, "type": ["null", kind], "default": None} for name, kind in _FIELDS.items()),
        {"name": "version", "type": "int", "default": 1},
    ],
}
SCHEMA: Final = pa.schema(
    [
        *(pa.field(name, pa.binary() if kind == "bytes" else pa.string()) for name, kind in _FIELDS.items()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A Parquet file of the history. ``first``, ``last``: the least and the greatest instant in it."""

    name: str
    size: int
    first: str
    last: str
    level: int


@dataclass(frozen=True, slots=True)
class ArchivedAction:
    """A complete action. ``metadata``, ``plan``: the bytes of its completed file and of its requested file."""

    instant: str
    completion: str
    action: str
    metadata: bytes
    plan: bytes | None


def history_file(name: str, size: int) -> HistoryFile | None:
    """Return the parts of a file name of the history, None for any other name."""
    found = HISTORY_FILE.fullmatch(name)
    return (
        None if found is None else HistoryFile(name, size, found["first"], found["last"], int(found["level"]))
    )


def history_name(first: str, last: str, level: int) -> str:
    """Return the name of a Parquet file of the history."""
    return f"{first}_{last}_{level}.parquet"


def manifests(names: Sequence[str]) -> list[int]:
    """Return the numbers of the manifests among ``names``, ascending."""
    numbers = (name.removeprefix(MANIFEST) for name in names if name.startswith(MANIFEST))
    return sorted(int(number) for number in numbers if number.isascii() and number.isdigit())


def decode_manifest(data: bytes, *, at: str) -> list[HistoryFile]:
    """Return the files that a manifest names, in the order of their instants.

    Raises CorruptFileError. Clauses: LOG-71.
    """
    try:
        content: Any = json.loads(data)
        given = [(str(one["fileName"]), int(one.get("fileLen") or 0)) for one in content["files"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError("manifest of the history", at=at, expected="files", found=error) from None
    files = []
    for name, size in given:
        found = history_file(name, size)
        if found is None or not is_file_name(name):
            raise CorruptFileError("file name", at=at, expected="FIRST_LAST_LEVEL.parquet", found=name)
        files.append(found)
    return sorted(files, key=lambda one: (one.first, one.last))


def encode_manifest(files: Sequence[HistoryFile]) -> bytes:
    """Return a manifest. Clauses: LOG-71."""
    return json.dumps(
        {"files": [{"fileName": one.name, "fileLen": one.size} for one in files]}, indent=2
    ).encode()


def history_table(actions: Sequence[ArchivedAction]) -> pa.Table:
    """Return actions as the columns of a file of the history."""
    rows = [
        {
            INSTANT: one.instant,
            COMPLETION: one.completion,
            "action": one.action,
            METADATA: one.metadata,
            "plan": one.plan,
            "version": 1,
        }
        for one in actions
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def encode_history(table: pa.Table) -> bytes:
    """Return a Parquet file of the history. Clauses: LOG-71."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, SCHEMA, compression="zstd", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"parquet.avro.schema": json.dumps(_AVRO)})
    return sink.getvalue()


def decode_history(source: Any, columns: Sequence[str] | None = None, *, at: str) -> pa.Table:
    """Return a file of the history, or some columns of it. Raises CorruptFileError. Clauses: LOG-71."""
    try:
        found = pq.ParquetFile(source).read(None if columns is None else list(columns))
        return found if columns is not None else found.cast(SCHEMA)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError("history", at=at, expected="instants", found=error) from None
