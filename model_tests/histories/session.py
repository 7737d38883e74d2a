"""Run a history on a table and on its twin without deletion vectors, and check both after every step.

The machine draws operations and the corpus reads them from files; both hand them to `Checked.do`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pktable_spec.covers import covers
from pktable_spec.interface import Change, OpenTable, Scalar
from pktable_spec.model.mechanism import Mechanism

from model_tests.histories.expectations import Layout, Stats, Watched
from model_tests.histories.history import Changes, History, Operation, row_kind, spelled_out
from model_tests.histories.profiles import Profile
from model_tests.refinement.check import Refinement

DELETION_VECTORS = "deletion-vectors.enabled"


@dataclass(frozen=True)
class Job:
    """Staged work: the ticket, and what it was begun with and on."""

    ticket: int
    base: Layout
    changes: tuple[Change, ...] = ()
    write_only: bool = False
    full: bool = False


class Checked:
    """A history in the making: every operation is done, remembered and checked."""

    def __init__(
        self, open_table: OpenTable, history: History, profile: Profile, stats: Stats | None = None
    ) -> None:
        self.shape, self.stats = history.shape, stats or Stats()
        self.history = History(history.shape, history.options)
        self.jobs: dict[str, Job] = {}
        self._change_count = 0
        self._watched = [
            self._open(open_table, history, profile, deletion_vectors=wanted)
            for wanted in ("true", "false")[: 2 if profile.twin else 1]
        ]
        self._refinements = [self._refinement(watched, profile) for watched in self._watched]

    def _open(
        self, open_table: OpenTable, history: History, profile: Profile, *, deletion_vectors: str
    ) -> Watched:
        # A history may begin without deletion vectors and switch them on later.
        wanted = "false" if deletion_vectors == "false" else history.options.get(DELETION_VECTORS, "true")
        options = {**history.options, DELETION_VECTORS: wanted}
        return Watched(
            open_table(history.shape, options),
            history.shape,
            options,
            stats=self.stats,
            reread_limit=profile.reread_limit,
            reads_records=profile.reads_records,
        )

    def _refinement(self, watched: Watched, profile: Profile) -> Refinement | None:
        directory = watched.table.directory
        wanted = directory is not None and profile.refines
        return Refinement(directory, watched.options) if wanted and directory is not None else None

    @property
    def main(self) -> Watched:
        return self._watched[0]

    @property
    def twins(self) -> list[Watched]:
        return self._watched[1:]

    def close(self) -> None:
        """Close the tables; for a failure to be kept, their files stay until then."""
        for watched in self._watched:
            watched.table.close()

    @covers("TBL-4", "TBL-6", "MRG-4", "RD-4")
    def do(self, operation: Operation) -> None:
        """Do one operation on both tables, and check all reads of both. Raises AssertionError."""
        self.history.operations.append(operation)
        _ACTIONS[operation.do](self, operation)
        for watched, refinement in zip(self._watched, self._refinements, strict=True):
            watched.reads_agree(operation.query)
            if refinement is not None:
                beside = operation.do == "write beside"
                self.stats.refined += refinement.follow(watched.latest.id, beside=beside)
        self.stats.steps += 1

    # -------------------------------------------------------------- operations

    def _write(self, operation: Operation) -> None:
        changes = self._numbered(operation.changes)
        for watched in self._watched:
            watched.write(changes, write_only=operation.write_only)

    def _write_beside(self, operation: Operation) -> None:
        """Divide the changes between two writers, so that they have no key in common."""
        changes = self._numbered(operation.changes)
        last = self.shape.pick(changes[-1].row, self.shape.primary_key)
        second = tuple(one for one in changes if self.shape.pick(one.row, self.shape.primary_key) == last)
        first = tuple(one for one in changes if one not in second)
        if first:
            self.main.write_beside(first, second)
        else:
            self.main.write(second, write_only=True)
        for twin in self.twins:
            twin.write(changes, write_only=True)

    def _damage_vectors(self, operation: Operation) -> None:
        self.main.damage_is_noticed(operation.bit)

    def _reorder_vectors(self, operation: Operation) -> None:
        self.main.table.reorder_vectors()

    def _enable_vectors(self, operation: Operation) -> None:
        refinement = self._refinements[0]
        if not self.main.options.deletion_vectors and self.main.table.directory is not None:
            self.main.enable_vectors()
            if refinement is not None:
                refinement.mechanism = Mechanism(self.main.options)

    def _compact(self, operation: Operation) -> None:
        for watched in self._watched:
            watched.compact(full=operation.full)

    def _reopen(self, operation: Operation) -> None:
        for watched in self._watched:
            watched.table.reopen()

    def _begin_write(self, operation: Operation) -> None:
        changes = self._numbered(operation.changes)
        ticket = self.main.table.begin_write(changes, write_only=operation.write_only)
        self.jobs[operation.job] = Job(ticket, self.main.latest, changes, operation.write_only)
        self._nothing_was_committed()

    def _begin_compaction(self, operation: Operation) -> None:
        ticket = self.main.table.begin_compaction(full=operation.full)
        expected = self.main.expected_compactions(self.main.latest, full=operation.full)
        assert (ticket is None) == (not expected), f"expected {expected}, begun {ticket is not None}"
        if ticket is not None:
            self.jobs[operation.job] = Job(ticket, self.main.latest, full=operation.full)
        self._nothing_was_committed()
        # The twin reads the same whenever it is compacted, so it need not wait.
        for twin in self.twins:
            twin.compact(full=operation.full)

    def _commit(self, operation: Operation) -> None:
        job = self.jobs.pop(operation.job, None)
        if job is None:  # a compaction that found nothing to do
            return
        if job.changes:
            self._commit_write(job)
        else:
            refused = self._commit_compaction(job)
            assert operation.refused in (None, refused), f"commit of {operation.job}: refused is {refused}"

    @covers("CMT-2", "CMT-10", "CMT-18")
    def _commit_write(self, job: Job) -> None:
        assert self.main.table.commit(job.ticket), "a write is never refused"
        self.main.written(job.changes, write_only=job.write_only, planned_on=job.base)
        for twin in self.twins:
            twin.write(job.changes, write_only=job.write_only)

    @covers("CMT-7", "CMT-8", "CMT-9", "CMT-14", "DV-6", "DV-7", "DV-8", "CMP-12")
    def _commit_compaction(self, job: Job) -> bool:
        """Commit, and check that it was refused where it must be, and only where it may be."""
        main = self.main
        before, expected = main.latest, main.expected_compactions(job.base, full=job.full)
        between = main.layouts[main.layouts.index(job.base) + 1 :]
        committed = main.table.commit(job.ticket)
        new = main.new_snapshots()
        if not committed:
            assert not new, f"a refused compaction made {new}"
            assert any(one.kind == "COMPACT" for one in between), "refused, though only writes came between"
            self.stats.refused += 1
            return True
        inputs = {entry for one in expected.values() for entry in one.removed}
        assert inputs <= before.entries(), f"committed, though inputs are gone: {inputs - before.entries()}"
        for bucket in expected:
            same = job.base.vectors_of(bucket) == before.vectors_of(bucket)
            assert same, f"committed, though the vectors of {bucket} had changed"
        main.compacted(new, job.base, full=job.full, among=set(expected))
        return False

    @covers("CMT-12")
    def _abandon(self, operation: Operation) -> None:
        job = self.jobs.pop(operation.job, None)
        if job is not None:
            self.main.table.abandon(job.ticket)
            self._nothing_was_committed()

    def _read(self, operation: Operation) -> None:
        """Reads follow every operation; this one does nothing else."""

    def _nothing_was_committed(self) -> None:
        new = self.main.new_snapshots()
        assert not new, f"staged work made {new}"

    def _numbered(self, changes: Changes) -> tuple[Change, ...]:
        numbered = []
        for kind, row in changes:
            self._change_count += 1
            full_row: tuple[Scalar, ...] = (*spelled_out(row, self._change_count), self._change_count)
            numbered.append(Change(row_kind(kind), full_row))
        return tuple(numbered)


_ACTIONS = {
    "write": Checked._write,
    "write beside": Checked._write_beside,
    "damage vectors": Checked._damage_vectors,
    "reorder vectors": Checked._reorder_vectors,
    "enable vectors": Checked._enable_vectors,
    "compact": Checked._compact,
    "reopen": Checked._reopen,
    "begin write": Checked._begin_write,
    "begin compaction": Checked._begin_compaction,
    "commit": Checked._commit,
    "abandon": Checked._abandon,
    "read": Checked._read,
}


def replay(history: History, open_table: OpenTable, profile: Profile, stats: Stats | None = None) -> Stats:
    """Do a stored history on a new table, checking every step; return what was compared."""
    checked = Checked(open_table, history, profile, stats)
    try:
        for operation in history.operations:
            if operation.do == "begin write" and not checked.main.table.can_stage_writes:
                break
            checked.do(operation)
    finally:
        checked.close()
    checked.stats.histories += 1
    return checked.stats
