"""Filters on partition columns of a DataFrame leave out the files of other partitions, and no row besides."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import Table
from pktable.format.metadata.manifest import ADD, ManifestEntry
from pktable.run.spark import native_scan, relations
from pktable_spec.covers import covers
from pyspark.sql import DataFrame

from model_tests.backends.spark_session import spark_session
from model_tests.table.foreign_tables import commit

pytestmark = pytest.mark.spark

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "2"}
KEYS = range(20)  # in each partition
REPLACED = KEYS[::3]  # afterwards, so that the first file of a bucket has deleted positions

# Texts that the names of directories could change. Null and blank ones would share a directory.
TEXTS = ["eu", "", "__HIVE_DEFAULT_PARTITION__", "x/y=z", "__DEFAULT_PARTITION__", "é😀", "EU", " ", "\t", "a b ",
         "%41", "50%25", "007", "null", "it's", "{a,b}*", "~", "${env:HOME}"]  # fmt: skip
NAMED_BY_DATE = {"partition.legacy-name": "false"}  # instead of by days since 1970
DATES = [date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)]
TIMES = [
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 1, 1),
    datetime(1, 1, 1),
    datetime(1582, 10, 10, 1),
]
INSTANTS = [datetime(2024, 1, day, 12, tzinfo=timezone.utc) for day in range(1, 31)]
DECIMALS = [Decimal("-1.50"), Decimal("0.00"), Decimal("999.99")]
CASES: dict[str, tuple[str, Sequence[Any], dict[str, str]]] = {
    "texts": ("STRING", TEXTS, {}),
    "some texts": ("STRING", TEXTS[:3], {}),
    "texts in a folder": ("VARCHAR(40)", ["eu", "us"], {"data-file.path-directory": "data/of=files"}),
    "texts of a length": ("CHAR(2)", ["eu", "u", " "], {}),
    "another name for null": ("STRING", ["eu", "", "none"], {"partition.default-name": "none"}),
    "truth": ("BOOLEAN", [True, False], {}),
    "bytes": ("TINYINT", [-128, 0, 127], {}),
    "shorts": ("SMALLINT", [-(1 << 15), (1 << 15) - 1], {}),
    "ints": ("INT", [-(1 << 31), 0, (1 << 31) - 1], {}),
    "longs": ("BIGINT", [-(1 << 63), 0, (1 << 63) - 1], {}),
    "days": ("DATE", DATES, {}),
    "dates": ("DATE", DATES, NAMED_BY_DATE),
    "decimals": ("DECIMAL(5, 2)", DECIMALS, {}),
    "long decimals": ("DECIMAL(38, 3)", [Decimal("9" * 35 + ".999"), Decimal("-0.001")], {}),
    "times": ("TIMESTAMP(6)", TIMES, {}),
    "times with a space": ("TIMESTAMP(6)", TIMES, NAMED_BY_DATE),
    "instants": ("TIMESTAMP_LTZ(3)", INSTANTS[:3], NAMED_BY_DATE),
    "many instants": ("TIMESTAMP_LTZ(3)", INSTANTS[: relations.FEW_PARTITIONS + 1], {}),
}


def partitioned(path: Path, kind: str, values: Sequence[Any], options: dict[str, str]) -> Table:
    """Return a table with the same keys in every partition, and deleted positions in each."""
    table = Table.create(
        path,
        f"k INT, p {kind}, v STRING",
        primary_key=["p", "k"],
        partition_by=["p"],
        options={**OPTIONS, **options},
    )
    for keys in (KEYS, REPLACED):
        rows = [{"k": k, "p": value, "v": f"{value!r} {k} {len(keys)}"} for value in values for k in keys]
        table.upsert(pa.Table.from_pylist(rows, table.schema.arrow_schema))
    assert sum(table.files()["deleted_row_count"].to_pylist()) == len(values) * len(REPLACED)
    return table


@pytest.fixture
def tokyo() -> Iterator[None]:
    """A session in another time zone than that of the values."""
    spark = spark_session()
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield
    spark.conf.set("spark.sql.session.timeZone", zone)


def on_spark(table: Table, *, external_roots: Sequence[Path] = ()) -> DataFrame:
    frame = Table.open(table.path, spark=spark_session(), external_roots=external_roots).read()
    assert isinstance(frame, DataFrame)
    return frame


def is_partition(value: Any, frame: DataFrame) -> str:
    text = (value.isoformat() if isinstance(value, datetime) else str(value)).encode().hex()
    return f"p = CAST(CAST(X'{text}' AS STRING) AS {frame.schema['p'].dataType.simpleString()})"


def contents(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=repr)


@covers("RD-1", "RD-6")
@pytest.mark.parametrize("case", [case for case in CASES if case != "some texts"])
def test_rows_are_the_same_wherever_their_partition_columns_come_from(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch, tokyo: None
) -> None:
    kind, values, options = CASES[case]
    table = partitioned(tmp_path / "a=b" / "t", kind, values, options)
    frame = on_spark(table)
    with monkeypatch.context() as patch:
        patch.setattr(native_scan, "by_partition_columns", from_files)
        plain = on_spark(table)
    assert frame.schema == plain.schema
    found = contents(frame)
    assert found == contents(plain)
    assert {row[2] for row in found} == set(table.to_arrow()["v"].to_pylist())
    some = values[::2]
    of_some = contents(frame.where(" OR ".join(is_partition(value, frame) for value in some)))
    assert of_some == [row for row in found if row[2].startswith(tuple(f"{value!r} " for value in some))]
    assert len(of_some) == len(KEYS) * len(some)


@pytest.mark.versions
@covers("RD-8")
@pytest.mark.parametrize(("case", "scans"), [("times", 1), ("instants", 3), ("many instants", 1)])
def test_no_more_than_a_few_partitions_are_scanned_one_by_one(
    tmp_path: Path, case: str, scans: int, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, values, options = CASES[case]
    table = Table.create(
        tmp_path, f"k INT, p {kind}", primary_key=["k", "p"], partition_by=["p"], options=options
    )
    table.upsert(pa.Table.from_pylist([{"k": 1, "p": value} for value in values], table.schema.arrow_schema))
    on_spark(table).explain()
    assert capsys.readouterr().out.count("FileScan parquet") == scans


def from_files(context: Any, parts: Any, columns: Any) -> Any:
    return {relations.FROM_FILES: list(parts)}


WAYS: dict[str, dict[str, int]] = {
    "as usual": {},
    "positions in the filter": {"FEW_VECTORS": 1 << 10, "FEW_POSITIONS": 1 << 20},
    "looked up by size": {"FEW_POSITIONS": 0, "FILES_BY_SIZE": 1 << 10},
    "joined": {"FEW_POSITIONS": 0, "TASK_WORDS": 0},
}
"""How positions come to rows, by constants of `native_scan`."""


@covers("RD-1", "RD-8")
@pytest.mark.parametrize(
    ("case", "wanted", "condition", "way"),
    [
        *(("some texts", "eu", "p = 'eu'", way) for way in WAYS),
        ("some texts", "", "p = ''", "as usual"),
        ("days", DATES[3], "p > DATE '2000-01-01' AND p < DATE '2100-01-01'", "as usual"),
        ("decimals", DECIMALS[1], "p + 1 = 1", "as usual"),
        ("times", TIMES[1], "year(p) = 2024", "as usual"),
        ("instants", INSTANTS[1], "p = TIMESTAMP '2024-01-02 12:00:00Z'", "as usual"),
    ],
)
def test_a_filter_on_a_partition_column_opens_no_file_of_another_partition(
    tmp_path: Path, case: str, wanted: Any, condition: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WAYS[way].items():
        monkeypatch.setattr(native_scan, name, value)
    table = partitioned(tmp_path / "t", *CASES[case])
    frame = on_spark(table)
    one, none = frame.where(condition), frame.where(f"NOT ({condition})")
    expected = {text for text in table.to_arrow()["v"].to_pylist() if text.startswith(f"{wanted!r} ")}
    for path in tmp_path.rglob("data-*"):
        if not pq.read_table(path)["v"][0].as_py().startswith(f"{wanted!r} "):
            path.write_bytes(bytes(path.stat().st_size))
    found = contents(one)
    assert {row[2] for row in found} == expected
    assert len(found) == len(expected) == len(KEYS)
    with pytest.raises(Exception, match="FAILED_READ_FILE"):
        none.collect()


@covers("META-18", "RD-1")
def test_directories_elsewhere_say_nothing_of_partitions(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t", "INT", [1, 2], {})
    before = contents(on_spark(table))
    state = table.catalog.committer.latest()
    elsewhere = tmp_path / "p=3"
    elsewhere.mkdir()
    entries = []
    for (partition, bucket), files in state.files.items():
        place = table.catalog.context.place(partition, bucket)
        for file in files[:1]:
            os.replace(table.catalog.context.data_path(place, file), elsewhere / file.file_name)
        moved = [replace(file, external_path=f"file:{elsewhere / file.file_name}") for file in files[:1]]
        entries += [ManifestEntry(ADD, partition, bucket, 2, file) for file in (*moved, *files[1:])]
    commit(tmp_path / "t", entries, [one for files in state.indexes.values() for one in files])
    moved_away = on_spark(table, external_roots=[elsewhere])
    assert contents(moved_away) == before
    assert contents(moved_away.where("p = 2")) == [row for row in before if row[1] == 2]


@covers("RD-1", "SAFE-2")
def test_a_link_to_a_table_is_read_as_the_table(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t", "INT", [1, 2], {})
    (tmp_path / "link").symlink_to(tmp_path / "t")
    assert contents(on_spark(Table.open(tmp_path / "link"))) == contents(on_spark(table))


@covers("RD-6")
def test_no_condition_is_asked_of_a_partition_without_live_rows(tmp_path: Path) -> None:
    table = Table.create(
        tmp_path, "k INT, p INT, v BYTES", primary_key=["p", "k"], partition_by=["p"], options=OPTIONS
    )
    # Values so large that a compaction leaves them where they are.
    rows = [{"k": k, "p": p, "v": random.randbytes(1000)} for k in KEYS for p in (0, 5)]
    table.upsert(pa.Table.from_pylist(rows, table.schema.arrow_schema))
    table.delete(where="p = 0")
    files = [file for file in table.files().to_pylist() if file["partition"] == "p=0"]
    assert sum(file["deleted_row_count"] for file in files) == len(KEYS), "there are no files of deleted rows"
    on = Table.open(tmp_path, spark=spark_session())
    for frame in (on.read(where="10 / p > 1"), on.read().where("10 / p > 1")):
        assert frame.count() == table.to_arrow(where="10 / p > 1").num_rows == len(KEYS)


@covers("RD-6")
def test_a_condition_that_can_fail_is_asked_of_rows_and_not_of_partitions(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, p INT", primary_key=["p", "k"], partition_by=["p"])
    table.upsert(pa.table({"k": pa.array([1, 3, 2], pa.int32()), "p": pa.array([0, 0, 5], pa.int32())}))
    found = Table.open(tmp_path, spark=spark_session()).read(where="k = 2 AND 10 / p = 2", fresh=True)
    assert [tuple(row) for row in found.collect()] == [(2, 5)]


@covers("RD-1")
@pytest.mark.parametrize("columns", [["p"], ["v", "q"], ["q", "k", "p"]])
def test_some_of_the_partition_columns_can_be_read(tmp_path: Path, columns: list[str]) -> None:
    table = Table.create(
        tmp_path,
        "q DATE, k INT, p TIMESTAMP(0), v STRING",
        primary_key=["p", "k", "q"],
        partition_by=["p", "q"],
        options=OPTIONS,
    )
    rows = [{"k": k, "p": TIMES[1], "q": q, "v": f"{k}"} for k in KEYS for q in DATES]
    table.upsert(pa.Table.from_pylist(rows, table.schema.arrow_schema))
    frame = Table.open(tmp_path, spark=spark_session()).read(columns=columns)
    wanted = [tuple(row[name] for name in columns) for row in rows]
    assert contents(frame) == sorted(wanted, key=repr)
    assert frame.columns == columns
