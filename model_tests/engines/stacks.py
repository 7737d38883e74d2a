"""Drawn stacks of many runs, in files of every format, compared with plain Python.

A table is only written to for a while, so that a read merges up to `MOST` runs of it. Then some other writer puts the
same rows into ORC, Avro and Parquet files without key columns, and compactions merge what is there. The columns of
``sequence.field`` are such that records come late. Half of the tables forget deletions in full compactions
(``sequence.field.retractions``). These steps come in each schedule; what is written and asked is drawn.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from unittest import mock

from hypothesis import strategies as st
from pktable import Table
from pktable.bucket import windows
from pktable.check.findings import ERROR
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.engines import sequences
from model_tests.engines.cases import EVERY, PLAIN, Case
from model_tests.engines.schedules import changes_of, rows_of
from model_tests.engines.test_laws import Keyed, expected
from model_tests.seeded import play_drawn
from model_tests.table.foreign_tables import Replacement, as_avro, as_orc, of_parquet, rewritten, without_keys

MOST: Final = 9
KEYS: Final = 4
FORMATS: Final[Sequence[Replacement]] = (as_orc, as_avro, without_keys)
FORGETTING: Final = {"sequence.field.retractions": "drop-in-full-compaction"}

CASES: Final = (
    Case("deduplicate", PLAIN, {}, sequences.newest, EVERY),
    *sequences.CASES,
)
WAYS: Final = [(case, bool(at % 2), at % 4 in (1, 2)) for at, case in enumerate(CASES)]
"""Each case, whether it has deletion vectors, and whether full compactions forget deletions."""


def draw(case: Case, number: int, seed: int, *, vectors: bool, forgets: bool) -> None:
    """Play some drawn schedules. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_drawn(number, seed, lambda data: play(case, data, vectors=vectors, forgets=forgets))


def play(case: Case, data: st.DataObject, *, vectors: bool, forgets: bool) -> None:
    """Do one schedule on a new table."""
    some = st.lists(case.records(keys=KEYS, most=4), min_size=2, max_size=MOST // 2)
    rounds = data.draw(st.tuples(some, some, some).filter(_meet))
    drawn = random.Random(data.draw(st.integers(0, 1 << 30)))
    options = {
        **case.options,
        "deletion-vectors.enabled": str(vectors).lower(),
        "num-sorted-run.compaction-trigger": str(drawn.choice([2, 3])),
        "num-levels": "4",
        "write-only": "true",
        "target-file-size": drawn.choice(["1 b", "128 mb"]),
        "parquet.block.row.count.limit": drawn.choice(["1", "3", "100"]),
        "parquet.page.row.count.limit": drawn.choice(["1", "100"]),
    }
    forgets = forgets and "sequence.field" in case.options
    options |= FORGETTING if forgets else {}
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(Table.create(folder + "/t", case.ddl, primary_key=["k"], options=options), case, drawn)
        for number, runs in enumerate(rounds):
            for changes in runs:
                stack.write(changes)
            stack.to_other_formats()
            stack.agrees(compacted=False)
            stack.compact(full=number == 1, forgets=forgets)
            stack.agrees(compacted=True)
        stack.compact(full=True, forgets=forgets)
        stack.agrees(compacted=True)
        stack.is_sound()


class Stack:
    """A table, and all the records that it was given."""

    def __init__(self, table: Table, case: Case, drawn: random.Random) -> None:
        self._table, self._case, self._drawn = table, case, drawn
        self._records: list[Keyed] = []

    def write(self, changes: list[Keyed]) -> None:
        """Add a run."""
        self._table.write_changes(changes_of(self._case, changes), row_kind="op")
        self._records += changes

    def to_other_formats(self) -> None:
        """Write the rows of all Parquet files again, in each format in turn."""
        rewritten(Path(self._table.path), of_parquet(*self._drawn.sample(FORMATS, len(FORMATS))))

    def compact(self, *, full: bool, forgets: bool) -> None:
        """Compact; a full compaction that forgets deletions leaves the rows, and nothing else."""
        self._table.compact(full=full)
        if full and forgets:
            rows = expected(self._case, self._records)
            self._records = [(key, RowKind.INSERT, row) for key, row in rows.items()]

    @check
    @covers("MRG-1", "MRG-19", "MRG-20", "MRG-21", "MRG-22", "RD-1", "RD-5", "RD-6", "RD-16", "LSM-4")
    def agrees(self, *, compacted: bool) -> None:
        """Compare reads of all rows, and of a column of some keys, in windows of few rows; and the number of rows."""
        table, drawn = Table.open(self._table.path), self._drawn
        rows = expected(self._case, self._records)
        both = compacted or not table.catalog.context.options.deletion_vectors_enabled
        with mock.patch.object(windows, "rows_to_hold", return_value=drawn.randint(1, 3)):
            for fresh in (True, False) if both else (True,):
                some, key = drawn.choice([*self._case.columns]), drawn.randrange(KEYS)
                few = {at: {some: row[some]} for at, row in rows.items() if at <= key}
                where = f"k <= {key}"
                if (found := rows_of(table.to_arrow(fresh=fresh))) != rows:
                    fail(f"{self._case}, fresh={fresh}: expected {rows}, found {found}")
                if (found := rows_of(table.to_arrow(columns=["k", some], where=where, fresh=fresh))) != few:
                    fail(f"{self._case}, {some}, {where}, fresh={fresh}: expected {few}, found {found}")
                if (count := table.count(fresh=fresh)) != len(rows):
                    fail(f"{self._case}, fresh={fresh}: expected {len(rows)} rows, counted {count}")

    @check
    @covers("META-11")
    def is_sound(self) -> None:
        """The checker finds no error but what `rewritten` does: it commits all files as if none had been there."""
        found = [one for one in Table.open(self._table.path).check().findings if one.severity == ERROR]
        if findings := [str(one) for one in found if one.clause != "CMT-5"]:
            fail(f"{self._case}: {findings}")


def _meet(rounds: Sequence[Sequence[Sequence[Keyed]]]) -> bool:
    """Whether some key is in several runs of each round, and not all records are of one key."""
    keys = [[{key for key, _, _ in run} for run in runs] for runs in rounds]
    return all(len(set.union(*some)) > 1 and any(map(set.intersection, some, some[1:])) for some in keys)
