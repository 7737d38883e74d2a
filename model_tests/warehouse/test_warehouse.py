"""A warehouse lists, makes, renames and drops by the names of directories alone, on every store."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from pktable import InvalidRequestError, StorageError, Table, Warehouse
from pktable.cli import run
from pktable.store.file_io import LocalFileIO
from pktable.store.object_store import ObjectStoreIO
from pktable_spec.covers import covers

from model_tests.real_data import PAIMON, needs_shared
from model_tests.stores.s3_server import BUCKET, running_server

COLUMNS = "id BIGINT, city STRING"
ROWS = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}]


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with running_server() as server:
        yield server.options


@pytest.fixture(params=["local", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Warehouse:
    if request.param == "local":
        return Warehouse(tmp_path / "lake")
    options = request.getfixturevalue("s3")
    return Warehouse(f"s3://{BUCKET}/{tmp_path.name}/lake", storage_options=options)


def filled(lake: Warehouse, name: str = "shop.orders") -> Table:
    lake.create_database(name.partition(".")[0], if_not_exists=True)
    table = lake.create_table(name, COLUMNS, primary_key="id")
    table.upsert(ROWS)
    return table


@covers("WH-1", "WH-7")
def test_what_was_made_is_listed_and_opened_by_name(lake: Warehouse) -> None:
    assert lake.databases() == lake.tables() == []
    lake.create_database("empty")
    filled(lake)
    filled(lake, "shop.items")
    lake.create_table("towns", COLUMNS, primary_key="id")
    assert lake.databases() == ["default", "empty", "shop"]
    assert lake.tables() == ["default.towns", "shop.items", "shop.orders"]
    assert lake.tables("shop") == ["items", "orders"]
    assert lake.tables("empty") == []
    assert lake.table("shop.orders").to_arrow().to_pylist() == ROWS
    assert lake.table("towns").path == f"{lake.path}/default.db/towns"
    assert lake.has_table("shop.items")
    assert not lake.has_table("shop.other")


@covers("WH-4")
def test_a_dropped_table_leaves_no_file(lake: Warehouse) -> None:
    filled(lake)
    lake.drop_table("shop.orders")
    assert lake.tables("shop") == []
    assert lake.store.list_names(f"{lake.path}/shop.db/orders") == []
    assert sorted(lake.store.list_names(lake.path)) == ["shop.db"]
    lake.drop_table("shop.orders", if_exists=True)
    assert lake.create_table("shop.orders", COLUMNS, primary_key="id").count() == 0


@covers("WH-4")
def test_a_drop_that_ends_early_can_be_repeated(
    s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Warehouse(f"s3://{BUCKET}/{tmp_path.name}/lake", storage_options=s3)
    kind = type(lake.store)
    delete = kind.delete
    deleted = most = 0

    def fails_late(store: ObjectStoreIO, path: str) -> None:
        nonlocal deleted
        if deleted == most:
            raise ConnectionError(104, "reset")
        deleted += 1
        delete(store, path)

    filled(lake)
    monkeypatch.setattr(kind, "delete", fails_late)
    while lake.has_table("shop.orders"):
        deleted, most = 0, most + 1
        with contextlib.suppress(StorageError):
            lake.drop_table("shop.orders")
            break
    assert most > 1
    assert lake.store.list_names(f"{lake.path}/shop.db") == [".database"]


@covers("WH-5")
def test_a_database_is_dropped_with_its_tables_only_if_asked_and_with_nothing_else(lake: Warehouse) -> None:
    filled(lake)
    with pytest.raises(InvalidRequestError, match="it has tables \\(orders\\)"):
        lake.drop_database("shop")
    lake.store.write(f"{lake.path}/shop.db/notes/a.txt", b"mine")
    with pytest.raises(InvalidRequestError, match="notes is no table"):
        lake.drop_database("shop", cascade=True)
    assert lake.tables("shop") == ["orders"]
    lake.store.delete(f"{lake.path}/shop.db/notes/a.txt")
    if isinstance(lake.store, LocalFileIO):
        os.rmdir(f"{lake.path}/shop.db/notes")
    lake.drop_database("shop", cascade=True)
    lake.drop_database("shop", if_exists=True)
    assert lake.databases() == []


@covers("WH-3", "WH-6")
def test_a_renamed_table_has_its_rows_and_its_old_name_is_free(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path)
    filled(lake)
    filled(lake, "shop.items")
    lake.create_database("old")
    with pytest.raises(InvalidRequestError, match=r"shop\.items: it is there already"):
        lake.rename_table("shop.orders", "items")
    lake.rename_table("shop.orders", "old.orders_2024")
    assert lake.tables() == ["old.orders_2024", "shop.items"]
    assert lake.table("old.orders_2024").to_arrow().to_pylist() == ROWS
    (tmp_path / "shop.db" / "orders" / "bucket-0").mkdir(parents=True)  # left by a writer
    lake.rename_table("shop.items", "orders")
    lake.rename_table("shop.orders", "items")
    (tmp_path / "shop.db" / "taken" / "bucket-0").mkdir(parents=True)
    (tmp_path / "shop.db" / "taken" / "file").touch()
    (tmp_path / "shop.db" / "file").touch()
    for name in ("taken", "file"):
        with pytest.raises(InvalidRequestError, match="expected nothing there"):
            lake.rename_table("shop.items", name)
    busy = mock.Mock(side_effect=OSError(errno.EBUSY, "it is mounted"))
    with (
        mock.patch("os.rename", busy),
        pytest.raises(StorageError, match="items: cannot rename: it is mounted"),
    ):
        lake.rename_table("shop.items", "other")
    assert lake.tables("shop") == ["items"]


@covers("WH-4")
def test_what_a_failed_drop_leaves_is_named_and_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Warehouse(tmp_path)
    filled(lake)
    filled(lake, "shop.items")
    denied = mock.Mock(side_effect=PermissionError(errno.EACCES, "Permission denied"))
    monkeypatch.setattr("shutil.rmtree", denied)
    with pytest.raises(StorageError, match=r"\.dropped-.*Permission denied; .*orders is dropped"):
        lake.drop_table("shop.orders")
    monkeypatch.undo()
    assert lake.tables() == ["shop.items"]
    (left,) = tmp_path.glob(".dropped-*")
    assert (left / "schema").is_dir()
    lake.drop_table("shop.items")
    assert not list(tmp_path.glob(".dropped-*"))


@covers("WH-6")
def test_an_object_store_renames_no_table(s3: dict[str, str], tmp_path: Path) -> None:
    lake = Warehouse(f"s3://{BUCKET}/{tmp_path.name}/lake", storage_options=s3)
    filled(lake)
    with pytest.raises(InvalidRequestError, match="moves no directory in one step"):
        lake.rename_table("shop.orders", "other")
    assert lake.tables() == ["shop.orders"]


@covers("WH-2", "WH-3")
def test_a_name_that_is_not_there_or_not_allowed_is_refused_with_what_there_is(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path)
    filled(lake)
    for ask, message in (
        (lambda: lake.table("shop.order"), r"shop\.order: .* did you mean orders\?"),
        (lambda: lake.table("shop.x"), r"there are orders"),
        (lambda: lake.table("shp.orders"), r"database 'shp': .* did you mean shop\?"),
        (lambda: lake.tables("shp"), r"did you mean shop\?"),
        (lambda: lake.drop_table("shop.x"), r"there are orders"),
        (lambda: lake.drop_database("x"), r"there are shop"),
        (lambda: lake.rename_table("shop.x", "y"), r"there are orders"),
        (lambda: lake.create_table("x.t", COLUMNS, primary_key="id"), r"database 'x'"),
        (lambda: lake.create_table("shop.orders", COLUMNS, primary_key="id"), r"it is there already"),
        (lambda: lake.create_table("shop.a$b", COLUMNS, primary_key="id"), r"letters, digits"),
        (lambda: lake.create_database("a.b"), r"letters, digits"),
        (lambda: lake.create_database("shop"), r"it is there already"),
        (lambda: lake.table("../x.t"), r"expected a name such as"),
        (lambda: lake.table("shop./etc"), r"expected a name such as"),
        (lambda: lake.table(7), r"expected a name such as"),  # type: ignore[arg-type]
        (lambda: lake.table("\ud800"), r"expected a name such as"),
        (lambda: Warehouse(""), r"expected the directory or URI"),
        (lambda: Warehouse("s3://"), r"expected a URI such as s3://bucket/path"),
        (
            lambda: Warehouse("x", store=LocalFileIO(), storage_options={"a": "b"}),
            r"either store=… or storage_options=…",
        ),
        (lambda: Warehouse(tmp_path, runner="spark"), r"without Spark"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            ask()
    again = lake.create_table("shop.orders", "other INT", primary_key=None, if_not_exists=True)
    assert again.to_arrow().to_pylist() == ROWS


@covers("WH-4")
def test_a_table_that_is_a_link_is_not_dropped(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path / "lake")
    filled(lake)
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "lake/shop.db/orders").rename(elsewhere)
    (tmp_path / "lake/shop.db/orders").symlink_to(elsewhere)
    with pytest.raises(InvalidRequestError, match="symbolic link"):
        lake.drop_table("shop.orders")
    assert Table.open(elsewhere).count() == 2


@needs_shared
@covers("WH-1")
def test_warehouses_that_paimon_made_open_as_they_are() -> None:
    assert "c" in Warehouse(PAIMON / "jvm-0.9").databases()
    assert set(Warehouse(PAIMON / "cpp/parquet").databases()) > {"pk_with_bitmap_dv"}
    lake = Warehouse(PAIMON / "jvm-0.9")
    counts = {name: lake.table(name).count() for name in lake.tables()}
    assert counts
    assert any(counts.values())


@covers("WH-1", "WH-2")
def test_the_command_line_lists_a_warehouse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = Warehouse(tmp_path / "lake")
    filled(lake)
    lake.create_database("empty")

    def listed(*arguments: str, code: int = 0) -> list[dict[str, object]]:
        assert run(["ls", str(tmp_path / "lake"), *arguments, "--format", "jsonl"]) == code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    orders = {"database": "shop", "table": "orders"}
    assert listed() == [{"database": "empty", "table": None}, orders]
    assert listed("shop") == [orders]
    assert listed("shp", code=2) == []
    assert run(["ls", str(tmp_path / "nothing")]) == 2
    assert "expected a warehouse" in capsys.readouterr().err


@covers("WH-27")
@pytest.mark.parametrize("path", ["http://localhost:8080", "thrift://host:9083", "jdbc:mysql://host/db"])
def test_a_catalog_that_is_a_server_is_refused_by_name(path: str) -> None:
    with pytest.raises(InvalidRequestError, match="REST, Hive, JDBC"):
        Warehouse(path)
