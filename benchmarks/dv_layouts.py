"""``python -m benchmarks.dv_layouts``: the three ways PIP-16 weighs to store deletions, from the same deletions.

* ``list``: each write adds a Parquet file of (data file, position), sorted. Who reads, reads all of them.
* ``map``: one file per bucket with the vector of each data file, written anew by each write. This is Paimon's.
* ``offsets``: each write adds a file with the new vectors of the data files it touched; metadata says in which
  file, and where in it, the vector of a data file lies. Vectors that were replaced stay until nobody needs
  their file any more.

A bucket takes some writes, each of which deletes rows that were not deleted before. Files are real, in a
directory, and in the cache of the system. All three must give the same masks.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pktable.bucket.reader import BATCH_ROWS
from pktable.format.vectors.deletion_vector import DeletionVector, Positions, VectorBuilder, decode_vector
from pktable.format.vectors.index_file import VectorRange, encode_index, open_index

from benchmarks.machine import describe, hardware

RESULTS = Path(__file__).parent / "results"
FILES, ROWS, WRITES = 20, 1_000_000, 20
"""Data files in the bucket, rows in each (a multiple of CLUSTER), and writes."""
CLUSTER = 2000
READS = 7
TOLERATED = 1.5

Deletions = Mapping[str, Positions]
"""What one write deletes: ascending positions by data file."""
Masker = Callable[[int, int], npt.NDArray[np.bool_]]
"""Returns for so many rows, from a first one on, whether each is deleted."""


class Layout(ABC):
    """One way to store the deletions of a bucket. ``read_bytes``: what the last read took from files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        self.written: list[int] = []
        self.read_bytes = 0

    @abstractmethod
    def write(self, deletions: Deletions) -> None:
        """Store what a write deletes."""

    @abstractmethod
    def read(self) -> Mapping[str, Masker]:
        """Return by data file what masks (row count, first row)."""

    @abstractmethod
    def read_one(self, data_file: str) -> Masker:
        """Return what masks one data file."""

    @abstractmethod
    def needed(self) -> list[Path]:
        """Return the files that a reader of the newest snapshot needs."""

    def _store(self, data: bytes) -> Path:
        path = self.directory / str(len(self.written))
        path.write_bytes(data)
        self.written.append(len(data))
        return path


class ListLayout(Layout):
    def write(self, deletions: Deletions) -> None:
        names = pa.DictionaryArray.from_arrays(
            np.repeat(
                np.arange(len(deletions), dtype=np.int32), [len(found) for found in deletions.values()]
            ),
            pa.array(list(deletions)),
        )
        table = pa.table({"file": names, "position": np.concatenate(list(deletions.values()))})
        sink = pa.BufferOutputStream()
        pq.write_table(
            table,
            sink,
            compression="zstd",
            column_encoding={"position": "DELTA_BINARY_PACKED"},
            use_dictionary=["file"],
        )
        self._store(sink.getvalue().to_pybytes())

    def read(self) -> Mapping[str, Masker]:
        self.read_bytes = sum(self.written)
        table = pa.concat_tables([pq.read_table(path) for path in self.needed()]).unify_dictionaries()
        table = table.combine_chunks()
        column = table.column("file").chunk(0)
        codes, positions = column.indices.to_numpy(), table.column("position").to_numpy()
        order = np.argsort(codes, kind="stable")
        names = column.dictionary.to_pylist()
        cuts = np.searchsorted(codes[order], np.arange(len(names) + 1))
        return {
            name: _masker(np.sort(positions[order[cuts[i] : cuts[i + 1]]])) for i, name in enumerate(names)
        }

    def read_one(self, data_file: str) -> Masker:
        self.read_bytes = sum(self.written)
        parts = [pq.read_table(path, filters=[("file", "==", data_file)]) for path in self.needed()]
        return _masker(np.sort(pa.concat_tables(parts).column("position").to_numpy()))

    def needed(self) -> list[Path]:
        return [self.directory / str(i) for i in range(len(self.written))]


def _masker(positions: Positions) -> Masker:
    def mask(row_count: int, start: int) -> npt.NDArray[np.bool_]:
        found = np.zeros(row_count, np.bool_)
        first, end = np.searchsorted(positions, (start, start + row_count))
        found[positions[first:end] - start] = True
        return found

    return mask


class MapLayout(Layout):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._path: Path | None = None
        self._ranges: tuple[VectorRange, ...] = ()

    def write(self, deletions: Deletions) -> None:
        vectors = self._vectors()
        for name, positions in deletions.items():
            vectors[name] = _grown(vectors.get(name), positions)
        data, self._ranges = encode_index(vectors)
        self._path = self._store(data)

    def _vectors(self) -> dict[str, DeletionVector]:
        if self._path is None:
            return {}
        data = self._path.read_bytes()
        self.read_bytes = len(data)
        return dict(open_index(data, self._ranges, at=str(self._path)))

    def read(self) -> Mapping[str, Masker]:
        return {name: vector.mask for name, vector in self._vectors().items()}

    def read_one(self, data_file: str) -> Masker:
        (found,) = (found for found in self._ranges if found.data_file == data_file)
        assert self._path is not None
        vector = _read_range(self._path, found)
        self.read_bytes = found.length_bytes + 8
        return vector.mask

    def needed(self) -> list[Path]:
        return [self._path] if self._path else []


class OffsetsLayout(Layout):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._places: dict[str, tuple[Path, VectorRange]] = {}

    def write(self, deletions: Deletions) -> None:
        vectors = {}
        for name, positions in deletions.items():
            before = _read_range(*self._places[name]) if name in self._places else None
            vectors[name] = _grown(before, positions)
        data, ranges = encode_index(vectors)
        path = self._store(data)
        self._places.update({found.data_file: (path, found) for found in ranges})

    def read(self) -> Mapping[str, Masker]:
        self.read_bytes = sum(found.length_bytes + 8 for _, found in self._places.values())
        return {name: _read_range(*place).mask for name, place in self._places.items()}

    def read_one(self, data_file: str) -> Masker:
        path, found = self._places[data_file]
        self.read_bytes = found.length_bytes + 8
        return _read_range(path, found).mask

    def needed(self) -> list[Path]:
        return sorted({path for path, _ in self._places.values()})


def _grown(before: DeletionVector | None, positions: Positions) -> DeletionVector:
    builder = VectorBuilder(before or DeletionVector({}, 32))
    builder.mark(positions)
    return builder.vector()


def _read_range(path: Path, found: VectorRange) -> DeletionVector:
    with path.open("rb") as file:
        file.seek(found.offset_bytes)
        blob = file.read(found.length_bytes + 8)
    return decode_vector(blob, at=f"{path}: {found.data_file}", cardinality=found.cardinality)


LAYOUTS: dict[str, type[Layout]] = {"list": ListLayout, "map": MapLayout, "offsets": OffsetsLayout}


def scattered(share: float) -> Iterator[Deletions]:
    """Each write deletes ``share`` of the rows of the bucket, anywhere."""
    yield from _random_writes(1, share)


def clustered(share: float) -> Iterator[Deletions]:
    """Each write deletes ``share`` of the rows of the bucket, in stretches of CLUSTER."""
    yield from _random_writes(CLUSTER, share)


def _random_writes(length: int, share: float) -> Iterator[Deletions]:
    random = np.random.default_rng([length, int(share * 1e6)])
    chosen = random.permuted(np.tile(np.arange(ROWS // length), (FILES, 1)), axis=1)
    size = int(share * ROWS) // length
    for write in range(WRITES):
        heads = np.sort(chosen[:, write * size : (write + 1) * size], axis=1) * length
        yield {_name(i): (heads[i][:, None] + np.arange(length)).reshape(-1) for i in range(FILES)}


def recent(count: int) -> Iterator[Deletions]:
    """Each write deletes ``count`` rows of one data file, as a stream does that updates recent rows."""
    random = np.random.default_rng(count)
    for write in range(WRITES):
        turn, i = divmod(write, FILES)
        yield {_name(i): np.sort(random.permutation(ROWS // WRITES)[:count]) * WRITES + turn}


def _name(i: int) -> str:
    return f"data-6f3a{i:04d}-5b1e-4c7e-9d57-0f6c2e8b1a90-{i}.parquet"


SCENARIOS: dict[str, Callable[[], Iterator[Deletions]]] = {
    "scattered, 1 % of the bucket a write": lambda: scattered(0.01),
    "scattered, 0.01 % of the bucket a write": lambda: scattered(0.0001),
    "clustered, 1 % of the bucket a write": lambda: clustered(0.01),
    "recent, 10,000 rows of one data file a write": lambda: recent(10_000),
}


@dataclass
class Measured:
    """What one layout cost in one scenario; times in milliseconds, sizes in bytes."""

    write_times: list[float] = field(default_factory=list)
    read_all_times: list[float] = field(default_factory=list)
    read_one_times: list[float] = field(default_factory=list)
    written: int = 0
    kept: int = 0
    files: int = 0
    read_one_bytes: int = 0

    def columns(self) -> list[float]:
        """Return what COLUMNS says."""
        return [
            statistics.median(self.write_times),
            self.written / WRITES / 1e3,
            self.kept / 1e3,
            self.files,
            min(self.read_all_times),
            min(self.read_one_times),
            self.read_one_bytes / 1e3,
        ]


COLUMNS = (
    "ms a write (median)",
    "KB a write (mean)",
    "KB to keep",
    "files to open",
    "ms to read all",
    "ms to read one data file",
    "KB for that",
)
WRITE, KEEP, READ_ALL = 0, 2, 4


def measure(
    scenario: Callable[[], Iterator[Deletions]], directory: Path, clock: Callable[[], float]
) -> dict[str, Measured]:
    """Let all layouts take the same writes, in turns; check that they say the same."""

    def timed(times: list[float], work: Callable[..., Any], *arguments: Any) -> Any:
        before = clock()
        result = work(*arguments)
        times.append((clock() - before) * 1e3)
        return result

    layouts = {name: layout(directory / name) for name, layout in LAYOUTS.items()}
    measured = {name: Measured() for name in layouts}
    marked = {_name(i): np.zeros(ROWS, np.bool_) for i in range(FILES)}
    for deletions in scenario():
        for data_file, positions in deletions.items():
            assert not marked[data_file][positions].any()
            marked[data_file][positions] = True
        for name, layout in layouts.items():
            timed(measured[name].write_times, layout.write, deletions)
    for name, layout in layouts.items():
        found = measured[name]
        found.written = sum(layout.written)
        found.kept = sum(path.stat().st_size for path in layout.needed())
        found.files = len(layout.needed())
    for name, layout in [*layouts.items()] * READS:
        found = measured[name]
        masks = timed(found.read_all_times, _masks_of_all, layout)
        for data_file, mask in marked.items():
            assert np.array_equal(masks[data_file], mask) if data_file in masks else not mask.any()
        mask = timed(found.read_one_times, _mask_of_one, layout, _name(0))
        found.read_one_bytes = layout.read_bytes
        assert np.array_equal(mask, marked[_name(0)])
    return measured


def _masks_of_all(layout: Layout) -> dict[str, npt.NDArray[np.bool_]]:
    return {data_file: _all_rows(mask) for data_file, mask in layout.read().items()}


def _mask_of_one(layout: Layout, data_file: str) -> npt.NDArray[np.bool_]:
    return _all_rows(layout.read_one(data_file))


def _all_rows(mask: Masker) -> npt.NDArray[np.bool_]:
    """Mask all rows of a data file, batch by batch, as a reader does."""
    return np.concatenate([mask(min(BATCH_ROWS, ROWS - at), at) for at in range(0, ROWS, BATCH_ROWS)])


def report(results: Mapping[str, Mapping[str, Measured]], command: str, clock: str) -> Iterator[str]:
    about = describe()
    yield "# Where deletions are stored: the three designs of PIP-16"
    yield ""
    yield f"`{command}`. {hardware(about)}; Python {about['python']},"
    yield f"numpy {about['numpy']}, pyarrow {about['pyarrow']}; load average {about['load_before']}; times by {clock}"
    yield f"clock. One bucket, {FILES} data files of {ROWS:,} rows, {WRITES} writes that each delete rows not"
    yield "deleted before. *list*: a Parquet file of (data file, position) per write. *map*: one file per bucket with"
    yield "the vector of each data file, written anew by each write. *offsets*: a file per write with the vectors it"
    yield f"changed. Reading is: from the files to the mask of every row, in batches; the least of {READS}."
    for scenario, found in results.items():
        yield from ("", f"## {scenario[0].upper()}{scenario[1:]}", "", *_head(""))
        for name, cost in found.items():
            yield f"| {name} | " + " | ".join(f"{value:,.4g}" for value in cost.columns()) + " |"
    yield from ("", "## Does the choice still stand?", "")
    yield from _verdict(results)


def _head(title: str) -> Iterator[str]:
    yield f"| {title} | " + " | ".join(COLUMNS) + " |"
    yield "| --- |" + " ---: |" * len(COLUMNS)


def _verdict(results: Mapping[str, Mapping[str, Measured]]) -> Iterator[str]:
    """Judge by the numbers: the choice stands if no other design is read markedly faster."""
    costs = {name: np.array([found[name].columns() for found in results.values()]) for name in LAYOUTS}
    yield from _head("times the map, least to most")
    for name in ("list", "offsets"):
        ratios = costs[name] / costs["map"]
        cells = [
            f"{low:.2g} to {high:.2g}"
            for low, high in zip(ratios.min(axis=0), ratios.max(axis=0), strict=True)
        ]
        yield f"| {name} | " + " | ".join(cells) + " |"
    others = np.minimum(costs["list"], costs["offsets"])
    slower, larger = (costs["map"] / others)[:, [READ_ALL, KEEP]].max(axis=0)
    times = [costs[name][:, WRITE].max() for name in ("map", "offsets")]
    yield ""
    yield f"The choice of one map per bucket {'stands' if slower <= TOLERATED else 'does not stand'}: at the worst"
    yield f"it is read in {slower:.2g} times the time of the better other design ({TOLERATED} times are tolerated), and"
    yield f"always from one file. It pays in two ways: it takes at the worst {larger:.2g} times the bytes of the better"
    yield "other design, where positions are few and far between; and each write writes all vectors of the bucket,"
    yield f"for which a write takes at most {times[0]:.3g} ms here, where offsets take at most {times[1]:.3g} ms."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dv_layouts", description=__doc__)
    parser.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall", help="cpu: for a machine that others use too"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the result")
    options = parser.parse_args()
    clock = time.perf_counter if options.clock == "wall" else time.process_time
    results = {}
    for name, scenario in SCENARIOS.items():
        print(f"{name} ...", file=sys.stderr)
        with tempfile.TemporaryDirectory() as directory:
            results[name] = measure(scenario, Path(directory), clock)
    command = shlex.join(["python", "-m", "benchmarks.dv_layouts", *sys.argv[1:]])
    text = "\n".join(report(results, command, options.clock)) + "\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "dv-layouts.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
