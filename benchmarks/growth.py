"""``python -m benchmarks.growth``: how costs grow with snapshots, files and buckets, and shrink with cores.

* *snapshots*: a table of one bucket after so many upserts of ten rows. Retained are all of them until the expiry.
* *files*: a table that nobody compacts, after so many writes of one row; its files are all of level 0.
* *buckets*: a table of so many buckets, each written to by every commit.
* *columns*: a table of so many columns of BIGINT and 200 rows; conditions and assignments name up to 200 columns.
* *predicates*: a plan of a read, by its condition, of a table of so many files; no condition leaves many.
* *cores*: 64 buckets of 40,000 rows compacted by Spark on one core and on two.

Each thing is measured at sizes three to ten times apart. Between the first and the last the report tells the
exponent: 0 costs the same at any size, 1 grows as the size does. ``--only PART`` measures one part, and keeps what
the results say of the others.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.ingest.changes import ChangeKind
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketState
from pktable.run.spark.session import local_session

from benchmarks import planning
from benchmarks.machine import describe, hardware

RESULTS = Path(__file__).parent / "results"
SIZES = {
    "snapshots": (10, 30, 100, 300, 1000),
    "files": (10, 100, 1000, 10_000),
    "buckets": (1, 4, 16, 64, 256),
    "columns": (20, 200, 2000),
    "predicates": (10, 100, 1000, 10_000),
}
REPEATS = 5
CORES = (1, 2)
CORE_BUCKETS, CORE_ROWS = 64, 40_000
OPTIONS = {"deletion-vectors.enabled": "true"}

Measured = dict[str, float]
"""Milliseconds by what was measured."""

Part = dict[str, Any]
"""``command``, ``machine`` as `describe` tells it, and ``milliseconds``: what was measured, by size."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--max", type=int, default=10_000, help="the largest size (%(default)s)")
    parser.add_argument("--only", action="append", choices=[*SIZES, "cores"], help="a part; all by default")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    stored = options.out / "growth.json"
    parts: dict[str, Part] = json.loads(stored.read_text()) if options.only and stored.exists() else {}
    command = shlex.join(["python", "-m", "benchmarks.growth", *sys.argv[1:]])
    with tempfile.TemporaryDirectory(prefix="pktable-growth-") as folder:
        for what in options.only or (*SIZES, "cores"):
            about, found = describe(), {}
            for size in (size for size in SIZES.get(what, ()) if size <= options.max):
                began = time.perf_counter()
                found[str(size)] = GROWN[what](Path(folder) / f"{what}-{size}", size)
                print(f"{what} {size}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
            if what == "cores":
                found = cores(Path(folder))
            parts[what] = {"command": command, "machine": about, "milliseconds": found}
    parts = {what: parts[what] for what in (*SIZES, "cores") if what in parts}
    stored.write_text(json.dumps(parts, indent=1) + "\n")
    from benchmarks.plots import draw_growth  # which needs what only benchmarks do

    grown = {what: _by_size(part) for what, part in parts.items() if what in SIZES}
    draw_growth(grown, options.out / "growth.svg")
    text = "\n".join(report(parts)) + "\n"
    (options.out / "growth.md").write_text(text)
    print(text)


def _by_size(part: Part) -> dict[int, Measured]:
    return {int(size): found for size, found in part["milliseconds"].items()}


def rows(keys: Any) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array([f"value {key}" for key in keys])})


def created(path: Path, **options: str) -> Table:
    return Table.create(path, "k BIGINT, v STRING", primary_key=["k"], options={**OPTIONS, **options})


def snapshots(path: Path, size: int) -> Measured:
    """Upsert again and again."""
    table = created(path)
    for number in range(size):
        table.upsert(rows(np.arange(number * 7, number * 7 + 10) % 5000))
    measured = {**reads(path), "commit": median(lambda: Table.open(path).upsert(rows(range(10))))}
    first = table.snapshots()[0].id
    measured["read the first"] = median(lambda: Table.open(path).to_arrow(snapshot=first))
    began = time.perf_counter()
    removed = len(table.expire_snapshots(retain_last=1))
    measured["expiry, per snapshot"] = (time.perf_counter() - began) * 1000 / removed
    return measured


def files(path: Path, size: int) -> Measured:
    """Let files pile up."""
    table = created(path, **{"write-only": "true"})
    for number in range(size):
        table.upsert(rows([number]))
    measured = {**reads(path), "commit": median(lambda: Table.open(path).upsert(rows([0])))}
    measured["fresh read, per file"] = median(lambda: table.to_arrow(fresh=True), repeats=1) / size
    measured["plan of a compaction"] = median(lambda: planned(path))
    return measured


def planned(path: Path) -> None:
    """Choose what to compact, from the metadata of a table just opened."""
    table = Table.open(path)
    state = table.catalog.state()
    for identity, live in state.files.items():
        place = table.catalog.context.place(*identity)
        assert kind_of(table.schema, table.path).choose_compaction(
            table.catalog.context, BucketState(place, live, state.indexes.get(identity, ())), full=False
        )


def buckets(path: Path, size: int) -> Measured:
    """Write to every bucket."""
    table = created(path, bucket=str(size))
    for number in range(3):
        table.upsert(rows(np.arange(size * 40) + number))
    commit = median(lambda: Table.open(path).upsert(rows(np.arange(size * 40))))
    return {**reads(path), "commit, per bucket": commit / size}


def columns(path: Path, size: int) -> Measured:
    """Write, read and change a wide table."""
    names = [f"c{number}" for number in range(size)]
    table = Table.create(
        path,
        ", ".join(["k BIGINT", *(f"{name} BIGINT" for name in names)]),
        primary_key=["k"],
        options={**OPTIONS, "changelog-producer": "lookup"},
    )
    every = pa.table({"k": np.arange(200), **{name: np.arange(200) % 7 for name in names}})
    asked = " OR ".join(f"{name} = 77" for name in names[:200])
    assignments = {name: f"{name} + 1" for name in names[:200]}
    return {
        "upsert of 200 rows": median(lambda: table.upsert(every)),
        "read": median(lambda: Table.open(path).to_arrow()),
        "read of rows that satisfy a condition": median(lambda: table.to_arrow(where=asked)),
        "update of a row": median(lambda: table.update(assignments, where="k = 1")),
        "list the types": median(lambda: [table.columns[name] for name in names]),
        "check": median(table.check, repeats=1),
    }


def predicates(path: Path, size: int) -> Measured:
    """Plan reads of files that are in a manifest only, of 16 columns in 4 buckets."""
    planning.make_table(path, size)
    return {f"plan: {what}": cost for what, cost in planning.plans(path).items()}


def cores(folder: Path) -> dict[str, Measured]:
    """Compact with Spark on one core and on two."""
    base = folder / "base"
    table = created(base, bucket=str(CORE_BUCKETS))
    everything = CORE_BUCKETS * CORE_ROWS
    table.upsert(rows(np.arange(everything)))
    fresh = rows(np.arange(0, everything, 3))
    prepared = table.stage_write(fresh, ChangeKind(), write_only=True)
    assert prepared is not None
    prepared.commit(CommitId("benchmark"))
    found = {}
    for count in CORES:
        session = local_session(cores=str(count))
        times = []
        for turn in range(3):  # the first warms Spark up
            copy = folder / f"cores-{count}-{turn}"
            shutil.copytree(base, copy)
            opened = Table.open(copy, spark=session, runner="spark")
            began = time.perf_counter()
            opened.compact(full=True)
            times.append(time.perf_counter() - began)
        found[str(count)] = {"full compaction": min(times[1:]) * 1000}
        session.stop()
    return found


def reads(path: Path) -> Measured:
    """Measure what a reader does who has just opened the table."""
    return {
        "open and count": median(lambda: Table.open(path).count()),
        "read the newest": median(lambda: Table.open(path).to_arrow()),
        "list the files": median(lambda: Table.open(path).files()),
    }


def median(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median of so many times, in milliseconds."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


GROWN: dict[str, Callable[[Path, int], Measured]] = {
    "snapshots": snapshots,
    "files": files,
    "buckets": buckets,
    "columns": columns,
    "predicates": predicates,
}


def report(parts: Mapping[str, Part]) -> Iterator[str]:
    yield "# Growth"
    yield ""
    yield (
        "Milliseconds, of predicates CPU time; the exponent is that of the size between the first and the last column: "
        "0 is the same at any size, 1 a straight line through zero."
    )
    yield "\n![milliseconds against size](growth.svg)"
    for what, part in parts.items():
        about, by_size = part["machine"], _by_size(part)
        sizes = list(by_size)
        yield ""
        yield f"## {what.capitalize()}"
        yield ""
        yield (
            f"{hardware(about)}, Python {about['python']}, pyarrow {about['pyarrow']}; "
            f"load before: {about['load_before'][0]}. `{part['command']}`."
        )
        yield ""
        yield f"| {what} | {' | '.join(f'{size:,}' for size in sizes)} | exponent |"
        yield f"| --- |{' ---: |' * (len(sizes) + 1)}"
        for name in by_size[sizes[0]]:
            values = [by_size[size][name] for size in sizes]
            cells = " | ".join(f"{value:,.2f}" for value in values)
            yield f"| {name} | {cells} | {exponent(sizes, values):.2f} |"


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """Return p of ``value = c * size ** p`` through the first and the last size."""
    return math.log(values[-1] / values[0]) / math.log(sizes[-1] / sizes[0])


if __name__ == "__main__":
    main()
