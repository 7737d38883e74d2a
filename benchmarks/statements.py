"""``python -m benchmarks.statements``: DELETE, UPDATE and MERGE against the scan that finds their rows.

An append table of ``--rows`` rows in ten files. Each statement touches rows of every file, which is the worst case for
rewriting them. Three things are measured one after the other, in ``--turns`` turns: the scan (of a MERGE: and the join)
that finds the rows; the statement with deletion vectors; and the statement that writes files again, on a table without.

The measure is the processor time of this process and its descendants, so that other work on the machine counts little.
A ratio is the median over the turns of the quotients within a turn.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pktable import Table
from pktable.run.spark.session import local_session

from benchmarks.machine import cpu, describe, hardware

RESULT = Path(__file__).parent / "results" / "statements.md"
FILES = 10
COLUMNS = "id BIGINT, city STRING, amount DOUBLE, n INT"
VECTORS = "deletion-vectors.enabled"
ONE_PERCENT, TWENTY_PERCENT = "id % 100 = 7", "id % 5 = 3"


@dataclass(frozen=True)
class Work:
    """A statement, and the scan that finds the rows it changes."""

    scan: Callable[[Table, Any], object]
    execute: Callable[[Table, Any], object]


@dataclass
class Measured:
    """Processor seconds of each turn, and the bytes that a statement wrote."""

    scan: list[float] = field(default_factory=list)
    vectors: list[float] = field(default_factory=list)
    rewritten: list[float] = field(default_factory=list)
    vectors_bytes: int = 0
    rewritten_bytes: int = 0

    def ratio(self, times: Sequence[float]) -> float:
        return statistics.median(one / scan for one, scan in zip(times, self.scan, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statements", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the table (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULT, help="the file of the results")
    options = parser.parse_args()
    about = describe()
    with tempfile.TemporaryDirectory(prefix="pktable-statements-") as folder:
        bases = {
            vectors: made(Path(folder) / f"base-{vectors}", options.rows, vectors)
            for vectors in ("true", "false")
        }
        source = changes(options.rows)
        bytes_of_table = sum(path.stat().st_size for path in bases["true"].rglob("*.parquet"))
        found = {"here": measured(Path(folder), bases, source, None, options.turns)}
        session = local_session(cores=str(os.cpu_count()))
        frame = session.createDataFrame(source).persist()
        frame.count()
        # Warms Spark up. Smaller tables would not: their rows are changed without Spark.
        measured(Path(folder), bases, frame, session, 1)
        found["Spark"] = measured(Path(folder), bases, frame, session, options.turns)
        session.stop()
    command = shlex.join(["python", "-m", "benchmarks.statements", *sys.argv[1:]])
    text = "\n".join(report(about, command, options.rows, bytes_of_table, found)) + "\n"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(text)
    print(text)


def made(path: Path, count: int, vectors: str) -> Path:
    """Make the table, in as many files as `FILES`."""
    table = Table.create(path, COLUMNS, primary_key=None, options={VECTORS: vectors, "write-only": "true"})
    for ids in np.array_split(np.arange(count), FILES):
        table.append(rows(ids))
    return path


def rows(ids: Any) -> pa.Table:
    random = np.random.default_rng(int(ids[0]))
    cities = pa.array([f"city {number}" for number in range(1000)])
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": cities.take(pa.array(random.integers(0, 1000, len(ids)))),
            "amount": random.random(len(ids)),
            "n": pa.array(random.integers(0, 1_000_000, len(ids)), pa.int32()),
        }
    )


def changes(count: int) -> pa.Table:
    """Return the source of the MERGE: 4 % of the table's rows and 1 % new ones."""
    return rows(np.concatenate([np.arange(0, count, 25), np.arange(count, count + count // 100)]))


def scan_where(where: str, columns: Sequence[str]) -> Callable[[Table, Any], object]:
    """Read some columns of the rows that satisfy a condition; on Spark the files alone, by its own reader."""

    def scan(table: Table, source: Any) -> object:
        if isinstance(source, pa.Table):
            return table.to_arrow(where=where, columns=list(columns))
        _noop(_files(table, source).where(where).select(*columns))
        return None

    return scan


def scan_and_join(table: Table, source: Any) -> object:
    """Join the whole table with the source, as the MERGE does, and keep the pairs and the new rows."""
    if isinstance(source, pa.Table):
        return table.to_arrow().join(source, "id", join_type="right outer", right_suffix=" of source")
    _noop(
        _files(table, source).join(
            source.withColumnsRenamed({"city": "c", "amount": "a", "n": "m"}), "id", "right"
        )
    )
    return None


def _files(table: Table, source: Any) -> Any:
    return source.sparkSession.read.parquet(f"{table.path}/bucket-0")


def _noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def merge(table: Table, source: Any) -> object:
    builder = table.merge(source, on="id").when_matched_update({"amount": "source.amount", "n": "source.n"})
    return builder.when_not_matched_insert_all().execute()


EVERY = ("id", "city", "amount", "n")
WORK: Mapping[str, Work] = {
    "DELETE of 1 %": Work(scan_where(ONE_PERCENT, ["id"]), lambda table, _: table.delete(where=ONE_PERCENT)),
    "DELETE of 20 %": Work(
        scan_where(TWENTY_PERCENT, ["id"]), lambda table, _: table.delete(where=TWENTY_PERCENT)
    ),
    "UPDATE of 1 %": Work(
        scan_where(ONE_PERCENT, EVERY),
        lambda table, _: table.update({"amount": "amount * 2"}, where=ONE_PERCENT),
    ),
    "MERGE of 5 %": Work(scan_and_join, merge),
}


def measured(
    folder: Path, bases: Mapping[str, Path], source: Any, session: Any, turns: int
) -> dict[str, Measured]:
    """Measure every statement in turns, each on new copies of the tables."""
    found = {name: Measured() for name in WORK}
    for _ in range(turns):
        for name, work in WORK.items():
            one = found[name]
            base = Table.open(bases["true"], spark=session)
            one.scan.append(seconds(partial(work.scan, base, source)))
            taken, one.vectors_bytes = statement(folder, bases["true"], work, source, session)
            one.vectors.append(taken)
            taken, one.rewritten_bytes = statement(folder, bases["false"], work, source, session)
            one.rewritten.append(taken)
            print(
                f"{name}: {one.scan[-1]:.2f} {one.vectors[-1]:.2f} {one.rewritten[-1]:.2f}", file=sys.stderr
            )
    return found


def statement(folder: Path, base: Path, work: Work, source: Any, session: Any) -> tuple[float, int]:
    """Execute a statement on a copy of a table; return its processor seconds, and the bytes it wrote."""
    path = folder / "copy"
    shutil.copytree(base, path, copy_function=_copied)
    try:
        before = _sizes(path)
        table = Table.open(path, spark=session)
        taken = seconds(partial(work.execute, table, source))
        return taken, sum(size for name, size in _sizes(path).items() if name not in before)
    finally:
        shutil.rmtree(path)


def _copied(source: str, target: str) -> None:
    """Link data files, which nobody changes, and copy the others."""
    (os.link if source.endswith(".parquet") else shutil.copy2)(source, target)


def _sizes(path: Path) -> dict[str, int]:
    return {str(one): one.stat().st_size for one in path.rglob("*") if one.is_file()}


def seconds(work: Callable[[], object]) -> float:
    return max(cpu(work), 0.01)


def report(
    about: dict[str, Any], command: str, count: int, size: int, found: Mapping[str, Mapping[str, Measured]]
) -> Iterator[str]:
    yield "# Statements on append tables"
    yield ""
    yield (
        f"{count:,} rows in {FILES} files of {size / 1e6:.0f} MB together. {hardware(about)}, "
        f"Python {about['python']}, pyarrow {about['pyarrow']}, pyspark {about['pyspark']}; "
        f"load before: {about['load_before'][0]}. `{command}`. "
        "Processor seconds of the process tree, the least of all turns; other work was on the machine, so quote the "
        "ratios, which are medians of quotients within a turn."
    )
    for runner, statements in found.items():
        yield ""
        yield f"## {runner.capitalize()}"
        yield ""
        yield (
            "| statement | scan, s | with vectors, s | times the scan | files written again, s | times the scan "
            "| written with vectors, MB | without, MB |"
        )
        yield "| --- " * 8 + "|"
        for name, one in statements.items():
            yield (
                f"| {name} | {min(one.scan):.2f} | {min(one.vectors):.2f} | {one.ratio(one.vectors):.2f} "
                f"| {min(one.rewritten):.2f} | {one.ratio(one.rewritten):.2f} "
                f"| {one.vectors_bytes / 1e6:.2f} | {one.rewritten_bytes / 1e6:.2f} |"
            )


if __name__ == "__main__":
    main()
