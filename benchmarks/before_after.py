"""``python -m benchmarks.before_after --before DIRECTORY``: this checkout and another one on Spark, in turn.

Each turn is a process of its own with a session on two cores. It loads rows into a new table, reads it in several ways,
and plans a read of a table of many files. The figures are CPU seconds of the process with all its descendants, and the
greatest memory that they had together while rows were loaded. Both checkouts must give the same answers.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pktable import Table
from pktable.run.spark.session import local_session

from benchmarks.machine import cpu, describe, greatest_memory, hardware

RESULTS = Path(__file__).parent / "results"
COLUMNS = "k BIGINT, " + ", ".join(
    f"c{i} {kind}" for i, kind in enumerate(["INT", "DOUBLE", "STRING", "BIGINT", "DATE"] * 3)
)
POINTS = 10


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.before_after", description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the other checkout")
    parser.add_argument("--rows", type=int, default=600_000, help="to load (%(default)s)")
    parser.add_argument("--files", type=int, default=200, help="of the table of many files (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure, options.files)))
        return
    about = describe()
    found: dict[str, list[dict[str, Any]]] = {"before": [], "now": []}
    with tempfile.TemporaryDirectory(prefix="pktable-before-after-") as folder:
        make_input(Path(folder), options.rows)
        for _ in range(options.rounds):
            for name, tree in {"before": options.before, "now": Path(__file__).parents[1]}.items():
                found[name].append(in_process(tree, Path(folder), options))
    answers = {json.dumps(run.pop("answers")) for runs in found.values() for run in runs}
    assert len(answers) == 1, answers
    text = "\n".join(report(about, options, found)) + "\n"
    (options.out / "before-after.md").write_text(text)
    print(text)


def make_input(folder: Path, rows: int) -> None:
    """Write the rows to load, in another order than that of their keys."""
    draw = np.random.default_rng(5)
    kinds: list[Callable[[], Any]] = [
        lambda: pa.array(draw.integers(0, 1000, rows), pa.int32()),
        lambda: pa.array(draw.random(rows)),
        lambda: pa.array([f"some text {i}" for i in draw.integers(0, rows, rows)]),
        lambda: pa.array(draw.integers(0, 10**9, rows)),
        lambda: pa.array(draw.integers(0, 20_000, rows).astype(np.int32)).cast(pa.date32()),
    ]
    columns = [kinds[i % 5]() for i in range(15)]
    names = [f"c{i}" for i in range(15)]
    table = pa.table([pa.array(draw.permutation(rows)), *columns], names=["k", *names])
    pq.write_table(table, folder / "input.parquet", row_group_size=rows // 8)


def in_process(tree: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    paths = os.pathsep.join(str(tree / part) for part in ("spec", "reference", "."))
    command = [sys.executable, str(Path(__file__)), "--before", str(tree), "--measure", str(folder)]
    command += ["--files", str(options.files)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(folder: Path, files: int) -> dict[str, Any]:
    """Return CPU seconds by what was done, and the answers."""
    spark = local_session(cores="2", memory="3g")
    dv = {"deletion-vectors.enabled": "true"}
    found: dict[str, Any] = {}
    answers: list[Any] = []
    with tempfile.TemporaryDirectory(prefix="pktable-run-") as run:
        given = spark.read.parquet(str(folder / "input.parquet"))
        for turn in ("warm up", "load"):
            table = Table.create(
                Path(run) / turn, COLUMNS, primary_key="k", options={**dv, "bucket": "4"}, spark=spark
            )
            with greatest_memory() as memory:
                found[turn] = cpu(lambda table=table: table.upsert(given))  # type: ignore[misc]
        found["memory of the load, MB"] = memory[0] / 1e6
        found["upsert of a fifth"] = cpu(
            lambda: table.upsert(
                given.where("k % 5 = 2").selectExpr(
                    "k", *(f"c{i + 5 if i < 10 else i - 10} AS c{i}" for i in range(15))
                )
            )
        )
        reads: dict[str, Callable[[], Any]] = {
            "full read": lambda: _digest(table.to_arrow()),
            "narrow sum": lambda: table.read(columns=["c0"]).selectExpr("sum(c0)").collect()[0][0],
            "key range": lambda: table.read(where="k BETWEEN 50000 AND 50900").count(),
            f"{POINTS} points": lambda: [
                table.read(where=f"k = {1000 * i + 7}", columns=["k", "c2"]).collect()[0][1]
                for i in range(POINTS)
            ],
        }
        for what, work in reads.items():
            work()
            found[what] = cpu(lambda work=work: answers.append(work()))  # type: ignore[misc]
        options = {**dv, "bucket": "100", "parquet.block.row.count.limit": "50", "target-file-size": "1 b"}
        many = Table.create(Path(run) / "many", "k BIGINT, a INT", primary_key="k", options=options)
        keys = np.arange(files * 40)
        many.upsert(pa.table({"k": keys, "a": (keys % 7).astype(np.int32)}))
        many = Table.open(Path(run) / "many", spark=spark)
        many.read()
        found[f"plan {many.files().num_rows} files"] = cpu(many.read)
    spark.stop()
    return {**found, "answers": [str(answer) for answer in answers]}


def _digest(table: pa.Table) -> str:
    rows = table.sort_by("k")
    return hashlib.sha256(repr(rows.slice(0, 50).to_pylist()).encode()).hexdigest() + str(rows.num_rows)


def report(
    about: Mapping[str, Any], options: argparse.Namespace, found: Mapping[str, list[dict[str, Any]]]
) -> Iterator[str]:
    yield "# This version and the one before it, on Spark"
    yield ""
    yield (
        f"{options.rows:,} rows of 16 columns in 4 buckets, `local[2]`; CPU seconds of the process tree, medians of "
        f"{options.rounds} turns, each checkout in its own process and in turn. {hardware(about)}, Python "
        f"{about['python']}, pyspark {about['pyspark']}; load before: {about['load_before'][0]}. "
        "`python -m benchmarks.before_after`."
    )
    yield ""
    yield "| what | before | now | ratio |"
    yield "| --- | ---: | ---: | ---: |"
    for what in found["now"][0]:
        before, now = (statistics.median(run[what] for run in found[name]) for name in ("before", "now"))
        yield f"| {what} | {before:,.2f} | {now:,.2f} | {before / max(now, 0.01):,.2f} |"


if __name__ == "__main__":
    main()
