"""``python -m benchmarks.spark_floors``: what Spark itself takes for small work, beside what pktable takes on it.

A lazy read of a small table cannot take less than Spark's own scan of the same files, nor that less than a job of two
stages over no files. A small write cannot take less than computing the caller's rows. All is done in turn in one
session; the figures are CPU time of the process tree.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pktable
import pyarrow as pa
import pyarrow.parquet as pq
from pktable import Table
from pktable.run.spark.session import local_session
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from benchmarks.machine import cpu, describe, hardware

RESULTS = Path(__file__).parent / "results"
DV = {"deletion-vectors.enabled": "true"}
SPARKS = "a query of a view of the files, analyzed by Spark"
SESSION = "a query, analyzed by `lake.sql`"
CATALOG = "the same, analyzed by plain `spark.sql` through the catalog"
READ, SELECT = "the rows of the query, by `table.read()`", "the same, by `lake.sql`"
METHOD, STATEMENT = "a MERGE of 1,000 rows, by `table.merge`", "the same MERGE, by `lake.sql`"
NARROW = StructType([StructField("a", LongType())])
WARM_UP = 8  # rounds that are not counted: the JVM compiles most of the code in them


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark_floors", description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000, help="of the table (%(default)s)")
    parser.add_argument("--rounds", type=int, default=9, help="that are counted (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    options = parser.parse_args()
    about = describe()
    spark = local_session(cores="2", memory="3g")
    with tempfile.TemporaryDirectory(prefix="pktable-floors-") as folder:
        work = workload(spark, Path(folder), options.rows)
        found: dict[str, list[float]] = {what: [] for what in work}
        for _ in range(WARM_UP + options.rounds):
            for what, do in work.items():
                found[what].append(cpu(do) * 1000)
    spark.stop()
    medians = {what: statistics.median(times[WARM_UP:]) for what, times in found.items()}
    text = "\n".join(report(about, options, medians)) + "\n"
    (options.out / "spark-floors.md").write_text(text)
    print(text)


def workload(spark: SparkSession, folder: Path, rows: int) -> dict[str, Callable[[], Any]]:
    """Return the pieces of work by name. The table has 16 files, 12 of them with a vector, as after some commits."""
    path = folder / "db.db/t"
    keys = np.arange(rows)
    table = Table.create(
        path, "k BIGINT, a BIGINT, b STRING", primary_key=["k"], options={**DV, "bucket": "4"}
    )
    for every in (1, 5, 20, 400):
        chosen = keys[::every]
        texts = [f"text {key}" for key in chosen.tolist()]
        table.upsert(pa.table({"k": chosen, "a": chosen % (997 + every), "b": texts}))
    files = [name for split in table.scan().splits() for name in split.paths]
    small = folder / "small.parquet"
    pq.write_table(pa.table({"k": keys[:100], "a": keys[:100], "b": ["x"] * 100}), small)
    writable = folder / "written"
    of_keys(writable, keys[:0])

    def narrow(condition: str) -> Any:
        scan = spark.read.schema(NARROW).parquet(*files).where(condition)
        return scan.selectExpr("sum(a)").collect()

    def opened(place: Path) -> Table:
        return Table.open(place, spark=spark)

    lake = pktable.session(spark, warehouse=folder, catalog="lake")
    query = "SELECT a, count(*) FROM {} WHERE k > 777 GROUP BY a"
    of_table = query.format("lake.db.t")
    spark.read.parquet(*files).createOrReplaceTempView("files")
    of_keys(folder / "db.db/merged", keys)
    changes = spark.range(0, rows, rows // 1000).selectExpr("id AS k", "id AS a", "'x' AS b")
    changes.createOrReplaceTempView("s")

    def read() -> Any:
        found = opened(path).read(where="k > 777", columns=["k", "a"])
        return found.groupBy("a").count().collect()

    def merged() -> Any:
        merge = opened(folder / "db.db/merged").merge(spark.table("s"), "target.k = source.k")
        return merge.when_matched_update({"a": "source.a"}).when_not_matched_insert_all().execute()

    return {
        "a job of one stage, over no file": lambda: spark.range(100).collect(),
        "a job of two stages, over no file": lambda: spark.range(100).selectExpr("sum(id)").collect(),
        "sum of a column, Spark's scan of the files": lambda: narrow("true"),
        "the same, with positions": lambda: narrow("_metadata.row_index >= 0"),
        "sum of a column, pktable": lambda: opened(path).read(columns=["a"]).selectExpr("sum(a)").collect(),
        "a point, pktable": lambda: opened(path).read(where="k = 777").collect(),
        "a point, pktable without Spark": lambda: Table.open(path).to_arrow(where="k = 777"),
        "100 rows of a Parquet file, brought to the driver": lambda: spark.read.parquet(str(small)).toArrow(),
        "the same, committed by pktable": lambda: opened(writable).upsert(spark.read.parquet(str(small))),
        SPARKS: lambda: spark.sql(query.format("files")),
        SESSION: lambda: lake.sql(of_table),
        CATALOG: lambda: spark.sql(of_table),
        READ: read,
        SELECT: lambda: lake.sql(of_table).collect(),
        METHOD: merged,
        STATEMENT: lambda: lake.sql(
            "MERGE INTO lake.db.merged t USING s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET a = s.a WHEN NOT MATCHED THEN INSERT *"
        ).collect(),
    }


def of_keys(path: Path, keys: Any) -> Table:
    """Create a table in one bucket, with a row for each key."""
    table = Table.create(
        path, "k BIGINT, a BIGINT, b STRING", primary_key=["k"], options={**DV, "bucket": "1"}
    )
    table.upsert(pa.table({"k": keys, "a": keys, "b": ["x"] * len(keys)}))
    return table


def report(
    about: Mapping[str, Any], options: argparse.Namespace, found: Mapping[str, float]
) -> Iterator[str]:
    yield "# What Spark takes for small work"
    yield ""
    yield (
        f"{options.rows:,} rows in 16 files, 12 of them with deletion vectors, `local[2]`; CPU milliseconds of the "
        f"process tree, medians of {options.rounds} rounds after {WARM_UP}, all in turn in one session. "
        f"{hardware(about)}, Python {about['python']}, pyspark {about['pyspark']}; load before: "
        f"{about['load_before'][0]}. `python -m benchmarks.spark_floors`."
    )
    yield ""
    yield "| what | ms |"
    yield "| --- | ---: |"
    for what, time in found.items():
        yield f"| {what} | {time:,.0f} |"
    yield ""
    names = list(found)
    scan, ours, brought, committed = (found[names[i]] for i in (2, 4, 7, 8))
    yield (
        f"A lazy read takes {ours / scan:.1f} times Spark's own scan of the same files, and a small commit "
        f"{committed / brought:.1f} times what its rows take to be computed and brought to the driver. What Spark "
        "takes is the limit of both, however little is left to do. Through the catalog the analysis of a query takes "
        f"{found[CATALOG] / found[SESSION]:.1f} times what `lake.sql` takes for it: Spark calls back for each name."
    )
    yield ""
    yield (
        f"`lake.sql` takes {found[SESSION] - found[SPARKS]:.0f} ms more to analyze a query than Spark takes for the "
        "same of a view of the files; the goal is 50. The rows of the query take "
        f"{found[SELECT] / found[READ]:.1f} times those by `table.read()`, and a MERGE "
        f"{found[STATEMENT] / found[METHOD]:.1f} times that by `table.merge`."
    )


if __name__ == "__main__":
    main()
