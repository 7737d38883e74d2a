"""Names, settings, schemas and timeline files of Hudi tables."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import fastavro
import pytest
from pktable_hudi.format.avro_schema import fields_of
from pktable_hudi.format.clean_files import decode_clean_plan
from pktable_hudi.format.history_files import decode_history
from pktable_hudi.format.key_summary import GREATEST, LEAST, summary_of_footer
from pktable_hudi.format.names import base_file, log_file, timeline_file
from pktable_hudi.format.properties import decode_properties
from pktable_hudi.format.timeline_files import decode_commit, decode_compaction_plan, decode_rollback_plan
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from model_tests.hudi.real_tables import each_hudi_table, unpacked


@covers("LOG-19")
def test_names_of_base_and_log_files() -> None:
    base = base_file("6f2a-0_1-33-44_20250117083136333.parquet")
    assert base is not None
    assert (base.group, base.instant, base.format) == ("6f2a-0", "20250117083136333", "parquet")
    log = log_file(".6f2a-0_20250117083125837.log.12_0-33-43")
    assert log is not None
    assert (log.group, log.instant, log.version, log.token) == (
        "6f2a-0",
        "20250117083125837",
        12,
        (0, 33, 43),
    )
    older = log_file(".6f2a-0_20250117083125837.log.2")
    assert older is not None
    assert older.order < log.order
    for name in (
        ".hoodie_partition_metadata",
        "x.parquet",
        "_a_b_1.parquet",
        "../a_b_1.parquet",
        "a_b_1.parquet.crc",
    ):
        assert base_file(name) is None
        assert log_file(name) is None
    assert log_file(".6f2a-0_20250117083125837.log.1_0-33-43.cdc") is None
    assert log_file("/.6f2a-0_20250117083125837.log.1_0-33-43") is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("20250117083125837.commit", ("commit", "", None)),
        ("20250117083125837.inflight", ("commit", "inflight", None)),
        ("20250117083125.deltacommit.requested", ("deltacommit", "requested", None)),
        ("20250117083125837_20250117083125999.deltacommit", ("deltacommit", "", "20250117083125999")),
        ("hoodie.properties", None),
        ("history", None),
    ],
)
def test_names_of_timeline_files(name: str, parts: tuple[object, ...] | None) -> None:
    found = timeline_file(name)
    assert (found and (found.action, found.state, found.completion)) == parts


@covers("LOG-18")
def test_properties_are_unescaped() -> None:
    text = "#at noon\na.b=c\\:d\\=e\n e : \\u00e9 f\ng\nh=one\\\n  two\n!no\na.b=last\\\\\n"
    assert decode_properties(text.encode(), at="file") == {
        "a.b": "last\\", "e": "é f", "g": "", "h": "onetwo"
    }  # fmt: skip
    with pytest.raises(CorruptFileError):
        decode_properties(b"a=\xff", at="file")


@covers("LOG-21")
def test_a_schema_is_the_columns() -> None:
    decimal = {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2}
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "double"]}]}
    types = [
        "string",
        ["null", "int"],
        ["null", decimal],
        {"type": "map", "values": inner},
        ["inner", "null"],
    ]
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": n, "type": t} for n, t in zip("abcde", types, strict=True)],
    }
    assert [str(field.type) for field in fields_of(json.dumps(schema), at="file")] == [
        "STRING NOT NULL",
        "INT",
        "DECIMAL(9, 2)",
        "MAP<STRING NOT NULL, ROW<`x` DOUBLE> NOT NULL> NOT NULL",
        "ROW<`x` DOUBLE>",
    ]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (["int", "string"], InvalidRequestError),
        ({"type": "int", "logicalType": "time-millis"}, InvalidRequestError),
        ({"type": "bytes", "logicalType": "decimal", "precision": 60}, InvalidRequestError),
        ("nothing", CorruptFileError),
        ("r", CorruptFileError),  # a record inside itself
        ({"type": "array"}, CorruptFileError),
    ],
)
def test_a_schema_without_columns_is_refused(kind: object, error: type[Exception]) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}
    with pytest.raises(error):
        fields_of(json.dumps(schema), at="file")


def test_a_schema_that_has_a_field_twice_is_damage() -> None:
    fields = [{"name": "a", "type": "int"}] * 2
    with pytest.raises(CorruptFileError, match="Avro schema: expected that of a record, found a field twice"):
        fields_of(json.dumps({"type": "record", "name": "r", "fields": fields}), at="file")


@covers("LOG-20", "LOG-68")
@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ({"policy": "x", "partitionsToBeDeleted": ["p"]}, InvalidRequestError, "a clean that drops partitions"),
        ({"policy": "x", "filesToBeDeletedPerPartition": {"p": ["f"]}}, InvalidRequestError, "finish it with Hudi"),
        ({}, CorruptFileError, "clean plan: expected a plan, found 'policy'"),
        ({"policy": "x", "filePathsToBeDeletedPerPartition": []}, None, ""),
        ({"policy": "x", "filePathsToBeDeletedPerPartition": {"p": [{}]}}, CorruptFileError, "found 'filePath'"),
        ({"policy": "x", "filePathsToBeDeletedPerPartition": {"p": [{"filePath": "/t/p/passwd"}]}},
         CorruptFileError, "clean plan: expected base files and log files, found passwd"),
    ],
)  # fmt: skip
def test_a_clean_plan_names_files_of_the_table_only(
    content: object, error: type[Exception] | None, message: str
) -> None:
    with contextlib.nullcontext() if error is None else pytest.raises(error, match=message):
        assert decode_clean_plan(json.dumps(content).encode(), at="file").files == {}


@covers("LOG-20")
@pytest.mark.parametrize("count", [0, 2])
def test_a_timeline_file_is_one_record(count: int) -> None:
    stream = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "policy", "type": "string"}]}
    fastavro.writer(stream, schema, [{"policy": "x"}] * count)
    with pytest.raises(CorruptFileError, match=f"timeline file: expected one record, found {count}"):
        decode_clean_plan(stream.getvalue(), at="file")


@covers("LOG-20")
@each_hudi_table()
def test_every_real_timeline_is_read(archive: Path) -> None:
    root = unpacked(archive)
    seen = 0
    for path in [*root.glob(".hoodie/*"), *root.glob(".hoodie/timeline/*")]:
        name = timeline_file(path.name)
        if name is None or not path.stat().st_size:
            continue
        if name.action in ("commit", "deltacommit", "replacecommit") and not name.state:
            found = decode_commit(path.read_bytes(), at=str(path))
            assert found.schema
            assert len(fields_of(found.schema, at=str(path))) >= 6
            seen += 1
        if name.action == "compaction":
            assert decode_compaction_plan(path.read_bytes(), at=str(path))
    assert seen > 1


@pytest.mark.parametrize(
    "data", [b"[]", b"Obj\x01", b'{"extraMetadata": 1}', b'{"partitionToWriteStats": {"": 1}}']
)
def test_metadata_of_another_form_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_commit(data, at="file")


def test_an_empty_commit_says_nothing() -> None:
    found = decode_commit(b"", at="file")
    assert (found.schema, found.written, found.replaced) == ("", (), frozenset())


@pytest.mark.parametrize(
    "data", [b"{}", b'{"instantToRollback":{"commitTime":"1"}}', b'{"instantToRollback":[]}']
)
def test_a_rollback_plan_that_names_no_action_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="rollback plan: expected a plan"):
        decode_rollback_plan(data, at="file")


def test_a_history_that_is_no_parquet_file_is_damage() -> None:
    with pytest.raises(CorruptFileError, match="history: expected instants"):
        decode_history(io.BytesIO(b"PAR1 no Parquet file PAR1"), at="file")


@pytest.mark.parametrize("wrong", [LEAST, GREATEST])
def test_a_key_range_that_is_no_text_is_damage(wrong: bytes) -> None:
    with pytest.raises(CorruptFileError, match="key range: expected UTF-8"):
        summary_of_footer({LEAST: b"a", GREATEST: b"b", wrong: b"\xff"}, at="file")
