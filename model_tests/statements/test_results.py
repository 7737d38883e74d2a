"""A change says what it did: rows inserted, updated and deleted, files and bytes."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from pktable import Effect, Table
from pktable_spec.covers import covers

ROWS = [{"id": i, "n": i} for i in range(4)]
CHANGES = [{"id": 3, "n": 33}, {"id": 9, "n": 9}, {"id": 2, "n": None}]


def made(path: Path, *, keyed: bool, vectors: bool) -> Table:
    options = {"deletion-vectors.enabled": str(vectors).lower(), "bucket": "1" if keyed else "-1"}
    table = Table.create(path, "id BIGINT, n INT", primary_key="id" if keyed else None, options=options)
    (table.upsert if keyed else table.append)(ROWS)
    return table


def effect(result: Any) -> Effect:
    assert result is not None
    assert result.effect is not None
    found: Effect = result.effect
    assert found.snapshot == result
    return found


def counts(result: Any) -> tuple[int | None, ...]:
    found = effect(result)
    return found.inserted, found.updated, found.deleted


@covers("WH-12")
@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_change_says_how_many_rows_it_changed(tmp_path: Path, keyed: bool, vectors: bool) -> None:
    table = made(tmp_path, keyed=keyed, vectors=vectors)
    assert counts((table.upsert if keyed else table.append)([{"id": 7, "n": 7}])) == (
        (None, None, 0) if keyed else (1, 0, 0)
    )
    assert counts(table.update({"n": "n + 1"}, where="id < 2")) == (0, 2, 0)
    assert counts(table.delete(where="id = 7")) == (0, 0, 1)
    merged = (
        table.merge(CHANGES, on="id")
        .when_matched_delete("source.n IS NULL")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .when_not_matched_by_source_update({"n": "0"}, "target.id = 0")
        .execute()
    )
    assert counts(merged) == (1, 2, 1)
    assert table.update({"n": "1"}, where="id = 99") is None
    assert counts(table.overwrite(ROWS[:2])) == ((2, 0, None) if keyed else (2, 0, 4))


@covers("WH-12")
def test_a_result_counts_files_and_is_the_id_of_its_snapshot(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=True, vectors=True)
    first = table.upsert([{"id": 50, "n": 1}])
    assert isinstance(first, int)
    assert (json.dumps(first), f"{first}", pickle.loads(pickle.dumps(first))) == ("4", "4", 4)
    assert table.count(snapshot=first) == 5
    found = effect(first)
    assert (found.put, found.files_added, found.files_removed) == (1, 1, 0)
    assert found.bytes_added > 0
    compacted = effect(table.compact(full=True))
    assert (compacted.put, compacted.inserted, compacted.updated, compacted.deleted) == (0, 0, 0, 0)
    assert (compacted.files_added, compacted.files_removed) == (1, 2)
    table.expire_snapshots(retain_last=1)
    late = table.effect(4)
    assert late is None
