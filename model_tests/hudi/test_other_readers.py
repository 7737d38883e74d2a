"""Real tables whose log files were given an index: we read the same rows, and so does hudi-rs where it is installed.

Hudi's Java readers are not run here. That they skip the same places was measured with Hudi 1.2.0, 1.0.2 and 0.15.0.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import HudiTable
from pktable.store.file_io import LocalFileIO
from pktable_hudi.format.log_block import BlockKind, HeaderKey, blocks, encode_block
from pktable_hudi.format.log_index import with_index
from pktable_hudi.format.names import log_file
from pktable_hudi.index_writer import IndexWriter
from pktable_hudi.log_rows import SIGNS, Wanted, block_rows
from pktable_hudi.log_scan import PlacedBlock
from pktable_hudi.slices import file_groups, writing_slice
from pktable_spec.covers import covers

from model_tests.hudi.real_tables import each_hudi_table, unpacked
from model_tests.hudi.test_real_rows import points, rows_of

needs_hudi_rs = pytest.mark.skipif(
    importlib.util.find_spec("hudi") is None, reason="hudi (hudi-rs) is not installed"
)


def with_indexes(archive: Path, target: Path) -> int:
    """Copy a table, and give an index to every log file whose block can carry one; return how many got one."""
    shutil.copytree(unpacked(archive), target)
    shutil.rmtree(target / ".hoodie" / "metadata", ignore_errors=True)  # it records the sizes of log files
    properties = target / ".hoodie" / "hoodie.properties"
    kept = [
        line
        for line in properties.read_text().splitlines()
        if "hoodie.table.metadata.partitions=" not in line
    ]
    properties.write_text("\n".join(kept))
    table, store, count = HudiTable.open(target), LocalFileIO(), 0
    for group in file_groups(store, str(target)):
        for log in group.logs:
            path = target / group.partition / log.name
            (block,) = blocks(path.read_bytes(), at=str(path))
            if block.kind not in (BlockKind.AVRO, BlockKind.DELETE):
                continue
            slice_ = writing_slice(group, table.timeline(), table.settings, table.timeline().latest)
            instant = block.text(HeaderKey.INSTANT, str(path))
            rows = block_rows(PlacedBlock(block, instant, str(path)), Wanted(SIGNS[:1], None))
            keys = [] if rows.is_delete_block else rows.keys.to_pylist()
            index = IndexWriter(store, str(target), slice_).next_index(instant, keys)
            path.write_bytes(b"".join(map(encode_block, with_index(block, index, keys))))
            group.sizes[log.name] = path.stat().st_size
            count += 1
    return count


def rs_rows(path: Path, columns: list[str]) -> list[str]:
    hudi: Any = importlib.import_module("hudi")
    batches = hudi.HudiTableBuilder.from_base_uri(str(path)).build().read()
    return rows_of(pa.Table.from_batches([pa.record_batch(one) for one in batches]), columns)


@covers("LOG-8", "LOG-38", "LOG-47")
@each_hudi_table()
def test_a_real_table_with_indexes_has_the_same_rows(archive: Path, tmp_path: Path) -> None:
    given = with_indexes(archive, tmp_path / "t")
    table = HudiTable.open(tmp_path / "t")
    for instant, read_optimized, columns, rows in points(archive):
        assert rows_of(table.to_arrow(instant=instant, read_optimized=read_optimized), columns) == rows
    assert table.check().findings == []
    keys = table.to_arrow(columns="_hoodie_record_key").column(0).to_pylist()
    assert set(table.locate([*keys, "no such key"]).column("key").to_pylist()) == set(keys)
    assert given or "nonpartitioned" in archive.stem
    assert all(log_file(one["file"]) for one in table.files().to_pylist() if one["kind"] == "log")


@needs_hudi_rs
@covers("LOG-38")
@each_hudi_table()
def test_hudi_rs_reads_the_same_rows_with_and_without_indexes(archive: Path, tmp_path: Path) -> None:
    columns = next(points(archive))[2]
    columns = [
        one for one in columns if one not in ("txn_datetime", "timestampField")
    ]  # spelled in other zones
    before = rs_rows(unpacked(archive), columns)
    with_indexes(archive, tmp_path / "t")
    assert rs_rows(tmp_path / "t", columns) == before
