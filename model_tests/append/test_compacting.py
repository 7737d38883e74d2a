"""Compact append tables: which files are chosen, what is written, and what check finds in damaged ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pktable import CorruptFileError, Table
from pktable.format.metadata.manifest import ADD, DataFileMeta, IndexManifestEntry, ManifestEntry
from pktable.format.vectors.index_file import VectorRange
from pktable.lsm.bucket import BucketPath, BucketState
from pktable.lsm.plan import pick_files
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import DELETION_VECTORS

from model_tests.append.paimon_tables import path_of
from model_tests.append.test_deleting import DV, each_kind, ids, indexes, with_vectors
from model_tests.append.test_writing import FIXED, made, some, sound
from model_tests.real_data import needs_shared
from model_tests.table.foreign_tables import commit

TARGET = 1000
COST = {"source.split.open-file-cost": "0 b"}


def a_file(name: str, size: int, rows: int = 100) -> DataFileMeta:
    from pktable.format.binary_row import EMPTY_ROW
    from pktable.format.metadata.stats import SimpleStats

    stats = SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    return DataFileMeta(name, size, rows, EMPTY_ROW, EMPTY_ROW, stats, stats, 0, rows - 1, 0, 0)


def picked(
    sizes: dict[str, int],
    vectors: dict[str, dict[str, int]] | None = None,
    options: dict[str, str] | None = None,
    *,
    full: bool = False,
) -> list[set[str]]:
    """Return the groups of a compaction. ``vectors``: by DV index file, how many rows of each file are deleted."""
    files = tuple(a_file(name, size) for name, size in sizes.items())
    indexes = tuple(
        IndexManifestEntry(
            0,
            b"",
            0,
            DELETION_VECTORS,
            index,
            1,
            len(of),
            tuple(VectorRange(f, 1, 1, n) for f, n in of.items()),
        )
        for index, of in (vectors or {}).items()
    )
    counts = {name: n for of in (vectors or {}).values() for name, n in of.items()}
    state = BucketState(BucketPath(b"", 0, "d"), files, indexes)
    groups = pick_files(state, counts, parse_options({**COST, **(options or {})}), TARGET, full=full)
    return [{file.file_name for file in group} for group in groups]


@covers("APP-19")
def test_a_share_of_deleted_rows_counts_only_above_the_threshold() -> None:
    sizes = dict.fromkeys("abc", TARGET)
    vectors = {"i": {"a": 20, "b": 21}, "j": {"c": 19}}
    assert picked(sizes, vectors) == [{"b"}]
    assert picked(sizes, vectors, {"compaction.delete-ratio-threshold": "0.21"}) == []
    assert picked(sizes, vectors, {"compaction.delete-ratio-threshold": "0.1"}) == [{"a", "b"}, {"c"}]
    assert picked(sizes, vectors, full=True) == [{"a", "b"}, {"c"}]


@covers("APP-19", "APP-20")
def test_small_files_are_packed_smallest_first() -> None:
    small = int(TARGET * 0.7)
    assert picked({"a": small, "b": small - 1, "c": small - 1}, options={"compaction.min.file-num": "2"}) == [
        {"b", "c"}
    ]
    many = {f"f{i}": 500 + i for i in range(10)}
    assert picked(many) == [{"f0", "f1", "f2", "f3"}, {"f4", "f5", "f6", "f7"}]
    full = dict.fromkeys("abcd", TARGET // 2)
    assert picked({**full, "e": 600}) == [set("abcd")]
    assert picked({**full, "a": TARGET // 2 - 1, "e": 600}) == [set("abcde")], "a byte less than two targets"
    assert picked({f"f{i}": 10 for i in range(4)}) == []
    assert picked({f"f{i}": 10 for i in range(5)}) == [{f"f{i}" for i in range(5)}]
    assert picked({f"f{i}": 10 for i in range(4)}, full=True) == [{f"f{i}" for i in range(4)}]
    assert picked({"a": 10}, full=True) == []
    assert picked({"a": 10}, {"i": {"a": 1}}) == [{"a"}], "a small file with a vector needs no company"
    costly = {"source.split.open-file-cost": "1000 b", "compaction.min.file-num": "9"}
    assert picked({f"f{i}": 10 for i in range(5)}, options=costly) == [{"f0", "f1"}, {"f2", "f3"}]


@covers("APP-20")
def test_files_with_vectors_are_grouped_by_their_index_file() -> None:
    sizes = dict.fromkeys("abcdefghij", 10)
    vectors = {"i": {"a": 1, "b": 1}, "j": {"c": 1}}
    assert picked(sizes, vectors) == [set("defghij"), {"a", "b"}, {"c"}]


@needs_shared
@covers("APP-19", "APP-20")
def test_the_choice_is_paimons_on_a_table_that_it_compacted() -> None:
    table = Table.open(path_of("ap_ratio"))
    state = table.catalog.state(4)
    gone = {row["file_name"] for row in table.files(4).to_pylist()} - {
        row["file_name"] for row in table.files(5).to_pylist()
    }
    (bucket_id,) = state.files
    bucket = table.catalog.states.bucket(state, bucket_id)
    counts = table.catalog.context.deleted_counts(bucket)
    options = table.catalog.context.options
    # Every file is small here; the target size lets only the deleted rows decide, as the session of Paimon did.
    groups = pick_files(bucket, counts, options, 0, full=False)
    assert {file.file_name for group in groups for file in group} == gone
    assert options.delete_ratio_threshold == Fraction("0.3")


@covers("APP-4", "APP-6", "APP-21", "DV-13")
@each_kind
def test_a_full_compaction_leaves_one_file_and_no_vector(tmp_path: Path, options: dict[str, str]) -> None:
    table = made(tmp_path, options)
    for start in (0, 40, 80):
        table.append(some(start, start + 40))
    table.delete(where="id % 4 = 0")
    before = ids(table)
    planned = table.plan_compaction(full=True)
    compacted = table.compact(full=True)
    assert compacted is not None
    table = sound(table)
    assert ids(table) == before == ids(table, snapshot=compacted - 1)
    files = table.files().to_pylist()
    assert len(files) == len(planned) == (3 if "bucket" in options else 1)
    for file in files:
        assert (file["level"], file["deleted_row_count"], file["min_sequence_number"]) == (0, 0, 0)
        assert file["max_sequence_number"] == file["row_count"] - 1
    assert table.snapshots()[-1].commit_kind == "COMPACT"
    assert table.snapshots()[-1].total_record_count == len(before)
    assert table.compact(full=True) is None
    if "bucket" not in options:
        assert not indexes(table)
    elif "deletion-vectors.enabled" in options:
        assert [row.row_count for files_ in table.catalog.state().indexes.values() for row in files_] == [
            0
        ] * 3
    table.append(some(200, 210))
    assert ids(sound(table)) == [*before, *range(200, 210)]


@covers("APP-6")
def test_numbers_go_on_after_a_compaction_as_in_paimon(tmp_path: Path) -> None:
    table = made(tmp_path, {**FIXED, "bucket": "1"})
    for start in (0, 10):
        table.append(some(start, start + 10))
    table.compact(full=True)
    table.append(some(20, 25))
    rows = table.files().to_pylist()
    assert sorted((f["min_sequence_number"], f["max_sequence_number"]) for f in rows) == [(0, 19), (20, 24)]


@covers("APP-20", "APP-21")
def test_a_compaction_waits_for_enough_small_files(tmp_path: Path) -> None:
    table = made(tmp_path, {"compaction.min.file-num": "3"})
    table.append(some(0, 10))
    table.append(some(10, 20))
    assert table.plan_compaction() == []
    assert table.compact() is None
    table.append(some(20, 30))
    (plan,) = table.plan_compaction()
    assert (plan.partition, plan.bucket, plan.files, plan.rows, plan.output_level) == ("", 0, 3, 30, 0)
    assert table.compact() == 4
    assert sound(table).files().num_rows == 1


@covers("APP-21", "CMT-26", "CMT-42")
@with_vectors
def test_expiry_tags_and_rollback_keep_the_index_files_they_need(
    tmp_path: Path, options: dict[str, str]
) -> None:
    table = made(tmp_path, options)
    table.append(some(0, 20))
    table.delete(where="id < 5")
    table.create_tag("kept")
    table.delete(where="id < 10")
    table.compact(full=True)
    table.delete(where="id < 12")
    assert table.rollback(snapshot=4) == [5]
    assert ids(table) == list(range(10, 20))
    table.delete(where="id = 19")
    table.expire_snapshots(retain_last=1)
    assert ids(table, tag="kept") == list(range(5, 20))
    orphans = table.remove_orphans(older_than=1 << 60)
    assert all(orphan.size >= 0 for orphan in orphans)
    assert ids(table, tag="kept") == list(range(5, 20))
    assert ids(sound(table)) == list(range(10, 19))
    table.rollback(tag="kept")
    assert ids(sound(table)) == list(range(5, 20))
    table.delete_tag("kept")
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    table.remove_orphans(older_than=1 << 60)
    assert ids(sound(table)) == list(range(5, 20))


Entries = list[ManifestEntry]
Indexes = list[IndexManifestEntry]


def _edit(**changes: Any) -> Callable[[Entries, Indexes], None]:
    def edit(entries: Entries, indexes: Indexes) -> None:
        entries[0] = replace(entries[0], file=replace(entries[0].file, **changes))

    return edit


def _twice(entries: Entries, indexes: Indexes) -> None:
    indexes.append(indexes[0])


def _dangling(entries: Entries, indexes: Indexes) -> None:
    del entries[0]


def _too_few_rows(entries: Entries, indexes: Indexes) -> None:
    entries[0] = replace(entries[0], file=replace(entries[0].file, row_count=3))


DAMAGE: dict[str, tuple[Callable[[Entries, Indexes], None], str, str]] = {
    "a level": (_edit(level=1), "APP-4", "level"),
    "a key": (_edit(min_key=b"\0\0\0\1" + bytes(16)), "APP-5", "keys"),
    "retractions": (_edit(delete_row_count=2), "APP-5", "retractions"),
    "numbers": (_edit(min_sequence_number=99), "LSM-7", "sequence numbers"),
    "a vector twice": (_twice, "DV-5", "vector of"),
    "a vector of no file": (_dangling, "DV-4", "vector of"),
    "positions beyond the rows": (_too_few_rows, "DV-2", "vector of"),
}


@covers("APP-4", "APP-5", "APP-13", "DV-2", "DV-4", "DV-5", "LSM-7")
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_check_names_what_is_wrong(tmp_path: Path, damage: str) -> None:
    table = made(tmp_path, DV)
    table.append(some(0, 10))
    table.append(some(10, 30))
    table.delete(where="id IN (5, 15)")
    state = table.catalog.state()
    (bucket_id,) = state.files
    entries = [ManifestEntry(ADD, *bucket_id, -1, file) for file in state.files[bucket_id]]
    found = list(state.indexes[bucket_id])
    change, clause, what = DAMAGE[damage]
    change(entries, found)
    commit(Path(table.path), entries, found)
    report = check(table.path, snapshot=state.id + 1)
    assert any(one.clause == clause and one.what.startswith(what) for one in report.findings), report.findings
    if clause in ("DV-2", "DV-5"):
        with pytest.raises(CorruptFileError):
            Table.open(table.path).to_arrow()
