"""Few bytes of a table cannot stand for many in memory."""

from __future__ import annotations

import contextlib
import io
import os
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from pktable import CorruptFileError, InvalidRequestError, Table
from pktable.bucket import windows
from pktable.bucket.windows import RunBuffer
from pktable.check.findings import Findings
from pktable.datafile import decoded_size, orc_sizes
from pktable.datafile.readers import LIBRARY_ERRORS, OrcRows, ParquetRows
from pktable.format import avro, bounds
from pktable.format.avro import decode_container
from pktable.format.bounds import MOST_JSON_BYTES
from pktable.format.metadata.json_text import decode_json
from pktable.format.metadata.manifest_fields import decode_columnar
from pktable.format.metadata.schema import decode_schema
from pktable.format.types import DataType
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import encode_index
from pktable_spec.covers import covers

from model_tests.damage.attacks import LAST, index_edit, live, schema_edit
from model_tests.damage.table_damage import Surgeon


@covers("SAFE-6")
@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"id":' + b"9" * 100_000 + b"}",
        b'{"fields":' + b"[" * 900 + b"]" * 900 + b"}",
        b"{}" + b" " * MOST_JSON_BYTES,
    ],
)
def test_deep_or_long_json_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        decode_schema(data, at="schema-0")
    assert len(str(caught.value)) < 2000
    with pytest.raises(CorruptFileError):
        decode_json(data, at="x").long("id")


@covers("SAFE-6")
def test_json_of_more_bytes_than_any_writer_makes_is_not_parsed() -> None:
    long = b'{"id": 1' + b" " * MOST_JSON_BYTES + b"}"
    with pytest.raises(CorruptFileError, match=f"at most {MOST_JSON_BYTES} bytes"):
        decode_json(long, at="x")


@covers("SAFE-6")
def test_the_message_about_a_schema_of_many_columns_is_short(path: Path) -> None:
    fields = [{"id": 0, "name": f"c{i}", "type": "INT"} for i in range(20_000)]
    schema_edit(lambda schema: schema.update({"fields": fields, "primaryKeys": [], "partitionKeys": []}))(
        Surgeon(path)
    )
    with pytest.raises(CorruptFileError) as caught:
        Table.open(path)
    assert len(str(caught.value)) < 2000


@covers("SAFE-6")
def test_all_blocks_of_a_manifest_together_unpack_to_a_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "string"}]}
    fastavro.writer(stored, schema, [{"f": "x" * 1000}] * 5000, codec="zstandard", sync_interval=10_000)
    assert len(decode_container(stored.getvalue(), "x")) == 5000
    monkeypatch.setattr(avro, "MOST_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(CorruptFileError, match="at most 1048576 bytes unpacked"):
        decode_container(stored.getvalue(), "x")


@covers("SAFE-6", "RD-11")
def test_an_avro_file_is_refused_for_what_is_wrong_with_it() -> None:
    def container(schema: object, records: list[object], codec: str = "null") -> bytes:
        stored = io.BytesIO()
        fastavro.writer(stored, schema, records, codec=codec, sync_marker=b"s" * 16)
        return stored.getvalue()

    record = {"type": "record", "name": "r", "fields": [{"name": "f", "type": "string"}]}
    head = container(record, [])
    snappy = container(record, [], "snappy")
    lie = b"\xff\xff\xff\xff\x0f" + bytes(8)  # four gigabytes
    for data, message in (
        (container("int", [1]), "expected a record"),
        (head + b"\x80" * 11, "block count: expected at most 10 bytes, found more"),
        (snappy + b"\2" + bytes([2 * len(lie)]) + lie + b"s" * 16, "4294967295 bytes of 13"),
    ):
        with pytest.raises(CorruptFileError, match=message):
            decode_container(data, "x")


@covers("SAFE-6")
def test_a_block_unpacks_to_a_bounded_size_however_long_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import zlib

    monkeypatch.setattr(bounds, "MOST_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        bounds.unpacked(zlib.compress(bytes(1 << 22)), zlib.decompressobj())


@covers("SAFE-6")
def test_a_columnar_manifest_with_one_long_text_for_all_rows_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), ["x" * 10_000])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"f": column}), sink, store_schema=False)
    data = sink.getvalue().to_pybytes()
    assert len(decode_columnar(data, "x") or ()) == 2000
    monkeypatch.setattr("pktable.format.metadata.manifest_fields.MOST_UNPACKED_BYTES", 1 << 20)
    with pytest.raises(CorruptFileError, match="bytes of records"):
        decode_columnar(data, "x")


@covers("SAFE-6")
def test_a_columnar_file_that_states_more_rows_than_its_bytes_can_hold_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_TIMES", 64)
    count = 5_000_000
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"f": pa.nulls(count, pa.int32())}), sink, row_group_size=count)
    data = sink.getvalue().to_pybytes()
    assert 64 * len(data) < count
    with pytest.raises(CorruptFileError, match=f"{count} rows in"):
        decode_columnar(data, "x")
    surgeon = Surgeon(path)
    file = surgeon.data_file(live(surgeon))
    file.write_bytes(data)
    surgeon.edit_file(file.name, file_size=len(data), row_count=count)
    with pytest.raises(CorruptFileError, match=f"{count} rows in"):
        Table.open(path).to_arrow()


LONG = "x" * 10_000


def repeated(count: int, first: str | None) -> pa.Table:
    """Rows with one long text, in a dictionary. Before it comes a value that tells nothing of it."""
    numbers = pa.array([None if first is None else 1, *[0] * (count - 1)], pa.int32())
    text = pa.DictionaryArray.from_arrays(numbers, pa.array([LONG, first or ""]))
    return pa.table({"k": range(count), "s": text})


@covers("SAFE-8")
@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("count", [3_000, 30_000])
@pytest.mark.parametrize("first", ["a", None])
def test_rows_that_repeat_a_long_text_are_decoded_a_few_at_a_time(
    codec: str, count: int, first: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded_size, "BATCH_BYTES", 1 << 20)
    sink = pa.BufferOutputStream()
    noise = pa.table(
        {"noise": [os.urandom(40) for _ in range(count)]}
    )  # so that the larger file is no small one
    table = repeated(count, first).append_column("noise", noise.column(0))
    pages = {"write_page_index": True, "write_batch_size": 500, "data_page_size": 500}
    pq.write_table(table, sink, compression=codec, store_schema=False, row_group_size=20_000, **pages)
    stored = ParquetRows(pa.BufferReader(sink.getvalue()), "x")
    assert stored.large == (count == 30_000)
    columns = {"k": DataType("BIGINT"), "s": DataType("STRING")}
    for ranges in (None, np.array([[500, 2_500]])):
        rows = 0
        for start, part in stored.tables(columns, ranges=ranges, batch_rows=1 << 17):
            assert part.get_total_buffer_size() <= 2 << 20
            assert part.column("k")[0].as_py() == start
            rows += part.num_rows
        assert rows >= (count if ranges is None else 2_000)


@covers("SAFE-8")
def test_texts_in_pages_and_in_lists_are_decoded_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded_size, "BATCH_BYTES", 1 << 20)
    texts = pa.array([f"{i} {LONG}" for i in range(1_000)])
    lists = pa.ListArray.from_arrays(pa.array(range(0, 1_001, 10), pa.int32()), texts)
    for column, kind in ((texts, "STRING"), (lists, "ARRAY")):
        for dictionary in (True, False):
            sink = pa.BufferOutputStream()
            pq.write_table(pa.table({"s": column}), sink, use_dictionary=dictionary, compression="zstd")
            stored = ParquetRows(pa.BufferReader(sink.getvalue()), "x")
            parts = [one for _, one in stored.tables({"s": DataType(kind)}, ranges=None, batch_rows=1 << 17)]
            assert max(part.nbytes for part in parts) <= 1 << 20
            assert pa.concat_tables(parts).column("s").combine_chunks().equals(column)


@covers("SAFE-8")
@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "zstd", "lz4"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_rows_of_orc_that_repeat_a_long_text_are_decoded_a_few_at_a_time(
    codec: str, dictionary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded_size, "BATCH_BYTES", 1 << 20)
    count = 3_000
    texts = [LONG if i % 3 else str(i % 7) for i in range(count)]
    lists = [None if i % 5 == 0 else texts[i : i + i % 3] for i in range(count)]
    for table in (pa.table({"k": range(count), "s": texts}), pa.table({"k": range(count), "s": lists})):
        sink = pa.BufferOutputStream()
        key = 1.0 if dictionary else 0.0
        po.write_table(table, sink, compression=codec, dictionary_key_size_threshold=key, stripe_size=1 << 24)
        stored = OrcRows(pa.BufferReader(sink.getvalue()), "x")
        columns = {"k": DataType("BIGINT"), "s": DataType("STRING")}
        parts = [part for _, part in stored.tables(columns, ranges=None, batch_rows=1 << 17)]
        assert max(part.nbytes for part in parts) <= 4 << 20
        assert 3 < len(parts) <= 600
        assert pa.concat_tables(parts).combine_chunks().equals(table.combine_chunks())
        only = [part for _, part in stored.tables({"k": DataType("BIGINT")}, ranges=None, batch_rows=1 << 17)]
        assert len(only) == 1


@covers("META-61")
def test_a_column_of_orc_whose_name_is_the_path_of_another_is_refused() -> None:
    for name, refused in (("a.b", True), ("a.x", True), ("b.a", False), ("a", False)):
        table = pa.table({name: [1, 2], "other" if name == "a" else "a": [{"b": 5}, None]})
        sink = pa.BufferOutputStream()
        po.write_table(table, sink)
        stored = OrcRows(pa.BufferReader(sink.getvalue()), "x")
        with (
            pytest.raises(InvalidRequestError, match="next to the nested column")
            if refused
            else nullcontext()
        ):
            ((_, part),) = stored.tables({name: DataType("BIGINT")}, ranges=None, batch_rows=10)
            assert part.column(name).to_pylist() == [1, 2]


RUNS = {  # the examples in the specification of ORC
    "0a2710": [10_000] * 5,
    "5e035ca1ab1edeadbeef": [23_713, 43_806, 57_005, 48_879],
    "8e092b2107d01e00147028323c46505afce8": [2030, 2000, 2020, 1_000_000, *range(2040, 2100, 10)],
    "c609020222424246": [2, 3, 5, 7, 11, 13, 17, 19, 23, 29],
}


@covers("SAFE-8")
def test_the_headers_of_runs_of_lengths_give_bounds() -> None:
    found = list(orc_sizes.runs(bytes.fromhex("".join(RUNS))))
    assert [count for count, _ in found] == [len(values) for values in RUNS.values()]
    for (_, bound), values in zip(found, RUNS.values(), strict=True):
        assert max(values) <= bound < 5 * max(values)


@covers("SAFE-8")
@pytest.mark.parametrize("codec", ["zlib", "snappy", "zstd", "lz4"])
def test_damaged_metadata_of_an_orc_file_ends_in_an_error_of_the_file(codec: str) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"k": range(100), "s": [str(i % 7) for i in range(100)]})
    po.write_table(table, sink, compression=codec, dictionary_key_size_threshold=1.0)
    data = sink.getvalue().to_pybytes()
    for at in range(3, len(data)):
        for byte in (0, 255, data[at] ^ 1):
            source = pa.BufferReader(data[:at] + bytes([byte]) + data[at + 1 :])
            with contextlib.suppress(*LIBRARY_ERRORS, InvalidRequestError):
                # Arrow decodes none of the rows: damage in them can end its process.
                assert orc_sizes.rows_at_once(source, po.ORCFile(source), ["k", "s"], 10) > 0


@covers("SAFE-8")
@pytest.mark.parametrize("codec", ["zlib", "snappy", "zstd", "lz4"])
def test_metadata_of_an_orc_file_that_unpacks_to_too_much_is_refused(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = pa.BufferOutputStream()
    po.write_table(pa.table({"k": range(100), "s": ["a"] * 100}), sink, compression=codec)
    source = pa.BufferReader(sink.getvalue())
    monkeypatch.setattr(orc_sizes, "MOST_UNPACKED", 20)
    found = "[0-9]{3}" if codec == "snappy" else "more than 20"
    with pytest.raises(ValueError, match=f"metadata of an ORC file unpacks to {found} bytes"):
        orc_sizes.rows_at_once(source, po.ORCFile(source), ["k", "s"], 10)


@covers("SAFE-8")
def test_an_orc_file_that_is_another_than_the_one_that_was_opened_is_refused() -> None:
    def stored(*names: str) -> pa.BufferReader:
        sink = pa.BufferOutputStream()
        po.write_table(pa.table({name: [1] for name in names}), sink, compression="uncompressed")
        return pa.BufferReader(sink.getvalue())

    opened = po.ORCFile(stored("k", "n", "s"))
    files = [stored("k", "n" * size) for size in range(1, 100)]
    other = next(one for one in files if po.ORCFile(one).file_footer_length == opened.file_footer_length)
    with pytest.raises(ValueError, match="2 columns in the footer, 3 in the schema"):
        orc_sizes.rows_at_once(other, opened, ["k"], 10)


@covers("SAFE-8")
def test_a_merge_holds_no_more_than_a_bounded_number_of_bytes_of_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "BATCH_BYTES", 1 << 20)
    table = pa.table({"k": range(100), "s": [LONG] * 100})
    buffer = RunBuffer(iter([("x", table)] * 50), 1 << 20, level=0)
    buffer.fill()
    assert buffer.more
    assert buffer.rows == 200


@covers("SAFE-8")
def test_a_check_keeps_an_error_without_what_was_unpacked_before_it(path: Path) -> None:
    def unpacked(data: bytes, *, at: str) -> None:
        try:
            raise ValueError("a frame that holds all that was unpacked")
        except ValueError:
            raise CorruptFileError("block", at=at, expected="records", found=str(len(data))) from None

    with (
        mock.patch("pktable.check.manifests.decode_manifest_list", unpacked),
        mock.patch.object(Findings, "damage", autospec=True) as damage,
    ):
        Table.open(path).check()
    errors = [call.args[1] for call in damage.call_args_list]
    assert errors
    assert not [one for one in errors if one.__context__ or one.__cause__ or one.__traceback__]


@covers("SAFE-8")
def test_the_findings_of_a_check_are_short(path: Path) -> None:
    surgeon = Surgeon(path)
    surgeon.edit_file(live(surgeon), file_name=f"{LONG}.parquet")
    assert all(len(str(finding)) < 3_000 for finding in Table.open(path).check().findings)


@pytest.mark.versions
@covers("SAFE-6")
@pytest.mark.spark
def test_spark_makes_no_bitset_for_rows_that_a_manifest_only_states(path: Path) -> None:
    from pktable.run.spark.runner import SparkRunner

    from model_tests.backends.spark_session import spark_session

    surgeon = Surgeon(path)
    name = live(surgeon)
    vector = DeletionVector.from_positions([1 << 40], 64)
    data, ranges = encode_index({name: vector})
    surgeon.index_file(LAST).write_bytes(data)
    index_edit(file_size=len(data), row_count=1, ranges=ranges)(surgeon)
    surgeon.edit_file(name, row_count=1 << 41)
    table = Table.open(path, spark=spark_session())
    table.runner = table.stager.runner = SparkRunner(spark_session())
    with pytest.raises(CorruptFileError, match="row count"):
        table.read()
