"""The rows that a table must have, derived from the files that were put and deleted, in their order.

A file under a snapshot id is a snapshot unless its id had ended before. This says the same as the clauses in the
simplest way, and knows nothing of the code: it decodes files, and follows the names in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pktable.format.metadata.fence import Fence, decode_fence
from pktable.format.metadata.manifest import (
    ADD,
    ManifestEntry,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
)
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot
from pktable.format.paths import FENCE, SNAPSHOT, TAG, id_of_removal, numbered
from pktable_spec.vocabulary import COMPACT, OVERWRITE

from model_tests.simulation.store import Effect, Work

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

    ``restored``: the writes of the tag that rollbacks to a tag go back to. ``rows_after``: what writes make.
    ``past``: what was retained after each effect, oldest first. ``problems``: breaches of the clauses by the order of
    the effects alone.
    """

    restored: Writes
    rows_after: Callable[[Writes], Rows]
    expired: int = 0
    rollbacks: list[tuple[int, int]] = field(default_factory=list)
    retained: dict[int, Snapshot] = field(default_factory=dict)
    known: dict[Identity, Writes] = field(default_factory=dict)
    past: list[tuple[Snapshot, ...]] = field(default_factory=lambda: [()])
    problems: list[str] = field(default_factory=list)
    put: list[Snapshot] = field(default_factory=list)  # snapshots and strays
    _files: set[int] = field(default_factory=set)
    _rolled_back: set[int] = field(default_factory=set)  # by no fence, and not put again since
    _ended_by: dict[int, tuple[Work, bool]] = field(default_factory=dict)  # by id; whether by a rollback
    _removers: dict[int, Work] = field(
        default_factory=dict
    )  # by id: who is to remove a file that was rolled back

    @staticmethod
    def after(
        log: Iterable[Effect], restored: Writes = (), rows_after: Callable[[Writes], Rows] = lambda writes: {}
    ) -> LogOracle:
        """Return the table after the effects of a log."""
        oracle = LogOracle(restored, rows_after)
        for path, data, by in log:
            name = path.rpartition("/")[2]
            if (one := numbered(name, SNAPSHOT)) is not None:
                if data is None:
                    oracle._remove(one, by)
                else:
                    oracle._files.add(one)
                    oracle._commit(decode_snapshot(data, at=path))
            elif data is not None and (number := numbered(name, FENCE)) is not None:
                oracle._end(decode_fence(number, data, at=path), by)
            elif data is not None and (removed := id_of_removal(name)) is not None:
                oracle._removers[removed] = by
            oracle.past.append(tuple(oracle.retained.values()))
        return oracle

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
        self.expired = max(self.expired, fence.expired)
        self.rollbacks = [(one.fence, one.target) for one in fence.rollbacks]
        targets = [target for added, target in self.rollbacks if added == fence.number]
        limit = min(targets, default=max(self.retained, default=0))
        ended = {one for one in self.retained if one <= self.expired or one > limit}
        self._ended_by |= dict.fromkeys(ended, (by, bool(targets)))
        self.retained = {one: kept for one, kept in self.retained.items() if one not in ended}
        if ended and (not self.retained or by.kind == "repair"):
            self.problems.append(
                f"fence {fence.number}, of a work to {by.kind}, ended snapshots {sorted(ended)}"
            )

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


def _is_write(snapshot: Snapshot) -> bool:
    return snapshot.commit_user == WRITER and snapshot.commit_kind != COMPACT


def left_over(files: Mapping[str, bytes], retained: Iterable[Snapshot], expired: int) -> set[str]:
    """Return the files of a table without partitions that neither ``retained`` snapshots nor tags need.

    Fences stay, and so do the files that say who removes a snapshot that was rolled back, until its id has expired.
    ``expired``: the greatest id that has expired.
    """
    tags = [decode_snapshot(data, at=path) for path, data in files.items() if f"/tag/{TAG}" in path]
    kept, needed = list(retained), set[str]()
    for snapshot in (*kept, *tags):
        needed.update(named_by(files, snapshot, live=True))
    for snapshot in kept:  # a tag keeps rows, not changes
        needed.update(changelog_of(files, snapshot))
    root = next(path.partition("/")[0] for path in files)
    needed |= {f"{root}/snapshot/{SNAPSHOT}{one.id}" for one in kept}
    needed |= {f"{root}/snapshot/LATEST", f"{root}/snapshot/EARLIEST"}
    for path in files:
        directory, name = path.split("/")[-2:]
        if directory == "fence" and (id_of_removal(name) or 0) > expired:
            needed.add(path)
        if directory in ("schema", "tag") or (directory == "fence" and name.startswith(FENCE)):
            needed.add(path)
    return set(files) - needed


def changelog_of(files: Mapping[str, bytes], snapshot: Snapshot) -> Iterator[str]:
    """Yield the paths of the files of a snapshot's changelog. Metadata that is gone names nothing."""
    root = next(path.partition("/")[0] for path in files)
    if snapshot.changelog_manifest_list is not None:
        for path, entries in _manifests(files, f"{root}/manifest/{snapshot.changelog_manifest_list}"):
            yield path
            yield from (f"{root}/bucket-{entry.bucket}/{entry.file.file_name}" for entry in entries)


def _manifests(files: Mapping[str, bytes], path: str) -> Iterator[tuple[str, Sequence[ManifestEntry]]]:
    """Yield a manifest list and its manifests: the path of each, and its entries."""
    yield path, ()
    for meta in decode_manifest_list(files[path], path) if path in files else ():
        of_one = f"{path.rpartition('/')[0]}/{meta.file_name}"
        yield of_one, decode_manifest(files[of_one], of_one) if of_one in files else ()


def named_by(files: Mapping[str, bytes], snapshot: Snapshot, *, live: bool = False) -> Iterator[str]:
    """Yield the paths of the files that a snapshot names; with ``live`` only those of its metadata and live files.

    Metadata that is gone names nothing. ``live`` leaves the changelog out, see `changelog_of`.
    """
    root = next(path.partition("/")[0] for path in files)
    found: dict[tuple[str, int], str] = {}
    gone = set()
    for list_name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        for path, entries in _manifests(files, f"{root}/manifest/{list_name}"):
            yield path
            for entry in entries:
                file = entry.file
                if entry.kind == ADD or not live:
                    found[file.file_name, file.level] = f"{root}/bucket-{entry.bucket}/{file.file_name}"
                else:
                    gone.add((file.file_name, file.level))
    if not live:
        yield from changelog_of(files, snapshot)
    yield from (path for identity, path in found.items() if identity not in gone)
    if snapshot.index_manifest:
        path = f"{root}/manifest/{snapshot.index_manifest}"
        yield path
        for index in decode_index_manifest(files[path], path) if path in files else ():
            yield f"{root}/index/{index.file_name}"
