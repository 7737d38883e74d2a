"""Hudi on Spark as a process: a command a line, an answer a line. Started by `interop.environments` with its own Spark.

It imports nothing of this project. Rows are lists of texts, as Spark writes them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

WRITES = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.metadata.enable": "false",
    "hoodie.write.table.version": "8",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "100",
}


def main() -> None:
    # Spark writes to standard output as well; answers go where it was.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = _session(sys.argv[1])
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer: Any = {"ok": COMMANDS[command.pop("do")](spark, **command)}
        except Exception as error:  # whatever Spark raises is the answer
            answer = {"error": str(error)[:2000]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _session(jar: str) -> Any:
    from pyspark.sql import SparkSession  # that of the peer

    settings = {
        "spark.jars": jar,
        "spark.driver.memory": "1500m",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def rows(spark: Any, table: str, columns: list[str], query: str = "snapshot", instant: str = "") -> Any:
    """Return the columns of all rows. ``query``: snapshot or read_optimized; ``instant``: as of it, if given."""
    reader = spark.read.format("hudi").option("hoodie.metadata.enable", "false")
    reader = reader.option("hoodie.datasource.query.type", query)
    if instant:
        reader = reader.option("as.of.instant", instant)
    frame = reader.load(table).select(*columns)
    texts = frame.selectExpr(*(f"to_json(struct({name})) as {name}" for name in columns))
    return sorted([one[0] for one in map(_parsed, row)] for row in texts.collect())


def scan(spark: Any, table: str, query: str) -> int:
    """Read all columns of all rows; return how many there are. ``query``: snapshot or read_optimized."""
    from pyspark.sql import Observation, functions

    rows = Observation()
    reader = spark.read.format("hudi").option("hoodie.metadata.enable", "false")
    frame = reader.option("hoodie.datasource.query.type", query).load(table)
    counted = frame.observe(rows, functions.count(functions.lit(1)).alias("count"))
    counted.write.format("noop").mode("overwrite").save()
    return int(rows.get["count"])


def _parsed(text: str) -> list[str]:
    return [json.dumps(value, sort_keys=True) for value in json.loads(text).values()] or ["null"]


def write(
    spark: Any,
    table: str,
    rows: list[list[Any]],
    schema: str,
    operation: str,
    name: str,
    settings: dict[str, str] | None = None,
) -> Any:
    """Write rows. ``operation``: upsert or delete. ``name``: of the table. ``settings``: more of them."""
    frame = spark.createDataFrame([tuple(row) for row in rows], schema)
    options = {**WRITES, "hoodie.table.name": name, "hoodie.datasource.write.operation": operation}
    options |= settings or {}
    frame.write.format("hudi").options(**options).mode("append").save(table)
    return len(rows)


def compact(spark: Any, table: str) -> Any:
    """Plan a compaction, and execute it."""
    options = (
        "hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false,hoodie.write.table.version=8"
    )
    spark.sql("set hoodie.write.table.version=8")
    spark.sql("set hoodie.metadata.enable=false")
    call = f"call run_compaction(op => '{{}}', path => '{table}', options => '{options}')"
    spark.sql(call.format("schedule")).collect()
    return len(spark.sql(call.format("run")).collect())


COMMANDS: dict[str, Callable[..., Any]] = {"rows": rows, "scan": scan, "write": write, "compact": compact}

if __name__ == "__main__":
    main()
