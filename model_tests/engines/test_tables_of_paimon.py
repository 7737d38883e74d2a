"""Tables that Paimon 1.4.2 wrote, of other merge engines and one with ``sequence.field``.

They are read at every snapshot, and compacted here.
"""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pktable import Table
from pktable_spec.covers import covers

from model_tests.real_data import PAIMON, needs_shared

WRITTEN = PAIMON / "spark-1.4.2"
NAMES = ("pk_partial", "pk_seqgroup", "pk_agg", "pk_firstrow", "pk_seqfield")


def plain(value: Any) -> Any:
    """Return a value as the listings spell it: floats to six digits."""
    return f"{value:.6f}" if isinstance(value, float) else value


def rows(found: Any) -> list[list[Any]]:
    return sorted(([plain(value) for value in row.values()] for row in found.to_pylist()), key=repr)


def listed(name: str) -> dict[int, list[list[Any]]]:
    """Return the rows of each snapshot."""
    listing = json.loads((WRITTEN / "expected" / f"{name}.json").read_text())
    return {
        int(snapshot): sorted(
            ([f"{float(one):.6f}" if is_float(one) else one for one in row[1:]] for row in found["rows"]),
            key=repr,
        )
        for snapshot, found in listing["snapshots"].items()
    }


def without_group(name: str, found: list[list[Any]]) -> list[list[Any]]:
    """Return rows of ``pk_seqgroup`` (id, a, g1, b, g2, c) with nothing in a group that has no sequence.

    Paimon keeps what a key's only record has there until a compaction happens to rewrite it.
    """
    if name != "pk_seqgroup":
        return found
    blank = ([k, g1 and a, g1, g2 and b, g2, g2 and c] for k, a, g1, b, g2, c in found)
    return sorted(blank, key=repr)


def is_float(value: Any) -> bool:
    """Return whether a listing spells a float so: a number in text, with a point."""
    return isinstance(value, str) and "." in value


@needs_shared
@covers("MRG-8", "MRG-9", "MRG-12", "MRG-13", "RD-1", "RD-4", "RD-13")
@pytest.mark.parametrize("name", NAMES)
def test_every_snapshot_reads_as_paimon_reads_it(name: str) -> None:
    table = Table.open(WRITTEN / "tables" / name)
    expected = listed(name)
    assert [snapshot.id for snapshot in table.snapshots()] == sorted(expected)
    for snapshot, found in expected.items():
        assert rows(table.to_arrow(snapshot=snapshot)) == found, snapshot


@needs_shared
@covers("MRG-8", "MRG-9", "MRG-12", "MRG-13", "MRG-19", "RD-3")
@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_read_merges_what_paimons_next_compaction_merges(name: str) -> None:
    table = Table.open(WRITTEN / "tables" / name)
    snapshots = table.snapshots()
    merged = [
        (one.id, two.id)
        for one, two in pairwise(snapshots)
        if (one.commit_kind, two.commit_kind) == ("APPEND", "COMPACT")
    ]
    assert len(merged) >= 2
    expected = listed(name)
    for before, after in merged:
        found = rows(table.to_arrow(snapshot=before, fresh=True))
        assert without_group(name, found) == without_group(name, expected[after])


@needs_shared
@covers("DV-20", "MRG-12", "MRG-13")
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_our_compaction_of_what_paimon_appended_gives_its_rows(tmp_path: Path, name: str, full: bool) -> None:
    original = Table.open(WRITTEN / "tables" / name)
    expected = listed(name)
    appends = [one.id for one in original.snapshots() if one.commit_kind == "APPEND"]
    for append in appends:
        path = tmp_path / str(append)
        shutil.copytree(WRITTEN / "tables" / name, path)
        table = Table.open(path)
        if append + 1 in expected:
            table.rollback(snapshot=append)
        table = Table.open(path)
        assert table.compact(full=full) is not None
        found = rows(table.to_arrow())
        assert without_group(name, found) == without_group(name, expected[append + 1])
        assert table.count() == len(found)
        assert not table.check().errors
