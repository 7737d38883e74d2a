"""pktable, as its users call it, with Spark or without."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pktable import Table
from pktable.datafile.columns import PARQUET_WRITE_OPTIONS
from pktable.datafile.encoded import worth_encoded
from pktable.run.spark.session import local_session

from benchmarks.paimon_spark.workload import COLUMNS, KEYS, OPTIONS, VECTORS, Query, Step, source


class Ours:
    """The contender. ``folder``: of the inputs. ``home``: the folder of its tables, laid out as Paimon's warehouse."""

    def __init__(self, folder: Path, home: Path, memory: str, *, spark: bool) -> None:
        self._folder, self._home = folder, home
        self.spark = local_session(cores="2", memory=memory) if spark else None

    def create(self, table: str) -> None:
        kind = table.split("_")[0]
        Table.create(
            self._home / "d.db" / table,
            COLUMNS[kind],
            primary_key=KEYS[kind],
            options={**VECTORS, **OPTIONS[kind]},
            spark=self.spark,
        )

    def upsert(self, table: str, name: str) -> None:
        self._table(self._home, table).upsert(self._rows(name))

    def merge(self, table: str, name: str) -> None:
        merge = self._table(self._home, table).merge(self._rows(name), on=KEYS[table])
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, table: str, where: str) -> None:
        self._table(self._home, table).delete(where=where)

    def compact(self, table: str) -> None:
        self._table(self._home, table).compact(full=True)

    def latest(self, home: Path, table: str) -> int:
        return int((home / "d.db" / table / "snapshot" / "LATEST").read_text())

    def answer(self, home: Path, query: Query, at: int) -> list[str]:
        table = self._table(home, query.table)
        options: dict[str, Any] = {"snapshot": at} if query.at_load else {}
        if query.aggregates == "count(*)":
            return [str((table.count(**options),))]
        found: list[str] = []
        for where in query.where:
            rows = table.read(columns=list(query.columns), where=where, **options)
            if query.aggregates is None and where is None:
                _throw_away(rows)
            else:
                found += _collected(rows, query.aggregates)
        return found

    def least_of_read(self, home: Path, query: Query, at: int) -> Callable[[], object]:
        """Return the work that no read of the same files can leave out: no row is filtered out by a vector.

        It is Spark's own scan, with what tells a row from all others: the size of its file, which differs, and its
        position. Spark's scan of many small files takes longer than Arrow opening each, which is then the least, with
        Spark's work on their rows. For points it is Spark's work on the rows that were found.
        """
        assert self.spark is not None, "only the contender with Spark is asked"
        table = self._table(home, query.table)
        options: dict[str, Any] = {"snapshot": at} if query.at_load else {}
        frame = table.read(columns=list(query.columns), **options)
        if query.finds_few:
            some = [table.read(columns=list(query.columns), where=where).toArrow() for where in query.where]
            return lambda: [_collected(self._frame(rows, frame.schema), None) for rows in some]
        files = [path for split in table.scan(**options).splits() for path in split.paths]
        if query.table == "many":
            return partial(self._each_opened, files, query, frame.schema)
        named = self.spark.read.schema(frame.schema).parquet(*files)
        rows = named.where("_metadata.file_size > 0 AND _metadata.row_index >= 0")

        def work() -> None:
            for where in query.where:
                found = rows.where(where) if where else rows
                if query.aggregates is None:
                    _throw_away(found.select(*query.columns))
                else:
                    _collected(found, query.aggregates)

        return work

    def _each_opened(self, files: Sequence[str], query: Query, schema: Any) -> None:
        tables = []
        for path in files:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                tables.append(file.read(columns=query.columns, use_threads=False))
        _collected(self._frame(pa.concat_tables(tables), schema).coalesce(1), query.aggregates)

    def _frame(self, rows: pa.Table, schema: Any) -> Any:
        assert self.spark is not None
        return self.spark.createDataFrame(rows.combine_chunks(), schema)

    def least(self, step: Step) -> Callable[[], object] | None:
        """Return the part of a step that was done which pktable on Spark cannot leave out, if one is known."""
        if self.spark is None:
            return None
        method, table, *given = step
        if method == "compact":
            return self._copied(self._table(self._home, table))
        if step == ("upsert", table, table):  # a load
            return partial(self._hand_over, table)
        if method == "upsert" and table == "small":
            (name,) = given
            return lambda: self._rows(name).toArrow()
        return None

    def _hand_over(self, name: str) -> None:
        _throw_away(self._rows(name).mapInArrow(_counted, "n INT"))

    def _copied(self, table: Table) -> Callable[[], object]:
        """Return Arrow's work in the full compaction that was the last commit: read all files, write what remains.

        A new process does it, because the compaction was the first work of its process that takes so much memory.
        """
        before, _ = table.snapshots()[-2:]
        buckets: dict[Path, list[dict[str, Any]]] = {}
        for file in table.files(snapshot=before.id).to_pylist():
            buckets.setdefault(Path(table.path) / f"bucket-{file['bucket']}", []).append(file)
        # It lives until this process ends, so that what it has used is counted.
        other = multiprocessing.get_context("spawn").Pool(1)
        other.apply(_copy, ({},))  # imports what it needs
        return partial(other.apply, _copy, (buckets,))

    def contents(self, table: str, aggregates: str) -> list[str]:
        return _collected(self._table(self._home, table).read(), aggregates)

    def close(self) -> None:
        if self.spark is not None:
            self.spark.stop()

    def _rows(self, name: str) -> Any:
        path = source(self._folder, name)
        return pq.read_table(path) if self.spark is None else self.spark.read.parquet(path)

    def _table(self, home: Path, table: str) -> Table:
        """Open a table. Work on one to warm up is left to Spark, which small work would not warm otherwise."""
        runner = "spark" if self.spark is not None and table.endswith("_warm") else None
        return Table.open(home / "d.db" / table, spark=self.spark, runner=runner)


def _copy(buckets: Mapping[Path, Sequence[Mapping[str, Any]]]) -> None:
    """Read the files of each bucket, by its directory, and write as many rows as are live in them."""
    for folder, files in buckets.items():
        rows = pa.concat_tables(_encoded(folder / file["file_name"]) for file in files).unify_dictionaries()
        remain = sum(file["row_count"] - file["deleted_row_count"] for file in files)
        with tempfile.NamedTemporaryFile(suffix=".parquet") as target:
            options = {"compression": "zstd", "compression_level": 1, **PARQUET_WRITE_OPTIONS}
            pq.write_table(rows.slice(0, remain), target.name, **options)


def _encoded(path: Path) -> pa.Table:
    """Return the rows of a file, with strings of few values as its dictionaries have them."""
    footer = pq.read_metadata(path)
    repeated = worth_encoded(footer, lambda group, leaf: footer.row_group(group).column(leaf))
    return pq.read_table(path, read_dictionary=sorted(repeated))


def _counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"n": pa.array([batch.num_rows], pa.int32())})


def _throw_away(rows: Any) -> None:
    if not isinstance(rows, pa.Table):
        rows.write.format("noop").mode("overwrite").save()


def _collected(rows: Any, aggregates: str | None) -> list[str]:
    """Return ``rows`` as text, or their ``aggregates`` as one row."""
    if isinstance(rows, pa.Table):
        found: Any = duckdb.sql(f"SELECT {aggregates or '*'} FROM rows").fetchall()
    else:
        found = (rows.selectExpr(*aggregates.split(", ")) if aggregates else rows).collect()
    return sorted(str(tuple(row)) for row in found)
