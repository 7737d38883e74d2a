"""Write and check the footer of a Parquet file with a checksum, for which Parquet has no field.

Pages have a CRC, but the footer has none, nor has the page index before it: a changed bit in the statistics of a row
group or of a page makes a filter skip rows that match. Thrift lets readers skip fields they do not know, and Parquet
reserves field 32767 for extensions that end with a UUID. Our extension is the CRC-32 of the page index and then that of
all bytes of the footer before it, the former included. A key-value entry would not do, because tools that copy rows
from one file to another copy such entries too. An earlier form, under a UUID of its own, had the latter only.

This module can go once Arrow writes and checks a footer checksum.

Clauses: META-14, META-37, META-38, RD-11.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pktable_spec.errors import CorruptFileError

MAGIC: Final = b"PAR1"
TAIL_BYTES: Final = 8  # the footer's length and the magic
LIKELY_BYTES: Final = 64 << 10  # the end of a file that usually contains its whole footer

STOP: Final = b"\0"  # the end of a Thrift struct
NAME: Final = uuid.UUID("5a92b1d5-6204-404f-8e12-38587975ebc1").bytes
EARLIER_NAME: Final = uuid.UUID("6d8c7f1e-6b1f-4f0e-9d5b-8a4f2f6f7c53").bytes
CRC_BYTES: Final = 4
HEADER: Final = b"\x08\xff\xff\x01"  # of the field, as Parquet defines it; the length of its bytes follows
FIELD: Final = HEADER + bytes([2 * CRC_BYTES + len(NAME)])
EARLIER_FIELD: Final = HEADER + bytes([CRC_BYTES + len(EARLIER_NAME)])
AFTER_CRC: Final = len(NAME) + len(STOP)  # bytes behind the footer's checksum


class FooterSink:
    """A sink for Arrow's writer that passes all bytes on until `finish`, which seals the footer.

    ``change``: applied to the footer before it is sealed.
    """

    def __init__(self, sink: Any, change: Callable[[bytes], bytes] = bytes) -> None:
        self._sink, self._change = sink, change
        self._held: list[bytes] | None = None
        self.closed = False

    def write(self, data: Any) -> int:
        if self._held is None:
            self._sink.write(data)
        else:
            self._held.append(bytes(data))
        return len(data)

    def tell(self) -> int:
        return int(self._sink.tell()) + sum(map(len, self._held or ()))

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        """Do nothing: the caller closes the sink it gave."""

    def abandon(self) -> None:
        """Pass no more bytes on: Arrow's writer ends its file when it is deleted, also after an error."""
        self._held = []

    def finish(self, writer: Any) -> None:
        """Close ``writer``, a `pyarrow.parquet.ParquetWriter` on this sink, and write its footer sealed.

        The pages of all rows have been written before, so that page index and footer are what comes now.
        """
        self._held = []
        writer.close()
        data, self._held = b"".join(self._held), None
        self._sink.write(with_sealed_footer(data, 0, self._change))


def with_sealed_footer(data: bytes, pages_end: int, change: Callable[[bytes], bytes] = bytes) -> bytes:
    """Return ``data``, which ends as a Parquet file does, with its footer changed and sealed.

    ``pages_end``: where the last page ends; the page index is between it and the footer.
    """
    start = len(data) - TAIL_BYTES - int.from_bytes(data[-TAIL_BYTES:][:4], "little")
    assert start >= pages_end, "page index and footer are written when the writer is closed"
    footer = sealed(change(data[start:-TAIL_BYTES]), data[pages_end:start])
    return b"".join((data[:start], footer, len(footer).to_bytes(4, "little"), MAGIC))


def sealed(footer: bytes, index: bytes) -> bytes:
    """Return a footer with the checksums of the page index and of itself appended. Clauses: META-37."""
    assert footer.endswith(STOP)
    body = footer[: -len(STOP)] + FIELD + _crc(index)
    return body + _crc(body) + NAME + STOP


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(CRC_BYTES, "big")


def metadata_of(footer: bytes) -> Any:
    """Return the `pyarrow.parquet.FileMetaData` of the end of a file, from its footer on. Raises errors of Arrow."""
    return pq.read_metadata(pa.BufferReader(MAGIC + footer))


def is_sealed(footer: bytes) -> bool:
    """Return whether the end of a file, from its footer on, has our checksum."""
    return footer[:-TAIL_BYTES].endswith((NAME + STOP, EARLIER_NAME + STOP))


def checked_footer(source: Any, *, at: str) -> bytes:
    """Return the end of an open file, from its footer on. Raises CorruptFileError.

    The checksum is compared if the footer has one. Clauses: META-38, RD-11.
    """
    size = source.size()
    source.seek(max(0, size - LIKELY_BYTES))
    end = source.read(min(size, LIKELY_BYTES))
    length = int.from_bytes(end[-TAIL_BYTES:][:4], "little")
    if end[-len(MAGIC) :] != MAGIC or length > size - TAIL_BYTES - len(MAGIC):
        raise CorruptFileError(
            "footer", at=at, expected="its length and PAR1", found=end[-TAIL_BYTES:].hex() or "nothing"
        )
    if length + TAIL_BYTES > len(end):
        source.seek(size - TAIL_BYTES - length)
        end = source.read(length + TAIL_BYTES)
    footer = end[-TAIL_BYTES - length : -TAIL_BYTES]
    if footer.endswith((NAME + STOP, EARLIER_NAME + STOP)):
        earlier = footer.endswith(EARLIER_NAME + STOP)
        body, stored = footer[: -AFTER_CRC - CRC_BYTES], footer[-AFTER_CRC - CRC_BYTES : -AFTER_CRC]
        # The earlier checksum is of what is before the field, and the field's header of five bytes is compared.
        header = body[-len(FIELD) :] if earlier else body[-len(FIELD) - CRC_BYTES : -CRC_BYTES]
        found = _crc(body[: -len(FIELD)] if earlier else body)
        if (header, stored) != (EARLIER_FIELD if earlier else FIELD, found):
            raise CorruptFileError("footer checksum", at=at, expected=stored.hex(), found=found.hex())
    return bytes(end[-TAIL_BYTES - length :])


def read_page_index(source: Any, start: int, footer: bytes, *, at: str) -> bytes:
    """Return the page index of an open file, which begins at ``start``. Raises CorruptFileError if it is damaged.

    ``footer``: its bytes. Files without our checksum pass. Clauses: META-38, RD-11.
    """
    source.seek(start)
    data = bytes(source.read(source.size() - TAIL_BYTES - len(footer) - start))
    if footer.endswith(NAME + STOP):
        stored, found = footer[-AFTER_CRC - 2 * CRC_BYTES :][:CRC_BYTES], _crc(data)
        if found != stored:
            raise CorruptFileError("page index checksum", at=at, expected=stored.hex(), found=found.hex())
    return data


def changed_footer(metadata: Any, change: Callable[[bytes], bytes]) -> Any:
    """Return a `pyarrow.parquet.FileMetaData` whose bytes, as Arrow writes them, went through ``change``."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer = change(sink.getvalue().to_pybytes()[len(MAGIC) : -TAIL_BYTES])
    tail = len(footer).to_bytes(4, "little") + MAGIC
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + tail))
