"""MERGE and UPDATE of drawn rows by drawn clauses, locally and on Spark; what is refused; what is read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.merge_builder import MergeBuilder
from pktable_spec.covers import covers

from model_tests.statements.plain import Clause, Row, SeveralMatchError, Sql, merged

COLUMNS = "id BIGINT, g INT, n INT, s STRING"
DV = {"deletion-vectors.enabled": "true", "bucket": "2"}
SCHEMA = pa.schema({"id": pa.int64(), "g": pa.int32(), "n": pa.int32(), "s": pa.string()})


def known(function: Any) -> Any:
    """Return ``function`` of values that are not None, else None."""

    def of(row: Row, other: Row) -> Any:
        try:
            return function(row, other)
        except TypeError:  # of None
            return None

    return of


ON = [
    ("target.id = source.id", known(lambda t, s: t["id"] == s["id"])),
    ("source.g = target.g", lambda t, s: t["g"] is not None and t["g"] == s["g"]),
    ("target.id = source.id AND target.n > 0", lambda t, s: t["id"] == s["id"] and (t["n"] or 0) > 0),
    (
        "target.g = source.g AND target.n < source.n",
        known(lambda t, s: t["g"] is not None and t["g"] == s["g"] and t["n"] < s["n"]),
    ),
]
T_CONDITIONS = [
    Sql("target.n > 1", known(lambda t, s: t["n"] > 1)),
    Sql("target.s IS NULL", lambda t, s: t["s"] is None),
    Sql("target.id % 2 = 0", lambda t, s: t["id"] % 2 == 0),
]
S_CONDITIONS = [
    Sql("source.n > 1", known(lambda t, s: s["n"] > 1)),
    Sql("source.s IS NOT NULL", lambda t, s: s["s"] is not None),
]
BOTH_CONDITIONS = [
    Sql("source.n >= target.n", known(lambda t, s: s["n"] >= t["n"])),
    *T_CONDITIONS,
    *S_CONDITIONS,
]
T_VALUES = {
    "n": [Sql("target.n + 1", known(lambda t, s: t["n"] + 1)), Sql("0", lambda t, s: 0)],
    "s": [Sql("upper(target.s)", known(lambda t, s: t["s"].upper() if t["s"] is not None else None))],
}
S_VALUES = {
    "n": [Sql("source.n", lambda t, s: s["n"]), Sql("NULL", lambda t, s: None)],
    "s": [Sql("source.s || '!'", known(lambda t, s: s["s"] + "!"))],
    "g": [Sql("source.g", lambda t, s: s["g"])],
}


def values_of(*choices: dict[str, list[Sql]]) -> st.SearchStrategy[dict[str, Sql]]:
    all_of: dict[str, list[Sql]] = {}
    for choice in choices:
        for name, found in choice.items():
            all_of[name] = [*all_of.get(name, []), *found]
    some = st.lists(st.sampled_from(sorted(all_of)), min_size=1, unique=True)
    return some.flatmap(
        lambda names: st.fixed_dictionaries({name: st.sampled_from(all_of[name]) for name in names})
    )


INSERTED = values_of(S_VALUES).map(lambda values: {"id": Sql("source.id", lambda t, s: s["id"]), **values})


def clauses_of(when: str) -> st.SearchStrategy[list[Clause]]:
    """Clauses about one kind of rows, of which only the last has no condition."""
    conditions, values = {
        "matched": (BOTH_CONDITIONS, st.one_of(st.none(), values_of(T_VALUES, S_VALUES))),
        "not_matched": (S_CONDITIONS, INSERTED),
        "not_matched_by_source": (T_CONDITIONS, st.one_of(st.none(), values_of(T_VALUES))),
    }[when]
    first = st.lists(st.builds(Clause, st.just(when), st.sampled_from(conditions), values), max_size=2)
    last = st.lists(st.builds(Clause, st.just(when), st.none(), values), max_size=1)
    return st.tuples(first, last).map(lambda found: [*found[0], *found[1]])


CLAUSES = st.tuples(*(clauses_of(w) for w in ("matched", "not_matched", "not_matched_by_source"))).map(
    lambda found: [clause for part in found for clause in part]
)
ROW = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "g": st.sampled_from([None, 1, 2]),
        "n": st.sampled_from([None, 0, 1, 2, 3]),
        "s": st.sampled_from([None, "a", "b"]),
    }
)
TARGET = st.lists(ROW, max_size=6, unique_by=lambda row: row["id"])
SOURCE = st.lists(ROW, max_size=5, unique_by=lambda row: (row["id"], row["g"]))


def with_clauses(builder: MergeBuilder, clauses: list[Clause]) -> MergeBuilder:
    for clause in clauses:
        condition = clause.condition.text if clause.condition else None
        values = {name: value.text for name, value in (clause.values or {}).items()}
        match clause.when, clause.values is None:
            case "matched", True:
                builder = builder.when_matched_delete(condition)
            case "matched", False:
                builder = builder.when_matched_update(values, condition)
            case "not_matched", _:
                builder = builder.when_not_matched_insert(values, condition)
            case _, True:
                builder = builder.when_not_matched_by_source_delete(condition)
            case _:
                builder = builder.when_not_matched_by_source_update(values, condition)
    return builder


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def rows_of(table: Table) -> list[Row]:
    return in_order(table.to_arrow(fresh=True).to_pylist())


def expect_merged(
    table: Table, target: list[Row], source: Any, rows: list[Row], on: Any, clauses: list[Clause]
) -> None:
    """The merge leaves what plain Python makes of it, or is refused where that refuses; then nothing has changed."""
    if table.schema.primary_keys:
        table.overwrite(pa.Table.from_pylist(target, SCHEMA))
    else:
        table.delete(where="TRUE")
        table.compact(full=True)
        table.append(pa.Table.from_pylist(target, SCHEMA))
    before = table.catalog.state().id
    builder = with_clauses(table.merge(source, on=on[0]), clauses)
    try:
        expected = merged(target, rows, on[1], clauses, by_key=bool(table.schema.primary_keys))
    except SeveralMatchError:
        with pytest.raises(InvalidRequestError, match=r"several source rows change the row with (id|g) = "):
            builder.execute()
        assert table.catalog.state().id == before
        return
    if not clauses:
        with pytest.raises(InvalidRequestError, match="add a clause"):
            builder.execute()
        return
    builder.execute()
    assert rows_of(table) == in_order(expected)
    assert in_order(table.to_arrow().to_pylist()) == rows_of(table)


@pytest.fixture(scope="module")
def local_table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    return Table.create(tmp_path_factory.mktemp("merge") / "t", COLUMNS, primary_key="id", options=DV)


@pytest.fixture(scope="module", params=["true", "false"], ids=["vectors", "copy on write"])
def append_table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    options = {"deletion-vectors.enabled": request.param}
    return Table.create(tmp_path_factory.mktemp("merge") / "t", COLUMNS, primary_key=None, options=options)


@covers("STM-1", "STM-2", "STM-3", "STM-5", "APP-12", "APP-31")
@settings(max_examples=50)
@given(st.lists(ROW, max_size=6), SOURCE, st.sampled_from(ON), CLAUSES)
def test_a_merge_into_an_append_table_does_what_its_clauses_say(
    append_table: Table, target: list[Row], source: list[Row], on: Any, clauses: list[Clause]
) -> None:
    expect_merged(append_table, target, pa.Table.from_pylist(source, SCHEMA), source, on, clauses)


@covers("STM-1", "STM-2", "STM-3", "STM-5", "STM-8")
@settings(max_examples=80)
@given(TARGET, SOURCE, st.sampled_from(ON), CLAUSES)
def test_a_merge_does_what_its_clauses_say(
    local_table: Table, target: list[Row], source: list[Row], on: Any, clauses: list[Clause]
) -> None:
    expect_merged(local_table, target, pa.Table.from_pylist(source, SCHEMA), source, on, clauses)


@covers("STM-1", "STM-4")
@settings(max_examples=60)
@given(TARGET, values_of(T_VALUES), st.one_of(st.none(), st.sampled_from(T_CONDITIONS)))
def test_an_update_changes_the_rows_of_its_condition(
    local_table: Table, target: list[Row], values: dict[str, Sql], where: Sql | None
) -> None:
    local_table.overwrite(pa.Table.from_pylist(target, SCHEMA))
    texts = {name: value.text.replace("target.", "") for name, value in values.items()}
    local_table.update(texts, where=where.text.replace("target.", "") if where else None)
    clause = Clause("not_matched_by_source", where, values)
    expected = merged(target, [], lambda t, s: False, [clause])
    assert rows_of(local_table) == in_order(expected)


@covers("STM-1")
@pytest.mark.parametrize("source", [[], pa.table({})], ids=["list", "table"])
def test_a_source_without_rows_or_columns_matches_nothing(tmp_path: Path, source: Any) -> None:
    table = Table.create(tmp_path / "t", COLUMNS, primary_key=["id"], options=DV)
    table.upsert([{"id": 1, "g": 1, "n": 1, "s": "a"}])
    merge = table.merge(source, on="id").when_matched_delete().when_not_matched_insert_all()
    assert merge.execute() is None
    assert table.count() == 1
    merge.when_not_matched_by_source_delete().execute()
    assert table.count() == 0


@covers("STM-4")
def test_values_of_every_kind_are_stored_exactly(tmp_path: Path) -> None:
    columns = "id INT, d DECIMAL(10, 2), t TIMESTAMP(3), day DATE, f FLOAT, b BYTES, c CHAR(3)"
    columns += ", tiny TINYINT, a ARRAY<INT>"
    table = Table.create(tmp_path / "t", columns, primary_key="id", options=DV)
    empty = dict.fromkeys(("d", "t", "day", "f", "b", "c", "tiny", "a"))
    table.upsert([{"id": 1, **empty}])
    given_values = {
        "d": Decimal("1.25"),
        "t": dt.datetime(2024, 1, 2, 3, 4, 5),
        "day": "'2024-02-29'",
        "f": 0.5,
        "b": b"\0\1",
        "c": "'ab'",
        "tiny": "100 + 27",
    }
    table.update(given_values)
    (row,) = table.to_arrow().to_pylist()
    assert row == {
        "id": 1,
        "d": Decimal("1.25"),
        "t": dt.datetime(2024, 1, 2, 3, 4, 5),
        "day": dt.date(2024, 2, 29),
        "f": 0.5,
        "b": b"\0\1",
        "c": "ab",
        "tiny": 127,
        "a": None,
    }
    before = table.catalog.state().id
    for wrong in ({"tiny": "tiny + 1"}, {"d": "d / 0.001"}, {"f": "0.1"}, {"c": "1"}, {"a": "id"}):
        with pytest.raises(InvalidRequestError):
            table.update(wrong)
    assert table.catalog.state().id == before
    table.merge([{"id": 1, "a": [1, None]}], on="id").when_matched_update({"a": "source.a"}).execute()
    assert table.to_arrow().to_pylist()[0]["a"] == [1, None]


@covers("STM-4", "STM-9")
@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda t: t.update({"id": "1"}), "set: id is part of the primary key and cannot be updated"),
        (lambda t: t.update({"x": 1}), "set: column x is not in the table; columns are id, g, n, s"),
        (
            lambda t: t.update({"n": "'a'"}),
            "set: n = \"'a'\": column n is INT, the value is STRING; write CAST.'a' AS INT.",
        ),
        (lambda t: t.update({"n": "1 +"}), r"(?s)set: n = '1 [+]'(?!.*a text needs quotes)"),
        (lambda t: t.update({"s": "hello world"}), "; a text needs quotes of its own: \"'hello world'\"$"),
        (lambda t: t.update({}), "set: no column to update"),
        (lambda t: t.update("n = 1"), "set: expected a dict of columns and values, found str"),
        (
            lambda t: t.update({"n": 1}, where="target.n = 1"),
            "target is not known here; columns are id, g, n, s",
        ),
        (lambda t: t.merge([{"id": 1}], on="nothing"), "on 'nothing': column 'nothing' does not exist"),
        (lambda t: t.merge([{"id": 1}], on=["n"]), "on: expected columns of target and source, found n"),
        (lambda t: t.merge([{"id": 1}], on=[]), "on: expected columns of target and source, found none"),
        (
            lambda t: t.merge([{"id": 1, "more": object()}], on="id"),
            "column more: Arrow finds no type for its values",
        ),
        (lambda t: t.merge(5, on="id"), "source: expected a pyarrow.Table"),
        (
            lambda t: t.merge([{"id": 1, "n": 1}], on="id").when_matched_update({"n": "n"}),
            "column 'n' is ambiguous; columns are target.n, source.n",
        ),
        (
            lambda t: t.merge([{"id": 1, "n": 1}], on="id").when_not_matched_insert({"id": "target.id"}),
            "'target.id': target is not known here; columns are source.id, source.n",
        ),
        (
            lambda t: t.merge([{"id": 1, "n": 1}], on="id").when_not_matched_insert({"n": "source.n"}),
            "when_not_matched_insert: primary-key column id has no value",
        ),
        (
            lambda t: t.merge([{"id": 1}], on="id").when_matched_update_all(),
            "when_matched_update_all: the source has no column g, n, s; it has id",
        ),
        (
            lambda t: t.merge([{"id": 1}], on="id").when_matched_delete().when_matched_update({"n": 1}),
            "when_matched_update: a clause without a condition comes before it, which takes all rows",
        ),
        (
            lambda t: t.merge([{"id": 1}], on="target.id > source.id").when_matched_delete().execute(),
            "merge: on needs an equality of a target column and a source column",
        ),
        (
            lambda t: t.merge(pa.table([[1], [2]], names=["id", "id"]), on="id"),
            "source: two columns have one name; columns are id, id",
        ),
        (
            lambda t: t.merge(pa.table({"id": [1], "n": pa.array([1], pa.duration("s"))}), on="id"),
            r"source: column n: Arrow type duration\[s\]: no column type holds all of its values",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(local_table: Table, build: Any, problem: str) -> None:
    before = local_table.catalog.state().id
    with pytest.raises(InvalidRequestError, match=problem) as raised:
        build(local_table)
    assert "\n" not in str(raised.value)
    assert local_table.catalog.state().id == before


@covers("STM-4")
def test_a_value_that_fails_for_a_row_is_named(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=DV)
    table.upsert([{"id": 1, "g": 1, "n": 0, "s": "a"}])
    with pytest.raises(InvalidRequestError, match=r"^set: n = 'CAST\(1 / n AS INT\)': divide by zero$"):
        table.update({"g": "g + 1", "n": "CAST(1 / n AS INT)"})
    source = [{"id": 1}]
    for build, problem in (
        (
            table.merge(source, on="1 / target.n = source.id").when_matched_delete(),
            "on '1 / target.n = source.id'",
        ),
        (
            table.merge(source, on="target.id = source.id AND 1 % n = 1").when_matched_delete(),
            "on 'target.id = source.id AND 1 % n = 1'",
        ),
        (table.merge(source, on="id").when_matched_delete("1 % n = 1"), "when_matched_delete '1 % n = 1'"),
        (
            table.merge(source, on="id").when_matched_update({"g": 1, "n": "1 % n"}),
            "when_matched_update: n = '1 % n'",
        ),
        (
            table.merge([{"id": 2}], on="id").when_not_matched_insert(
                {"id": "source.id", "n": "1 % (source.id - 2)"}
            ),
            r"when_not_matched_insert: n = '1 % \(source.id - 2\)'",
        ),
        (
            table.merge([{"id": 2}], on="id").when_not_matched_by_source_update({"n": "1 % n"}),
            "when_not_matched_by_source_update: n = '1 % n'",
        ),
    ):
        with pytest.raises(InvalidRequestError, match=f"^{problem}: "):
            build.execute()
    assert table.catalog.state().id == 2


@covers("STM-1")
def test_a_source_of_any_form_with_aliases(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", COLUMNS, primary_key="id", options=DV)
    table.upsert([{"id": 1, "g": 1, "n": 1, "s": "a"}])
    import pandas as pd
    import polars as pl

    for source in (
        [{"id": 1, "more": 5}],
        {"id": [1], "more": [5]},
        pd.DataFrame({"id": [1], "more": [5]}),
        pl.DataFrame({"id": [1], "more": [5]}),
        pa.table({"id": pa.array([1], pa.uint8()), "more": pa.array([5]).dictionary_encode()}),
    ):
        table.update({"n": 0})
        builder = table.merge(source, on="t.id = s.id", source_alias="s", target_alias="t")
        builder.when_matched_update({"n": "s.more + t.g"}, condition="more > 0").execute()
        assert table.to_arrow().column("n").to_pylist() == [6]


@covers("STM-1", "TBL-8")
def test_a_row_of_a_source_has_all_fields_in_any_order(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, r ROW<a INT, b STRING>", primary_key="k", options=DV)
    whole = {"k": 1, "r": {"b": "y", "a": 5}}
    table.merge([whole], on="k").when_not_matched_insert_all().execute()
    assert table.to_arrow().to_pylist() == [whole]
    for lacking in ({"a": 6}, {}, {"a": 6, "b": "x", "c": 1}):
        with pytest.raises(InvalidRequestError, match=r"source: column r, row 1: expected ROW<"):
            table.merge([whole, {"k": 2, "r": lacking}], on="k").when_not_matched_insert_all().execute()


@covers("STM-5")
def test_a_merge_reads_only_the_files_its_source_can_match(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "id BIGINT, n INT", primary_key="id", options={**DV, "bucket": "8"})
    table.upsert(pa.table({"id": pa.array(range(1000), pa.int64()), "n": pa.array([0] * 1000, pa.int32())}))
    read: list[int] = []
    runner = table.runner
    original = runner.changes

    def changes(context: Any, query: Any, statement: Any, source: Any) -> Any:
        read.append(len(query.parts))
        return original(context, query, statement, source)

    runner.changes = changes  # type: ignore[method-assign]
    matched = table.merge([{"id": 7, "n": 1}], on="id").when_matched_update_all()
    matched.execute()
    matched.when_not_matched_by_source_update({"n": 5}).execute()
    table.merge([{"id": 7}], on="target.id = source.id AND target.id < 0").when_matched_delete().execute()
    assert read == [1, 8, 0]
    assert table.count(where="n = 1") == 1
    assert table.count(where="n = 5") == 999


@pytest.mark.parametrize("name", ["b`k", "a.b", "`"])
def test_a_key_of_any_name_is_merged_on(tmp_path: Path, name: str) -> None:
    table = Table.create(
        tmp_path / "t", pa.schema([(name, pa.int64()), ("v", pa.int64())]), primary_key=[name]
    )
    table.upsert([{name: 1, "v": 1}, {name: 2, "v": 2}])
    table.merge([{name: 1, "v": 9}], on=[name]).when_matched_update_all().execute()
    table.overwrite([{name: 2, "v": 8}], where="v < 9")
    assert sorted(row["v"] for row in table.to_arrow().to_pylist()) == [8, 9]
