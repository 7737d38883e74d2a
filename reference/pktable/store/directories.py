"""Directories that hold tables (a database ``x.db``, a warehouse), and how a whole directory is moved or removed.

A local directory is moved in one step. Other stores have no such step, or no directories: one is there as long as a
file is below it. Such a directory is kept by an empty file, `MARKER`, and removed file by file.

Clauses: WH-4, WH-6, WH-7.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pktable_spec.errors import InvalidRequestError, NotATableError, StorageError

from pktable.format.paths import HUDI_PROPERTIES, SCHEMA, SNAPSHOT, TablePaths, numbered
from pktable.store.file_io import ArrowFileIO, FileIO, LocalFileIO

MARKER: Final = ".database"
"""The file that keeps an otherwise empty directory where a store has none."""
DROPPED: Final = ".dropped-"
"""The beginning of the name of a directory that is being removed, or was when its process was killed."""


def make_directory(store: FileIO, path: str) -> None:
    """Make an empty directory; one that is there stays as it is."""
    if isinstance(store, LocalFileIO):
        os.makedirs(path, exist_ok=True)
    else:
        store.write(f"{path}/{MARKER}", b"")


def move_directory(store: FileIO, path: str, to: str) -> None:
    """Move a directory to ``to``, where nothing is but perhaps empty directories, in one step.

    A writer of a table that was there may have left such directories.
    Raises InvalidRequestError if the store cannot, or something is there. Clauses: WH-6.
    """
    if not isinstance(store, LocalFileIO):
        raise InvalidRequestError(
            f"{path}: a table of this store cannot be renamed, because the store moves no directory in one step; "
            "write its rows to a new table"
        )
    _remove_without_files(to)
    try:
        os.rename(path, to)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidRequestError(f"{to}: expected nothing there, found a file or a directory") from error
    except FileNotFoundError:
        raise InvalidRequestError(
            f"{path}: it, or the database of {to}, was dropped or renamed concurrently"
        ) from None
    except OSError as error:
        if os.path.isdir(to) and os.listdir(to):
            raise InvalidRequestError(f"{to}: expected nothing there, found a directory") from None
        raise error


def _remove_without_files(path: str) -> None:
    """Remove a directory whose directories hold no file; leave others, and links, as they are."""
    found = [] if os.path.islink(path) else list(os.walk(path, topdown=False))
    if not any(files for _, _, files in found):
        for directory, _, _ in found:
            with suppress(OSError):  # a file has come
                os.rmdir(directory)


def remove_directory(store: FileIO, path: str, *, aside: str, last: str | None = None) -> None:
    """Remove a directory and all that is in it; links are removed, and not followed.

    ``aside``: the directory where it is moved before, if the store can, so that it disappears in one step. ``last``:
    the directory in it whose files are removed last where the store cannot. Raises InvalidRequestError for a link.
    Clauses: WH-4.
    """
    if isinstance(store, LocalFileIO):
        if os.path.islink(path):
            raise InvalidRequestError(
                f"{path}: expected a directory, found a symbolic link; remove it yourself"
            )
        gone = f"{aside}/{DROPPED}{uuid.uuid4()}"
        try:
            os.rename(path, gone)
        except FileNotFoundError:
            raise InvalidRequestError(f"{path}: it was dropped or renamed concurrently") from None
        try:
            _remove_tree(gone)
        except OSError as error:
            remedy = f"{path} is dropped, and the next drop removes what is left of it"
            raise StorageError("remove", gone, error.errno, error.strerror or str(error), remedy) from error
        for name in os.listdir(aside):
            if name.startswith(DROPPED):
                with suppress(OSError):
                    _remove_tree(f"{aside}/{name}")
        return
    kept = [] if last is None else [last]
    for part in (*(name for name in _directories(store, path) if name not in kept), *kept):
        _remove_files(store, f"{path}/{part}")
    _remove_files(store, path)
    if isinstance(store, ArrowFileIO):
        store.delete_directory(path)


def _remove_tree(path: str) -> None:
    """Remove a directory, though another process may do so, too."""
    while os.path.lexists(path):
        with suppress(FileNotFoundError):
            shutil.rmtree(path)


def remove_empty_directory(store: FileIO, path: str) -> None:
    """Remove a directory in which nothing is but perhaps its `MARKER`."""
    if isinstance(store, LocalFileIO):
        os.rmdir(path)
        return
    store.delete(f"{path}/{MARKER}")
    if isinstance(store, ArrowFileIO):
        store.delete_directory(path)


def _directories(store: FileIO, path: str) -> Sequence[str]:
    files = {file.name for file in store.list_files(path)}
    return sorted(name for name in store.list_names(path) if name not in files)


def _remove_files(store: FileIO, path: str) -> None:
    for name in _directories(store, path):
        _remove_files(store, f"{path}/{name}")
    for file in store.list_files(path):
        store.delete(f"{path}/{file.name}")


DATABASE: Final = ".db"
DEFAULT: Final = "default"
"""The database of names without one."""
NAMES_SHOWN: Final = 10


def not_a_table(store: FileIO, root: str, location: str | None = None) -> NotATableError:
    """Return the error that ``root`` is no table; it names the tables that lie in ``root``.

    ``location``: how the caller named ``root``, by default ``root`` itself.
    """
    path = location or root
    if not store.exists(root) and not store.list_names(root):  # an object store has no directories
        return NotATableError(path, "nothing")
    if store.exists(f"{root}/{HUDI_PROPERTIES}"):
        return NotATableError(path, "a Hudi table; pktable.HudiTable opens it")
    names = tables_in(store, root)
    if not names:
        return NotATableError(
            path, "a directory without one" if store.list_names(root) else "an empty directory or a file"
        )
    shown = ", ".join(names[:NAMES_SHOWN])
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return NotATableError(path, f"a directory of tables: {shown}{more}")


def tables_in(store: FileIO, directory: str) -> list[str]:
    """Return the tables in a directory and in its databases, as paths relative to it, sorted by name.

    Directories that cannot be listed count as empty.
    """
    tables = []
    for name in _names(store, directory):
        path = f"{directory}/{name}"
        if _is_table(store, path):
            tables.append(name)
        elif name.endswith(DATABASE):
            tables += [f"{name}/{one}" for one in _names(store, path) if _is_table(store, f"{path}/{one}")]
    return tables


def is_table(store: FileIO, path: str) -> bool:
    """Return whether the directory ``path`` has the schema of a table. Raises OSError if it cannot be listed."""
    return any(numbered(name, SCHEMA) is not None for name in store.list_names(TablePaths(path).schemas))


def expect_no_remains(store: FileIO, root: str) -> None:
    """Raise InvalidRequestError if snapshots are at ``root``, which is no table, and nothing can read them.

    Clauses: WH-31.
    """
    paths = TablePaths(root)
    if any(numbered(name, SNAPSHOT) is not None for name in store.list_names(paths.snapshots)):
        raise InvalidRequestError(
            f"{root}: expected no table, or one with schema files, found snapshots without a schema: a table of which "
            f"{paths.schemas} is lost, or what came late to one that was dropped; put the schema files back, or move "
            "the directory elsewhere if nobody misses them"
        )


def _is_table(store: FileIO, path: str) -> bool:
    try:
        return is_table(store, path)
    except OSError:
        return False


def _names(store: FileIO, directory: str) -> list[str]:
    try:
        return sorted(store.list_names(directory))
    except OSError:
        return []
