"""A script of SQL (`paimon_script.sql`) that Paimon-Spark 1.4.2 runs, and what it answers (`paimon_script.json`).

The same statements go through a session of ours, and must give the same columns, types and rows. A statement that
changes rows gives counts here and nothing there, so only the answers of the others are compared.

``python -m model_tests.warehouse.paimon_script`` plays the script in Paimon-Spark and compares with the record, with
``record`` it writes it. PKTABLE_PAIMON_SPARK_JARS names the jars of the connector 1.4.2 for Spark 3.5.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).parent
SCRIPT: Final = HERE / "paimon_script.sql"
RECORD: Final = HERE / "paimon_script.json"
QUESTIONS: Final = ("SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "CALL")
JARS: Final = "PKTABLE_PAIMON_SPARK_JARS"

Answer = dict[str, Any]
"""``sql`` of a question, and its ``columns`` ("name type") and ``rows`` of texts, in order; or its ``error``."""


def statements() -> Iterator[str]:
    """Yield the statements of the script, without the comments between them."""
    lines = [line for line in SCRIPT.read_text("utf-8").splitlines() if not line.startswith("--")]
    for part in "\n".join(lines).split(";\n"):
        if part.strip():
            yield part.strip().removesuffix(";")


def answers(sql: Callable[[str], Any]) -> Iterator[Answer]:
    """Carry out the script by ``sql``, and yield what it answers to each question, and each statement that fails."""
    for statement in statements():
        try:
            frame = sql(statement)
            rows = [tuple(map(_text, row)) for row in frame.collect()]
        except Exception as error:  # whatever is raised is the answer
            yield {"sql": statement, "error": str(error).strip().partition("\n")[0][:300]}
            continue
        if statement.split(None, 1)[0].upper() in QUESTIONS:
            columns = [f"{field.name} {field.dataType.simpleString()}" for field in frame.schema]
            in_order = sorted(rows, key=lambda row: [(one is None, one or "") for one in row])
            yield {"sql": statement, "columns": columns, "rows": [list(row) for row in in_order]}


def _text(value: Any) -> str | None:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(" ")
    return None if value is None else str(value)


def recorded() -> list[Answer]:
    """Return what Paimon-Spark 1.4.2 has answered."""
    found: list[Answer] = json.loads(RECORD.read_text("utf-8"))
    return found


def written(found: list[Answer]) -> str:
    """Return answers as the record has them, a line each."""
    return "[\n" + ",\n".join(json.dumps(one, ensure_ascii=False) for one in found) + "\n]\n"


def _peer(jars: str, warehouse: str) -> list[Answer]:
    """Play the script in the Spark of this process, with Paimon's catalog."""
    from pyspark.sql import SparkSession  # that of the peer

    settings = {
        "spark.jars": jars,
        "spark.driver.memory": "1500m",
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": warehouse,
        "spark.sql.defaultCatalog": "paimon",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": warehouse + "-spark",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return list(answers(spark.sql))


def played() -> list[Answer]:
    """Return what Paimon-Spark answers, in a process of its own. Raises SetupError, CalledProcessError."""
    from model_tests.interop.environments import SetupError, paimon_spark  # late: the peer has none of it

    jars = os.environ.get(JARS)
    if jars is None:
        raise SetupError(f"expected the jars of Paimon's connector 1.4.2 for Spark 3.5 in {JARS}, found none")
    start, _ = paimon_spark(jars)
    with tempfile.TemporaryDirectory(prefix="pktable-script-") as folder:
        out = Path(folder) / "answers.json"
        command = [
            *start.command,
            "-m",
            "model_tests.warehouse.paimon_script",
            "peer",
            folder + "/w",
            str(out),
        ]
        subprocess.run(command, env=dict(start.environment), check=True)
        found: list[Answer] = json.loads(out.read_text("utf-8"))
        return found


def main(arguments: list[str]) -> int:
    """Run, and return the exit code: 1 if Paimon-Spark answers otherwise than the record says."""
    if arguments[:1] == ["peer"]:
        Path(arguments[2]).write_text(json.dumps(_peer(os.environ[JARS], arguments[1])), "utf-8")
        return 0
    found = played()
    if arguments == ["record"]:
        RECORD.write_text(written(found), "utf-8")
    differ = [one for one, other in zip(found, recorded(), strict=False) if one != other]
    for one in differ:
        print(f"differs: {one}")
    print(f"{len(found)} answers, {len(differ)} differ from the record")
    return 1 if differ or len(found) != len(recorded()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
