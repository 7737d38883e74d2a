"""Bound the memory, the work and the paths that a few damaged bytes can make a reader use.

* A block of a kilobyte can unpack to gigabytes: `unpacked` limits how much.
* A schema can define an array of items without bytes: ten bytes stand for a quadrillion of items. It can define a
  record that contains itself: a reader recurses once per byte. `require_bounded` refuses both.
* A name can lead out of its directory: `is_file_name` refuses such names.

No writer of tables does any of this, so it is damage.

Clauses: RD-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

MOST_TIMES: Final = 4096
"""How many times its size a block may unpack to. Metadata unpacks to about 50 times its size."""

ALWAYS_ALLOWED: Final = 1 << 20
"""Bytes that a block of any size may unpack to."""

MOST_UNPACKED_BYTES: Final = 256 << 20
"""Bytes that a block may unpack to, whatever its size. Writers begin a new manifest or block long before."""

MOST_JSON_BYTES: Final = 16 << 20
"""Bytes of a schema, a snapshot, a tag or a hint. A schema of ten thousand columns has one or two million."""

MOST_METADATA_BYTES: Final = (1 << 31) - 1
"""Bytes of any other file that is read whole. The offsets in a DV index file are of 32 bits."""

LEAST_BYTES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("boolean", "int", "long", "bytes", "string", "enum"), 1),
    "null": 0,
    "float": 4,
    "double": 8,
}
"""The fewest bytes that a value of an Avro type takes."""


LONGEST_NAME: Final = 255
"""Bytes of a file's name, which is the limit of common file systems."""


def is_file_name(text: str) -> bool:
    """Return whether ``text`` is the name of a file, without a path."""
    if "/" in text or "\\" in text or "\0" in text or text in ("", ".", ".."):
        return False
    try:
        # Python has bytes of a name that are no UTF-8 as characters of its own. No other half of a pair is a name.
        return len(text.encode(errors="surrogateescape")) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False


def require_bounded_rows(rows: int, size_bytes: int) -> None:
    """Raise ValueError if a columnar file of this size states more rows than any writer stores in it.

    A column that never changes takes next to no bytes for any number of rows. Records have keys or names, which differ.
    """
    most = MOST_TIMES * size_bytes + ALWAYS_ALLOWED
    if rows > most:
        raise ValueError(f"{rows} rows in {size_bytes} bytes")


class Decompressor(Protocol):
    """The interface that the standard library's decompressors share."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def unpacked(block: bytes, decompressor: Decompressor, rest: int = 0) -> bytes:
    """Return a block unpacked. Raises ValueError if that is too much, or if the block is incomplete.

    ``rest``: how many bytes may follow the compressed data.
    """
    most = min(MOST_TIMES * len(block) + ALWAYS_ALLOWED, MOST_UNPACKED_BYTES)
    data = decompressor.decompress(block, most)
    if not decompressor.eof:
        raise ValueError(f"more than {most} bytes" if len(data) >= most else "a frame that does not end")
    if len(decompressor.unused_data) > rest:
        raise ValueError(f"{len(decompressor.unused_data)} bytes after the frame")
    return data


def require_bounded(schema: Any) -> None:
    """Raise ValueError if a parsed Avro schema lets a few bytes stand for many values, or a record contain itself."""
    if not _least_bytes(schema, {}):
        raise ValueError("records that take no bytes")


def _least_bytes(schema: Any, named: dict[str, int | None]) -> int:
    """Return the fewest bytes of a value. ``named``: those of the named types so far, None while being defined."""
    if isinstance(schema, list):
        for branch in schema:
            _least_bytes(branch, named)
        return 1
    if isinstance(schema, str):
        found = LEAST_BYTES.get(schema, named.get(schema))
        if found is None:
            raise ValueError(f"type {schema!r} inside itself")
        return found
    kind, name = schema["type"], schema.get("name", "")
    if kind in ("record", "error"):
        named[name] = None
        named[name] = sum(_least_bytes(field["type"], named) for field in schema["fields"])
        return named[name] or 0
    if kind in ("fixed", "enum"):
        named[name] = int(schema["size"]) if kind == "fixed" else 1
        return named[name] or 0
    if kind == "array" and not _least_bytes(schema["items"], named):
        raise ValueError("an array whose items take no bytes")
    if kind == "map":
        _least_bytes(schema["values"], named)
    return 1 if kind in ("array", "map") else _least_bytes(kind, named)
