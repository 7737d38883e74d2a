"""The laws of the merge engines, and what their folds come to, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable.format.types import DataType, array_of
from pktable.merge.grouping import Window, grouped
from pktable.merge.partial_update import SequenceGroup
from pktable_spec.covers import covers
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind

from model_tests.engines import naive
from model_tests.engines.cases import CASES, Case
from model_tests.engines.naive import Row
from model_tests.seeded import cases

Keyed = tuple[int, RowKind, Row]


def table_of(case: Case, records: Sequence[Keyed]) -> pa.Table:
    columns: dict[str, Any] = {
        KEY_PREFIX + "k": pa.array([key for key, _, _ in records], pa.int32()),
        SEQUENCE_NUMBER: pa.array(range(len(records)), pa.int64()),
        VALUE_KIND: pa.array([int(kind) for _, kind, _ in records], pa.int8()),
    }
    for field in case.schema.fields:
        values = [key if field.name == "k" else row[field.name] for key, _, row in records]
        columns[field.name] = array_of(values, field.type)
    return pa.table(columns)


def window_of(table: pa.Table) -> Window:
    keys = table.column(KEY_PREFIX + "k").to_numpy()
    return grouped(table, keys, np.zeros(len(keys), np.int32), single=False)


def fold(case: Case, table: pa.Table, *, complete: bool = False) -> pa.Table:
    """Return the fold of some records; ``complete``: nothing is older, so retractions are left out."""
    engine, window = case.engine, window_of(table)
    window = window.without_kinds(engine.ignores)
    folded = engine.fold(window)
    adds = folded.adds()
    found = folded.rows()
    assert (found.column(VALUE_KIND).to_numpy() % 2 == 0).tolist() == adds.tolist()
    assert folded.rows(adds).to_pylist() == [
        row for row, add in zip(found.to_pylist(), adds, strict=True) if add
    ]
    return folded.rows(adds) if complete else found


def rows_of(table: pa.Table) -> dict[int, Row]:
    hidden = (KEY_PREFIX + "k", SEQUENCE_NUMBER, VALUE_KIND)
    rows = {row.pop("k"): row for row in table.drop_columns(list(hidden)).to_pylist()}
    return {key: naive.with_maps_in_order(row) for key, row in rows.items()}


def expected(case: Case, records: Sequence[Keyed]) -> dict[int, Row]:
    by_key: dict[int, list[tuple[RowKind, Row]]] = {}
    for key, kind, row in records:
        by_key.setdefault(key, []).append((kind, row))
    means = {key: case.means(of_key) for key, of_key in by_key.items()}
    return {key: naive.with_maps_in_order(row) for key, row in means.items() if row is not None}


@covers("MRG-3", "MRG-9", "MRG-12", "MRG-13", "MRG-14", "MRG-15", "MRG-16", "MRG-17")
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=cases(40))
@given(data=st.data())
def test_a_fold_means_what_plain_python_says(case: Case, data: st.DataObject) -> None:
    records = data.draw(case.records(keys=2, most=8))
    assert rows_of(fold(case, table_of(case, records), complete=True)) == expected(case, records)


@covers("MRG-8", "MRG-4")
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=cases(20))
@given(data=st.data())
def test_neighbours_may_be_folded_in_any_grouping(case: Case, data: st.DataObject) -> None:
    records = data.draw(case.records(keys=2, most=8))
    if not case.engine.folds_retractions:
        records = [one for one in records if one[1].is_add]
    if not records:
        return
    cuts = data.draw(st.lists(st.integers(0, len(records)), max_size=3))
    table = table_of(case, records)
    bounds = sorted({0, len(records), *cuts})
    parts = pa.concat_tables([fold(case, table.slice(a, b - a)) for a, b in pairwise(bounds)])
    assert fold(case, parts, complete=True).to_pylist() == fold(case, table, complete=True).to_pylist()


@covers("MRG-8", "DV-20")
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=cases(20))
@given(data=st.data())
def test_a_complete_fold_stands_for_its_records(case: Case, data: st.DataObject) -> None:
    records = data.draw(case.records(keys=2, most=8))
    cut = data.draw(st.integers(0, len(records)))
    table = table_of(case, records)
    later = pa.concat_tables([fold(case, table.slice(0, cut), complete=True), table.slice(cut)])
    assert rows_of(fold(case, later, complete=True)) == rows_of(fold(case, table, complete=True))


@covers("MRG-8")
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=cases(20))
@given(data=st.data())
def test_the_fold_of_a_record_is_that_record(case: Case, data: st.DataObject) -> None:
    (record,) = data.draw(case.records(keys=1, most=1))
    table = table_of(case, [record])
    if record[1] not in case.engine.ignores:
        assert fold(case, table).to_pylist() == table.to_pylist()


@covers("MRG-4")
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=cases(20))
@given(data=st.data())
def test_a_column_needs_no_others_than_the_engine_says(case: Case, data: st.DataObject) -> None:
    table = table_of(case, data.draw(case.records(keys=2, most=4)))
    name = data.draw(st.sampled_from(["k", *case.columns]))
    needed = [KEY_PREFIX + "k", SEQUENCE_NUMBER, VALUE_KIND, *case.engine.needed([name])]
    whole, part = (fold(case, one, complete=True).column(name) for one in (table, table.select(needed)))
    assert whole.to_pylist() == part.to_pylist()


@covers("MRG-14")
def test_a_sequence_group_orders_numbers_that_are_far_apart() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    values = [most, None, 0, least, most, -1]
    group = SequenceGroup(("g",), (DataType("BIGINT"),), frozenset())
    assert group.ranks([pa.array(values, pa.int64())]).tolist() == [3, -1, 2, 0, 3, 1]


@covers("MRG-9")
def test_a_sum_is_exact_if_its_parts_together_need_more_than_64_bits() -> None:
    case = next(one for one in CASES if one.name == "retractions")
    wide = replace(case, columns={**case.columns, "a": "BIGINT"})
    others = dict.fromkeys(case.columns)
    values = [1 << 62, 12_345_678_901, 1 << 62, -(1 << 62), -5, -(1 << 62)]
    records = [(1, RowKind.INSERT, {**others, "a": one}) for one in values]
    assert rows_of(fold(wide, table_of(wide, records), complete=True))[1]["a"] == 12_345_678_896
