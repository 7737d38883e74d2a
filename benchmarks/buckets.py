"""``python -m benchmarks.buckets``: dynamic buckets beside fixed ones, and opening their hash index.

A table of four columns is written once, then upserted in batches: of keys that are there, or half of them new. Both
tables get the same rows, by turns. Beside them is the least work that a dynamic bucket adds: look the hashes up in one
sorted array, add the new ones to it, and write them. The hash index is opened as we write it, and in no order, as
Paimon does.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable import Table
from pktable.bucket.hash_index import OPENED, encode_hashes, hashes_of_rows, opened
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.store.requests import Cache
from pktable_spec.vocabulary import HASH

from benchmarks.machine import describe, hardware

RESULTS = Path(__file__).parent / "results"
KEYS, BATCH, BATCHES, BUCKETS = 2_000_000, 500_000, 7, 5
INDEXED = 10_000_000
OPENINGS = 5
GOAL_RATIO, GOAL_SECONDS = 1.3, 1.0

Clock = Callable[[], float]
CASES = {
    "keys that are there": (False, False),
    "half of the keys are new": (True, False),
    "keys that are there, write-only": (False, True),
    "half of the keys are new, write-only": (True, True),
}
"""By name whether there are new keys, and whether compaction is left to others."""


def rows(ids: npt.NDArray[np.int64]) -> pa.Table:
    return pa.table(
        {"id": ids, "a": ids.astype(np.int32), "b": pa.array(ids % 1000).cast(pa.string()), "c": ids * 1.5}
    )


def created(path: Path, *, write_only: bool, **options: str) -> Table:
    given = {"deletion-vectors.enabled": "true", "write-only": str(write_only).lower(), **options}
    return Table.create(path, "id BIGINT, a INT, b STRING, c DOUBLE", primary_key="id", options=given)


def upserts(directory: Path, clock: Clock, *, new: bool, write_only: bool) -> dict[str, list[float]]:
    """Return the seconds that each upsert took, of fixed and of dynamic buckets, and of the least work besides."""
    drawn = np.random.default_rng(1)
    tables = {
        "fixed": created(directory / "fixed", write_only=write_only, bucket=str(BUCKETS)),
        "dynamic": created(
            directory / "dynamic",
            write_only=write_only,
            bucket="-1",
            **{"dynamic-bucket.target-row-num": str(-(-KEYS // BUCKETS))},
        ),
    }
    for table in tables.values():
        table.upsert(rows(drawn.permutation(KEYS)))
    taken: dict[str, list[float]] = {name: [] for name in (*tables, "least")}
    index = np.unique(_hashes(tables["dynamic"], rows(np.arange(KEYS))))
    for number in range(BATCHES):
        batch = rows(drawn.integers(0, KEYS, BATCH) + (KEYS // 2 if new and not number % 2 else 0))
        for name, table in tables.items():
            before = clock()
            table.upsert(batch)
            taken[name].append(clock() - before)
        hashes = _hashes(tables["dynamic"], batch)
        before = clock()
        index = _looked_up(index, hashes, directory / "least")
        taken["least"].append(clock() - before)
    assert tables["fixed"].count() == tables["dynamic"].count()
    return taken


def _hashes(table: Table, batch: pa.Table) -> npt.NDArray[np.int32]:
    return hashes_of_rows(table.catalog.context, batch, ["id"])


def _looked_up(
    index: npt.NDArray[np.int32], hashes: npt.NDArray[np.int32], path: Path
) -> npt.NDArray[np.int32]:
    """Look up the hashes of a batch, and write an index that has them all: what nobody can leave out."""
    batch = np.sort(hashes)
    places = np.minimum(np.searchsorted(index, batch), len(index) - 1)
    new = batch[index[places] != batch]
    if len(new):
        index = np.concatenate([index, new[np.append(True, new[1:] != new[:-1])]])
        index.sort(kind="stable")
        path.write_bytes(index[-len(new) :].astype(">i4").tobytes())
    return index


def openings(directory: Path, clock: Clock, *, ascending: bool) -> list[float]:
    """Return the seconds that the hash index of a partition took to open, from files in the system's cache."""
    table = created(directory / str(ascending), write_only=True, bucket="-1")
    context = table.catalog.context
    drawn = np.random.default_rng(1)
    distinct = np.unique(drawn.integers(-(1 << 31), 1 << 31, INDEXED * 101 // 100))
    hashes = drawn.permutation(distinct)[:INDEXED].astype(np.int32)
    (Path(table.path) / "index").mkdir()
    entries = []
    for bucket, part in enumerate(np.array_split(hashes, BUCKETS)):
        if ascending:
            part.sort()
        data = encode_hashes(part)
        entry = IndexManifestEntry(0, b"", bucket, HASH, f"index-{bucket}", len(data), len(part), None)
        Path(table.path, "index", entry.file_name).write_bytes(data)
        entries.append(entry)
    context.index_path = lambda entry: f"{table.path}/index/{entry.file_name}"  # type: ignore[method-assign]
    taken = []
    for _ in range(OPENINGS):
        before = clock()
        index = opened(context, entries)
        taken.append(clock() - before)
        assert len(index.packed) == INDEXED
        _forget(OPENED)
    return taken


def _forget(cache: Cache) -> None:
    cache.put("nothing", None, INDEXED * 10)


def report(
    upserted: Mapping[str, Mapping[str, list[float]]],
    indexed: Mapping[str, list[float]],
    command: str,
    clock: str,
) -> Iterator[str]:
    about = describe()
    yield "# Dynamic buckets beside fixed ones"
    yield ""
    yield f"`{command}`. {hardware(about)}; Python {about['python']}, numpy {about['numpy']},"
    yield f"pyarrow {about['pyarrow']}; load average {about['load_before']}; times by {clock} clock."
    yield f"A table of 4 columns and {KEYS:,} keys in {BUCKETS} buckets, upserted with {BATCH:,} rows at a time,"
    yield f"{BATCHES} times by turns. Each batch has a ratio, and the table shows their median. The least work is to"
    yield "look the hashes up in one sorted array, to add the new ones, and to write as many: the last column adds"
    yield "that to the time of the fixed bucket. It has one bucket, so it leaves out that new buckets mean more files."
    yield ""
    yield "| upserts | fixed, s | dynamic, s | least work besides, s | ratio | ratio of the least work |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    ratios = {}
    for name, taken in upserted.items():
        each = list(zip(taken["fixed"], taken["dynamic"], taken["least"], strict=True))
        ratios[name] = statistics.median(dynamic / fixed for fixed, dynamic, _ in each)
        bound = statistics.median(1 + least / fixed for fixed, _, least in each)
        fixed, dynamic, least = map(statistics.median, zip(*each, strict=True))
        yield f"| {name} | {fixed:.3f} | {dynamic:.3f} | {least:.3f} | {ratios[name]:.2f} | {bound:.2f} |"
    yield ""
    yield f"| hash index of {INDEXED:,} keys | s to open, least | median |"
    yield "| --- | ---: | ---: |"
    for name, seconds in indexed.items():
        yield f"| {name} | {min(seconds):.2f} | {statistics.median(seconds):.2f} |"
    yield ""
    behind = [name for name, ratio in ratios.items() if round(ratio, 1) > GOAL_RATIO]
    slow = [name for name, seconds in indexed.items() if min(seconds) > GOAL_SECONDS]
    yield f"The goal of {GOAL_RATIO} times a fixed bucket is {_judged(behind)}."
    yield f"The goal of {GOAL_SECONDS:g} s to open the index is {_judged(slow)}."


def _judged(missed: list[str]) -> str:
    return f"missed by: {', '.join(missed)}" if missed else "met everywhere"


def measure(directory: Path, clock: Clock) -> tuple[dict[str, Any], dict[str, list[float]]]:
    """Return the seconds of all upserts by case, and of all openings by order."""
    upserted = {}
    for number, (name, (new, write_only)) in enumerate(CASES.items()):
        print(f"{name} ...", file=sys.stderr)
        upserted[name] = upserts(directory / str(number), clock, new=new, write_only=write_only)
    return upserted, {
        "ascending, as we write it": openings(directory, clock, ascending=True),
        "in no order, as Paimon does": openings(directory, clock, ascending=False),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.buckets", description=__doc__)
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: for a machine that others use too"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the result")
    options = parser.parse_args()
    clock = time.perf_counter if options.clock == "wall" else time.process_time
    with tempfile.TemporaryDirectory() as directory:
        found = measure(Path(directory), clock)
    command = shlex.join(["python", "-m", "benchmarks.buckets", *sys.argv[1:]])
    text = "\n".join(report(*found, command, options.clock)) + "\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "buckets.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
