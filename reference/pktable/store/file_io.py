"""Where bytes lie: a local directory, an object store, or another file system that pyarrow knows by URI.

A commit needs one thing of a store: creating a file only if it is absent, whole or not at all. A local
file system gives it by linking a finished temporary file to the final name, HDFS by a rename that does
not overwrite, an object store by a condition on the put (`object_store`). Where nothing gives it, tables can be
read but not committed to: `put_if_absent` refuses instead of losing snapshots.

Clauses: CMT-19.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.store.file_info import FileInfo
from pktable.store.object_store import ObjectStoreIO, is_object_uri


class FileIO(Protocol):
    """Files by path, as the store spells paths. Missing files raise FileNotFoundError."""

    def read(self, path: str) -> bytes: ...
    def open(self, path: str) -> Any:
        """Return something pyarrow.parquet can read at random positions."""

    def create(self, path: str) -> Any:
        """Return a binary sink for a new file; its directory is made.

        A sink may have ``abort``, which discards what was written where ``close`` would keep it.
        """

    def write(self, path: str, data: bytes) -> None: ...
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create ``path`` with ``data`` at once, or return False because it exists.

        After an error the file may be there, or may still come: see `puts_may_be_late`.
        """

    def list_names(self, directory: str) -> list[str]:
        """Return the names in ``directory``; none if there is no such directory."""

    def list_files(self, directory: str) -> list[FileInfo]:
        """Return the files in ``directory``, without its directories; none if there is no such directory."""

    def exists(self, path: str) -> bool:
        """Return whether there is a file ``path``. Whether a directory counts is up to the store."""

    def delete(self, path: str) -> None:
        """Remove a file; a missing one is no error."""


def abort(sink: Any) -> None:
    """Close a sink of `FileIO.create`, and discard what was written if the store can."""
    getattr(sink, "abort", sink.close)()


def remove_empty_directory(store: FileIO, directory: str) -> None:
    """Remove a directory that has become empty, if the store has directories and can. Otherwise it stays."""
    with contextlib.suppress(OSError):
        getattr(store, "remove_empty_directory", lambda _: None)(directory)


def puts_may_be_late(store: FileIO) -> bool:
    """Return whether `put_if_absent` may create the file after it has raised an error, as a request to a server may.

    It is so unless the store has an attribute ``late_puts`` that is False.
    """
    return bool(getattr(store, "late_puts", True))


class LocalFileIO:
    """A directory of this machine."""

    late_puts = False

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def open(self, path: str) -> Any:
        return pa.OSFile(path, "rb")

    def create(self, path: str) -> Any:
        try:
            return pa.OSFile(path, "wb")
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return pa.OSFile(path, "wb")

    def write(self, path: str, data: bytes) -> None:
        # Not `open`: most files are small and many, and its buffer and checks cost as much as making the file.
        # Not blocking: somebody may have put a named pipe there, which nobody reads.
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            file = os.open(path, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = os.open(path, flags, 0o666)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file, rest) :]
            # Afterwards: file systems wait for the disk when a file that was emptied is closed, as a hint would be.
            if os.fstat(file).st_size > len(data):
                os.ftruncate(file, len(data))
        finally:
            os.close(file)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.{uuid.uuid4()}.tmp")
        try:
            self.write(temporary, data)
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            # Whether the file is there is decided by now; what becomes of the temporary one must not change it.
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return True

    def list_names(self, directory: str) -> list[str]:
        try:
            return os.listdir(directory)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def list_files(self, directory: str) -> list[FileInfo]:
        found = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # deleted since the listing
                    if entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        found.append(FileInfo(entry.name, status.st_size, status.st_mtime_ns // 1_000_000))
        return found

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def delete(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_empty_directory(self, directory: str) -> None:
        os.rmdir(directory)


class ArrowFileIO:
    """A file system of pyarrow, found by URI."""

    def __init__(self, uri: str) -> None:
        from pyarrow.fs import FileSystem  # late, as a local table does without all these file systems

        self._uri = uri
        self._fs, _ = FileSystem.from_uri(uri)

    def read(self, path: str) -> bytes:
        with self._fs.open_input_stream(path) as file:
            data: bytes = file.read()
            return data

    def open(self, path: str) -> Any:
        return self._fs.open_input_file(path)

    def create(self, path: str) -> Any:
        self._make_parent(path)
        return self._fs.open_output_stream(path)

    def write(self, path: str, data: bytes) -> None:
        with self.create(path) as file:
            file.write(data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self._fs.type_name != "hdfs":
            raise InvalidRequestError(
                f"{path}: expected a store that can create a file only if it is absent, "
                f"found {self._fs.type_name}; tables there can be read, not written"
            )
        temporary = f"{path}.{uuid.uuid4()}.tmp"
        try:
            self.write(temporary, data)
            self._fs.move(temporary, path)
        except OSError as error:
            if self.exists(path):
                return False
            raise error
        finally:
            with contextlib.suppress(OSError):
                self.delete(temporary)
        return True

    def list_names(self, directory: str) -> list[str]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(directory, allow_not_found=True)
        return [info.base_name for info in self._fs.get_file_info(selector)]

    def list_files(self, directory: str) -> list[FileInfo]:
        from pyarrow.fs import FileSelector

        selector = FileSelector(directory, allow_not_found=True)
        return [
            FileInfo(info.base_name, info.size, info.mtime_ns // 1_000_000)
            for info in self._fs.get_file_info(selector)
            if info.is_file
        ]

    def exists(self, path: str) -> bool:
        from pyarrow.fs import FileType

        return bool(self._fs.get_file_info(path).type != FileType.NotFound)

    def delete(self, path: str) -> None:
        if self.exists(path):
            self._fs.delete_file(path)

    def delete_directory(self, path: str) -> None:
        """Remove a directory and all that is in it; a missing one is no error."""
        if self.exists(path):
            self._fs.delete_dir(path)

    def remove_empty_directory(self, directory: str) -> None:
        if not self.list_names(directory):
            self._fs.delete_dir(directory)

    def _make_parent(self, path: str) -> None:
        self._fs.create_dir(path.rpartition("/")[0], recursive=True)

    def __reduce__(self) -> tuple[object, ...]:
        return ArrowFileIO, (self._uri,)


def open_store(
    location: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> tuple[FileIO, str]:
    """Return the store of a table's location and the table's path in it.

    ``location``: a local path, or a URI such as ``file:///…``, ``s3://…``, ``gs://…``, ``az://…``, ``hdfs://…``.
    ``storage_options``: settings of an object store; other stores have none.
    Raises InvalidRequestError if no store knows the URI or an option.
    """
    text = os.fspath(location)
    if is_object_uri(text):
        return ObjectStoreIO(text, storage_options), text.rstrip("/")
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidRequestError(f"storage_options: expected a dict, found {storage_options!r}")
    if storage_options:
        raise InvalidRequestError(
            f"{text}: storage options are for object stores (s3://, gs://, az://); leave them out"
        )
    if "://" not in text and not text.startswith("file:"):
        return LocalFileIO(), str(Path(text).absolute())
    if text.startswith("file:") and any(sign in text for sign in "?#"):  # Arrow would leave out what follows
        raise InvalidRequestError(
            f"{text}: expected a URI without ? and #; write them as %3F and %23, or give a path"
        )
    from pyarrow.fs import FileSystem

    try:
        _, path = FileSystem.from_uri(text)
        if text.startswith("file:"):
            return LocalFileIO(), path
        return ArrowFileIO(text), path
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidRequestError(f"{text}: expected a path or a URI of a known store ({error})") from None


def locate(uri: str, table_store: FileIO) -> tuple[FileIO, str]:
    """Return the store and path of a file named by URI as Hadoop spells them: ``file:/a``, ``s3://bucket/a``.

    ``table_store``: the store of the table. Its options also hold for another bucket of the same kind of store.
    Nothing in the path is percent-encoded. Raises InvalidRequestError if no store knows the scheme.
    """
    if is_object_uri(uri):
        near = table_store.beside(uri) if isinstance(table_store, ObjectStoreIO) else ObjectStoreIO(uri)
        return near, uri
    scheme, _, rest = uri.partition(":")
    if scheme == "file":
        return LocalFileIO(), "/" + rest.lstrip("/")
    authority, _, path = rest.lstrip("/").partition("/")
    store, base = open_store(f"{scheme}://{authority}")
    return store, f"{base.rstrip('/')}/{path}"
