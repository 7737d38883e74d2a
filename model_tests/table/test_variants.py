"""VARIANT: the two binaries that Paimon and Spark encode, read and written as they are."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import InvalidRequestError, Table
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.types import parse_type
from pktable.ingest.variants import are_variants
from pktable_spec.covers import covers
from pyspark.errors import PySparkValueError
from pyspark.sql.variant_utils import VariantBuilder, VariantUtils

from model_tests.backends.spark_session import spark_session
from model_tests.seeded import cases
from model_tests.table.foreign_tables import at, read_parquet, rewritten
from model_tests.table.test_spark_pitfalls import setting

OBJECT = {"value": bytes.fromhex("02010000020c01"), "metadata": bytes.fromhex("0101000161")}
"""The value of ``parse_json('{"a":1}')`` in Spark."""
COLUMNS = "k INT, v VARIANT, r ROW<a ARRAY<VARIANT>>"
ROWS: list[dict[str, Any]] = [
    {"k": 1, "v": OBJECT, "r": {"a": [OBJECT, None]}},
    {"k": 2, "v": None, "r": None},
]
DV = {"deletion-vectors.enabled": "true"}


@covers("META-78", "META-19")
def test_a_variant_is_two_binaries(tmp_path: Path) -> None:
    table = Table.create(tmp_path, COLUMNS, primary_key=["k"], options=DV)
    assert [field.to_json()["type"] for field in table.schema.fields][1] == "VARIANT"
    assert str(parse_type("variant not null")) == "VARIANT NOT NULL"
    table.upsert(ROWS)
    table.upsert([{**ROWS[1], "v": OBJECT}])
    table.compact(full=True)
    expected = [ROWS[0], {**ROWS[1], "v": OBJECT}]
    assert Table.open(tmp_path).to_arrow().sort_by("k").to_pylist() == expected
    assert Table.open(tmp_path).to_arrow(where="v IS NOT NULL AND k = 1").num_rows == 1
    assert not table.check().findings
    (name,) = table.files().column("file_name").to_pylist()
    schema = pq.read_schema(tmp_path / "bucket-0" / name)
    required = [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False)]
    assert schema.field("v").type == pa.struct(required)
    with pytest.raises(InvalidRequestError, match="VARIANT"):
        table.to_arrow(where="v = 1")


TEXTS = (
    *("null", "true", "7", "-300", "70000", "9999999999", "1.5", "1e300", "123456789012345678901234567890"),
    *(
        '"a"',
        f'"{"long" * 30}"',
        "[]",
        "{}",
        '[1, "x", [2, {"a": null}]]',
        '{"b": [1, {"c": "d"}], "a": 3.25}',
    ),
    str(list(range(300))),
    str({f"k{number}": {"z": number} for number in range(300)}).replace("'", '"'),
)


@covers("TBL-64")
def test_bytes_are_a_variant_if_they_are_that_to_spark() -> None:
    made = [VariantBuilder().build(text) for text in TEXTS]
    assert whole(*made)
    assert whole(*made * 3000), "of many megabytes"
    for value, metadata in made:
        cuts = [(value[:end], metadata) for end in range(len(value))[-400:]]
        cuts += [(value, metadata[:end]) for end in range(len(metadata))[-400:]]
        assert not any(map(whole, cuts)), "of no proper prefix"
        assert not whole((value + b"\0", metadata))
    read, unknown, chance = 0, 0, random.Random(5)
    for value, metadata in made[:-2] * cases(40):
        other = bytearray(value if chance.random() < 0.7 else metadata)
        other[chance.randrange(len(other))] = chance.randrange(256)
        changed = (bytes(other), metadata) if len(other) == len(value) else (value, bytes(other))
        if whole(changed):
            try:
                VariantUtils.to_python(*changed)
            except (UnicodeDecodeError, OverflowError):  # no UTF-8, or a time that Python has not
                pass
            except PySparkValueError:  # a type that this Spark does not know, or a number of too many digits
                unknown += 1
            read += 1
    assert read > 20
    assert unknown < read / 5


def whole(*pairs: tuple[bytes, bytes]) -> bool:
    """Return whether `pairs` of a value and metadata are VARIANTs."""
    return are_variants([pa.array(part, pa.binary()) for part in zip(*pairs, strict=True)])


@covers("TBL-64")
def test_parts_that_share_their_bytes_are_no_bomb() -> None:
    value = bytes.fromhex("0c01")
    for _ in range(40):  # an array of 200 parts, all of them the same one
        count, parts = 200, 201
        value = (
            bytes(
                [
                    0b1111 | 0b10000,
                    *count.to_bytes(4, "little"),
                    *bytes(4 * (parts - 1)),
                    *len(value).to_bytes(4, "little"),
                ]
            )
            + value
        )
    assert not whole((value, b"\x01\0\0"))


@pytest.mark.parametrize("spark", [False, pytest.param(True, marks=pytest.mark.spark)])
@covers("TBL-64")
def test_bytes_that_are_no_variant_are_refused_by_column(tmp_path: Path, spark: bool) -> None:
    runner: dict[str, Any] = {"spark": spark_session(), "runner": "spark"} if spark else {}
    table = Table.create(tmp_path, COLUMNS, primary_key=["k"], options=DV, **runner)
    empty = {"value": b"", "metadata": b""}
    for row, found in (
        ({**ROWS[0], "v": empty}, "column v: expected VARIANT, found bytes that are no VARIANT in v"),
        (
            {**ROWS[0], "r": {"a": [None, {**OBJECT, "metadata": b"\x01\0\0"}]}},
            "column r: .*in element of a of r",
        ),
    ):
        with pytest.raises(InvalidRequestError, match=found):
            table.upsert(pa.Table.from_pylist([row], schema=table.schema.arrow_schema))
    assert not table.snapshots()


@covers("META-78")
def test_a_variant_that_is_stored_in_parts_is_refused_by_name(tmp_path: Path) -> None:
    def in_parts(file: DataFileMeta, path: Path) -> DataFileMeta:
        rows, target = read_parquet(path), path.with_suffix(".parts.parquet")
        whole: Any = rows.column("v").combine_chunks()
        parts = [*whole.flatten(), pa.array([7] * len(whole), pa.int64())]
        shredded = pa.StructArray.from_arrays(
            parts, ["value", "metadata", "typed_value"], mask=whole.is_null()
        )
        pq.write_table(rows.set_column(rows.column_names.index("v"), "v", shredded), target)
        return at(replace(file), target)

    Table.create(tmp_path, COLUMNS, primary_key=["k"], options=DV).upsert(ROWS)
    rewritten(tmp_path, in_parts)
    table = Table.open(tmp_path)
    with pytest.raises(InvalidRequestError, match=r"stored in parts \(value, metadata, typed_value\)"):
        table.to_arrow()
    assert table.to_arrow(columns=["k"]).num_rows == 2


@covers("META-74")
@pytest.mark.parametrize("format", ["orc", "avro"])
def test_other_formats_have_none(tmp_path: Path, format: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"column r: Paimon has no VARIANT in {format}"):
        Table.create(
            tmp_path / "t", "k INT, r ROW<a VARIANT>", primary_key=["k"], options={"file.format": format}
        )


@pytest.mark.versions
@pytest.mark.spark
@covers("META-78", "RD-30")
def test_a_variant_is_sparks(tmp_path: Path) -> None:
    spark = spark_session()
    table = Table.create(tmp_path, COLUMNS, primary_key=["k"], options=DV, spark=spark, runner="spark")
    table.upsert(pa.Table.from_pylist(ROWS, schema=table.schema.arrow_schema))
    made = spark.sql(
        "SELECT 3 AS k, parse_json('[1, \"x\"]') AS v, CAST(NULL AS STRUCT<a: ARRAY<VARIANT>>) AS r"
    )
    table.upsert(made)
    shown = ["to_json(v) AS v", "to_json(r.a[0]) AS a"]
    expected = [('{"a":1}', '{"a":1}'), (None, None), ('[1,"x"]', None)]
    for frame in (table.read(), table.read(fresh=True), spark.read.format("pktable").load(str(tmp_path))):
        assert [tuple(row) for row in frame.sort("k").selectExpr(*shown).collect()] == expected
    table.upsert(table.read().selectExpr("k + 10 AS k", "v", "r"))
    rows = Table.open(tmp_path).to_arrow().sort_by("k").to_pylist()
    assert [row["v"] for row in rows[:3]] == [row["v"] for row in rows[3:]]
    assert rows[0]["v"] == OBJECT


@pytest.mark.versions
@pytest.mark.spark
@covers("TBL-70", "STM-10")
def test_a_null_whose_type_has_not_null_inside_is_one_for_spark(tmp_path: Path) -> None:
    with setting("spark.sql.session.timeZone", "America/New_York") as spark:
        columns = "k INT, v VARIANT, r ROW<a INT NOT NULL>, t TIMESTAMP(6) WITH LOCAL TIME ZONE"
        table = Table.create(tmp_path, columns, primary_key="k", spark=spark)
        text = (
            "SELECT CAST(id AS INT) AS k, IF(id = 1, NULL, parse_json('1')) AS v, "
            "IF(id = 1, NULL, named_struct('a', 7)) AS r, TIMESTAMP '2024-01-02 03:04:05Z' AS t FROM range(2)"
        )
        table.upsert(spark.sql(text))
        for opened in (table, Table.open(tmp_path), Table.open(tmp_path, spark=spark, runner="spark")):
            found = opened.to_arrow().sort_by("k").to_pylist()
            assert [(row["v"] is None, row["r"]) for row in found] == [(False, {"a": 7}), (True, None)]
            assert {str(row["t"]) for row in found} == {"2024-01-02 03:04:05+00:00"}
        with pytest.raises(InvalidRequestError, match=r"'v': None, 'r': None, .* does not satisfy 'k = 0'"):
            table.overwrite(spark.sql(text), where="k = 0")
