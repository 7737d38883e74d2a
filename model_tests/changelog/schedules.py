"""Drawn schedules of tables that record their changes, with every engine and producer.

The changes so far must give the rows above level 0, whatever the schedule of compactions. If rows that were replaced by
equal ones are to be left out, no change may replace a row by an equal one.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hypothesis import strategies as st
from pktable import Table
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers

from model_tests.changelog.tables import applied, changes, new_table, put, rows
from model_tests.seeded import play_drawn

KINDS: Final = {"deduplicate": ("+I", "+U", "-D")}
CASES: Final = [
    (engine, producer, vectors)
    for engine in ("deduplicate", "partial-update", "aggregation", "first-row")
    for producer, vectors in (("lookup", "true"), ("lookup", "false"), ("full-compaction", "false"))
    if engine != "first-row" or (producer, vectors) == ("lookup", "false")
]
"""Merge engine, changelog producer, and whether there are deletion vectors."""


def steps(engine: str) -> st.SearchStrategy[list[object]]:
    change = st.tuples(
        st.sampled_from(KINDS.get(engine, ("+I", "+U"))), st.integers(0, 4), st.sampled_from((1, 2, None))
    )
    write = st.tuples(st.lists(change, min_size=1, max_size=4), st.sampled_from((False, False, True)))
    return st.lists(write | st.booleans(), min_size=4, max_size=10)


def comes_next(table: Table, snapshot: int, producer: str, vectors: str) -> bool:
    """Return whether the changes up to a snapshot are to give its rows: all of them have been recorded."""
    options = table.catalog.context.options
    levels = {file.level for files in table.catalog.state(snapshot).files.values() for file in files}
    if producer == "full-compaction":
        return levels <= {options.max_level}
    return options.one_record_per_key or vectors == "true" or 0 not in levels


def draw(engine: str, producer: str, vectors: str, number: int, seed: int) -> None:
    """Play some drawn schedules. Raises AssertionError, or what a table raises, at the first that fails."""
    play_drawn(number, seed, lambda data: play(data, engine, producer, vectors))


def play(data: st.DataObject, engine: str, producer: str, vectors: str) -> None:
    """Do one schedule on a new table, and compare all changes that it recorded."""
    drawn = data.draw(steps(engine))
    leaves_out = data.draw(st.booleans())
    with TemporaryDirectory(prefix="pktable-") as folder:
        options: dict[str, Any] = {"fields.v.aggregate-function": "sum"} if engine == "aggregation" else {}
        if leaves_out:
            options["changelog_producer__row_deduplicate"] = "true"
        table = new_table(
            Path(folder) / "t",
            producer,
            merge_engine=engine,
            deletion_vectors__enabled=vectors,
            num_sorted_run__compaction_trigger=data.draw(st.sampled_from("23")),
            target_file_size=data.draw(st.sampled_from(("1 kb", "128 mb"))),
            **options,
        )
        for step in drawn:
            if isinstance(step, tuple):
                put(table, *step[0], write_only=step[1])
            else:
                table.compact(full=bool(step))
        found: set[tuple[object, ...]] = set()
        for one in table.snapshots():
            new = changes(table, one.id - 1, one.id)
            if leaves_out:
                no_row_is_replaced_by_an_equal_one(one.id, new)
            found = applied(found, new)
            if comes_next(table, one.id, producer, vectors):
                assert found == rows(table, snapshot=one.id), one.id
        assert not table.check().findings


@check
@covers("CHG-8")
def no_row_is_replaced_by_an_equal_one(snapshot: int, new: list[tuple[Any, ...]]) -> None:
    """A -U and the +U that follows it differ."""
    for before, after in itertools.pairwise(new):
        if (before[0], after[0]) == ("-U", "+U") and before[1:] == after[1:]:
            fail(f"snapshot {snapshot}: {before} is followed by {after}")
