"""Fast-forward a branch to another one that was made from it.

The snapshots that the source has made are copied to the target, the oldest first. Each is put as a commit puts one: if
it is absent, and under the fences of the target. It is refused unless the target ends with a snapshot that both have.
So nothing is removed, each state between is one that the source had, and a repetition goes on where an interruption has
ended it. Consumers in the source keep its snapshots until then.

Clauses: BRN-5, BRN-10, BRN-11, BRN-12, BRN-13.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pktable_spec.errors import (
    CommitConflictError,
    CommitUnknownError,
    InvalidRequestError,
    SnapshotNotFoundError,
)

from pktable.catalog import holds
from pktable.catalog.catalog import Catalog
from pktable.catalog.fences import BEGUN
from pktable.catalog.publish import Put, Verdict
from pktable.catalog.schemas import load_schemas, put_schema
from pktable.catalog.state import TableState
from pktable.format.metadata.schema import TableSchema
from pktable.format.metadata.snapshot import FENCE, Snapshot, is_same_snapshot, with_fields
from pktable.format.paths import MAIN_BRANCH
from pktable.retry import RetryPolicy, retry
from pktable.store.new_files import put_once, remove_quietly

RACES: Final = RetryPolicy(races=True)
"""Against others who commit, or who do the same fast-forward."""


class _TakenError(Exception):
    """Another process has put the snapshot, or one instead of it."""


class FastForward:
    """Brings the branch ``target`` to where ``source`` is."""

    def __init__(self, target: Catalog, source: Catalog) -> None:
        self._target, self._source = target, source
        self._store = target.context.store
        self._here, self._there = target.context.paths, source.context.paths
        self._name = self._there.branch or MAIN_BRANCH
        self._done: list[int] = []

    def run(self) -> tuple[list[int], dict[int, TableSchema]]:
        """Put the snapshots that the source has made; return their ids, and all schemas by id.

        Raises InvalidRequestError if the source has no snapshot, or lacks a snapshot, a schema or a tag of the target;
        CommitConflictError if another process comes between; CommitUnknownError. Clauses: BRN-10, BRN-11.
        """
        if self._here == self._there:
            raise self._refusal("expected another than the one that is open")
        if not self._source.snapshots.ids():
            raise self._refusal("has no snapshot")
        try:
            with self.held():
                found = self._source.snapshots.retained()
                latest, _ = self._following(found)  # refused before anything is put
                tags = self._tags(found)
                schemas = self._put_schemas(has_gone_on=latest is not None and latest.id > found[-1].id)
                retry(lambda: self._go_on(found), on=_TakenError, policy=RACES)
                for tag, kept in tags.items():
                    self._copy_tag(tag, kept)
        except FileNotFoundError:
            raise self._refusal("was removed concurrently") from None
        return self._done, schemas

    def _refusal(self, why: str) -> InvalidRequestError:
        return InvalidRequestError(f"fast-forward to branch {self._name!r}: {why}")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let consumers keep the snapshots of the source: no expiry removes one, and no rollback changes one.

        They stay if a put may still come. Raises SnapshotNotFoundError if the snapshots go concurrently,
        InvalidRequestError if the branch does. Clauses: BRN-10, BRN-13, CMT-59, CMT-60.
        """
        expiry, ids, names = self._source.expiry, self._source.snapshots.ids(), list[str]()
        try:
            for following in (ids[0], ids[-1] + 1) if ids else ():
                names.append(holds.new_hold(holds.FAST_FORWARD))
                expiry.set_consumer(names[-1], following)
            if not holds.is_kept(self._store, self._there, map(self._there.consumer, names)):
                raise self._refusal(
                    "another process removes it; if that is dead, delete_branch removes the rest"
                )
            yield
        except CommitUnknownError:
            names.clear()
            raise
        finally:
            remove_quietly(self._store, [self._there.consumer(one) for one in names])

    def _following(self, found: Sequence[Snapshot]) -> tuple[Snapshot | None, list[Snapshot]]:
        """Return the latest snapshot of the target, and those of the source that are to be put; none if all are there.

        Raises InvalidRequestError unless the latest one of the target is one of them. Clauses: BRN-11.
        """
        log = self._target.snapshots
        latest = log.retry_on_latest(lambda latest: latest)
        at, head = latest.id if latest else 0, found[-1]
        if at < found[0].id - (latest is None):
            raise self._refusal(
                f"it begins with snapshot {found[0].id} after an expiry, and the target ends with snapshot {at}; "
                "nothing shows that one was made from the other"
            )
        if latest is None:
            return None, list(found)
        ahead = log.file(head.id) if at > head.id else None
        if ahead and is_same_snapshot(ahead, head):
            return latest, []
        if not any(one.id == at and is_same_snapshot(one, latest) for one in found):
            raise self._refusal(
                f"it does not have snapshot {at}, with which the target ends, so that commits would be lost; nothing "
                "was changed. Write the rows of the branch to the target instead"
            )
        return latest, [one for one in found if one.id > at]

    def _go_on(self, found: Sequence[Snapshot]) -> None:
        """Put what is not there yet. Raises _TakenError. Clauses: BRN-10, CMT-3, CMT-38."""
        fence = self._target.snapshots.fences.newest()
        try:
            base, following = self._following(found)
        except InvalidRequestError as error:
            if not self._done:
                raise
            last = self._done[-1]
            what = f"another process has committed after snapshot {last} of branch {self._name!r} was put"
            raise CommitConflictError(
                what, last, f"the target has the snapshots up to that one. {error}"
            ) from None
        for snapshot in following:
            base = self._publish(snapshot, base, fence.number)
            self._done.append(snapshot.id)

    def _publish(self, snapshot: Snapshot, base: Snapshot | None, fence: int) -> Snapshot:
        """Put one snapshot of the source, and return it. Raises as `Committer.commit`, and _TakenError."""
        data = with_fields(self._store.read(self._there.snapshot(snapshot.id)), {FENCE: fence})
        put = Put(replace(snapshot, fence=fence), base, partial(self._is_base, snapshot, base), data)
        try:
            outcome, failure = self._target.committer.publisher.put(put)
        except (KeyboardInterrupt, SystemExit) as error:
            outcome, failure = Verdict.UNKNOWN, error
        path = self._here.snapshot(snapshot.id)
        if outcome is Verdict.COMMITTED:
            self._target.snapshots.remember(put.snapshot)
            if failure is not None and not isinstance(failure, Exception):
                raise failure
            return put.snapshot
        if outcome is Verdict.UNKNOWN:
            raise CommitUnknownError(path, snapshot.id) from failure
        if outcome is Verdict.BLOCKED:
            raise CommitConflictError(f"{path} {BEGUN}", snapshot.id - 1) from failure
        if failure is not None and (outcome is Verdict.FAILED or not isinstance(failure, Exception)):
            raise failure
        raise _TakenError

    def _is_base(self, snapshot: Snapshot, base: Snapshot | None, following: Snapshot) -> bool | None:
        states = self._target.states
        before = states.at(base) if base else TableState()
        return self._target.committer.is_base_of(before, states.at(snapshot), following)

    def _put_schemas(self, *, has_gone_on: bool) -> dict[int, TableSchema]:
        """Put the schemas that only the source has, and return all. Raises InvalidRequestError, CommitConflictError.

        ``has_gone_on``: whether the target has committed since all that the source has. Clauses: BRN-11.
        """
        here, theirs = load_schemas(self._store, self._here), dict(self._source.context.schemas)
        for number, schema in here.items():
            if theirs.get(number) != schema:
                raise self._refusal(
                    f"it does not have {self._here.schema(number)}, as the schema has changed since the snapshot "
                    "that it began with; nothing was changed. Write the rows of the branch to the target instead"
                )
        new = sorted(theirs.keys() - here.keys())
        if new and has_gone_on:
            raise self._refusal(
                "it has other columns or options and no commit of its own, and the target has committed since; nothing "
                "was changed. Alter the target instead"
            )
        for number in new:
            if put_schema(self._store, self._here, theirs[number]):
                continue
            if load_schemas(self._store, self._here).get(number) != theirs[number]:
                what = f"{self._here.schema(number)}: another process has changed the schema"
                raise CommitConflictError(what, self._target.snapshots.latest_id() or 0)
        return theirs

    def _tags(self, found: Sequence[Snapshot]) -> dict[str, Snapshot]:
        """Return the snapshots by the tags that were put on them in the source, and that the target does not have.

        The tags of its first snapshot are those that it was made from. Raises InvalidRequestError if a tag of the name
        keeps something else. Clauses: BRN-12.
        """
        log, made = self._target.snapshots, {one.id: one for one in found[1:]}
        tags = {}
        for tag in self._source.snapshots.tags():
            with contextlib.suppress(SnapshotNotFoundError):  # deleted since the listing
                kept = self._source.snapshots.by_tag(tag)
                if (
                    holds.kind_of_hold(tag)
                    or kept.id not in made
                    or not is_same_snapshot(kept, made[kept.id])
                ):
                    continue
                if tag not in log.tags():
                    tags[tag] = kept
                elif not is_same_snapshot(log.by_tag(tag), kept):
                    raise self._refusal(
                        f"tag {tag!r} keeps another snapshot there; delete one of both tags first"
                    )
        return tags

    def _copy_tag(self, tag: str, kept: Snapshot) -> None:
        """Copy a tag of the source, as of the snapshot that was put. Clauses: BRN-12, CMT-32."""
        here = self._target.snapshots.file(kept.id)
        with contextlib.suppress(FileNotFoundError):  # deleted concurrently
            data = self._store.read(self._there.tag(tag))
            put_once(
                self._store, self._here.tag(tag), with_fields(data, {FENCE: here.fence if here else None})
            )
