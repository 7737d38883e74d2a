"""``python -m benchmarks.limits``: what the parts alone cost of the work that misses its goal.

* *compaction*: reading the files, and encoding the rows of the result with zstd and without, each by pyarrow alone.
* *bitmaps*: what every answer of the same form needs. Positions come as a mask of a byte a row, and a reader gets such
  a mask back: it has to be read, or written, whole. Java's best takes and gives ranges, of which clustered rows need
  few. What is loaded must be copied and its bits counted, because the stored cardinality is checked.
* *large bitmaps*: the same twice in a process, since the first time its memory is new, which the operating system, and
  the host of a virtual machine, has to find and clear.

Milliseconds of processor time, the least of the rounds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pktable import Table
from pktable.bucket.reader import BATCH_ROWS
from pktable.datafile.columns import PARQUET_WRITE_OPTIONS
from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder
from pktable.format.vectors.roaring import read_bitmap

from benchmarks.compaction.contenders import ZSTD_LEVEL, Ground, data_files
from benchmarks.machine import describe, hardware
from benchmarks.roaring.cells import Cell
from benchmarks.roaring.positions import write_bits
from benchmarks.roaring.published import Row
from benchmarks.roaring.results import COLUMNS, Results

RESULTS = Path(__file__).parent / "results"
ROUNDS = 5
SHARE, RUN = 5, 2000  # every so many rows one is deleted: at random, or in runs of so many
WINDOW = 1 << 22  # rows of a mask that is added at a time
LARGE = Row(100 // SHARE, 2_000_000_000)
TURNS = 2
LARGE_STEPS = ("add", "serialization")
IMPLEMENTATIONS = ("java-bulk", "ours")

Measured = dict[str, float]
"""Milliseconds by what was measured."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.limits", description=__doc__)
    parser.add_argument(
        "--scale", type=float, default=0.17, help="of TPC-H (%(default)s, a million lineitems)"
    )
    parser.add_argument("--rows", type=int, default=20_000_000, help="of a vector, as roaring.json has it")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    options = parser.parse_args()
    about = describe()
    with tempfile.TemporaryDirectory(prefix="pktable-limits-") as folder:
        compacted = compaction(Ground(Path(folder), options.scale))
    found = {kind: bitmaps(mask) for kind, mask in masks(options.rows).items()}
    lines = [*report(about, compacted, found, options.rows), *report_of_large(large_bitmaps())]
    text = "\n".join(lines) + "\n"
    (options.out / "limits.md").write_text(text)
    print(text)


def compaction(ground: Ground) -> Measured:
    """Measure a full compaction, and its parts."""
    folder = ground.path("pending") / "bucket-0"
    names = list(data_files(folder.parent))
    target = ground.path("written.parquet")

    def read() -> list[pa.Table]:
        return [pq.read_table(folder / name, use_threads=False) for name in names]

    rows = pa.concat_tables(read()).slice(0, ground.rows)

    def write(**compression: Any) -> None:
        pq.write_table(rows, target, **PARQUET_WRITE_OPTIONS, **compression)

    tables = (Table.open(ground.copy("pending")) for _ in range(ROUNDS))
    return {
        "full compaction": least(lambda table: table.compact(full=True), tables),
        "reading alone": least(lambda _: read()),
        "encoding with zstd alone": least(lambda _: write(compression="zstd", compression_level=ZSTD_LEVEL)),
        "encoding without zstd alone": least(lambda _: write(compression="none")),
    }


def masks(rows: int) -> dict[str, Any]:
    """Return masks of deleted rows: a fifth of all."""
    random = np.random.default_rng(1).integers(0, SHARE, rows, np.uint8) == 0
    return {"random": random, "clustered": np.arange(rows) // RUN % SHARE == 0}


def bitmaps(mask: Any) -> dict[str, tuple[float, float]]:
    """Return what each step takes, and what its floor does."""
    starts = range(0, len(mask), WINDOW)

    def vector() -> DeletionVector:
        builder = VectorBuilder(DeletionVector({}, 32))
        for start in starts:
            builder.mark_mask(mask[start : start + WINDOW], start)
        return builder.vector()

    made = vector()
    (bitmap,) = made.bitmaps.values()
    data = bytes(bitmap.data)
    bits = np.frombuffer(data[: len(data) // 8 * 8], np.uint64)
    ends = [(at, min(BATCH_ROWS, len(mask) - at)) for at in range(0, len(mask), BATCH_ROWS)]
    return {
        "add; floor: read the mask once": (
            least(lambda _: vector()),
            least(lambda _: [np.packbits(mask[start : start + WINDOW]) for start in starts]),
        ),
        "contains; floor: write a mask once": (
            least(lambda _: [made.mask(count, at) for at, count in ends]),
            least(lambda _: [np.ones(count, bool) for _, count in ends]),
        ),
        "deserialization; floor: copy, count bits": (
            least(lambda _: read_bitmap(memoryview(data), "bitmap")),
            least(lambda _: np.bitwise_count(bits.copy()).sum()),
        ),
    }


def large_bitmaps() -> dict[int, dict[str, Cell]]:
    """Measure large vectors twice in each of some processes; return the cells by bits and implementation."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="pktable-limits-") as folder:
        path = Path(folder) / "bits"
        write_bits(path, LARGE, "random")
        for bits in (32, 64):
            cells = {name: Cell(LARGE.name, LARGE.rows, "random", bits, name) for name in IMPLEMENTATIONS}
            for _ in range(TURNS):
                for cell in cells.values():
                    cell.run(path, repeats=2, warm_seconds=3)
            found[bits] = cells
    return found


def report_of_large(found: dict[int, dict[str, Cell]]) -> Iterator[str]:
    yield "\n## Large bitmaps: new memory\n"
    yield (
        f"{LARGE.name} rows at random, in {TURNS} processes of each, by turns: what the first time takes in a process, "
        "and then the second time."
    )
    yield "\n| step | Java's best, first | again | ours, first | again |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for bits, cells in found.items():
        for what in LARGE_STEPS:
            times = [_bests(cells[name], COLUMNS[what][1]) for name in IMPLEMENTATIONS]
            shown = [f"{one:,.0f}" for first, again in times for one in (first, again)]
            yield f"| {what}, {bits} bits | {' | '.join(shown)} |"
    yield (
        "\n[roaring.md](roaring.md) has the first time, once, as minutes of other cells lie between. Ours makes the "
        "containers in new memory, and then the bytes of the vector, which are as many."
    )


def _bests(cell: Cell, steps: Sequence[str]) -> tuple[float, float]:
    """Return the least times of the first and of the second time, of any of ``steps`` in whatever variant."""
    times = [ms for name, ms in cell.cpu_ms.items() if name.partition(".")[0] in steps]
    return min(min(one[::2]) for one in times), min(min(one[1::2]) for one in times)


def least(work: Callable[[Any], object], given: Iterator[Any] | None = None) -> float:
    """Return the least milliseconds of processor time of the rounds. ``given``: what each round gets."""
    times = []
    for one in given or range(ROUNDS):
        began = time.process_time()
        work(one)
        times.append((time.process_time() - began) * 1000)
    return min(times)


def report(
    about: dict[str, Any], compacted: Measured, found: dict[str, dict[str, tuple[float, float]]], rows: int
) -> Iterator[str]:
    yield "# What limits the work that misses its goal"
    yield ""
    yield (
        f"Milliseconds of processor time, the least of {ROUNDS} rounds. {hardware(about)}, Python {about['python']}, "
        f"pyarrow {about['pyarrow']}, numpy {about['numpy']}; load before: {about['load_before'][0]}. "
        "`python -m benchmarks.limits`."
    )
    yield "\n## Full compaction: the encoder\n"
    whole = compacted["full compaction"]
    read, packed, plain = (
        compacted[f"{part} alone"] for part in ("reading", "encoding with zstd", "encoding without zstd")
    )
    parts = {
        "full compaction": whole,
        "of it reading": read,
        "of it encoding": plain,
        "of it zstd": packed - plain,
        "of it merging and all else": whole - read - packed,
    }
    yield "| what | ms | share |"
    yield "| --- | ---: | ---: |"
    yield from (f"| {what} | {cost:,.0f} | {cost / whole:.0%} |" for what, cost in parts.items())
    stored = json.loads((RESULTS / "compaction.json").read_text())
    full = [one for one in stored["outcomes"] if one["work"] == "full"]
    paimon, copy, ours = (
        min(one["processor_seconds"] for one in full if one["contender"] == name)
        for name in ("Paimon 0.9", "copy", "pktable")
    )
    yield (
        f"\nIn [compaction.md](compaction.md) pktable has {paimon / ours:.1f} times Paimon's rows per processor "
        "second; the goal is 5. A copy by pyarrow, which only reads and writes the same rows, has "
        f"{paimon / copy:.1f} times. So the goal asks for another encoder, or for another compression than the one "
        "that Paimon writes by default."
    )
    yield "\n## Bitmaps: the form of the input and of the answer\n"
    yield (
        f"A fifth of {rows:,} rows is deleted, at random or in runs of {RUN:,}. Java's best is of another run, that of "
        "[roaring.md](roaring.md), by 32 bits."
    )
    yield "\n| step and floor | ours | floor | Java's best |"
    yield "| --- | ---: | ---: | ---: |"
    java = Results(json.loads((RESULTS / "roaring.json").read_text()))
    for kind, steps in found.items():
        case = java.of(Row(100 // SHARE, rows), kind, 32)
        for what, (ours_ms, floor) in steps.items():
            best = case("java-bulk", *COLUMNS[what.partition(";")[0]][1])
            yield f"| {kind}: {what} | {ours_ms:.2f} | {floor:.2f} | {best:.2f} |"
    yield (
        "\nWhere Java's best is ahead by more than a millisecond in [roaring.md](roaring.md), the rows are mostly "
        "clustered: Java adds ranges and answers with ranges, and touches no row. A mask of a byte a row is what Arrow "
        "filters by, and to read or to write it is the floor, which alone takes about as long as Java's best, or "
        "longer. Loading counts every bit, as the stored cardinality is checked; Java's reader does not."
    )


if __name__ == "__main__":
    main()
