"""Does a write compact the table fully after as many commits as the table says, whoever made them?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pktable import CommitId, Table, UnsupportedOptionError
from pktable.ingest.changes import ChangeKind
from pktable_spec.covers import covers

OPTION = "full-compaction.delta-commits"


def new_table(path: Path, commits: int, **options: str) -> Table:
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    given = {"deletion-vectors.enabled": "true", "bucket": "2", OPTION: str(commits)} | given
    return Table.create(path, "id BIGINT, v INT", primary_key=["id"], options=given)


def levels(table: Table, snapshot: int | None = None) -> set[int]:
    return set(table.files(snapshot).column("level").to_pylist())


def count(table: Table) -> Any:
    latest = table.snapshots()[-1].id
    return json.loads(Path(table.path, "snapshot", f"snapshot-{latest}").read_text())["pktable.deltaCommits"]


def put(table: Table, *ids: int, **options: Any) -> None:
    table.upsert({"id": list(ids), "v": [1] * len(ids)}, **options)


@covers("CMP-30", "META-55")
def test_every_third_write_compacts_all_buckets_fully(tmp_path: Path) -> None:
    put(new_table(tmp_path / "t", 3), *range(1000))  # into the greatest level, as there is nothing else
    found = []
    for number in range(6):
        table = Table.open(tmp_path / "t")  # another process, as far as the count is concerned
        put(table, number)
        found.append((count(table), levels(table) == {5}))
    assert found == [(1, False), (2, False), (0, True)] * 2
    assert not table.check().findings


@covers("CMP-30")
def test_with_one_every_write_compacts_fully(tmp_path: Path) -> None:
    table = new_table(
        tmp_path / "t", 1, deletion_vectors__enabled="false", changelog_producer="full-compaction"
    )
    for number in range(3):
        put(table, number)
        assert levels(table) == {5}
        changes = table.changes(table.snapshots()[-1].id - 1).to_pylist()
        assert changes == [{"_row_kind": "+I", "id": number, "v": 1}]


@covers("CMP-30", "META-55")
def test_an_expiry_and_writes_of_others_do_not_disturb_the_count(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", 6)
    put(table, *range(1000))
    put(table, 1)
    table.expire_snapshots(retain_last=1)
    (latest,) = table.snapshots()
    put(table, 2)
    put(table, 3)
    # The snapshots of a writer that does not know the option.
    for one in table.snapshots():
        path = tmp_path / "t/snapshot" / f"snapshot-{one.id}"
        text = json.loads(path.read_text())
        if one.id > latest.id:
            del text["pktable.deltaCommits"], text["pktable.crc32"]
            path.write_text(json.dumps(text))
    table = Table.open(tmp_path / "t")
    put(table, 4)
    put(table, 5)
    assert count(table) == 5
    assert levels(table) != {5}
    put(table, 6)
    assert count(table) == 0
    assert levels(table) == {5}


@covers("CMP-30")
def test_a_write_that_does_not_compact_leaves_it_to_the_next_one(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", 2)
    staged = [table.stage_write({"id": [1], "v": [1]}, ChangeKind(), write_only=True) for _ in range(3)]
    for one in staged:
        assert one is not None
        one.commit(CommitId.new())
    assert (count(table), levels(table)) == (3, {0})
    put(table, 9)
    assert (count(table), levels(table)) == (0, {5})


@covers("CMP-30", "CMT-54")
def test_a_write_that_is_overtaken_compacts_what_is_there_then(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", 2)
    put(table, *range(1000))
    late = table.stage_write({"id": [1], "v": [7]}, ChangeKind())
    assert late is not None
    other = Table.open(tmp_path / "t")
    put(other, 2, 300)
    assert levels(table) != {5}
    after = late.commit(CommitId.new())
    assert after is not None
    assert after.files
    assert levels(table) == {5}
    assert table.count() == 1000
    assert not table.check().findings


@covers("CMP-31")
@pytest.mark.parametrize(("key", "producer"), [(["id"], "lookup"), (None, "none")])
def test_where_it_has_no_meaning_it_is_refused(tmp_path: Path, key: list[str] | None, producer: str) -> None:
    options = {OPTION: "3", "changelog-producer": producer}
    with pytest.raises(
        UnsupportedOptionError, match=f"{OPTION}='3'.*a primary key whose changelog-producer is not lookup"
    ):
        Table.create(tmp_path / "t", "id BIGINT", primary_key=key, options=options)
    assert not (tmp_path / "t").exists()
