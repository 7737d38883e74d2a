"""The changes that Paimon 1.4.2 recorded, applied to each other: they give the rows that it read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pktable import SnapshotNotFoundError, Table
from pktable_spec.covers import covers

from model_tests.changelog.tables import applied, changes, rows
from model_tests.real_data import PAIMON, needs_shared

WRITTEN = PAIMON / "spark-1.4.2"


def table(name: str) -> Table:
    return Table.open(WRITTEN / "tables" / name)


def listed(name: str, snapshot: int) -> set[tuple[Any, ...]]:
    """Return the rows that Paimon read, floats cut to six digits."""
    found = json.loads((WRITTEN / "expected" / f"{name}.json").read_text())["snapshots"][str(snapshot)]
    return {(*row[1:4], None if row[4] is None else float(row[4])) for row in found["rows"]}


@needs_shared
@covers("CHG-1", "CHG-5", "CHG-9", "CHG-11")
def test_the_changes_of_lookup_give_the_rows_of_every_snapshot() -> None:
    found: set[tuple[Any, ...]] = set()
    for snapshot in table("pk_cl_lookup").snapshots():
        found = applied(found, changes(table("pk_cl_lookup"), snapshot.id - 1, snapshot.id))
        cut = {(*row[:3], None if row[3] is None else round(row[3], 6)) for row in found}
        assert cut == listed("pk_cl_lookup", snapshot.id)


@needs_shared
@covers("CHG-4", "CHG-9", "CHG-11")
def test_the_changes_of_input_give_the_rows_of_every_fresh_read() -> None:
    found: dict[object, tuple[Any, ...]] = {}
    for snapshot in table("pk_cl_input").snapshots():
        for kind, *row in changes(table("pk_cl_input"), snapshot.id - 1, snapshot.id):
            found.pop(row[0], None)
            if kind in ("+I", "+U"):
                found[row[0]] = tuple(row)
        assert set(found.values()) == rows(table("pk_cl_input"), snapshot=snapshot.id, fresh=True)


@needs_shared
@covers("CHG-7", "CHG-11", "CHG-13", "CHG-18")
def test_the_changes_of_a_full_compaction_give_its_rows_and_those_of_expired_snapshots_are_refused() -> None:
    full = table("pk_cl_full")
    assert applied((), changes(full, 3)) == rows(full, snapshot=4)
    assert changes(full, 0, 2) == []  # of two expired snapshots, of which copies are kept
    with pytest.raises(SnapshotNotFoundError, match="changes after snapshot 2 up to 5: snapshot 3 does not"):
        changes(full, 2)


@needs_shared
@covers("CHG-1", "CHG-2", "CHG-3")
@pytest.mark.parametrize("name", ["pk_cl_input", "pk_cl_lookup", "pk_cl_full"])
def test_a_check_of_paimons_changelogs_finds_nothing(name: str) -> None:
    assert [str(one) for one in table(name).check().findings] == []
