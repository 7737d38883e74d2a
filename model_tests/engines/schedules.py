"""Drawn schedules of writes and compactions of a table with a merge engine, compared with plain Python."""

from __future__ import annotations

import random
import tempfile
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pktable import Table
from pktable.format.types import array_of

from model_tests.engines import naive
from model_tests.engines.cases import CASES, Case
from model_tests.engines.test_laws import Keyed, expected
from model_tests.seeded import play_drawn

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


def draw(case: Case, number: int, seed: int, *, vectors: bool) -> None:
    """Play some drawn schedules. Raises AssertionError, or what a table raises, at the first that fails."""
    play_drawn(number, seed, lambda data: play(case, data, vectors=vectors))


def play(case: Case, data: st.DataObject, *, vectors: bool) -> None:
    """Do one schedule on a new table, and compare every read with what plain Python makes of the same records."""
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
        # Pages are read apart, by their place in the file, if the option is set.
        **drawn.choice([{}, {"parquet.block.row.count.limit": "2", "parquet.page.row.count.limit": "1"}]),
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
