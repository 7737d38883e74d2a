"""``python -m benchmarks.planning``: what it costs to read the metadata of a table of many files, and to plan reads.

The table has 10,000 files of 16 columns that exist in its manifest only: nothing here opens a data file. The figures
are CPU time of the process. ``--before DIRECTORY`` measures another checkout too, in turn with this one, so that both
see the same machine; the report tells the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pktable import Table
from pktable.format.binary_row import EMPTY_ROW, encode_row
from pktable.format.metadata.manifest import ADD, DataFileMeta, ManifestEntry
from pktable.format.metadata.snapshot import encode_snapshot
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import Value

from benchmarks.machine import describe, hardware

RESULTS = Path(__file__).parent / "results"
FILES, COLUMNS, BUCKETS, ROWS = 10_000, 16, 4, 200
KINDS = ("BIGINT", "STRING", "INT", "DOUBLE")
WHERE = {
    "no condition": None,
    "a key": "c0 = 1000077",
    "a range of keys": "c0 BETWEEN 1000000 AND 1001000",
    "a value": "c6 = 500000",
    "a value or another": "c6 = 500000 OR c2 = 77",
    "text": "c5 LIKE 'name 0000777%'",
    "half of the files": "c6 > 1000000",
}
TURNS = 5

Measured = dict[str, float]
"""Milliseconds of CPU time by what was measured."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--files", type=int, default=FILES, help="of the table (%(default)s)")
    parser.add_argument("--before", type=Path, help="another checkout to compare with")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the checkouts (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure)))
        return
    about = describe()
    here = Path(__file__).parents[1]
    found: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="pktable-planning-") as folder:
        make_table(Path(folder) / "small", 1)
        make_table(Path(folder) / "t", options.files)
        for _ in range(options.rounds):
            for name, tree in {"before": options.before, "now": here}.items():
                if tree:
                    found.setdefault(name, []).append(in_process(tree, Path(folder) / "t"))
    medians = {
        name: {what: statistics.median(run[what] for run in runs) for what in runs[0]}
        for name, runs in found.items()
    }
    text = "\n".join(report(about, options.files, medians)) + "\n"
    (options.out / "planning.md").write_text(text)
    print(text)


def make_table(path: Path, count: int) -> None:
    """Make a table whose one snapshot names ``count`` files."""
    columns = ", ".join(f"c{i} {KINDS[i % 4]}" for i in range(COLUMNS))
    table = Table.create(path, columns, primary_key=["c0"], options={"bucket": str(BUCKETS)})
    table.upsert([{f"c{i}": [0, "x", 0, 0.0][i % 4] for i in range(COLUMNS)}])
    draw = random.Random(1)
    writer = table.catalog.manifests.writer()
    types = [field.type for field in table.schema.fields]
    entries = [_entry(i, types, table.schema.id, draw) for i in range(count)]
    metas = writer.entries(entries)
    name, size = writer.manifest_list(metas)
    (snapshot,) = table.snapshots()
    changed = replace(snapshot, base_manifest_list=name, base_manifest_list_size=size)
    empty, none = writer.manifest_list([])
    writer.flush()
    changed = replace(changed, delta_manifest_list=empty, delta_manifest_list_size=none)
    (path / f"snapshot/snapshot-{snapshot.id}").write_bytes(encode_snapshot(changed))


def _entry(i: int, types: Any, schema_id: int, draw: random.Random) -> ManifestEntry:
    first = i * ROWS
    low, high = (
        _values([end, f"name {end // ROWS:07} from here", end, i / 2]) for end in (first, first + ROWS - 1)
    )
    keys = [bytes(encode_row(row[:1], types[:1])) for row in (low, high)]
    values = [bytes(encode_row(row, types)) for row in (low, high)]
    file = DataFileMeta(
        file_name=f"data-{uuid.UUID(int=draw.getrandbits(128))}-0.parquet",
        file_size=draw.randrange(10**5, 10**7),
        row_count=ROWS,
        min_key=keys[0],
        max_key=keys[1],
        key_stats=SimpleStats(keys[0], keys[1], (0,)),
        value_stats=SimpleStats(values[0], values[1], (0,) * COLUMNS),
        min_sequence_number=first,
        max_sequence_number=first + ROWS - 1,
        schema_id=schema_id,
        level=5,
        creation_time=1_700_000_000_000 + i,
        delete_row_count=0,
        file_source=1,
    )
    return ManifestEntry(ADD, EMPTY_ROW, i % BUCKETS, BUCKETS, file)


def _values(kinds: Sequence[Value]) -> list[Value]:
    """Return a value for each column. ``kinds``: one for each of `KINDS`."""
    return [kinds[j % len(kinds)] for j in range(COLUMNS)]


def in_process(tree: Path, table: Path) -> Measured:
    """Measure a checkout in a process of its own."""
    command = [sys.executable, str(Path(__file__)), "--measure", str(table)]
    paths = os.pathsep.join(str(tree / part) for part in ("spec", "reference", "."))
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, check=True, capture_output=True, text=True
    )
    found: Measured = json.loads(done.stdout)
    return found


def measured(path: Path) -> Measured:
    """Return what reading the metadata costs, the first time in a process and again, and then each plan."""

    def state(path: Path = path) -> Table:
        table = Table.open(path)
        assert table.catalog.state().files
        return table

    state(path.with_name("small"))  # what is imported late
    found = {"open, and read the manifest": cpu(state, turns=1), "the same again": cpu(state)}
    found |= {f"plan: {what}": cost for what, cost in plans(path).items()}
    found["open, and plan for a key"] = cpu(lambda: Table.open(path).scan(where=WHERE["a key"]).splits())
    return found


def plans(path: Path) -> Measured:
    """Return what the plan of a read costs, by its condition."""
    table = Table.open(path)
    found = {}
    for what, where in WHERE.items():
        scan = table.scan(where=where) if where else table.scan()
        scan.splits()
        found[what] = cpu(scan.splits)
    return found


def cpu(work: Callable[[], object], turns: int = TURNS) -> float:
    """Return the median CPU time of a few turns, in milliseconds."""
    times = []
    for _ in range(turns):
        began = time.process_time()
        work()
        times.append((time.process_time() - began) * 1000)
    return statistics.median(times)


def report(about: Mapping[str, Any], files: int, found: Mapping[str, Measured]) -> Iterator[str]:
    yield "# Planning"
    yield ""
    yield (
        f"{files:,} files of {COLUMNS} columns in {BUCKETS} buckets; CPU milliseconds, medians. {hardware(about)}, "
        f"Python {about['python']}, load before: {about['load_before'][0]}. `python -m benchmarks.planning`; *before* "
        "is another checkout (`--before`), measured in turn with this one."
    )
    yield ""
    yield f"| what | {' | '.join(found)} |{' ratio |' if 'before' in found else ''}"
    yield f"| --- |{' ---: |' * len(found)}{' ---: |' if 'before' in found else ''}"
    for what, now in found["now"].items():
        cells = " | ".join(f"{one[what]:,.1f}" for one in found.values())
        ratio = f" {found['before'][what] / now:,.1f} |" if "before" in found else ""
        yield f"| {what} | {cells} |{ratio}"


if __name__ == "__main__":
    main()
