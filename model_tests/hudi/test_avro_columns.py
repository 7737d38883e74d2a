"""Avro records decoded by columns: what fastavro decodes, for drawn schemas and rows, and no crash on damage."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.datafile.avro_records import arrow_columns
from pktable_hudi.format.avro_columns import decode_columns
from pktable_hudi.format.avro_content import (
    BLOCK_VERSION,
    AvroContent,
    decode_avro_content,
    decode_records,
    encode_avro_content,
    record_bounds,
)
from pktable_hudi.format.avro_schema import fields_of, written_out
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.damage.decoders import flips


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def unscaled(size: int) -> st.SearchStrategy[bytes]:
    """Unscaled values of decimals of nine digits, in so many bytes."""
    return st.integers(-999_999_999, 999_999_999).map(
        lambda number: number.to_bytes(size, "big", signed=True)
    )


LONGS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-200, 200)
TIMES = st.integers(-(1 << 50), 1 << 50)
PLAIN: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    ("long", LONGS),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", st.text(max_size=5)),
    ("bytes", st.binary(max_size=5)),
    (logical("int", "date"), st.integers(-99999, 99999)),
    (logical("long", "timestamp-micros"), TIMES),
    (logical("long", "timestamp-millis"), TIMES),
    (logical("long", "local-timestamp-micros"), TIMES),
    (logical("bytes", "decimal", precision=9, scale=2), unscaled(5)),
    ({**logical("fixed", "decimal", precision=9, scale=2, size=4), "name": "f"}, unscaled(4)),
    ({"type": "fixed", "name": "x", "size": 3}, st.binary(min_size=3, max_size=3)),
]  # fmt: skip


@st.composite
def blocks(
    draw: st.DrawFn, names: str = "abcd", prefix: str = ""
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A schema and rows of it."""
    fields, strategies = [], {}
    for name in names[: draw(st.integers(1, len(names)))]:
        kind, values = draw(st.sampled_from(PLAIN))
        if isinstance(kind, dict) and "name" in kind:
            kind = {**kind, "name": f"{kind['name']}_{prefix}{name}"}
        if not prefix and draw(st.integers(0, 4)) == 0:
            inner, rows = draw(blocks("pq", name))
            kind, values = {**inner, "name": f"r_{name}"}, st.sampled_from(rows)
        form = draw(st.sampled_from(["plain", "null first", "null last"]))
        nullable = {"plain": kind, "null first": ["null", kind], "null last": [kind, "null"]}[form]
        fields.append({"name": name, "type": nullable})
        strategies[name] = values if form == "plain" else st.none() | values
    rows = draw(st.lists(st.fixed_dictionaries(strategies), min_size=len(prefix), max_size=6))
    return {"type": "record", "name": "r", "fields": fields}, rows


def physical(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: physical(part) for name, part in schema.items() if name != "logicalType"}
    return [physical(part) for part in schema] if isinstance(schema, list) else schema


def content_of(schema: dict[str, Any], rows: list[dict[str, Any]]) -> bytes:
    parsed, records = fastavro.parse_schema(physical(schema)), []
    for row in rows:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        records.append(stream.getvalue())
    return encode_avro_content(AvroContent(BLOCK_VERSION, records, b"tail"))


def by_columns(schema: dict[str, Any], content: bytes, names: list[str]) -> pa.Table | None:
    text = json.dumps(schema)
    fields = [field for field in fields_of(text, at="log") if field.name in names]
    _, starts, lengths = record_bounds(content, at="log")
    return decode_columns(content, starts, lengths, written_out(text, at="log"), fields, at="log")


def by_fastavro(schema: dict[str, Any], content: bytes, names: list[str]) -> pa.Table:
    text = json.dumps(schema)
    records = decode_records(decode_avro_content(content, at="log").records, text, at="log")
    kinds = {field.name: field.type for field in fields_of(text, at="log") if field.name in names}
    return arrow_columns(records, written_out(text, at="log"), kinds)


@covers("LOG-7")
@given(blocks(), st.data())
def test_columns_are_those_of_fastavro(
    block: tuple[dict[str, Any], list[dict[str, Any]]], data: st.DataObject
) -> None:
    schema, rows = block
    names = [field["name"] for field in schema["fields"]]
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    found, expected = (
        by_columns(schema, content_of(schema, rows), chosen),
        by_fastavro(schema, content_of(schema, rows), chosen),
    )
    assert found is not None
    assert found.select(chosen).equals(expected.select(chosen))


@pytest.mark.parametrize(
    "kind", [{"type": "array", "items": "int"}, {"type": "map", "values": "int"}, "null"]
)
def test_other_types_are_left_to_fastavro(kind: Any) -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", kind]}],
    }
    if kind == "null":
        schema["fields"] = [{"name": "a", "type": ["null"]}]
        assert decode_columns(b"", np.empty(0, np.int64), np.empty(0, np.int64), schema, [], at="log") is None
    else:
        assert by_columns(schema, content_of(schema, [{"a": 1, "b": None}]), ["a"]) is None


def of_one_record(kind: Any, value: bytes) -> tuple[dict[str, Any], bytes]:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    return schema, encode_avro_content(AvroContent(BLOCK_VERSION, [value], b"tail"))


@covers("LOG-7")
@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("boolean", b"\2", "a boolean that is neither 0 nor 1"),
        ("long", b"\xff" * 11, "a number of more than 10 bytes"),
        ("int", b"\2\2", "a record of another length"),
        ("string", b"\x10a", "a value that leads out of its record"),
        (["null", "int"], b"\4\2", "a branch that the union does not have"),
        (logical("bytes", "decimal", precision=4, scale=2), b"\0", "a decimal of 1 bytes"),
        (logical("bytes", "decimal", precision=4, scale=2), b"\x22" + bytes(17), "a decimal of 17 bytes"),
        (
            {**logical("fixed", "decimal", size=17, precision=4, scale=2), "name": "f"},
            bytes(17),
            "a decimal of 17 bytes",
        ),
    ],
)
def test_a_damaged_value_is_refused_for_what_is_wrong(kind: Any, value: bytes, message: str) -> None:
    schema, content = of_one_record(kind, value)
    with pytest.raises(CorruptFileError, match=message):
        by_columns(schema, content, ["a"])


@given(blocks())
def test_damage_is_named_and_never_crashes(block: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    schema, rows = block
    names = [field["name"] for field in schema["fields"]]
    for damaged in flips(content_of(schema, rows[:2]), masks=(0x80,)):
        try:
            by_columns(schema, damaged, names)
        except CorruptFileError:
            continue


def test_columns_are_faster_than_records() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": n, "type": ["null", t]} for n, t in (("k", "string"), ("v", "long"))],
    }
    content = content_of(schema, [{"k": f"key-{i}", "v": i} for i in range(20_000)])
    times = []
    for decode in (by_columns, by_fastavro):
        start = time.process_time()
        table = decode(schema, content, ["k", "v"])
        times.append(time.process_time() - start)
        assert table is not None
        assert table.num_rows == 20_000
    assert times[0] < times[1]
