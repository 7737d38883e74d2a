"""Names of files that work puts for itself: tags of rollbacks and of makers of branches, consumers of fast-forwards.

They keep what the work needs. The removal of a branch puts a consumer, too, which says that it has begun. The work
removes them when it is done. If it dies, a repair does, which is not run while such work is under way.

Clauses: BRN-6, BRN-10, BRN-13, CMT-47, CMT-50.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Final

from pktable.catalog.branch_names import is_there
from pktable.catalog.consumers import Consumers
from pktable.format.paths import TAG, TablePaths
from pktable.store.file_io import FileIO

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
