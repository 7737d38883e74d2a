"""``python -m benchmarks.memory [MILLIONS]``: peak memory of compacting one bucket, by the size of the bucket.

The table is written in pieces; the full compaction runs in a process of its own, whose peak resident memory the
operating system tells. A bucket of any size must compact within 1 GiB (CMP-16).
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
from pktable import Table

PIECE = 2_000_000
OPTIONS = {"deletion-vectors.enabled": "true", "write-only": "true", "target-file-size": "64 mb"}


def fill(path: str, millions: int) -> None:
    """Write ``millions`` of rows of about 60 bytes in pieces that overlap, the last over the keys of the first."""
    columns = "k BIGINT, a BIGINT, b DOUBLE, s STRING"
    table = Table.create(path, columns, primary_key=["k"], options=OPTIONS)
    values = np.random.default_rng(1)
    pieces = millions * 1_000_000 // PIECE
    for piece in [*range(pieces), 0]:
        keys = np.arange(PIECE) * pieces + piece  # every piece covers the whole range of keys
        table.upsert(
            pa.table(
                {
                    "k": pa.array(values.permutation(keys)),
                    "a": pa.array(values.integers(0, 1 << 40, PIECE)),
                    "b": pa.array(values.random(PIECE)),
                    "s": pa.array(np.char.add("name ", values.integers(0, 1 << 30, PIECE).astype(str))),
                }
            )
        )


def compact(path: str) -> None:
    """Compact fully, and print seconds and peak memory in MiB."""
    table = Table.open(path)
    before = time.perf_counter()
    table.compact(full=True)
    seconds = time.perf_counter() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{table.count():,} rows in one bucket: {seconds:.1f} s, peak {peak} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("millions", type=int, nargs="?", default=10, help="of rows (%(default)s)")
    parser.add_argument(
        "--step", choices=("fill", "compact"), help=argparse.SUPPRESS
    )  # in a process of its own
    parser.add_argument("--table", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step == "fill":
        fill(options.table, options.millions)
    elif options.step == "compact":
        compact(options.table)
    else:
        measure(options.millions)


def measure(millions: int) -> None:
    with tempfile.TemporaryDirectory() as path:
        for step in ("fill", "compact"):
            command = [sys.executable, "-m", "benchmarks.memory", str(millions)]
            subprocess.run([*command, "--step", step, "--table", f"{path}/table"], check=True)


if __name__ == "__main__":
    main()
