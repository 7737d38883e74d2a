"""Writes to Hudi tables: drawn histories against the oracle, with writers that die, and what is refused."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from pktable import HudiTable
from pktable.store.file_io import LocalFileIO
from pktable_hudi.format.log_block import BlockKind, blocks
from pktable_hudi.index_writer import IndexPolicy
from pktable_hudi.lookup import index_of_file
from pktable_hudi.placing import WriteOptions, rooms
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError
from pktable_spec.model.log_index import LogTable, Row

from model_tests.hudi.dying_store import AFTER, BEFORE, TORN, DyingStore, Killed
from model_tests.hudi.written_tables import (
    add_write,
    arrow,
    completions,
    data_files,
    delete,
    expect_as,
    look_of,
    new_table,
    rows_of,
    tiny_groups,
    upsert,
)
from model_tests.seeded import cases

KEYS = st.sampled_from("abcdef")
ROWS = st.dictionaries(KEYS, st.builds(Row, st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=3)


class WriterMachine(RuleBasedStateMachine):
    """Upserts, deletes, compactions planned and executed, cleans, archived actions, processes that die, reopening."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="hudi-")
        self.since_upkeep = 0

    @initialize(
        by_event_time=st.booleans(),
        rows_per_group=st.sampled_from([1, 3, 1000]),
        clique_keys=st.sampled_from([2, 8, 1000]),
    )
    def start(self, by_event_time: bool, rows_per_group: int, clique_keys: int) -> None:
        self.oracle = LogTable(by_event_time)
        self.rows_per_group, self.policy = rows_per_group, IndexPolicy(0.01, clique_keys)
        self.table = new_table(Path(self.directory.name) / "t", by_event_time=by_event_time)
        self.reopen()

    @rule()
    def reopen(self) -> None:
        self.table = tiny_groups(HudiTable.open(self.table.path), rows=self.rows_per_group)
        self.table.index_policy = self.policy

    @rule(rows=ROWS)
    def upsert(self, rows: dict[str, Row]) -> None:
        add_write(self.oracle, self.table, upsert(self.table, rows), rows)

    @rule(keys=st.lists(KEYS, min_size=1, max_size=2, unique=True))
    def delete(self, keys: list[str]) -> None:
        known = self.oracle.located(self.table.timeline().latest)
        instant = delete(self.table, *keys)
        assert (instant is not None) == bool(known & set(keys))
        add_write(self.oracle, self.table, instant, {key: Row(0, None) for key in keys})

    @rule()
    def plan(self) -> None:
        instant = self.table.plan_compaction()
        if instant is not None:
            self.oracle.plan(instant)

    @rule()
    def compact(self) -> None:
        self.since_upkeep = 0
        for instant in self.table.compact():
            if instant not in self.oracle.compactions:
                self.oracle.plan(instant)
            self.oracle.execute(instant)
        assert self.table.writer().compactor().pending() == []

    @rule(count=st.integers(1, 3), base_files=st.booleans())
    def clean(self, count: int, base_files: bool) -> None:
        self.since_upkeep = 0
        self.table.clean(**{"retain_versions" if base_files else "retain_commits": count})
        self.oracle.retain(count, base_files=base_files)

    @rule(count=st.integers(1, 4))
    def archive(self, count: int) -> None:
        self.since_upkeep = 0
        self.table.archive(retain_writes=count, fewest=1)
        self.oracle.retain(count)

    @rule(rows=ROWS, number=st.integers(0, 12), how=st.sampled_from([BEFORE, TORN, AFTER]))
    def die(self, rows: dict[str, Row], number: int, how: str) -> None:
        self.since_upkeep = 0
        before, files = set(completions(self.table)), data_files(self.table.path)
        dying = tiny_groups(HudiTable.open(self.table.path, store=DyingStore(number, how)), rows=3)
        try:
            upsert(dying, rows)
        except Killed:
            expect_rows = rows_of(self.table)
            self.table.rollback()
            assert set(self.table.timeline().pending.values()) <= {"compaction"}
            assert expect_rows in (rows_of(self.table), self.oracle.rows("9"))
        new = set(completions(self.table)) - before
        assert len(new) <= 1
        assert new or data_files(self.table.path) == files
        for instant in new:
            add_write(self.oracle, self.table, instant, rows)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "oracle"):
            expect_as(self.oracle, self.table, at_every_instant=self.since_upkeep % 3 == 0)
            self.since_upkeep += 1

    def teardown(self) -> None:
        self.directory.cleanup()


@covers("LOG-41", "LOG-45", "LOG-50", "LOG-53", "LOG-54", "LOG-60", "LOG-61")
@covers("LOG-66", "LOG-67", "LOG-69", "LOG-70")
def test_histories_of_writes_have_the_rows_of_the_oracle_at_every_instant() -> None:
    run_state_machine_as_test(
        WriterMachine, settings=settings(max_examples=cases(36), stateful_step_count=12, deadline=None)
    )


CHANGED = {"upsert": {"b": Row(3, 3), "f": Row(3, 3)}, "delete": {key: Row(0, None) for key in "ac"}}
WORK: dict[str, Callable[[HudiTable], object]] = {
    "upsert": lambda table: upsert(table, CHANGED["upsert"]),
    "delete": lambda table: delete(table, *CHANGED["delete"]),
    "rollback": lambda table: table.rollback(),
    "compact": lambda table: table.compact(),
    "clean": lambda table: table.clean(retain_commits=1),
    "archive": lambda table: table.archive(retain_writes=1, fewest=1),
}


def template(path: Path, what: str) -> HudiTable:
    """Make a table on which there is something to do."""
    table = tiny_groups(new_table(path))
    upsert(table, {key: Row(1, 1) for key in "abcd"})
    upsert(table, {"a": Row(2, 2), "e": Row(2, 2)})
    if what in ("clean", "archive"):
        table.compact()
    if what == "rollback":  # of a write that died before it was decided
        with pytest.raises(Killed):
            upsert(HudiTable.open(path, store=DyingStore(3)), {"b": Row(3, 3), "f": Row(3, 3)})
    return table


def deaths(start: Path, path: Path, work: Callable[[HudiTable], object]) -> Iterator[HudiTable]:
    """Yield a copy of a table after each death that leaves something else than another one did.

    To die before a change is to die after the one before it.
    """
    seen = set()
    for number in itertools.count():
        for how in (TORN, AFTER):
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(start, path)
            dying = tiny_groups(HudiTable.open(path, store=DyingStore(number, how)))
            try:
                work(dying)
            except Killed:
                if (look := look_of(path)) not in seen:
                    seen.add(look)
                    yield tiny_groups(HudiTable.open(path))
            else:
                return


@covers("LOG-50", "LOG-51", "LOG-52", "LOG-53", "LOG-68", "LOG-71", "LOG-72")
@pytest.mark.parametrize("what", WORK)
def test_a_process_that_dies_at_any_change_leaves_all_or_nothing(tmp_path: Path, what: str) -> None:
    before = rows_of(template(tmp_path / "start", what))
    after = {**before, **CHANGED.get(what, {})}
    after = {key: row for key, row in after.items() if row.value is not None}
    count = 0
    for table in deaths(tmp_path / "start", tmp_path / "t", WORK[what]):
        count += 1
        assert rows_of(table) in (before, after)
        table.compact()
        assert rows_of(table) in (before, after)
        upsert(table, {"a": Row(9, 9)})
        found = rows_of(table)
        assert found["a"] == Row(9, 9)
        assert not table.timeline().pending
        table.compact()
        for _ in range(2):
            table.clean(retain_versions=1)
            table.archive(retain_writes=1, fewest=1)
        assert rows_of(table) == found
        assert {one["kind"] for one in table.files().to_pylist()} == {"base"}
        assert len(table.history()) == 1
        assert table.check().findings == []
        keys = table.locate(list("abcdef"))["key"].to_pylist()
        assert len(keys) == len(set(keys))
    assert count > 3


@covers("LOG-55", "LOG-56", "LOG-57", "LOG-38", "LOG-5")
def test_new_keys_go_to_the_log_of_a_small_group_and_others_to_new_groups(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(1, 1)})
    upsert(table, {"a": Row(2, 2), "b": Row(1, 1)})
    files = table.files().to_pylist()
    assert [one["kind"] for one in files] == ["base", "log"]
    (block,) = blocks((tmp_path / "t" / files[1]["file"]).read_bytes(), at="t")
    assert block.kind is BlockKind.AVRO
    assert block.footer == ()
    found = index_of_file(LocalFileIO(), str(tmp_path / "t" / files[1]["file"]))
    assert found is not None
    assert found.index.own_count == 2
    table.write_options = WriteOptions(small_bytes=0)
    upsert(table, {"c": Row(1, 1)})
    upsert(table, {"c": Row(2, 2)})
    assert sorted(one["kind"] for one in table.files().to_pylist()) == ["base", "base", "log", "log"]
    assert len({one["group"] for one in table.files().to_pylist()}) == 2


@covers("LOG-59")
def test_of_rows_of_one_key_the_winner_is_written(tmp_path: Path) -> None:
    rows = pa.table({"k": ["a", "a", "b", "b"], "ts": [2, 1, 1, 1], "v": [1, 2, 3, 4]})
    table = new_table(tmp_path / "e")
    table.upsert(rows)
    assert rows_of(table) == {"a": Row(2, 1), "b": Row(1, 4)}
    table = new_table(tmp_path / "c", by_event_time=False)
    table.upsert(rows)
    assert rows_of(table) == {"a": Row(1, 2), "b": Row(1, 4)}


TYPES = """
id BIGINT, region STRING, a BOOLEAN, b INT, c FLOAT, d DOUBLE, e STRING, f BYTES, g DATE, h DECIMAL(9, 2),
i TIMESTAMP(6), j TIMESTAMP_LTZ(6), l ARRAY<INT>, m MAP<STRING, DOUBLE>, r ROW<x INT, y ARRAY<STRING>>,
n DECIMAL(30, 4), t TIMESTAMP(3)
"""


@covers("LOG-7", "LOG-21")
def test_values_of_every_type_are_read_as_they_were_written(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", TYPES, key=["id", "e"], partition_by="region")
    full = {
        "id": -(1 << 40),
        "region": "eu",
        "a": True,
        "b": -5,
        "c": 1.5,
        "d": -0.25,
        "e": "é\U0001f600",
        "f": b"\0\xff",
        "g": datetime.date(1969, 2, 3),
        "h": decimal.Decimal("-12.34"),
        "i": datetime.datetime(1950, 1, 2, 3, 4, 5, 6),
        "j": datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc),
        "l": [1, None, -7],
        "m": [("x", 1.5), ("y", None)],
        "r": {"x": None, "y": ["p", None]},
        "n": decimal.Decimal("-12345678901234567890.1234"),
        "t": datetime.datetime(2020, 1, 2, 3, 4, 5, 6000),
    }
    empty: dict[str, Any] = {
        **dict.fromkeys(full),
        "id": 1,
        "region": "us",
        "e": "x",
        "l": [],
        "m": [],
        "r": {"x": 1, "y": []},
    }
    nulls = {**dict.fromkeys(full), "id": 2, "region": "us", "e": "y"}
    names = list(full)

    def read() -> list[Any]:
        found = table.to_arrow(columns=names)
        return sorted(found.to_pylist(), key=lambda one: one["id"])

    table.upsert([full, empty, nulls])
    wanted = read()
    assert wanted == [full, empty, nulls]
    table.upsert([nulls, full, empty])  # to the log
    assert {one["kind"] for one in table.files().to_pylist()} == {"base", "log"}
    assert read() == wanted
    table.compact()
    assert read() == wanted
    assert {one["partition"] for one in table.files().to_pylist()} == {"region=eu", "region=us"}
    keys = table.to_arrow(columns="_hoodie_record_key").column(0).to_pylist()
    assert sorted(keys) == sorted(["id:1,e:x", "id:2,e:y", f"id:{-(1 << 40)},e:é\U0001f600"])


@covers("LOG-58")
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"k": ["a"], "ts": [1]}, "column v is missing"),
        ({"k": ["a"], "ts": [1], "v": ["x"]}, "column v, row 0: expected INT"),
        ({"k": [None], "ts": [1], "v": [1]}, "column k"),
        ({"k": [""], "ts": [1], "v": [1]}, "column k: expected a key value in every row, found an empty one"),
        ({"k": ["a"], "ts": [None], "v": [1]}, "column ts"),
        ({"k": ["a"], "ts": [1], "v": [1], "w": [1]}, "column w is not in the table"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(
    tmp_path: Path, rows: dict[str, list[Any]], message: str
) -> None:
    table = new_table(tmp_path / "t")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=message) as caught:
        table.upsert(rows)
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert table.upsert(arrow({})) is None
    assert sorted(tmp_path.rglob("*")) == before


@covers("LOG-58", "LOG-18", "LOG-83")
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("k STRING", {"key": "x"}, "key: expected some of k, each once, found x"),
        (
            "k DOUBLE",
            {"key": "k"},
            "column k: key and partition columns are STRING, INT, BIGINT, found DOUBLE",
        ),
        ("k STRING, v SMALLINT", {"key": "k"}, "column v: Hudi has no type SMALLINT"),
        ("k STRING, v VARIANT", {"key": "k"}, "column v: Hudi has no type VARIANT"),
        ("k STRING, v TIME(3)", {"key": "k"}, "column v: Hudi has no type TIME"),
        ("k STRING, `a b` INT", {"key": "k"}, "Avro allows letters, digits and _"),
        ("k STRING, _hoodie_x INT", {"key": "k"}, "names that begin with _hoodie_"),
        ("k STRING, b BOOLEAN", {"key": "k", "ordering": "b"}, "column b: an ordering column is"),
        ("k STRING", {"key": "k", "name": "a b"}, "name: expected letters, digits and _"),
        ("k STRING", {"key": []}, "key: expected the names"),
        ("k STRING, t BIGINT", {"key": "k", "ordering": ["t"]}, "ordering: expected a column name"),
        ("k STRING", {"key": "k", "ordering": ""}, "ordering: expected a column name, found ''"),
        ("k STRING, r ROW<`a b` INT>", {"key": "k"}, "column r.a b: Avro allows letters, digits and _"),
        ("k STRING, r ARRAY<ROW<`1a` INT>>", {"key": "k"}, "column r.element.1a: Avro allows"),
        ("k STRING, r MAP<STRING, ROW<x ROW<`ü` INT>>>", {"key": "k"}, "column r.value.x.ü: Avro allows"),
        ("k STRING, K INT", {"key": "k"}, "column K: column k differs in letter case only"),
        ("k STRING, r ROW<a INT, A INT>", {"key": "k"}, "column r.A: column r.a differs in letter case only"),
    ],
)
def test_a_definition_that_is_not_allowed_is_refused(
    tmp_path: Path, columns: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        HudiTable.create(tmp_path / "t", columns, **options)
    assert not (tmp_path / "t").exists()


@covers("LOG-58")
def test_a_partition_value_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", "k STRING, p STRING", key="k", partition_by="p")
    for value in ("a/b", "..", "a%b", "a\0b"):
        with pytest.raises(InvalidRequestError, match="cannot be the name of a partition's directory"):
            table.upsert({"k": ["a"], "p": [value]})
    for value in ("x" * 254, "é" * 127):  # with "p=" before it
        with pytest.raises(
            InvalidRequestError, match="cannot be the name of a directory, which has 255 bytes"
        ):
            table.upsert({"k": ["a"], "p": [value]})
        with pytest.raises(
            InvalidRequestError, match="cannot be the name of a directory, which has 255 bytes"
        ):
            table.delete({"k": ["a"], "p": [value]})
    with pytest.raises(
        InvalidRequestError, match="column p: expected STRING NOT NULL, found null in 1 of 2 rows"
    ):
        table.upsert({"k": ["a", "b"], "p": ["x", None]})
    assert not (tmp_path / "t" / ".hoodie" / "timeline").exists()
    longest = "x" * 253
    table.upsert({"k": ["a"], "p": [longest]})
    assert table.to_arrow(columns=["p"]).to_pylist() == [{"p": longest}]


@covers("LOG-18", "LOG-63")
def test_a_table_that_is_not_written_is_refused_by_name(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    with pytest.raises(InvalidRequestError, match="a table already exists here"):
        new_table(tmp_path / "t")
    path = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    given = path.read_text()
    for line, message in (
        ("hoodie.table.metadata.partitions=files", "hoodie.table.metadata.partitions='files'"),
        ("hoodie.table.type=COPY_ON_WRITE", "hoodie.table.type='COPY_ON_WRITE'"),
        ("hoodie.table.version=9", "hoodie.table.version='9'"),
        ("hoodie.table.recordkey.fields=id", "the table has no key column id; it cannot be written"),
    ):
        path.write_text(f"{given}{line}\n")
        with pytest.raises(InvalidRequestError, match=message):
            upsert(HudiTable.open(table.path), {"a": Row(1, 1)})
    path.write_text(given)
    timeline = tmp_path / "t" / ".hoodie" / "timeline"
    timeline.mkdir()
    (timeline / "20260101000000000.clustering.requested").write_bytes(b"")
    with pytest.raises(InvalidRequestError, match="a clustering of instant 20260101000000000 is pending"):
        upsert(table, {"a": Row(1, 1)})
    assert len(list(timeline.iterdir())) == 1


@covers("LOG-62", "LOG-11", "LOG-30")
def test_a_delete_takes_effect_whatever_the_ordering_value_was(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(9, 1), "b": Row(9, 1)})
    delete(table, "a")
    assert rows_of(table) == {"b": Row(9, 1)}
    assert delete(table, "no such key") is None
    upsert(table, {"a": Row(10, 2)})
    assert rows_of(table) == {"a": Row(10, 2), "b": Row(9, 1)}


@covers("LOG-30")
def test_a_late_row_behind_a_delete_loses_to_the_deleted_row_of_the_base_file(tmp_path: Path) -> None:
    oracle, table = LogTable(True), new_table(tmp_path / "t")
    for rows in ({"a": Row(1, 5)}, {"a": Row(1, 0)}):
        add_write(oracle, table, upsert(table, rows), rows)
    add_write(oracle, table, delete(table, "a"), {"a": Row(0, None)})
    add_write(oracle, table, upsert(table, {"a": Row(0, 0)}), {"a": Row(0, 0)})
    assert rows_of(table) == {"a": Row(1, 5)}
    expect_as(oracle, table)


@covers("LOG-55")
def test_new_keys_fill_one_group_after_the_other() -> None:
    options = WriteOptions(small_bytes=0, most_bytes=1000)
    assert list(rooms(25, [], options, 100)) == [(None, 10), (None, 10), (None, 5)]
    assert list(rooms(2, [], options, 3000)) == [(None, 1), (None, 1)]


@covers("LOG-65")
def test_every_file_of_a_write_that_died_has_a_marker_and_none_is_left_by_others(tmp_path: Path) -> None:
    marked = 0
    for number in range(20):
        table = tiny_groups(
            HudiTable.create(tmp_path / f"t{number}", "k INT, p STRING", key="k", partition_by="p")
        )
        table.upsert([{"k": i, "p": "x"} for i in range(5)])
        root = Path(table.path)
        before = {path for path in root.rglob("*") if ".hoodie" not in path.parts}
        dying = tiny_groups(HudiTable.open(table.path, store=DyingStore(number, AFTER)))
        with contextlib.suppress(Killed):
            dying.upsert([{"k": i, "p": "xy"[i % 2]} for i in range(7)])
        files = {
            path.relative_to(root)
            for path in root.rglob("*")
            if ".hoodie" not in path.parts and path.is_file()
        }
        new = {path for path in files if root / path not in before and not path.name.endswith("metadata")}
        for instant in table.timeline().pending:
            markers = root / ".hoodie" / ".temp" / instant
            assert all((markers / f"{path}.marker.CREATE").exists() for path in new)
            marked += len(new)
        table.rollback()
        assert not table.timeline().pending
        table.upsert([{"k": 1, "p": "x"}])
        assert table.check().findings == []
    assert marked > 5
