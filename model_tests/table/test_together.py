"""Work on several buckets at the same time: its results are in order, and a failure leaves nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CorruptFileError, Table
from pktable.kinds import append, primary_key
from pktable.run import local
from pktable.run.runner import CompactionTask
from pktable.run.together import together
from pktable_spec.covers import covers

DV = {"deletion-vectors.enabled": "true", "write-only": "true"}
THREADS = [1, 3]


@pytest.mark.parametrize("threads", THREADS)
def test_results_are_in_the_order_of_the_pieces(threads: int) -> None:
    last = threading.Event()

    def do(piece: int) -> int:
        if piece == 4:
            last.set()
        if piece == 0 and threads > 1:
            assert last.wait(10), "the others are done at the same time"
        return piece * 10

    undone = list[int]()
    assert together(do, range(5), undone.append, threads=threads, what="work") == [0, 10, 20, 30, 40]
    assert not undone


@pytest.mark.parametrize("threads", THREADS)
def test_what_has_succeeded_is_undone_after_a_failure(threads: int) -> None:
    failed, undone, begun = threading.Event(), list[int](), list[int]()

    def do(piece: int) -> int:
        begun.append(piece)
        if piece == 1:
            failed.set()
            raise ValueError("piece 1")
        if piece == 2:
            failed.wait(10)  # it ends when another one has failed
        if piece > 2:
            time.sleep(0.02)  # so that not all of them have begun by then
        return piece

    with pytest.raises(ValueError, match="piece 1"):
        together(do, range(100), undone.append, threads=threads, what="work")
    assert sorted(undone) == sorted(set(begun) - {1})
    assert 0 in undone
    assert len(begun) < 100, "no piece is begun after a failure"


def test_one_thread_is_that_of_the_caller() -> None:
    found = together(lambda _: threading.current_thread(), range(2), lambda _: None, threads=1, what="work")
    assert set(found) == {threading.current_thread()}


def written(path: Path) -> Table:
    table = Table.create(path, "k INT, n INT", primary_key=["k"], options={**DV, "bucket": "8"})
    for times in (1, 2):
        keys = range(0, 4000, times)
        table.upsert(
            pa.table({"k": pa.array(keys, pa.int32()), "n": pa.array([times] * len(keys), pa.int32())})
        )
    return table


@covers("CMT-12", "CMP-9")
def test_buckets_that_are_compacted_at_once_hold_the_rows_of_those_that_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, several = written(tmp_path / "one"), written(tmp_path / "several")
    one.compact(full=True)
    workers, run = set[threading.Thread](), CompactionTask.run

    def seen(*given: object) -> object:
        workers.add(threading.current_thread())
        return run(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(local, "ONE_THREAD_BYTES", 0)
    monkeypatch.setattr(CompactionTask, "run", seen)
    several.compact(full=True)
    assert threading.current_thread() not in workers
    assert several.to_arrow().sort_by("k") == one.to_arrow().sort_by("k")
    assert several.files().column("bucket") == one.files().column("bucket")
    assert several.check().findings == []


@covers("CMT-12")
def test_a_damaged_bucket_leaves_no_files_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = written(tmp_path)
    there = set(tmp_path.rglob("*"))
    damaged = next((tmp_path / "bucket-5").glob("data-*"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    monkeypatch.setattr(local, "ONE_THREAD_BYTES", 0)
    with pytest.raises(CorruptFileError, match="file size"):
        table.compact(full=True)
    assert set(tmp_path.rglob("*")) == there


@covers("CMT-12")
@pytest.mark.parametrize("keys", [["k"], None])
def test_a_piece_that_fails_removes_the_files_that_it_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: list[str] | None
) -> None:
    table = Table.create(tmp_path / "t", "k INT", primary_key=keys, options=DV)
    for _ in range(2):
        rows = pa.table({"k": pa.array([1, 2], pa.int32())})
        table.upsert(rows) if keys else table.append(rows)
    kind, work = (primary_key, "compact_bucket") if keys else (append, "rewrite_files")
    original, there = getattr(kind, work), set(tmp_path.rglob("*"))

    def failing(*given: Any, **more: Any) -> None:
        original(*given, **more)
        raise ValueError("too late")

    monkeypatch.setattr(kind, work, failing)
    with pytest.raises(ValueError, match="too late"):
        table.compact(full=True)
    assert set(tmp_path.rglob("*")) == there


@pytest.mark.spark
@covers("CMT-12")
def test_a_damaged_bucket_leaves_no_files_of_others_on_spark(tmp_path: Path) -> None:
    from pktable.run.spark.runner import SparkRunner

    from model_tests.backends.spark_session import spark_session

    table = written(tmp_path)
    there = set(tmp_path.rglob("*"))
    damaged = next((tmp_path / "bucket-5").glob("data-*"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    table.runner = table.stager.runner = SparkRunner(spark_session())
    with pytest.raises(CorruptFileError, match="file size"):
        table.compact(full=True)
    assert set(tmp_path.rglob("*")) == there
