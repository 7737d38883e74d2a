"""Changes of the schema: rows read as a model says, whatever changes between writes, and none is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import CommitConflictError, InvalidRequestError, Table
from pktable.catalog import catalog, commit
from pktable.catalog.nested_alteration import loses_nothing
from pktable.format.types import array_of, parse_type
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.seeded import cases

COLUMNS = "k INT, a SMALLINT, b STRING"
KINDS: dict[str, dict[str, Any]] = {
    "vectors": {"primary_key": "k", "options": {"deletion-vectors.enabled": "true", "bucket": "2"}},
    "merged": {"primary_key": "k", "options": {"num-sorted-run.compaction-trigger": "3"}},
    "append": {"primary_key": None, "options": {"deletion-vectors.enabled": "true"}},
}
WIDER = {"SMALLINT": "INT", "INT": "BIGINT", "BIGINT": "DECIMAL(20, 1)", "VARCHAR(3)": "STRING"}


@dataclass
class Modelled:
    """A table, and what it must read as: its columns by id in order, and its rows by the number of their key."""

    table: Table
    key: bool
    columns: dict[int, tuple[str, str]] = field(
        default_factory=lambda: {0: ("k", "INT"), 1: ("a", "SMALLINT"), 2: ("b", "STRING")}
    )
    rows: dict[int, dict[int, Any]] = field(default_factory=dict)
    snapshots: dict[int, tuple[str, list[dict[str, Any]]]] = field(default_factory=dict)
    used: int = 2

    def alter(self, **changes: Any) -> None:
        self.table.alter(**changes)
        self.check()

    def add(self, kind: str, value: int) -> None:
        self.used += 1
        self.columns[self.used] = (f"c{self.used}", kind)
        self.alter(add=f"c{self.used} {kind}")

    def rename(self, number: int) -> None:
        identifier = list(self.columns)[number % len(self.columns)]
        old, kind = self.columns[identifier]
        self.columns[identifier] = (f"n{identifier}_{old[-3:]}", kind)
        self.alter(rename={old: self.columns[identifier][0]})

    def drop(self, number: int) -> None:
        others = [one for one in self.columns if one]
        if len(others) > 1:
            identifier = others[number % len(others)]
            name, _ = self.columns.pop(identifier)
            for row in self.rows.values():
                row.pop(identifier, None)
            self.alter(drop=name)

    def widen(self, number: int) -> None:
        able = [one for one, (_, kind) in self.columns.items() if one and kind in WIDER]
        if able:
            identifier = able[number % len(able)]
            name, kind = self.columns[identifier]
            self.columns[identifier] = (name, WIDER[kind])
            self.alter(widen={name: WIDER[kind]})

    def move(self, number: int) -> None:
        identifier = list(self.columns)[number % len(self.columns)]
        self.columns = {identifier: self.columns.pop(identifier), **self.columns}
        self.alter(move={self.columns[identifier][0]: "FIRST"})

    def write(self, keys: list[int], value: int) -> None:
        rows = []
        for key in keys if self.key else [max(self.rows, default=-1) + 1 + i for i in range(len(keys))]:
            row = {0: key} | {one: _value(kind, value) for one, (_, kind) in self.columns.items() if one}
            self.rows[key] = row
            rows.append({name: row[one] for one, (name, _) in self.columns.items()})
        (self.table.upsert if self.key else self.table.append)(rows)
        self.check()

    def delete(self, keys: list[int]) -> None:
        gone = ", ".join(map(str, keys))
        self.table.delete(where=f"{self.columns[0][0]} IN ({gone})")
        self.rows = {key: row for key, row in self.rows.items() if key not in keys}
        self.check()

    def compact(self, full: bool) -> None:
        self.table.compact(full=full)
        self.check()

    def check(self) -> None:
        """Compare the columns, the rows, those of conditions on each column, and those of former snapshots."""
        assert list(self.table.columns) == [name for name, _ in self.columns.values()]
        expected = [
            {name: row.get(one) for one, (name, _) in self.columns.items()}
            for _, row in sorted(self.rows.items())
        ]
        assert self._read() == expected
        for name, kind in self.columns.values():
            for where, holds in _conditions(name, kind):
                assert self._read(where=where) == [row for row in expected if holds(row[name])], where
        latest = self.table.catalog.snapshots.latest_id()
        if latest is not None and latest not in self.snapshots:
            self.snapshots[latest] = self.columns[0][0], expected
        for snapshot, (key, rows) in self.snapshots.items():
            assert self._read(key, snapshot=snapshot) == rows

    def _read(self, key: str | None = None, **asked: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_arrow(fresh=True, **asked).to_pylist()
        return sorted(rows, key=lambda row: row[key or self.columns[0][0]])


def _value(kind: str, value: int) -> Any:
    if kind in ("STRING", "VARCHAR(3)"):
        return f"v{value}"
    return None if value % 5 == 0 else value


def _conditions(name: str, kind: str) -> list[tuple[str, Callable[[Any], bool]]]:
    if kind in ("STRING", "VARCHAR(3)"):
        return [(f"{name} = 'v3'", lambda one: one == "v3"), (f"{name} IS NULL", lambda one: one is None)]
    return [
        (f"{name} > 5", lambda one: one is not None and one > 5),
        (f"{name} IS NULL", lambda one: one is None),
    ]


NUMBERS = st.integers(0, 9)
KEYS = st.lists(NUMBERS, min_size=1, max_size=4, unique=True)
STEPS = st.one_of(
    st.tuples(st.just("write"), KEYS, NUMBERS),
    st.tuples(st.just("write"), KEYS, NUMBERS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("compact"), st.booleans()),
    st.tuples(st.just("add"), st.sampled_from(["INT", "STRING", "VARCHAR(3)", "SMALLINT"]), NUMBERS),
    *(st.tuples(st.just(name), NUMBERS) for name in ("rename", "drop", "widen", "move")),
)


def played(table: Table, steps: list[tuple[Any, ...]]) -> None:
    modelled = Modelled(table, bool(table.schema.primary_keys))
    for name, *arguments in steps:
        getattr(modelled, name)(*arguments)
    assert not [one for one in table.check().findings if one.severity == "error"]
    assert modelled.table.columns == Table.open(table.path).columns


@covers("TBL-38", "TBL-39", "TBL-40", "TBL-41", "RD-14", "RD-8", "CMT-15")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_read_as_the_model_says_whatever_is_changed_between_writes(kind: str) -> None:
    @settings(max_examples=cases(12), deadline=None)
    @given(st.lists(STEPS, max_size=12))
    def holds(steps: list[tuple[Any, ...]]) -> None:
        with TemporaryDirectory() as folder:
            played(Table.create(f"{folder}/t", COLUMNS, **KINDS[kind]), steps)

    holds()


@pytest.mark.spark
@covers("TBL-38", "TBL-39", "TBL-40", "TBL-41", "RD-12")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_read_so_on_spark(tmp_path: Path, kind: str) -> None:
    table = Table.create(tmp_path / "t", COLUMNS, **KINDS[kind])
    steps = [
        *(("write", [1, 2, 3], 7), ("add", "INT", 0), ("rename", 0), ("write", [2, 4], 6), ("widen", 0)),
        *(("compact", True), ("delete", [1]), ("move", 2), ("drop", 1), ("write", [9], 3)),
    ]
    played(table, steps)
    on_spark = Table.open(table.path, spark=spark_session(), runner="spark").to_arrow(fresh=True)
    order = [(on_spark.column_names[0], "ascending")]
    assert on_spark.sort_by(order).equals(table.to_arrow(fresh=True).sort_by(order))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(
        tmp_path / "t",
        "p STRING, k INT, s INT, v INT NOT NULL, g DECIMAL(5, 2)",
        primary_key=["p", "k"],
        partition_by="p",
        options={"sequence.field": "s", "deletion-vectors.enabled": "true"},
    )
    table.upsert([{"p": "x", "k": one, "s": 1, "v": one, "g": None} for one in range(3)])
    return table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drop": "k"}, "column k cannot be dropped, because it is part of a key"),
        ({"drop": ["v", "s"]}, "column s cannot be dropped, because option sequence.field names it"),
        ({"drop": "none"}, "'none' does not exist"),
        ({"rename": {"p": "q"}}, "column p cannot be renamed"),
        ({"rename": {"v": "g"}}, "column g: expected a name that no other has"),
        ({"add": "v INT"}, "column v: expected a name that no other has"),
        ({"rename": {"v": ""}}, "column '': expected a name that is not empty"),
        ({"rename": {"v": "\ud800"}}, "name of a column: expected text of whole characters"),
        ({"comment": "\ud800"}, "comment: expected text of whole characters"),
        ({"set_options": {"partition.default-name": "\ud800"}}, "option partition.default-name"),
        ({"set_options": {"\ud800": "1"}}, "option: expected text of whole characters"),
        ({"add": "n INT NOT NULL"}, "column n is added as INT NOT NULL"),
        ({"widen": {"k": "BIGINT"}}, "column k cannot change, because it is part of a key"),
        ({"widen": {"v": "SMALLINT"}}, "column v cannot become SMALLINT"),
        ({"widen": {"v": "FLOAT"}}, "column v cannot become FLOAT"),
        ({"widen": {"g": "DECIMAL(6, 4)"}}, "column g cannot become"),
        ({"widen": {"v": "NUMBER"}}, "widen: column v"),
        ({"widen": {"v": 1}}, "widen: expected a dict of names and texts"),
        ({"nullable": "k"}, "column k cannot hold null"),
        ({"move": {"v": "UNDER k"}}, "expected one of"),
        ({"move": {"v": "AFTER v"}}, "expected another one of p, k, s, v, g"),
        ({"drop": "v", "rename": {"v": "w"}}, "column v is dropped"),
        ({"set_options": {"merge-engine": "aggregation"}}, "option merge-engine cannot change"),
        ({"set_options": {"sequence.field": "v"}}, "option sequence.field cannot change"),
        ({"reset_options": "sequence.field"}, "option sequence.field cannot change"),
        ({"set_options": {"bucket": "-1"}}, "option bucket cannot change"),
        (
            {"set_options": {"fields.v.ignore-retract": "true"}},
            "option fields.v.ignore-retract cannot change",
        ),
        ({"set_options": {"num-sorted-run.compaction-trigger": "2"}}, "the number of levels cannot fall"),
        ({"set_options": {"target-file-size": "much"}}, "target-file-size"),
        ({"set_options": {"no.such.option": "1"}}, "no.such.option"),
        ({"reset_options": "target-file-size"}, "option target-file-size cannot be reset"),
        ({"set_options": {"deletion-vectors.enabled": "false"}}, "cannot change while"),
    ],
    ids=str,
)
@covers("TBL-39", "TBL-40", "TBL-41", "TBL-42", "TBL-43", "TBL-44", "TBL-61", "TBL-62")
def test_what_would_lose_or_change_rows_is_refused_and_nothing_is_written(
    table: Table, change: dict[str, Any], message: str
) -> None:
    table.upsert([{"p": "x", "k": 1, "s": 2, "v": 5, "g": None}])  # with a deletion vector
    before = sorted(Path(table.path).rglob("*"))
    with pytest.raises(InvalidRequestError, match=message):
        table.alter(**change)
    assert sorted(Path(table.path).rglob("*")) == before


@covers("TBL-41")
def test_a_column_that_gets_the_type_that_it_has_changes_nothing(table: Table) -> None:
    before = table.schema
    table.alter(widen={"k": "INT", "v": "INT", "g": "DECIMAL(5, 2)"})
    assert table.schema == before
    assert len(list(Path(table.path, "schema").iterdir())) == 1


@covers("TBL-40", "TBL-38")
def test_names_in_keys_and_options_follow_a_rename(tmp_path: Path) -> None:
    options = {
        "merge-engine": "partial-update",
        "bucket-key": "a",
        "fields.g,h.sequence-group": "v, w",
        "fields.v.aggregate-function": "sum",
        "fields.default-aggregate-function": "last_value",
    }
    table = Table.create(
        tmp_path / "t", "a INT, b INT, g INT, h INT, v INT, w INT", primary_key=["a", "b"], options=options
    )
    table.upsert([{"a": 1, "b": 1, "g": 1, "h": 1, "v": 1, "w": 1}])
    table.alter(rename={"a": "a2", "h": "h2", "v": "v2", "w": "w2"}, comment="after")
    assert table.schema.primary_keys == ("a2", "b")
    assert table.schema.comment == "after"
    assert {
        "bucket-key": "a2",
        "fields.g,h2.sequence-group": "v2,w2",
        "fields.v2.aggregate-function": "sum",
    }.items() <= (table.options.items())
    table.upsert([{"a2": 1, "b": 1, "g": 2, "h2": 2, "v2": 4, "w2": 7}])
    assert table.to_arrow().to_pylist() == [{"a2": 1, "b": 1, "g": 2, "h2": 2, "v2": 5, "w2": 7}]


@covers("TBL-39")
def test_a_column_that_was_dropped_does_not_come_back(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, a INT", primary_key="k")
    table.alter(add="c INT, r ROW<x INT>")
    table.upsert([{"k": 1, "a": 1, "c": 7, "r": {"x": 5}}])
    table.alter(drop=["c", "r"])
    table.alter(add="c INT, r ROW<x INT>, y INT")
    assert table.to_arrow().to_pylist() == [{"k": 1, "a": 1, "c": None, "r": None, "y": None}]
    assert table.to_arrow(snapshot=1).to_pylist() == [{"k": 1, "a": 1, "c": 7, "r": {"x": 5}}]


@covers("TBL-43")
def test_a_new_column_brings_its_function(tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
    table = Table.create(tmp_path / "t", "k INT, a INT", primary_key="k", options=options)
    table.upsert([{"k": 1, "a": 1}])
    table.alter(add="m INT", set_options={"fields.m.aggregate-function": "max"})
    for value in (5, 3):
        table.upsert([{"k": 1, "a": 1, "m": value}])
    assert table.to_arrow().to_pylist() == [{"k": 1, "a": 3, "m": 5}]


@covers("TBL-38", "TBL-19")
def test_the_loser_of_a_race_is_told_and_who_has_the_table_open_reads_on(table: Table) -> None:
    other, third = Table.open(table.path), Table.open(table.path)
    put = LocalFileIO.put_if_absent

    class Late(LocalFileIO):
        def put_if_absent(self, path: str, data: bytes) -> bool:
            if "/schema/" in path:
                other.alter(add="theirs INT")
            return put(self, path, data)

    late = Table.open(table.path, store=Late())
    with pytest.raises(CommitConflictError, match="another process has changed the schema"):
        late.alter(add="ours INT")
    assert list(Table.open(table.path).columns)[-1] == "theirs"
    with pytest.raises(InvalidRequestError, match="the schema has changed since"):
        third.alter(add="more INT")
    with pytest.raises(InvalidRequestError, match="the schema has changed since"):
        third.upsert([{"p": "x", "k": 1, "s": 9, "v": 9, "g": None}])
    other.upsert([{"p": "x", "k": 1, "s": 9, "v": 9, "g": None, "theirs": 1}])
    assert third.count(where="v = 9") == 1


@covers("TBL-19")
@pytest.mark.parametrize("kind", KINDS)
def test_a_write_that_began_before_a_change_of_the_schema_is_refused_and_leaves_no_file(
    tmp_path: Path, kind: str
) -> None:
    table = Table.create(tmp_path / "t", COLUMNS, **KINDS[kind])
    table.put([{"k": 1, "a": 1, "b": "x"}])

    def slow() -> Iterator[dict[str, Any]]:
        yield {"k": 2, "a": 2, "b": "y"}
        Table.open(table.path).alter(add="n INT")

    with pytest.raises(InvalidRequestError, match="the schema has changed since"):
        table.put(slow())
    after = Table.open(table.path)
    assert after.to_arrow().to_pylist() == [{"k": 1, "a": 1, "b": "x", "n": None}]
    assert not after.check().findings


@covers("BRN-4")
def test_a_branch_of_a_tag_has_the_schemas_of_its_files_though_the_last_commit_is_of_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="k")
    other = Table.open(table.path)
    other.alter(add="n INT")
    other.upsert([{"k": 1, "a": 1, "b": "x", "n": 7}])
    monkeypatch.setattr(
        commit, "expect_latest_schema", lambda _: None
    )  # as if it had looked before the change
    monkeypatch.setattr(catalog, "expect_latest_schema", lambda _: None)
    table.upsert([{"k": 2, "a": 2, "b": "y"}])
    other.create_tag("last")
    other.create_branch("b", tag="last")
    assert other.branch("b").to_arrow()["n"].to_pylist() == [7, None]


@covers("TBL-38")
def test_a_lost_answer_is_no_lost_race(table: Table) -> None:
    put = LocalFileIO.put_if_absent

    class Unanswered(LocalFileIO):
        lost = True

        def put_if_absent(self, path: str, data: bytes) -> bool:
            done = put(self, path, data)
            if "/schema/" in path and self.lost:
                self.lost = False
                raise OSError("connection reset")
            return done

    unanswered = Table.open(table.path, store=Unanswered())
    unanswered.alter(add="n INT")
    assert list(unanswered.columns) == list(Table.open(table.path).columns) == ["p", "k", "s", "v", "g", "n"]
    unanswered.alter(comment={"n": "text"})
    assert unanswered.schema.field("n").description == "text"
    schemas = list(Path(table.path, "schema").iterdir())
    unanswered.alter(comment={"n": "text"})  # changes nothing
    assert list(Path(table.path, "schema").iterdir()) == schemas


@covers("TBL-44", "RD-22")
def test_vectors_are_switched_after_a_full_compaction(table: Table) -> None:
    table.compact(full=True)
    for to in ("false", "true"):
        before = table.to_arrow().sort_by("k")
        table.alter(set_options={"deletion-vectors.enabled": to}, nullable="v")
        assert table.to_arrow().sort_by("k").to_pylist() == before.to_pylist()
        table.upsert([{"p": "x", "k": 1, "s": 5, "v": None, "g": None}])
        assert table.count(where="v IS NULL") == 1
        table.compact(full=True)


@covers("TBL-41")
@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        *(
            ("TINYINT", "SMALLINT", True),
            ("BIGINT", "INT", False),
            ("INT", "DOUBLE", True),
            ("INT", "INT", False),
        ),
        *(("BIGINT", "DOUBLE", False), ("SMALLINT", "FLOAT", True), ("INT", "DECIMAL(10, 0)", True)),
        *(
            ("INT", "DECIMAL(10, 1)", False),
            ("DECIMAL(5, 2)", "DECIMAL(7, 4)", True),
            ("FLOAT", "DOUBLE", True),
        ),
        *(
            ("DECIMAL(5, 2)", "DECIMAL(6, 4)", False),
            ("DECIMAL(5, 2)", "DOUBLE", False),
            ("DOUBLE", "FLOAT", False),
        ),
        *(
            ("VARCHAR(3)", "VARCHAR(4)", True),
            ("VARCHAR(4)", "VARCHAR(3)", False),
            ("CHAR(3)", "VARCHAR(3)", True),
        ),
        *(("CHAR(3)", "CHAR(5)", False), ("VARCHAR(3)", "STRING", True), ("STRING", "VARCHAR(9)", False)),
        *(("BINARY(3)", "BYTES", True), ("BYTES", "BINARY(3)", False), ("DATE", "TIMESTAMP(3)", True)),
        *(
            ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
            ("TIMESTAMP(6)", "TIMESTAMP(3)", False),
            ("TIMESTAMP(6)", "TIMESTAMP(7)", False),
            ("TIMESTAMP(7)", "TIMESTAMP(9)", True),
            ("DATE", "TIMESTAMP(6)", True),
            ("DATE", "TIMESTAMP(7)", False),
            ("DATE", "TIMESTAMP(9)", False),
            ("INT", "STRING", False),
        ),
        *(("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", False), ("ARRAY<INT>", "ARRAY<BIGINT>", False)),
    ],
)
def test_a_type_may_become_one_that_holds_all_its_values(before: str, after: str, allowed: bool) -> None:
    assert loses_nothing(parse_type(before), parse_type(after)) == allowed


@covers("TBL-19", "META-39")
@pytest.mark.parametrize(
    ("before", "after", "fits", "more"),
    [
        ("INT", "BIGINT", [5, None], 1 << 40),
        ("INT", "DOUBLE", [5, None], 0.5),
        ("FLOAT", "DOUBLE", [0.5, float("nan")], 0.1),
        ("DECIMAL(9, 2)", "DECIMAL(20, 2)", [Decimal("1.25"), None], Decimal("12345678.00")),
        ("VARCHAR(2)", "STRING", ["ab", None], "abc"),
        ("CHAR(2)", "STRING", ["a ", None], "abc"),
        ("VARBINARY(2)", "BYTES", [b"ab", None], b"abc"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", [1_000_000, None], 1_001_000),
        ("DATE", "TIMESTAMP(3)", [0, None], 1_000_000),
        ("ARRAY<ROW<n INT>>", "BIGINT", [[{"n": 5}, None], None], [{"n": 1 << 40}]),
    ],
)
def test_a_handle_from_before_a_type_was_widened_reads_no_other_value(
    tmp_path: Path, before: str, after: str, fits: list[Any], more: Any
) -> None:
    path = "v.element.n" if before.startswith("ARRAY") else "v"
    Table.create(tmp_path, f"k INT, v {before}", primary_key=["k"])
    stale = Table.open(tmp_path)
    table = Table.open(tmp_path)
    table.alter(widen={path: after})

    def put(k: int, value: Any) -> None:
        kind = table.schema.field("v").type
        table.upsert(
            pa.table({"k": array_of([k], table.schema.field("k").type), "v": array_of([value], kind)})
        )

    for k, value in enumerate(fits):
        put(k, value)
    assert repr(stale.to_arrow()["v"].to_pylist()) == repr(
        array_of(fits, stale.schema.field("v").type).to_pylist()
    )
    put(2, more)
    with pytest.raises(InvalidRequestError, match=r"when the table was opened; open it again"):
        stale.to_arrow()
    assert stale.count() == 3
    assert Table.open(tmp_path).to_arrow(where="k = 2")["v"].to_pylist() != [None]
