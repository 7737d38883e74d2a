"""The state machine that draws histories, the same for every implementation.

It draws a table and then operations; `Session` does them and checks everything after each. Its rules are the things
that users, schedulers, other programs and failing disks do. A rule that needs a capability is drawn only if the table
under test has it. A commit or a crash may come long after its work was begun.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from pktable_conform.judge.history import BULK, MORE_BULK, SHAPES, History, Operation
from pktable_conform.judge.read_expectations import Stats
from pktable_spec.covers import covers
from pktable_spec.interface import OpenTable
from pktable_spec.model.merge import DEDUPLICATE

from model_tests.histories import strategies
from model_tests.histories.profiles import Profile
from model_tests.histories.session import DELETION_VECTORS, LAST, Session
from model_tests.histories.statements import REPLACEMENTS, STATEMENTS
from model_tests.histories.strategies import (
    BATCHES,
    BITS,
    DAMAGES,
    DELETES,
    FULL_FROM,
    PAIRS,
    QUERY_NUMBERS,
    RACING,
    RETAINED,
    SELDOM,
    TAGS,
    UPSERTS,
    Drawn,
)

JOBS = ("A", "B")
CHANGES = {"write", "concurrent writes", "commit", "race", "fill disk", *STATEMENTS, *REPLACEMENTS}
"""Operations after which another compaction, or opening the table again, may do something."""


class TableMachine(RuleBasedStateMachine):
    """A history of one table, drawn step by step."""

    session: Session
    _failed = False

    def __init__(
        self,
        open_table: OpenTable,
        profile: Profile,
        stats: Stats,
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self._open_table, self._profile, self._stats, self._options = open_table, profile, stats, options

    @initialize(
        table=strategies.tables(),
        engine=st.sampled_from(strategies.ENGINES),
        layers=st.sampled_from((2, 1, 0)),
        over=strategies.KEY_NUMBERS,
        late=strategies.SELDOM,
    )
    def create(
        self, table: History, engine: Mapping[str, str], layers: int, over: list[int], late: bool
    ) -> None:
        """Create a table, empty or in use.

        Writes over large runs replace rows there by lookup, not by merge. ``layers``: how many large runs to write
        first; ``over``: the keys written over them; ``late``: whether deletion vectors are to be switched on later.
        """
        if late or not self._profile.orders or (self._profile.engines and "merge-engine" in engine):
            table = replace(table, options=strategies.without_order(table.options))
        if late:
            # Compacted as often as possible, so that there are levels between the first and the last.
            options = {DELETION_VECTORS: "false", "num-sorted-run.compaction-trigger": "2"}
            table = replace(table, options={**table.options, **options})
        if self._profile.engines:
            table = replace(table, options={**table.options, **engine})
        if not (self._profile.engines or self._profile.orders):
            table = replace(table, options=strategies.plain(table.options))
            if table.shape.moves_keys:
                table = replace(table, shape=SHAPES["partitioned"])
        table = strategies.fitted(table)
        table = replace(table, options={**table.options, **self._options})
        self.session = Session(self._open_table, table, self._profile, self._stats)
        keys = strategies.KEYS[table.shape.name]
        if layers:
            everything = [("+I", (*key, MORE_BULK if layers > 1 else BULK)) for key in keys]
            if strategies.SEQUENCE_FIELD in table.options:
                everything[-1] = "-D", (*keys[-1], "b")  # a deletion to be remembered
            self.perform(Operation("write", changes=tuple(everything), write_only=True))
            self.perform(Operation("compact", full=True))
        # Without vectors it takes two more runs for a compaction, and a level between the first and the last.
        for _ in range(layers - 1 + (layers > 1 and late)):
            self.perform(Operation("write", changes=tuple(("+I", (*keys[at], BULK)) for at in over)))

    def teardown(self) -> None:
        if hasattr(self, "session"):
            try:
                self._end()
            finally:
                self.session.close()
            self._stats.histories += 1

    def _end(self) -> None:
        """Go back in time, if all went well so far: the last operation."""
        if not self._failed and self.session.can(LAST):
            tags, number = sorted(self.session.main.tags), len(self.session.history.operations)
            self._do(LAST, tag=tags[0] if tags else "", number=number % 3, full=number % 2 > 0)

    def _do(
        self,
        do: str,
        query: int = 0,
        *,
        drawn: Drawn | None = None,
        job: str = "",
        bit: int = 0,
        number: int = 0,
        tag: str = "",
        statements: tuple[str, ...] = (),
        **flags: bool,
    ) -> None:
        shape = self.session.shape
        operation = Operation(
            do,
            changes=strategies.changes(
                shape, drawn or [], valued=strategies.retractions_have_values(self.session.history.options)
            ),
            job=job,
            bit=bit,
            number=number,
            tag=tag,
            statements=statements,
            handle=strategies.handle(query) if self.session.has_handles else 0,
            query=strategies.query(shape, query),
            write_only=flags.get("write_only", False),
            full=flags.get("full", False),
        )
        self.perform(operation)

    def perform(self, operation: Operation) -> None:
        """Do one operation with all its checks."""
        self._failed = True
        self.session.do(operation)
        self._failed = False

    @covers("TBL-6", "TBL-7", "MRG-1")
    @rule(drawn=UPSERTS, write_only=SELDOM, query=QUERY_NUMBERS)
    def upsert(self, drawn: Drawn, write_only: bool, query: int) -> None:
        self._do("write", query, drawn=drawn, write_only=write_only)

    @covers("TBL-4", "CMP-13", "MRG-3")
    @rule(drawn=DELETES, write_only=SELDOM, query=QUERY_NUMBERS)
    def delete(self, drawn: Drawn, write_only: bool, query: int) -> None:
        self._do("write", query, drawn=drawn, write_only=write_only)

    @covers("TBL-4", "TBL-6", "LSM-5", "LSM-10")
    @rule(drawn=BATCHES, write_only=SELDOM, query=QUERY_NUMBERS)
    def write_changes(self, drawn: Drawn, write_only: bool, query: int) -> None:
        self._do("write", query, drawn=drawn, write_only=write_only)

    @covers("STM-1", "STM-2", "STM-5", "STM-7", "STM-10")
    @precondition(lambda self: self.session.can("merge"))
    @rule(do=st.sampled_from((*STATEMENTS, *REPLACEMENTS)), drawn=UPSERTS, query=QUERY_NUMBERS)
    def execute(self, do: str, drawn: Drawn, query: int) -> None:
        """A statement, an overwrite or a truncation. Most statements are refused where the user orders records."""
        if do in STATEMENTS and not self._replaces_rows():
            do = "overwrite"
        if do in STATEMENTS and self.session.main.options.order is not None:
            do = "delete where"
        few = {"update": 1, "delete where": 1, "truncate": 0}
        self._do(do, query, drawn=drawn[: few.get(do)])

    @covers("STM-1", "STM-6")
    @precondition(lambda self: self.session.can("race") and self._replaces_rows())
    @rule(
        one=st.sampled_from(STATEMENTS), other=st.sampled_from(STATEMENTS), drawn=RACING, query=QUERY_NUMBERS
    )
    def race(self, one: str, other: str, drawn: Drawn, query: int) -> None:
        """Two statements at the same time, through two handles."""
        if self.session.main.options.order is not None:
            one = other = "delete where"
        self._do("race", query, drawn=drawn, statements=(one, other))

    def _replaces_rows(self) -> bool:
        """Whether a statement may do all it can: other engines refuse some of it."""
        return self.session.main.options.merge_engine == DEDUPLICATE

    @covers("LSM-4", "LSM-8")
    @precondition(lambda self: self.session.can("concurrent writes") and self._has_vectors_enabled())
    @rule(drawn=PAIRS, query=QUERY_NUMBERS)
    def write_concurrently(self, drawn: Drawn, query: int) -> None:
        self._do("concurrent writes", query, drawn=drawn)

    @covers("CMP-14", "CMP-17", "DV-6", "DV-7", "DV-8", "DV-9")
    @precondition(lambda self: self._would_be_new("compact"))
    @rule(query=QUERY_NUMBERS)
    def compact(self, query: int) -> None:
        self._do("compact", query)

    @covers("CMP-7", "CMP-22", "DV-13")
    @precondition(lambda self: self._would_be_new("compact", full=True))
    @rule(query=QUERY_NUMBERS)
    def compact_fully(self, query: int) -> None:
        self._do("compact", query, full=True)

    @covers("CMT-15")
    @precondition(lambda self: self._would_be_new("reopen"))
    @rule(query=QUERY_NUMBERS)
    def reopen(self, query: int) -> None:
        self._do("reopen", query)

    @covers("CMT-16", "CMT-26", "CMT-28", "CMT-29")
    @precondition(lambda self: self.session.can("expire") and len(self.session.main.retained) > 1)
    @rule(retained=RETAINED, query=QUERY_NUMBERS)
    def expire(self, retained: int, query: int) -> None:
        self._do("expire", query, number=retained)

    @covers("CMT-17", "CMT-31")
    @precondition(lambda self: self.session.can("tag") and self.session.main.retained)
    @rule(name=st.sampled_from(TAGS), age=st.integers(0, 2), query=QUERY_NUMBERS)
    def tag_or_delete_tag(self, name: str, age: int, query: int) -> None:
        """Make a tag; or delete it if it is there."""
        if name in self.session.main.tags:
            self._do("delete tag", query, tag=name)
        else:
            self._do("tag", query, tag=name, number=age)

    @covers("DV-15", "DV-18", "RD-22")
    @precondition(
        lambda self: (
            self.session.can("enable vectors")
            and DELETION_VECTORS not in self._options
            and not self.session.main.options.one_record_per_key
            and not self.session.jobs
        )
    )
    @rule(query=QUERY_NUMBERS)
    def enable_vectors(self, query: int) -> None:
        self._do("enable vectors", query)

    @covers("DVF-5", "RD-11")
    @precondition(lambda self: self.session.can("damage vectors") and self.session.main.latest.vectors)
    @rule(bit=BITS)
    def damage_vectors(self, bit: int) -> None:
        self._do("damage vectors", bit=bit)

    @covers("RD-11", "RD-19")
    @precondition(lambda self: self.session.can("damage file") and self.session.main.latest.files)
    @rule(number=DAMAGES)
    def damage_file(self, number: int) -> None:
        self._do("damage file", number=number)

    @covers("CMT-2", "CMT-12", "CMT-25", "SAFE-5")
    @precondition(lambda self: self.session.can("fill disk"))
    @rule(drawn=BATCHES, compacts=SELDOM, full_from=FULL_FROM, query=QUERY_NUMBERS)
    def fill_disk(self, drawn: Drawn, compacts: bool, full_from: int, query: int) -> None:
        self._do("fill disk", query, drawn=[] if compacts else drawn, number=full_from)

    @covers("TBL-1", "TBL-9", "MRG-11")
    @precondition(lambda self: self.session.can("ask wrongly") and self._would_be_new("ask wrongly"))
    @rule()
    def ask_wrongly(self) -> None:
        self._do("ask wrongly")

    @covers("DVF-9")
    @precondition(lambda self: self.session.can("reorder vectors") and self._vectors_of_a_bucket() > 1)
    @rule(query=QUERY_NUMBERS)
    def reorder_vectors(self, query: int) -> None:
        self._do("reorder vectors", query)

    @covers("CMT-7", "CMT-8", "CMT-9", "CMT-11")
    @precondition(lambda self: self._can_begin() and self._would_be_new("begin compaction"))
    @rule(full=st.booleans(), query=QUERY_NUMBERS)
    def begin_compaction(self, full: bool, query: int) -> None:
        self._do("begin compaction", query, job=self._idle_job(), full=full)

    @covers("CMT-10", "CMT-18", "CMT-20")
    @precondition(lambda self: self._can_begin())
    @rule(drawn=BATCHES, write_only=st.booleans(), query=QUERY_NUMBERS)
    def begin_write(self, drawn: Drawn, write_only: bool, query: int) -> None:
        self._do("begin write", query, drawn=drawn, job=self._idle_job(), write_only=write_only)

    @covers("CMT-7", "CMT-8", "CMT-9", "CMT-10", "CMT-11", "CMT-12", "CMT-14", "CMT-24", "CMT-25")
    @precondition(lambda self: self.session.jobs)
    @rule(
        first=st.booleans(),
        end=st.sampled_from(("commit", "commit", "commit", "abandon")),
        query=QUERY_NUMBERS,
    )
    def end(self, first: bool, end: str, query: int) -> None:
        self._do(end, query, job=(min if first else max)(self.session.jobs))

    @covers("CMT-7", "CMT-8", "CMT-9", "CMT-14")
    @precondition(lambda self: self._can_begin())
    @rule(drawn=BATCHES, full=st.booleans(), query=QUERY_NUMBERS)
    def write_during_compaction(self, drawn: Drawn, full: bool, query: int) -> None:
        """A write, with its own compaction, commits while a compaction is staged: the most important schedule."""
        job = self._idle_job()
        self._do("begin compaction", job=job, full=full)
        self._do("write", drawn=drawn)
        self._do("commit", query, job=job)

    @covers("CMT-10", "CMT-14", "CMT-18", "CMT-24", "CMT-33")
    @precondition(lambda self: self._can_begin())
    @rule(drawn=BATCHES, between=BATCHES, write_only=st.booleans(), query=QUERY_NUMBERS)
    def write_during_write(self, drawn: Drawn, between: Drawn, write_only: bool, query: int) -> None:
        """A write commits while another is staged, whose compaction was planned with it."""
        job = self._idle_job()
        self._do("begin write", drawn=drawn, job=job)
        self._do("write", drawn=between, write_only=write_only)
        self._do("commit", query, job=job)

    def _would_be_new(self, do: str, *, full: bool = False) -> bool:
        """Whether something was written or committed since the same was last done; if not, it would do nothing."""
        for operation in reversed(self.session.history.operations):
            if operation.do in CHANGES:
                break
            if (operation.do, operation.full) == (do, full):
                return False
        return True

    def _can_begin(self) -> bool:
        return self.session.can("begin write") and len(self.session.jobs) < len(JOBS)

    def _has_vectors_enabled(self) -> bool:
        return self.session.main.options.deletion_vectors

    def _vectors_of_a_bucket(self) -> int:
        return max(Counter(bucket for bucket, _ in self.session.main.latest.vectors).values(), default=0)

    def _idle_job(self) -> str:
        return next(job for job in JOBS if job not in self.session.jobs)
