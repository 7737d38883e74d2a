"""``python -m benchmarks.memory [MILLIONS]``: peak memory and processor time of a large write and a full compaction.

* *write*: rows of a reader, in random order of their keys, in one upsert. It holds no more rows than the write buffer.
* *write, all rows in memory*: the same with a write buffer as large as the rows.
* *compaction*: of a bucket that was written in pieces, each over the whole range of keys.

Each runs in a process of its own, whose peak resident memory the operating system tells. The time that making the rows
takes alone is left out. A write and a compaction of any size must take at most 1 GiB (SAFE-9, CMP-16).
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable import Table

from benchmarks.machine import describe, hardware

RESULTS = Path(__file__).parent / "results"
BATCH: Final = 1 << 20
PIECE: Final = 2_000_000
COLUMNS: Final = "k BIGINT, a BIGINT, b DOUBLE, s STRING"
VECTORS: Final = {"deletion-vectors.enabled": "true"}
GOAL_MIB, GOAL_RATIO = 1024, 1.3

Measured = dict[str, float]


def rows(count: int, seed: int) -> pa.RecordBatch:
    """Return rows of about 40 bytes, whose keys are of no order."""
    values = np.random.default_rng(seed)
    return pa.record_batch(
        {
            "k": pa.array(values.integers(0, 1 << 50, count)),
            "a": pa.array(values.integers(0, 1 << 40, count)),
            "b": pa.array(values.random(count)),
            "s": pa.array(values.integers(0, 1 << 30, count)).cast(pa.string()),
        }
    )


def made(millions: int) -> Iterator[pa.RecordBatch]:
    total = millions * 1_000_000
    for seed, start in enumerate(range(0, total, BATCH)):
        yield rows(min(BATCH, total - start), seed)


def write(path: str, millions: int, buffer: str) -> Measured:
    table = Table.create(path, COLUMNS, primary_key="k", options={**VECTORS, "write-buffer-size": buffer})
    reader = pa.RecordBatchReader.from_batches(rows(1, 0).schema, made(millions))
    return measured(lambda: table.upsert(reader))


def compact(path: str, millions: int) -> Measured:
    options = {**VECTORS, "write-only": "true", "target-file-size": "64 mb"}
    table = Table.create(path, COLUMNS, primary_key="k", options=options)
    for seed in range(max(2, millions * 1_000_000 // PIECE)):
        table.upsert(pa.Table.from_batches([rows(PIECE, seed)]))
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", "--step", "compact it", "--table", path],
        check=True,
        stdout=subprocess.PIPE,
    )
    found: Measured = json.loads(child.stdout)
    return found


STEPS: dict[str, Callable[[str, int], Measured]] = {
    "making the rows alone": lambda path, millions: measured(lambda: [None for _ in made(millions)]),
    "write": lambda path, millions: write(path, millions, "256 mb"),
    "write, all rows in memory": lambda path, millions: write(path, millions, "1000 gb"),
    "compaction": compact,
    "compact it": lambda path, _: measured(lambda: Table.open(path).compact(full=True)),
}
SHOWN: Final = [step for step in STEPS if step != "compact it"]


def measured(work: Callable[[], object]) -> Measured:
    """Return seconds of this process for ``work``, by its processor and by the clock, and its peak memory in MiB."""
    before, began = time.process_time(), time.perf_counter()
    work()
    return {
        "cpu": time.process_time() - before,
        "clock": time.perf_counter() - began,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def alone(step: str, millions: int) -> Measured:
    """Run a step in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="pktable-memory-") as folder:
        command = [sys.executable, "-m", "benchmarks.memory", str(millions), "--step", step]
        child = subprocess.run([*command, "--table", f"{folder}/table"], check=True, stdout=subprocess.PIPE)
    found: Measured = json.loads(child.stdout)
    print(f"{step}: {found}", file=sys.stderr)
    return found


def report(found: dict[str, Measured], millions: int, about: dict[str, Any], command: str) -> Iterator[str]:
    making = found["making the rows alone"]["cpu"]
    yield "# Memory of a large write and of a full compaction"
    yield ""
    yield f"`{command}`. {hardware(about)}; Python {about['python']}, numpy {about['numpy']},"
    yield f"pyarrow {about['pyarrow']}; load average {about['load_before']}."
    yield f"{millions:,} million rows of 4 columns in one bucket with deletion vectors. A write takes them from a"
    yield "reader, which makes them as it goes; the processor time that this takes is left out."
    yield ""
    yield "| step | peak MiB | processor s | clock s |"
    yield "| --- | ---: | ---: | ---: |"
    for step in SHOWN[1:]:
        one = found[step]
        cpu = one["cpu"] - (making if step.startswith("write") else 0)
        yield f"| {step} | {one['peak']:,.0f} | {cpu:.1f} | {one['clock']:.1f} |"
    small, large = (found[step]["cpu"] - making for step in ("write", "write, all rows in memory"))
    peak = max(found[step]["peak"] for step in ("write", "compaction"))
    yield ""
    yield f"The write takes {small / large:.2f} times the processor time of one with all rows in memory; the goal is"
    yield f"at most {GOAL_RATIO}. The peak is {peak:,.0f} MiB; the goal is at most {GOAL_MIB:,}."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("millions", type=int, nargs="?", default=100, help="of rows (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--table", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(STEPS[options.step](options.table, options.millions)))
        return
    about = describe()
    found = {step: alone(step, options.millions) for step in SHOWN}
    command = shlex.join(["python", "-m", "benchmarks.memory", *sys.argv[1:]])
    text = "\n".join(report(found, options.millions, about, command)) + "\n"
    (options.out / "memory.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
