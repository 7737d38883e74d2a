"""The rows that a table must have, derived from the puts that created a file, in their order.

A file under a snapshot id is a snapshot unless its id had ended before. This says the same as the clauses in the
simplest way, and knows nothing of the code: not even whether a file is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pktable.format.metadata.fence import decode_fence
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot
from pktable.format.paths import FENCE, SNAPSHOT, numbered

Rows = dict[int, int]
Identity = tuple[int, str]
Writes = tuple[int, ...]


def identity_of(snapshot: Snapshot) -> Identity:
    """Return what no other snapshot has."""
    return snapshot.id, snapshot.delta_manifest_list


@dataclass
class LogOracle:
    """The table after some puts. ``retained``: by id, ``known``: all there ever were; each with its writes in order.

    ``restored``: the writes of the tag that rollbacks to a tag go back to. ``problems``: breaches of CMT-1.
    """

    restored: Writes
    expired: int = 0
    rollbacks: list[tuple[int, int]] = field(default_factory=list)
    retained: dict[int, Snapshot] = field(default_factory=dict)
    known: dict[Identity, Writes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @staticmethod
    def after(puts: Iterable[tuple[str, bytes]], restored: Writes) -> LogOracle:
        """Return the table after puts of paths and contents."""
        oracle = LogOracle(restored)
        for path, data in puts:
            name = path.rpartition("/")[2]
            if numbered(name, SNAPSHOT) is not None:
                oracle._commit(decode_snapshot(data, at=path))
            elif (number := numbered(name, FENCE)) is not None:
                oracle._end(number, data, path)
        return oracle

    def _commit(self, snapshot: Snapshot) -> None:
        known_fence = snapshot.fence or 0
        if snapshot.id <= self.expired:
            return
        if any(fence > known_fence and target < snapshot.id for fence, target in self.rollbacks):
            return
        latest = max(self.retained, default=0)
        if snapshot.id != latest + 1:
            self.problems.append(f"snapshot {snapshot.id} was put after snapshot {latest}")
        before = self.known[identity_of(self.retained[latest])] if latest else ()
        added = (snapshot.commit_identifier,) if snapshot.commit_kind == "APPEND" else ()
        writes = self.restored if snapshot.commit_kind == "OVERWRITE" else before + added
        self.known[identity_of(snapshot)] = writes
        self.retained[snapshot.id] = snapshot

    def _end(self, number: int, data: bytes, path: str) -> None:
        fence = decode_fence(number, data, at=path)
        self.expired = max(self.expired, fence.expired)
        self.rollbacks = [(one.fence, one.target) for one in fence.rollbacks]
        limit = min(
            (target for added, target in self.rollbacks if added == number),
            default=max(self.retained, default=0),
        )
        self.retained = {one: kept for one, kept in self.retained.items() if self.expired < one <= limit}

    def writes(self, snapshot: Snapshot) -> Writes | None:
        """Return the writes of a snapshot, None if it is none."""
        return self.known.get(identity_of(snapshot))


def rows_after(writes: Writes) -> Rows:
    """Return the rows after some writes: each sets its own key, and key 0, to its number."""
    return {**({0: writes[-1]} if writes else {}), **{number: number for number in writes}}
