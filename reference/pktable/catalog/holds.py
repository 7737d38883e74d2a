"""Consumers say which snapshot a reader of changes reads next; work that needs a snapshot puts a file of its own.

A consumer is a file, which its reader writes over. An expiry keeps the snapshots and the changelogs that a consumer has
not read, and a rollback is refused if a consumer has read what would go. An expiry may have looked at the consumers
before one is put. So a reader that makes a consumer puts a fence afterwards, which makes the expiry look again. Then it
looks for its snapshot.

Rollbacks and makers of branches put tags, and fast-forwards put consumers, which keep what they need. The removal of a
branch puts a consumer, too, which says that it has begun. The work removes them when it is done. If it dies, a repair
does, which is not run while such work is under way.

Clauses: BRN-6, BRN-10, BRN-13, CMT-47, CMT-50, CMT-59, CMT-60, CMT-62, CMT-64, META-58.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.options import TableOptions

from pktable.catalog.branch_names import is_there
from pktable.format.metadata.json_text import decode_json, encode_json
from pktable.format.paths import CONSUMER, TAG, TablePaths
from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import FileIO

DEFAULT_LEAST = 10
DEFAULT_MILLIS = 60 * 60 * 1000
"""Paimon's values of `snapshot.num-retained.min` and `snapshot.time-retained`."""


@dataclass(frozen=True, slots=True)
class Retained:
    """The snapshots that stay: the ``least`` newest, and of the ``most`` newest those from ``since`` on.

    ``most``: None for all. ``since``: milliseconds since the epoch; None: age keeps none. ``at_once``: how many one
    expiry removes at most, None for all.
    """

    least: int
    since: int | None
    most: int | None = None
    at_once: int | None = None

    @classmethod
    def asked_for(cls, options: TableOptions, now_millis: int) -> Retained | None:
        """Return what the options of a table say, None if they say nothing. Clauses: CMT-63."""
        least, most = options.snapshot_retained_min, options.snapshot_retained_max
        retained = options.snapshot_retained_millis
        if options.write_only or least is most is retained is None:
            return None
        least = min(DEFAULT_LEAST, most or DEFAULT_LEAST) if least is None else least
        return cls(
            least,
            since=now_millis - (DEFAULT_MILLIS if retained is None else retained),
            most=most,
            at_once=options.snapshots_expired_at_once,
        )

    def candidates(self, ids: Sequence[int]) -> Iterator[tuple[int, int | None]]:
        """Yield the ids that may go, in order, and from which time on age keeps each. Clauses: CMT-63."""
        too_many = 0 if self.most is None else len(ids) - self.most
        for at, one in enumerate(ids[: -self.least][: self.at_once]):
            yield one, self.since if at >= too_many else None


NAME: Final = re.compile(r"(?!\.)[\w.-]{1,246}", re.ASCII)
WRITTEN_OVER: Final = RetryPolicy(attempts=8, first_wait=0.01, longest_wait=0.1)
"""A file that is written over can be half there for a moment."""
ITS_CONTENT: Final = "the id of a snapshot; delete_consumer removes it, set_consumer writes it again"


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
        data = self._store.read(path)
        try:
            number = decode_json(data, at=path).long("nextSnapshot")
        except CorruptFileError as error:
            raise CorruptFileError(error.what, at=path, expected=ITS_CONTENT, found=error.found) from None
        if number < 1:
            raise CorruptFileError("nextSnapshot", at=path, expected=ITS_CONTENT, found=number)
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

    def put(self, name: str, next_snapshot: int, *, is_new: bool = False) -> None:
        """Let a consumer read a snapshot next. Raises InvalidRequestError. Clauses: META-58.

        ``is_new``: whether there is none of the name. Its file then comes whole or not at all, because half a file
        would stop each expiry.
        """
        path, data = self._paths.consumer(checked(name)), encode_json({"nextSnapshot": next_snapshot})
        if not (is_new and self._store.put_if_absent(path, data)):
            self._store.write(path, data)

    def remove(self, name: str) -> None:
        """Remove a consumer. Raises InvalidRequestError if no consumer has the name."""
        if name not in self.names():
            raise InvalidRequestError(f"consumer {name!r}: not found; consumers lists those there are")
        self._store.delete(self._paths.consumer(name))


def checked(name: str) -> str:
    """Return the name of a consumer. Raises InvalidRequestError if it cannot be one."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidRequestError(
            f"consumer {name!r}: expected a name of at most 246 letters, digits and ._- that does not begin with a dot"
        )
    return name


ROLLBACK, BRANCH, FAST_FORWARD, REMOVAL = "rollback", "branch", "fast-forward", "removal"
_HOLD: Final = re.compile(
    rf"({ROLLBACK}|{BRANCH}|{FAST_FORWARD}|{REMOVAL})-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}"
)


def new_hold(kind: str) -> str:
    """Return a name that no other work has."""
    return f"{kind}-{uuid.uuid4()}"


def kind_of_hold(name: str) -> str | None:
    """Return what kind of work keeps files by a tag or consumer of this name, None if a user does."""
    found = _HOLD.fullmatch(name)
    return found[1] if found else None


def is_read(store: FileIO, paths: TablePaths) -> bool:
    """Return whether a fast-forward reads a branch, or another one is made from it. Clauses: BRN-13."""
    tags = (one.removeprefix(TAG) for one in store.list_names(paths.tags))
    kinds = map(kind_of_hold, (*Consumers(store, paths).names(), *tags))
    return not {FAST_FORWARD, BRANCH}.isdisjoint(kinds)


def is_kept(store: FileIO, paths: TablePaths, holds: Iterable[str]) -> bool:
    """Return whether nobody removes a branch that work has put the files ``holds`` in.

    A removal that does not see them has put its consumer before. It removes that after `schema-0`, and whoever makes
    the branch again removes the files first. So the looks have this order. Clauses: BRN-13.
    """
    consumers = Consumers(store, paths).names()
    return (
        REMOVAL not in map(kind_of_hold, consumers)
        and is_there(store, paths)
        and all(map(store.exists, holds))
    )
