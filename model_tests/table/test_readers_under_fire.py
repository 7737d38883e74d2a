"""Readers while others write, compact and expire, in threads and in processes: every read is one committed state.

Each writer owns a range of keys. Its write ``n`` replaces all of its rows by those of `state(writer, n)`, in one
commit. So whatever a reader sees of a writer must be the state of one ``n``, and never of an earlier one than before.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CommitConflictError, CorruptFileError, SnapshotNotFoundError, Table
from pktable_spec.covers import covers

from model_tests.patience import wait_for

ROUNDS = 8
"""How often each reader reads in all ways. The others work until readers have ended, however long that takes."""
WRITERS = 2
KEYS = 40
OWN = 1000
"""The keys of writer w are those from w * OWN."""

OPTIONS = {
    "deletion-vectors.enabled": "true",
    "num-sorted-run.compaction-trigger": "3",
    "manifest.merge-min-count": "4",
    "target-file-size": "4 kb",
}
Rows = dict[int, str]
GoesOn = Callable[[], bool]


def state(writer: int, number: int) -> Rows:
    """Return the rows of a writer after its write ``number``; some keys come and go."""
    keys = [key for key in range(KEYS) if (key + number) % 3] if number else []
    return {writer * OWN + key: f"{number} {'x' * 50} {key}" for key in keys}


def changes(writer: int, number: int) -> pa.Table:
    """Return the rows of a write: all keys of the writer, set or deleted."""
    after = state(writer, number)
    keys = [writer * OWN + key for key in range(KEYS)]
    return pa.table(
        {
            "k": pa.array(keys, pa.int32()),
            "v": [after.get(key) for key in keys],
            "op": ["+U" if key in after else "-D" for key in keys],
        }
    )


def make(path: Path, **options: str) -> Table:
    return Table.create(path, "k INT, v STRING", primary_key=["k"], options={**OPTIONS, **options})


def write(path: Path, goes_on: GoesOn, writer: int) -> int:
    """Write, and return the number of the last write."""
    table, number = Table.open(path), 0
    while goes_on():
        number += 1
        try:
            table.write_changes(changes(writer, number), row_kind="op")
        except CommitConflictError:  # the rows are committed, or nothing is
            number += 1
            table.write_changes(changes(writer, number), row_kind="op")
    return number


def compact(path: Path, goes_on: GoesOn) -> int:
    table, count = Table.open(path), 0
    while goes_on():
        try:
            count += table.compact(full=count % 2 == 0) is not None
        except CommitConflictError:
            continue
    return count


def expire(path: Path, goes_on: GoesOn) -> int:
    table, count = Table.open(path), 0
    while goes_on():
        count += len(table.expire_snapshots(retain_last=2))
    return count


class Reader:
    """Reads in all ways, and expects a committed state each time."""

    def __init__(self, path: Path) -> None:
        self.table, self.reads, self.expired = Table.open(path), 0, 0
        self.seen = [0] * WRITERS

    def expect_state(self, found: pa.Table, *, latest: bool) -> None:
        rows = dict(zip(found.column("k").to_pylist(), found.column("v").to_pylist(), strict=True))
        assert len(rows) == found.num_rows, "a key twice"
        for writer in range(WRITERS):
            own = {key: value for key, value in rows.items() if key // OWN == writer}
            number = int(next(iter(own.values())).split()[0]) if own else 0
            assert own == state(writer, number), f"not a state of writer {writer}"
            if latest:
                assert number >= self.seen[writer], "an earlier state than before"
                self.seen[writer] = number
        self.reads += 1

    def latest(self) -> None:
        self.expect_state(self.table.to_arrow(fresh=True), latest=True)

    def default(self) -> None:
        self.expect_state(self.table.to_arrow(), latest=False)

    def reopened(self) -> None:
        self.table = Table.open(self.table.path)
        assert self.table.count() >= 0

    def oldest(self) -> None:
        for snapshot in self.table.snapshots()[:1]:
            self.expect_state(self.table.to_arrow(snapshot=snapshot.id, fresh=True), latest=False)

    def slowly(self) -> None:
        """Begin a scan of the oldest snapshot and go on when it may have expired."""
        for snapshot in self.table.snapshots()[:1]:
            batches = []
            for batch in self.table.scan(snapshot=snapshot.id, fresh=True).to_batches():
                batches.append(batch)
                time.sleep(0.02)
            if batches:
                self.expect_state(pa.Table.from_batches(batches), latest=False)

    def by_splits(self) -> None:
        splits = pickle.loads(pickle.dumps(self.table.scan(fresh=True).splits()))
        time.sleep(0.02)
        tables = [table for split in splits for table in split.read()]
        if tables:
            self.expect_state(pa.concat_tables(tables), latest=False)

    def metadata(self) -> None:
        self.table.files()
        self.table.inspect.buckets()
        self.table.tags()

    def run(self) -> Reader:
        ways: list[Callable[[], None]] = [
            self.latest, self.default, self.oldest, self.slowly, self.by_splits, self.metadata, self.reopened,
        ]  # fmt: skip
        for way in ways * ROUNDS:
            try:
                way()
            except SnapshotNotFoundError:  # expired while it was read
                self.expired += 1
        return self


def expect_sound(path: Path, last: dict[int, int]) -> None:
    """The last write of each writer is read, and the table is clean."""
    table = Table.open(path)
    expected = {key: value for writer, number in last.items() for key, value in state(writer, number).items()}
    found = {row["k"]: row["v"] for row in table.to_arrow(fresh=True).to_pylist()}
    assert found == expected
    assert [str(one) for one in table.check().findings if one.severity == "error"] == []


@covers("RD-23", "RD-18", "RD-10", "CMT-15", "CMT-29")
@pytest.mark.parametrize("buckets", ["1", "3"])
def test_threads_read_committed_states_while_others_write_compact_and_expire(
    tmp_path: Path, buckets: str
) -> None:
    make(tmp_path, bucket=buckets)
    # With several buckets what is compacted differs from one to the other, and so do default reads.
    reader = Reader if buckets == "1" else FreshReader
    ended = threading.Event()
    with ThreadPoolExecutor(8) as threads:
        arguments = tmp_path, lambda: not ended.is_set()
        writers = {one: threads.submit(write, *arguments, one) for one in range(WRITERS)}
        others = [threads.submit(compact, *arguments), threads.submit(expire, *arguments)]
        readers = [threads.submit(reader(tmp_path).run) for _ in range(2)]
        try:
            done = [one.result() for one in readers]
        finally:
            ended.set()
        last = {writer: future.result() for writer, future in writers.items()}
        for other in others:
            other.result()
    assert all(one.reads > 3 for one in done)
    expect_sound(tmp_path, last)


class FreshReader(Reader):
    """A reader of fresh reads only."""

    def default(self) -> None:
        found = self.table.to_arrow().column("k").to_pylist()
        assert len(found) == len(set(found)), "a key twice"


ROLES: dict[str, Callable[..., Any]] = {"write": write, "compact": compact, "expire": expire}

PROGRAM = """
import os, sys
from pathlib import Path
from model_tests.table import test_readers_under_fire as fire
role, path, stop, *arguments = sys.argv[1:]
print("ready", flush=True)
input()
if role == "read":
    reader = fire.Reader(Path(path)).run()
    print(reader.reads, reader.expired)
else:
    print(fire.ROLES[role](Path(path), lambda: not os.path.exists(stop), *map(int, arguments)))
"""


def process(role: str, path: Path, stop: Path, *arguments: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, role, str(path), str(stop), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def result_of(name: str, started: subprocess.Popen[str]) -> list[int]:
    """Return the numbers that a process prints at its end."""
    wait_for(lambda: started.poll() is not None, f"an end of {name}")
    out, error = started.communicate()
    assert started.returncode == 0, f"{name}: {error}"
    return [int(part) for part in out.split()]


@covers("RD-23", "RD-18", "RD-10", "CMT-15", "CMT-29")
def test_processes_read_committed_states_while_others_write_compact_and_expire(tmp_path: Path) -> None:
    path, stop = tmp_path / "t", tmp_path / "stop"
    make(path)
    others = {f"write {one}": process("write", path, stop, one) for one in range(WRITERS)}
    others |= {role: process(role, path, stop) for role in ("compact", "expire")}
    reader = process("read", path, stop)
    try:
        for one in (*others.values(), reader):
            assert one.stdout is not None
            one.stdout.readline()
        for one in (*others.values(), reader):
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        reads, _ = result_of("read", reader)
    finally:
        stop.touch()
    results = {name: result_of(name, one) for name, one in others.items()}
    assert reads > 3
    expect_sound(path, {one: results[f"write {one}"][0] for one in range(WRITERS)})


# ------------------------------------------------------------- without chance


@pytest.fixture
def long_table(tmp_path: Path) -> Path:
    """A table whose latest snapshot has several data files in one bucket."""
    path = tmp_path / "table"
    table = make(path, **{"parquet.block.row.count.limit": "5"})
    for number in range(1, 4):
        table.write_changes(changes(0, number), row_kind="op")
    return path


def replace_all(path: Path) -> None:
    """Let every snapshot that is there expire, with its files."""
    table = Table.open(path)
    for value in ("new", "newer"):  # of every row, so that every file is written again
        table.update({"v": f"'{value}'"})
        table.compact(full=True)
    table.expire_snapshots(retain_last=1)


@covers("RD-10", "RD-23")
def test_a_scan_whose_snapshot_expires_under_it_is_refused_by_name(long_table: Path) -> None:
    table = Table.open(long_table)
    latest = table.snapshots()[-1].id
    reader = table.scan(fresh=True).to_batches()
    splits = table.scan(fresh=True).splits()
    tagged_before = table.scan(snapshot=latest)
    replace_all(long_table)
    with pytest.raises(SnapshotNotFoundError, match=f"snapshot {latest}"):
        for _ in reader:
            pass
    for split in pickle.loads(pickle.dumps(splits)):
        with pytest.raises(SnapshotNotFoundError, match=f"snapshot {latest}"):
            list(split.read())
    with pytest.raises(SnapshotNotFoundError):
        tagged_before.to_arrow()


@covers("RD-10", "RD-23", "CMT-17")
def test_a_scan_by_tag_goes_on_until_the_tag_is_dropped(long_table: Path) -> None:
    table = Table.open(long_table)
    table.create_tag("kept")
    expected = table.to_arrow().to_pylist()
    scan = table.scan(tag="kept")
    splits = scan.splits()
    replace_all(long_table)
    assert scan.to_arrow().to_pylist() == expected
    assert [row for split in splits for one in split.read() for row in one.to_pylist()] == expected
    Table.open(long_table).delete_tag("kept")
    for split in splits:
        with pytest.raises(SnapshotNotFoundError, match="kept"):
            list(split.read())


@covers("RD-19", "RD-23")
def test_a_split_with_a_missing_file_of_a_retained_snapshot_is_damage(long_table: Path) -> None:
    splits = Table.open(long_table).scan(fresh=True).splits()
    for file in long_table.glob("bucket-0/*"):
        file.unlink()
    for split in splits:
        with pytest.raises(CorruptFileError, match="data file"):
            list(split.read())


@pytest.mark.versions
@covers("RD-10", "RD-23")
@pytest.mark.spark
def test_a_frame_of_spark_whose_snapshot_expires_shows_no_other_rows(long_table: Path) -> None:
    from pktable.run.spark.runner import SparkRunner

    from model_tests.backends.spark_session import spark_session

    table = Table.open(long_table, spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    table.compact(full=True)
    frame = table.read()
    replace_all(long_table)
    with pytest.raises(Exception, match=r"PATH_NOT_FOUND|FAILED_READ_FILE|FileNotFound|does not exist|none"):
        frame.collect()
    assert table.to_arrow().num_rows == Table.open(long_table).count()
