"""``python -m benchmarks.hudi_table``: reads and lookups in a merge-on-read table of Hudi, and what others take for it.

A million rows in five file groups, and six upserts of 23,100 known keys, which makes 30 log files. All three tables
have the same rows: one has base files compressed as Hudi compresses them (GZIP) and log files as Hudi writes them, one
has the same base files and log files with an index, and one is as we write it (base files with zstd, an index).
Tasks are done in turn. Figures are processor seconds, medians of the turns; ratios are medians of those of each turn.

The goals are for base files as Hudi writes them, and log files with an index. Without an index a lookup decodes every
log file. Our base files are decoded in half the time, so the same lookup is more anchors, and the same merge is more
reads, although both take less. A snapshot read also decodes 138,600 records of Avro and copies each row once; what
pyarrow takes to read and copy all rows is in the table.

Hudi 1.2.0 was measured on Spark at these sizes elsewhere, in CPU seconds of its tasks: to look up 20,000 keys it took
5.0 with the index SIMPLE, 3.8 with BLOOM, 2.2 with RECORD_INDEX, and 0.76 with BUCKET, which looks nothing up. The
anchor, a scan of the column of keys by pyarrow, took 0.69 there.
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pktable import HudiTable
from pktable.run.spark.session import local_session
from pktable_hudi.format.avro_content import decode_avro_content, encode_avro_content
from pktable_hudi.format.log_block import blocks, encode_block
from pktable_hudi.index_writer import IndexPolicy
from pktable_hudi.placing import WriteOptions
from pyspark.sql import Observation
from pyspark.sql import functions as F

from benchmarks.machine import cpu, describe, hardware
from model_tests.interop.environments import HUDI_RUST, HUDI_SPARK, set_up
from model_tests.interop.peers import Peer

RESULT = Path(__file__).parent / "results" / "hudi-table.md"
GROUPS, ROWS, WRITES, UPSERTED, ASKED = 5, 200_000, 6, 23_100, 20_000
ALL = GROUPS * ROWS
POLICY = IndexPolicy(clique_keys=1 << 15)
OWN_GROUP = WriteOptions(small_bytes=0, most_bytes=1 << 40)  # of each insert
TURNS, WARM_UP, SPARK_TURNS = 7, 2, 3
OLD, INDEXED, OURS = "logs as Hudi writes them", "logs with an index", "as we write it"
READS = ("snapshot", "read_optimized")

Tasks = Mapping[str, Callable[[], Any]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hudi_table", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULT, help="file of the report")
    options = parser.parse_args()
    text = "\n".join(_lines()) + "\n"
    options.out.write_text(text)
    print(text)


def _lines() -> Iterator[str]:
    assert __doc__
    about = describe()
    yield "# A merge-on-read table of Hudi"
    yield ""
    command = shlex.join(["python", "-m", "benchmarks.hudi_table", *sys.argv[1:]])
    yield f"`{command}`. {hardware(about)}; load before: {about['load_before'][0]}."
    for paragraph in __doc__.partition("\n\n")[2].split("\n\n"):
        yield ""
        yield paragraph.replace("\n", " ").strip()
    with tempfile.TemporaryDirectory(prefix="pktable-hudi-") as folder:
        tables, keys = _tables(Path(folder))
        yield from _in_one_process(tables, keys)
        yield from _others(tables[INDEXED])


# Tables


def _tables(folder: Path) -> tuple[dict[str, Path], list[str]]:
    """Return the tables, and the keys of all rows."""
    draw = random.Random(1)
    keys = [f"{draw.getrandbits(64):016x}-{i:08d}" for i in range(ALL)]
    with mock.patch("pktable_hudi.group_write.COMPRESSION", "gzip"):
        indexed = _written(folder / "indexed", keys)
    shutil.copytree(indexed, folder / "old")
    for path in (folder / "old").glob(".*.log.*"):
        (block,) = blocks(path.read_bytes(), at=str(path))
        content = decode_avro_content(block.content, at=str(path))
        path.write_bytes(
            encode_block(replace(block, content=encode_avro_content(replace(content, tail=b""))))
        )
    return {OLD: folder / "old", INDEXED: indexed, OURS: _written(folder / "ours", keys)}, keys


def _written(path: Path, keys: Sequence[str]) -> Path:
    table = HudiTable.create(path, "k STRING, ts BIGINT, v INT", key="k", ordering="ts")
    table.write_options, table.index_policy = OWN_GROUP, POLICY
    for start in range(0, ALL, ROWS):
        table.upsert(_rows(keys[start : start + ROWS], 1))
    draw = random.Random(2)
    for number in range(WRITES):
        table.upsert(_rows(draw.sample(keys, UPSERTED), 2 + number))
    found = table.files().column("kind").to_pylist()
    assert [found.count(kind) for kind in ("base", "log")] == [GROUPS, GROUPS * WRITES]
    return path


def _rows(keys: Sequence[str], ts: int) -> pa.Table:
    count = len(keys)
    return pa.table({"k": keys, "ts": np.full(count, ts), "v": pa.array(np.arange(count), pa.int32())})


def _base_files(path: Path) -> list[str]:
    return sorted(map(str, path.glob("*.parquet")))


# In one process


def _in_one_process(tables: Mapping[str, Path], keys: Sequence[str]) -> Iterator[str]:
    asked = random.Random(3).sample(keys, ASKED)
    found = {
        name: _seconds(_local_tasks(path, asked), turns=TURNS, clock=_own) for name, path in tables.items()
    }
    yield from ("", "## In one process", "")
    yield f"| processor seconds | {' | '.join(found)} |"
    yield f"| --- |{' ---: |' * len(found)}"
    for task in found[OLD]:
        yield _row(task, [f"{statistics.median(times[task]):.3f}" for times in found.values()])
    anchor, lookup, *_, snapshot, base_only = found[OLD]
    for name, upper, lower, goal in (
        ("lookup / anchor", lookup, anchor, 1.5),
        ("snapshot / read-optimized", snapshot, base_only, 2),
    ):
        ratios = [_ratio(times[upper], times[lower]) for times in found.values()]
        yield _row(f"**{name}**, goal: at most {goal:g}", [f"**{one:.2f}**" for one in ratios])
    sizes = [sum(one.stat().st_size for one in path.glob(".*.log.*")) for path in tables.values()]
    yield _row("bytes of the log files", [f"{size:,}" for size in sizes])


def _local_tasks(path: Path, asked: Sequence[str]) -> Tasks:
    table = HudiTable.open(path)

    def column_of_keys() -> int:
        files = _base_files(path)
        return sum(
            pq.read_table(one, columns=["_hoodie_record_key"], use_threads=False).num_rows for one in files
        )

    def files_by_arrow() -> int:
        return sum(pq.read_table(one, use_threads=False).num_rows for one in _base_files(path))

    def files_and_copies() -> int:
        tables = (pq.read_table(one, use_threads=False) for one in _base_files(path))
        return sum(table.take(pa.array(np.arange(table.num_rows))).num_rows for table in tables)

    where = f"_hoodie_record_key = '{asked[0]}'"
    return {
        f"anchor: the column of keys, {ALL:,} rows": lambda: _expect(column_of_keys(), ALL),
        f"look up {ASKED:,} keys": lambda: _expect(table.locate(asked).num_rows, ASKED),
        "look up one key": lambda: _expect(table.locate(asked[:1]).num_rows, 1),
        "look up an absent key": lambda: _expect(table.locate(["8-absent"]).num_rows, 0),
        "read one row by its key": lambda: _expect(table.to_arrow(where=where).num_rows, 1),
        "all base files by pyarrow": lambda: _expect(files_by_arrow(), ALL),
        "all base files by pyarrow, and a copy of the rows by its `take`": lambda: _expect(
            files_and_copies(), ALL
        ),
        "snapshot read, all columns": lambda: _expect(table.to_arrow().num_rows, ALL),
        "read-optimized read, all columns": lambda: _expect(
            table.to_arrow(read_optimized=True).num_rows, ALL
        ),
    }


# Others


def _others(path: Path) -> Iterator[str]:
    starts, reasons = set_up([HUDI_RUST, HUDI_SPARK])
    peers = {name: Peer(name, start) for name, start in starts.items()}
    spark = local_session(cores="2", memory="3g")
    table, on_spark = HudiTable.open(path), HudiTable.open(path, spark=spark)
    work: dict[str, Callable[[], int]] = {}
    for read in READS:
        optimized = read == "read_optimized"
        work[f"pktable {read}"] = lambda o=optimized: table.to_arrow(read_optimized=o).num_rows  # type: ignore[misc]
        work[f"pktable on Spark {read}"] = lambda o=optimized: _scanned(on_spark.read(read_optimized=o))  # type: ignore[misc]
        for name, peer in peers.items():
            work[f"{name} {read}"] = lambda p=peer, r=read: p.ask("scan", table=str(path), query=r)  # type: ignore[misc]
    work["Spark alone read_optimized"] = lambda: _scanned(spark.read.parquet(*_base_files(path)))
    tasks = {name: (lambda do=do: _expect(do(), ALL)) for name, do in work.items()}
    found = _seconds(tasks, turns=SPARK_TURNS, warm_up=WARM_UP, clock=cpu)
    spark.stop()
    for peer in peers.values():
        peer.stop()
    yield from ("", "## Beside other readers", "")
    yield f"All columns of the table with {INDEXED}, of base files with GZIP. Spark counts rows and drops them. Our"
    yield "read-optimized read on Spark is Spark's own scan of the base files. *Spark alone* is such a scan without us."
    yield ""
    yield "| processor seconds | snapshot | read-optimized | times |"
    yield "| --- | ---: | ---: | ---: |"
    for name in ("pktable", HUDI_RUST, "pktable on Spark", HUDI_SPARK, "Spark alone"):
        if name in reasons:
            yield _row(name, [f"not measured: {reasons[name]}", "", ""])
            continue
        times = [found.get(f"{name} {read}", []) for read in READS]
        cells = [f"{statistics.median(one):.2f}" if one else "" for one in times]
        yield _row(name, [*cells, f"{_ratio(*times):.2f}" if all(times) else ""])


def _scanned(frame: Any) -> int:
    """Read all columns of all rows; return how many there are."""
    rows = Observation()
    frame.observe(rows, F.count(F.lit(1)).alias("count")).write.format("noop").mode("overwrite").save()
    return int(rows.get["count"])


# Times


def _own(work: Callable[[], object]) -> float:
    """Return the CPU seconds that this process uses for ``work``."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _seconds(
    tasks: Tasks, *, turns: int, warm_up: int = 1, clock: Callable[[Callable[[], Any]], float]
) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(warm_up + turns):
        for name, do in tasks.items():
            found[name].append(clock(do))
    return {name: times[warm_up:] for name, times in found.items()}


def _expect(found: int, expected: int) -> None:
    assert found == expected, f"{found} of {expected}"


def _ratio(upper: Sequence[float], lower: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(upper, lower, strict=True))


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
