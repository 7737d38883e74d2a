"""How many rows of a Parquet file fit into memory once they are decoded.

A few kilobytes can stand for gigabytes: a page has a number for each row, and the dictionary before it a long value
that all of them mean. So the longest value of each dictionary is looked for. A column without a dictionary takes about
what the footer says of its pages.

Clauses: SAFE-8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa

from pktable.datafile.thrift_compact import CompactReader

BATCH_BYTES: Final = 64 << 20
"""Of decoded rows that are in memory together, roughly."""
HEADER_BYTES: Final = 256
"""More than the header of a dictionary page takes, which has a few numbers."""
MOST_UNPACKED: Final = 16 << 20
"""Bytes of a dictionary that is looked at; in a longer one a value may have all of them."""
_VALUE_BYTES: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
_UNPACKED_BYTES, _PACKED_BYTES, _DICTIONARY, _VALUES = (
    2,
    3,
    7,
    1,
)  # fields of a header of a page, and of its part


def rows_at_once(
    source: Any,
    metadata: Any,
    chunk_of: Callable[[int, int], Any],
    group: int,
    leaves: Iterable[int],
    most: int,
) -> int:
    """Return how many rows of a row group to decode at once, at least 1 and at most ``most``.

    ``chunk_of``: gives a column of a row group as Arrow has it. ``leaves``: the numbers of the columns that are read.
    Raises ValueError or IndexError for a damaged header of a dictionary.
    """
    found = metadata.row_group(group)
    most = max(1, min(most, found.num_rows))
    size = 0.0
    for leaf in leaves:
        chunk = chunk_of(group, leaf)
        size += chunk.total_uncompressed_size / max(1, found.num_rows)
        values = max(
            1.0, chunk.num_values / max(1, found.num_rows)
        )  # of a row, more than one if it is nested
        if chunk.has_dictionary_page:
            size += values * _longest(source, metadata, leaf, chunk, most)
    return max(1, min(most, int(BATCH_BYTES / max(1.0, size))))


def _longest(source: Any, metadata: Any, leaf: int, chunk: Any, rows: int) -> int:
    """Return the bytes of the longest value of the dictionary of a chunk, or more if that does no harm."""
    if chunk.physical_type != "BYTE_ARRAY":
        length = metadata.schema.column(leaf).length if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0
        return length or _VALUE_BYTES.get(chunk.physical_type, 12)
    unpacked_bytes, packed_bytes, count, start = _header(source, chunk.dictionary_page_offset)
    longest = max(0, unpacked_bytes - 4 * count)
    if longest * rows <= BATCH_BYTES // 8 or unpacked_bytes > MOST_UNPACKED:
        return longest
    source.seek(start)
    page = source.read(packed_bytes)
    if chunk.compression != "UNCOMPRESSED":
        try:
            page = pa.Codec(chunk.compression.lower()).decompress(page, unpacked_bytes)
        except (
            pa.ArrowException,
            OSError,
            ValueError,
        ):  # LZ4 as Hadoop frames it, or damage, which a read will name
            return longest
    return _longest_of(bytes(page))


def _header(source: Any, at: int) -> tuple[int, int, int, int]:
    """Return of a dictionary page its bytes unpacked and packed, the number of values, and where it begins."""
    source.seek(at)
    data = bytes(source.read(HEADER_BYTES))
    reader = CompactReader(data)
    spans = reader.spans()

    def number(span: tuple[int, int]) -> int:
        return CompactReader(data, span[0]).integer()

    part = CompactReader(data, spans[_DICTIONARY][0]).spans() if _DICTIONARY in spans else {}
    count = number(part[_VALUES]) if _VALUES in part else 0
    return number(spans[_UNPACKED_BYTES]), number(spans[_PACKED_BYTES]), count, at + reader.at


def _longest_of(values: bytes) -> int:
    """Return the length of the longest of values that each follow their length, in 4 bytes."""
    at = longest = 0
    while at < len(values):
        length = int.from_bytes(values[at : at + 4], "little")
        longest = max(longest, length)
        at += 4 + length
    return longest
