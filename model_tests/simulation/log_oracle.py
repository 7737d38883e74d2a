"""The rows that a table must have, derived from the files that were put and deleted, in their order.

A file under a snapshot id is a snapshot unless its id had ended before. This says the same as the clauses in the
simplest way, and knows nothing of the code: it decodes files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from pktable.catalog.fences import KEPT
from pktable.format.metadata.snapshot import Fence, Snapshot, decode_fence, decode_snapshot
from pktable.format.paths import CHANGELOG, CONSUMER, FENCE, SNAPSHOT, id_of_removal, numbered
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import COMPACT, OVERWRITE

from model_tests.simulation.store import BRANCHES, Effect, Work

Rows = dict[int, int]
Identity = tuple[int, str]
Writes = tuple[int, ...]

FOREIGN = "expire as others do"
"""The kind of work that removes snapshots and puts no fence."""
FOREIGN_ROLLBACK = "roll back as others do"
"""The kind of work that removes the latest snapshots and puts no fence."""
WRITER = "writer"
"""Who commits writes, and statements that delete; each has a number. Others compact, and roll back to tags."""


def identity_of(snapshot: Snapshot) -> Identity:
    """Return what no other snapshot has."""
    return snapshot.id, snapshot.delta_manifest_list


@dataclass
class LogOracle:
    """The table after some effects. ``retained``: by id, ``known``: all there ever were; each with its writes in order.

    ``restored``: the writes of the tag that rollbacks to a tag go back to. ``rows_after``: what writes make. ``kept``:
    how many fences count; ``late``: the numbers of the effects, from 0, that put one which does not.
    ``past``: what was retained after each effect, oldest first. ``problems``: breaches of the clauses by the order of
    the effects alone.
    """

    restored: Writes
    rows_after: Callable[[Writes], Rows]
    kept: int = KEPT
    late: set[int] = field(default_factory=set)
    expired: int = 0
    rollbacks: list[tuple[int, int]] = field(default_factory=list)
    retained: dict[int, Snapshot] = field(default_factory=dict)
    known: dict[Identity, Writes] = field(default_factory=dict)
    past: list[tuple[Snapshot, ...]] = field(default_factory=lambda: [()])
    problems: list[str] = field(default_factory=list)
    put: list[Snapshot] = field(default_factory=list)  # snapshots and strays
    put_on_branches: list[Snapshot] = field(default_factory=list)
    _files: set[int] = field(default_factory=set)
    _rolled_back: set[int] = field(default_factory=set)  # by no fence, and not put again since
    _ended_by: dict[int, tuple[Work, bool]] = field(default_factory=dict)  # by id; whether by a rollback
    _removers: dict[int, Work] = field(
        default_factory=dict
    )  # by id: who is to remove a file that was rolled back
    _branches: dict[str, dict[int, Writes]] = field(default_factory=dict)
    _fence: int = 0  # the newest
    _consumers: list[dict[str, int | None]] = field(default_factory=lambda: [{}])
    """After each effect, what each consumer reads next, None if that cannot be read."""

    @staticmethod
    def after(
        log: Iterable[Effect],
        restored: Writes = (),
        rows_after: Callable[[Writes], Rows] = lambda writes: {},
        kept: int = KEPT,
    ) -> LogOracle:
        """Return the table after the effects of a log."""
        oracle = LogOracle(restored, rows_after, kept)
        for at, (path, data, by) in enumerate(log):
            name = path.rpartition("/")[2]
            consumers = oracle._consumers[-1]
            if BRANCHES in path:
                oracle._note_branch(path, data)
            elif (one := numbered(name, SNAPSHOT)) is not None:
                if data is None:
                    oracle._remove(one, by)
                else:
                    oracle._files.add(one)
                    oracle._commit(decode_snapshot(data, at=path))
            elif data is not None and (number := numbered(name, FENCE)) is not None:
                if number > oracle._fence - kept:
                    oracle._end(decode_fence(number, data, at=path), by)
                else:
                    oracle.late.add(at)
            elif data is not None and (removed := id_of_removal(name)) is not None:
                oracle._removers[removed] = by
            elif data is None and (copied := numbered(name, CHANGELOG)) is not None:
                oracle._expect_read(copied, by, f"the changelog of snapshot {copied}")
            elif name.startswith(CONSUMER):
                consumers = {one: following for one, following in consumers.items() if one != name}
                if data is not None:
                    consumers[name] = _following(data)
            oracle.past.append(tuple(oracle.retained.values()))
            oracle._consumers.append(consumers)
        return oracle

    def _note_branch(self, path: str, data: bytes | None) -> None:
        """Note the writes of a snapshot that a branch was made from, or that was committed to it."""
        directory, _, name = path.rpartition("/")
        if numbered(name, SNAPSHOT) is None or data is None:
            return
        with suppress(CorruptFileError):  # half of one
            self._commit_to(self._branches.setdefault(directory, {}), decode_snapshot(data, at=path))

    def _commit_to(self, branch: dict[int, Writes], snapshot: Snapshot) -> None:
        self.put_on_branches.append(snapshot)
        before = branch.get(snapshot.id - 1, ())
        added = (snapshot.commit_identifier,) if _is_write(snapshot) else ()
        branch[snapshot.id] = self.known.setdefault(identity_of(snapshot), before + added)

    def _commit(self, snapshot: Snapshot) -> None:
        self.put.append(snapshot)
        known_fence = snapshot.fence or 0
        if snapshot.id <= self.expired:
            return
        if any(fence > known_fence and target < snapshot.id for fence, target in self.rollbacks):
            return
        if snapshot.id - 1 in self._rolled_back:  # its base; so it is a stray
            return
        self._rolled_back.discard(snapshot.id)
        self._ended_by.pop(snapshot.id, None)
        self._removers.pop(snapshot.id, None)
        latest = max(self.retained, default=0)
        if snapshot.id != latest + 1:
            self.problems.append(f"snapshot {snapshot.id} was put after snapshot {latest}")
        elif latest and snapshot.time_millis < self.retained[latest].time_millis:
            self.problems.append(f"snapshot {snapshot.id} is older than snapshot {latest}")
        before = self.known[identity_of(self.retained[latest])] if latest else ()
        number = snapshot.commit_identifier
        is_new = _is_write(snapshot)
        # It may be written again once it has expired.
        if is_new and any(
            _is_write(one) and one.commit_identifier == number for one in self.retained.values()
        ):
            self.problems.append(f"write {number} was committed twice")
        is_rollback = snapshot.commit_kind == OVERWRITE and not is_new
        writes = self.restored if is_rollback else before + ((number,) if is_new else ())
        self.known[identity_of(snapshot)] = writes
        self.retained[snapshot.id] = snapshot

    def _end(self, fence: Fence, by: Work) -> None:
        self._fence = fence.number
        self.expired = max(self.expired, fence.expired)
        self.rollbacks = [(one.fence, one.target) for one in fence.rollbacks]
        targets = [target for added, target in self.rollbacks if added == fence.number]
        limit = min(targets, default=max(self.retained, default=0))
        ended = {one for one in self.retained if one <= self.expired or one > limit}
        self._ended_by |= dict.fromkeys(ended, (by, bool(targets)))
        if targets:
            self._expect_unread(targets[0], by)
        for one in sorted(one for one in ended if one <= self.expired):
            self._expect_read(one, by, f"snapshot {one}")
            if by.older_than is not None and self.retained[one].time_millis >= by.older_than:
                self.problems.append(f"snapshot {one} expired, which is not older than {by.older_than}")
        self.retained = {one: kept for one, kept in self.retained.items() if one not in ended}
        if ended and (not self.retained or by.kind == "repair"):
            self.problems.append(
                f"fence {fence.number}, of a work to {by.kind}, ended snapshots {sorted(ended)}"
            )

    def _said(self, by: Work) -> dict[str, list[int | None]]:
        """Return what each consumer has said since a work looked, of those that were there all the time."""
        window = self._consumers[by.looked :]
        names = set.intersection(*map(set, window))
        return {name: [consumers[name] for consumers in window] for name in names}

    def _expect_read(self, one: int, by: Work, what: str) -> None:
        """Note a problem if ``what`` goes, of a snapshot that a consumer has not read. Clauses: CMT-59."""
        for name, said in self._said(by).items():
            if one >= max((following for following in said if following is not None), default=0):
                self.problems.append(f"{what} was removed, which {name} had not read")

    def _expect_unread(self, target: int, by: Work) -> None:
        """Note a problem if a rollback ends what a consumer has read. Clauses: CMT-60."""
        for name, said in self._said(by).items():
            if all(following is None or following > target + 1 for following in said):
                self.problems.append(f"a rollback to snapshot {target} ended what {name} had read")

    def _remove(self, one: int, by: Work) -> None:
        """Remove a snapshot file: after its end, and so that one who stops in the middle leaves no gap.

        A file that another process is to remove is left to it.
        """
        self._files.discard(one)
        if one in self.retained:
            if by.kind == FOREIGN_ROLLBACK:
                self._rolled_back.add(one)
            elif by.kind == FOREIGN:
                self.expired = max(self.expired, one)
            else:
                self.problems.append(f"snapshot {one} was removed, and no fence had ended it")
            del self.retained[one]
        elif one in self._ended_by:
            ender, rolled_back = self._ended_by.pop(one)
            later = one + 1 if rolled_back else one - 1
            its_own = (
                self._ended_by.get(later) == (ender, rolled_back) and self._removers.get(later, by) is by
            )
            if ender is by and later in self._files and its_own:
                self.problems.append(f"snapshot {one} was removed before snapshot {later}")

    def writes(self, snapshot: Snapshot) -> Writes | None:
        """Return the writes of a snapshot, None if it is none."""
        return self.known.get(identity_of(snapshot))

    def latest_rows(self, begin: int, end: int, at_most: int | None = None) -> list[Rows]:
        """Return the rows of the latest snapshots after so many effects, each number from ``begin`` to ``end``.

        No rows where there is none.

        ``at_most``: the latest of those that are not younger than this time.
        """
        seen = self.past[begin : end + 1]
        old = (
            [one for one in retained if at_most is None or one.time_millis <= at_most] for retained in seen
        )
        return [self.rows_after(self.known[identity_of(found[-1])] if found else ()) for found in old]


def _following(data: bytes) -> int | None:
    try:
        return int(json.loads(data)["nextSnapshot"])
    except ValueError:
        return None


def _is_write(snapshot: Snapshot) -> bool:
    return snapshot.commit_user == WRITER and snapshot.commit_kind != COMPACT
