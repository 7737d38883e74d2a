"""With a session, writes, statements and compactions are done by this process if they are small, otherwise by Spark.

Both write and compact the same, byte for byte. A DataFrame is computed once.
"""

from __future__ import annotations

import hashlib
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pktable import InvalidRequestError, Table
from pktable.run import by_size
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

pytestmark = pytest.mark.spark

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "2"}
COLUMNS = "k BIGINT, s STRING"
ROWS = 12_000
RUNNERS = ("local", "spark")


def rows(start: int, count: int, text: str) -> pa.Table:
    return pa.table({"k": range(start, start + count), "s": [f"{text} {k}" for k in range(count)]})


def frame(table: pa.Table) -> Any:
    return spark_session().createDataFrame(table)


def opened(path: Path, runner: str | None = None, *, key: bool = True) -> Table:
    options = OPTIONS if key else {"deletion-vectors.enabled": "true"}
    primary_key = ["k"] if key else None
    return Table.create(
        path, COLUMNS, primary_key=primary_key, options=options, spark=spark_session(), runner=runner
    )


def made(table: Table) -> list[tuple[Any, ...]]:
    """Return of every file of every snapshot what does not depend on names and times."""
    context, states, found = table.catalog.context, table.catalog.states, []
    for snapshot in table.snapshots():
        state = states.at(snapshot)
        for bucket_id, files in state.files.items():
            bucket = states.bucket(state, bucket_id)
            deleted = context.deleted_counts(bucket)
            for file in files:
                data = Path(context.data_path(bucket.place, file)).read_bytes()
                numbers = (file.level, file.row_count, file.min_sequence_number, file.max_sequence_number)
                which = (snapshot.id, *bucket_id, *numbers, deleted.get(file.file_name, 0))
                found.append((*which, hashlib.sha256(data).hexdigest()))
    return sorted(found)


@covers("TBL-21", "TBL-6", "CMP-16")
def test_either_runner_makes_the_same_files(tmp_path: Path) -> None:
    tables = [opened(tmp_path / runner, runner) for runner in RUNNERS]
    for table in tables:
        table.upsert(frame(rows(0, 300, "old")))
        table.upsert(rows(200, 200, "new"))
        table.compact(full=True)
    local, spark = map(made, tables)
    assert len(local) == 10
    assert local == spark


@covers("TBL-21", "APP-12")
def test_either_runner_leaves_the_same_rows_of_an_append_table(tmp_path: Path) -> None:
    kept = []
    for runner in RUNNERS:
        table = opened(tmp_path / runner, runner, key=False)
        table.append(frame(rows(0, 300, "old")))
        table.delete(where="k % 5 = 3")
        table.compact(full=True)
        table.update({"s": "upper(s)"}, where="k = 7")
        kept.append(sorted(map(repr, table.to_arrow(runner="local").to_pylist())))
    assert len(kept[0]) == 240
    assert kept[0] == kept[1]


def counted(folder: Path, count: int) -> Any:
    """Return a frame that leaves a file in ``folder`` for each batch of its rows that is computed."""

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            (folder / f"{batch.num_rows}-{uuid.uuid4()}").touch()
            yield batch

    numbers = spark_session().range(count).selectExpr("id AS k", "CAST(id AS STRING) AS s")
    return numbers.mapInArrow(compute, numbers.schema)


@pytest.mark.versions
@covers("TBL-22")
@pytest.mark.parametrize("brought", [True, False])
def test_a_frame_is_computed_once(tmp_path: Path, brought: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not brought:
        monkeypatch.setattr(by_size, "BROUGHT_BYTES", 1 << 10)
    (tmp_path / "computed").mkdir()
    table = opened(tmp_path / "t")
    table.upsert(counted(tmp_path / "computed", ROWS))
    assert table.count() == ROWS
    computed = [int(file.name.partition("-")[0]) for file in (tmp_path / "computed").iterdir()]
    assert sum(computed) == ROWS


@covers("TBL-21")
def test_far_more_rows_than_estimated_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pq.write_table(pa.table({"k": range(ROWS), "s": ["same"] * ROWS}), tmp_path / "rows.parquet")
    monkeypatch.setattr(by_size, "HELD_BYTES", 32 * 1000)  # a row is reckoned as 32 bytes
    table = opened(tmp_path / "t")
    with caplog.at_level(logging.DEBUG, "pktable"):
        table.upsert(spark_session().read.parquet(str(tmp_path / "rows.parquet")))
    assert "write: local (a DataFrame of about" in caplog.text
    assert table.to_arrow(runner="local").sort_by("k").column("k").to_pylist() == list(range(ROWS))


@pytest.mark.versions
@covers("TBL-21")
def test_what_is_large_is_left_to_spark_and_the_log_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = opened(tmp_path)

    def messages() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    with caplog.at_level(logging.DEBUG, "pktable"):
        table.upsert(frame(rows(0, 100, "a")))
        written, compacted = messages()
        assert written.startswith("write: local (a DataFrame of about ")
        assert compacted.startswith("compaction: local (")
        for limit in ("BROUGHT_BYTES", "COMPACTED_BYTES", "HELD_BYTES"):
            monkeypatch.setattr(by_size, limit, 100)
        table.upsert(frame(rows(50, 100, "b")))
        written, compacted = messages()
        assert written.startswith("write: spark (a DataFrame of about ")
        assert "beyond the limits of 100 bytes" in compacted
        table.upsert(rows(50, 100, "c"))
        assert messages()[0].startswith("write: spark (")
        table.upsert(spark_session().createDataFrame([(7, "d")], "k LONG, s STRING"))
        assert messages()[0] == "write: spark (a DataFrame whose size Spark does not know)"
        assert table.to_arrow().num_rows == 150
        assert messages()[0].startswith("read: ")


@covers("TBL-22")
@pytest.mark.parametrize("runner", [None, *RUNNERS])
def test_a_frame_that_streams_or_that_arrow_has_no_type_for_is_refused(
    tmp_path: Path, runner: str | None
) -> None:
    table = opened(tmp_path / "t", runner)
    table.upsert(rows(0, 3, "a"))
    before = table.snapshots()
    streams = spark_session().readStream.format("rate").load().selectExpr("value AS k", "'x' AS s")
    writes: list[Callable[[Any], object]] = [
        table.upsert,
        table.overwrite,
        lambda rows: table.delete(rows.select("k")),
    ]
    for write in writes:
        with pytest.raises(InvalidRequestError, match=r"^rows: a streaming DataFrame .* use foreachBatch$"):
            write(streams)
    with pytest.raises(InvalidRequestError, match=r"^source: a streaming DataFrame .* use foreachBatch$"):
        table.merge(streams, on="k")
    untyped = spark_session().sql("SELECT 1L AS k, make_interval(1) AS s")
    with pytest.raises(InvalidRequestError, match=r"^rows: Arrow has no type for a column of this DataFrame"):
        table.upsert(untyped)
    with pytest.raises(
        InvalidRequestError, match=r"^source: Arrow has no type for a column of this DataFrame"
    ):
        table.merge(untyped, on="k")
    assert table.snapshots() == before


def test_a_table_with_a_runner_that_is_not_there_is_refused(tmp_path: Path) -> None:
    Table.create(tmp_path, COLUMNS, primary_key=["k"])
    with pytest.raises(InvalidRequestError, match="runner: the table was opened without Spark"):
        Table.open(tmp_path, runner="spark")
    with pytest.raises(InvalidRequestError, match="runner: expected local or spark, found 'flink'"):
        Table.open(tmp_path, spark=spark_session(), runner="flink")
