"""Tables of every merge engine: whatever is written and compacted when, they read as plain Python says."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import Table
from pktable.format.types import array_of
from pktable_spec.covers import covers

from model_tests.engines import naive
from model_tests.engines.cases import CASES, Case
from model_tests.engines.test_laws import Keyed, expected

WITH_VECTORS = [
    (case, vectors) for case in CASES for vectors in ((False, True) if case.vectors else (False,))
]


def changes_of(case: Case, records: list[Keyed]) -> pa.Table:
    columns: dict[str, Any] = {"op": [kind.symbol for _, kind, _ in records]}
    for field in case.schema.fields:
        values = [key if field.name == "k" else row[field.name] for key, _, row in records]
        columns[field.name] = array_of(values, field.type)
    return pa.table(columns)


def rows_of(found: pa.Table) -> dict[int, dict[str, Any]]:
    rows = {row.pop("k"): row for row in found.to_pylist()}
    assert len(rows) == found.num_rows, "a key twice"
    return {key: naive.with_maps_in_order(row) for key, row in rows.items()}


@covers(
    "MRG-4", "MRG-8", "MRG-9", "MRG-12", "MRG-13", "MRG-14", "MRG-15", "MRG-16", "MRG-17", "DV-20", "DV-12"
)
@pytest.mark.parametrize(("case", "vectors"), WITH_VECTORS, ids=lambda one: str(one))
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_a_table_reads_as_plain_python_says_whatever_the_schedule(
    case: Case, vectors: bool, data: st.DataObject
) -> None:
    batches = data.draw(st.lists(case.records(keys=3, most=5), min_size=1, max_size=6))
    drawn = random.Random(data.draw(st.integers(0, 1 << 30)))
    options = {
        **case.options,
        "deletion-vectors.enabled": str(vectors).lower(),
        "num-sorted-run.compaction-trigger": str(drawn.choice([2, 3])),
        "num-levels": "5",
        "write-only": "true",
        # So small that files are upgraded, where they may be.
        "target-file-size": drawn.choice(["1 kb", "128 mb"]),
    }
    with tempfile.TemporaryDirectory() as directory:
        table = Table.create(directory + "/t", case.ddl, primary_key=["k"], options=options)
        written: list[Keyed] = []
        for batch in batches:
            table.write_changes(changes_of(case, batch), row_kind="op")
            written += batch
            compacted = drawn.random() < 0.6
            if compacted:
                table.compact(full=drawn.random() < 0.3)
            assert rows_of(table.to_arrow(fresh=True)) == expected(case, written)
            if not table.catalog.context.options.one_record_per_key:
                assert rows_of(table.to_arrow()) == expected(case, written)
            some = drawn.choice(["k", *case.columns])
            part = table.to_arrow(columns=[some, "k"] if some != "k" else ["k"], fresh=True)
            assert {key: row.get(some) for key, row in rows_of(part).items()} == {
                key: row.get(some) for key, row in expected(case, written).items()
            }
        table.compact(full=True)
        assert rows_of(table.to_arrow()) == expected(case, written)
        assert table.count() == len(expected(case, written))
        assert not table.check().findings


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
