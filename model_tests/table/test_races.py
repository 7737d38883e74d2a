"""Several writers and compactors at once, each with a table object of its own: nothing is lost or reordered."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pktable import CommitConflictError, Table
from pktable.catalog.changes import CommitId
from pktable.ingest.changes import ChangeKind
from pktable_spec.covers import covers
from pktable_spec.vocabulary import APPEND, RowKind

WRITERS, WRITES = 4, 12
Batch = list[tuple[str, int, str]]


def batch(writer: int, number: int) -> Batch:
    drawn = random.Random(writer * 1000 + number)
    return [
        (drawn.choice(("+I", "+U", "-D")), drawn.randrange(6), f"{writer}-{number}-{i}") for i in range(3)
    ]


def write(path: Path, writer: int) -> None:
    table = Table.open(path)
    for number in range(WRITES):
        kinds, keys, values = zip(*batch(writer, number), strict=True)
        rows = pa.table({"k": pa.array(keys, pa.int32()), "v": values, "op": kinds})
        prepared = table.stage_write(
            rows, ChangeKind(RowKind.INSERT, column="op"), write_only=number % 3 == 0
        )
        assert prepared is not None
        prepared.commit(CommitId(f"{writer} {number}"))


def compact(path: Path) -> None:
    table = Table.open(path)
    for number in range(8):
        try:
            table.compact(full=number % 2 == 0)
        except CommitConflictError:
            continue


@covers("CMT-18", "CMT-10")
@pytest.mark.parametrize("compacted", [False, True])
def test_a_write_that_came_between_is_not_older_than_the_compaction_of_a_newer_one(
    tmp_path: Path, compacted: bool
) -> None:
    """Two rows of one key leave a gap below the number of the last, in which the other write's number fits."""
    table = Table.create(
        tmp_path, "k INT, v STRING", primary_key=["k"], options={"deletion-vectors.enabled": "true"}
    )
    deletes = pa.table({"k": pa.array([0, 0], pa.int32()), "v": ["a", "a"], "op": ["-D", "-D"]})
    prepared = table.stage_write(deletes, ChangeKind(RowKind.INSERT, column="op"))
    between = Table.open(tmp_path).stage_write(
        pa.table({"k": pa.array([0], pa.int32()), "v": ["b"]}), ChangeKind(), write_only=not compacted
    )
    assert prepared is not None
    assert between is not None
    between.commit(CommitId("between"))
    prepared.commit(CommitId("deletes"))
    for fresh in (False, True):
        assert table.to_arrow(fresh=fresh).num_rows == 0


@covers("CMT-1", "CMT-3", "CMT-7", "CMT-8", "CMT-9", "CMT-10", "CMT-14", "CMT-15", "TBL-7")
@pytest.mark.parametrize("buckets", ["1", "2"])
def test_writers_and_compactors_at_once_read_as_their_commits_in_order(tmp_path: Path, buckets: str) -> None:
    options = {
        "deletion-vectors.enabled": "true",
        "bucket": buckets,
        "num-sorted-run.compaction-trigger": "3",
    }
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=options)
    with ThreadPoolExecutor(WRITERS + 2) as threads:
        work = [threads.submit(write, tmp_path, writer) for writer in range(WRITERS)]
        work += [threads.submit(compact, tmp_path) for _ in range(2)]
        for one in work:
            one.result()
    expected: dict[int, str] = {}
    committed = []
    for snapshot in table.snapshots():
        if snapshot.commit_kind == APPEND:
            committed.append(snapshot.commit_user)
            for kind, key, value in batch(*map(int, snapshot.commit_user.split())):
                expected.pop(key, None)
                if kind != "-D":
                    expected[key] = value
        found = table.to_arrow(snapshot=snapshot.id, fresh=True).to_pylist()
        assert {row["k"]: row["v"] for row in found} == expected, f"snapshot {snapshot.id}"
        plain = table.to_arrow(snapshot=snapshot.id).column("k").to_pylist()
        assert len(plain) == len(set(plain)), f"snapshot {snapshot.id}: two live rows of a key"
    assert len(committed) == len(set(committed)) == WRITERS * WRITES
    table.compact()
    assert {row["k"]: row["v"] for row in table.to_arrow().to_pylist()} == expected
