"""The metadata of an ORC file: which columns it pads, and how many of its rows fit into memory once they are decoded.

As in `decoded_size`: what matters is the longest value of each dictionary, because each row may mean it. Its length is
in the stream of lengths. The runs there say a bound in their headers, so that nothing is decoded.

Clauses: SAFE-8.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from pktable.datafile import decoded_size
from pktable.datafile.thrift_compact import CompactReader

FEW_ROWS: Final = 16
"""Of a file that is not looked into: of the codec LZO, or with lengths as ORC stored them before 0.12."""
VALUE_BYTES: Final = 16
"""More than a value takes that is no text, with its part of the bits of nulls."""
MOST_UNPACKED: Final = 16 << 20
"""Bytes of a footer, or of lengths, that are looked at."""
_DATA, _LENGTH, _DICTIONARY = 1, 2, 3  # kinds of streams
_FIXED_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_FOOTER_STRIPES, _FOOTER_TYPES, _SUBTYPES = 3, 4, 2
_DECIMAL, _PRECISION, MOST_DIGITS = 14, 5, 38
_CHAR: Final = 17
_OFFSET, _INDEX_BYTES, _DATA_BYTES, _FOOTER_BYTES, _ROWS = 1, 2, 3, 4, 5
_STREAMS, _ENCODINGS, _KIND_OF, _COLUMN, _LENGTH_OF = 1, 2, 1, 2, 3
_OF_VERSION_1: Final = (0, 1)  # encodings of a column

Unpack = Callable[[bytes], bytes]


def rows_at_once(source: Any, file: Any, names: Collection[str], most: int) -> int:
    """Return how many rows to decode at once, at least 1 and at most ``most``.

    ``file``: as pyarrow has opened ``source``. ``names``: the columns that are read. Raises ValueError for
    damaged metadata.
    """
    unpack = _CODECS.get(file.compression)
    if unpack is None:
        return min(most, FEW_ROWS)
    with _named_damage():
        return max(1, min(most, _rows_at_once(source, file, names, unpack)))


def padded_columns(source: Any, file: Any) -> Collection[str]:
    """Return the columns of ORC's type ``char``, whose values are filled up with spaces.

    ``file``: as pyarrow has opened ``source``. Raises ValueError for a type at which Arrow would end the process: a
    decimal of more digits than it has. Clauses: META-72, RD-11, SAFE-8.
    """
    unpack = _CODECS.get(file.compression)
    if unpack is None:
        return ()
    with _named_damage():
        footer = _footer(source, file, unpack)
        kinds = []
        for one in map(_message, _message(footer)[_FOOTER_TYPES]):
            kinds.append(_number(one, _KIND_OF))
            if kinds[-1] == _DECIMAL and _number(one, _PRECISION) > MOST_DIGITS:
                raise ValueError(f"a decimal of {_number(one, _PRECISION)} digits")
        if _CHAR not in kinds:
            return ()
        names = file.schema.names
        of_char = {name for number, name in _columns(footer, names, names).items() if kinds[number] == _CHAR}
        return {name for name in of_char if pa.types.is_string(file.schema.field(name).type)}


@contextmanager
def _named_damage() -> Iterator[None]:
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, zlib.error) as error:
        raise ValueError(f"damaged metadata of an ORC file ({type(error).__name__}: {error})") from None


def _footer(source: Any, file: Any, unpack: Unpack) -> bytes:
    end = source.size() - 1 - file.file_postscript_length
    return _unpacked(_bytes(source, end - file.file_footer_length, file.file_footer_length), unpack)


def _rows_at_once(source: Any, file: Any, names: Collection[str], unpack: Unpack) -> int:
    footer = _footer(source, file, unpack)
    columns = _columns(footer, file.schema.names, names)
    size = 1.0
    for stripe in map(_message, _message(footer)[_FOOTER_STRIPES]):
        size = max(size, _bytes_of_row(source, stripe, columns, unpack, file.compression_size))
    return int(decoded_size.BATCH_BYTES / size)


def _columns(footer: bytes, all_names: Sequence[str], names: Collection[str]) -> dict[int, str]:
    """Return the name of the column that each number belongs to; numbers count nested values, too."""
    types = list(map(_message, _message(footer)[_FOOTER_TYPES]))
    first = [number for part in types[0][_SUBTYPES] for number in _numbers(part)]
    if len(first) != len(all_names):
        raise ValueError(f"{len(first)} columns in the footer, {len(all_names)} in the schema")
    ends = [*first[1:], len(types)]
    return {
        number: name
        for name, begin, end in zip(all_names, first, ends, strict=True)
        if name in names
        for number in range(begin, end)
    }


def _bytes_of_row(
    source: Any,
    stripe: Mapping[int, list[Any]],
    columns: Mapping[int, str],
    unpack: Unpack,
    block_bytes: int,
) -> float:
    """Return how many bytes a row of a stripe takes, at most: of its texts in pages an average."""
    at, rows = _number(stripe, _OFFSET), max(1, _number(stripe, _ROWS))
    footer_at = at + _number(stripe, _INDEX_BYTES) + _number(stripe, _DATA_BYTES)
    footer = _message(_unpacked(_bytes(source, footer_at, _number(stripe, _FOOTER_BYTES)), unpack))
    encodings = [_number(_message(part), _KIND_OF) for part in footer[_ENCODINGS]]
    places: dict[tuple[int, int], tuple[int, int]] = {}
    for stream in map(_message, footer[_STREAMS]):
        length = _number(stream, _LENGTH_OF)
        places[_number(stream, _COLUMN), _number(stream, _KIND_OF)] = at, length
        at += length
    values: dict[str, float] = defaultdict(lambda: 1.0)  # of a row
    longest: dict[str, int] = defaultdict(int)
    stored: dict[str, float] = defaultdict(float)
    for number, name in columns.items():
        lengths = places.get((number, _LENGTH))
        dictionary = places.get((number, _DICTIONARY))
        data = places.get((number, _DATA))
        stored[name] += VALUE_BYTES
        if lengths and (dictionary or not data) and encodings[number] in _OF_VERSION_1:
            return decoded_size.BATCH_BYTES / FEW_ROWS
        if dictionary is not None:
            bound = _unpacked_bytes(_bytes(source, *dictionary), unpack, block_bytes)
            found = runs(_unpacked(_bytes(source, *lengths), unpack)) if lengths else ()
            longest[name] += min(bound, max((length for _, length in found), default=0))
        elif data is not None:
            stored[name] += _unpacked_bytes(_bytes(source, *data), unpack, block_bytes) / rows
        elif lengths is not None:  # of lists
            found = runs(_unpacked(_bytes(source, *lengths), unpack))
            values[name] *= max(1.0, sum(count * length for count, length in found) / rows)
    return sum(stored[name] + values[name] * (longest[name] + VALUE_BYTES) for name in stored)


def runs(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the number of values and a bound of them for each run of unsigned numbers, of version 2 of the encoding."""
    at = 0
    while at < len(data):
        kind, width = data[at] >> 6, _FIXED_WIDTHS[(data[at] >> 1) & 31]
        if kind == 0:
            size = ((data[at] >> 3) & 7) + 1
            yield (data[at] & 7) + 3, int.from_bytes(data[at + 1 : at + 1 + size], "big")
            at += 1 + size
            continue
        count = ((data[at] & 1) << 8 | data[at + 1]) + 1
        if kind == 1:
            yield count, (1 << width) - 1
            at += 2 + (count * width + 7) // 8
        elif kind == 2:
            size, patch = (data[at + 2] >> 5) + 1, _FIXED_WIDTHS[data[at + 2] & 31]
            gap, patches = (data[at + 3] >> 5) + 1, data[at + 3] & 31
            yield count, int.from_bytes(data[at + 4 : at + 4 + size], "big") + (1 << (width + patch))
            each = next(one for one in _FIXED_WIDTHS if one >= min(64, patch + gap))
            at += 4 + size + (count * width + 7) // 8 + (patches * each + 7) // 8
        else:
            width = 0 if not (data[at] >> 1) & 31 else width
            base, at = _varint(data, at + 2)
            step, at = _varint(data, at)
            step = (step >> 1) + 1
            yield count, base + (step + (count - 2) * ((1 << width) - 1) if width else step * count)
            at += (max(0, count - 2) * width + 7) // 8


def _bytes(source: Any, at: int, length: int) -> bytes:
    source.seek(at)
    return bytes(source.read(length))


def _chunks(data: bytes) -> Iterator[tuple[bool, bytes]]:
    """Yield the chunks that a stream is stored in, each with whether it is packed."""
    at = 0
    while at < len(data):
        header = int.from_bytes(data[at : at + 3], "little")
        yield not header & 1, data[at + 3 : at + 3 + (header >> 1)]
        at += 3 + (header >> 1)


def _unpacked(data: bytes, unpack: Unpack) -> bytes:
    if unpack is _as_it_is:
        return data
    found = b""
    for packed, chunk in _chunks(data):
        found += unpack(chunk) if packed else chunk
        if len(found) > MOST_UNPACKED:
            raise ValueError(f"metadata of an ORC file unpacks to more than {MOST_UNPACKED} bytes")
    return found


def _unpacked_bytes(data: bytes, unpack: Unpack, block_bytes: int) -> int:
    """Return how many bytes a stream unpacks to, at most."""
    if unpack is _as_it_is:
        return len(data)
    return sum(block_bytes if packed else len(chunk) for packed, chunk in _chunks(data))


def _message(data: bytes) -> dict[int, list[Any]]:
    """Return the values of a message of Protocol Buffers by field: numbers, and bytes of all others."""
    found: dict[int, list[Any]] = defaultdict(list)
    value: int | bytes
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
        elif key & 7 == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        elif key & 7 in (1, 5):
            length = 8 if key & 7 == 1 else 4
            value, at = data[at : at + length], at + length
        else:
            raise ValueError(f"metadata of an ORC file has a field of kind {key & 7}")
        found[key >> 3].append(value)
    return found


def _numbers(part: int | bytes) -> list[int]:
    """Return the numbers of a repeated field, which may be packed."""
    if isinstance(part, int):
        return [part]
    found, at = [], 0
    while at < len(part):
        number, at = _varint(part, at)
        found.append(number)
    return found


def _number(message: Mapping[int, list[Any]], field: int) -> int:
    found = message[field][-1] if message.get(field) else 0
    if not isinstance(found, int):
        raise ValueError(f"metadata of an ORC file: expected a number in field {field}")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, which Protocol Buffers store as Thrift does, and where it ends."""
    reader = CompactReader(data, at)
    return reader.varint(), reader.at


def _as_it_is(chunk: bytes) -> bytes:
    return chunk


def _inflated(chunk: bytes) -> bytes:
    return zlib.decompressobj(-15).decompress(chunk, MOST_UNPACKED + 1)


def _of_snappy(chunk: bytes) -> bytes:
    length, _ = _varint(chunk, 0)
    if length > MOST_UNPACKED:
        raise ValueError(f"metadata of an ORC file unpacks to {length} bytes")
    return bytes(pa.Codec("snappy").decompress(chunk, length))


def _of_lz4(chunk: bytes) -> bytes:
    """Return what a block of LZ4 unpacks to; it does not say how much that is, so that Arrow cannot."""
    found, at = bytearray(), 0
    while len(found) <= MOST_UNPACKED:
        token = chunk[at]
        length, at = _extended(chunk, at + 1, token >> 4)
        found += chunk[at : at + length]
        at += length
        if at >= len(chunk):
            break
        back = int.from_bytes(chunk[at : at + 2], "little")
        length, at = _extended(chunk, at + 2, token & 15)
        if not 0 < back <= len(found):
            raise ValueError(f"metadata of an ORC file repeats what is {back} bytes before, of {len(found)}")
        copied = bytes(found[len(found) - back :])
        found += (copied * (length // len(copied) + 2))[: length + 4]
    return bytes(found)


def _extended(chunk: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length of LZ4, and where it ends: 15 goes on in bytes, the last one not 255."""
    if length == 15:
        while chunk[at] == 255:
            length, at = length + 255, at + 1
        length, at = length + chunk[at], at + 1
    return length, at


def _of_zstd(chunk: bytes) -> bytes:
    return bytes(pa.CompressedInputStream(pa.BufferReader(chunk), "zstd").read(MOST_UNPACKED + 1))


_CODECS: Final[Mapping[str, Unpack]] = {
    "UNCOMPRESSED": _as_it_is,
    "ZLIB": _inflated,
    "SNAPPY": _of_snappy,
    "LZ4": _of_lz4,
    "ZSTD": _of_zstd,
}
