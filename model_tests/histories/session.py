"""Do a history on a table and on its twin without deletion vectors, and check both after every operation.

The machine draws operations and the corpus reads them from files; both give them to `Session.do`, which

1. does the operation on the table and on the twin, with the checks of what that operation may change;
2. compares all reads of both with the oracle's (`Expectations.reads_agree`);
3. follows what is on disk as steps of the oracle's mechanism, where there is a disk (`Refinement`).

Staged work is done on the table alone. The twin's rows are the same whenever it is compacted, so it need not wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pktable_conform.judge.checks import check, fail
from pktable_conform.judge.history import Changes, History, Operation, numbered
from pktable_conform.judge.layout import ExpectedCompaction, Layout
from pktable_conform.judge.read_expectations import Stats
from pktable_conform.judge.refusals import Refusals, refusals
from pktable_spec.covers import covers
from pktable_spec.interface import (
    BucketId,
    Change,
    ExecutesStatements,
    HasConcurrentWriters,
    HasHandles,
    KeepsSnapshots,
    OpenTable,
    RacesStatements,
    RefusesRequests,
    RollsBack,
    StagesWork,
    StoredOnDisk,
    SuffersFaults,
)
from pktable_spec.model.mechanism import Mechanism
from pktable_spec.model.merge import OPTION

from model_tests.histories.asked_expectations import AskedExpectations
from model_tests.histories.profiles import Profile
from model_tests.histories.statements import REPLACEMENTS, STATEMENTS
from model_tests.histories.strategies import HANDLES
from model_tests.refinement.check import Refinement

DELETION_VECTORS = "deletion-vectors.enabled"
PRODUCER: Final = "changelog-producer"
DELTA_COMMITS: Final = "full-compaction.delta-commits"
LAST: Final = "roll back"
"""The operation after which nothing more is known of a table."""
NOT_READ_AFTER: Final = {"ask wrongly", "damage file", LAST}
"""Operations that change nothing that is read, or whose reads are their own check."""

NEEDS: Final[Mapping[str, type]] = {
    "begin write": StagesWork,
    "begin compaction": StagesWork,
    "commit": StagesWork,
    "abandon": StagesWork,
    "concurrent writes": HasConcurrentWriters,
    "expire": KeepsSnapshots,
    "tag": KeepsSnapshots,
    "delete tag": KeepsSnapshots,
    "enable vectors": SuffersFaults,
    "damage vectors": SuffersFaults,
    "reorder vectors": SuffersFaults,
    **dict.fromkeys((*STATEMENTS, *REPLACEMENTS), ExecutesStatements),
    "race": RacesStatements,
    "damage file": SuffersFaults,
    "fill disk": SuffersFaults,
    "ask wrongly": RefusesRequests,
    "roll back": RollsBack,
}
"""The capability that an operation needs; the others need none."""


@dataclass(frozen=True)
class Job:
    """Staged work: its ticket, the snapshot it was begun on, and its arguments. ``changes``: empty for a compaction."""

    ticket: int
    base: Layout
    changes: tuple[Change, ...] = ()
    write_only: bool = False
    full: bool = False


class Session:
    """One history being done: its table, its twin, the work staged so far, and the operations done."""

    def __init__(
        self, open_table: OpenTable, history: History, profile: Profile, stats: Stats | None = None
    ) -> None:
        self.shape, self.stats = history.shape, stats or Stats()
        self.history = History(history.shape, history.options)
        self.jobs: dict[str, Job] = {}
        self._change_count = 0
        self.tables = [
            self._open(open_table, history, profile, deletion_vectors=enabled)
            for enabled in ("true", "false")[: 2 if profile.twin else 1]
        ]
        self._refinements = [self._refinement(expectations, profile) for expectations in self.tables]
        self._missing = {do for do, need in NEEDS.items() if not isinstance(self.main.table, need)}
        self.has_handles = isinstance(self.main.table, HasHandles)

    def _open(
        self, open_table: OpenTable, history: History, profile: Profile, *, deletion_vectors: str
    ) -> AskedExpectations:
        # A history may begin without deletion vectors and switch them on later.
        enabled = "false" if deletion_vectors == "false" else history.options.get(DELETION_VECTORS, "true")
        options = {**history.options, DELETION_VECTORS: enabled}
        # The producer of full compactions does without deletion vectors, which the table may get later.
        refused = {"full-compaction"} if deletion_vectors == "true" else set()
        if options.get(OPTION) == "first-row":
            refused = {"full-compaction", "input"}
        if options.get(PRODUCER) in refused:
            options[PRODUCER] = "lookup"
        if options.get(PRODUCER) == "lookup":
            options.pop(DELTA_COMMITS, None)  # refused together
        opened = AskedExpectations(
            open_table(history.shape, options),
            history.shape,
            options,
            stats=self.stats,
            reread_limit=profile.reread_limit,
        )
        opened.has_statistics = options.get("metadata.stats-mode") != "none"
        return opened

    def _refinement(self, expectations: AskedExpectations, profile: Profile) -> Refinement | None:
        table = expectations.table
        if profile.refines and isinstance(table, StoredOnDisk):
            return Refinement(table.directory, expectations.options)
        return None

    @property
    def main(self) -> AskedExpectations:
        return self.tables[0]

    @property
    def twins(self) -> list[AskedExpectations]:
        return self.tables[1:]

    def can(self, do: str) -> bool:
        """Whether the table is capable of an operation."""
        return do not in self._missing

    def close(self) -> None:
        """Close the tables. Their files stay until then, so that those of a failure can be looked at."""
        for expectations in self.tables:
            expectations.table.close()

    def do(self, operation: Operation) -> None:
        """Do one operation on both tables, and check all reads of both.

        Raises CheckFailed, and whatever else a table raises.
        """
        self.history.operations.append(operation)
        self._use(operation.handle)
        _ACTIONS[operation.do](self, operation)
        if operation.do not in NOT_READ_AFTER:
            self._compare(operation)
        self.stats.operations[operation.do] += 1
        self.stats.steps += 1

    def _compare(self, operation: Operation) -> None:
        """Compare all reads of both tables with the oracle's, and follow the first on disk."""
        # Mostly another handle than the one that wrote, and one whose caches are older.
        self._use(len(self.history.operations) % HANDLES)
        for expectations, refinement in zip(self.tables, self._refinements, strict=True):
            expectations.reads_agree(operation.query)
            if refinement is not None:
                concurrent = operation.do == "concurrent writes"
                self.stats.refined += refinement.follow(expectations.latest.id, concurrent=concurrent)

    def are_sound(self) -> None:
        """Check both tables as a whole. Only work that was not committed leaves files that nothing refers to."""
        unfinished = bool(self.jobs) or any(one.do == "abandon" for one in self.history.operations)
        for expectations in self.tables:
            expectations.is_sound(leftovers=unfinished)

    def _use(self, handle: int) -> None:
        for expectations in self.tables:
            if isinstance(expectations.table, HasHandles):
                expectations.table.use(handle)

    # -------------------------------------------------------------- operations

    def _write(self, operation: Operation) -> None:
        changes = self._numbered(operation.changes)
        for expectations in self.tables:
            expectations.write(changes, write_only=operation.write_only)

    def _execute(self, operation: Operation) -> None:
        changes = self._numbered(operation.changes)
        for expectations in self.tables:
            expectations.execute(operation.do, changes)

    def _replace(self, operation: Operation) -> None:
        changes = self._numbered(operation.changes)
        for expectations in self.tables:
            expectations.replace(operation.do, changes)

    def _ask_wrongly(self, operation: Operation) -> None:
        self.main.wrong_requests_are_refused()

    def _damage_file(self, operation: Operation) -> None:
        self.main.damage_of_a_file_is_noticed(operation.number)

    def _fill_disk(self, operation: Operation) -> None:
        changes = self._numbered(operation.changes)
        for expectations in self.tables:
            expectations.work_on_a_full_disk(changes, operation.number)

    def _roll_back(self, operation: Operation) -> None:
        if self.main.retained:
            if operation.full:
                self.main.expire(1)
            self.are_sound()
            self.main.rolled_back(operation.tag, newer=operation.number)

    def _race(self, operation: Operation) -> None:
        *first, last = self._numbered(operation.changes)
        one, other = operation.statements
        for expectations in self.tables:
            expectations.race((one, first), (other, [last]))

    def _write_concurrently(self, operation: Operation) -> None:
        """Divide the changes between two writers, so that they have no key in common."""
        changes = self._numbered(operation.changes)
        last = self.shape.pick(changes[-1].row, self.shape.primary_key)
        second = tuple(one for one in changes if self.shape.pick(one.row, self.shape.primary_key) == last)
        first = tuple(one for one in changes if one not in second)
        if first:
            self.main.write_concurrently(first, second)
        else:
            self.main.write(second, write_only=True)
        for twin in self.twins:
            twin.write(changes, write_only=True)

    def _damage_vectors(self, operation: Operation) -> None:
        self.main.damage_is_noticed(operation.bit)

    def _reorder_vectors(self, operation: Operation) -> None:
        table = self.main.table
        assert isinstance(table, SuffersFaults)
        table.reorder_vectors()

    def _enable_vectors(self, operation: Operation) -> None:
        if not self.main.options.deletion_vectors:
            self.main.enable_vectors()
            refinement = self._refinements[0]
            if refinement is not None:
                refinement.mechanism = Mechanism(self.main.options)

    def _compact(self, operation: Operation) -> None:
        for expectations in self.tables:
            expectations.compact(full=operation.full)

    def _reopen(self, operation: Operation) -> None:
        for expectations in self.tables:
            expectations.table.reopen()

    def _expire(self, operation: Operation) -> None:
        for expectations, refinement in zip(self.tables, self._refinements, strict=True):
            with refinement.removal() if refinement else contextlib.nullcontext():
                expectations.expire(operation.number)

    def _tag(self, operation: Operation) -> None:
        for expectations in self.tables:
            expectations.create_tag(operation.tag, newer=operation.number)

    def _delete_tag(self, operation: Operation) -> None:
        for expectations, refinement in zip(self.tables, self._refinements, strict=True):
            with refinement.removal() if refinement else contextlib.nullcontext():
                expectations.delete_tag(operation.tag)

    def _begin_write(self, operation: Operation) -> None:
        changes = self._numbered(operation.changes)
        ticket = self._staging.begin_write(changes, write_only=operation.write_only)
        self.jobs[operation.job] = Job(ticket, self.main.latest, changes, operation.write_only)
        self.main.nothing_was_committed()

    def _begin_compaction(self, operation: Operation) -> None:
        ticket = self._staging.begin_compaction(full=operation.full)
        expected = self.main.expected_compactions(self.main.latest, full=operation.full)
        self.compaction_begins(expected, begun=ticket is not None)
        if ticket is not None:
            self.jobs[operation.job] = Job(ticket, self.main.latest, full=operation.full)
        self.main.nothing_was_committed()
        for twin in self.twins:
            twin.compact(full=operation.full)

    @check
    @covers("CMP-3", "CMT-2")
    def compaction_begins(self, expected: Mapping[BucketId, ExpectedCompaction], *, begun: bool) -> None:
        """A compaction is staged exactly if there is something to do."""
        if begun != bool(expected):
            fail(
                f"expected {dict(expected) or 'nothing to compact'}, and {'some' if begun else 'no'} work was begun"
            )

    def _commit(self, operation: Operation) -> None:
        job = self.jobs.pop(operation.job, None)
        if job is None:  # a compaction that found nothing to do
            return
        if job.changes:
            self._commit_write(job)
        else:
            self._commit_compaction(job, operation)

    def _commit_write(self, job: Job) -> None:
        self.write_is_not_refused(self._staging.commit(job.ticket))
        self.main.written(job.changes, write_only=job.write_only, planned_on=job.base)
        for twin in self.twins:
            twin.write(job.changes, write_only=job.write_only)

    @check
    @covers("CMT-2", "CMT-10", "CMT-18", "CMT-24", "CMT-33")
    def write_is_not_refused(self, refused_by: str | None) -> None:
        if refused_by is not None:
            fail(f"a write was refused by {refused_by}")

    def _commit_compaction(self, job: Job, operation: Operation) -> None:
        """Commit, and check that the table refused where it must, and only where it may."""
        main = self.main
        expected = main.expected_compactions(job.base, full=job.full)
        answer = refusals(Mechanism(main.options), main.states, job.base, main.latest, expected)
        refused_by = self._staging.commit(job.ticket)
        self.refusal_agrees(answer, refused_by, operation)
        if refused_by is None:
            main.compacted(main.new_snapshots(), job.base, full=job.full, among=set(expected))
        else:
            main.nothing_was_committed()
            self.stats.refused += 1

    @check
    @covers("CMT-7", "CMT-8", "CMT-9", "CMT-11", "CMT-14", "DV-6", "DV-7", "DV-8", "CMP-12")
    def refusal_agrees(self, answer: Refusals, refused_by: str | None, operation: Operation) -> None:
        """A staged compaction is refused exactly if a clause forbids its commit, and by such a clause."""
        problem = answer.problem_of(refused_by)
        if problem is not None:
            fail(problem)
        stored = operation.refused
        if stored is not None and stored not in (answer.must or {""}):
            fail(f"the history expects refusal by {stored or 'no clause'}, the oracle by {set(answer.must)}")

    def _abandon(self, operation: Operation) -> None:
        job = self.jobs.pop(operation.job, None)
        if job is not None:
            self._staging.abandon(job.ticket)
            self.main.nothing_was_committed()

    def _read(self, operation: Operation) -> None:
        """Do nothing: reads follow every operation."""

    @property
    def _staging(self) -> StagesWork:
        table = self.main.table
        assert isinstance(table, StagesWork)
        return table

    def _numbered(self, changes: Changes) -> tuple[Change, ...]:
        first, self._change_count = self._change_count + 1, self._change_count + len(changes)
        return numbered(changes, first)


_ACTIONS: Final[Mapping[str, Callable[[Session, Operation], None]]] = {
    "write": Session._write,
    "concurrent writes": Session._write_concurrently,
    "damage vectors": Session._damage_vectors,
    "reorder vectors": Session._reorder_vectors,
    "enable vectors": Session._enable_vectors,
    "compact": Session._compact,
    "reopen": Session._reopen,
    "expire": Session._expire,
    "tag": Session._tag,
    "delete tag": Session._delete_tag,
    "begin write": Session._begin_write,
    "begin compaction": Session._begin_compaction,
    "commit": Session._commit,
    "abandon": Session._abandon,
    "read": Session._read,
    **dict.fromkeys(STATEMENTS, Session._execute),
    **dict.fromkeys(REPLACEMENTS, Session._replace),
    "race": Session._race,
    "ask wrongly": Session._ask_wrongly,
    "damage file": Session._damage_file,
    "fill disk": Session._fill_disk,
    LAST: Session._roll_back,
}


def replay(history: History, open_table: OpenTable, profile: Profile, stats: Stats | None = None) -> Stats:
    """Do a stored history on a new table, checking every step, and the table at its end; return what was compared.

    Operations that the table is not capable of are left out. Raises CheckFailed, and whatever else a table raises.
    """
    session = Session(open_table, history, profile, stats)
    try:
        for operation in history.operations:
            if session.can(operation.do):
                session.do(operation)
        if profile.refines and operation.do != LAST:
            session.are_sound()
    finally:
        session.close()
    session.stats.histories += 1
    return session.stats
