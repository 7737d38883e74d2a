"""`ArrowFileIO` keeps the contract of a `FileIO` on a file system whose rename replaces nothing, as HDFS has it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.store.file_io import ArrowFileIO, locate, open_store
from pktable_spec.covers import covers
from pyarrow import fs


class Hadoop:
    """Local directories that rename and name themselves as HDFS does."""

    type_name = "hdfs"

    def __init__(self) -> None:
        self._local = fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    def move(self, source: str, target: str) -> None:
        if os.path.exists(target):
            raise OSError(f"rename of {source}: {target} exists")
        self._local.move(source, target)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URI of a directory on such a file system."""

    class FileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[Hadoop, str]:
            return Hadoop(), urlsplit(uri).path

    monkeypatch.setattr(fs, "FileSystem", FileSystem)
    return f"hdfs://host{tmp_path}"


def content(table: Table, **how: Any) -> dict[int, int]:
    return {row["id"]: row["v"] for row in table.to_arrow(**how).to_pylist()}


def rows(first: int, end: int, v: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, end), pa.int64()), "v": pa.array([v] * (end - first), pa.int32())}
    )


@covers("CMT-1", "CMT-17", "CMT-48")
def test_a_table_lives_its_life_on_hadoop(root: str, tmp_path: Path) -> None:
    path, options = f"{root}/t", {"deletion-vectors.enabled": "true"}
    table = Table.create(path, "id BIGINT, v INT", primary_key="id", options=options)
    table.upsert(rows(0, 9, 1))
    Table.open(path).upsert(rows(5, 12, 2))
    table.create_tag("kept")
    table.delete(where="id = 0")
    expected = {id: 1 if id < 5 else 2 for id in range(1, 12)}
    assert content(table) == content(Table.open(path), fresh=True) == expected
    assert content(table, tag="kept") == {0: 1, **expected}
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)
    assert (tmp_path / "t/snapshot").is_dir()
    (tmp_path / "t/bucket-0/data-stray.parquet").write_bytes(b"x")
    assert [one.path for one in table.remove_orphans(older_than=1 << 60)] == [
        f"{tmp_path}/t/bucket-0/data-stray.parquet"
    ]
    assert content(Table.open(path)) == expected
    assert table.check().findings == []


@covers("CMT-1")
def test_of_two_puts_of_one_name_one_succeeds_and_no_temporary_file_stays(root: str, tmp_path: Path) -> None:
    store, path = open_store(f"{root}/a/b")
    assert isinstance(store, ArrowFileIO)
    assert [store.put_if_absent(path, data) for data in (b"one", b"two")] == [True, False]
    assert store.read(path) == pickle.loads(pickle.dumps(store)).read(path) == b"one"
    assert store.list_names(f"{tmp_path}/a") == ["b"]
    assert not store.list_names(f"{tmp_path}/nosuch")
    assert not store.list_files(f"{tmp_path}/nosuch")
    assert [(one.name, one.size) for one in store.list_files(f"{tmp_path}/a")] == [("b", 3)]
    found, at = locate(f"hdfs://host{path}", store)
    assert found.read(at) == b"one"
    store.remove_empty_directory(f"{tmp_path}/a")
    assert store.exists(path)
    store.delete(path)
    store.delete(path)
    store.remove_empty_directory(f"{tmp_path}/a")
    assert not store.exists(f"{tmp_path}/a")


@covers("CMT-1")
def test_a_put_that_fails_for_another_reason_is_no_lost_race(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Hadoop, source: str, target: str) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Hadoop, "move", fail)
    store, path = open_store(f"{root}/a/b")
    with pytest.raises(OSError, match="no space left"):
        store.put_if_absent(path, b"one")
    assert store.list_names(path.rpartition("/")[0]) == []


@covers("CMT-1")
def test_a_file_system_that_may_replace_files_is_read_only(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Table.create(f"{root}/t", "id BIGINT, v INT", primary_key="id").upsert(rows(0, 3, 1))
    monkeypatch.setattr(Hadoop, "type_name", "mock")
    table = Table.open(f"{root}/t")
    assert content(table, fresh=True) == {0: 1, 1: 1, 2: 1}
    with pytest.raises(InvalidRequestError, match="found mock; tables there can be read, not written"):
        table.upsert(rows(0, 1, 2))
