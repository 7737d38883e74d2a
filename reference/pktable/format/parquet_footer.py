"""The footer of a Parquet file, sealed with a checksum that Parquet has no place for.

Pages have a CRC of their own, the footer has none: a changed bit in the statistics of a row group makes a filter
skip rows that match. What we write has a key-value entry in the footer, eight hexadecimal digits, the CRC-32 of
the footer with these digits as zeros. Others ignore it; our reader checks it where it is.

Clauses: META-10, META-14, RD-11.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pktable_spec.errors import CorruptFileError

MAGIC: Final = b"PAR1"
TAIL_BYTES: Final = 8  # the footer's length and the magic
LIKELY_BYTES: Final = 64 << 10  # of the end of a file, in which its footer most often is
KEY: Final = "pktable.crc32"
UNSEALED: Final = "0" * 8
ENTRY: Final = KEY.encode() + b"\x18\x08"  # as Thrift writes it; the value follows


class FooterSink:
    """A sink for Arrow's writer that passes everything on until `finish`, which seals the footer."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
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
        """Nothing: the sink belongs to whoever made it."""

    def finish(self, writer: Any) -> None:
        """Close ``writer``, a `pyarrow.parquet.ParquetWriter` on this sink, and write its footer sealed."""
        writer.add_key_value_metadata({KEY: UNSEALED})
        self._held = []
        writer.close()
        data, self._held = b"".join(self._held), None
        start = len(data) - TAIL_BYTES - int.from_bytes(data[-TAIL_BYTES:][:4], "little")
        assert start >= 0, "the footer is written when the writer is closed"
        self._sink.write(data[:start] + sealed(data[start:-TAIL_BYTES]) + data[-TAIL_BYTES:])


def sealed(footer: bytes) -> bytes:
    """Return a footer that has an entry for its checksum with the checksum in it. Clauses: META-14."""
    at = _digits_at(footer)
    assert at is not None, "the entry is added before the footer is written"
    return footer[:at] + b"%08x" % zlib.crc32(footer) + footer[at + len(UNSEALED) :]


def read_footer(source: Any, *, at: str) -> Any:
    """Return the `pyarrow.parquet.FileMetaData` of an open file. Raises CorruptFileError; Arrow's errors too.

    A footer with a checksum is checked. Clauses: META-14, RD-11.
    """
    size = source.size()
    source.seek(max(0, size - LIKELY_BYTES))
    end = source.read(min(size, LIKELY_BYTES))
    length = int.from_bytes(end[-TAIL_BYTES:][:4], "little")
    if end[-len(MAGIC) :] != MAGIC or length > size - TAIL_BYTES - len(MAGIC):
        raise CorruptFileError(
            "footer", at=at, expected=f"{MAGIC!r} behind its length", found=end[-TAIL_BYTES:]
        )
    if length + TAIL_BYTES > len(end):
        source.seek(size - TAIL_BYTES - length)
        end = source.read(length + TAIL_BYTES)
    footer = end[-TAIL_BYTES - length : -TAIL_BYTES]
    place = _digits_at(footer)
    if place is not None:
        told = footer[place : place + len(UNSEALED)]
        found = b"%08x" % zlib.crc32(footer[:place] + UNSEALED.encode() + footer[place + len(UNSEALED) :])
        if told != found:
            raise CorruptFileError(
                "footer checksum", at=at, expected=told.decode("latin-1"), found=found.decode()
            )
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + end[-TAIL_BYTES:]))


def _digits_at(footer: bytes) -> int | None:
    """Return where the checksum's digits begin. The entry comes behind all that holds values of rows."""
    at = footer.rfind(ENTRY)
    return None if at < 0 else at + len(ENTRY)
