"""The deleted rows of a file, as a file of bits that every implementation reads window by window.

The paper deletes each row with the given probability. We add deletions that come in runs, as they do where an
upsert replaces neighbours: stretches of CLUSTER rows, each deleted or not with that probability.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.roaring.published import Row

WINDOW = 1 << 20  # rows; a multiple of 8, and what JavaCell.java has
CLUSTER = 2000
KINDS = ("random", "clustered")


def write_bits(path: Path, row: Row, kind: str) -> None:
    """Write the bits of ``row.rows`` rows, least significant first, the same ones every time."""
    random = np.random.default_rng([row.percent, row.rows])
    clusters = np.zeros(0, np.bool_)
    with path.open("wb") as file:
        for start in range(0, row.rows, WINDOW):
            count = min(WINDOW, row.rows - start)
            if kind == "random":
                deleted = random.random(count, np.float32) < row.percent / 100
            else:
                more = random.random(WINDOW // CLUSTER + 1) < row.percent / 100
                stretch = np.concatenate([clusters, np.repeat(more, CLUSTER)])
                deleted, clusters = stretch[:count], stretch[count:]
            file.write(np.packbits(deleted, bitorder="little").tobytes())
        file.flush()
        os.fsync(file.fileno())


def windows(path: Path, rows: int) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """Yield (first row, mask) of each window of the first ``rows`` rows."""
    with path.open("rb") as file:
        for start in range(0, rows, WINDOW):
            packed = np.frombuffer(file.read(WINDOW // 8), np.uint8)
            yield start, np.unpackbits(packed, bitorder="little")[: rows - start].view(np.bool_)
