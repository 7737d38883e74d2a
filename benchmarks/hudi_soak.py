"""``python -m benchmarks.hudi_soak``: commits to a table of Hudi while another process compacts it, and what is lost.

A writer commits upserts and deletes of a few keys each, and remembers what the rows must be. A compactor in another
process plans and executes compactions, a second after the last one, so that plans end writes in the middle, and writes
go on into slices whose compaction is planned. At the end all rows are read and compared, and every key is looked for in
all files.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import HudiTable
from pktable.hudi.index_writer import IndexPolicy
from pktable.hudi.placing import WriteOptions

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
    table = HudiTable.create(path, "k STRING, v BIGINT", key="k")
    stop: Any = multiprocessing.get_context("spawn").Event()
    compactor = multiprocessing.get_context("spawn").Process(target=_compact, args=(str(path), stop))
    compactor.start()
    start = time.perf_counter()
    try:
        expected = _write(table, commits)
    finally:
        stop.set()
        compactor.join()
    seconds = time.perf_counter() - start
    assert compactor.exitcode == 0, "the compactor failed"
    _expect(table, expected)
    history, timeline = table.history(), path / ".hoodie" / "timeline"
    counts = Counter(history["operation"].to_pylist())
    rolled_back = len(list(timeline.glob("*.rollback")))
    groups = {one["group"] for one in table.files().to_pylist()}
    yield "# Commits to a table of Hudi with a compactor at the same time"
    yield ""
    yield f"`{shlex.join(['python', '-m', 'benchmarks.hudi_soak', *sys.argv[1:]])}`. {hardware(about)}."
    yield ""
    yield __doc__.partition("\n\n")[2].replace("\n", " ").strip()
    yield ""
    yield "| | |"
    yield "| --- | ---: |"
    yield f"| commits of the writer | {counts['UPSERT'] + counts['DELETE']:,} |"
    yield f"| of these deletes | {counts['DELETE']:,} |"
    yield f"| compactions | {counts['COMPACT']:,} |"
    yield f"| writes and plans that were ended in the middle, and done again | {rolled_back:,} |"
    yield f"| file groups | {len(groups):,} |"
    yield f"| rows at the end, all as expected and each once | {len(expected):,} |"
    yield f"| seconds | {seconds:,.0f} |"


def _write(table: HudiTable, commits: int) -> dict[str, int]:
    """Commit, and return the rows that must be there. A part of them is checked on the way."""
    table.write_options, table.index_policy = WriteOptions(1 << 30, GROUP_ROWS), POLICY
    draw, expected = random.Random(1), dict[str, int]()
    for number in range(commits):
        keys = [f"{draw.randrange(KEYS):06}" for _ in range(ROWS)]
        if draw.random() < DELETES:
            table.delete(pa.table({"k": keys}))
            expected = {key: value for key, value in expected.items() if key not in keys}
        else:
            rows = dict.fromkeys(keys, number)
            table.upsert(pa.table({"k": list(rows), "v": pa.array(rows.values(), pa.int64())}))
            expected |= rows
        if (number + 1) % max(1, commits // CHECKS) == 0:
            _expect(table, expected)
            print(f"{number + 1:,} commits", file=sys.stderr, flush=True)
    return expected


def _expect(table: HudiTable, expected: dict[str, int]) -> None:
    """Compare all rows, and look every key up: it is in one file group."""
    found = table.to_arrow(columns=["k", "v"]).to_pylist()
    assert len(found) == len(expected), "a row is lost or doubled"
    assert {one["k"]: one["v"] for one in found} == expected
    places = Counter(table.locate([f"{i:06}" for i in range(KEYS)])["key"].to_pylist())
    assert set(expected) <= set(places)
    assert max(places.values()) == 1, "a key is in two file groups"


def _compact(path: str, stop: Any) -> None:
    table = HudiTable.open(path)
    while not stop.is_set():
        table.compact(fewest_logs=8)
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    main()
