"""Tables whose schema has changed since their files were written, by somebody who may change it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.catalog.read_plan import plan_read
from pktable.format.metadata.schema import TableSchema, encode_schema
from pktable.format.types import Field, parse_type, to_arrow
from pktable.predicate import parse
from pktable.run.spark.runner import SparkRunner
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError

from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import as_avro, as_orc, rewritten

DV = {"deletion-vectors.enabled": "true"}
Change = Callable[[TableSchema], TableSchema]


def changed(path: Path, change: Change) -> Table:
    """Let ``change`` make the next schema of the table, and open it."""
    schema = Table.open(path).schema
    later = replace(change(schema), id=schema.id + 1)
    (path / "schema" / f"schema-{later.id}").write_bytes(encode_schema(later))
    return Table.open(path)


def with_fields(*fields: tuple[int, str, str]) -> Change:
    """Return the change to these fields: id, name, type."""
    made = tuple(Field(number, name, parse_type(kind)) for number, name, kind in fields)
    return lambda schema: replace(schema, fields=made, highest_field_id=max(field.id for field in made))


def with_options(**options: str) -> Change:
    added = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return lambda schema: replace(schema, options={**schema.options, **added})


def sent_out(path: Path) -> Table:
    table = Table.open(path, spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    return table


LATER = with_fields(
    (5, "first", "STRING"), (0, "k", "INT NOT NULL"), (3, "a", "STRING"), (1, "b", "DECIMAL(12, 2)"),
    (2, "wide", "DOUBLE"), (4, "r", "ROW<y BIGINT, z INT>"),
)  # fmt: skip


def evolved(path: Path, change_files: Any = None) -> None:
    """A table with rows of two schemas: added, dropped, renamed, moved and widened columns, a vector on the old."""
    table = Table.create(
        path, "k INT, a INT, f FLOAT, b STRING, r ROW<x INT, y INT>", primary_key=["k"], options=DV
    )
    rows = [{"k": k, "a": k * 10, "f": k / 2, "b": f"b{k}", "r": {"x": k, "y": -k}} for k in range(1, 7)]
    table.upsert(pa.Table.from_pylist(rows, schema=table.schema.arrow_schema))
    x, y = table.schema.field("r").type.children
    if change_files is not None:
        rewritten(path, change_files)
    changed(path, LATER)
    kind = parse_type("ROW<y BIGINT, z INT>")
    ids = (replace(kind.children[0], id=y.id), replace(kind.children[1], id=x.id + 99))
    schema = Table.open(path).schema
    fields = (*schema.fields[:-1], replace(schema.fields[-1], type=replace(kind, children=ids)))
    (path / "schema/schema-1").write_bytes(encode_schema(replace(schema, fields=fields)))
    table = Table.open(path)
    new = {"first": "1", "k": 2, "a": "new", "b": Decimal("7.50"), "wide": 1e300, "r": {"y": 2**40, "z": 1}}
    table.upsert(pa.Table.from_pylist([new], schema=table.schema.arrow_schema))
    table.delete(where="k = 3")


EVOLVED = [
    {"first": None, "k": k, "a": f"b{k}", "b": Decimal(k * 10), "wide": k / 2, "r": {"y": -k, "z": None}}
    for k in (1, 4, 5, 6)
]
EVOLVED.insert(
    1, {"first": "1", "k": 2, "a": "new", "b": Decimal("7.50"), "wide": 1e300, "r": {"y": 2**40, "z": 1}}
)


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda one: one["k"])


CONDITIONS: dict[str, list[int]] = {
    "b = 40": [4],
    "b > 45.5": [5, 6],
    "b < 8": [2],
    "wide > 1e100": [2],
    "wide = 2.5": [5],
    "first IS NULL": [1, 4, 5, 6],
    "first IS NOT NULL": [2],
    "first = '1' OR a = 'b6'": [2, 6],
    "a LIKE 'b%'": [1, 4, 5, 6],
}


@covers("META-15", "META-16", "META-39", "META-42", "RD-6", "RD-8")
@pytest.mark.parametrize("change", [None, as_orc, as_avro], ids=["parquet", "orc", "avro"])
def test_rows_of_every_schema_read_as_the_latest_has_them(tmp_path: Path, change: Any) -> None:
    evolved(tmp_path, change)
    table = Table.open(tmp_path)
    assert in_order(table.to_arrow()) == EVOLVED
    for where, keys in CONDITIONS.items():
        assert [row["k"] for row in in_order(table.to_arrow(where=where))] == keys, where
    table.compact(full=True)
    table = Table.open(tmp_path)
    assert in_order(table.to_arrow()) == EVOLVED
    assert set(table.files().column("schema_id").to_pylist()) == {1}


@pytest.mark.spark
@covers("META-15", "META-16", "META-39", "RD-12")
@pytest.mark.parametrize("change", [None, as_orc], ids=["parquet", "orc"])
def test_rows_of_every_schema_read_so_on_spark(tmp_path: Path, change: Any) -> None:
    evolved(tmp_path, change)
    table = sent_out(tmp_path)
    assert in_order(table.to_arrow()) == EVOLVED
    for where, keys in CONDITIONS.items():
        assert [row["k"] for row in in_order(table.to_arrow(where=where))] == keys, where
    # Columns that have not changed are for Spark's own scan, whatever became of the others.
    assert in_order(table.to_arrow(columns=["k"])) == [{"k": row["k"]} for row in EVOLVED]


@covers("RD-14", "CMT-15")
def test_an_older_snapshot_has_the_columns_of_its_time(tmp_path: Path) -> None:
    evolved(tmp_path)
    table = Table.open(tmp_path)
    before = table.to_arrow(snapshot=2)
    assert before.column_names == ["k", "a", "f", "b", "r"]
    assert in_order(before)[2] == {"k": 3, "a": 30, "f": 1.5, "b": "b3", "r": {"x": 3, "y": -3}}
    assert table.to_arrow(snapshot=2, where="a = 30", columns=["b"]).to_pylist() == [{"b": "b3"}]
    assert table.count(snapshot=2) == 6
    assert table.to_arrow(snapshot=4).column_names == ["first", "k", "a", "b", "wide", "r"]
    with pytest.raises(InvalidRequestError, match="first"):
        table.to_arrow(snapshot=2, columns=["first"])


@pytest.mark.spark
@covers("RD-14", "RD-12")
def test_an_older_snapshot_has_the_columns_of_its_time_on_spark(tmp_path: Path) -> None:
    evolved(tmp_path)
    found = sent_out(tmp_path).read(snapshot=2, where="f > 2")
    assert found.columns == ["k", "a", "f", "b", "r"]
    assert sorted(row.k for row in found.collect()) == [5, 6]


@covers("META-39", "RD-8")
def test_statistics_are_not_used_where_a_conversion_changes_the_order(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": [1, 2], "v": [9, 10]}, schema=table.schema.arrow_schema))
    table = changed(tmp_path, with_fields((0, "k", "INT NOT NULL"), (1, "v", "STRING")))
    assert table.to_arrow(where="v = '9'").column("k").to_pylist() == [1]


@covers("META-39", "RD-8")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("INT", "BIGINT"), ("INT", "DECIMAL(12, 2)"), ("INT", "DOUBLE"), ("INT", "TINYINT"), ("INT", "STRING"),
        ("INT", "BOOLEAN"), ("INT", "DECIMAL(4, 1)"), ("STRING", "VARCHAR(1)"), ("STRING", "CHAR(3)"),
        ("DECIMAL(8, 3)", "DECIMAL(7, 1)"), ("DOUBLE", "FLOAT"), ("DOUBLE", "INT"), ("DATE", "TIMESTAMP(3)"),
        ("TIMESTAMP(6)", "TIMESTAMP(0)"), ("TIMESTAMP(6)", "DATE"), ("DATE", "STRING"),
    ],
)  # fmt: skip
def test_statistics_of_another_type_never_hide_a_row(tmp_path: Path, before: str, after: str) -> None:
    values: dict[str, list[Any]] = {
        "INT": [-300, -1, 0, 5, 40, 128, 1000, 70000],
        "STRING": ["", "a", "a\0", "ab", "b", "ä"],
        "DOUBLE": [-1e300, -2.5, -0.0, 0.1, 1e-300, 3e9],
        "DATE": [-1, 0, 19000],
        "DECIMAL(8, 3)": [Decimal("-1.250"), Decimal("0.049"), Decimal("99999.999")],
        "TIMESTAMP(6)": [-1_500_000, -1, 0, 1_999_999],
    }
    kind = to_arrow(parse_type(before))
    table = Table.create(
        tmp_path, f"p INT, k INT, v {before}", primary_key=["p", "k"], partition_by=["p"], options=DV
    )
    rows = pa.array(values[before], kind if "TIME" not in before and "DATE" not in before else None)
    if rows.type != kind:
        rows = rows.cast(pa.int32() if before == "DATE" else pa.int64()).cast(kind)
    # A file for each value, so that its statistics are the value.
    numbers = pa.array(range(len(rows)), pa.int32())
    table.upsert(pa.table({"p": numbers, "k": numbers, "v": rows}))
    table = changed(
        tmp_path, with_fields((0, "p", "INT NOT NULL"), (1, "k", "INT NOT NULL"), (2, "v", after))
    )
    everything = table.to_arrow()
    assert everything.num_rows == len(rows)
    for text in map(spelled, everything.column("v").to_pylist()):
        if text is None:
            continue
        for condition in (f"v = {text}", f"v < {text}", f"v >= {text}", f"v IS NULL OR v <> {text}"):
            predicate = parse(condition, table.schema.fields)
            expected = in_order(predicate.filter(everything))
            assert in_order(table.to_arrow(where=condition)) == expected, condition


def spelled(value: Any) -> str | None:
    """Return ``value`` in SQL, None if it cannot be given."""
    if value is None or str(value) in ("inf", "-inf"):
        return None
    return (
        f"'{value}'"
        if isinstance(value, dt.date)
        else str(value)
        if isinstance(value, Decimal)
        else repr(value)
    )


@covers("RD-8")
def test_statistics_of_a_widened_column_still_skip_files(tmp_path: Path) -> None:
    evolved(tmp_path)
    table = Table.open(tmp_path)

    def planned(where: str) -> int:
        predicate = parse(where, table.schema.fields)
        parts = plan_read(
            table.catalog.context,
            table.catalog.states,
            table.catalog.state(),
            fresh=False,
            predicate=predicate,
        )
        return sum(len(part.state.files) for part in parts)

    assert (planned("b > 60"), planned("b = 7.5"), planned("first = 'x'"), planned("wide < -1")) == (
        0,
        1,
        0,
        0,
    )


@covers("META-41")
@pytest.mark.parametrize("kind", ["BIGINT NOT NULL", "STRING NOT NULL"])
def test_a_key_of_another_type_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": pa.array([-1, 1], pa.int32()), "v": pa.array([1, 2], pa.int32())}))
    table = changed(tmp_path, with_fields((0, "k", kind), (1, "v", "INT")))
    where = "k = 1" if kind.startswith("BIGINT") else "k = '1'"
    for act in (table.to_arrow, lambda: table.to_arrow(where=where), lambda: table.compact(full=True)):
        with pytest.raises(
            InvalidRequestError, match="types of key columns never to change, found others in schema 0"
        ):
            act()
    assert table.to_arrow(snapshot=2).num_rows == 2


@covers("META-40")
def test_a_conversion_that_there_is_not_is_refused_by_name_and_other_columns_read(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": pa.array([1, 3], pa.int32()), "v": ["7", "7"]}))
    table = changed(tmp_path, with_fields((0, "k", "INT NOT NULL"), (1, "v", "INT")))
    for where in (None, "k = 1", "k = 2"):  # also where no row is found
        with pytest.raises(
            InvalidRequestError, match="column v: STRING in a data file cannot be converted to INT"
        ):
            table.to_arrow(where=where)
    assert table.to_arrow(columns=["k"]).to_pylist() == [{"k": 1}, {"k": 3}]


@covers("TBL-9", "TBL-5")
def test_rows_are_not_sought_by_a_hash_that_did_not_place_them(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options={**DV, "bucket": "4"})
    numbers = pa.array(range(20), pa.int32())
    table.upsert(pa.table({"k": numbers, "v": numbers}))
    table = changed(tmp_path, with_options(bucket_function__type="mod"))
    # Our files lie by the default function: a reader that hashed as if it knew would miss them, or not.
    predicate = parse("k = 5", table.schema.fields)
    parts = plan_read(
        table.catalog.context, table.catalog.states, table.catalog.state(), fresh=False, predicate=predicate
    )
    buckets = {part.state.place.bucket for part in parts}
    assert len(buckets) > 1 or table.files().num_rows == len(parts)
    assert table.to_arrow(where="k = 5").num_rows == 1


@covers("TBL-9")
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("scan.fallback-branch", "b", None), ("branch", "b", "main"), ("chain-table.enabled", "true", "false"),
        ("pk-clustering-override", "true", "false"), ("scan.mode", "from-snapshot", "latest"),
        ("fields.k.of-tomorrow", "1", None), ("type", "object-table", "materialized-table"),
    ],
)  # fmt: skip
def test_an_option_that_asks_for_other_rows_is_refused_by_name(
    tmp_path: Path, name: str, value: str, allowed: str | None
) -> None:
    table = Table.create(tmp_path, "k INT", primary_key=["k"], options=DV)
    table.upsert(pa.table({"k": pa.array([1], pa.int32())}))
    options = {**table.schema.options}
    table = changed(tmp_path, lambda schema: replace(schema, options={**options, name: value}))
    for act in (table.to_arrow, table.count, lambda: table.delete(where="k = 1")):
        with pytest.raises(UnsupportedOptionError, match=f"option {name}='{value}'"):
            act()
    if allowed:
        table = changed(tmp_path, lambda schema: replace(schema, options={**options, name: allowed}))
        assert table.to_arrow().num_rows == 1


@covers("RD-13", "RD-20", "RD-21")
def test_first_row_reads_levels_above_zero_and_no_bucket_of_waiting_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options={"write-only": "true"})
    numbers = pa.array(range(5), pa.int32())
    table.upsert(pa.table({"k": numbers, "v": numbers}))
    changed(tmp_path, with_options(write_only="false"))
    Table.open(tmp_path).compact(full=True)
    changed(tmp_path, with_options(write_only="true"))
    Table.open(tmp_path).upsert(
        pa.table({"k": pa.array([4, 5], pa.int32()), "v": pa.array([9, 9], pa.int32())})
    )
    table = changed(tmp_path, with_options(merge_engine="first-row"))
    # The upsert waits at level 0: its 4 has lost, its 5 is not there before a compaction has said so.
    assert [row["v"] for row in in_order(table.to_arrow())] == [0, 1, 2, 3, 4]
    assert table.count() == 5
    assert [row["v"] for row in in_order(table.to_arrow(fresh=True))] == [0, 1, 2, 3, 4, 9]
    state = table.catalog.state()
    waiting = {(partition, -2): files for (partition, _), files in state.files.items()}
    monkeypatch.setattr(table.catalog.states, "opened", lambda _: replace(state, files=waiting))
    assert table.to_arrow().num_rows == 0
    assert table.catalog.context.place(*next(iter(waiting))).directory.endswith("/bucket-postpone")


@covers("RD-13")
def test_a_default_read_of_first_row_merges_no_levels_above_zero(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options={"write-only": "true"})

    def upserted(*numbers: int) -> None:
        column = pa.array(numbers, pa.int32())
        Table.open(tmp_path).upsert(pa.table({"k": column, "v": column}))

    upserted(0, 1, 2)
    table.compact(full=True)
    upserted(2, 3)
    rewritten(tmp_path, lambda file, path: replace(file, level=file.level or 1))
    assert [row["k"] for row in in_order(Table.open(tmp_path).to_arrow())] == [0, 1, 2, 3]
    # Tables with first-row never have a key in two levels, so only a read that merges would hide one of these.
    table = changed(tmp_path, with_options(merge_engine="first-row"))
    assert [row["k"] for row in in_order(table.to_arrow())] == [0, 1, 2, 2, 3]
    assert table.count() == 5


@covers("CMT-15", "RD-22", "RD-28", "DV-15")
@pytest.mark.parametrize("spark", [pytest.param(True, marks=pytest.mark.spark), False], ids=["spark", "here"])
def test_snapshots_read_the_same_when_vectors_are_switched_on_and_off(tmp_path: Path, spark: bool) -> None:
    opened = sent_out if spark else Table.open
    Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options={"write-only": "true", "bucket": "3"})
    expected: dict[int, list[tuple[int, int]]] = {}

    def rows(**as_of: Any) -> list[tuple[int, int]]:
        return [(row["k"], row["v"]) for row in in_order(opened(tmp_path).to_arrow(**as_of))]

    def upserted(value: int, *keys: int) -> list[tuple[int, int]]:
        column = pa.array(keys, pa.int32())
        snapshot = opened(tmp_path).upsert(
            pa.table({"k": column, "v": pa.array([value] * len(keys), pa.int32())})
        )
        assert snapshot is not None
        expected[snapshot] = rows()
        return expected[snapshot]

    def switched(to: str) -> None:
        before = rows()
        changed(tmp_path, with_options(deletion_vectors__enabled=to))
        assert rows() == before
        assert {one: rows(snapshot=one) for one in expected} == expected

    first = upserted(0, *range(8))
    assert upserted(1, 2, 3) == [(k, int(k in (2, 3))) for k in range(8)] != first
    switched("true")
    assert upserted(2, 3, 9) == [(k, int(k in (2, 3))) for k in range(8)]
    opened(tmp_path).compact()
    compacted = [(0, 0), (1, 0), (2, 1), (3, 2), *((k, 0) for k in range(4, 8)), (9, 2)]
    assert rows() == compacted
    assert upserted(3, 0) == compacted
    switched("false")
    assert upserted(4, 1) == [(0, 3), (1, 4), *compacted[2:]]
    switched("true")
    assert not opened(tmp_path).check().findings


@covers("RD-22", "TBL-40")
@pytest.mark.parametrize("spark", [pytest.param(True, marks=pytest.mark.spark), False], ids=["spark", "here"])
def test_an_older_snapshot_is_merged_by_the_options_of_today(tmp_path: Path, spark: bool) -> None:
    opened = sent_out if spark else Table.open
    plain = {"bucket": "1", "write-only": "true"}
    Table.create(tmp_path, "k INT, v INT, s INT", primary_key=["k"], options=plain)

    def rows(snapshot: int | None = None) -> list[dict[str, Any]]:
        return list(in_order(opened(tmp_path).to_arrow(snapshot=snapshot)))

    for v, s in ((1, 9), (2, 5)):
        Table.open(tmp_path).upsert([{"k": 1, "v": v, "s": s}])
    assert rows(2) == [{"k": 1, "v": 2, "s": 5}]
    changed(tmp_path, with_options(sequence__field="s"))
    assert rows(2) == rows() == [{"k": 1, "v": 1, "s": 9}]
    renamed = (0, "k", "INT NOT NULL"), (1, "w", "INT"), (2, "t", "INT"), (3, "later", "INT")
    changed(tmp_path, with_fields(*renamed))
    changed(tmp_path, with_options(sequence__field="t,later"))
    assert rows() == [{"k": 1, "w": 1, "t": 9, "later": None}]
    assert rows(2) == [{"k": 1, "v": 1, "s": 9}]
    changed(tmp_path, with_options(sequence__field="later"))
    assert rows(2) == [{"k": 1, "v": 2, "s": 5}], "as if there were no such order"
