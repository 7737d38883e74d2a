"""VARIANT: the two binaries that Paimon and Spark encode, read and written as they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import InvalidRequestError, Table
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.types import parse_type
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import at, read_parquet, rewritten

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
