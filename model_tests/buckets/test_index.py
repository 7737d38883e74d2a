"""The hash index of dynamic buckets: over commits that meet, overwrites, rollbacks, and where it is wrong or gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pktable import CorruptFileError, Table
from pktable.bucket import hash_index
from pktable.bucket.hash_index import decode_hashes, encode_hashes
from pktable.catalog.changes import CommitId
from pktable.ingest.changes import ChangeKind
from pktable.store.requests import Cache
from pktable.table import check
from pktable.table_upkeep import now_millis
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.buckets.tables import (
    buckets_of_keys,
    new_table,
    partitioned,
    rows,
    rows_in,
    stored_hashes,
    values,
)
from model_tests.commit.hooks import Hooked
from model_tests.damage.table_damage import Surgeon


def between(path: Path, work: Callable[[], Any]) -> Table:
    """Return a table whose next commit is made after ``work``, which others do."""

    def late(put: Callable[[], Any]) -> Any:
        work()
        return put()

    return Table.open(
        path, store=Hooked("put_if_absent", f"snapshot-{len(Table.open(path).snapshots()) + 1}", late)
    )


@covers("BKT-8", "TBL-10", "CMT-24")
@pytest.mark.parametrize("mine", [range(6), range(4, 10), range(20, 23)])
def test_two_writers_never_give_a_key_two_buckets(tmp_path: Path, mine: range) -> None:
    new_table(tmp_path / "t", room=3, write_only="true").upsert(rows([0, 1]))
    others = rows(range(3, 9), 2)
    table = between(tmp_path / "t", lambda: Table.open(tmp_path / "t").upsert(others))
    table.upsert(rows(mine, 3))
    assert values(table) == {0: 0, 1: 0, **dict.fromkeys(range(3, 9), 2), **dict.fromkeys(mine, 3)}
    assert set(buckets_of_keys(Table.open(tmp_path / "t"))) == set(values(table))
    report = check(tmp_path / "t")
    assert not report.findings, report  # also no file is left that nothing refers to


@covers("BKT-8", "STM-6")
def test_a_statement_is_computed_again_where_others_have_inserted_its_keys(tmp_path: Path) -> None:
    new_table(tmp_path / "t", room=2, write_only="true").upsert(rows([0]))
    table = between(tmp_path / "t", lambda: Table.open(tmp_path / "t").upsert(rows([1, 2], 5)))
    merge = table.merge(rows([1, 3], 7), on="k").when_not_matched_insert_all()
    merge.when_matched_update({"v": "source.v + target.v"}).execute()
    assert values(table) == {0: 0, 1: 12, 2: 5, 3: 7}
    assert not check(tmp_path / "t").findings


@covers("BKT-8")
def test_a_write_of_known_keys_need_not_be_written_again(tmp_path: Path) -> None:
    new_table(tmp_path / "t", room=3, write_only="true").upsert(rows(range(6)))
    table = between(tmp_path / "t", lambda: Table.open(tmp_path / "t").upsert(rows([1], 2)))
    staged = table.stage_write(rows([4], 3), ChangeKind(RowKind.INSERT))
    assert staged is not None
    written = [file.file_name for append in staged.appends for file in append.files]
    staged.commit_append(CommitId.new())
    assert set(written) <= set(table.files().column("file_name").to_pylist())
    assert values(table) == {**dict.fromkeys(range(6), 0), 1: 2, 4: 3}


@covers("BKT-11", "STM-7")
def test_an_overwrite_begins_with_empty_buckets(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t", room=2)
    table.upsert(rows_in("a", range(5)))
    table.upsert(rows_in("b", range(5)))
    table.overwrite(rows_in("a", [9, 3]), where="p = 'a'")
    counts = {
        (table.catalog.context.partition_path(partition), bucket): entry.row_count
        for (partition, bucket), entry in table.catalog.state().hashes.items()
    }
    assert counts == {("p=a", 0): 2, ("p=b", 0): 2, ("p=b", 1): 2, ("p=b", 2): 1}
    table.upsert(rows_in("a", range(5), 1))
    assert table.count() == 11
    assert table.truncate()
    assert not table.catalog.state().hashes
    assert not check(tmp_path / "t").findings


@covers("BKT-12")
def test_compactions_expiry_and_clean_up_leave_the_index(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", room=2, write_only="true")
    for number in range(4):
        table.upsert(rows(range(number, number + 3), number))
    before = stored_hashes(table)
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    assert not table.remove_orphans(older_than=now_millis() + 60_000)
    assert stored_hashes(Table.open(tmp_path / "t")) == before
    assert len(list((tmp_path / "t" / "index").iterdir())) == len(before)
    table.upsert(rows([0, 9], 7))
    assert not check(tmp_path / "t").findings


@covers("BKT-12", "CMT-42", "CMT-47")
@pytest.mark.parametrize("expired", [False, True])
def test_a_rollback_brings_the_index_of_its_snapshot_back(tmp_path: Path, expired: bool) -> None:
    table = new_table(tmp_path / "t", room=2)
    table.upsert(rows(range(3)))
    table.create_tag("then")
    before = stored_hashes(table)
    table.upsert(rows(range(2, 9), 1))
    if expired:
        table.expire_snapshots(retain_last=1)
    table.rollback(tag="then")
    assert stored_hashes(table) == before
    table.upsert(rows(range(5), 2))
    assert values(table) == dict.fromkeys(range(5), 2)
    table.delete_tag("then")
    table.expire_snapshots(retain_last=1)
    assert not [one for one in check(tmp_path / "t").findings if one.severity == "error"]
    assert set(buckets_of_keys(Table.open(tmp_path / "t"))) == set(range(5))


@covers("BKT-9")
def test_an_index_that_is_missing_is_made_from_the_files(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", room=3)
    table.upsert(rows(range(8)))
    table.delete(rows([7]).select(["k"]))
    before = stored_hashes(table)
    surgeon, last = Surgeon(tmp_path / "t"), table.snapshots()[-1].id
    surgeon.put_index(
        last, [one for one in surgeon.index(last) if one.index_type != "HASH" or one.bucket == 1]
    )
    notes = [(one.clause, one.bucket) for one in check(tmp_path / "t", snapshot=last).findings]
    assert notes == [("BKT-9", 0), ("BKT-9", 2)]
    opened = Table.open(tmp_path / "t")
    opened.upsert(rows([0, 20], 1))
    found = stored_hashes(opened)
    assert {bucket: set(found[bucket]) for bucket in (0, 1)} == {
        bucket: set(before[bucket]) for bucket in (0, 1)
    }
    assert values(opened) == {**dict.fromkeys(range(7), 0), 0: 1, 20: 1}
    assert not check(tmp_path / "t", snapshot=opened.snapshots()[-1].id).findings


@covers("BKT-3", "BKT-10")
def test_a_hash_in_two_buckets_is_found_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = new_table(tmp_path / "t", room=3)
    table.upsert(rows(range(5)))
    _rewrite(table, 1, lambda hashes, other: np.append(hashes, other[:1]))
    found = {(one.clause, one.severity) for one in check(tmp_path / "t").findings}
    assert found == {("BKT-3", "error")}
    monkeypatch.setattr(hash_index, "OPENED", Cache(1000))
    with pytest.raises(CorruptFileError, match=r"expected one bucket of a partition; .* in bucket 0 and 1"):
        Table.open(tmp_path / "t").upsert(rows([9]))
    assert Table.open(tmp_path / "t").count() == 5


@covers("BKT-3", "META-31")
def test_partitions_that_share_a_directory_have_hashes_of_their_own(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path, "p STRING, id INT", primary_key=["p", "id"], partition_by="p", options={"bucket": "-1"}
    )
    table.upsert({"p": ["", " ", "__DEFAULT_PARTITION__"], "id": [1, 1, 1]})
    assert table.count() == 3
    assert not table.check().findings


@covers("BKT-2", "BKT-3")
@pytest.mark.parametrize(
    ("change", "clause", "what"),
    [
        (lambda hashes, other: hashes[1:], "BKT-3", "1 hash missing"),
        (lambda hashes, other: np.append(hashes, hashes[:1]), "BKT-2", "1 hash again"),
    ],
)
def test_a_check_finds_what_the_index_lacks_or_has_twice(
    tmp_path: Path, change: Callable[[Any, Any], Any], clause: str, what: str
) -> None:
    table = new_table(tmp_path / "t", room=3)
    table.upsert(rows(range(5)))
    _rewrite(table, 0, change)
    (found,) = [one for one in check(tmp_path / "t").findings if one.severity == "error"]
    assert found.clause == clause
    assert what in found.found


@covers("BKT-2", "BKT-10")
@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "size of the hash index file"),
        (lambda path: path.unlink(), "hash index file"),
    ],
)
def test_a_damaged_index_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object], what: str
) -> None:
    table = new_table(tmp_path / "t", room=3)
    table.upsert(rows(range(5)))
    (path,) = (
        Path(table.catalog.context.index_path(entry))
        for (_, bucket), entry in table.catalog.state().hashes.items()
        if bucket == 1
    )
    damage(path)
    monkeypatch.setattr(hash_index, "OPENED", Cache(1000))
    with pytest.raises(CorruptFileError, match=what):
        Table.open(tmp_path / "t").upsert(rows([9]))
    assert Table.open(tmp_path / "t").count() == 5, "reads do without the index"
    assert [one.severity for one in check(tmp_path / "t").findings] == ["error"]


@covers("BKT-2", "BKT-10")
@pytest.mark.parametrize("bucket", [-1, 1 << 16])
def test_an_index_of_a_bucket_that_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bucket: int
) -> None:
    table = new_table(tmp_path / "t", room=3)
    table.upsert(rows(range(5)))
    surgeon, last = Surgeon(tmp_path / "t"), table.snapshots()[-1].id
    first, *others = surgeon.index(last)
    surgeon.put_index(last, [replace(first, bucket=bucket), *others])
    monkeypatch.setattr(hash_index, "OPENED", Cache(1000))
    with pytest.raises(CorruptFileError, match=f"bucket of a hash index: expected 0 to .*, found {bucket}"):
        Table.open(tmp_path / "t").upsert(rows([9]))


def _rewrite(table: Table, bucket: int, change: Callable[[Any, Any], Any]) -> None:
    """Change the hashes of a bucket in its file and in the index manifest; ``change`` gets those of another, too."""
    last = table.snapshots()[-1].id
    surgeon = Surgeon(Path(table.path))
    hashes = {found: np.array(of_bucket) for found, of_bucket in stored_hashes(table).items()}
    changed = change(hashes[bucket], hashes[1 - bucket])
    entries = []
    for one in surgeon.index(last):
        if one.index_type == "HASH" and one.bucket == bucket:
            data = changed.astype(">i4").tobytes()
            Path(table.catalog.context.index_path(one)).write_bytes(data)
            one = replace(one, file_size=len(data), row_count=len(changed))
        entries.append(one)
    for snapshot in table.snapshots():
        if {e.file_name for e in surgeon.index(snapshot.id)} >= {
            e.file_name for e in entries if e.index_type == "HASH"
        }:
            kept = {e.file_name for e in surgeon.index(snapshot.id)}
            surgeon.put_index(snapshot.id, [e for e in entries if e.file_name in kept])


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_hash_index_file_of_another_count_is_damage(count: int) -> None:
    data = encode_hashes(np.array([7, 8], np.int32))
    with pytest.raises(CorruptFileError, match=f"length of the hash index file: expected {4 * count} bytes"):
        decode_hashes(data, count, at="file")
