"""Markers: empty files that name the files of a write, for a rollback by Hudi, which goes by them and lists nothing.

The marker of ``PARTITION/FILE`` is ``.hoodie/.temp/INSTANT/PARTITION/FILE.marker.CREATE``. It is there before the file,
and deleted after the write is complete or rolled back.

Clauses: LOG-65.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pktable.store.file_io import FileIO

from pktable_hudi.format.names import DIRECTORY

SUFFIX: Final = ".marker.CREATE"


def announce(store: FileIO, root: str, instant: str, path: str) -> None:
    """Write the marker of the file ``path``, which is below ``root``. Clauses: LOG-65."""
    store.write(f"{_directory(root, instant)}/{path}{SUFFIX}", b"")


def remove_markers(store: FileIO, root: str, instant: str) -> None:
    """Delete the markers of a write that has ended."""
    for path in list(_markers(store, _directory(root, instant))):
        store.delete(path)


def _markers(store: FileIO, directory: str) -> Iterator[str]:
    for name in store.list_names(directory):
        path = f"{directory}/{name}"
        if name.endswith(SUFFIX):
            yield path
        else:
            yield from _markers(store, path)


def _directory(root: str, instant: str) -> str:
    return f"{root}/{DIRECTORY}/.temp/{instant}"
