"""Tables that others write and we do not: other formats, other places, other kinds of vectors and indexes."""

from __future__ import annotations

import datetime as dt
import json
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest
from pktable import Table
from pktable.bucket.reader import DataReader
from pktable.format.binary_row import EMPTY_ROW
from pktable.format.metadata.manifest import ADD, DELETE, DataFileMeta, IndexManifestEntry, ManifestEntry
from pktable.format.metadata.stats import collect_stats
from pktable.run.spark.runner import SparkRunner
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.errors import (
    CorruptFileError,
    InvalidRequestError,
    OutsideTableError,
)

from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import (
    Replacement,
    as_avro,
    as_orc,
    at,
    elsewhere,
    rewritten,
    with_empty_row_groups,
    without_keys,
)

DV = {"deletion-vectors.enabled": "true"}
COLUMNS = (
    "k INT, s STRING, b BIGINT, d DECIMAL(20, 3), f FLOAT, x BOOLEAN, ti TINYINT, by BYTES, da DATE, "
    "t3 TIMESTAMP(3), z TIMESTAMP(6) WITH LOCAL TIME ZONE, a ARRAY<INT>, m MAP<STRING, TIMESTAMP(3)>, "
    "mi MAP<INT, DECIMAL(4, 1)>, r ROW<p INT, q ARRAY<ROW<u STRING>>>"
)
ROWS = 600


def row(k: int, tag: int) -> dict[str, Any]:
    """A row in which every column is null sometimes, and every kind of value occurs."""
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 123000) + dt.timedelta(days=k)
    values: dict[str, Any] = {
        "s": f"{tag}-ä{k}",
        "b": k * 10_000_000_019 - tag,
        "d": Decimal(k * 12345 - 999_999_999) / 1000,
        "f": k / 4,
        "x": k % 2 == 0,
        "ti": k % 250 - 125,
        "by": bytes([k % 256, 0]),
        "da": moment.date(),
        "t3": moment,
        "z": moment.replace(tzinfo=dt.timezone.utc, microsecond=k % 1000),
        "a": [k, None, tag][: k % 4],
        "m": [("one", moment), ("none", None)][: k % 3],
        "mi": [(k, Decimal("-1.5"))][: k % 2],
        "r": {"p": k, "q": [{"u": "x"}, None, {"u": None}][: k % 4]},
    }
    return {"k": k} | {name: None if (k + i) % 11 == 0 else v for i, (name, v) in enumerate(values.items())}


def arrow(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=table.schema.arrow_schema)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with two levels, and a vector on the lower one."""
    path = tmp_path / "table"
    options = {**DV, "bucket": "2", "target-file-size": "15 kb", "parquet.block.row.count.limit": "100"}
    table = Table.create(path, COLUMNS, primary_key=["k"], options=options)
    table.upsert(arrow(table, [row(k, 0) for k in range(ROWS)]))
    table.upsert(arrow(table, [row(k, 1) for k in range(0, ROWS, 3)]))
    table.delete(pa.table({"k": pa.array(range(0, ROWS, 50), pa.int32())}))
    assert table.files().column("deleted_row_count").to_numpy().sum() > 0
    assert len(set(table.files().column("level").to_pylist())) > 1
    return path


def sent_out(path: Path, *, external_roots: Sequence[Path] = ()) -> Table:
    table = Table.open(path, spark=spark_session(), external_roots=external_roots)
    table.runner = table.stager.runner = SparkRunner(spark_session())
    return table


WHERES = (None, "k = 301", "k > 550 AND s LIKE '1-%'", "d < -900000 OR x", "b < 0", "k % 50 = 0")


def rows_by_condition(table: Table) -> list[list[dict[str, Any]]]:
    """Return what the table holds, as read under each of several conditions."""
    return [in_order(table.to_arrow(where=where)) for where in WHERES]


def in_order(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda one: one["k"])


def in_turn(*ways: Replacement) -> Replacement:
    """Return what replaces one file in one way, the next in another."""
    done: list[int] = []

    def change(file: DataFileMeta, path: Path) -> DataFileMeta:
        done.append(1)
        return ways[len(done) % len(ways)](file, path)

    return change


def unchanged(file: DataFileMeta, path: Path) -> DataFileMeta:
    return file


FILES = {
    "orc": as_orc,
    "avro": as_avro,
    "mixed": in_turn(as_orc, as_avro, unchanged, without_keys),
    "thin": without_keys,
    "empty row groups": with_empty_row_groups,
}


@covers("META-28", "RD-8")
@pytest.mark.parametrize("columns", [(), ("s",), ("k", "s")])
def test_statistics_that_paimon_0_9_has_copied_without_their_columns_exclude_nothing(
    tmp_path: Path, columns: tuple[str, ...]
) -> None:
    table = Table.create(tmp_path, "k INT, s STRING, n INT", primary_key=["k"], options=DV)
    given = pa.table({"k": pa.array([1, 2], pa.int32()), "s": ["a", "b"], "n": pa.array([3, 4], pa.int32())})
    table.upsert(given)

    def copied(file: DataFileMeta, path: Path) -> DataFileMeta:
        fields = [table.schema.field(name) for name in columns]
        return replace(file, value_stats=collect_stats(given, fields), value_stats_cols=None)

    rewritten(tmp_path, copied)
    table = Table.open(tmp_path)
    for where in ("n = 4", "s = 'b'", "k = 2", "n > 3 AND k > 1"):
        assert table.to_arrow(where=where).to_pylist() == [{"k": 2, "s": "b", "n": 4}]
    # `rewritten` starts a base of its own; the statistics are no finding.
    assert {finding.clause for finding in check(tmp_path).findings} == {"CMT-5"}
    table.compact(full=True)
    assert Table.open(tmp_path).to_arrow(where="n = 4").num_rows == 1


@covers("META-17", "META-29", "META-30", "META-83", "RD-1", "RD-7", "RD-8")
@pytest.mark.parametrize("kind", FILES)
def test_files_of_other_formats_hold_the_same_rows(path: Path, kind: str) -> None:
    expected = rows_by_condition(Table.open(path))
    rewritten(path, FILES[kind])
    table = Table.open(path)
    assert rows_by_condition(table) == expected
    assert table.count() == len(expected[0])
    assert table.to_arrow(limit=5).num_rows == 5
    (one,) = table.to_arrow(columns=["r", "k"], where="k = 302").to_pylist()
    assert one in [{"r": row["r"], "k": row["k"]} for row in expected[0]]


@pytest.mark.spark
@covers("META-17", "RD-7", "RD-12")
@pytest.mark.parametrize("kind", ["orc", "avro", "mixed"])
def test_spark_reads_files_of_other_formats_by_the_kernel(path: Path, kind: str) -> None:
    expected = rows_by_condition(Table.open(path))
    rewritten(path, FILES[kind])
    assert rows_by_condition(sent_out(path)) == expected
    table = Table.open(path, spark=spark_session())
    assert in_order(table.read().toArrow().cast(table.schema.arrow_schema)) == expected[0]


@covers("META-17", "META-71", "CMP-12", "CMP-14", "DV-6")
@pytest.mark.parametrize("kind", ["orc", "avro", "mixed", "empty row groups"])
def test_a_compaction_takes_in_files_of_other_formats_and_writes_parquet(path: Path, kind: str) -> None:
    expected = {r["k"]: r for r in Table.open(path).to_arrow().to_pylist()}
    rewritten(path, FILES[kind])
    table = Table.open(path)
    table.upsert(arrow(table, [row(k, 2) for k in (1, 2, 3)]))
    assert {r["k"]: r for r in Table.open(path).to_arrow().to_pylist()} == expected | {
        k: row_as_read(table, k) for k in (1, 2, 3)
    }
    table.compact(full=True)
    table = Table.open(path)
    assert len(table.to_arrow()) == len(expected)
    assert {Path(name).suffix for name in table.files().column("file_name").to_pylist()} == {".parquet"}
    assert not table.files().column("deleted_row_count").to_numpy().any()


def row_as_read(table: Table, k: int) -> dict[str, Any]:
    (found,) = in_order(arrow(table, [row(k, 2)]))
    return found


@covers("META-17")
def test_a_file_of_an_unknown_format_is_refused_by_name(path: Path) -> None:
    def as_csv(file: DataFileMeta, source: Path) -> DataFileMeta:
        target = source.with_suffix(".csv")
        target.write_bytes(source.read_bytes())
        return at(file, target)

    rewritten(path, as_csv)
    with pytest.raises(InvalidRequestError, match=r"expected a file of parquet, orc, avro, found \.csv"):
        Table.open(path).to_arrow()


@covers("META-44", "CMP-16")
@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_a_file_is_read_part_by_part(path: Path, kind: str) -> None:
    rewritten(path, FILES[kind])
    table = Table.open(path)
    state = table.catalog.state()
    for identity, files in state.files.items():
        place = table.catalog.context.place(*identity)
        for file in files:
            reader = DataReader(table.catalog.context, place, file)
            parts = list(reader.read(["k", "r"], batch_rows=70))
            assert all(part.num_rows <= 70 for _, part in parts)
            ends = [position + part.num_rows for position, part in parts]
            assert [position for position, _ in parts] == [0, *ends[:-1]]
            assert ends[-1] == file.row_count
            whole = pa.concat_tables(
                [part for _, part in DataReader(table.catalog.context, place, file).read(["k", "r"])]
            )
            assert pa.concat_tables([part for _, part in parts]).equals(whole)
    if kind == "orc":
        assert any(po.ORCFile(source).nstripes > 1 for source in path.rglob("*.orc"))


@covers("CMP-16", "META-44")
def test_the_memory_of_reading_avro_does_not_depend_on_the_file(tmp_path: Path) -> None:
    peaks = []
    for rows in (20_000, 80_000):
        path = tmp_path / str(rows)
        table = Table.create(path, "k INT, s STRING", primary_key=["k"], options=DV)
        table.upsert(
            pa.table({"k": pa.array(range(rows), pa.int32()), "s": [f"{i:040}" for i in range(rows)]})
        )
        rewritten(path, as_avro)
        table = Table.open(path)
        ((identity, (file,)),) = table.catalog.state().files.items()
        reader = DataReader(table.catalog.context, table.catalog.context.place(*identity), file)
        tracemalloc.start()
        assert sum(part.num_rows for _, part in reader.read(["k", "s"], batch_rows=1000)) == rows
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


@covers("META-18", "RD-1", "SAFE-2")
def test_files_elsewhere_are_read_where_they_are(path: Path, tmp_path: Path) -> None:
    expected = in_order(Table.open(path).to_arrow())
    away = tmp_path / "a place=50%25"
    rewritten(path, elsewhere(away), index=lambda bucket: (away, f"file://{away}"))
    assert list(away.glob("data-*"))
    assert list(away.glob("index-*"))
    with pytest.raises(OutsideTableError, match="external_roots"):
        Table.open(path).to_arrow()
    assert in_order(Table.open(path, external_roots=[away]).to_arrow()) == expected


@pytest.mark.versions
@pytest.mark.spark
@covers("META-18", "RD-12")
def test_spark_reads_files_elsewhere(path: Path, tmp_path: Path) -> None:
    expected = in_order(Table.open(path).to_arrow())
    away = tmp_path / "a place=50%25"
    rewritten(path, in_turn(elsewhere(away), unchanged), index=lambda bucket: (away, f"file:{away}"))
    assert in_order(sent_out(path, external_roots=[away]).to_arrow()) == expected


@covers("META-49", "META-50", "META-9")
def test_vectors_beside_the_data_are_found_and_written_there(tmp_path: Path) -> None:
    options = {
        **DV,
        "index-file-in-data-file-dir": "true",
        "data-file.path-directory": "data",
        "partition.default-name": "nothing",
    }
    table = Table.create(
        tmp_path, "p STRING, k INT", primary_key=["p", "k"], partition_by=["p"], options=options
    )
    rows = pa.table({"p": [""] * 100 + ["x"] * 100, "k": pa.array([*range(100)] * 2, pa.int32())})
    table.upsert(rows)
    table.upsert(rows.slice(50, 10))
    indexes = [path for path in tmp_path.rglob("index-*") if path.parent.name != "manifest"]
    assert {path.parent for path in indexes} == {tmp_path / "data/p=nothing/bucket-0"}
    assert not (tmp_path / "index").exists()
    table = Table.open(tmp_path)
    assert table.to_arrow().num_rows == 200
    assert sum(table.files().column("deleted_row_count").to_pylist()) == 10


@covers("DVF-3", "DVF-4", "DVF-12", "RD-1")
@pytest.mark.parametrize("bits", [lambda i: 64, lambda i: 32 if i % 2 else 64], ids=["64-bit", "both kinds"])
def test_vectors_of_both_kinds_mark_the_same_rows(path: Path, bits: Callable[[int], int]) -> None:
    expected = in_order(Table.open(path).to_arrow())
    rewritten(path, unchanged, bits=bits)
    table = Table.open(path)
    assert in_order(table.to_arrow()) == expected
    table.upsert(arrow(table, [row(1, 9)]))
    assert Table.open(path).count() == len(expected)


@pytest.mark.spark
@covers("DVF-12", "RD-12")
def test_spark_reads_vectors_of_both_kinds(path: Path) -> None:
    expected = in_order(Table.open(path).to_arrow())
    rewritten(path, unchanged, bits=lambda i: 32 if i % 2 else 64)
    assert in_order(sent_out(path).to_arrow()) == expected


@covers("CMT-6", "CMT-23")
def test_indexes_of_other_types_stay_beside_the_vectors(path: Path) -> None:
    others = [
        IndexManifestEntry(0, EMPTY_ROW, 0, "HASH", "index-hash-0", 8, 2, None),
        IndexManifestEntry(
            0, EMPTY_ROW, 0, "BTREE", "index-btree-0", 8, 2, None,
            global_index={"_ROW_RANGE_START": 0, "_ROW_RANGE_END": 9, "_INDEX_FIELD_ID": 1},
        ),
    ]  # fmt: skip
    expected = in_order(Table.open(path).to_arrow())
    rewritten(path, unchanged, others=others)
    table = Table.open(path)
    assert in_order(table.to_arrow()) == expected
    table.upsert(arrow(table, [row(1, 9)]))
    state = Table.open(path).catalog.state()
    kept = (*state.hashes.values(), *state.other_indexes)
    assert [entry.file_name for entry in kept] == ["index-hash-0", "index-btree-0"]


@covers("CMT-4")
def test_a_file_that_changed_its_level_is_live_once(path: Path) -> None:
    def moved(entry: ManifestEntry) -> list[ManifestEntry]:
        older = replace(entry, file=entry.file.at_level(0))
        return [entry, older, replace(older, kind=DELETE)]  # in whatever order

    expected = in_order(Table.open(path).to_arrow())
    rewritten(path, unchanged, twice=moved)
    assert in_order(Table.open(path).to_arrow()) == expected
    assert Table.open(path).catalog.state().files
    assert moved(ManifestEntry(ADD, EMPTY_ROW, 0, 1, Table.open(path).catalog.state().files[EMPTY_ROW, 0][0]))


@covers("META-21")
def test_unknown_fields_of_a_snapshot_are_ignored(path: Path) -> None:
    expected = Table.open(path).to_arrow()
    for file in (path / "snapshot").glob("snapshot-*"):
        json_text = json.loads(file.read_bytes())
        json_text.pop("pktable.crc32", None)
        file.write_text(
            json.dumps({"newField": {"deep": [1]}, **json_text, "operation": "x", "logOffsets": {}})
        )
    table = Table.open(path)
    assert table.to_arrow().equals(expected)
    table.upsert(arrow(table, [row(1, 9)]))


@covers("META-17", "RD-11")
@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_damage_to_files_of_other_formats_is_reported_as_far_as_they_can_tell(path: Path, kind: str) -> None:
    rewritten(path, FILES[kind])
    table = Table.open(path)
    expected = table.to_arrow().num_rows
    (victim, *_) = sorted(path.rglob(f"*.{kind}"))
    data = victim.read_bytes()
    reported = 0
    for place in range(0, len(data), max(1, len(data) // 60)):
        victim.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            found = table.to_arrow().num_rows
        except CorruptFileError as error:
            reported += victim.name in str(error)
        else:
            assert found == expected
    assert reported > 10
    for short in (data[:-1], data[: len(data) // 2], b""):
        victim.write_bytes(short)
        with pytest.raises(CorruptFileError, match="file size"):
            table.to_arrow()


@covers("DV-6", "RD-5", "CMP-13")
def test_a_retraction_below_level_zero_deletes_the_older_row_when_a_compaction_takes_it(
    tmp_path: Path,
) -> None:
    options = {**DV, "bucket": "1", "write-only": "true", "num-sorted-run.compaction-trigger": "3"}
    table = Table.create(tmp_path, "k INT, v STRING", primary_key=["k"], options=options)

    def upserted(first: int, last: int, value: str) -> None:
        keys = pa.array(range(first, last), pa.int32())
        table.upsert(pa.table({"k": keys, "v": [f"{value} {key}" for key in keys]}))

    upserted(0, 5_000, "a long value that is in the large file of the greatest level")
    table.compact(full=True)
    table.delete(pa.table({"k": pa.array([7], pa.int32())}))
    rewritten(tmp_path, lambda file, path: replace(file, level=file.level or 2))
    assert {file["level"] for file in table.files().to_pylist()} == {2, 3}
    assert 7 not in keys_of(table)
    upserted(6_000, 6_050, "new")
    table.compact()
    files = {file["level"]: file for file in table.files().to_pylist()}
    assert {level: file["retraction_count"] for level, file in files.items()} == {2: 0, 3: 0}
    assert files[3]["deleted_row_count"] == 1
    assert keys_of(table) == [key for key in (*range(5_000), *range(6_000, 6_050)) if key != 7]


def keys_of(table: Table) -> list[int]:
    return sorted(table.to_arrow(columns=["k"]).column("k").to_pylist())
