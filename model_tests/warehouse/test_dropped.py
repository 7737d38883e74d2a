"""A handle of a table that was dropped or replaced since is refused, whatever it does, and leaves no file."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pktable import CommitConflictError, InvalidRequestError, NotATableError, Table, Warehouse
from pktable.metadata_tables import NAMES
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

ROW = [{"id": 1, "v": 1}]
COLUMNS = "id BIGINT, v INT"

UPKEEP: dict[str, Callable[[Table], Any]] = {
    "branch": lambda table: table.create_branch("b"),
    "empty branch": lambda table: table.create_branch("b", empty=True),
    "delete branch": lambda table: table.delete_branch("b"),
    "create tag": lambda table: table.create_tag("t", snapshot=1),
    "delete tag": lambda table: table.delete_tag("t"),
    "rename tag": lambda table: table.rename_tag("t", "u"),
    "consumer": lambda table: table.set_consumer("c", next_snapshot=1),
    "delete consumer": lambda table: table.delete_consumer("c"),
    "orphans": Table.remove_orphans,
    "repair": Table.repair,
    "expire": lambda table: table.expire_snapshots(retain_last=1),
}
USES: dict[str, Callable[[Table], Any]] = {
    "read": Table.to_arrow,
    "snapshots": Table.snapshots,
    "upsert": lambda table: table.upsert(ROW),
    "delete": lambda table: table.delete(where="id = 1"),
    "compact": lambda table: table.compact(),
    "alter": lambda table: table.alter(add="x INT"),
    **UPKEEP,
    **{f"metadata {name}": partial(Table.metadata, name=name) for name in NAMES},
    "effect": lambda table: table.effect(1),
    "second effect": lambda table: table.effect(2),
    "main branch": lambda table: table.branch("main"),
    "tags": Table.tags,
    "branches": Table.branches,
    "consumers": Table.consumers,
    "snapshot": lambda table: table.to_arrow(snapshot=1),
    "second": lambda table: table.to_arrow(snapshot=2),
    "tag": lambda table: table.to_arrow(tag="kept"),
    "time": lambda table: table.to_arrow(timestamp=1 << 50),
    "changes": lambda table: table.changes(0).to_arrow(),
}
REPLACED = "another table has taken its place since it was opened"
LOOKS = (
    *("snapshots", "tags", "branches", "consumers", "metadata tags", "metadata schemas"),
    *("effect", "second effect", "main branch"),
)


class DropsAtPut(LocalFileIO):
    """Calls ``drop`` just before a snapshot is put."""

    drop: Callable[[], None] | None = None

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if "/snapshot/" in path and self.drop:
            drop, self.drop = self.drop, None
            drop()
        return super().put_if_absent(path, data)


def _files(path: Path) -> list[str]:
    return [str(one) for one in path.rglob("*") if one.is_file()]


@covers("TBL-60")
@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "with rows"])
@pytest.mark.parametrize("use", USES)
def test_a_table_that_was_dropped_is_not_read_as_empty_and_takes_no_rows(
    tmp_path: Path, use: str, is_empty: bool
) -> None:
    lake = Warehouse(tmp_path)
    table = lake.create_table("t", COLUMNS, primary_key="id")
    if not is_empty:
        table.upsert(ROW)
    lake.drop_table("t")
    with pytest.raises(NotATableError, match="dropped or renamed after it was opened"):
        USES[use](table)
    assert _files(tmp_path) == []


@covers("TBL-60")
@pytest.mark.parametrize("columns", ["id BIGINT, v STRING", COLUMNS], ids=["others", "the same"])
def test_a_table_that_replaced_one_takes_no_rows_by_the_handle_of_the_former(
    tmp_path: Path, columns: str
) -> None:
    lake = Warehouse(tmp_path)
    table = lake.create_table("t", COLUMNS, primary_key="id")
    table.upsert(ROW)
    lake.drop_table("t")
    other = lake.create_table("t", columns, primary_key="id", comment="another")
    for use in (Table.to_arrow, lambda table: table.upsert(ROW), lambda table: table.alter(add="x INT")):
        with pytest.raises(InvalidRequestError, match=REPLACED):
            use(table)
    assert other.count() == 0
    assert Warehouse(tmp_path).table("t").schema == other.schema


@covers("TBL-60")
def test_a_table_that_replaced_one_is_not_called_damaged(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path)
    table = lake.create_table("t", COLUMNS, primary_key="id")
    for _ in range(5):
        table.upsert(ROW)
    table.expire_snapshots(retain_last=2)
    lake.drop_table("t")
    other = lake.create_table("t", "id BIGINT, n STRING", primary_key="id")
    for _ in range(4):
        other.upsert([{"id": 1, "n": "new"}])
    other.expire_snapshots(retain_last=2)  # so that no snapshot is left by the fences that the handle knows
    for _ in range(2):
        with pytest.raises(InvalidRequestError, match=REPLACED):
            table.upsert(ROW)


def _replaced(path: Path) -> Table:
    """Return the handle of a table of two rows whose place another one has taken since."""
    lake = Warehouse(path)
    table = lake.create_table("t", COLUMNS, primary_key="id")
    table.upsert(ROW)
    table.upsert([{"id": 2, "v": 2}])
    lake.drop_table("t")
    lake.create_table("t", "id BIGINT, n STRING", primary_key="id").upsert([{"id": 1, "n": "x"}])
    return table


@covers("TBL-60")
@pytest.mark.parametrize("use", [*LOOKS, *UPKEEP])
def test_a_table_that_replaced_one_is_neither_listed_nor_kept_up_by_the_handle_of_the_former(
    tmp_path: Path, use: str
) -> None:
    table = _replaced(tmp_path)
    before = sorted(_files(tmp_path))
    with pytest.raises(InvalidRequestError, match=REPLACED):
        USES[use](table)
    assert sorted(_files(tmp_path)) == before


@covers("TBL-60", "WH-12")
def test_the_result_of_a_change_does_not_tell_of_a_table_that_replaced_its_own(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path)
    done = lake.create_table("t", COLUMNS, primary_key="id").upsert(ROW)
    lake.drop_table("t")
    lake.create_table("t", "id BIGINT, n STRING", primary_key="id").upsert([{"id": 1, "n": "x"}])
    assert done is not None
    with pytest.raises(InvalidRequestError, match=REPLACED):
        _ = done.effect


@covers("TBL-60")
def test_files_of_a_table_that_was_replaced_are_no_damage(tmp_path: Path) -> None:
    table = _replaced(tmp_path)
    for name in ("snapshot", "second", "changes"):
        with pytest.raises(InvalidRequestError, match=REPLACED):
            USES[name](table)


@covers("TBL-60", "WH-4")
@pytest.mark.parametrize("is_empty", [True, False], ids=["empty", "with rows"])
def test_a_commit_into_a_table_that_is_dropped_at_the_same_time_leaves_nothing(
    tmp_path: Path, is_empty: bool
) -> None:
    store = DropsAtPut()
    lake = Warehouse(tmp_path, store=store)
    table = lake.create_table("t", COLUMNS, primary_key="id")
    if not is_empty:
        table.upsert(ROW)
    store.drop = lambda: lake.drop_table("t")
    with pytest.raises(NotATableError):
        table.upsert([{"id": 2, "v": 2}])
    assert _files(tmp_path) == []
    assert lake.create_table("t", COLUMNS, primary_key="id").count() == 0


def _rows_before(work: Callable[[], object]) -> Iterator[dict[str, int]]:
    """Yield a row that is written, do ``work``, and yield another one."""
    yield {"id": 2, "v": 2}
    work()
    yield {"id": 3, "v": 3}


@covers("TBL-60")
@pytest.mark.parametrize("key", ["id", None], ids=["keys", "append"])
@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("former", [0, 1])
@pytest.mark.parametrize("when", ["while rows come", "at the put"])
def test_a_write_is_not_committed_into_a_table_that_takes_the_place_of_its_own(
    tmp_path: Path, key: str | None, rows: int, former: int, when: str
) -> None:
    """``former``, ``rows``: how many snapshots the table had, and how many the other one gets."""
    store = DropsAtPut()
    lake = Warehouse(tmp_path, store=store)
    table = lake.create_table("t", COLUMNS, primary_key=key)
    for _ in range(former):
        table.put(ROW)
    kept: list[str] = []

    def replace() -> None:
        lake.drop_table("t")
        time.sleep(0.002)  # one that is made in the same millisecond, of the same columns, is the same
        other = lake.create_table("t", COLUMNS, primary_key=key)
        for _ in range(rows):
            other.put([{"id": 7, "v": 7}])
        kept.extend(_files(tmp_path))

    if when == "at the put":
        store.drop = replace
    with pytest.raises(InvalidRequestError, match=REPLACED):
        table.put(_rows_before(replace) if when == "while rows come" else ROW)
    assert sorted(_files(tmp_path)) == sorted(kept)
    found = Warehouse(tmp_path).table("t")
    assert set(found.to_arrow()["id"].to_pylist()) <= {7}
    assert found.check().findings == []


@covers("WH-31")
def test_snapshots_without_a_schema_stay_and_say_what_to_do(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path)
    lake.create_table("t", COLUMNS, primary_key="id").upsert(ROW)
    lake.create_table("other", COLUMNS, primary_key="id")
    root = Path(lake.path_of("t"))
    schema = root / "schema/schema-0"
    text = schema.read_bytes()
    schema.unlink()
    before = sorted(_files(tmp_path))
    for work in (
        lambda: Table.create(root, COLUMNS, primary_key="id"),
        lambda: lake.create_table("t", COLUMNS, primary_key="id"),
        lambda: lake.create_table("t", COLUMNS, primary_key="id", if_not_exists=True),
        lambda: lake.drop_table("t"),
        lambda: lake.drop_table("t", if_exists=True),
        lambda: lake.rename_table("t", "u"),
        lambda: lake.rename_table("other", "t"),
    ):
        with pytest.raises(
            InvalidRequestError, match=f"^{root}: .*snapshots without a schema.*put the schema files"
        ):
            work()
    with pytest.raises(InvalidRequestError, match="t is no table; move it elsewhere"):
        lake.drop_database("default", cascade=True)
    assert sorted(_files(tmp_path)) == before
    schema.write_bytes(text)
    assert lake.table("t").count() == 1
    lake.drop_table("t")
    lake.drop_table("t", if_exists=True)


PAUSES: dict[str, Callable[[Table], Any]] = {
    "expire": lambda table: table.expire_snapshots(retain_last=1),
    "expire by options": lambda table: table.upsert(ROW),
    "rollback": lambda table: table.rollback(snapshot=1),
    "consumer": lambda table: table.set_consumer("c", next_snapshot=4),
    "alter": lambda table: table.alter(add="x INT"),
    "branch": lambda table: table.create_branch("b"),
    "expire changelogs": lambda table: table.expire_snapshots(retain_last=1),
    "repair": Table.repair,
}


def _prepare(what: str, table: Table) -> None:
    """Make that there is something to do for a work of `PAUSES`."""
    if what == "expire by options":
        table.alter(set_options={"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1"})
    elif what == "expire changelogs":  # the expiry removes copy 1 and puts copy 2
        table.alter(set_options={"changelog.num-retained.max": "2"})
        table.expire_snapshots(retain_last=2)
    elif what == "repair":  # an expiry that was killed
        snapshots = table.catalog.snapshots
        snapshots.fences.put_expired(snapshots.fences.newest(), 1, [snapshots.read(1)])


def _metadata(lake: Warehouse) -> dict[str, bytes]:
    """Return the contents of files that have the same names in each table, except in branches."""
    kinds = ("snapshot", "schema", "fence", "removal", "changelog")
    found = [one for kind in kinds for one in Path(lake.path_of("t")).glob(f"*/{kind}-*")]
    return {str(one): one.read_bytes() for one in found}


class Pauses(LocalFileIO):
    """Calls ``meanwhile`` at the moment ``at``: around a put or before a list, but not in the midst of removals."""

    def __init__(self) -> None:
        self.at, self.calls = -1, 0
        self.meanwhile: Callable[[], None] = lambda: None

    def _pause(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            self.at = -1
            self.meanwhile()

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self._pause()
        is_put = super().put_if_absent(path, data)
        self._pause()
        return is_put

    def list_names(self, directory: str) -> list[str]:
        self._pause()
        return super().list_names(directory)


@covers("TBL-71")
@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("what", PAUSES)
def test_upkeep_that_pauses_changes_no_table_that_takes_the_place_of_its_own(
    tmp_path: Path, what: str, rows: int | None
) -> None:
    """``rows``: of the table that takes its place at the pause, one in each snapshot; None: it does so afterwards."""
    store, at = Pauses(), 0
    while True:
        at += 1
        lake = Warehouse(tmp_path / str(at), store=store)
        table = lake.create_table("t", COLUMNS, primary_key="id")
        for number in range(3):
            table.upsert([{"id": number, "v": 1}])
        _prepare(what, table)
        made: dict[str, bytes] = {}

        def make(lake: Warehouse = lake, made: dict[str, bytes] = made) -> None:
            other = lake.create_table("t", "id BIGINT, n STRING", primary_key="id")
            for number in range(rows or 0):
                other.upsert([{"id": number, "n": "new"}])
            if what == "expire changelogs":
                other.alter(set_options={"changelog.num-retained.max": "9"})
                other.expire_snapshots(retain_last=1)
            elif what == "alter":
                other.alter(add="y INT")
            elif what in ("expire", "rollback", "consumer") and rows:
                PAUSES[what](other)
            made |= _metadata(lake)

        def replace(lake: Warehouse = lake) -> None:
            lake.drop_table("t")
            if rows is not None:
                make()

        store.calls, store.at, store.meanwhile = 0, at, replace
        with contextlib.suppress(InvalidRequestError, CommitConflictError):
            PAUSES[what](table)
        if store.at >= 0:  # it has ended before
            return
        if rows is None:
            make()
        assert _metadata(lake) == made, at
        found = Warehouse(tmp_path / str(at)).table("t")
        count = 1 if what == "rollback" and rows else rows or 0
        assert found.count() == count, at
        found.upsert([dict.fromkeys(found.columns) | {"id": 9}])
        assert found.count() == count + 1
        assert [one for one in found.check().findings if one.severity == "error"] == []


@covers("CMT-51")
def test_a_hint_that_comes_after_its_table_was_dropped_is_no_damage_of_the_next(tmp_path: Path) -> None:
    lake = Warehouse(tmp_path)
    lake.create_table("t", COLUMNS, primary_key="id").upsert(ROW)
    lake.drop_table("t")
    LocalFileIO().write(f"{lake.path_of('t')}/snapshot/LATEST", b"2")
    table = lake.create_table("t", COLUMNS, primary_key="id")
    assert table.count() == 0
    table.upsert(ROW)
    assert table.check().findings == []
