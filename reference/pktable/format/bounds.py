"""Bounds for what a few bytes of others can ask of us: memory for a block, work for records, other people's files.

A block of a kilobyte can unpack to gigabytes. A schema can say that an array has items of no bytes at all, so
that ten bytes tell of a quadrillion of them, or that a record holds itself, so that a reader calls itself as often
as there are bytes. A name can lead out of its directory. No writer of tables does any of this; it is damage.

Clauses: RD-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

MOST_TIMES: Final = 4096
"""How many times its size a block may unpack to; metadata comes to some fifty."""

ALWAYS_ALLOWED: Final = 1 << 20
"""Bytes that any block may unpack to."""

LEAST_BYTES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("boolean", "int", "long", "bytes", "string", "enum"), 1),
    "null": 0,
    "float": 4,
    "double": 8,
}
"""What a value of an Avro type takes at least."""


LONGEST_NAME: Final = 255
"""Bytes of a file's name, as file systems have it."""


def is_file_name(text: str) -> bool:
    """Whether ``text`` names a file in a directory, and in that one."""
    parts = "/" in text or "\0" in text or text in ("", ".", "..")
    return not parts and len(text.encode()) <= LONGEST_NAME


class Decompressor(Protocol):
    """What the standard library's decompressors have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def unpacked(block: bytes, decompressor: Decompressor, rest: int = 0) -> bytes:
    """Return what a block holds. Raises ValueError if that is too much or not all there.

    ``rest``: as many bytes may follow what is unpacked.
    """
    most = MOST_TIMES * len(block) + ALWAYS_ALLOWED
    data = decompressor.decompress(block, most)
    if not decompressor.eof:
        raise ValueError(f"more than {most} bytes" if len(data) >= most else "a frame that does not end")
    if len(decompressor.unused_data) > rest:
        raise ValueError(f"{len(decompressor.unused_data)} bytes behind the frame")
    return data


def require_bounded(schema: Any) -> None:
    """Raise ValueError if reading by a parsed Avro schema could take more work than there are bytes."""
    if not _least_bytes(schema, {}):
        raise ValueError("records that take no bytes")


def _least_bytes(schema: Any, named: dict[str, int | None]) -> int:
    """Return what a value takes at least. ``named``: the types defined so far, None for those being defined."""
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
