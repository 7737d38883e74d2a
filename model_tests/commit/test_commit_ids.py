"""A write with an identifier is found among the snapshots, and each of these is read once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pktable import CommitId, Table
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

from model_tests.commit.hooks import OPTIONS, Killed, dying, ids


class Counted(LocalFileIO):
    """Counts the reads of snapshot files."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, path: str) -> bytes:
        self.reads += "/snapshot/snapshot-" in path
        return super().read(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    return tmp_path / "t"


def put(table: Table, key: int, identifier: int) -> int | None:
    rows = pa.table({"id": pa.array([key], pa.int64()), "v": [str(identifier)]})
    return table.upsert(rows, commit_id=CommitId("stream", identifier))


@covers("CMT-53")
def test_a_stream_of_writes_does_not_read_all_snapshots_each_time(path: Path) -> None:
    store = Counted()
    table = Table.open(path, store=store)
    costs = []
    for number in range(40):
        before = store.reads
        put(table, number, number)
        costs.append(store.reads - before)
    assert max(costs[20:]) == max(costs[:20])
    other = Table.open(path, store=store)
    put(other, 100, 100)
    before = store.reads
    assert put(other, 7, 7) == 8
    assert store.reads - before < 80  # it was committed, and that snapshot is looked for among all


@covers("CMT-58")
@pytest.mark.parametrize(("vectors", "dies"), [(True, True), (True, False), (False, False)])
def test_a_repeated_write_is_told_a_snapshot_that_shows_its_rows(
    tmp_path: Path, vectors: bool, dies: bool
) -> None:
    options = {"deletion-vectors.enabled": str(vectors).lower(), "bucket": "2"}
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=options)
    put(table, 0, 0)
    if dies:
        with pytest.raises(Killed):
            put(Table.open(tmp_path / "t", store=dying("put_if_absent", "/snapshot-4")), 1, 1)
        first: int | None = 4
    else:
        first = put(table, 1, 1)
    found = [put(Table.open(tmp_path / "t"), 1, 1) for _ in range(3)]
    assert found == [first] * 3
    assert sorted(table.to_arrow(snapshot=first)["id"].to_pylist()) == [0, 1]


@covers("CMT-58")
def test_a_repeated_write_whose_rows_others_have_compacted_is_told_the_latest_snapshot(
    tmp_path: Path,
) -> None:
    options = {"deletion-vectors.enabled": "true"}
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=options)
    with pytest.raises(Killed):
        put(Table.open(tmp_path / "t", store=dying("put_if_absent", "/snapshot-2")), 1, 1)
    table.compact()
    assert put(table, 1, 1) == 2
    assert table.to_arrow(snapshot=2)["id"].to_pylist() == [1]


@covers("CMT-53")
@pytest.mark.parametrize("fenced", [True, False], ids=["ours", "another writer's"])
def test_a_write_that_was_rolled_back_is_committed_again_and_once(path: Path, fenced: bool) -> None:
    one, other = Table.open(path), Table.open(path)
    for number in range(4):
        put(one, number, number)
    assert put(one, 3, 3) == 4
    if fenced:
        other.rollback(snapshot=2)
    else:
        for gone in (4, 3):
            (path / "snapshot" / f"snapshot-{gone}").unlink()
        (path / "snapshot" / "LATEST").unlink()
        other = Table.open(path)
    assert put(other, 50, 50) == 3
    assert put(other, 51, 51) == 4
    assert put(one, 3, 3) == 5  # what was snapshot 4 is gone
    assert put(one, 51, 51) == 4  # one has not committed it
    assert put(one, 3, 3) == 5
    assert ids(path) == [0, 1, 3, 50, 51]
