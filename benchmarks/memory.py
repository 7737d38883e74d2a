"""``python -m benchmarks.memory [MILLIONS]``: peak memory of compacting one bucket, by the size of the bucket.

The table is written in pieces; the full compaction runs in a process of its own, whose peak resident memory the
operating system tells. A bucket of any size must compact within 1 GiB (CMP-16).
"""

from __future__ import annotations

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


def main(millions: int) -> None:
    with tempfile.TemporaryDirectory() as path:
        for step, size in (("fill", str(millions)), ("compact", "0")):
            subprocess.run(
                [sys.executable, "-m", "benchmarks.memory", size, step, f"{path}/table"], check=True
            )


if __name__ == "__main__":
    if len(sys.argv) == 4:
        fill(sys.argv[3], int(sys.argv[1])) if sys.argv[2] == "fill" else compact(sys.argv[3])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
