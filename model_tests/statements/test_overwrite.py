"""Overwrite and truncate: what goes, what stays, and what others commit meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from pktable import CommitId, InvalidRequestError, Table
from pktable.ingest.changes import ChangeKind
from pktable_spec.covers import covers

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "2"}


def rows(region: str, *ids: int) -> list[dict[str, object]]:
    return [{"region": region, "id": one, "v": f"{region}{one}"} for one in ids]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(
        tmp_path / "t",
        "region STRING, id INT, v STRING",
        primary_key=["region", "id"],
        partition_by="region",
        options=OPTIONS,
    )
    table.upsert([*rows("eu", 1, 2, 3), *rows("us", 1, 2)])
    table.upsert(rows("eu", 3))  # with a deletion vector
    return table


def found(table: Table, **options: object) -> list[str]:
    return sorted(table.to_arrow(columns="v", **options).column("v").to_pylist())  # type: ignore[arg-type]


@covers("STM-7")
def test_an_overwrite_replaces_all_rows_or_those_of_partitions(table: Table) -> None:
    before = table.catalog.state().id
    snapshot = table.overwrite(rows("eu", 7), where="region = 'eu'")
    assert snapshot is not None
    assert found(table) == ["eu7", "us1", "us2"]
    assert found(table, snapshot=before) == ["eu1", "eu2", "eu3", "us1", "us2"]
    assert [one.commit_kind for one in table.snapshots() if one.id > before] == ["OVERWRITE", "COMPACT"]
    table.overwrite(rows("asia", 1))
    assert found(table) == found(table, fresh=True) == ["asia1"]
    assert not table.check().findings


@covers("STM-7")
def test_an_overwrite_by_nothing_removes_and_truncate_removes_all(table: Table) -> None:
    table.overwrite([], where="region < 'f'")
    assert found(table) == ["us1", "us2"]
    assert table.truncate() is not None
    assert found(table) == []
    assert table.count() == 0
    assert not table.inspect.files().num_rows
    assert table.truncate() is None
    assert table.overwrite([]) is None
    table.upsert(rows("eu", 5))
    assert found(table) == ["eu5"]
    assert not table.check().findings


@covers("STM-7")
def test_a_row_of_another_partition_and_a_condition_on_other_columns_are_refused(table: Table) -> None:
    before, files = table.catalog.state().id, sorted(Path(table.path).rglob("data-*"))
    with pytest.raises(InvalidRequestError, match="overwrite: rows of partition region=us do not satisfy"):
        table.overwrite([*rows("eu", 1), *rows("us", 1)], where="region = 'eu'")
    with pytest.raises(
        InvalidRequestError, match=r"where may use partition columns only \(region\), found id"
    ):
        table.overwrite(rows("eu", 1), where="region = 'eu' AND id = 1")
    assert table.catalog.state().id == before
    assert sorted(Path(table.path).rglob("data-*")) == files


@covers("STM-7", "CMT-53")
def test_an_overwrite_repeated_under_its_name_is_committed_once(table: Table) -> None:
    name = CommitId("nightly", 1)
    first = table.overwrite(rows("eu", 9), commit_id=name)
    table.upsert(rows("us", 4))
    table.overwrite(rows("eu", 9), commit_id=name)
    assert first is not None
    assert found(table) == ["eu9", "us4"]


@covers("STM-7", "CMT-7")
def test_an_overwrite_removes_what_is_live_when_it_commits(table: Table) -> None:
    other = Table.open(table.path)
    staged = table.stager.write(
        table.to_arrow(where="region = 'us'"), ChangeKind(), write_only=False, replaces=lambda partition: True
    )
    assert staged is not None
    other.upsert(rows("eu", 8))
    compaction = other.stage_compaction(full=True)
    staged.commit(CommitId("overwrite"))
    assert found(table, fresh=True) == ["us1", "us2"]
    compaction.commit(CommitId("compaction"))  # its inputs are gone: it is planned again
    assert found(table) == ["us1", "us2"]
    assert not table.check().findings
