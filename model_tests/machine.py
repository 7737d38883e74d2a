"""One state machine for the oracle, the local runner and Spark.

It draws a table and then operations; `Checked` does them and checks everything after each. The rules
are what users and their schedulers do; a commit or a crash may come long after the work was begun.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from pktable_spec.covers import covers
from pktable_spec.interface import OpenTable

from model_tests import strategies
from model_tests.checked import Checked
from model_tests.history import BULK, History, Operation
from model_tests.profiles import Profile
from model_tests.strategies import BATCHES, DELETES, QUERY_NUMBERS, UPSERTS, Drawn
from model_tests.watched import Stats

JOBS = ("A", "B")


class TableMachine(RuleBasedStateMachine):
    """A history of one table, drawn step by step."""

    checked: Checked

    def __init__(self, open_table: OpenTable, profile: Profile, stats: Stats) -> None:
        super().__init__()
        self._open_table, self._profile, self._stats = open_table, profile, stats

    @initialize(table=strategies.tables(), loaded=st.booleans())
    def create(self, table: History, loaded: bool) -> None:
        self.checked = Checked(self._open_table, table, self._profile, self._stats)
        if loaded:
            # A large run at the bottom: what is written over it meets it by lookup, not by merge.
            everything = tuple(("+I", (*key, BULK)) for key in strategies.KEYS[table.shape.name])
            self.checked.do(Operation("write", changes=everything, write_only=True))
            self.checked.do(Operation("compact", full=True))

    def teardown(self) -> None:
        if hasattr(self, "checked"):
            self.checked.close()
            self._stats.histories += 1

    def _do(self, do: str, query: int, *, drawn: Drawn | None = None, job: str = "", **flags: bool) -> None:
        shape = self.checked.shape
        operation = Operation(
            do,
            changes=strategies.changes(shape, drawn or []),
            job=job,
            query=strategies.query(shape, query),
            write_only=flags.get("write_only", False),
            full=flags.get("full", False),
        )
        self.checked.do(operation)

    @covers("TBL-6", "TBL-7", "MRG-1")
    @rule(drawn=UPSERTS, write_only=st.booleans(), query=QUERY_NUMBERS)
    def upsert(self, drawn: Drawn, write_only: bool, query: int) -> None:
        self._do("write", query, drawn=drawn, write_only=write_only)

    @covers("TBL-4", "CMP-13", "MRG-3")
    @rule(drawn=DELETES, write_only=st.booleans(), query=QUERY_NUMBERS)
    def delete(self, drawn: Drawn, write_only: bool, query: int) -> None:
        self._do("write", query, drawn=drawn, write_only=write_only)

    @covers("TBL-4", "TBL-6", "LSM-5")
    @rule(drawn=BATCHES, write_only=st.booleans(), query=QUERY_NUMBERS)
    def write_changes(self, drawn: Drawn, write_only: bool, query: int) -> None:
        self._do("write", query, drawn=drawn, write_only=write_only)

    @covers("CMP-14", "CMP-17", "DV-6", "DV-7", "DV-8", "DV-9")
    @rule(query=QUERY_NUMBERS)
    def compact(self, query: int) -> None:
        self._do("compact", query)

    @covers("CMP-7", "DV-13")
    @rule(query=QUERY_NUMBERS)
    def compact_fully(self, query: int) -> None:
        self._do("compact", query, full=True)

    @covers("CMT-15")
    @rule(query=QUERY_NUMBERS)
    def reopen(self, query: int) -> None:
        self._do("reopen", query)

    @covers("CMT-7", "CMT-8", "CMT-9", "CMT-11")
    @precondition(lambda self: len(self.checked.jobs) < len(JOBS))
    @rule(full=st.booleans(), query=QUERY_NUMBERS)
    def begin_compaction(self, full: bool, query: int) -> None:
        self._do("begin compaction", query, job=self._idle_job(), full=full)

    @covers("CMT-10")
    @precondition(
        lambda self: len(self.checked.jobs) < len(JOBS) and self.checked.main.table.can_stage_writes
    )
    @rule(drawn=BATCHES, query=QUERY_NUMBERS)
    def begin_write(self, drawn: Drawn, query: int) -> None:
        self._do("begin write", query, drawn=drawn, job=self._idle_job())

    @covers("CMT-7", "CMT-8", "CMT-9", "CMT-10", "CMT-11", "CMT-12", "CMT-14")
    @precondition(lambda self: self.checked.jobs)
    @rule(
        first=st.booleans(),
        end=st.sampled_from(("commit", "commit", "commit", "abandon")),
        query=QUERY_NUMBERS,
    )
    def end(self, first: bool, end: str, query: int) -> None:
        self._do(end, query, job=(min if first else max)(self.checked.jobs))

    def _idle_job(self) -> str:
        return next(job for job in JOBS if job not in self.checked.jobs)
