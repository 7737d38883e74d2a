"""The footer of a Parquet file, sealed with a checksum that Parquet has no field for.

Pages have a CRC of their own, the footer has none: a changed bit in the statistics of a row group makes a filter
skip rows that match. Thrift lets readers skip fields they do not know, and Parquet keeps field 32767 for extensions
that end with a UUID. Ours is the CRC-32 of all the footer before the extension. It is no key-value entry, because
tools that copy rows from file to file copy those too.

Clauses: META-10, META-14, RD-11.
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
LIKELY_BYTES: Final = 64 << 10  # of the end of a file, in which its footer most often is

STOP: Final = b"\0"  # the end of a Thrift struct
NAME: Final = uuid.UUID("6d8c7f1e-6b1f-4f0e-9d5b-8a4f2f6f7c53").bytes
CRC_BYTES: Final = 4
FIELD: Final = b"\x08\xff\xff\x01" + bytes([CRC_BYTES + len(NAME)])  # as Parquet spells the field; its length
SEAL_BYTES: Final = len(FIELD) + CRC_BYTES + len(NAME) + len(STOP)


class FooterSink:
    """A sink for Arrow's writer that passes everything on until `finish`, which seals the footer.

    ``change``: what is to become of the footer before.
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
        """Nothing: the sink belongs to whoever made it."""

    def finish(self, writer: Any) -> None:
        """Close ``writer``, a `pyarrow.parquet.ParquetWriter` on this sink, and write its footer sealed."""
        self._held = []
        writer.close()
        data, self._held = b"".join(self._held), None
        self._sink.write(with_sealed_footer(data, self._change))


def with_sealed_footer(data: bytes, change: Callable[[bytes], bytes] = bytes) -> bytes:
    """Return ``data``, which ends as a Parquet file does, with its footer changed and sealed."""
    start = len(data) - TAIL_BYTES - int.from_bytes(data[-TAIL_BYTES:][:4], "little")
    assert start >= 0, "the footer is written when the writer is closed"
    footer = sealed(change(data[start:-TAIL_BYTES]))
    return b"".join((data[:start], footer, len(footer).to_bytes(4, "little"), MAGIC))


def sealed(footer: bytes) -> bytes:
    """Return a footer with its checksum appended. Clauses: META-14."""
    assert footer.endswith(STOP)
    body = footer[: -len(STOP)]
    return body + FIELD + zlib.crc32(body).to_bytes(CRC_BYTES, "big") + NAME + STOP


def read_footer(source: Any, *, at: str) -> Any:
    """Return the `pyarrow.parquet.FileMetaData` of an open file. Raises as `checked_footer`; Arrow's errors too."""
    return pq.read_metadata(pa.BufferReader(MAGIC + checked_footer(source, at=at)))


def checked_footer(source: Any, *, at: str) -> bytes:
    """Return the end of an open file from its footer on. Raises CorruptFileError.

    A footer that is sealed is checked. Clauses: META-14, RD-11.
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
    if footer.endswith(NAME + STOP):
        body, seal = footer[:-SEAL_BYTES], footer[-SEAL_BYTES:]
        told, found = seal[: len(FIELD) + CRC_BYTES], FIELD + zlib.crc32(body).to_bytes(CRC_BYTES, "big")
        if told != found:
            raise CorruptFileError("footer checksum", at=at, expected=told.hex(), found=found.hex())
    return bytes(end[-TAIL_BYTES - length :])


def changed_footer(metadata: Any, change: Callable[[bytes], bytes]) -> Any:
    """Return a `pyarrow.parquet.FileMetaData` after a ``change`` of its bytes, which are those Arrow writes."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer = change(sink.getvalue().to_pybytes()[len(MAGIC) : -TAIL_BYTES])
    tail = len(footer).to_bytes(4, "little") + MAGIC
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + tail))
