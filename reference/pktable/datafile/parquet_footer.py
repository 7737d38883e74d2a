"""Write and check the footer of a Parquet file with a checksum, for which Parquet has no field.

Pages have a CRC, but the footer has none: a changed bit in the statistics of a row group makes a filter skip rows that
match. Thrift lets readers skip fields they do not know, and Parquet reserves field 32767 for extensions that end with
a UUID. Our extension is the CRC-32 of all bytes of the footer before it. A key-value entry would not do, because tools
that copy rows from one file to another copy such entries too.

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
NAME: Final = uuid.UUID("6d8c7f1e-6b1f-4f0e-9d5b-8a4f2f6f7c53").bytes
CRC_BYTES: Final = 4
FIELD: Final = b"\x08\xff\xff\x01" + bytes(
    [CRC_BYTES + len(NAME)]
)  # header of the field as Parquet defines it, and its length
SEAL_BYTES: Final = len(FIELD) + CRC_BYTES + len(NAME) + len(STOP)


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
    """Return a footer with its checksum appended. Clauses: META-37."""
    assert footer.endswith(STOP)
    body = footer[: -len(STOP)]
    return body + FIELD + zlib.crc32(body).to_bytes(CRC_BYTES, "big") + NAME + STOP


def read_footer(source: Any, *, at: str) -> Any:
    """Return the `pyarrow.parquet.FileMetaData` of an open file. Raises CorruptFileError, and errors of Arrow."""
    return pq.read_metadata(pa.BufferReader(MAGIC + checked_footer(source, at=at)))


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
    if footer.endswith(NAME + STOP):
        body, seal = footer[:-SEAL_BYTES], footer[-SEAL_BYTES:]
        stored, found = seal[: len(FIELD) + CRC_BYTES], FIELD + zlib.crc32(body).to_bytes(CRC_BYTES, "big")
        if stored != found:
            raise CorruptFileError("footer checksum", at=at, expected=stored.hex(), found=found.hex())
    return bytes(end[-TAIL_BYTES - length :])


def changed_footer(metadata: Any, change: Callable[[bytes], bytes]) -> Any:
    """Return a `pyarrow.parquet.FileMetaData` whose bytes, as Arrow writes them, went through ``change``."""
    sink = pa.BufferOutputStream()
    metadata.write_metadata_file(sink)
    footer = change(sink.getvalue().to_pybytes()[len(MAGIC) : -TAIL_BYTES])
    tail = len(footer).to_bytes(4, "little") + MAGIC
    return pq.read_metadata(pa.BufferReader(MAGIC + footer + tail))
