"""File groups whose log files are indexed in different ways, and what a lookup of a key reads in them.

A file group has a base file and log files of some writes, each with keys of its own, which are spread over one range:
so ranges alone rule nothing out. Some of the log files may be old, which is as Hudi writes them, without an index.
Bytes and reads are counted at the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from pktable_hudi.format.bloom import SimpleFilter, filter_of
from pktable_hudi.format.key_summary import KeyCollation, KeySummary, footer_of_summary
from pktable_hudi.format.log_block import LogBlock
from pktable_hudi.format.log_index import with_index
from pktable_hudi.index_writer import IndexPolicy

from model_tests.hudi.counted_reads import CountedStore
from model_tests.hudi.made_tables import MadeTable, row

ROWS, BASE_ROWS = 1000, 30_000
CLIQUE_FILES = 10
FALSE_POSITIVES = 0.001
ABSENT = "0500-absent"
"""A key that is inside the range of every file."""

EVERYTHING: Final = KeySummary(
    "", "\U0010ffff", KeyCollation.BYTES, SimpleFilter(8, 1, np.full(1, 255, np.uint8))
)
"""The summary of a file that has none of its own."""


@dataclass(frozen=True)
class Scheme:
    """A way to index log files. ``policy``: for so many of them. ``own``: whether each has a filter of its own, too."""

    title: str
    policy: Callable[[int], IndexPolicy]
    own: bool = True


NONE: Final = "none"
SCHEMES: Final[Mapping[str, Scheme]] = {
    NONE: Scheme("none: as Hudi writes them", lambda files: IndexPolicy()),
    "individual": Scheme("individual", lambda files: IndexPolicy(FALSE_POSITIVES, ROWS, 1), own=False),
    "cumulative": Scheme("cumulative", lambda files: IndexPolicy(FALSE_POSITIVES, files * ROWS), own=False),
    "both": Scheme("both", lambda files: IndexPolicy(FALSE_POSITIVES, files * ROWS)),
    "cliques": Scheme(
        f"both, cliques of {CLIQUE_FILES} files",
        lambda files: IndexPolicy(FALSE_POSITIVES, CLIQUE_FILES * ROWS, CLIQUE_FILES),
    ),
    "ours": Scheme("both, cliques of 4,096 keys", lambda files: IndexPolicy()),
}


class Written(NamedTuple):
    """The rows of a write: the block of a log file, and its keys in order."""

    block: LogBlock
    keys: list[str]


@dataclass(frozen=True)
class Cost:
    """What one lookup takes: reads and bytes of log files, those of the base file, and time of the process."""

    reads: int
    bytes: int
    base_reads: int
    base_bytes: int
    milliseconds: float


def writes(root: Path, count: int, rows: int = ROWS) -> list[Written]:
    """Return so many writes of ``rows`` rows. ``root``: where a table may be made for that."""
    table = MadeTable(root)
    found = []
    for number in range(2, count + 2):
        keys = [f"{(number * 7 + i) % 1000:04}-{number:06}-{i:06}" for i in range(rows)]
        found.append(Written(table.data(number, [row(key, number, number) for key in keys]), keys))
    return found


def group(root: Path, scheme: Scheme, logs: Sequence[Written], old: Collection[int] = ()) -> MadeTable:
    """Return a table of one file group with these log files, of which those with the numbers ``old`` have no index."""
    table = MadeTable(root)
    _base(table)
    policy = scheme.policy(len(logs))
    for i, (block, keys) in enumerate(logs):
        number = i + 2
        blocks = [block]
        if i not in old:
            index = table.next_index(number, keys, policy)
            blocks = with_index(block, index if scheme.own else replace(index, own=EVERYTHING), keys)
        table.log(number, *blocks)
        table.commit(number)
    return table


def _base(table: MadeTable) -> None:
    """Write a base file with a summary in its footer, as we do and Hudi does."""
    keys = sorted(f"{i % 1000:04}-base-{i:06}" for i in range(BASE_ROWS))
    path = table.base(1, [row(key, 1, 1) for key in keys])
    made = filter_of([key.encode() for key in keys], sized_for=len(keys), false_positives=FALSE_POSITIVES)
    entries = footer_of_summary(KeySummary(keys[0], keys[-1], KeyCollation.JAVA, made))
    rows = pq.read_table(path)
    with pq.ParquetWriter(path, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(entries)
    table.commit(1)


def log_bytes(table: MadeTable) -> int:
    """Return the size of all log files."""
    return sum(path.stat().st_size for path in table.root.glob(".g_*"))


def cost(table: MadeTable, key: str, turns: int = 3) -> Cost:
    """Return what a lookup of a key takes that has read nothing yet; the least time of so many turns."""
    found = [_cost(table, key) for _ in range(turns)]
    return min(found, key=lambda one: one.milliseconds)


def _cost(table: MadeTable, key: str) -> Cost:
    store = CountedStore()
    opened = table.open(store=store)
    store.reads.clear()
    start = time.process_time()
    opened.locate([key])
    milliseconds = (time.process_time() - start) * 1000
    whole = [(table.root / name).stat().st_size for name in store.reads.whole_logs]
    logs = [size for _, _, size in store.reads.log_parts]
    base = [size for name, _, size in store.reads.parts if ".log." not in name]
    return Cost(len(whole) + len(logs), sum(whole) + sum(logs), len(base), sum(base), milliseconds)
