"""Log files: blocks one after the other, each with a header, a content and its own length before and behind.

All integers are big-endian::

    6  magic "#HUDI#"
    8  L, the length of the block without magic and this field
    4  log format version, 1
    4  kind of the block
       header: number of entries, then for each its key, its length and its bytes
    8  length of the content
       content
       footer: as the header; always empty
    8  R, the offset of this field from the magic: L + 6

A writer that dies leaves a torn block, and readers go on behind it. `decode_log` finds damage as Hudi's readers do: a
block is damaged if it ends behind the file, if R is not L + 6, or if neither a magic nor the end of the file follows.
Damage reaches to the next magic. So a block that other bytes follow is lost as a whole.

**No footers.** Hudi has never defined one, and from 1.0.2 on its Java readers fail on any entry. So `encode_block`
refuses them. `decode_log` keeps those it finds, for a check to name.

Clauses: LOG-1 to LOG-5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from pktable_spec.errors import CorruptFileError, InvalidRequestError

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1
_INT: Final = struct.Struct(">i")
_TWO_INTS: Final = struct.Struct(">ii")
_LONG: Final = struct.Struct(">q")
LENGTH_END: Final = len(MAGIC) + _LONG.size
FEWEST_BYTES: Final = LENGTH_END + 2 * _TWO_INTS.size + 2 * _LONG.size
"""Bytes of a block without header entries and content."""


class BlockKind(IntEnum):
    """The kinds of blocks, as they are stored."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class HeaderKey(IntEnum):
    """The keys of header entries, as they are stored."""

    INSTANT = 0
    TARGET_INSTANT = 1
    SCHEMA = 2
    COMMAND = 3
    COMPACTED_INSTANTS = 4
    POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_INSTANT_OF_POSITIONS = 8


KINDS: Final = frozenset(BlockKind)
HEADER_KEYS: Final = frozenset(HeaderKey)
Entries = tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block. ``header``: its entries as they are stored, in order. ``offset``: of its magic in the log file."""

    kind: BlockKind
    header: Entries
    content: bytes | memoryview
    footer: Entries = ()
    offset: int = 0

    def entry(self, key: HeaderKey) -> bytes | None:
        """Return the bytes of a header entry, the last one of that key; None if there is none."""
        return dict(self.header).get(key)

    def text(self, key: HeaderKey, at: str) -> str:
        """Return a header entry as text, empty if there is none. Raises CorruptFileError."""
        try:
            return (self.entry(key) or b"").decode()
        except UnicodeDecodeError as error:
            raise CorruptFileError(
                f"{key.name} of the block at {self.offset}", at=at, expected="UTF-8", found=error
            ) from None


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes of a log file that are no block. ``why``: the sign that showed it."""

    offset: int
    end: int
    why: str


def decode_log(data: bytes, *, at: str) -> list[LogBlock | DamagedRange]:
    """Return the blocks of a log file and the damaged ranges between them, in order.

    Contents are views of ``data``. ``at``: the path of the file. Raises CorruptFileError if the file does not begin
    with a block or if a block of sound length is damaged inside; InvalidRequestError for an unknown format version.
    Clauses: LOG-1 to LOG-4.
    """
    view = memoryview(data)
    if data and not data.startswith(MAGIC):
        raise CorruptFileError("magic", at=at, expected=MAGIC.decode(), found=data[: len(MAGIC)].hex())
    found: list[LogBlock | DamagedRange] = []
    offset = 0
    while offset < len(view):
        end, why = _extent(view, offset)
        if why:
            following = data.find(MAGIC, offset + len(MAGIC))
            end = len(view) if following < 0 else following
            found.append(DamagedRange(offset, end, why))
        else:
            found.append(_Cursor(view, offset, end, at).block())
        offset = end
    return found


def blocks(data: bytes, *, at: str) -> Iterator[LogBlock]:
    """Yield the sound blocks of a log file, in order. Raises as `decode_log`."""
    yield from (one for one in decode_log(data, at=at) if isinstance(one, LogBlock))


def instant_of_damaged(data: bytes, damaged: DamagedRange) -> str | None:
    """Return the instant that the header of a damaged block names, None if that much of it is not readable."""
    if damaged.end - damaged.offset < LENGTH_END + _LONG.size:
        return None
    cursor = _Cursor(memoryview(data), damaged.offset, damaged.end + _LONG.size, "")
    try:
        return dict(cursor.head()[1])[HeaderKey.INSTANT].decode()
    except (CorruptFileError, InvalidRequestError, KeyError, UnicodeDecodeError):
        return None


def _extent(view: memoryview, offset: int) -> tuple[int, str]:
    """Return the end of the block at ``offset``, and why it is damaged, or nothing."""
    if len(view) - offset < LENGTH_END:
        return len(view), "it ends inside its length"
    (length,) = _LONG.unpack_from(view, offset + len(MAGIC))
    end = offset + LENGTH_END + length
    if length < FEWEST_BYTES - LENGTH_END or end > len(view):
        return end, f"its length {length} leads out of the file"
    (reverse,) = _LONG.unpack_from(view, end - _LONG.size)
    if reverse != length + len(MAGIC):
        return end, f"its length is {length} in front and {reverse - len(MAGIC)} behind"
    if end < len(view) and bytes(view[end : end + len(MAGIC)]) != MAGIC:
        return end, "no block follows it"
    return end, ""


class _Cursor:
    """A cursor over one block of sound length, which raises CorruptFileError instead of reading behind it."""

    def __init__(self, view: memoryview, offset: int, end: int, at: str) -> None:
        self._view, self._start, self._at = view, offset, at
        self._next, self._end = offset + LENGTH_END, end - _LONG.size

    def block(self) -> LogBlock:
        kind, header = self.head()
        (length,) = _LONG.unpack(self._take(_LONG.size, "content length"))
        content = self._take(length, "content")
        footer = self._entries("footer")
        if self._next != self._end:
            raise self._damage(
                "length", self._next + _LONG.size - self._start, self._end + _LONG.size - self._start
            )
        return LogBlock(kind, header, content, footer, self._start)

    def head(self) -> tuple[BlockKind, Entries]:
        """Return the kind and the header of the block."""
        version = self._int("format version")
        if version != FORMAT_VERSION:
            raise InvalidRequestError(
                f"{self._at}: log format version {version} is not supported: expected {FORMAT_VERSION}"
            )
        kind = self._int("kind")
        if kind not in KINDS:
            raise self._damage("kind", f"0 to {max(BlockKind)}", kind)
        header = self._entries("header")
        unknown = [key for key, _ in header if key not in HEADER_KEYS]
        if unknown:
            raise self._damage("header key", f"0 to {max(HeaderKey)}", unknown[0])
        return BlockKind(kind), header

    def _entries(self, what: str) -> Entries:
        count = self._int(f"{what} entries")
        if not 0 <= count <= (self._end - self._next) // _TWO_INTS.size:
            raise self._damage(f"{what} entries", "a number of entries that fit", count)
        found = []
        for _ in range(count):
            key, length = _TWO_INTS.unpack(self._take(_TWO_INTS.size, f"{what} entry"))
            found.append((key, bytes(self._take(length, f"{what} value"))))
        return tuple(found)

    def _int(self, what: str) -> int:
        number: int = _INT.unpack(self._take(_INT.size, what))[0]
        return number

    def _take(self, length: int, what: str) -> memoryview:
        if not 0 <= length <= self._end - self._next:
            raise self._damage(what, f"{length} bytes", f"{self._end - self._next} bytes left")
        start, self._next = self._next, self._next + length
        return self._view[start : self._next]

    def _damage(self, what: str, expected: object, found: object) -> CorruptFileError:
        return CorruptFileError(
            f"{what} of the block at {self._start}", at=self._at, expected=expected, found=found
        )


def encode_block(block: LogBlock) -> bytes:
    """Return the bytes of a block. Raises InvalidRequestError for one with a footer. Clauses: LOG-1, LOG-5."""
    if block.footer:
        raise InvalidRequestError(
            "a log block with a footer cannot be read by Hudi from 1.0.2 on; write it without"
        )
    body = b"".join(
        (
            _TWO_INTS.pack(FORMAT_VERSION, block.kind),
            _encoded(block.header),
            _LONG.pack(len(block.content)),
            block.content,
            _encoded(block.footer),
        )
    )
    length = len(body) + _LONG.size
    return b"".join((MAGIC, _LONG.pack(length), body, _LONG.pack(length + len(MAGIC))))


def _encoded(entries: Sequence[tuple[int, bytes]]) -> bytes:
    parts: list[Any] = [_INT.pack(len(entries))]
    for key, value in entries:
        parts += [_TWO_INTS.pack(key, len(value)), value]
    return b"".join(parts)
