"""Tables of every merge engine: whatever is written and compacted when, they read as plain Python says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import Table
from pktable_spec.covers import covers

from model_tests.engines.cases import Case
from model_tests.engines.schedules import WITH_VECTORS, play
from model_tests.seeded import cases


@covers(
    "MRG-4", "MRG-8", "MRG-9", "MRG-12", "MRG-13", "MRG-14", "MRG-15", "MRG-16", "MRG-17", "DV-20", "DV-12"
)
@pytest.mark.parametrize(("case", "vectors"), WITH_VECTORS, ids=lambda one: str(one))
@settings(max_examples=cases(4))
@given(data=st.data())
def test_a_table_reads_as_plain_python_says_whatever_the_schedule(
    case: Case, vectors: bool, data: st.DataObject
) -> None:
    play(case, data, vectors=vectors)


@covers("MRG-8", "MRG-17")
def test_a_compaction_with_retractions_takes_all_that_is_older(tmp_path: Path) -> None:
    options = {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
        "num-sorted-run.compaction-trigger": "2",
        "num-levels": "5",
        "write-only": "true",
    }
    table = Table.create(tmp_path / "t", "k INT, a INT", primary_key="k", options=options)
    keys = pa.array(range(20_000), pa.int32())
    table.upsert(pa.table({"k": keys, "a": keys}))
    table.compact(full=True)
    table.delete([{"k": 7}])
    table.upsert([{"k": 7, "a": 1}])
    # The two small runs alone would become one add, to be added to what is older.
    assert table.compact() is not None
    assert table.to_arrow(where="k = 7").to_pylist() == [{"k": 7, "a": 1}]
    assert table.count() == 20_000


@covers("MRG-8", "MRG-17", "DV-20")
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_removal_and_a_later_add_of_one_write_do_not_meet_the_older_row(
    tmp_path: Path, vectors: str
) -> None:
    options = {
        "merge-engine": "aggregation",
        "fields.a.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": "true",
        "deletion-vectors.enabled": vectors,
    }
    table = Table.create(tmp_path / "t", "k INT, a INT", primary_key="k", options=options)
    table.upsert([{"k": 1, "a": 5}])
    table.write_changes(pa.table({"k": [1, 1], "a": [0, 1], "op": ["-D", "+I"]}), row_kind="op")
    assert table.to_arrow().to_pylist() == [{"k": 1, "a": 1}]
    table.upsert([{"k": 1, "a": 2}])
    assert table.to_arrow().to_pylist() == [{"k": 1, "a": 3}]
