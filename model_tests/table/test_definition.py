"""Definitions and rows: a table refuses those that break a rule, and a refusal writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, NotATableError, Table, UnsupportedOptionError
from pktable.format.metadata.schema import encode_schema
from pktable_spec.covers import covers

from model_tests.backends import wrong_requests


def files_under(path: Path) -> set[str]:
    return {str(found.relative_to(path)) for found in path.rglob("*")}


@covers("TBL-1", "TBL-12", "TBL-16")
@pytest.mark.parametrize(("columns", "keys", "partitions", "message"), wrong_requests.KEYS)
def test_a_definition_that_breaks_a_rule_is_refused(
    tmp_path: Path, columns: str, keys: list[str], partitions: list[str], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        Table.create(tmp_path / "t", columns, primary_key=keys, partition_by=partitions)
    assert files_under(tmp_path) == set()


DEFINED = (
    "id BIGINT, city STRING, tags ARRAY<INT>, place ROW<x INT, y ROW<z TIMESTAMP(6)>>, at TIMESTAMP_LTZ(6)"
)
ARROW = pa.schema(
    {
        "id": pa.int64(),
        "city": pa.string(),
        "tags": pa.list_(pa.int32()),
        "place": pa.struct({"x": pa.int32(), "y": pa.struct({"z": pa.timestamp("us")})}),
        "at": pa.timestamp("us", "UTC"),
    }
)


class Exported:
    """Nothing but the protocol that Arrow schemas are exchanged by."""

    def __arrow_c_schema__(self) -> object:
        return ARROW.__arrow_c_schema__()


def spark_definition() -> Any:
    from pyspark.sql import types as st

    inner = st.StructType().add("z", st.TimestampNTZType())
    return (
        st.StructType()
        .add("id", st.LongType(), nullable=False)
        .add("city", st.StringType())
        .add("tags", st.ArrayType(st.IntegerType()))
        .add("place", st.StructType().add("x", st.IntegerType()).add("y", inner))
        .add("at", st.TimestampType())
    )


def polars_definition() -> Any:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    inner = polars.Struct({"z": polars.Datetime("us")})
    return polars.Schema(
        {
            "id": polars.Int64,
            "city": polars.String,
            "tags": polars.List(polars.Int32),
            "place": polars.Struct({"x": polars.Int32, "y": inner}),
            "at": polars.Datetime("us", "UTC"),
        }
    )


DEFINITIONS: dict[str, Callable[[], Any]] = {
    "Arrow": lambda: ARROW,
    "an Arrow struct": lambda: pa.struct(list(ARROW)),
    "an Arrow field": lambda: pa.field("table", pa.struct(list(ARROW))),
    "a capsule": Exported,
    "a dict of texts": lambda: {
        "id": "bigint not null",
        "city": "STRING",
        "tags": "ARRAY<INT>",
        "place": "STRUCT<x: INT, y: STRUCT<z: TIMESTAMP>>",
        "at": "TIMESTAMP WITH LOCAL TIME ZONE",
    },
    "a dict of Arrow": lambda: {field.name: field.type for field in ARROW},
    "polars": polars_definition,
    "Spark": spark_definition,
}


@covers("TBL-1", "META-1")
@pytest.mark.parametrize("form", DEFINITIONS)
def test_every_form_of_a_definition_defines_the_same_columns(tmp_path: Path, form: str) -> None:
    expected = Table.create(tmp_path / "sql", DEFINED, primary_key=["id"]).schema
    found = Table.create(tmp_path / "t", DEFINITIONS[form](), primary_key="id").schema
    assert (found.fields, found.highest_field_id) == (expected.fields, expected.highest_field_id)


@covers("TBL-1")
def test_a_spark_definition_keeps_nullability_parameters_and_comments(tmp_path: Path) -> None:
    from pyspark.sql import types as st

    struct = (
        st.StructType()
        .add("k k", st.ShortType(), nullable=False, metadata={"comment": "the reader's `key`"})
        .add("raw", st.BinaryType())
        .add("amount", st.DecimalType(12, 3), nullable=False)
        .add("code", st.CharType(3))
        .add("name", st.VarcharType(9))
        .add("list", st.ArrayType(st.StructType().add("a.b", st.DateType(), nullable=False), False))
        .add("map", st.MapType(st.ByteType(), st.DoubleType(), False))
        .add("ok", st.BooleanType())
        .add("ratio", st.FloatType())
    )
    fields = Table.create(tmp_path, struct, primary_key="k k").schema.fields
    assert fields[0].description == "the reader's `key`"
    assert {field.name: str(field.type) for field in fields} == {
        "k k": "SMALLINT NOT NULL",
        "raw": "BYTES",
        "amount": "DECIMAL(12, 3) NOT NULL",
        "code": "CHAR(3)",
        "name": "VARCHAR(9)",
        "list": "ARRAY<ROW<`a.b` DATE NOT NULL> NOT NULL>",
        "map": "MAP<TINYINT NOT NULL, DOUBLE NOT NULL>",
        "ok": "BOOLEAN",
        "ratio": "FLOAT",
    }


@covers("TBL-1", "TBL-61")
@pytest.mark.parametrize(("columns", "message"), wrong_requests.COLUMNS)
def test_columns_that_define_no_table_are_refused_in_plain_words(
    tmp_path: Path, columns: Any, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{message}"):
        Table.create(tmp_path / "t", columns, primary_key="k")
    assert files_under(tmp_path) == set()


@covers("TBL-12", "TBL-16")
def test_one_key_or_partition_column_may_be_given_as_text(tmp_path: Path) -> None:
    schema = Table.create(tmp_path / "one", "id INT, v INT", primary_key="id").schema
    assert schema.primary_keys == ("id",)
    schema = Table.create(
        tmp_path / "two", "id INT, day INT", primary_key=("id", "day"), partition_by="day"
    ).schema
    assert (schema.primary_keys, schema.partition_keys) == (("id", "day"), ("day",))


@covers("TBL-12", "TBL-16")
@pytest.mark.parametrize(("keys", "partitions", "message"), wrong_requests.KEYS_OF_DAYS)
def test_keys_that_are_no_columns_are_refused_in_plain_words(
    tmp_path: Path, keys: Any, partitions: Any, message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{message}"):
        Table.create(tmp_path / "t", wrong_requests.DAYS, primary_key=keys, partition_by=partitions)
    assert files_under(tmp_path) == set()


@covers("TBL-9")
@pytest.mark.parametrize(("option", "value"), wrong_requests.NOT_IMPLEMENTED)
def test_an_option_that_is_not_implemented_is_refused_by_name(
    tmp_path: Path, option: str, value: str
) -> None:
    with pytest.raises(UnsupportedOptionError, match=option.replace(".", r"\.")) as caught:
        Table.create(tmp_path / "t", "k INT, v INT", primary_key=["k"], options={option: value})
    assert (caught.value.option, caught.value.value) == (option, value)
    assert files_under(tmp_path) == set()


@covers("TBL-9")
@pytest.mark.parametrize(("option", "value"), wrong_requests.MALFORMED)
def test_a_malformed_option_is_refused(tmp_path: Path, option: str, value: str) -> None:
    with pytest.raises(InvalidRequestError, match=option):
        Table.create(tmp_path / "t", "k INT", primary_key=["k"], options={option: value})


@covers("TBL-9")
def test_the_greatest_integer_of_java_is_one(tmp_path: Path) -> None:
    options = {"bucket": str((1 << 31) - 1)}
    assert Table.create(tmp_path, "k INT", primary_key=["k"], options=options).schema.options == options


@covers("TBL-3")
def test_a_table_that_gives_no_number_of_buckets_has_dynamic_ones(tmp_path: Path) -> None:
    """So it is in Paimon, and `Table.create` always gives a number."""
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"])
    assert table.schema.options == {"bucket": "1"}
    table.upsert(pa.table({"k": [1], "v": [1]}))
    schema = tmp_path / "schema" / "schema-0"
    without = replace(table.schema, options={})
    schema.write_bytes(encode_schema(without))
    other = Table.open(tmp_path)
    assert other.to_arrow(where="k = 1").num_rows == 1
    with pytest.raises(
        InvalidRequestError, match=r"bucket is -1, but .* under 1 buckets; restore the option"
    ):
        other.upsert(pa.table({"k": [2], "v": [2]}))


@covers("LSM-9")
@pytest.mark.parametrize(("options", "deepest"), [({}, 3), ({"num-levels": "6"}, 5)])
def test_a_table_has_one_level_more_than_the_trigger_unless_it_says_otherwise(
    tmp_path: Path, options: dict[str, str], deepest: int
) -> None:
    trigger = {"num-sorted-run.compaction-trigger": "3"}
    table = Table.create(tmp_path, "k INT", primary_key=["k"], options=trigger | options)
    table.upsert(pa.table({"k": [1]}))
    table.compact(full=True)
    assert table.files().column("level").to_pylist() == [deepest]


@covers("TBL-17")
def test_a_bucket_key_outside_the_primary_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="bucket-key"):
        Table.create(tmp_path / "t", "k INT, v INT", primary_key=["k"], options={"bucket-key": "v"})


def test_a_second_table_at_the_same_place_is_refused(tmp_path: Path) -> None:
    Table.create(tmp_path, "k INT", primary_key=["k"])
    with pytest.raises(InvalidRequestError, match="already exists"):
        Table.create(tmp_path, "k INT", primary_key=["k"])


def test_a_path_that_is_no_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATableError, match="schema"):
        Table.open(tmp_path)
    with pytest.raises(NotATableError, match="nothing"):
        Table.open(tmp_path / "absent")


@covers("TBL-2", "TBL-13", "TBL-8")
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"k": pa.array([1, None], pa.int32()), "v": ["a", "b"]}), "column k"),
        (pa.table({"v": ["a"]}), "columns"),
        (pa.table({"k": [1], "v": ["a"], "x": [1]}), "columns"),
        (pa.table({"k": ["1"], "v": ["a"]}), "column k"),
        (pa.table({"k": [1 << 40], "v": ["a"]}), "column k"),
        (pa.table({"k": [1.5], "v": ["a"]}), "column k"),
        (pa.table({"k": [1], "v": [b"a"]}), "column v"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_written(
    tmp_path: Path, rows: pa.Table, message: str
) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"])
    before = files_under(tmp_path)
    with pytest.raises(InvalidRequestError, match=message):
        table.upsert(rows)
    assert files_under(tmp_path) == before


@covers("TBL-4")
@pytest.mark.parametrize("kind", ["+X", "D", None, 4, -1])
def test_an_unknown_row_kind_is_refused(tmp_path: Path, kind: object) -> None:
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"])
    before = files_under(tmp_path)
    rows = pa.table({"k": [1], "v": ["a"], "op": pa.array([kind])})
    with pytest.raises(InvalidRequestError, match="row kind"):
        table.write_changes(rows, row_kind="op")
    assert files_under(tmp_path) == before


@covers("TBL-8")
def test_types_that_convert_without_loss_are_taken(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, d DECIMAL(10, 2), f FLOAT, s STRING", primary_key=["k"])
    rows = pa.table(
        {
            "s": pa.array(["x"]).dictionary_encode(),
            "k": pa.array([7], pa.int64()),
            "d": pa.array([3], pa.int8()),
            "f": pa.array([0.5], pa.float64()),
        }
    )
    table.upsert(rows)
    assert table.to_arrow(fresh=True).select(["k", "s", "f"]).to_pylist() == [{"k": 7, "s": "x", "f": 0.5}]


def test_what_is_asked_for_is_of_the_right_type(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"])
    table.upsert(pa.table({"k": [1], "v": [2]}))
    asked: list[dict[str, Any]] = [
        {"snapshot": "1"},
        {"snapshot": True},
        {"where": 5},
        {"limit": True},
        {"limit": -1},
    ]
    for how in asked:
        with pytest.raises(InvalidRequestError, match=next(iter(how))):
            table.to_arrow(**how)
    with pytest.raises(InvalidRequestError, match="tag None"):
        table.create_tag(None)  # type: ignore[arg-type]
