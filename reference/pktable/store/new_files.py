"""New files of one piece of work: their names, and their removal if the work is not committed.

Clauses: CMT-12.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from pktable_spec.errors import PkTableError

from pktable.format import paths
from pktable.store.file_io import FileIO
from pktable.store.requests import together


@dataclass(slots=True)
class NewFiles:
    """Names the files of one piece of work and remembers their paths. ``token``: unique to the work."""

    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    paths: list[str] = field(default_factory=list)
    _counter: Iterator[int] = field(default_factory=lambda: iter(range(1 << 31)))

    def data_path(self, directory: str, format: str) -> str:
        """Return the path of a new data file in a bucket directory. ``format``: as options name it."""
        return self._made(paths.data_file(directory, self.token, next(self._counter), format))

    def changelog_path(self, directory: str, format: str) -> str:
        """Return the path of a new changelog file in a bucket directory."""
        return self._made(paths.changelog_file(directory, self.token, next(self._counter), format))

    def index_path(self, directory: str) -> str:
        """Return the path of a new DV index file."""
        return self._made(paths.index_file(directory, self.token, next(self._counter)))

    def _made(self, path: str) -> str:
        self.paths.append(path)
        return path

    def remove(self, store: FileIO) -> None:
        """Delete every file that was made, as far as the store permits. Clauses: CMT-12."""
        remove_quietly(store, self.paths)
        self.paths.clear()


def put_once(store: FileIO, path: str, data: bytes) -> bool:
    """Return whether this process created the file ``path``, or, after an error, whether it has this content."""
    try:
        return store.put_if_absent(path, data)
    except OSError:
        # The answer may be lost. A second put of the same bytes finds the first one or takes its place.
        return store.put_if_absent(path, data) or store.read(path) == data


def remove_quietly(store: FileIO, paths: Iterable[str]) -> None:
    """Delete files that nothing refers to. A file that cannot be deleted stays as an orphan and harms no read.

    They are deleted in no order where the store takes several requests at once.
    """

    def remove(path: str) -> None:
        with contextlib.suppress(OSError, PkTableError):
            store.delete(path)

    together(store, [partial(remove, path) for path in paths])
