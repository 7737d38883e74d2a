"""``python -m benchmarks.hudi_soak``: commits to a table of Hudi while another process compacts and cleans it.

A writer commits upserts and deletes of a few keys each, and remembers what the rows must be. Another process, a second
after it was done the last time, plans and executes a compaction, cleans old file slices and archives old actions. So
plans end writes in the middle, writes go on into slices whose compaction is planned, and files vanish around them. Ten
times on the way all rows are read and compared, and every key is looked for in all files. The table shows what a commit
took in each of these tenths, by the clock and of the processor: it must not grow. The clock depends on what else the
machine does.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shlex
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pktable import HudiTable
from pktable.store.file_io import LocalFileIO
from pktable_hudi.history import History
from pktable_hudi.index_writer import IndexPolicy
from pktable_hudi.placing import WriteOptions

from benchmarks.machine import describe, hardware

RESULT = Path(__file__).parent / "results" / "hudi-soak.md"
KEYS, ROWS, GROUP_ROWS, DELETES, CHECKS = 3000, 4, 1500, 0.1, 10
PAUSE_SECONDS = 1
POLICY = IndexPolicy(clique_keys=1 << 9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hudi-") as directory:
        text = "\n".join(_lines(Path(directory) / "t", given.commits)) + "\n"
    RESULT.write_text(text)
    print(text)


def _lines(path: Path, commits: int) -> Iterator[str]:
    assert __doc__
    about = describe()
    store = CountingStore()
    table = HudiTable.create(path, "k STRING, v BIGINT", key="k", store=store)
    context = multiprocessing.get_context("spawn")
    stop, counts = context.Event(), context.Queue()
    tidier = context.Process(target=_tidy, args=(str(path), stop, counts))
    tidier.start()
    start = time.perf_counter()
    try:
        expected, deletes, tenths = _write(table, store, commits)
    finally:
        stop.set()
        done = counts.get()
        tidier.join()
    seconds = time.perf_counter() - start
    assert tidier.exitcode == 0, "the compactor failed"
    _expect(table, expected)
    assert table.check().findings == []
    decisions = len(list((path / ".hoodie" / ".pktable").iterdir()))
    yield "# Commits to a table of Hudi that is compacted and cleaned at the same time"
    yield ""
    yield f"`{shlex.join(['python', '-m', 'benchmarks.hudi_soak', *sys.argv[1:]])}`. {hardware(about)}."
    yield ""
    yield __doc__.partition("\n\n")[2].replace("\n", " ").strip()
    yield ""
    yield "| | |"
    yield "| --- | ---: |"
    yield f"| commits of the writer | {commits:,} |"
    yield f"| of these deletes | {deletes:,} |"
    for name, count in done.items():
        yield f"| {name} | {count:,} |"
    yield f"| writes and plans that were ended in the middle, and done again | {_rollbacks(table):,} |"
    yield f"| decisions that are kept at the end | {decisions:,} |"
    yield f"| file groups | {len({one['group'] for one in table.files().to_pylist()}):,} |"
    yield f"| rows at the end, all as expected and each once | {len(expected):,} |"
    yield f"| seconds | {seconds:,.0f} |"
    yield ""
    yield (
        "| tenth | median milliseconds a commit | of the processor | operations on the store | names listed "
        "| files of the table | of the timeline |"
    )
    yield "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for i, one in enumerate(tenths, 1):
        yield (
            f"| {i} | {one.clock:.0f} | {one.processor:.1f} | {one.operations:.0f} | {one.listed:.0f} "
            f"| {one.files} | {one.instants} |"
        )


def _rollbacks(table: HudiTable) -> int:
    """Return how many rollbacks are on the timeline and in its history."""
    root = f"{table.path}/{table.settings.history}"
    names = [
        one.partition(".")[2] for one in table.store.list_names(f"{table.path}/{table.settings.timeline}")
    ]
    for one in History(table.store, root).files:
        names += pq.read_table(f"{root}/{one.name}", columns=["action"]).column(0).to_pylist()
    return names.count("rollback")


class CountingStore(LocalFileIO):
    """Counts the operations and the names that are listed."""

    def __init__(self) -> None:
        self.operations = self.listed = 0

    def list_names(self, directory: str) -> list[str]:
        found = super().list_names(directory)
        self.listed += len(found)
        self.operations += 1
        return found

    def read(self, path: str) -> bytes:
        self.operations += 1
        return super().read(path)

    def open(self, path: str) -> Any:
        self.operations += 1
        return super().open(path)

    def exists(self, path: str) -> bool:
        self.operations += 1
        return super().exists(path)

    def write(self, path: str, data: bytes) -> None:
        self.operations += 1
        super().write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.operations += 1
        return super().put_if_absent(path, data)

    def delete(self, path: str) -> None:
        self.operations += 1
        super().delete(path)


@dataclass(frozen=True)
class Tenth:
    """A tenth of the commits: medians of what one took, in milliseconds and by number, and files after it."""

    clock: float
    processor: float
    operations: float
    listed: float
    files: int
    instants: int


def _write(table: HudiTable, store: CountingStore, commits: int) -> tuple[dict[str, int], int, list[Tenth]]:
    """Commit; return the rows that must be there, the number of deletes, and the tenths.

    All rows are checked after each tenth.
    """
    table.write_options, table.index_policy = WriteOptions(1 << 30, GROUP_ROWS), POLICY
    draw, expected, deletes = random.Random(1), dict[str, int](), 0
    taken: list[tuple[float, ...]] = []
    tenths: list[Tenth] = []
    for number in range(commits):
        keys = [f"{draw.randrange(KEYS):06}" for _ in range(ROWS)]
        before = _now(store)
        if draw.random() < DELETES:
            deletes += 1
            table.delete(pa.table({"k": keys}))
            expected = {key: value for key, value in expected.items() if key not in keys}
        else:
            rows = dict.fromkeys(keys, number)
            table.upsert(pa.table({"k": list(rows), "v": pa.array(rows.values(), pa.int64())}))
            expected |= rows
        taken.append(tuple(after - start for after, start in zip(_now(store), before, strict=True)))
        if (number + 1) % max(1, commits // CHECKS) == 0:
            _expect(table, expected)
            files, instants = (
                len(list(Path(table.path, one).glob("*"))) for one in (".", ".hoodie/timeline")
            )
            clock, processor, operations, listed = map(statistics.median, zip(*taken, strict=True))
            tenths.append(Tenth(clock, processor, operations, listed, files, instants))
            taken = []
            print(f"{number + 1:,} commits: {tenths[-1]}", file=sys.stderr, flush=True)
    return expected, deletes, tenths


def _now(store: CountingStore) -> tuple[float, ...]:
    """Return milliseconds by the clock and of the processor, and the counts of the store."""
    return 1000 * time.perf_counter(), 1000 * time.process_time(), store.operations, store.listed


def _expect(table: HudiTable, expected: dict[str, int]) -> None:
    """Compare all rows, and look every key up: it is in one file group."""
    found = table.to_arrow(columns=["k", "v"]).to_pylist()
    assert len(found) == len(expected), "a row is lost or doubled"
    assert {one["k"]: one["v"] for one in found} == expected
    places = Counter(table.locate([f"{i:06}" for i in range(KEYS)])["key"].to_pylist())
    assert set(expected) <= set(places)
    assert max(places.values()) == 1, "a key is in two file groups"


def _tidy(path: str, stop: Any, counts: Any) -> None:
    table = HudiTable.open(path)
    done = dict.fromkeys(("compactions", "cleans", "actions that were archived"), 0)
    while not stop.is_set():
        compacted, cleaned, archived = table.compact(fewest_logs=8), table.clean(), table.archive()
        for name, count in zip(done, (len(compacted), cleaned is not None, archived), strict=True):
            done[name] += count
        time.sleep(PAUSE_SECONDS)
    counts.put(done)


if __name__ == "__main__":
    main()
