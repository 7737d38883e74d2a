"""Who takes part, and how each does the work.

Every contender is given a fresh copy of the same table: one bucket of lineitem, in one run of the top level. Rows to
write are in its memory before its clock starts. Processor time is that of the whole process, or processes.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.datafile.columns import PARQUET_WRITE_OPTIONS
from pktable.ingest.changes import ChangeKind
from pktable.run.spark.session import local_session
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER
from pyspark.sql import Window
from pyspark.sql import functions as F

from benchmarks.data import tpch
from benchmarks.machine import processor_seconds
from model_tests.interop.environments import JVM, jvm_program

KEY: Final = ("l_orderkey", "l_linenumber")
EVERY: Final = 5  # row comes anew
ZSTD_LEVEL: Final = 1
JAVA_SOURCE: Final = Path(__file__).with_name("Upserts.java")
WORKS: Final = ("upsert", "full")


@dataclass(frozen=True)
class Outcome:
    """What one round of one contender took. ``marked``: rows; ``written``: bytes of data files."""

    contender: str
    work: str
    seconds: float
    processor_seconds: float
    written: int | None = None
    marked: int | None = None


class Ground:
    """The tables everybody starts from, in a folder.

    ``on`` and ``off``: the bucket with deletion vectors and without; ``pending``: as ``on``, and the new rows
    at level 0; ``new``: the new rows as a table of their own.
    """

    def __init__(self, folder: Path, scale: float) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        base = tpch("lineitem", scale)
        new = base.take(list(range(0, base.num_rows, EVERY)))
        at = new.schema.get_field_index("l_linestatus")
        new = new.set_column(
            at, new.schema.field(at), pa.array(["X"] * new.num_rows, new.schema.field(at).type)
        )
        self.new_rows, self.rows, self.upserts = new, base.num_rows, new.num_rows
        for name, rows, options in (
            ("on", base, {"deletion-vectors.enabled": "true"}),
            ("off", base, {}),
            ("new", new, {}),
        ):
            made = Table.create(folder / name, rows.schema, primary_key=KEY, options=options)
            made.upsert(rows)
            made.compact(full=True)
        pending = Table.open(self.copy("on"))
        before = data_files(Path(pending.path))
        prepared = pending.stage_write(new, ChangeKind(), write_only=True)
        assert prepared is not None
        prepared.commit(CommitId("benchmark"))
        shutil.move(pending.path, folder / "pending")
        (fresh,) = data_files(folder / "pending").keys() - before.keys()
        self.ingested_bytes = data_files(folder / "pending")[fresh]

    def path(self, name: str) -> Path:
        return self._folder / name

    def copy(self, name: str) -> Path:
        """Return a copy of a table."""
        path = self._folder / f"copy-{next(self._numbers)}"
        shutil.copytree(self.path(name), path)
        return path


def data_files(table: Path) -> dict[str, int]:
    """Return the sizes in bytes of the data files of a table with one bucket, by name."""
    return {path.name: path.stat().st_size for path in (table / "bucket-0").glob("data-*")}


def pktable(ground: Ground) -> Iterator[Outcome]:
    """pktable's local runner, and the same without vectors."""
    yield _ours(ground, "pktable", "upsert", "on", lambda table: table.upsert(ground.new_rows))
    yield _ours(ground, "pktable", "full", "pending", lambda table: table.compact(full=True))


def pktable_off(ground: Ground) -> Iterator[Outcome]:
    """The same without vectors: the new rows wait at level 0 for a merge."""
    yield _ours(ground, "pktable, no vectors", "upsert", "off", lambda table: table.upsert(ground.new_rows))


def _ours(ground: Ground, contender: str, work: str, name: str, do: Callable[[Table], Any]) -> Outcome:
    path = ground.copy(name)
    table = Table.open(path)
    began, processor = time.perf_counter(), time.process_time()
    do(table)
    seconds, processor = time.perf_counter() - began, time.process_time() - processor
    return _outcome(ground, contender, work, path, name, seconds, processor)


def _outcome(
    ground: Ground, contender: str, work: str, path: Path, name: str, seconds: float, processor: float
) -> Outcome:
    """Look at what was made, check it, and remove it."""
    before = data_files(ground.path(name))
    written = sum(size for file, size in data_files(path).items() if file not in before)
    after = Table.open(path)
    assert after.count(fresh=True) == ground.rows, contender
    anew = pc.sum(pc.equal(after.to_arrow(columns=["l_linestatus"], fresh=True)["l_linestatus"], "X")).as_py()
    assert anew == ground.upserts, f"{contender}: {anew} new rows of {ground.upserts}"
    marked = sum(after.files().column("deleted_row_count").to_pylist())
    shutil.rmtree(path)
    return Outcome(contender, work, seconds, processor, written, marked)


def copy(ground: Ground) -> Iterator[Outcome]:
    """The floor: pyarrow reads the files that a compaction reads, and writes as many rows as it writes.

    An upsert's rows are at hand, and are written once as they are.
    """
    target = ground.path("copied.parquet")
    options = {**PARQUET_WRITE_OPTIONS, "compression": "zstd", "compression_level": ZSTD_LEVEL}
    (fresh,) = data_files(ground.path("new"))
    ready = pq.read_table(ground.path("new") / "bucket-0" / fresh)

    def written(table: pa.Table) -> None:
        pq.write_table(table, target, **options)

    def full() -> None:
        folder = ground.path("pending") / "bucket-0"
        tables = [pq.read_table(folder / file, use_threads=False) for file in data_files(folder.parent)]
        written(pa.concat_tables(tables).slice(0, ground.rows))

    works: tuple[tuple[str, Callable[[], None]], ...] = (("upsert", lambda: written(ready)), ("full", full))
    for work, do in works:
        began, processor = time.perf_counter(), time.process_time()
        do()
        yield Outcome(
            "copy", work, time.perf_counter() - began, time.process_time() - processor, target.stat().st_size
        )


def spark_sql(ground: Ground) -> Iterator[Outcome]:
    """The same by SQL on Spark: new rows and the positions they replace by a join, the merge by a window."""
    session = local_session()
    target = ground.path("sql")
    keys = [KEY_PREFIX + name for name in KEY]
    frames = {
        name: session.read.parquet(str(ground.path(name) / "bucket-0")) for name in ("on", "new", "pending")
    }
    replaced = frames["on"].select(*keys, "_metadata.file_name", "_metadata.row_index")
    replaced = replaced.join(frames["new"].select(*keys), keys, "left_semi")
    found = replaced.groupBy("file_name").agg(F.collect_list("row_index").alias("positions"))
    newest = Window.partitionBy(*keys).orderBy(F.desc(SEQUENCE_NUMBER))
    merged = frames["pending"].withColumn("age", F.row_number().over(newest)).where("age = 1").drop("age")

    def upsert() -> None:
        frames["new"].orderBy(*keys).write.parquet(f"{target}/new")
        found.write.parquet(f"{target}/marks")

    for work, do in (("upsert", upsert), ("full", lambda: merged.write.parquet(f"{target}/merged"))):
        began, processor = time.perf_counter(), sum(processor_seconds().values())
        do()
        yield Outcome(
            "Spark SQL", work, time.perf_counter() - began, sum(processor_seconds().values()) - processor
        )
        shutil.rmtree(target)


def paimon(ground: Ground) -> Iterator[Outcome]:
    """Paimon 0.9, whose first table warms its compiler up. Raises SetupError."""
    for work, name, contender in (
        ("upsert", "on", "Paimon 0.9"),
        ("upsert", "off", "Paimon 0.9, no vectors"),
        ("full", "pending", "Paimon 0.9"),
    ):
        paths = [ground.copy(name), ground.copy(name)]
        uris = [f"file://{path}" for path in paths]
        if work == "upsert":
            lines = java("upsert", f"file://{ground.path('new')}", *uris)
        else:
            lines = java(*itertools.chain.from_iterable(("full", uri) for uri in uris))
        seconds, processor = map(float, lines[-1].split()[1:])
        shutil.rmtree(paths[0])
        yield _outcome(ground, contender, work, paths[1], name, seconds, processor)


def java(*arguments: str, peer: str = JVM) -> list[str]:
    """Return what `Upserts` of ``peer`` prints, a line per table. Raises SetupError, RuntimeError."""
    start = jvm_program(JAVA_SOURCE, "-Xmx6g", peer=peer)
    command = [*start.command, *arguments]
    run = subprocess.run(command, env=dict(start.environment), capture_output=True, text=True, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith("took ")]
    if run.returncode or not lines:
        raise RuntimeError(f"{' '.join(command)}:\n{run.stderr[-2000:]}")
    return lines


CONTENDERS: Final[Mapping[str, Callable[[Ground], Iterator[Outcome]]]] = {
    "pktable": pktable,
    "pktable, no vectors": pktable_off,
    "copy": copy,
    "Spark SQL": spark_sql,
    "Paimon 0.9": paimon,
}
