"""``python -m benchmarks.log_index``: what lookups of keys in a file group read, by how its log files are indexed.

A key that nobody has, and a key of one log file, are looked up with a lookup that has read nothing yet, in file groups
of 1 to 300 log files of which none, the older half or all are old. Bytes and reads are counted at the store, so they do
not depend on the machine; times are of the process. They are compared with what the format needs by calculation.
"""

from __future__ import annotations

import argparse
import itertools
import math
import shlex
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pktable_hudi.format.avro_content import decode_avro_content
from pktable_hudi.format.bloom import filter_of
from pktable_hudi.format.log_block import encode_block
from pktable_hudi.index_writer import IndexPolicy

from benchmarks.log_groups import (
    ABSENT,
    BASE_ROWS,
    CLIQUE_FILES,
    FALSE_POSITIVES,
    NONE,
    ROWS,
    SCHEMES,
    Cost,
    Written,
    cost,
    group,
    log_bytes,
    writes,
)
from benchmarks.machine import describe, hardware
from model_tests.hudi.made_tables import MadeTable

RESULT = Path(__file__).parent / "results" / "log-index.md"
SIZES = (1, 3, 10, 30, 100, 300)
MODEL_FILES = 30
SMALL_WRITES, SMALL_FILES = (1, 10, 100), 100
OLD: Mapping[str, Collection[int]] = {
    "none": (),
    "the older half": range(MODEL_FILES // 2),
    "every other one, the newest is new": range(0, MODEL_FILES, 2),
    "the newer half": range(MODEL_FILES // 2, MODEL_FILES),
    "all": range(MODEL_FILES),
}
"""Which of the log files are old."""


@dataclass(frozen=True)
class Found:
    """What was found in a file group: the costs of a miss and of a hit, and the bytes that its indexes add."""

    miss: Cost
    hit: Cost
    added: int


Key = tuple[str, bool, int]
"""The name of a scheme, whether the older half of the log files is old, and how many there are."""


def main() -> None:
    from benchmarks.plots import draw_lookups  # which needs what only benchmarks do

    parser = argparse.ArgumentParser(prog="python -m benchmarks.log_index", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULT, help="file of the report; the plot is beside it")
    options = parser.parse_args()
    about = describe()
    with tempfile.TemporaryDirectory(prefix="pktable-log-index-") as directory:
        root = Path(directory)
        logs = writes(root / "rows", max(SIZES))
        found = measure(root, logs, SIZES)
        orders = {name: _measure_old(root / name, logs[:MODEL_FILES], old) for name, old in OLD.items()}
        small = {rows: measure_small(root, rows, SMALL_FILES) for rows in SMALL_WRITES}
    command = shlex.join(["python", "-m", "benchmarks.log_index", *sys.argv[1:]])
    text = "\n".join(report(found, orders, small, logs[0], f"`{command}`. {hardware(about)}.")) + "\n"
    options.out.write_text(text)
    bytes_of_base = found[NONE, False, 1].miss.base_bytes
    draw_lookups(panels(found), bytes_of_base / 1000, options.out.with_suffix(".svg"))
    print(text)


def measure(root: Path, logs: Sequence[Written], sizes: Sequence[int]) -> dict[Key, Found]:
    """Return what is found by scheme, with and without old log files, and by the number of log files."""
    found: dict[Key, Found] = {}
    for files, (name, scheme), half in itertools.product(sizes, SCHEMES.items(), (False, True)):
        if name == NONE and half:
            continue
        old = files if name == NONE else files // 2 if half else 0
        table = group(root / f"{name}-{half}-{files}", scheme, logs[:files], range(old))
        found[name, half, files] = _found(table, logs[:files])
    return found


def _key(log: Written) -> str:
    return log.keys[len(log.keys) // 2]


def measure_small(root: Path, rows: int, files: int) -> tuple[int, Found]:
    """Return the bytes of so many log files of few rows without an index, and what is found in them with ours."""
    logs = writes(root / f"rows-{rows}", files, rows)
    return _plain_bytes(logs), _found(group(root / f"small-{rows}", SCHEMES["ours"], logs), logs)


def _found(table: MadeTable, logs: Sequence[Written]) -> Found:
    miss, hit = (cost(table, key) for key in (ABSENT, _key(logs[len(logs) * 3 // 4])))
    return Found(miss, hit, log_bytes(table) - _plain_bytes(logs))


def _plain_bytes(logs: Sequence[Written]) -> int:
    return sum(len(encode_block(log.block)) for log in logs)


def _measure_old(root: Path, logs: Sequence[Written], old: Collection[int]) -> list[Cost | None]:
    """Return the costs of a miss, of a key in an old log file and of one in another, None without such a file."""
    table = group(root, SCHEMES["ours"], logs, old)
    new = [i for i in range(len(logs)) if i not in old]
    among = (sorted(old), new)
    keys = [ABSENT, *(_key(logs[some[len(some) // 2]]) if some else None for some in among)]
    return [None if key is None else cost(table, key) for key in keys]


def panels(found: Mapping[Key, Found]) -> dict[str, dict[str, dict[int, float]]]:
    """Return kilobytes by scheme and number of log files, of groups without old ones."""
    what: dict[str, Callable[[Found], int]] = {
        "a key that nobody has": lambda one: one.miss.bytes,
        "a key in one log file": lambda one: one.hit.bytes,
        "written: indexes of all log files": lambda one: one.added,
    }
    sizes = sorted({files for _, _, files in found})
    return {
        title: {
            SCHEMES[name].title: {files: of(found[name, False, files]) / 1000 for files in sizes}
            for name in SCHEMES
            if of(found[name, False, sizes[-1]])
        }
        for title, of in what.items()
    }


# The report


def report(
    found: Mapping[Key, Found],
    orders: Mapping[str, Sequence[Cost | None]],
    small: Mapping[int, tuple[int, Found]],
    log: Written,
    where: str,
) -> Iterator[str]:
    base = found[NONE, False, 1].miss
    yield "# Lookups in indexed log files"
    yield f"\n{where}\n"
    yield (
        f"One file group: a base file of {BASE_ROWS:,} keys with a bloom filter and a key range, and 1 to "
        f"{max(SIZES)} log files of {ROWS:,} new keys each, in Avro. Filters admit one absent key in "
        f"{round(1 / FALSE_POSITIVES):,}.\n"
    )
    yield "* *Individual*: a log file has a filter of its own keys."
    yield "* *Cumulative*: it has one of all keys so far instead. When that is full, one of twice the size is made."
    yield "* *Both*: it has both. A *clique* ends the cumulative filter, and the next file begins another one."
    yield "* Our writers do the last row: both, and a clique ends at 4,096 keys."
    yield "* *Old* log files are as Hudi writes them, without an index. If half of them are, it is the older half.\n"
    yield (
        f"The yardstick is the footer of the base file, with such a filter of its keys: {base.base_reads} reads, "
        f"{base.base_bytes / 1000:.0f} kB. Hudi's default filter has 431 kB, for any number of keys up to 60,000.\n"
    )
    yield "![kilobytes against the number of log files](log-index.svg)\n"
    yield from _table("A key that nobody has", "", found, lambda one: one.miss)
    where = "The key is in a log file that has an index, at three quarters of the way. "
    yield from _table("A key in one log file", where, found, lambda one: one.hit)
    yield from _written(found, log)
    yield from _small_writes(small)
    yield from _old_files(orders)
    yield from _model(found, log)
    yield from _differences(found)
    yield from _summary(found)
    yield from _base_or_not(base.base_bytes)


def _cell(one: Cost, of_base: bool = False) -> str:
    reads, size = (one.base_reads, one.base_bytes) if of_base else (one.reads, one.bytes)
    return f"{reads:,} / {size / 1000:,.0f}"


def _table(title: str, where: str, found: Mapping[Key, Found], of: Callable[[Found], Cost]) -> Iterator[str]:
    sizes = sorted({files for _, _, files in found})
    yield f"## {title}\n"
    yield f"{where}Reads of log files / kB, by the number of log files:\n"
    yield f"| index | old | {' | '.join(map(str, sizes))} |"
    yield f"| --- | ---: |{' ---: |' * len(sizes)}"
    for name, half in dict.fromkeys((name, half) for name, half, _ in found):
        cells = [_cell(of(found[name, half, files])) for files in sizes]
        old = "100 %" if name == NONE else "50 %" if half else "0 %"
        yield f"| {SCHEMES[name].title} | {old} | {' | '.join(cells)} |"
    yield ""


def _written(found: Mapping[Key, Found], log: Written) -> Iterator[str]:
    sizes = sorted({files for _, _, files in found})
    plain = len(encode_block(log.block))
    yield "## What the indexes add to the log files\n"
    yield (
        f"kB of a log file on average, the sorted keys of the file included; without an index it has "
        f"{plain / 1000:.0f} kB.\n"
    )
    yield f"| index | {' | '.join(map(str, sizes))} |"
    yield f"| --- |{' ---: |' * len(sizes)}"
    for name in SCHEMES:
        cells = [found[name, False, files].added / files / 1000 for files in sizes]
        yield f"| {SCHEMES[name].title} | {' | '.join(f'{one:,.1f}' for one in cells)} |"
    yield ""


def _small_writes(small: Mapping[int, tuple[int, Found]]) -> Iterator[str]:
    yield "## Small writes\n"
    yield (
        f"{SMALL_FILES} log files, {SCHEMES['ours'].title}. A filter has the size for the keys that it holds, from 64 "
        "to 4,096 on, and each index names the files of its clique, which is most of the index of a small write.\n"
    )
    yield "| rows of a write | kB of a log file | kB of its index | a key that nobody has | a key in one log file |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for rows, (plain, one) in small.items():
        sizes = (f"{size / SMALL_FILES / 1000:.1f}" for size in (plain, one.added))
        yield f"| {rows} | {' | '.join(sizes)} | {_cell(one.miss)} | {_cell(one.hit)} |"
    yield ""


def _old_files(orders: Mapping[str, Sequence[Cost | None]]) -> Iterator[str]:
    yield "## Old log files\n"
    yield (
        f"{MODEL_FILES} log files, {SCHEMES['ours'].title}. An index covers all older files, also those without one. "
        "So a miss decodes only the old files behind the last index. Reads / kB / ms of the processor:\n"
    )
    yield "| old | a key that nobody has | a key in an old file | a key in another file |"
    yield "| --- | ---: | ---: | ---: |"
    for name, costs in orders.items():
        cells = ["" if one is None else f"{_cell(one)} / {one.milliseconds:.1f}" for one in costs]
        yield f"| {name} | {' | '.join(cells)} |"
    yield ""


@dataclass(frozen=True)
class Model:
    """What a format with the parts of RFC-06 needs. ``block``: the bytes of a block without its records.

    ``record``, ``key``: the bytes of each. The summary of a file is found by three reads from its end, and its keys by
    one more. The lookup reads all files that may have the key.
    """

    block: int
    record: float
    key: float

    def of(self, name: str) -> tuple[int, float, int, float, float]:
        """Return reads and bytes of a miss and of a hit, and the bytes that are written."""
        if name == NONE:
            whole = MODEL_FILES * (self.block + ROWS * self.record)
            return MODEL_FILES, whole, MODEL_FILES, whole, 0
        files, sized_for = {
            "individual": (1, ROWS),
            "cliques": (CLIQUE_FILES, CLIQUE_FILES * ROWS),
            "ours": (IndexPolicy().clique_keys // ROWS, IndexPolicy().clique_keys),
        }.get(name, (MODEL_FILES, MODEL_FILES * ROWS))
        cliques, filter_, keys = math.ceil(MODEL_FILES / files), _filter_bytes(sized_for), ROWS * self.key
        reads, miss = 3 * cliques, cliques * (self.block + filter_)
        written = MODEL_FILES * (filter_ + keys)
        if not SCHEMES[name].own:  # the keys of all files of a clique
            return reads, miss, reads + files, miss + files * (self.block + keys), written
        own = _filter_bytes(ROWS)
        hit = miss + files * (self.block + own) + keys
        return reads, miss, reads + 3 * files + 1, hit, written + MODEL_FILES * own


def _filter_bytes(keys: int) -> int:
    return len(filter_of([], sized_for=keys, false_positives=FALSE_POSITIVES).encode())


def _model(found: Mapping[Key, Found], log: Written) -> Iterator[str]:
    records = decode_avro_content(log.block.content, at="log").records
    record = sum(map(len, records)) / ROWS + 4
    block = len(encode_block(log.block)) - round(ROWS * record)
    model = Model(block, record, len(log.keys[0]) + 8)
    yield "## By calculation\n"
    yield (
        f"What the parts of RFC-06 need for {MODEL_FILES} log files, if a record has {record:.0f} bytes, a key "
        f"{model.key:.0f}, and a block {block:,} bytes more: reads / kB, and behind the arrow what was counted.\n"
    )
    yield "| index | a key that nobody has | a key in one log file | kB written |"
    yield "| --- | ---: | ---: | ---: |"
    for name in SCHEMES:
        reads, miss, hit_reads, hit, written = model.of(name)
        one = found[name, False, MODEL_FILES]
        cells = [
            f"{reads} / {miss / 1000:,.0f} → {_cell(one.miss)}",
            f"{hit_reads} / {hit / 1000:,.0f} → {_cell(one.hit)}",
            f"{written / 1000:,.0f} → {one.added / 1000:,.0f}",
        ]
        yield f"| {SCHEMES[name].title} | {' | '.join(cells)} |"
    yield ""


def _differences(found: Mapping[Key, Found]) -> Iterator[str]:
    most = max(files for _, _, files in found)
    yield "Where they differ:\n"
    yield (
        "* A summary is found by one read of 32 KiB instead of three small ones, and a second one if it is larger. "
        "That is fewer reads and more bytes. The end of a log file is read, too, if it has no index."
    )
    yield "* Sorted keys are compressed, and a filter is as large as its keys need, so less is written."
    yield "* Files are asked one by one, the oldest of a clique first, until one has the key."
    yield (
        "* Both filters of a file are in one summary under one checksum. So a filter of its own spares the keys of a "
        f"file, but not its cumulative filter: with {most} files in one clique, a key in one of them takes "
        f"{_cell(found['both', False, most].hit)}. In cliques of 4,096 keys the first read has the summary.\n"
    )


def _summary(found: Mapping[Key, Found]) -> Iterator[str]:
    sizes = sorted({files for _, _, files in found})
    misses = ", ".join(f"{_cell(found['both', False, files].miss)} at {files}" for files in sizes)
    added = {name: found[name, False, sizes[-1]].added / sizes[-1] / 1000 for name in SCHEMES}
    yield "## What this shows\n"
    yield (
        f"* With all log files in one clique, the RFC's claim holds: a miss takes {misses} log files. The footer of "
        f"the base file takes {_cell(found[NONE, False, sizes[0]].miss, of_base=True)}."
    )
    yield (
        f"* The price is a filter for all keys in every log file, {added['both']:,.0f} kB at {sizes[-1]}. In cliques "
        f"it does not grow: {added['cliques']:,.0f} kB, or {added['ours']:,.0f} with 4,096 keys. Then a miss takes one "
        "read for each clique."
    )
    yield (
        "* Individual filters alone take one read for each log file. That is half as many reads as decoding takes, and "
        "a third of the bytes."
    )
    yield "* What old files cost is gone as soon as one file with an index is behind them, before any compaction.\n"


def _base_or_not(base_bytes: int) -> Iterator[str]:
    """Compare a filter of the log files alone with one that has the keys of the base file, too."""
    yield "## Base file and log in one filter, or the log alone\n"
    yield (
        "A filter that also has the keys of the base file answers a miss without the base file's footer. But every "
        "log file carries it, whatever it adds itself:\n"
    )
    yield "| keys in the base file | filter of the log alone, per log file | with the base file's keys | times |"
    yield "| ---: | ---: | ---: | ---: |"
    alone = _filter_bytes(MODEL_FILES * ROWS)
    for keys in (BASE_ROWS, 200_000, 1_000_000):
        both = _filter_bytes(MODEL_FILES * ROWS + keys)
        yield f"| {keys:,} | {alone:,} | {both:,} | {both / alone:.1f} |"
    yield ""
    yield (
        f"It saves the read of the base file's footer, here {base_bytes:,} bytes, which is read once for all log "
        "files of the slice. So the index is of the log alone."
    )


if __name__ == "__main__":
    main()
