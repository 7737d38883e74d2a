"""Whole directories of a store: made, moved, removed.

A local directory is moved in one step. Other stores have no such step, or no directories: one is there as long as a
file is below it. Such a directory is kept by an empty file, `MARKER`, and removed file by file.

Clauses: WH-4, WH-6, WH-7.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from typing import Final

from pktable_spec.errors import InvalidRequestError

from pktable.store.file_io import ArrowFileIO, FileIO, LocalFileIO

MARKER: Final = ".database"
"""The file that keeps an otherwise empty directory where a store has none."""


def make_directory(store: FileIO, path: str) -> None:
    """Make an empty directory; one that is there stays as it is."""
    if isinstance(store, LocalFileIO):
        os.makedirs(path, exist_ok=True)
    else:
        store.write(f"{path}/{MARKER}", b"")


def move_directory(store: FileIO, path: str, to: str) -> None:
    """Move a directory to ``to``, where nothing is but perhaps an empty directory, in one step.

    Raises InvalidRequestError if the store cannot, or something is there. Clauses: WH-6.
    """
    if not isinstance(store, LocalFileIO):
        raise InvalidRequestError(
            f"{path}: a table of this store cannot be renamed, because the store moves no directory in one step; "
            "write its rows to a new table"
        )
    try:
        os.rename(path, to)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidRequestError(f"{to}: expected nothing there, found a file or a directory") from error
    except OSError as error:
        if os.path.isdir(to) and os.listdir(to):
            raise InvalidRequestError(f"{to}: expected nothing there, found a directory") from None
        raise error


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
        gone = f"{aside}/.dropped-{uuid.uuid4()}"
        os.rename(path, gone)
        shutil.rmtree(gone)
        return
    kept = [] if last is None else [last]
    for part in (*(name for name in _directories(store, path) if name not in kept), *kept):
        _remove_files(store, f"{path}/{part}")
    _remove_files(store, path)
    if isinstance(store, ArrowFileIO):
        store.delete_directory(path)


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
