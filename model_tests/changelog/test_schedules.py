"""Whatever the engine and the schedule of compactions, the changes so far give the rows above level 0."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pktable import Table
from pktable_spec.covers import covers

from model_tests.changelog.tables import applied, changes, new_table, put, rows

KINDS = {"deduplicate": ("+I", "+U", "-D")}
CASES = [
    (engine, producer, vectors)
    for engine in ("deduplicate", "partial-update", "aggregation", "first-row")
    for producer, vectors in (("lookup", "true"), ("lookup", "false"), ("full-compaction", "false"))
    if engine != "first-row" or (producer, vectors) == ("lookup", "false")
]


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


@covers("CHG-5", "CHG-7", "CHG-9", "CHG-10", "CHG-16", "DV-20")
@pytest.mark.parametrize(("engine", "producer", "vectors"), CASES)
def test_the_changes_so_far_give_the_rows(engine: str, producer: str, vectors: str) -> None:
    @settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(steps(engine), st.sampled_from("23"), st.sampled_from(("1 kb", "128 mb")))
    def check(drawn: list[object], trigger: str, size: str) -> None:
        with TemporaryDirectory(prefix="pktable-") as folder:
            options = {"fields.v.aggregate-function": "sum"} if engine == "aggregation" else {}
            table = new_table(
                Path(folder) / "t",
                producer,
                merge_engine=engine,
                deletion_vectors__enabled=vectors,
                num_sorted_run__compaction_trigger=trigger,
                target_file_size=size,
                **options,
            )
            for step in drawn:
                if isinstance(step, tuple):
                    put(table, *step[0], write_only=step[1])
                else:
                    table.compact(full=bool(step))
            found: set[tuple[object, ...]] = set()
            for one in table.snapshots():
                found = applied(found, changes(table, one.id - 1, one.id))
                if comes_next(table, one.id, producer, vectors):
                    assert found == rows(table, snapshot=one.id), one.id
            assert not table.check().findings

    check()
