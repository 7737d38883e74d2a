"""Deletion vectors switched on for a table that had none."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pktable import CommitConflictError, InvalidRequestError, Table
from pktable_spec.covers import covers


def rows(*keys: int, value: str) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [value] * len(keys)})


def read(table: Table, **arguments: Any) -> list[tuple[int, str]]:
    return sorted((row["k"], row["v"]) for row in table.to_arrow(**arguments).to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table without vectors, whose key 1 lies in a run of the last level and in a newer one."""
    made = Table.create(tmp_path / "t", "k INT, v STRING", primary_key=["k"], options={"num-levels": "3"})
    made.upsert(rows(1, 2, 3, value="old"))
    made.compact(full=True)
    made.upsert(rows(1, value="new"))
    return made


@covers("DV-15")
def test_what_was_superseded_before_is_not_read(table: Table) -> None:
    before = read(table)
    enabled = table.enable_deletion_vectors()
    assert enabled.schema.options["deletion-vectors.enabled"] == "true"
    assert read(enabled) == read(Table.open(table.path)) == before
    assert set(enabled.files()["level"].to_pylist()) == {2}
    enabled.upsert(rows(2, value="newest"))
    assert read(enabled) == [(1, "new"), (2, "newest"), (3, "old")]
    assert max(enabled.files()["level"].to_pylist()) == 2


@covers("DV-15", "CMT-15")
def test_snapshots_from_before_read_as_they_did(table: Table) -> None:
    before = {one.id: read(table, snapshot=one.id) for one in table.snapshots()}
    enabled = table.enable_deletion_vectors()
    enabled.delete(pa.table({"k": pa.array([1], pa.int32())}))
    assert {id: read(enabled, snapshot=id) for id in before} == before
    assert {id: enabled.count(snapshot=id) for id in before} == {
        id: len(found) for id, found in before.items()
    }


@covers("DV-15")
def test_a_write_that_comes_between_is_a_conflict(table: Table) -> None:
    compact = Table.compact

    def interrupted(self: Table, *, full: bool = False) -> int | None:
        found = compact(self, full=full)
        self.upsert(rows(3, value="between"))
        return found

    with (
        mock.patch.object(Table, "compact", interrupted),
        pytest.raises(CommitConflictError, match="between"),
    ):
        table.enable_deletion_vectors()
    assert "deletion-vectors.enabled" not in Table.open(table.path).schema.options


def test_the_table_opened_before_writes_no_more(table: Table) -> None:
    table.enable_deletion_vectors()
    with pytest.raises(InvalidRequestError, match="schema 0"):
        table.upsert(rows(9, value="late"))
    with pytest.raises(InvalidRequestError, match="schema 0"):
        table.enable_deletion_vectors()


def test_vectors_that_are_on_stay_on(table: Table) -> None:
    enabled = table.enable_deletion_vectors()
    assert enabled.enable_deletion_vectors() is enabled
