"""Data files in ORC and Avro: every value comes back, on both runners; levels have the formats of options."""

from __future__ import annotations

import datetime as dt
import io
import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pytest
from pktable import InvalidRequestError, Table, UnsupportedOptionError
from pktable.datafile.readers import AvroRows, OrcRows
from pktable.format.avro import decode_container
from pktable.format.types import parse_type
from pktable_conform.typed import drawn_kind, drawn_value
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError
from pktable_spec.options import parse_options

from model_tests.backends.spark_session import spark_session
from model_tests.interop.plain import rows_of, table_of
from model_tests.seeded import cases, seed_for
from model_tests.table.test_foreign import COLUMNS, arrow, in_order, row

DV = {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3", "num-levels": "4"}
NESTED = "n1 ARRAY<ROW<t TIME(3), m MAP<STRING, ARRAY<INT>>>>, n2 MAP<INT, ROW<d DATE, n DECIMAL(38, 10)>>, n3 CHAR(3)"
EPOCH = dt.datetime(1970, 1, 1)
FIRST_OF_ORC, LAST_OF_ORC = (
    dt.datetime(1677, 9, 21, 0, 12, 44),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854000),
)
"""The first whole second and the last millisecond that are counts of nanoseconds in 64 bits."""


def whole_seconds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows whose times ORC can hold."""

    def fit(value: Any) -> Any:
        if isinstance(value, dt.datetime):
            return value if value.replace(tzinfo=None) >= EPOCH else value.replace(microsecond=0)
        if isinstance(value, list) and value and isinstance(value[0], tuple):
            return [(key, fit(one)) for key, one in value]
        return value

    return [{name: fit(value) for name, value in one.items()} for one in rows]


def nested(k: int) -> dict[str, Any]:
    return {
        "n1": [None, [], [{"t": dt.time(1, 2, 3, 4000), "m": [("a", [k, None]), ("b", None)]}, None]][k % 3],
        "n2": [None, [(k, {"d": dt.date(1969, 12, 31), "n": None}), (k + 1, None)], []][k % 3],
        "n3": ["abc", "a  ", None][k % 3],
    }


def endings(path: Path, prefix: str = "data-") -> set[str]:
    return {file.suffix[1:] for file in path.glob(f"bucket-*/{prefix}*")}


@covers("META-71", "META-13", "META-17", "META-70", "META-72", "META-73", "LSM-7")
@pytest.mark.parametrize("format", ["orc", "avro"])
@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "append"])
def test_every_value_comes_back(tmp_path: Path, format: str, keyed: bool) -> None:
    columns = f"{COLUMNS}, {NESTED}"
    options = {"file.format": format, "target-file-size": "15 kb", **(DV if keyed else {})}
    table = Table.create(tmp_path, columns, primary_key=["k"] if keyed else None, options=options)
    expected = {k: row(k, 0) | nested(k) for k in range(300)}
    (table.upsert if keyed else table.append)(arrow(table, whole_seconds(list(expected.values()))))
    newer = {k: row(k, 1) | nested(k + 1) for k in (range(0, 300, 7) if keyed else range(300, 310))}
    (table.upsert if keyed else table.append)(arrow(table, whole_seconds(list(newer.values()))))
    expected |= newer
    table.delete(where="k % 10 = 3")
    wanted = in_order(arrow(table, whole_seconds([one for k, one in expected.items() if k % 10 != 3])))
    assert in_order(Table.open(tmp_path).to_arrow()) == wanted
    assert len(table.to_arrow(where="k = 21")) == 1
    table.compact(full=True)
    assert in_order(Table.open(tmp_path).to_arrow()) == wanted
    assert endings(tmp_path) == {format}
    assert not table.check().findings


@covers("META-72")
@pytest.mark.parametrize("format", ["orc", "avro", "parquet"])
def test_keys_that_differ_in_their_last_spaces_are_two(tmp_path: Path, format: str) -> None:
    table = Table.create(
        tmp_path, "k CHAR(3), v INT", primary_key=["k"], options={**DV, "file.format": format}
    )
    for _ in range(3):
        table.upsert([{"k": "a", "v": 1}, {"k": "a  ", "v": 2}])
    assert table.to_arrow().to_pylist() == [{"k": "a", "v": 1}, {"k": "a  ", "v": 2}]


@covers("META-72")
def test_orc_pads_its_own_type_char_alone() -> None:
    sink = io.BytesIO()
    po.write_table(pa.table({"c": ["a  "], "s": ["a  "]}), sink, compression="uncompressed")
    begin, *others = sink.getvalue().split(b"\x08\x07")  # the kind of a column, a string
    assert len(others) == 2
    data = begin + b"\x08\x11" + others[0] + b"\x08\x07" + others[1]  # of c, char
    kind = parse_type("CHAR(3)")
    read = OrcRows(pa.BufferReader(data), "file").tables({"c": kind, "s": kind}, ranges=None, batch_rows=9)
    assert [table.to_pylist() for _, table in read] == [[{"c": "a", "s": "a  "}]]


@covers("META-71", "META-75")
def test_levels_and_changelogs_have_the_formats_that_options_name(tmp_path: Path) -> None:
    options = {
        **DV, "file.format": "orc", "file.format.per.level": "0:avro, 3:Parquet", "changelog-file.format": "avro",
        "changelog-producer": "input", "write-only": "true",
    }  # fmt: skip
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=options)
    table.upsert([{"k": k, "v": "a" * 900} for k in range(20)])
    assert (endings(tmp_path), endings(tmp_path, "changelog-")) == ({"avro"}, {"avro"})
    table.compact(full=True)
    assert [one["level"] for one in table.files().to_pylist()] == [3]
    assert endings(tmp_path) == {"avro", "parquet"}, "what is moved to another format is written again"
    assert table.changes(0, 1).to_arrow().num_rows == table.count() == 20
    other = parse_options({"file.format": "orc", "file.format.per.level": "1:avro"})
    assert [other.format_of(level, changelog=True) for level in (0, 1)] == ["orc", "avro"]


@covers("META-73")
def test_avro_has_the_schema_that_paimon_makes(tmp_path: Path) -> None:
    nested = "ROW<a ARRAY<ROW<b DATE>>, m MAP<INT, TIME>>"
    columns = f"k BIGINT, t TIMESTAMP(3), z TIMESTAMP_LTZ(6), d DECIMAL(9, 2), r {nested}"
    table = Table.create(tmp_path, columns, primary_key=["k"], options={"file.format": "avro"})
    table.upsert(arrow(table, [{"k": 1}]))
    (path,) = tmp_path.glob("bucket-0/*.avro")
    with path.open("rb") as file:
        reader: Any = fastavro.reader(file)
        (found,) = list(reader)
    schema = json.loads(reader.metadata["avro.schema"])
    assert found["k"] == found["_KEY_k"] == 1
    assert schema[0] == "null"
    fields = {one["name"]: one["type"] for one in schema[1]["fields"]}
    name = "org.apache.paimon.avro.generated.record"
    assert schema[1]["name"] == name
    assert list(fields)[:4] == ["_KEY_k", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k"]
    assert fields["_KEY_k"] == "long"
    assert fields["t"] == ["null", {"type": "long", "logicalType": "timestamp-millis"}]
    assert fields["z"] == ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]
    assert fields["d"][1] == {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    inner = {one["name"]: one["type"][1] for one in fields["r"][1]["fields"]}
    assert inner["a"]["items"][1]["name"] == f"{name}_r_a"
    assert inner["m"]["logicalType"] == "map"
    assert [one["name"] for one in inner["m"]["items"]["fields"]] == ["key", "value"]


@covers("META-73", "META-17")
def test_a_record_that_avro_only_names_is_read_as_the_one_of_that_name(tmp_path: Path) -> None:
    record = {"type": "record", "name": "org.x.r_a", "fields": [{"name": "n", "type": ["null", "int"]}]}
    inner = {
        "type": "record",
        "name": "r",
        "namespace": "org.x",
        "fields": [{"name": "a", "type": ["null", "r_a"]}],
    }
    fields = {
        "k": "int",
        "r_a": ["null", record],
        "r": ["null", inner],
        "l": {"type": "array", "items": "r_a"},
    }
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    schema = {"type": "record", "name": "org.x.record", "fields": named}
    rows = [{"k": 1, "r_a": {"n": 5}, "r": {"a": {"n": 6}}, "l": [{"n": 7}, {"n": None}]}]
    path = tmp_path / "rows.avro"
    with path.open("wb") as file:
        fastavro.writer(file, ["null", schema], rows)
    a = "ROW<n INT>"
    kinds = {"k": "INT", "r_a": a, "r": f"ROW<a {a}>", "l": f"ARRAY<{a}>"}
    for names in (list(kinds), ["r"], ["l", "k"]):
        with pa.OSFile(str(path)) as source:
            read = AvroRows(source, "rows.avro").tables(
                {name: parse_type(kinds[name]) for name in names}, ranges=None, batch_rows=9
            )
            (found,) = [table.to_pylist() for _, table in read]
        assert found == [{name: rows[0][name] for name in names}]


@covers("RD-11", "META-73")
@pytest.mark.parametrize(
    ("stored", "value", "kind"),
    [
        ("string", "a", "BIGINT"),
        ("long", 1 << 40, "INT"),
        ("bytes", b"\xff", "STRING"),
        ("boolean", True, "DATE"),
    ],
)
def test_values_of_another_type_than_the_column_are_damage(stored: str, value: Any, kind: str) -> None:
    sink = io.BytesIO()
    fields = [{"name": "k", "type": stored}]
    fastavro.writer(sink, {"type": "record", "name": "row", "fields": fields}, [{"k": value}])
    rows = AvroRows(pa.BufferReader(sink.getvalue()), "rows.avro")
    with pytest.raises(ValueError, match=r"^values of wrong types \(Arrow"):
        list(rows.tables({"k": parse_type(kind)}, ranges=None, batch_rows=9))


@covers("META-83", "RD-11")
@pytest.mark.parametrize(("unit", "of_second"), [("millis", 10**3), ("micros", 10**6)])
@pytest.mark.parametrize("nested", [False, True])
def test_a_time_of_avro_that_nanoseconds_cannot_count_is_refused_and_no_damage(
    unit: str, of_second: int, nested: bool
) -> None:
    counted: Any = {"type": "long", "logicalType": f"timestamp-{unit}"}
    stored = {"type": "array", "items": counted} if nested else counted
    kind = parse_type("ARRAY<TIMESTAMP(9)>" if nested else "TIMESTAMP(9)")
    record = {"type": "record", "name": "row", "fields": [{"name": "t", "type": stored}]}

    def read(time: dt.datetime) -> Any:
        sink = io.BytesIO()
        count = (time - EPOCH) // dt.timedelta(seconds=1) * of_second
        fastavro.writer(sink, fastavro.parse_schema(record), [{"t": [count] if nested else count}])
        rows = AvroRows(pa.BufferReader(sink.getvalue()), "rows.avro")
        ((_, table),) = rows.tables({"t": kind}, ranges=None, batch_rows=9)
        return (
            table.column("t").cast(pa.list_(pa.timestamp("us")) if nested else pa.timestamp("us")).to_pylist()
        )

    for held in (FIRST_OF_ORC, LAST_OF_ORC.replace(microsecond=0)):
        assert read(held) == [[held] if nested else held]
    for far in (dt.datetime(1677, 9, 21), dt.datetime(9999, 12, 31)):
        with pytest.raises(InvalidRequestError, match="a time lies outside 1677 to 2262"):
            read(far)


@covers("RD-11", "META-73")
@pytest.mark.parametrize("depth", [3, 40])
def test_records_that_name_each_other_are_no_bomb(depth: int) -> None:
    parts: list[Any] = [{"type": "record", "name": "r0", "fields": [{"name": "n", "type": "int"}]}]
    for number in range(1, depth):
        twice = [{"name": one, "type": f"r{number - 1}"} for one in "ab"]
        parts.append({"type": "record", "name": f"r{number}", "fields": twice})
    fields = [{"name": f"f{number}", "type": part} for number, part in enumerate(parts)]
    file = io.BytesIO()
    fastavro.writer(file, {"type": "record", "name": "all", "fields": fields}, [])
    if depth < 10:
        assert decode_container(file.getvalue(), "it") == []
    else:
        with pytest.raises(CorruptFileError, match="Avro schema: expected a schema, found more than"):
            decode_container(file.getvalue(), "it")


@covers("META-70", "META-71", "META-72", "META-73")
@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "append"])
def test_nulls_at_any_depth_come_back_where_they_are(tmp_path: Path, format: str, keyed: bool) -> None:
    drawn = random.Random(seed_for(1))
    kinds = [drawn_kind(drawn, 4) for _ in range(cases(40))]
    columns = ", ".join(["k INT", *(f"c{at} {kind.sql}" for at, kind in enumerate(kinds))])
    options = {"file.format": format, "bucket": "1" if keyed else "-1"}
    table = Table.create(tmp_path, columns, primary_key="k" if keyed else None, options=options)
    rows = [[str(k), *(drawn_value(drawn, kind, 0.2) for kind in kinds)] for k in range(8)]
    table.put(table_of(rows, table.schema.arrow_schema))
    assert sorted(rows_of(table.to_arrow()), key=lambda row: str(row[0])) == rows, columns


@covers("META-72")
def test_orc_has_instants_and_is_compressed(tmp_path: Path) -> None:
    columns = "k INT, c CHAR(5), z TIMESTAMP_LTZ(3), t TIME"
    table = Table.create(tmp_path, columns, primary_key=None, options={"file.format": "orc", "bucket": "-1"})
    table.append(arrow(table, [{"k": k, "c": "ab", "z": None, "t": None} for k in range(999)]))
    (path,) = tmp_path.glob("bucket-0/*.orc")
    file = po.ORCFile(str(path))
    assert file.compression == "ZSTD"
    assert file.schema.types == [pa.int32(), pa.string(), pa.timestamp("ns", "UTC"), pa.int32()]


@covers("META-74", "TBL-9")
@pytest.mark.parametrize(
    ("options", "column", "message"),
    [
        ({"file.format": "avro"}, "`a b` INT", "column a b: Avro has no name 'a b'"),
        ({"file.format": "avro"}, "a ROW<`ä` INT>", "column a: Avro has no name 'ä'"),
        ({"changelog-file.format": "avro"}, "a ARRAY<TIMESTAMP(9)>", r"column a: Avro has no TIMESTAMP\(9\)"),
        (
            {"file.format.per.level": "5:avro"},
            "a TIME(6)",
            r"column a: Avro has no TIME\(6\), at most 3 digits",
        ),
        ({"file.format": "orc"}, "a ROW<b INT>, `a.b` INT", "column 'a.b' next to the nested column 'a'"),
        (
            {"changelog-file.format": "orc"},
            "a ROW<b INT>, `a.b` INT",
            "let the option changelog-file.format say parquet",
        ),
        (
            {"file.format": "avro"},
            "a_b ROW<c INT>, a ROW<b ARRAY<ROW<d INT>>>",
            r"column a_b and a: two records that Paimon calls org.*record_a_b in Avro, .*file\.format say parquet",
        ),
        ({"file.format": "avro"}, "a ROW<b_c ROW<d INT>, b ROW<c MAP<INT, INT>>>", "column a: two records"),
        (
            {"file.format.per.level": "4:orc, 5:avro,05:orc"},
            "a INT",
            "is not supported: .*of each once",
        ),
        (
            {"file.format": "lance"},
            "a INT",
            "file.format='lance' is not supported: expected avro or orc or parquet",
        ),
        (
            {"file.format.per.level": "1:orc,2:json"},
            "a INT",
            "is not supported: .*unless it says avro, orc or parquet",
        ),
        ({"file.format.per.level": "orc"}, "a INT", "file.format.per.level='orc' is not supported"),
    ],
)
def test_what_a_format_does_not_have_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, str], column: str, message: str
) -> None:
    with pytest.raises((InvalidRequestError, UnsupportedOptionError), match=message):
        Table.create(tmp_path / "t", f"k INT, {column}", primary_key=["k"], options=options)
    assert not (tmp_path / "t").exists()


@covers("META-76", "META-71")
@pytest.mark.parametrize("kind", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "ARRAY<ROW<t TIMESTAMP(3)>>"])
@pytest.mark.parametrize(
    "options",
    [
        {"file.format": "orc"},
        {"file.format.per.level": "3:orc"},
        {"changelog-file.format": "orc", "changelog-producer": "input"},
    ],
    ids=str,
)
def test_a_time_that_orc_would_store_wrongly_is_stored_in_parquet(
    tmp_path: Path, kind: str, options: dict[str, str]
) -> None:
    table = Table.create(tmp_path, f"k INT, v {kind}", primary_key=["k"], options={**DV, **options})
    changes = "changelog-producer" in options
    for moment, ending in (
        (EPOCH - dt.timedelta(milliseconds=1000), "orc"),
        (EPOCH - dt.timedelta(milliseconds=1), "parquet"),
        (FIRST_OF_ORC, "orc"),
        (FIRST_OF_ORC - dt.timedelta(seconds=1), "parquet"),
        (LAST_OF_ORC, "orc"),
        (LAST_OF_ORC + dt.timedelta(milliseconds=1), "parquet"),
        (dt.datetime(9999, 12, 31), "parquet"),
    ):
        given = arrow(table, [{"k": 1, "v": [{"t": moment}] if kind.startswith("ARRAY") else moment}])
        before = set(tmp_path.rglob("*"))
        table.upsert(given)
        table.compact(full=True)
        assert table.to_arrow() == given
        (live,) = table.files().to_pylist()
        (change,) = set(tmp_path.glob("bucket-0/changelog-*")) - before if changes else (None,)
        assert (change or Path(live["file_name"])).suffix == f".{ending}"
        if changes:
            assert table.changes(table.snapshots()[-2].id - 1).to_arrow()["v"] == given["v"]
    assert not table.check().findings


@covers("META-76")
def test_a_table_that_is_altered_to_orc_is_compacted(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v TIMESTAMP(3)", primary_key=["k"], options=DV)
    given = arrow(
        table, [{"k": k, "v": EPOCH + dt.timedelta(milliseconds=100 * (k - 40))} for k in range(80)]
    )
    table.upsert(given)
    table.alter(set_options={"file.format": "orc", "file.block-size": "1 kb", "target-file-size": "1 kb"})
    table.upsert(given.slice(70))
    table.compact(full=True)
    assert in_order(table.to_arrow()) == in_order(given)
    assert endings(tmp_path) == {"orc", "parquet"}
    assert not table.check().findings


@pytest.mark.spark
@covers("META-71", "RD-12", "CMP-16")
@pytest.mark.parametrize("format", ["orc", "avro"])
def test_executors_write_and_compact_other_formats(tmp_path: Path, format: str) -> None:
    spark = spark_session()
    options = {**DV, "file.format": format}
    table = Table.create(tmp_path, COLUMNS, primary_key=["k"], options=options, spark=spark, runner="spark")
    for tag in range(2):
        table.upsert(arrow(table, whole_seconds([row(k, tag) for k in range(tag, 40, tag + 1)])))
    assert endings(tmp_path) == {format}
    table.compact(full=True)
    wanted = in_order(arrow(table, whole_seconds([row(k, k % 2) for k in range(40)])))
    assert in_order(table.to_arrow()) == in_order(Table.open(tmp_path).to_arrow()) == wanted
    assert endings(tmp_path) == {format}
