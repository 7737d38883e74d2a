"""A lookup ends at the level where no deeper row of its key can matter."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable import Table
from pktable.bucket import locate
from pktable.bucket.reader import DataReader
from pktable_spec.covers import covers

from model_tests.changelog.tables import changes, new_table, put, rows

VECTORS = {"deletion-vectors.enabled": "true"}
NO_VECTORS = {"deletion-vectors.enabled": "false"}


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The levels of the files in which keys are looked up."""
    found: list[int] = []

    def opened(context: object, place: object, meta: object) -> DataReader:
        found.append(meta.level)  # type: ignore[attr-defined]
        return DataReader(context, place, meta)  # type: ignore[arg-type]

    monkeypatch.setattr(locate, "DataReader", opened)
    return found


def with_two_levels(path: Path, producer: str, **options: str) -> Table:
    """Return a table whose keys 0 to 2999 are at level 5, and 0 to 1999 with other values at level 4."""
    table = new_table(path, producer, **options)
    put(table, *(("+I", key, 0) for key in range(3000)))
    table.compact(full=True)
    put(table, *(("+I", key, 1) for key in range(2000)))
    return table


@covers("CHG-20", "DV-12")
@pytest.mark.parametrize(
    ("producer", "options"), [("lookup", NO_VECTORS), ("lookup", VECTORS), ("none", VECTORS)]
)
def test_a_key_that_is_found_is_not_looked_up_deeper(
    tmp_path: Path, levels: list[int], producer: str, options: dict[str, str]
) -> None:
    table = with_two_levels(tmp_path / "t", producer, **options)
    levels.clear()
    put(table, ("+I", 1, 7))
    assert set(levels) == {4}
    before = table.snapshots()[-1].id
    put(table, ("+I", 1, 8), ("+I", 2999, 8))
    assert sorted(set(levels)) == [4, 5]
    assert (1, 8) in rows(table, fresh=True)
    if producer == "lookup":
        assert [one[0] for one in changes(table, before)] == ["-U", "+U", "-U", "+U"]


@covers("CHG-6", "DV-9", "DV-12")
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_a_row_that_a_vector_deletes_does_not_end_a_lookup(
    tmp_path: Path, levels: list[int], producer: str
) -> None:
    table = with_two_levels(tmp_path / "t", producer, **VECTORS)
    put(table, ("-D", 1, 0))
    levels.clear()
    put(table, ("+I", 1, 7))
    assert levels == [4, 5]
    assert (1, 7) in rows(table)
