"""Reading and writing one object as a file.

A request takes tens of milliseconds however little it fetches, so few of them must do:

1. Opening an object fetches its end in the same request that says its size. A footer, or a small object, is in it.
2. A read fetches at least `SHORTEST_BYTES`. A read that begins where another ended fetches twice as many bytes, up to
   `LONGEST_BYTES`.
3. The last few pieces are kept, because Arrow reads the columns of a file by turns.

Small objects are written by one put, larger ones by a multipart upload, of which nothing is seen before it is complete.
"""

from __future__ import annotations

import contextlib
import errno
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

import pyarrow as pa

END_BYTES: Final = 64 << 10
SHORTEST_BYTES: Final = 1 << 20
LONGEST_BYTES: Final = 8 << 20
PIECES: Final = 8  # that an open file keeps
PART_BYTES: Final = 8 << 20  # of a multipart upload; there are at most 10,000
UPLOADS: Final = 4  # parts on their way at once

Errors = Callable[[], AbstractContextManager[None]]
"""Makes a context that turns errors of the client into ours."""


class ObjectSource(io.RawIOBase):
    """An object to read at random positions; one thread at a time."""

    def __init__(self, store: Any, key: str, errors: Errors) -> None:
        super().__init__()
        self._store, self._key, self._errors = store, key, errors
        self._position = 0
        self._pieces: list[tuple[int, memoryview]] = []  # the last one used last
        self.length, end = self._end()
        self._keep(self.length - len(end), end)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.length}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        end = self.length if size is None or size < 0 else min(self.length, self._position + size)
        parts = []
        while self._position < end:
            part = self._at(self._position, end)
            parts.append(part)
            self._position += len(part)
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        with memoryview(buffer).cast("B") as view:
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)

    def _at(self, start: int, end: int) -> memoryview:
        """Return bytes from ``start`` on, at least one and none beyond ``end``."""
        followed = 0
        for number, (at, piece) in enumerate(self._pieces):
            if at <= start < at + len(piece):
                self._pieces.append(self._pieces.pop(number))
                return piece[start - at : end - at]
            if at + len(piece) == start:
                followed = max(followed, len(piece))
        size = max(end - start, SHORTEST_BYTES, min(2 * followed, LONGEST_BYTES))
        with self._errors():
            fetched = self._fetch(start, min(self.length, start + size))
        self._keep(start, fetched)
        return fetched[: end - start]

    def _keep(self, start: int, data: memoryview) -> None:
        if len(data) <= LONGEST_BYTES:  # a larger one was asked for as it is, and is not asked for again
            self._pieces.append((start, data))
            del self._pieces[:-PIECES]

    def _fetch(self, start: int, end: int) -> memoryview:
        import obstore

        found = memoryview(obstore.get_range(self._store, self._key, start=start, end=end))
        if len(found) != end - start:
            raise OSError(f"expected bytes {start} to {end}, found {len(found)} bytes")
        return found

    def _end(self) -> tuple[int, memoryview]:
        """Return the size of the object and its last bytes, by one request if the store can do that.

        The caller turns errors into ours.
        """
        import obstore

        try:
            found = obstore.get(self._store, self._key, options={"range": {"suffix": END_BYTES}})
            return int(found.meta["size"]), memoryview(found.bytes())
        except FileNotFoundError:
            raise
        except (obstore.exceptions.PermissionDeniedError, obstore.exceptions.UnauthenticatedError):
            raise
        except (
            obstore.exceptions.BaseError
        ):  # an empty object has no last bytes, and Azure does not count from the end
            size = int(obstore.head(self._store, self._key)["size"])
            start = max(0, size - END_BYTES)
            return size, self._fetch(start, size) if size else memoryview(b"")


def readable(source: ObjectSource) -> pa.NativeFile:
    """Return ``source`` as a file of Arrow, which `pyarrow.parquet` and others read."""
    return pa.PythonFile(source, mode="r")


class ObjectSink(io.RawIOBase):
    """A new object, which appears when the sink is closed."""

    def __init__(self, store: Any, key: str, errors: Errors) -> None:
        super().__init__()
        self._store, self._key, self._errors = store, key, errors
        self._held = bytearray()
        self._upload: Any = None
        self._size = 0
        self._done = self._aborted = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if self._aborted:
            return size  # a writer of Parquet still flushes when it is collected
        if self._done:
            raise ValueError("write to a closed object")
        self._held += data
        self._size += size
        if len(self._held) >= PART_BYTES:
            with self._failures():
                self._send()
        return size

    def flush(self) -> None:
        """Do nothing: nothing is seen of an object that is not complete."""

    def close(self) -> None:
        """Create the object. If that fails there is none, and what was sent of it is discarded."""
        if self._done:
            return
        try:
            with self._failures():
                self._finish()
        except BaseException:
            self.abort()
            raise
        self._done = True
        super().close()

    def abort(self) -> None:
        """Discard what was written; no object appears. After `close` it does nothing."""
        if self._done:
            return
        self._done = self._aborted = True
        upload = self._upload
        self._upload = None
        self._held.clear()
        if upload is not None:
            # Its exit aborts the upload if it is given an error. Parts that stay are invisible.
            with contextlib.suppress(Exception):
                upload.__exit__(InterruptedError, InterruptedError(), None)
        super().close()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise the errors of the store as ours. A missing bucket or upload is no missing object."""
        try:
            with self._errors():
                yield
        except FileNotFoundError as error:
            raise OSError(
                errno.EIO, f"{self._key}: its bucket is gone, or the upload has ended before it was complete"
            ) from error

    def _finish(self) -> None:
        import obstore

        if self._upload is None:
            obstore.put(self._store, self._key, bytes(self._held), use_multipart=False)
        else:
            self._send()
            self._upload.close()

    def _send(self) -> None:
        import obstore

        if self._upload is None:
            self._upload = obstore.open_writer(
                self._store, self._key, buffer_size=PART_BYTES, max_concurrency=UPLOADS
            )
        if self._held:
            self._upload.write(bytes(self._held))
            self._held.clear()
