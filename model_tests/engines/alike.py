"""Drawn runs that other writers have numbered alike, compared with plain Python.

Two writers that begin on one snapshot, as those of Paimon do, give their records the same numbers. So the files of a
table are written again with other numbers. Of equal ones an add is newer than a retraction, and the record of the newer
run is newer than that of another one. Which run is newer follows from the numbers, and from the times and the names of
files, if these are equal, too.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pktable import Table
from pktable.bucket import windows
from pktable.format.metadata.manifest import DataFileMeta
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.vocabulary import SEQUENCE_NUMBER

from model_tests.engines import naive, sequences
from model_tests.engines.cases import CASES as PLAIN_CASES
from model_tests.engines.cases import EVERY, PLAIN, Case
from model_tests.engines.schedules import changes_of, rows_of
from model_tests.engines.test_laws import Keyed, expected
from model_tests.seeded import play_drawn
from model_tests.table.foreign_tables import at, read_parquet, rewritten

KEYS: Final = 3
FIRST: Final = (0, 0, 0, 1)
"""Numbers that a run may begin with."""
MILLIS: Final = (1_000, 1_000, 2_000)
"""Times at which files may have been made."""
CASES: Final = (
    Case("deduplicate", PLAIN, {}, sequences.newest, EVERY),
    *(
        case
        for case in sequences.CASES
        if case.name in ("one column", "two columns descending", "aggregation")
    ),
    *(case for case in PLAIN_CASES if case.name in ("retractions", "partial-update")),
)


class Run(NamedTuple):
    """A file as its metadata tells of it, and its records by key in the order of their numbers."""

    file: DataFileMeta
    records: dict[int, tuple[int, Keyed]]


def draw(number: int, seed: int) -> None:
    """Play some drawn schedules of each case. Raises CheckFailed, or what a table raises, at the first that fails."""
    for case in CASES:
        play_drawn(number, seed, partial(play, case))


def play(case: Case, data: st.DataObject) -> None:
    """Write a few runs to a new table, number them alike, and compare reads before and after a compaction."""
    batches = data.draw(st.lists(case.records(keys=KEYS, most=5), min_size=2, max_size=4))
    drawn = random.Random(data.draw(st.integers(0, 1 << 30)))
    options = {
        **case.options,
        "deletion-vectors.enabled": str(case.vectors and drawn.random() < 0.5).lower(),
        "write-only": "true",
    }
    with tempfile.TemporaryDirectory() as folder:
        table = Table.create(folder + "/t", case.ddl, primary_key=["k"], options=options)
        runs = []
        for batch in batches:
            # One record of a key, so that the write has nothing to merge.
            records = {key: one for one in batch for key in one[:1]}
            before = {one.file_name for one in _live(table)}
            table.write_changes(changes_of(case, list(records.values())), row_kind="op")
            if new := [one.file_name for one in _live(table) if one.file_name not in before]:
                runs.append((new[0], records))
        if not runs:
            return
        records_of = numbered_alike(table, dict(runs), drawn)
        table = Table.open(table.path)
        rows = expected(case, oldest_first(records_of))
        with mock.patch.object(windows, "rows_to_hold", return_value=drawn.randint(1, 3)):
            rows_agree(table, case, rows, fresh=True)
            table.compact(full=True)
            rows_agree(table, case, rows, fresh=False)


def _live(table: Table) -> list[DataFileMeta]:
    return [file for files in table.catalog.state().files.values() for file in files]


def numbered_alike(table: Table, records: dict[str, dict[int, Keyed]], drawn: random.Random) -> list[Run]:
    """Write the files of a table again with other numbers and times, and return what they are now."""
    runs = []

    def change(file: DataFileMeta, path: Path) -> DataFileMeta:
        rows, first = read_parquet(path), drawn.choice(FIRST)
        numbers = list(range(first, first + rows.num_rows))
        drawn.shuffle(numbers)
        place = rows.column_names.index(SEQUENCE_NUMBER)
        column = rows.schema.field(place)
        target = path.with_name(f"data-{drawn.randrange(1 << 30)}.parquet")
        pq.write_table(rows.set_column(place, column, pa.array(numbers, column.type)), target)
        made = replace(
            at(file, target),
            min_sequence_number=min(numbers),
            max_sequence_number=max(numbers),
            creation_time=drawn.choice(MILLIS),
        )
        keys = rows.column("k").to_pylist()
        found = records[file.file_name]
        runs.append(Run(made, {key: (number, found[key]) for key, number in zip(keys, numbers, strict=True)}))
        return made

    rewritten(Path(table.path), change)
    return runs


def oldest_first(runs: list[Run]) -> list[Keyed]:
    """Return all records, oldest first, by what the clauses say of equal numbers and of runs. Clauses: LSM-4."""
    newest_first = sorted(
        runs,
        key=lambda run: (
            -run.file.max_sequence_number,
            -run.file.min_sequence_number,
            run.file.creation_time,
            run.file.file_name,
        ),
    )
    records = [
        (number, record[1].is_add, -age, record)
        for age, run in enumerate(newest_first)
        for number, record in run.records.values()
    ]
    return [record for _, _, _, record in sorted(records, key=lambda one: one[:3])]


@check
@covers("MRG-1", "MRG-2", "MRG-6", "LSM-4")
def rows_agree(table: Table, case: Case, rows: dict[int, naive.Row], *, fresh: bool) -> None:
    """Compare a read with the rows expected."""
    found = rows_of(table.to_arrow(fresh=fresh))
    if found != rows:
        fail(f"{case}, fresh={fresh}: expected {rows}, found {found}")
