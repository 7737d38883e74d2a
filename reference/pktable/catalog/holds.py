"""Names of files that work puts for itself: tags of rollbacks and of makers of branches, consumers of fast-forwards.

They keep what the work needs. The removal of a branch puts a consumer, too, which says that it has begun. The work
removes them when it is done. If it dies, a repair does, which is not run while such work is under way.

Clauses: BRN-6, BRN-10, BRN-13, CMT-47, CMT-50.
"""

from __future__ import annotations

import re
import uuid
from typing import Final

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
