"""Large manifests are decoded by columns: to the same values as record by record, and with the same errors."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pytest
from pktable import CorruptFileError
from pktable.format.avro import Container, encode_long
from pktable.format.avro_columns import NotInColumns, decode_columns
from pktable.format.metadata import manifest_fields, record_columns
from pktable.format.metadata.manifest import (
    MANIFEST,
    ManifestEntry,
    decode_manifest,
    encode_manifest,
)
from pktable_spec.covers import covers

from model_tests.format.manifests import entries

RECORD_BY_RECORD = 1 << 62


def uncompressed(
    records: Sequence[ManifestEntry], schema: Any = None, change: Callable[[Any], object] = list
) -> bytes:
    """Return a manifest as another writer might write it: without a digest, and not compressed.

    ``change``: does something to its decoded records before.
    """
    source: Any = list(fastavro.reader(io.BytesIO(encode_manifest(records))))
    change(source)
    sink = io.BytesIO()
    schema = schema or json.loads(MANIFEST.schema.text)
    fastavro.writer(sink, schema, source, codec="null", sync_interval=1 << 30)
    return sink.getvalue()


def outcome(data: bytes, many: int, monkeypatch: pytest.MonkeyPatch) -> object:
    """Return what decoding gives, by columns from ``many`` records on: the entries, or the text of the error."""
    monkeypatch.setattr(manifest_fields, "MANY_RECORDS", many)
    try:
        return decode_manifest(data, "m")
    except CorruptFileError as error:
        return str(error)


@pytest.fixture
def by_columns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of records of each block that is decoded by columns."""
    counts: list[int] = []

    class Counted(record_columns.ColumnarValues[Any]):
        def __init__(self, table: Any, found: Any) -> None:
            super().__init__(table, found)
            counts.append(len(self))

    monkeypatch.setattr(manifest_fields, "ColumnarValues", Counted)
    return counts


@covers("META-3", "META-22", "META-23")
@pytest.mark.parametrize("partitioned", [True, False])
def test_columns_give_the_entries_that_records_give(partitioned: bool, by_columns: list[int]) -> None:
    wanted = entries(700, partitioned=partitioned)
    assert decode_manifest(encode_manifest(wanted), "m") == wanted
    assert decode_manifest(uncompressed(wanted), "m") == wanted
    assert by_columns == [700, 700]
    # They are what the constructor makes, down to the hash, and can be changed by `replace` only.
    (first, *_) = decode_manifest(encode_manifest(wanted), "m")
    assert hash(first) == hash(wanted[0])
    assert replace(first.file, level=3) == replace(wanted[0].file, level=3)
    with pytest.raises(AttributeError):
        first.bucket = 7  # type: ignore[misc]


@covers("META-23")
def test_a_field_that_an_older_version_did_not_write_is_null_in_columns_too(by_columns: list[int]) -> None:
    schema = json.loads(MANIFEST.schema.text)
    file = schema["fields"][-1]["type"]
    file["fields"] = [one for one in file["fields"] if one["name"] not in ("_WRITE_COLS", "_FILE_SOURCE")]
    wanted = entries(200)
    found = decode_manifest(uncompressed(wanted, schema), "m")
    assert found == [
        replace(entry, file=replace(entry.file, write_cols=None, file_source=None)) for entry in wanted
    ]
    assert by_columns == [200]


@covers("META-22", "RD-11")
def test_damage_is_named_as_it_is_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    data = uncompressed(entries(6))
    block = data.index(b"data-")
    refused = 0
    for at in range(block - 120, len(data) - 16, 3):
        for mask in (0xFF, 1 << at % 8):
            damaged = data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
            expected = outcome(damaged, RECORD_BY_RECORD, monkeypatch)
            assert outcome(damaged, 1, monkeypatch) == expected, at
            refused += isinstance(expected, str)
    assert refused > 200


@covers("META-22")
@pytest.mark.parametrize(
    "changes",
    [
        {"file_name": "../data"},
        {"file_name": ""},
        {"extra_files": ("a/b",)},
        {"level": 1 << 40},
        {"file_size": -(1 << 63)},
    ],
)
def test_values_no_writer_stores_are_refused_as_they_are_record_by_record(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    few = entries(30)
    few[17] = replace(few[17], file=replace(few[17].file, **changes))
    data = encode_manifest(few)
    assert outcome(data, 1, monkeypatch) == outcome(data, RECORD_BY_RECORD, monkeypatch)
    few[17] = replace(entries(18)[17], kind=2)
    data = encode_manifest(few)
    assert "_KIND" in str(outcome(data, 1, monkeypatch))


@covers("META-22")
def test_a_null_where_there_must_be_a_value_is_found_in_columns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = json.loads(MANIFEST.schema.text)
    (rows,) = [one for one in schema["fields"][-1]["type"]["fields"] if one["name"] == "_ROW_COUNT"]
    rows["type"] = ["null", "long"]
    few = entries(30)

    def forget(records: Any) -> None:
        records[17]["_FILE"]["_ROW_COUNT"] = None

    assert outcome(uncompressed(few, schema), 1, monkeypatch) == few
    found = [outcome(uncompressed(few, schema, forget), many, monkeypatch) for many in (1, RECORD_BY_RECORD)]
    assert found[0] == found[1]
    assert "_ROW_COUNT" in str(found[0])


@covers("META-22", "META-23")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_NEW", ["null", "boolean"]),
        ("_NEW", ["null", "double"]),
        ("_ROW_COUNT", ["int", "long"]),
        ("_ROW_COUNT", ["null", "int", "long"]),
        ("_FILE_NAME", ["string", "bytes"]),
    ],
)
def test_a_manifest_of_types_that_columns_do_not_have_gives_its_entries_record_by_record(
    name: str, kind: Any, by_columns: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = json.loads(MANIFEST.schema.text)
    file = schema["fields"][-1]["type"]["fields"]
    file[:] = [one for one in file if one["name"] != name] + [{"name": name, "type": kind}]
    wanted = entries(200)
    assert outcome(uncompressed(wanted, schema), 1, monkeypatch) == wanted
    assert not by_columns


@covers("META-22")
@pytest.mark.parametrize(("name", "kind"), [("_FILE_NAME", "bytes"), ("_MIN_KEY", "string")])
def test_text_that_is_stored_as_bytes_is_damage_in_columns_too(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = json.loads(MANIFEST.schema.text)
    (stored,) = [one for one in schema["fields"][-1]["type"]["fields"] if one["name"] == name]
    stored["type"] = kind

    def convert(records: Any) -> None:
        for one in records:
            value = one["_FILE"][name]
            one["_FILE"][name] = value.encode() if kind == "bytes" else "a text"

    data = uncompressed(entries(30), schema, convert)
    expected = outcome(data, RECORD_BY_RECORD, monkeypatch)
    assert f"{name}: expected" in str(expected)
    assert outcome(data, 1, monkeypatch) == expected


@covers("META-22")
def test_records_that_may_be_null_are_no_columns() -> None:
    fields = [{"name": "a", "type": "bytes"}, {"name": "b", "type": "bytes"}]
    schema: Any = ["null", {"type": "record", "name": "r", "fields": fields}]
    stored = io.BytesIO()
    # Without the number of the branch before it, this record would be another one of the same length.
    row = {"a": b"\6ab", "b": b""}
    fastavro.writer(stored, schema, [row], codec="null")
    container = Container(io.BytesIO(stored.getvalue()), len(stored.getvalue()), "m")
    ((count, block),) = container.unpacked_blocks()
    with pytest.raises(NotInColumns):
        container.columns(count, block, np.array([0]))
    assert container.records(count, block) == [row]


@pytest.mark.parametrize(
    "kinds",
    [
        ["null"],
        ["boolean"],
        [["null", "double"]],
        [["int", "long"]],
        [["null", "int", "long"]],
        ["int", "int"],
    ],
    ids=str,
)
def test_types_that_columns_do_not_have_are_not_decoded_by_columns(kinds: list[Any]) -> None:
    fields = [
        {"name": "n", "type": "long"},
        *({"name": "x", "type": kind} for kind in kinds),
    ]
    values = b"" if kinds == ["null"] else bytes(len(kinds))
    block = b"".join(encode_long(i) + values for i in range(40))
    starts = np.arange(0, len(block), len(block) // 40)
    schema = {"type": "record", "name": "r", "fields": fields}
    with pytest.raises(NotInColumns):
        decode_columns(block, schema, 40, starts)


def test_guesses_that_are_no_records_are_dropped_and_a_missing_one_is_noticed() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "n", "type": "long"}, {"name": "b", "type": "bytes"}],
    }
    block = b"".join(bytes([2 * i, 6, 1, 2, 3]) for i in range(40))
    starts = np.arange(0, 200, 5)
    assert decode_columns(block, schema, 40, np.arange(200)).fields["n"].list() == list(range(40))  # type: ignore[union-attr]
    for wrong in (starts[1:], np.delete(starts, 7), starts[:-1], starts[:0]):
        with pytest.raises(NotInColumns):
            decode_columns(block, schema, 40, wrong)
    with pytest.raises(NotInColumns):
        decode_columns(block, schema, 39, starts)
    with pytest.raises(NotInColumns):
        decode_columns(block, schema, 39, starts[1:])
    with pytest.raises(NotInColumns):
        decode_columns(block[:-1], schema, 40, starts)


def test_a_guess_that_states_many_items_costs_little() -> None:
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "n", "type": {"type": "array", "items": "long"}}],
    }
    began = time.process_time()
    with pytest.raises(NotInColumns):
        decode_columns(bytes([0xFE, 0xFF, 0xFF, 0x7F]) * 100, schema, 100, np.arange(0, 400, 4))
    assert time.process_time() - began < 1  # item by item it would be 134 million of them
