"""Columns that newer records settle: a compaction does not read them from the rows that it replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.bucket.compact import compact_bucket
from pktable.bucket.locate import fetch_rows
from pktable.lsm.bucket import BucketChange, BucketState
from pktable_spec.covers import covers
from pktable_spec.vocabulary import VALUE_KIND

VECTORS = {"deletion-vectors.enabled": "true", "write-only": "true", "num-levels": "5"}
PARTIAL = {**VECTORS, "merge-engine": "partial-update"}
LASTS = {**VECTORS, "merge-engine": "aggregation"}
GROUP = {**PARTIAL, "fields.b.sequence-group": "c"}
SUM = {**LASTS, "fields.a.aggregate-function": "sum", "fields.b.aggregate-function": "last_value"}
ORDERED = {**LASTS, "sequence.field": "a", "fields.default-aggregate-function": "max"}
LOOKUP = {**PARTIAL, "changelog-producer": "lookup"}
WHOLE = [{"k": 1, "a": 5, "b": "x", "op": "+I"}, {"k": 2, "a": 6, "b": "y", "op": "+I"}]
PART = [WHOLE[0], {"k": 2, "a": None, "b": "y", "op": "+I"}]
WITHOUT_LAST = [WHOLE[0], {"k": 2, "a": 6, "b": None, "op": "+I"}]
TAKEN_BACK = [WHOLE[0], {"k": 2, "a": 9, "b": "z", "op": "-U"}]
OLD = (4, "z")


def table_with_changes(path: Path, options: Mapping[str, str], changes: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with rows at the last level, and changes of some of them at level 0."""
    table = Table.create(path / "t", "k INT, a INT, b STRING, c INT", primary_key="k", options=options)
    table.upsert([{"k": key, "a": 4, "b": "z", "c": 1} for key in range(20_000)])
    table.compact(full=True)
    schema = pa.schema([*table.schema.arrow_schema, ("op", pa.string())])
    table.write_changes(pa.Table.from_pylist(list(changes), schema), row_kind="op")
    return table


def columns_asked(monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """Return the columns that compactions will have asked for of rows that they replace."""
    asked: list[str] = []

    def spied(context: Any, place: Any, file: Any, positions: Any, columns: Sequence[str]) -> pa.Table:
        asked.extend(columns)
        return fetch_rows(context, place, file, positions, columns)

    monkeypatch.setattr("pktable.bucket.compact.fetch_rows", spied)
    return asked


@covers("DV-20", "MRG-9", "MRG-13", "MRG-14")
@pytest.mark.parametrize(
    ("options", "changes", "read", "row"),
    [
        (PARTIAL, WHOLE, [], (6, "y")),
        (PARTIAL, PART, ["a"], (4, "y")),
        (GROUP, WHOLE, ["b"], (6, "z")),
        (GROUP, TAKEN_BACK, [VALUE_KIND, "a", "b"], (4, "z")),
        (LASTS, WHOLE, [], (6, "y")),
        (LASTS, PART, ["a"], (4, "y")),
        (LASTS, TAKEN_BACK, [VALUE_KIND, "a", "b"], (None, None)),
        (SUM, WITHOUT_LAST, ["a"], (10, None)),
        (ORDERED, WHOLE, [VALUE_KIND, "a", "b"], (6, "z")),
        (LOOKUP, WHOLE, [VALUE_KIND, "a", "b"], (6, "y")),
    ],
)
def test_a_compaction_reads_the_older_values_that_can_make_a_difference(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: Mapping[str, str],
    changes: Sequence[Mapping[str, Any]],
    read: Sequence[str],
    row: tuple[int | None, str | None],
) -> None:
    table = table_with_changes(tmp_path, options, changes)
    asked = columns_asked(monkeypatch)
    assert table.compact() is not None
    assert [name for name in asked if name in (VALUE_KIND, "a", "b")] == read
    after = {each["k"]: (each["a"], each["b"]) for each in table.to_arrow(where="k = 2 or k = 3").to_pylist()}
    assert after == {2: row, 3: OLD}


@covers("DV-20")
@pytest.mark.parametrize("count", [1, None])
def test_the_kinds_of_older_rows_are_read_unless_their_file_has_adds_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int | None
) -> None:
    table = table_with_changes(tmp_path, LASTS, WHOLE)

    def of_others(context: Any, state: BucketState, *others: Any, **named: Any) -> BucketChange:
        files = tuple(replace(file, delete_row_count=count) for file in state.files)
        return compact_bucket(context, replace(state, files=files), *others, **named)

    monkeypatch.setattr("pktable.kinds.primary_key.compact_bucket", of_others)
    asked = columns_asked(monkeypatch)
    assert table.compact() is not None
    assert VALUE_KIND in asked
