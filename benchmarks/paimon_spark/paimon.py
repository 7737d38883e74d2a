"""Paimon's Spark connector, as its users call it: SQL on a catalog. It runs with the Spark that the connector needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.paimon_spark.workload import COLUMNS, KEYS, OPTIONS, VECTORS, Query, Step, source

JARS = "PKTABLE_PAIMON_SPARK_JARS"


class Paimon:
    """The contender. ``folder``: of the inputs. ``home``: of the warehouse with its tables."""

    def __init__(self, folder: Path, home: Path, memory: str) -> None:
        self._folder, self._home = folder, home
        builder = SparkSession.builder.master("local[2]").config("spark.jars", os.environ[JARS])
        for name, value in {
            "spark.driver.memory": memory,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "8",
            "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
            "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
            "spark.sql.catalog.paimon.warehouse": f"file:{home}",
        }.items():
            builder = builder.config(name, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.spark.sql("USE paimon")
        self.spark.sql("CREATE DATABASE IF NOT EXISTS d")
        self.spark.sql("USE d")

    def create(self, table: str) -> None:
        options = {
            **VECTORS,
            **OPTIONS[table.split("_")[0]],
            "primary-key": ",".join(KEYS[table.split("_")[0]]),
        }
        listed = ", ".join(f"'{name}'='{value}'" for name, value in options.items())
        self.spark.sql(f"CREATE TABLE {table} ({COLUMNS[table.split('_')[0]]}) TBLPROPERTIES ({listed})")

    def upsert(self, table: str, name: str) -> None:
        self._rows(name).write.insertInto(f"paimon.d.{table}")

    def merge(self, table: str, name: str) -> None:
        self._rows(name).createOrReplaceTempView("changes")
        on = " AND ".join(f"t.{key} = s.{key}" for key in KEYS[table])
        self.spark.sql(
            f"MERGE INTO {table} t USING changes s ON {on} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def delete(self, table: str, where: str) -> None:
        self.spark.sql(f"DELETE FROM {table} WHERE {where}")

    def compact(self, table: str) -> None:
        self.spark.sql(f"CALL paimon.sys.compact(table => 'd.{table}')")

    def latest(self, home: Path, table: str) -> int:
        return int((home / "d.db" / table / "snapshot" / "LATEST").read_text())

    def answer(self, home: Path, query: Query, at: int) -> list[str]:
        catalog = self._catalog(home)
        version = f" VERSION AS OF {at}" if query.at_load else ""
        selected = (
            f"SELECT {query.aggregates or ', '.join(query.columns)} FROM {catalog}.d.{query.table}{version}"
        )
        found: list[str] = []
        for where in query.where:
            rows = self.spark.sql(f"{selected} WHERE {where}" if where else selected)
            if query.aggregates is None and where is None:
                rows.write.format("noop").mode("overwrite").save()
            else:
                found += sorted(str(tuple(row)) for row in rows.collect())
        return found

    def contents(self, table: str, aggregates: str) -> list[str]:
        return [str(tuple(row)) for row in self.spark.sql(f"SELECT {aggregates} FROM {table}").collect()]

    def least(self, step: Step) -> None:
        """Of its steps, no part is known that cannot be left out."""

    def close(self) -> None:
        self.spark.stop()

    def _rows(self, name: str) -> Any:
        return self.spark.read.parquet(source(self._folder, name))

    def _catalog(self, home: Path) -> str:
        """Return the name of a catalog whose warehouse is ``home``."""
        name = f"of_{home.name}"
        self.spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.paimon.spark.SparkCatalog")
        self.spark.conf.set(f"spark.sql.catalog.{name}.warehouse", f"file:{home}")
        return name
