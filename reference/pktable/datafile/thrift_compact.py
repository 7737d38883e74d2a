"""Read the compact encoding of Thrift, in which Parquet's footers and page indexes are.

Damage raises ValueError or IndexError, and no length makes a reader work longer than there are bytes.

Clauses: RD-11.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

BOOLEANS: Final = (1, 2)  # types of the compact encoding; these two are also the value
INTEGERS: Final = (4, 5, 6)
BYTE, DOUBLE, BINARY, LIST, STRUCT = 3, 7, 8, 9, 12
FIXED: Final = {1: 1, 2: 1, BYTE: 1, DOUBLE: 8}  # bytes that an item of a list takes
LONGEST: Final = 70  # bits of a number, of which 64 count
DEEPEST: Final = 32  # values within values; Parquet's metadata has five

Span = tuple[int, int]
"""Where the value of a field begins, and where it ends."""


class CompactReader:
    """A cursor over bytes, which begins ``at`` one of them."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        number = self.data[self.at]
        self.at += 1
        if number < 0x80:
            return number
        number &= 0x7F
        for shift in range(7, LONGEST, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("a number of more than 64 bits")

    def integer(self) -> int:
        """Return the value of a field of `INTEGERS`."""
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def binary(self) -> bytes:
        """Return the value of a field of `BINARY`."""
        length = self.varint()
        self.at += length
        if self.at > len(self.data):
            raise IndexError("a text that ends behind the bytes")
        return self.data[self.at - length : self.at]

    def field(self, last: int) -> tuple[int, int] | None:
        """Return number and type of the next field of a struct, None at its end."""
        head = self.byte()
        if not head:
            return None
        if head >> 4:
            return last + (head >> 4), head & 15
        return self.integer(), head & 15

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a struct; the caller must read or skip its value."""
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def spans(self) -> dict[int, Span]:
        """Read a struct, and return where the value of each of its fields is."""
        found = {}
        for number, kind in self.fields():
            start = self.at
            self.skip(kind)
            found[number] = start, self.at
        return found

    def list_size(self) -> int:
        size = self.byte() >> 4
        return self.varint() if size == 15 else size

    def skip(self, kind: int) -> None:
        self.at = _end(self.data, self.at, kind)


def _end(data: bytes, at: int, kind: int, depth: int = 0) -> int:
    """Return where the value that begins ``at`` ends. A footer has thousands, so this calls itself for few of them."""
    if depth > DEEPEST:
        raise ValueError("values within values without end")
    if kind == STRUCT:
        while head := data[at]:
            at += 1
            if head < 1 << 4:  # the number of the field follows
                at = _end_of_number(data, at)
            kind = head & 15
            if kind in INTEGERS:
                while data[at] > 0x7F:
                    at += 1
                at += 1
            elif kind not in BOOLEANS:
                at = _end(data, at, kind, depth + 1)
        return at + 1
    if kind == BINARY:
        reader = CompactReader(data, at)
        return reader.varint() + reader.at
    if kind == LIST:
        reader, kind = CompactReader(data, at), data[at] & 15
        size = reader.list_size()
        if kind in FIXED:
            return reader.at + size * FIXED[kind]
        at = reader.at
        for _ in range(size):
            at = _end_of_number(data, at) if kind in INTEGERS else _end(data, at, kind, depth + 1)
        return at
    if kind in INTEGERS:
        return _end_of_number(data, at)
    if kind in (BYTE, DOUBLE):
        return at + FIXED[kind]
    if kind in BOOLEANS:
        return at
    raise ValueError(f"a value of type {kind}, which Parquet's metadata does not have")


def _end_of_number(data: bytes, at: int) -> int:
    while data[at] > 0x7F:
        at += 1
    return at + 1


def integer_bytes(number: int) -> bytes:
    """Return the value of a field of `INTEGERS`. ``number``: not negative."""
    rest, found = number << 1, bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*found, rest])


def replaced(data: bytes, whole: Span, values: Mapping[Span, bytes]) -> bytes:
    """Return ``data`` within ``whole``, with other bytes for some of the spans in it."""
    parts, copied = [], whole[0]
    for (start, end), value in sorted(values.items()):
        parts += [data[copied:start], value]
        copied = end
    return b"".join([*parts, data[copied : whole[1]]])
