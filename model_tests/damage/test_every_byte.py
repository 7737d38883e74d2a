"""A change of one byte, and a cut anywhere, raise or change nothing: a sample here, every byte by command.

`python -m model_tests.damage.every_byte` tries them all; DAMAGE.md has what it found.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import CorruptFileError, Table
from pktable.datafile.parquet_footer import (
    EARLIER_FIELD,
    EARLIER_NAME,
    LIKELY_BYTES,
    NAME,
    FooterSink,
)
from pktable.datafile.readers import ParquetRows, read_footer
from pktable_spec.covers import covers

from model_tests.damage import every_byte, flipped_vector

STEP = 151  # a prime, so that fields of all kinds are met


@covers("RD-11", "META-10", "META-33", "META-14", "META-38", "CMT-13", "DVF-5")
def test_no_changed_byte_and_no_cut_misleads_a_read() -> None:
    outcomes = list(every_byte.outcomes(STEP, lambda what, done, total: None, checks_every=7))
    assert [outcome.kind for outcome in outcomes] == list(every_byte.KINDS)
    for outcome in outcomes:
        assert not outcome.wrong
        assert not outcome.unseen
        assert outcome.bytes_tried
        assert outcome.truncations
        if not outcome.kind.startswith("hint"):
            assert outcome.refused


def test_the_damager_notices_a_reader_that_checks_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pktable.format.vectors.deletion_vector.zlib.crc32", lambda *_: AnyNumber())
    every_byte.make_table(tmp_path / "table")
    outcome = every_byte.Damager(tmp_path / "table", checks_every=1000).run("DV index file", 1)
    assert outcome.wrong


class AnyNumber(int):
    """A checksum equal to every other: the tests' stand-in for not computing one."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


@covers("META-37", "META-38", "RD-8")
def test_statistics_of_a_row_group_cannot_be_changed_unseen(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true", "parquet.block.row.count.limit": "4"}
    table = Table.create(tmp_path, "k INT, n BIGINT", primary_key=["k"], options=options)
    numbers = pa.array([1000 + key for key in range(12)])
    table.upsert(pa.table({"k": pa.array(range(12), pa.int32()), "n": numbers}))
    (path,) = tmp_path.glob("bucket-0/data-*")
    data = bytearray(path.read_bytes())
    # The last row group holds 1008 to 1011; that its greatest is 1000 a filter would believe.
    data[data.rindex(struct.pack("<q", 1011))] ^= 1011 ^ 1000
    path.write_bytes(data)
    with pytest.raises(CorruptFileError, match="footer checksum"):
        Table.open(tmp_path).to_arrow(where="n = 1010")


@covers("META-10", "META-37", "META-38")
def test_every_column_has_a_page_index_and_the_checker_finds_each_change_of_it(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true", "parquet.block.row.count.limit": "40"}
    table = Table.create(tmp_path, "k INT, n BIGINT, f DOUBLE", primary_key=["k"], options=options)
    numbers = pa.array(range(100), pa.int64())
    table.upsert(pa.table({"k": numbers.cast(pa.int32()), "n": numbers, "f": numbers.cast(pa.float64())}))
    (path,) = tmp_path.glob("bucket-0/data-*")
    metadata: Any = pq.ParquetFile(path).metadata
    columns = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    assert all(column.has_offset_index for column in columns)
    # Arrow's bounds of floats leave NaN out, so they have none.
    assert {column.path_in_schema for column in columns if not column.has_column_index} == {"f"}
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # The bounds of the page of `n` in the last row group, and the end of the last offset index.
    for at in (data.rindex(struct.pack("<q", 99), 0, footer), footer - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        (finding,) = table.check().findings
        assert "page index checksum" in str(finding)
    path.write_bytes(data)
    assert not table.check().findings


@covers("META-38")
def test_the_footer_of_a_file_from_before_page_indexes_is_still_checked(tmp_path: Path) -> None:
    path = tmp_path / "earlier.parquet"
    pq.write_table(pa.table({"n": [1]}), path)
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    body = data[start:-9]
    footer = body + EARLIER_FIELD + zlib.crc32(body).to_bytes(4, "big") + EARLIER_NAME + b"\0"
    whole = bytearray(data[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert read_footer(pa.BufferReader(whole), at="x").metadata.num_rows == 1
    ParquetRows(pa.BufferReader(whole), "x").expect_page_index()
    whole[start + 8] ^= 1
    with pytest.raises(CorruptFileError, match="footer checksum"):
        read_footer(pa.BufferReader(whole), at="x")


@covers("META-37")
def test_rows_that_are_copied_to_another_file_leave_the_checksum_behind(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT", primary_key=["k"])
    table.upsert(pa.table({"k": pa.array([1], pa.int32())}))
    (path,) = tmp_path.glob("bucket-0/data-*")
    assert NAME in path.read_bytes()
    rows = pq.read_table(path)
    assert NAME not in repr(rows.schema.metadata).encode("latin-1")
    pq.write_table(rows, tmp_path / "copy.parquet")
    assert NAME not in (tmp_path / "copy.parquet").read_bytes()
    with pa.OSFile(str(tmp_path / "copy.parquet")) as copy:
        assert read_footer(copy, at="copy").metadata.num_rows == 1


@covers("META-37", "META-38")
def test_a_footer_of_any_length_is_found_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    schema = pa.schema([(f"column {i}", pa.int32()) for i in range(3000)])
    with pa.OSFile(str(path), "wb") as file:
        sink = FooterSink(file)
        sink.finish(pq.ParquetWriter(sink, schema))
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[-8:-4], "little")
    assert length > LIKELY_BYTES
    assert read_footer(pa.BufferReader(data), at="x").metadata.num_columns == 3000
    data[-length] ^= 1
    with pytest.raises(CorruptFileError, match="footer checksum"):
        read_footer(pa.BufferReader(data), at="x")
    for damaged in (b"", data[:7], data[:-1], data[: -length - 9] + data[-8:]):
        with pytest.raises(CorruptFileError, match="footer"):
            read_footer(pa.BufferReader(bytes(damaged)), at="x")


@covers("DVF-5")
def test_only_the_checksum_stands_between_a_flipped_vector_and_wrong_rows() -> None:
    """A reader that computes no CRC is misled; DAMAGE.md records that pypaimon and the Paimon JVM are."""

    def without_crc(warehouse: Path) -> tuple[str, list[int]]:
        copy = warehouse / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(warehouse / "d.db/t", copy)
        (index,) = copy.glob("index/*")
        data = index.read_bytes()
        index.write_bytes(data[:-4] + struct.pack(">I", zlib.crc32(data[5:-4])))
        return "none", sorted(Table.open(copy).to_arrow().column("k").to_pylist())

    proof = flipped_vector.prove(without_crc)
    assert proof.peer_was_misled
    assert "vector checksum" in proof.ours
