"""``python -m benchmarks.roaring.python_cell pyroaring|ours FILE ROWS 32|64 REPEATS WARM_SECONDS``.

Times pyroaring per value, or our deletion vectors, on the positions of one file of bits, and prints "name
wall_ms cpu_ms" per line, as JavaCell does. Positions and masks are made outside of what is timed.
"""

from __future__ import annotations

import gc
import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pktable.bucket.reader import BATCH_ROWS
from pktable.format.vectors.deletion_vector import DeletionVector, VectorBuilder, decode_vector, encode_vector
from pktable.format.vectors.roaring import read_bitmap
from pyroaring import BitMap, BitMap64

from benchmarks.roaring.positions import WINDOW, windows

HEAD = {32: b"", 64: (1).to_bytes(8, "little") + bytes(4)}
"""What stands before the bitmap of a 64-bit vector: the number of bitmaps, and the key of the first."""


class Cell:
    """One run over the first ``rows`` rows of a file of bits."""

    def __init__(self, path: Path, rows: int, bits: int, *, quiet: bool) -> None:
        self.path, self.rows, self.bits, self.quiet = path, rows, bits, quiet
        self._wall = self._cpu = 0.0

    def timed(self, work: Callable[..., Any], *arguments: Any) -> Any:
        cpu, wall = time.thread_time(), time.perf_counter()
        result = work(*arguments)
        self._wall += time.perf_counter() - wall
        self._cpu += time.thread_time() - cpu
        return result

    def report(self, name: str) -> None:
        self.fact(name, f"{self._wall * 1e3} {self._cpu * 1e3}")
        self._wall = self._cpu = 0.0

    def fact(self, name: str, value: object) -> None:
        if not self.quiet:
            print(name, value, flush=True)

    def pyroaring(self, digest: bool) -> None:
        kind = BitMap if self.bits == 32 else BitMap64
        bitmap = kind()
        for start, mask in windows(self.path, self.rows):
            self.timed(_add_each, bitmap, (np.flatnonzero(mask) + start).tolist())
        self.report("add")
        data = self.timed(bitmap.serialize)
        self.report("serialize")
        del bitmap
        read = self.timed(kind.deserialize, data)
        self.report("deserialize")
        self.fact("bytes", len(data))
        if digest:
            self.fact("raw-digest", hashlib.sha256(data).hexdigest())
        del data
        hits = 0
        for start, mask in windows(self.path, self.rows):
            hits += self.timed(_count_each, read, (np.flatnonzero(mask) + start).tolist())
        self.report("contains")
        assert hits == len(read)
        read.run_optimize()
        if digest:
            self.fact("digest", hashlib.sha256(read.serialize()).hexdigest())

    def ours(self, digest: bool) -> None:
        builder = VectorBuilder(DeletionVector({}, self.bits))
        for start, mask in windows(self.path, self.rows):
            self.timed(builder.mark_mask, mask, start)
        self.timed(builder.vector)
        self.report("add-mask")
        builder = VectorBuilder(DeletionVector({}, self.bits))
        count = 0
        for start, mask in windows(self.path, self.rows):
            positions = np.flatnonzero(mask) + start
            count += self.timed(builder.mark, positions)
        vector = self.timed(builder.vector)
        del builder
        self.report("add-array")
        parts = [HEAD[self.bits], *(bitmap.data for bitmap in vector.bitmaps.values())]
        self.timed(_copy, parts, np.full(sum(map(len, parts)), 1, np.uint8).data)
        self.report("serialize")
        del parts
        blob = self.timed(encode_vector, vector)
        self.report("store")
        del vector
        bare = memoryview(blob)[8:-4]
        self.fact("bytes", len(bare))
        if digest:
            self.fact("digest", hashlib.sha256(bare).hexdigest())
        self.timed(read_bitmap, bare[len(HEAD[self.bits]) :], "bitmap")
        self.report("deserialize")
        read = self.timed(lambda: decode_vector(blob, at="vector", cardinality=count))
        self.report("load")
        words = self.timed(read.words)
        self.report("words")
        del words
        for start, mask in windows(self.path, self.rows):
            found = self.timed(_masks, read, start, start + len(mask))
            assert np.array_equal(np.concatenate(found), mask)
        self.report("mask")


def _copy(parts: Sequence[Any], buffer: memoryview) -> None:
    at = 0
    for part in parts:
        buffer[at : at + len(part)] = part
        at += len(part)


def _masks(vector: DeletionVector, start: int, end: int) -> list[Any]:
    """Ask for the masks of some rows as a reader of the file does."""
    return [vector.mask(min(BATCH_ROWS, end - at), at) for at in range(start, end, BATCH_ROWS)]


def _add_each(bitmap: Any, values: list[int]) -> None:
    for value in values:
        bitmap.add(value)


def _count_each(bitmap: Any, values: list[int]) -> int:
    hits = 0
    for value in values:
        if value in bitmap:
            hits += 1
    return hits


def main(name: str, path: str, rows: str, bits: str, repeats: str, warm: str) -> None:
    end = time.perf_counter() + float(warm)
    while time.perf_counter() < end:
        cell = Cell(Path(path), min(int(rows), 2 * WINDOW), int(bits), quiet=True)
        getattr(cell, name)(False)
    for i in range(int(repeats)):
        gc.collect()
        cell = Cell(Path(path), int(rows), int(bits), quiet=False)
        getattr(cell, name)(i == 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
