"""Two live rows of one id are found in damaged tables with row tracking, and nothing is found in sound ones.

Snapshot 1 adds the ids 0 to 5 to partition 0, and snapshot 2 the ids 6 to 9 to partition 1. Snapshot 3 updates the rows
1 and 4: their positions are deleted, and a third file stores their ids. The ids 10 and 11 were given twice, because
snapshot 4 was rolled back; a tag still has its rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import CorruptFileError, Table
from pktable.bucket.reader import DataReader
from pktable.check import row_ids
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.append.test_writing import made, some
from model_tests.damage.table_damage import Surgeon

OPTIONS = {"row-tracking.enabled": "true", "deletion-vectors.enabled": "true"}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = made(tmp_path_factory.mktemp("row-ids"), OPTIONS, partition_by="p")
    table.append(some(0, 6, 0))
    table.append(some(6, 10, 1))
    table.update({"v": "'once'"}, where="id IN (1, 4)")
    table.append(some(10, 12, 0))
    snapshots = Path(table.path) / "snapshot"
    tag = (snapshots / "snapshot-4").read_bytes()
    table.rollback(snapshot=3)
    (snapshots.parent / "tag").mkdir(exist_ok=True)
    (snapshots.parent / "tag" / "tag-rolled-back").write_bytes(tag)
    table.append(some(20, 22, 0))
    assert [one.next_row_id for one in table.snapshots()] == [6, 10, 10, 12]
    return Path(table.path)


@pytest.fixture
def surgeon(original: Path, tmp_path: Path) -> Surgeon:
    return Surgeon(Path(shutil.copytree(original, tmp_path / "table")))


def file_of(surgeon: Surgeon, snapshot: int) -> str:
    """Return the name of the one file that a snapshot adds."""
    (entry,) = surgeon.entries(surgeon.delta(snapshot))
    return entry.file.file_name


def found_in(surgeon: Surgeon, *, rows: bool = True) -> list[tuple[str, int, int, tuple[int, ...]]]:
    """Return each finding: what is found, the snapshots that add the two files, and the snapshots that show it."""
    added = {file_of(surgeon, number): number for number in (1, 2, 3, 4)}
    found = []
    for one in check(surgeon.root, reads_rows=rows).findings:
        assert (one.clause, one.what, one.bucket) == ("APP-33", "row ids", 0), one
        name, other = Path(one.file).name, one.found.split(" also in ")[1].split(",")[0]
        assert f"{one.partition}/bucket-0/{name}" == one.file
        found.append((one.found.replace(f" also in {other}", ""), added[name], added[other], one.snapshots))
    return found


def stored(*ids: int | None) -> Callable[[Surgeon], None]:
    return lambda s: s.edit_column(file_of(s, 3), "_ROW_ID", lambda _: list(ids))


Damage = tuple[Callable[[Surgeon], Any], list[tuple[str, int, int, tuple[int, ...]]]]
DAMAGES: dict[str, Damage] = {
    "none": (lambda s: None, []),
    "ids that are null, as some writers of Paimon leave them": (stored(None, None), []),
    "a range of ids begins inside that of another partition": (
        lambda s: s.edit_file(file_of(s, 2), first_row_id=3),
        [
            ("3 ids, such as 4 at positions 4 and 1", 1, 2, (2, 3, 4)),
            ("1 id, such as 4 at positions 1 and 1", 3, 2, (3, 4)),
        ],
    ),
    "a range of ids ends inside another": (
        lambda s: s.edit_file(file_of(s, 4), first_row_id=9),
        [("1 id, such as 9 at positions 0 and 3", 4, 2, (4,))],
    ),
    "a stored id is that of a row of another partition": (
        stored(1, 7),
        [("1 id, such as 7 at positions 1 and 1", 3, 2, (3, 4))],
    ),
    "an id is stored twice": (stored(4, 4), [("1 id, such as 4 at positions 0 and 1", 3, 3, (3, 4))]),
    "an updated row is not deleted": (
        lambda s: s.put_vectors(3, {file_of(s, 1): [4]}),
        [("1 id, such as 1 at positions 1 and 0", 1, 3, (3, 4))],
    ),
}


@covers("APP-33")
@pytest.mark.parametrize("name", DAMAGES)
def test_an_id_of_two_live_rows_is_found_where_it_is(surgeon: Surgeon, name: str) -> None:
    damage, expected = DAMAGES[name]
    damage(surgeon)
    assert sorted(found_in(surgeon)) == sorted(expected)


@covers("APP-24")
@pytest.mark.parametrize(("found", "shown"), [(11, "11"), (None, "null")])
def test_a_next_row_id_that_a_row_has_is_found(surgeon: Surgeon, found: int | None, shown: str) -> None:
    surgeon.edit_snapshot(4, next_row_id=found)
    (one,) = check(surgeon.root).findings
    assert (one.clause, one.what, one.snapshots) == ("APP-24", "next row id", (4,))
    assert (one.expected, one.found) == ("at least 12, behind the ids of the files", shown)


@covers("APP-24")
def test_no_id_is_given_where_the_last_snapshot_does_not_say_which_is_next(surgeon: Surgeon) -> None:
    surgeon.edit_snapshot(4, next_row_id=None)
    table = Table.open(surgeon.root)
    with pytest.raises(
        CorruptFileError, match=r"snapshot-4: nextRowId: expected an id, as rows have some, found null"
    ):
        table.append(some(30, 32, 0))
    assert len(table.snapshots()) == 4


@covers("APP-33")
def test_metadata_alone_shows_ranges_that_overlap(surgeon: Surgeon) -> None:
    stored(1, 7)(surgeon)
    assert found_in(surgeon, rows=False) == []
    surgeon.edit_file(file_of(surgeon, 4), first_row_id=9)
    assert found_in(surgeon, rows=False) == [("1 id, such as 9 at positions 0 and 3", 4, 2, (4,))]


@covers("APP-33")
def test_only_files_that_store_ids_are_read_for_them(
    surgeon: Surgeon, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def reader(context: Any, place: Any, meta: Any) -> DataReader:
        opened.append(meta.file_name)
        return DataReader(context, place, meta)

    monkeypatch.setattr(row_ids, "DataReader", reader)
    assert found_in(surgeon) == []
    assert opened == [file_of(surgeon, 3)]


@covers("APP-33")
def test_a_damaged_file_is_one_finding_and_hides_no_other(surgeon: Surgeon) -> None:
    surgeon.data_file(file_of(surgeon, 3)).unlink()
    surgeon.edit_file(file_of(surgeon, 4), first_row_id=9)
    found = [(one.clause, one.what) for one in check(surgeon.root).findings]
    assert sorted(found) == [("APP-33", "row ids"), ("CMT-15", "data file")]


@covers("APP-33")
def test_vectors_that_cannot_be_read_hide_their_own_snapshots_alone(surgeon: Surgeon) -> None:
    surgeon.edit_file(file_of(surgeon, 2), first_row_id=3)
    surgeon.index_file(3).unlink()
    found = {(one.clause, one.snapshots) for one in check(surgeon.root).findings}
    assert found == {("APP-33", (2,)), ("CMT-15", (3, 4))}


@covers("APP-33", "SAFE-6")
@pytest.mark.parametrize("first", [(1 << 63) - 1, -5])
def test_ids_that_no_row_can_have_are_left_out(surgeon: Surgeon, first: int) -> None:
    surgeon.edit_file(file_of(surgeon, 4), first_row_id=first)
    assert found_in(surgeon) == []


@covers("APP-33", "SAFE-6")
def test_metadata_that_claims_any_number_of_rows_takes_no_memory(
    surgeon: Surgeon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_ids, "MOST_SHARED", 2)
    surgeon.edit_file(file_of(surgeon, 2), first_row_id=3)
    assert [one[0] for one in found_in(surgeon, rows=False)] == ["2 ids, such as 4 at positions 4 and 1"]
