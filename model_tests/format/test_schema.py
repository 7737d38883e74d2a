"""Schema files: round trips, what is derived from keys, files of others, damage."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format.metadata.schema import TableSchema, decode_schema, encode_schema
from pktable.format.types import Field, parse_columns
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from model_tests.damage.decoders import (
    assert_no_flip_crashes,
    assert_no_flip_misleads,
    assert_no_prefix_decodes,
)
from model_tests.format.strategies import NAMES, data_types

FIELDS = parse_columns("dt DATE NOT NULL, id BIGINT NOT NULL, sub STRING NOT NULL, v ARRAY<ROW<a INT>>")
ONE = TableSchema(2, FIELDS, 4, ("dt",), ("dt", "id", "sub"), {"bucket": "2"}, "", 1700000000000)
REQUIRED = ("id", "fields", "highestFieldId", "partitionKeys", "primaryKeys", "options")


def decode(data: bytes) -> TableSchema:
    return decode_schema(data, at="table/schema/schema-2")


def foreign(**changes: Any) -> bytes:
    """Return a schema file as others write it, without a checksum."""
    fields = json.loads(encode_schema(ONE))
    del fields["pktable.crc32"]
    return json.dumps(
        {name: value for name, value in (fields | changes).items() if value != "absent"}
    ).encode()


@st.composite
def table_schemas(draw: st.DrawFn) -> TableSchema:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    keys = draw(st.sets(st.sampled_from(names)))
    types = {name: draw(data_types()) for name in names}
    return TableSchema(
        id=draw(st.integers(0, 3)),
        fields=tuple(
            Field(
                i * 2,
                name,
                types[name].not_null() if name in keys else types[name],
                draw(st.none() | st.just("about")),
                draw(st.none() | st.just("0")),
            )
            for i, name in enumerate(names)
        ),
        highest_field_id=100,
        partition_keys=tuple(
            sorted(
                draw(
                    st.sets(st.sampled_from(sorted(keys)), max_size=len(keys) - 1) if keys else st.just(set())
                )
            )
        ),
        primary_keys=tuple(sorted(keys)),
        options=draw(st.dictionaries(st.sampled_from(["bucket", "a.b"]), st.sampled_from(["1", "ä"]))),
        comment=draw(st.sampled_from(["", "a table"])),
        time_millis=draw(st.integers(0, 1 << 60)),
    )


@covers("META-1", "META-13")
@given(table_schemas())
def test_a_schema_survives_its_file(schema: TableSchema) -> None:
    assert decode(encode_schema(schema)) == schema


@covers("META-1", "TBL-15")
def test_keys_select_their_fields() -> None:
    assert ONE.key_names == ("id", "sub")
    assert [field.name for field in ONE.key_fields] == ["id", "sub"]
    assert [field.name for field in ONE.partition_fields] == ["dt"]
    assert [field.name for field in ONE.bucket_key_fields] == ["id", "sub"]
    by_option = replace(ONE, options={"bucket-key": "sub, id"})
    assert [field.name for field in by_option.bucket_key_fields] == ["sub", "id"]
    assert ONE.value_names == ("dt", "id", "sub", "v")
    types = (
        pa.date32(),
        pa.int64(),
        pa.string(),
        pa.list_(pa.field("element", pa.struct([("a", pa.int32())]))),
    )
    assert tuple(ONE.arrow_schema.types) == types
    assert [field.nullable for field in ONE.arrow_schema] == [False, False, False, True]
    with pytest.raises(InvalidRequestError, match="nope"):
        ONE.field("nope")


@covers("META-1")
def test_old_versions_get_back_the_defaults_they_relied_on() -> None:
    first = decode(foreign(version="absent", options={}))
    assert (first.version, first.options) == (1, {"bucket": "1", "file.format": "orc"})
    assert decode(foreign(version=2, options={"file.format": "parquet"})).options == {
        "file.format": "parquet"
    }
    assert decode(foreign(options={})).options == {}
    assert decode(encode_schema(first)) == first


@covers("META-1")
@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_field_that_is_absent_or_of_another_type_is_damage(name: str) -> None:
    for value in ("absent", None, 1.5, True, "x", [1]):
        with pytest.raises(CorruptFileError, match=f"schema-2: {name}: expected"):
            decode(foreign(**{name: value}))


INT = {"type": "INT NOT NULL"}


@covers("META-1", "META-20", "TBL-1")
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"fields": []}, "fields"),
        ({"fields": [{"id": 0, "name": "id", **INT}] * 2}, "fields"),
        ({"fields": [{"id": 0, "name": "id", "type": "IMT"}]}, "fields"),
        ({"fields": [{"id": 0, "name": n, **INT} for n in ("dt", "id", "sub")]}, "highestFieldId"),
        ({"highestFieldId": 2}, "highestFieldId"),
        ({"primaryKeys": ["dt", "id", "id"]}, "primaryKeys"),
        ({"primaryKeys": ["dt", "nope"]}, "primaryKeys"),
        ({"primaryKeys": ["dt", "v"]}, "fields"),
        ({"version": 4}, "version"),
        ({"options": {"bucket": [1]}}, "options.bucket"),
        ({"options": {"bucket": None}}, "options.bucket"),
        ({"options": "bucket"}, "options"),
        ({"comment": 3}, "comment"),
    ],
)
def test_a_schema_that_contradicts_itself_is_damage(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(CorruptFileError, match=f"schema-2: {what}: expected"):
        decode(foreign(**changes))


@covers("RD-11")
@pytest.mark.parametrize("outer", ["ARRAY", "MAP", "ROW"])
@pytest.mark.parametrize("levels", [64, 65, 300])
def test_a_type_of_more_levels_than_a_new_schema_may_have_is_damage(outer: str, levels: int) -> None:
    found: object = "INT"
    for _ in range(levels - 1):
        parts: dict[str, dict[str, object]] = {
            "ARRAY": {"element": found},
            "MAP": {"key": "INT", "value": found},
            "ROW": {"fields": [{"id": 9, "name": "f", "type": found}]},
        }
        found = {"type": outer, **parts[outer]}
    data = foreign(fields=[*(field.to_json() for field in FIELDS[:3]), {"id": 3, "name": "v", "type": found}])
    if levels <= 64:
        assert decode(data).arrow_schema.names == ["dt", "id", "sub", "v"]
    else:
        with pytest.raises(
            CorruptFileError, match=r"fields: .*, found type: .* nested at most 64 levels deep"
        ):
            decode(data)


@covers("TBL-48")
def test_numbers_and_truth_values_of_options_count_as_their_texts() -> None:
    given = {
        "bucket": -2,
        "deletion-vectors.enabled": True,
        "compaction.delete-ratio-threshold": 0.2,
        "a": "b",
    }
    texts = {
        "bucket": "-2",
        "deletion-vectors.enabled": "true",
        "compaction.delete-ratio-threshold": "0.2",
        "a": "b",
    }
    found = decode(foreign(options=given))
    assert found.options == texts
    assert decode(encode_schema(found)).options == texts


@pytest.mark.parametrize("t", ["BLOB", {"type": "ARRAY", "element": "BLOB"}, "MULTISET<INT>"])
def test_a_type_that_is_not_implemented_is_refused_and_no_damage(t: object) -> None:
    fields = [field.to_json() for field in FIELDS[:3]] + [{"id": 3, "name": "v", "type": t}]
    with pytest.raises(InvalidRequestError, match="schema-2"):
        decode(foreign(fields=fields))


def test_nullable_primary_keys_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match=r"primary-key\.nullable"):
        decode(foreign(options={"primary-key.nullable": "true"}))


@covers("META-34", "RD-11")
def test_no_damage_to_what_we_wrote_misleads() -> None:
    data = encode_schema(ONE)
    assert_no_prefix_decodes(decode, data)
    assert_no_flip_misleads(decode, data)


@covers("META-34", "RD-11")
def test_damage_to_what_others_wrote_never_crashes() -> None:
    assert_no_prefix_decodes(decode, foreign())
    assert_no_flip_crashes(decode, foreign())
