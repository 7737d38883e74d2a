"""Keep a table inside its directory, bound what is read of it, and name the failures of its store.

A table may come from someone else. Every access to its files goes through a `GuardedStore`, which does this:

1. It refuses a path that is not below the table directory, such as one with ``..``.
2. On a local store it refuses a symbolic link that leads out of the table directory, and reads regular files only: a
   named pipe would block a reader for ever. The table directory itself, and those above it, may be links.
3. It refuses a metadata file of more bytes than any writer makes, before a byte of it is read.
4. It raises a failure of the store (a full disk, a revoked permission) as `StorageError`. A missing file stays a
   FileNotFoundError.

The caller may name other directories (``external_roots``) that the table may use too, by links or by external paths.
The table cannot name them itself: its options are written by the same hand as its links.

The directories above a file may be swapped for links while a table is open. So an access costs one ``lstat`` of the
file and of each directory between it and the table directory, and nothing on stores that have no links.

Clauses: SAFE-1 to SAFE-5, META-18.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pktable_spec.errors import CorruptFileError, InvalidRequestError, OutsideTableError, StorageError

from pktable.format.bounds import MOST_JSON_BYTES, MOST_METADATA_BYTES
from pktable.format.paths import JSON_DIRECTORIES
from pktable.store.file_info import FileInfo
from pktable.store.file_io import FileIO, LocalFileIO, abort, locate, puts_may_be_late, remove_empty_directory
from pktable.store.requests import at_once

ExternalRoots = str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None
"""Directories and URIs, or one, that a caller allows a table to use."""
KINDS: Final = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def guarded(store: FileIO, root: str, external_roots: ExternalRoots = ()) -> GuardedStore:
    """Return ``store`` guarded for the table at ``root``; a store that is guarded already is returned as it is.

    Raises InvalidRequestError. Clauses: SAFE-2.
    """
    allowed = tuple(map(_allowed, _several(external_roots)))
    return store if isinstance(store, GuardedStore) else GuardedStore(store, root, allowed)


def _several(roots: ExternalRoots) -> Iterable[object]:
    """Return ``roots`` as several. A plain text is one root: its characters are not, of which one may be a slash."""
    if roots is None:
        return ()
    if isinstance(roots, (str, os.PathLike)):
        return (roots,)
    if not isinstance(roots, Iterable) or isinstance(roots, (bytes, Mapping)):
        raise _no_root(roots)
    return roots


def _allowed(root: object) -> str:
    path = os.fspath(root) if isinstance(root, (str, os.PathLike)) else None
    if not isinstance(path, str) or not path.strip():  # "" is not the current directory
        raise _no_root(root)
    return _normal(path)


def _no_root(found: object) -> InvalidRequestError:
    return InvalidRequestError(f"external_roots: expected directories and URIs, or one, found {found!r}")


class GuardedStore:
    """The `FileIO` of one table. ``external_roots``: URIs, as `_normal` spells them."""

    def __init__(self, inner: FileIO, root: str, external_roots: Sequence[str]) -> None:
        self._inner, self._root, self._external = inner, root, tuple(external_roots)
        self.is_local = isinstance(inner, LocalFileIO)

    def __reduce__(self) -> tuple[object, ...]:
        return GuardedStore, (self._inner, self._root, self._external)

    @property
    def late_puts(self) -> bool:
        return puts_may_be_late(self._inner)

    @property
    def requests_at_once(self) -> int:
        return at_once(self._inner)

    # Files of the table

    def read(self, path: str) -> bytes:
        self._expect_file(path, limited=True)
        with NamedFailures("read", path):
            return self._inner.read(path)

    def open(self, path: str) -> Any:
        self._expect_file(path)
        with NamedFailures("open", path):
            return self._inner.open(path)

    def create(self, path: str) -> Any:
        self._expect_place(path)
        with NamedFailures("create", path):
            return _Sink(self._inner.create(path), path)

    def write(self, path: str, data: bytes) -> None:
        self._expect_place(path)
        with NamedFailures("write", path):
            self._inner.write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._expect_place(path)
        with NamedFailures("write", path):
            return self._inner.put_if_absent(path, data)

    def list_names(self, directory: str) -> list[str]:
        self._admitted(directory)
        with NamedFailures("list", directory):
            return self._inner.list_names(directory)

    def list_files(self, directory: str) -> list[FileInfo]:
        self._admitted(directory)
        with NamedFailures("list", directory):
            return self._inner.list_files(directory)

    def exists(self, path: str) -> bool:
        if path != self._root:
            self._admitted(path.rpartition("/")[0])
        with NamedFailures("look for", path):
            return self._inner.exists(path)

    def delete(self, path: str) -> None:
        self._admitted(path.rpartition("/")[0])
        with NamedFailures("delete", path):
            self._inner.delete(path)

    def remove_empty_directory(self, directory: str) -> None:
        self._admitted(directory.rpartition("/")[0])
        remove_empty_directory(self._inner, directory)

    # Files elsewhere

    def elsewhere(self, uri: str) -> tuple[FileIO, str]:
        """Return the store of a file that lies outside of the table, and its path there. Clauses: META-18, SAFE-2.

        Raises OutsideTableError if the caller has not allowed it.
        """
        self.expect_allowed(uri)
        store, path = locate(uri, self._inner)
        return GuardedStore(store, path.rpartition("/")[0], self._external), path

    def expect_allowed(self, uri: str) -> None:
        """Raise OutsideTableError unless ``uri`` lies below an external root or the table. Clauses: SAFE-2."""
        asked = _normal(uri)
        roots = (*self._external, *([_normal(self._root)] if self.is_local else ()))
        if _leads_up(asked) or not any(_is_below(asked, root) for root in roots):
            raise OutsideTableError(self._root, uri)

    def expect_readable(self, path: str) -> None:
        """Raise as `open` would for a file that another process, such as Spark's, is about to read."""
        self._expect_file(path)

    # Checks

    def _expect_file(self, path: str, *, limited: bool = False) -> None:
        """Raise unless ``path`` may be read: it lies in the table, and is a regular file of a bounded size."""
        most = self._admitted(path.rpartition("/")[0])
        if not self.is_local:
            return
        try:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                self._expect_real(path)
                if not os.path.exists(path):
                    raise CorruptFileError(
                        "file", at=path, expected="a regular file", found="a link to nothing"
                    )
                found = os.stat(path)
        except OSError:
            return  # the access itself fails, and is reported
        except ValueError as error:  # a null character
            raise CorruptFileError("path", at=repr(path), expected="a file name", found=error) from None
        if not stat.S_ISREG(found.st_mode):
            kind = next((name for is_kind, name in KINDS if is_kind(found.st_mode)), "something else")
            raise CorruptFileError("file", at=path, expected="a regular file", found=kind)
        if limited and found.st_size > most:
            raise CorruptFileError(
                "size of a metadata file", at=path, expected=f"at most {most} bytes", found=found.st_size
            )

    def _expect_place(self, path: str) -> None:
        """Raise unless ``path`` may be written: a link there must not make a writer change another file.

        A hint is written where anyone may have put a link. So this is a failure of the store, which a writer of hints
        bears.
        """
        self._admitted(path.rpartition("/")[0])
        if self.is_local and os.path.islink(path):
            try:
                self._expect_real(path)
            except OutsideTableError as error:
                raise StorageError("write", path, errno.ELOOP, f"it is a link to {error.leads_to}") from None

    def _admitted(self, directory: str) -> int:
        """Return the most bytes of a file in ``directory`` that is read whole. Raises unless it is the table's.

        Clauses: SAFE-2.
        """
        rest = directory.removeprefix(self._root)
        if not directory.startswith(self._root) or rest[:1] not in ("", "/") or _leads_up(rest):
            raise CorruptFileError(
                "path", at=directory, expected=f"a directory below {self._root}", found="another"
            )
        if self.is_local and self._has_links(rest):
            self._expect_real(directory)
        return MOST_JSON_BYTES if directory.rpartition("/")[2] in JSON_DIRECTORIES else MOST_METADATA_BYTES

    def _has_links(self, rest: str) -> bool:
        """Return whether a directory on the way from the table directory down ``rest``, such as ``/a/b``, is a link."""
        end = rest.find("/", 1)
        while rest:
            if os.path.islink(self._root + (rest if end < 0 else rest[:end])):
                return True
            if end < 0:
                return False
            end = rest.find("/", end + 1)
        return False

    def _expect_real(self, path: str) -> None:
        """Raise OutsideTableError unless a local path, its links followed, lies in an allowed directory."""
        try:
            real = os.path.realpath(path)
        except ValueError as error:  # a null character
            raise CorruptFileError("path", at=repr(path), expected="a path", found=error) from None
        if not _is_below(real, os.path.realpath(self._root)) and not any(
            _is_below(real, os.path.realpath(root.removeprefix("file:")))
            for root in self._external
            if root.startswith("file:")
        ):
            raise OutsideTableError(self._root, real, link=path)


class _Sink:
    """A sink whose failures are named."""

    def __init__(self, inner: Any, path: str) -> None:
        self._inner, self._path = inner, path

    def write(self, data: Any) -> Any:
        with NamedFailures("write", self._path):
            return self._inner.write(data)

    @property
    def closed(self) -> bool:
        """Whether it is closed, as Arrow asks a file that it writes to."""
        return bool(getattr(self._inner, "closed", False))

    def tell(self) -> int:
        return int(self._inner.tell())

    def flush(self) -> None:
        with NamedFailures("write", self._path):
            self._inner.flush()

    def close(self) -> None:
        with NamedFailures("write", self._path):
            self._inner.close()

    def abort(self) -> None:
        with suppress(OSError):  # what it failed for is being raised
            abort(self._inner)


class NamedFailures:
    """A context that raises an OSError from inside as a StorageError, but that a file is missing as it is.

    Each operation on a store enters one, so it is no generator, which takes three times as long. Clauses: SAFE-5.
    """

    __slots__ = ("_action", "_path")

    def __init__(self, action: str, path: str) -> None:
        self._action, self._path = action, path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, (FileNotFoundError, StorageError)):
            what = error.strerror or str(error)
            raise StorageError(self._action, self._path, error.errno, what) from error


def _normal(location: str) -> str:
    """Return a path or URI as a URI of one spelling, without a slash at its end: ``file:/a``, ``s3://bucket/a``."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return "file:/" + os.path.abspath(location).strip("/")
    if scheme.lower() == "file":
        return "file:/" + rest.strip("/")
    return f"{scheme.lower()}://{rest.strip('/')}"


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _leads_up(path: str) -> bool:
    return ".." in path.split("/") or "\0" in path
