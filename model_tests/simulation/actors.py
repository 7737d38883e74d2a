"""What actors do to a table, and what they see of it.

Every write has a number of its own. It sets the row of that key, and the row of key 0, to that number. So it can be
seen which writes are in a snapshot, and which of them was the last. An UPDATE adds its number to the row of key 0. In
an append table a write adds rows of its own; each statement has a number, too, and a row to delete or to update in
every file that was there before the actors began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pktable import Table, table_upkeep
from pktable.catalog.branch_names import branches_there, is_there
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot
from pktable.format.paths import SNAPSHOT
from pktable_spec.errors import (
    CommitConflictError,
    CommitUnknownError,
    CorruptFileError,
    InvalidRequestError,
    StorageError,
)

from model_tests.simulation import foreign
from model_tests.simulation.log_oracle import FOREIGN, Rows
from model_tests.simulation.store import YOUNG, ActorStore, LostError, Work, World
from model_tests.simulation.tables import (
    DELETES,
    ROOT,
    UPDATES,
    USUAL,
    Job,
    Setting,
    content,
    delete,
    expect,
    update,
    write,
)


@dataclass(frozen=True)
class LatestRead:
    """A read of the latest snapshot, or of the snapshot at a time. No rows: there was none so old.

    ``begin``, ``end``: how many effects there were.
    """

    begin: int
    end: int
    time: int | None
    rows: Rows


@dataclass
class Seen:
    """What the actors saw. ``acknowledged``, ``refused``: numbers of writes that are, or will never be, there.

    ``unknown``: work with a commit whose outcome could not be found out, because too few fences are kept; it leaves
    its files.
    """

    acknowledged: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[Work] = field(default_factory=set)
    snapshots: list[tuple[Snapshot, Rows]] = field(default_factory=list)
    by_id: list[tuple[int, int, Snapshot]] = field(
        default_factory=list
    )  # with the numbers of effects, as below
    latest: list[LatestRead] = field(default_factory=list)
    consumed: list[tuple[int, int, int]] = field(default_factory=list)
    """With the numbers of effects after a consumer was there, and when that was said, what it reads next."""
    reads: int = 0


class Actors:
    """Do jobs on a table, each operation a method. ``numbers``: of the writes, by actor and place in its job."""

    def __init__(self, world: World, jobs: Mapping[str, Job], setting: Setting) -> None:
        self.world, self.setting, self.seen = world, setting, Seen()
        names = (f"{name}-{count}" for name, job in jobs.items() for count in range(len(job.kinds)))
        self.numbers = {name: setting.writes + 1 + count for count, name in enumerate(names)}
        self._has_others = any(FOREIGN in job.kinds for job in jobs.values())
        self._stores: dict[str, ActorStore] = {}

    def work(self, name: str, job: Job) -> Callable[[ActorStore], None]:
        """Return what an actor does."""

        def work(store: ActorStore) -> None:
            table, self._stores[name] = None, store
            for count, kind in enumerate(job.kinds):
                method, *number = kind.rsplit(" ", 1) if kind[-1].isdigit() else [kind]
                try:
                    with store.working(kind):
                        if table is None or job.reopens:
                            table = Table.open(ROOT, store=store)
                        done = getattr(self, "_" + method.replace(" ", "_"))
                        done(table, f"{name}-{count}", *map(int, number))
                except (LostError, StorageError, KeyboardInterrupt):
                    continue  # the store did not answer, and the operation said so; or it was interrupted
                except CorruptFileError as error:
                    # What others put, who know no fences, is a gap until it is taken back. And nothing is removed as
                    # long as there is half of a consumer or of a branch.
                    if not self._has_others and not any(path in str(error) for path in self.world.halves):
                        raise

        return work

    def _store(self, name: str) -> ActorStore:
        return self._stores[name.partition("-")[0]]

    # ---------------------------------------------------------------- commits

    def _write(self, table: Table, name: str, *, write_only: bool = False) -> None:
        number = self.numbers[name]
        self._commit(name, number, lambda: write(table, number, self.setting, write_only=write_only))

    def _delete(self, table: Table, name: str) -> None:
        number = DELETES + self.numbers[name]
        self._commit(name, number, lambda: delete(table, number))

    def _update(self, table: Table, name: str) -> None:
        number = UPDATES + self.numbers[name]
        self._commit(name, number, lambda: update(table, number, self.setting))

    def _commit(self, name: str, number: int, work: Callable[[], None]) -> None:
        try:
            try:
                work()
            except CommitUnknownError:
                self._note_unknown(name)
                work()  # under the same identifier
        except CommitUnknownError:
            self._note_unknown(name)
            return
        except CommitConflictError as error:
            if "was rolled back" in str(error):  # by a process that died then
                return
            expect("its compaction is not" in str(error), f"write {number} failed: {error}")
        except BaseException:
            if number not in self._puts():
                self.seen.refused.add(number)
            raise
        self.seen.acknowledged.add(number)

    def _note_unknown(self, name: str) -> None:
        """Note the work of a commit whose outcome is unknown, if fences that would tell it may be gone."""
        if self.setting.kept < USUAL.kept:
            self.seen.unknown.add(self._store(name).work)

    def _puts(self) -> set[int]:
        """Return the numbers of the writes whose snapshot files were ever there, or may still come."""
        effects = (*self.world.log, *self.world.late)
        files = (one for one in effects if f"/{SNAPSHOT}" in one.path and one.data is not None)
        return {decode_snapshot(one.data or b"", at=one.path).commit_identifier for one in files}

    def _write_only(self, table: Table, name: str) -> None:
        self._write(table, name, write_only=True)

    def _compact(self, table: Table, name: str, *, full: bool = False) -> None:
        try:
            table.compact(full=full)
        except CommitUnknownError:
            self._note_unknown(name)
        except CommitConflictError:
            return

    def _full(self, table: Table, name: str) -> None:
        self._compact(table, name, full=True)

    # ---------------------------------------------------------------- upkeep

    def _expire(self, table: Table, name: str) -> None:
        table.expire_snapshots(retain_last=3)

    def _expire_most(self, table: Table, name: str) -> None:
        table.expire_snapshots(retain_last=1)

    def _expire_one(self, table: Table, name: str) -> None:
        table.expire_snapshots(retain_last=max(len(table.snapshots()) - 1, 1))

    def _expire_older(self, table: Table, name: str) -> None:
        """Expire what is older by the clock of the actor, whatever that shows."""
        limit = self._store(name).work.older_than = table_upkeep.now_millis()
        table.expire_snapshots(retain_last=1, older_than=limit)

    def _expire_as_others_do(self, table: Table, name: str) -> None:
        foreign.expire(table.catalog.context.store)

    def _roll_back_as_others_do(self, table: Table, name: str) -> None:
        foreign.roll_back(self._store(name))

    def _repair(self, table: Table, name: str) -> None:
        table.repair()

    def _clean(self, table: Table, name: str) -> None:
        table.remove_orphans(older_than=YOUNG)

    def _rollback(self, table: Table, name: str, depth: int) -> None:
        try:
            table.rollback(snapshot=max(table.snapshots()[-1].id - depth, 1))
        except CommitUnknownError:
            self._note_unknown(name)
        except CommitConflictError as error:  # another one has begun to remove what it would remove
            expect("was rolled back" in str(error), f"rollback failed: {error}")
        except InvalidRequestError:  # it has expired, a tag keeps a later one, or a consumer has read it
            return

    def _rollback_to_tag(self, table: Table, name: str) -> None:
        try:
            table.rollback(tag="first")
        except CommitUnknownError:
            self._note_unknown(name)
        except (InvalidRequestError, CommitConflictError):
            return

    # ---------------------------------------------------------------- what keeps files

    def _tag(self, table: Table, name: str) -> None:
        try:
            table.create_tag(name)
        except InvalidRequestError:  # the snapshot has expired, or the tag is there
            return

    def _tag_middle(self, table: Table, name: str) -> None:
        snapshots = table.snapshots()
        try:
            table.create_tag(name, snapshot=snapshots[len(snapshots) // 2].id)
        except InvalidRequestError:
            return

    def _untag(self, table: Table, name: str) -> None:
        try:
            table.delete_tag("first")
        except InvalidRequestError:
            return

    def _tag_for_a_while(self, table: Table, name: str) -> None:
        try:
            table.create_tag(name)
            table.delete_tag(name)
        except InvalidRequestError:
            return

    def _branch(self, table: Table, name: str) -> None:
        """Make a branch as others do, from a tag that goes then."""
        snapshots = table.snapshots()
        try:
            table.create_tag(name, snapshot=snapshots[len(snapshots) // 2].id)
        except InvalidRequestError:
            return
        foreign.make_branch(self._store(name), name)
        table.delete_tag(name)

    def _make_branch(self, table: Table, name: str) -> None:
        self._make_branch_of(table, name, table.snapshots()[-1].id)

    def _make_old_branch(self, table: Table, name: str) -> None:
        snapshots = table.snapshots()
        self._make_branch_of(table, name, snapshots[len(snapshots) // 2].id)

    def _make_branch_of(self, table: Table, name: str, snapshot: int) -> None:
        try:
            table.create_branch(name, snapshot=snapshot)
        except InvalidRequestError:  # the snapshot has expired, or was rolled back
            return

    def _write_on_branch(self, table: Table, name: str) -> None:
        self._on_branch(table, name, lambda branch: self._write_unseen(branch, name))

    def _write_unseen(self, branch: Table, name: str) -> None:
        write(branch, self.numbers[name], self.setting, write_only=True)

    def _full_on_branch(self, table: Table, name: str) -> None:
        self._on_branch(table, name, lambda branch: branch.compact(full=True))

    def _expire_on_branch(self, table: Table, name: str) -> None:
        self._on_branch(table, name, lambda branch: branch.expire_snapshots(retain_last=1))

    def _clean_on_branch(self, table: Table, name: str) -> None:
        self._on_branch(table, name, lambda branch: branch.remove_orphans(older_than=YOUNG))

    def _on_branch(self, table: Table, name: str, work: Callable[[Table], object]) -> None:
        """Do something on the first branch that is there; it may go at any time."""
        store, paths = table.catalog.context.store, table.catalog.context.paths
        there = branches_there(store, paths)
        try:
            if there:
                work(table.branch(there[0]))
        except CommitUnknownError:
            self._note_unknown(name)
        except (CommitConflictError, InvalidRequestError, CorruptFileError):
            if is_there(store, paths.of_branch(there[0])):
                raise

    def _fast_forward(self, table: Table, name: str) -> None:
        there = branches_there(table.catalog.context.store, table.catalog.context.paths)
        try:
            if there:
                table.fast_forward(there[0])
        except CommitUnknownError:
            self._note_unknown(name)
        except (CommitConflictError, InvalidRequestError):  # others have committed, or removed the branch
            return

    def _remove_branch(self, table: Table, name: str) -> None:
        there = branches_there(table.catalog.context.store, table.catalog.context.paths)
        try:
            if there:
                table.delete_branch(there[0])
        except InvalidRequestError:  # another was faster
            return

    def _drop_branch(self, table: Table, name: str) -> None:
        foreign.drop_branch(self._store(name))

    def _consume(self, table: Table, name: str) -> None:
        """Let a consumer go on from the middle, or, if it is there, to the end.

        Where changelogs are kept, the snapshot before those that are there takes the place of the middle.
        """
        snapshots, reader = table.snapshots(), name.partition("-")[0]
        middle, latest = snapshots[len(snapshots) // 2].id, snapshots[-1].id
        if self.setting.changelogs:
            middle = max(snapshots[0].id - 1, 1)
        following = middle if table.consumers().get(reader, latest + 1) > latest else latest + 1
        try:
            table.set_consumer(reader, next_snapshot=following)
        except InvalidRequestError:  # it has expired, or was rolled back
            return
        log, work = self.world.log, self._store(name).work
        there = max(at for at, effect in enumerate(log) if effect.by is work)
        self.seen.consumed.append((there + 1, len(log), following))

    def _forget(self, table: Table, name: str) -> None:
        for one in list(table.consumers())[:1]:
            try:
                table.delete_consumer(one)
            except InvalidRequestError:  # another was faster
                return

    # ---------------------------------------------------------------- reads

    def _read(self, table: Table, name: str) -> None:
        self._read_latest(table)
        ids = [one.id for one in table.snapshots()]
        for one in range(ids[0] - 1, ids[-1] + 2):  # and such as have ended, or are not there yet
            try:
                begin = len(self.world.log)
                snapshot = table.catalog.snapshots.read(one)
                self.seen.by_id.append((begin, len(self.world.log), snapshot))
                rows = content(table, snapshot=one)
                # The same id may be another snapshot since, after a rollback.
                if table.catalog.snapshots.read(one) == snapshot:
                    self.seen.snapshots.append((snapshot, rows))
            except InvalidRequestError:  # it has expired
                continue
        for tag, snapshot in table.tags().items():
            try:
                self.seen.snapshots.append((snapshot, content(table, tag=tag)))
            except InvalidRequestError:  # it was deleted
                continue

    def _read_by_time(self, table: Table, name: str) -> None:
        for snapshot in table.snapshots():
            begin, time = len(self.world.log), snapshot.time_millis + 1
            try:
                self._read_latest(table, time)
            except InvalidRequestError:
                self.seen.latest.append(LatestRead(begin, len(self.world.log), time, {}))

    def _read_latest(self, table: Table, time: int | None = None) -> None:
        begin = len(self.world.log)
        rows = content(table, **({} if time is None else {"timestamp": time}))
        self.seen.latest.append(LatestRead(begin, len(self.world.log), time, rows))
