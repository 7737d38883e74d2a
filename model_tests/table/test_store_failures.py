"""A store that fails: full, read-only, not permitted, out of file handles. The error names it; the table stays."""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import itertools
import os
import pickle
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CorruptFileError, InvalidRequestError, NotATableError, StorageError, Table
from pktable.cli.process import run
from pktable.store.file_io import LocalFileIO
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.backends.failing_store import CHANGING, READING, FailingStore
from model_tests.patience import PATIENCE

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "2"}
COLUMNS = "k INT, v STRING"

Rows = dict[int, str]
Work = Callable[[Table], Any]

needs_a_user = pytest.mark.skipif(os.geteuid() == 0, reason="no directory is closed to root")


def rows(keys: range, text: str) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [f"{text} {key}" for key in keys]})


def content(path: Path) -> Rows:
    return {row["k"]: row["v"] for row in Table.open(path).to_arrow(fresh=True).to_pylist()}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "table"
    table = Table.create(path, COLUMNS, primary_key=["k"], options=OPTIONS)
    table.upsert(rows(range(600), "long enough to be a file that is written in pieces"))
    table.upsert(rows(range(0, 600, 7), "newer"))
    table.create_tag("kept", snapshot=2)
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "table"))


def expect_named(error: StorageError, path: Path, number: int) -> None:
    assert error.errno == number
    assert str(path) in str(error)
    assert os.strerror(number) in str(error)
    assert not isinstance(error, InvalidRequestError)


def table_on(path: Path, store: FailingStore) -> Table:
    return Table.open(path, store=store)


CHANGES: dict[str, Work] = {
    "upsert": lambda table: table.upsert(rows(range(300, 900), "written by the one whose store fails")),
    "delete": lambda table: table.delete(where="k < 200"),
    "compact": lambda table: table.compact(full=True),
    "tag": lambda table: table.create_tag("another"),
    "expire": lambda table: table.expire_snapshots(retain_last=1),
    "untag": lambda table: table.delete_tag("kept"),
}


@covers("SAFE-5", "SAFE-7", "CMT-2", "CMT-12", "CMT-25")
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("name", CHANGES)
def test_a_store_that_fills_up_ends_an_operation_and_leaves_the_table(
    path: Path, template: Path, name: str, number: int
) -> None:
    before = content(path)
    twin = Path(shutil.copytree(template, path.parent / "twin"))
    CHANGES[name](Table.open(twin))
    after = content(twin)
    at, failures = 0, 0
    while True:
        at += 1
        shutil.rmtree(path)
        shutil.copytree(template, path)
        store = FailingStore(number, CHANGING, at)
        failed = says_committed = False
        try:
            CHANGES[name](table_on(path, store))
        except StorageError as error:
            failed = True
            says_committed = "the write is committed, its compaction is not; do not write" in str(error)
            expect_named(error, path, number)
            assert Table.open(path).check().errors == 0
        found = content(path)
        assert found in (before, after)
        assert says_committed == (failed and before != found)
        if not failed:
            assert found == after
        failures += failed
        if store.count < at or number == errno.EROFS:  # which no operation survives for long
            break
    assert failures or name in ("expire", "untag")  # which write hints at most


@covers("SAFE-5")
def test_a_writer_that_is_given_up_writes_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's writer ends its file when it is deleted. On a full disk that was an error that nobody could catch."""
    later: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", later.append)
    options = {**OPTIONS, "changelog-producer": "lookup", "write-only": "true", "target-file-size": "4 kb"}
    table = Table.create(tmp_path / "template", COLUMNS, primary_key=["k"], options=options)
    for text in ("one text that is written", "another one"):
        table.upsert(rows(range(450), text))
    for at in itertools.count(1, 2):
        path = Path(shutil.copytree(table.path, tmp_path / str(at)))
        store = FailingStore(errno.ENOSPC, CHANGING, at)
        with contextlib.suppress(StorageError):
            CHANGES["compact"](table_on(path, store))
        gc.collect()
        assert not later
        if store.count < at:
            break


class OpenFiles(FailingStore):
    """A full disk that counts the files that are begun and neither closed nor given up."""

    def __init__(self, at: int) -> None:
        super().__init__(errno.ENOSPC, ("sink",), at)
        self.begun = 0

    def create(self, path: str) -> Any:
        self.begun += 1
        return _Ended(super().create(path), self)


class _Ended:
    def __init__(self, sink: Any, store: OpenFiles) -> None:
        self.sink, self.store = sink, store

    def abort(self) -> None:
        self.store.begun -= 1
        self.sink.close()

    close = abort

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)


@covers("SAFE-5", "CMT-12")
@pytest.mark.parametrize(("format", "writes"), [("parquet", 5), ("orc", 3), ("avro", 2)])
def test_a_file_whose_first_bytes_cannot_be_written_is_given_up(path: Path, format: str, writes: int) -> None:
    """An object store would keep what was sent of it."""
    Table.open(path).alter(set_options={"file.format": format})
    for at in range(1, writes + 1):
        store = OpenFiles(at)
        with pytest.raises(StorageError):
            CHANGES["upsert"](table_on(path, store))
        assert store.begun == 0, at


@covers("SAFE-5", "SAFE-7")
def test_a_store_that_fills_up_during_create_leaves_no_table_or_one(tmp_path: Path) -> None:
    for at in range(1, 4):
        path = tmp_path / str(at)
        store = FailingStore(errno.ENOSPC, CHANGING, at)
        with contextlib.suppress(StorageError):
            Table.create(path, COLUMNS, primary_key=["k"], store=store)
            assert store.count < at
        try:
            Table.open(path)
        except NotATableError:
            Table.create(path, COLUMNS, primary_key=["k"])


READS: dict[str, Work] = {
    "read": lambda table: table.to_arrow(),
    "fresh": lambda table: table.to_arrow(fresh=True),
    "tag": lambda table: table.to_arrow(tag="kept"),
    "time": lambda table: table.to_arrow(timestamp=10**13),
    "files": lambda table: table.files(),
    "snapshots": lambda table: table.snapshots(),
    "check": lambda table: table.check(),
    "plan": lambda table: table.plan_compaction(full=True),
    "stage": lambda table: table.stage_compaction(full=True),
}


@covers("SAFE-5")
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.EMFILE])
@pytest.mark.parametrize("name", READS)
def test_a_store_that_cannot_be_read_is_neither_damage_nor_the_caller_s_mistake(
    path: Path, name: str, number: int
) -> None:
    at = 0
    while True:
        at += 1
        store = FailingStore(number, READING, at)
        try:
            READS[name](table_on(path, store))
        except StorageError as error:
            expect_named(error, path, number)
        else:
            assert store.count < at, "a failure was swallowed"
            break
    assert at > 3


class BrokenDisk(LocalFileIO):
    """A directory whose data files open, and of which only some ``reads`` more succeed."""

    def __init__(self, reads: int) -> None:
        self.reads = reads

    def open(self, path: str) -> Any:
        return pa.PythonFile(BrokenFile(self, path), "r")


class BrokenFile(io.FileIO):
    def __init__(self, disk: BrokenDisk, path: str) -> None:
        super().__init__(path, "rb")
        self.disk = disk

    def read(self, size: int | None = -1) -> Any:
        self.disk.reads -= 1
        if self.disk.reads < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(size)


@covers("SAFE-5")
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_a_disk_that_breaks_under_a_read_is_no_damage(tmp_path: Path, format: str) -> None:
    table = Table.create(tmp_path, COLUMNS, primary_key=["k"], options={"file.format": format})
    table.upsert(rows(range(600), "text"))
    whole = BrokenDisk(1000)
    assert Table.open(tmp_path, store=whole).to_arrow().num_rows == 600
    for reads in range(1000 - whole.reads):
        with pytest.raises(StorageError, match=r"data-.*: cannot read: .*Input/output error"):
            Table.open(tmp_path, store=BrokenDisk(reads)).to_arrow()


@covers("SAFE-5")
def test_the_error_says_what_to_do_and_travels() -> None:
    error = StorageError("write", "/t/x", errno.ENOSPC, "No space left on device")
    assert str(error) == "/t/x: cannot write: No space left on device; free some space there and try again"
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.errno, copy.filename) == (str(error), errno.ENOSPC, "/t/x")
    assert isinstance(error, OSError)
    assert not isinstance(error, (InvalidRequestError, CorruptFileError))


# ------------------------------------------------------------- real limits of real processes


def in_a_process(program: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


WRITES = """
import resource, sys, errno, random
import pyarrow as pa
from pktable import Table, StorageError
table = Table.open(sys.argv[1])
table.to_arrow(fresh=True)
texts = [random.randbytes(50).hex() for _ in range(20_000)]
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    table.upsert(pa.table({"k": pa.array(range(20_000), pa.int32()), "v": texts}))
except StorageError as error:
    assert error.errno == errno.EFBIG, error.errno
    print(error)
"""


@covers("SAFE-5", "SAFE-7")
def test_a_file_beyond_the_limit_of_the_process_is_refused_by_the_store(path: Path) -> None:
    before, files = content(path), sorted(path.rglob("*"))
    done = in_a_process(WRITES, path)
    assert "cannot write: " in done.stdout, done.stderr
    assert "ulimit -f" in done.stdout
    assert content(path) == before
    assert sorted(path.rglob("*")) == files
    assert check(path).findings == []


READS_WITHOUT_HANDLES = """
import os, resource, sys, errno
from pktable import Table, StorageError
table = Table.open(sys.argv[1])
expected = table.to_arrow(fresh=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
try:
    table.to_arrow(fresh=True)
except StorageError as error:
    assert error.errno == errno.EMFILE
    print(error)
for one in taken:
    os.close(one)
assert table.to_arrow(fresh=True) == expected
"""


@covers("SAFE-5")
def test_a_process_without_file_handles_reads_again_when_it_has_some(path: Path) -> None:
    done = in_a_process(READS_WITHOUT_HANDLES, path)
    assert "ulimit -n" in done.stdout, done.stderr
    assert not done.stderr


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, where this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("a small file system needs the right to mount one")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@covers("SAFE-5", "SAFE-7")
def test_a_full_disk_is_named_and_the_table_is_read_on(small_disk: Path) -> None:
    path = small_disk / "table"
    table = Table.create(path, COLUMNS, primary_key=["k"], options=OPTIONS)
    table.upsert(rows(range(10), "first"))

    def fill() -> None:
        for number in range(1000):
            table.upsert(rows(range(number, number + 50), os.urandom(200).hex()))

    with pytest.raises(StorageError, match="No space left on device"):
        fill()
    before = content(path)
    assert before
    with pytest.raises(StorageError):
        table.upsert(pa.table({"k": pa.array(range(5000), pa.int32()), "v": [os.urandom(99).hex()] * 5000}))
    assert content(path) == before
    assert check(path).errors == 0
    Table.open(path).expire_snapshots(retain_last=1)
    Table.open(path).upsert(rows(range(3), "again"))
    assert content(path)[0] == "again 0"


@covers("SAFE-5", "SAFE-7")
@needs_a_user
def test_a_revoked_permission_is_named_and_the_table_is_read_again_with_it(path: Path) -> None:
    before = content(path)
    for part, mode in (
        ("manifest", 0o555),
        ("snapshot", 0o555),
        ("schema", 0),
        ("bucket-0", 0),
        ("snapshot", 0),
    ):
        normal = (path / part).stat().st_mode
        (path / part).chmod(mode)
        try:
            with pytest.raises(StorageError, match="give this user access"):
                Table.open(path).upsert(rows(range(10), "x"))
            if mode:
                assert content(path) == before
        finally:
            (path / part).chmod(normal)
        assert content(path) == before
        assert check(path).errors == 0


# ------------------------------------------------------------- on the command line


@covers("SAFE-5")
def test_the_command_line_has_an_exit_code_of_its_own_for_a_store_that_fails(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: LocalFileIO, path: str, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(LocalFileIO, "write", full)
        assert run(["delete", str(path), "--where", "k < 5"]) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "No space left on device; free some space there" in error
    assert run(["count", str(path)]) == 0


@covers("SAFE-5")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_rows_for_a_full_disk_are_not_the_caller_s_mistake(path: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "pktable", "read", str(path), "--format", "jsonl"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stderr


def test_the_limits_of_this_process_are_as_they_were() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
