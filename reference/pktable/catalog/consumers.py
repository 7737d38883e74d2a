"""Consumers: which snapshot each reader of a stream of changes reads next.

A consumer is a file, which its reader writes over. An expiry keeps the snapshots and the changelogs that a consumer has
not read, and a rollback is refused if a consumer has read what would go. An expiry may have looked at the consumers
before one is put. So a reader that makes a consumer puts a fence afterwards, which makes the expiry look again. Then it
looks for its snapshot.

Clauses: CMT-59, CMT-60, CMT-62, CMT-64, META-58.
"""

from __future__ import annotations

import contextlib
import re
from typing import Final

from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.format.metadata.json_text import decode_json, encode_json
from pktable.format.paths import CONSUMER, TablePaths
from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import FileIO

NAME: Final = re.compile(r"(?!\.)[\w.-]+", re.ASCII)
WRITTEN_OVER: Final = RetryPolicy(attempts=8, first_wait=0.01, longest_wait=0.1)
"""A file that is written over can be half there for a moment."""


class Consumers:
    """The directory ``consumer/`` of a table."""

    def __init__(self, store: FileIO, paths: TablePaths) -> None:
        self._store, self._paths = store, paths

    def all(self) -> dict[str, int]:
        """Return by name the id of the snapshot that each consumer reads next. Raises CorruptFileError."""
        found = {}
        for name in self.names():
            with contextlib.suppress(FileNotFoundError):  # removed since the listing
                found[name] = retry(
                    lambda path=f"{self._paths.consumers}/{CONSUMER}{name}": self._next(path),  # type: ignore[misc]
                    on=CorruptFileError,
                    policy=WRITTEN_OVER,
                )
        return found

    def names(self) -> list[str]:
        """Return the names of all consumers, sorted."""
        names = self._store.list_names(self._paths.consumers)
        return sorted(one.removeprefix(CONSUMER) for one in names if one.startswith(CONSUMER))

    def _next(self, path: str) -> int:
        """Return what a file says. Raises CorruptFileError, FileNotFoundError. Clauses: META-58."""
        number = decode_json(self._store.read(path), at=path).long("nextSnapshot")
        if number < 1:
            raise CorruptFileError("nextSnapshot", at=path, expected="the id of a snapshot", found=number)
        return number

    def first_needed(self, since: int | None = None) -> int | None:
        """Return the least id that a consumer reads next, None without consumers. Raises CorruptFileError.

        ``since``: milliseconds since the epoch; a consumer that was last written before it needs nothing.
        Clauses: CMT-59, CMT-64.
        """
        found = self.all()
        if since is not None and found:
            for file in self._store.list_files(self._paths.consumers):  # a second look shows the newer time
                if file.modified_millis < since:
                    found.pop(file.name.removeprefix(CONSUMER), None)
        return min(found.values(), default=None)

    def next_of(self, name: str) -> int | None:
        """Return what one consumer reads next, None if it is not there or damaged."""
        with contextlib.suppress(FileNotFoundError, CorruptFileError):
            return self._next(self._paths.consumer(checked(name)))
        return None

    def put(self, name: str, next_snapshot: int) -> None:
        """Let a consumer read a snapshot next. Raises InvalidRequestError. Clauses: META-58."""
        self._store.write(self._paths.consumer(checked(name)), encode_json({"nextSnapshot": next_snapshot}))

    def remove(self, name: str) -> None:
        """Remove a consumer. Raises InvalidRequestError if there is none of the name."""
        if name not in self.names():
            raise InvalidRequestError(f"consumer {name!r}: not found; consumers lists those there are")
        self._store.delete(self._paths.consumer(name))


def checked(name: str) -> str:
    """Return the name of a consumer. Raises InvalidRequestError if it cannot be one."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidRequestError(
            f"consumer {name!r}: expected a name of letters, digits and ._- only that does not begin with a dot"
        )
    return name
