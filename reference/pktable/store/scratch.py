"""A file on local disk for what one process reads back later. Nothing of it remains when the process ends."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

BATCH_ROWS = 1 << 13
"""Rows that are put aside, and come back, together. Few, because a merge of many runs holds so many of each."""


@dataclass(frozen=True, slots=True)
class Aside:
    """Tables that were put aside: where each lies. They can be read again and again, by several readers in turn."""

    file: Scratch
    places: tuple[tuple[int, int], ...]

    def __iter__(self) -> Iterator[pa.Table]:
        for start, size in self.places:
            yield pa.ipc.open_stream(self.file.read(start, size)).read_all()


class Scratch:
    """A file without a name in the directory for temporary files."""

    def __init__(self) -> None:
        self._close: weakref.finalize[[int], Scratch] | None = None
        self._number = -1
        self._size = 0

    def write(self, data: Any) -> tuple[int, int]:
        """Append bytes; return where they begin, and how many they are. Raises OSError if the disk is full."""
        if self._close is None:
            self._number, path = tempfile.mkstemp(prefix="pktable-")
            self._close = weakref.finalize(self, os.close, self._number)
            os.unlink(path)  # the disk is given back with the number, however the process ends
        start, rest = self._size, memoryview(data)
        size = len(rest)
        while len(rest):
            rest = rest[os.write(self._number, rest) :]
        self._size += size
        return start, size

    def read(self, start: int, size: int) -> pa.Buffer:
        """Return the bytes that `write` put there."""
        parts = [os.pread(self._number, size, start)]
        while len(parts[-1]) < size:  # the system gives at most 2 GiB at once
            start, size = start + len(parts[-1]), size - len(parts[-1])
            parts.append(os.pread(self._number, size, start))
            assert parts[-1], "nobody else has the file"
        return pa.py_buffer(parts[0] if len(parts) == 1 else b"".join(parts))

    def put(self, tables: Iterable[pa.Table]) -> Aside:
        """Put tables aside. Raises OSError if the disk is full."""
        places = []
        for table in tables:
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batch.schema) as writer:
                    writer.write_batch(batch)
                places.append(self.write(sink.getvalue()))
        return Aside(self, tuple(places))

    def close(self) -> None:
        """Give the disk back; it also is when nothing refers to this any more."""
        if self._close is not None:
            self._close()
