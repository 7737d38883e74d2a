"""``python -m benchmarks.log_index``: what lookups of keys in a file group read, by how its log files are indexed.

A file group has a base file and log files of some writes, each with keys of its own. A key that nobody has, and a key
of one log file, are looked up with a lookup that has read nothing yet. Bytes and reads are counted at the store, so
they do not depend on the machine; times are of the process.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from pktable.format.hudi.bloom import filter_of
from pktable.format.hudi.key_summary import KeyCollation, KeySummary, footer_of_summary
from pktable.hudi.index_writer import LIST, POINTER, IndexPolicy

from benchmarks.machine import describe, hardware
from model_tests.hudi.counted_reads import CountedStore, Reads
from model_tests.hudi.made_tables import MadeTable, row

RESULT = Path(__file__).parent / "results" / "log-index.md"
WRITES, ROWS, BASE_ROWS = 30, 1000, 30_000
FALSE_POSITIVES = 0.001
SCHEMES: dict[str, IndexPolicy | None] = {
    "none: log files as Hudi writes them": None,
    "each file alone": IndexPolicy(FALSE_POSITIVES, ROWS, 1, POINTER),
    "cliques of 10 files, chain pointer": IndexPolicy(FALSE_POSITIVES, 10 * ROWS, 10, POINTER),
    "cliques of 10 files, chain list": IndexPolicy(FALSE_POSITIVES, 10 * ROWS, 10, LIST),
    "one clique, sized for all keys": IndexPolicy(FALSE_POSITIVES, WRITES * ROWS, None, POINTER),
}


@dataclass(frozen=True)
class Cost:
    """What one lookup takes."""

    reads: int
    log_bytes: int
    base_bytes: int
    milliseconds: float


def main() -> None:
    text = "\n".join(_lines()) + "\n"
    RESULT.write_text(text)
    print(text)


def _lines() -> Iterator[str]:
    about = describe()
    yield "# Lookups in indexed log files"
    yield ""
    yield f"`{shlex.join(['python', '-m', 'benchmarks.log_index', *sys.argv[1:]])}`. {hardware(about)}."
    yield ""
    yield (
        f"One file group: a base file of {BASE_ROWS:,} keys with a bloom filter and a key range, and {WRITES} log "
        f"files of {ROWS:,} new keys each, in Avro. Filters admit one absent key in {round(1 / FALSE_POSITIVES):,}."
    )
    yield ""
    yield "| index | miss: reads | log bytes | ms | hit: reads | log bytes | ms | index bytes | of the log |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    base_bytes, plain_bytes = 0, 0
    for name, policy in SCHEMES.items():
        with tempfile.TemporaryDirectory() as directory:
            table = _table(Path(directory) / "t", policy)
            log_bytes = sum(path.stat().st_size for path in table.root.glob(".g_*"))
            plain_bytes = plain_bytes or log_bytes
            miss, hit = (_cost(table, key) for key in ("0000-absent", f"{WRITES // 2:04}-{ROWS // 2:06}"))
        base_bytes = miss.base_bytes
        extra = log_bytes - plain_bytes
        cells = [
            *(miss.reads, f"{miss.log_bytes:,}", f"{miss.milliseconds:.1f}"),
            *(hit.reads, f"{hit.log_bytes:,}", f"{hit.milliseconds:.1f}"),
            *(f"{extra:,}", f"{extra / log_bytes:.0%}"),
        ]
        yield f"| {name} | {' | '.join(map(str, cells))} |"
    yield ""
    yield from _base_or_not(base_bytes)


def _base_or_not(base_bytes: int) -> Iterator[str]:
    """Compare a filter of the log files alone with one that has the keys of the base file, too."""
    yield "## Base file and log in one filter, or the log alone"
    yield ""
    yield (
        "A filter that also has the keys of the base file answers a miss without the base file's footer. But every "
        "log file carries it, whatever it adds itself:"
    )
    yield ""
    yield "| keys in the base file | filter of the log alone, per log file | with the base file's keys | times |"
    yield "| ---: | ---: | ---: | ---: |"
    alone = len(filter_of([], sized_for=WRITES * ROWS, false_positives=FALSE_POSITIVES).encode())
    for keys in (BASE_ROWS, 200_000, 1_000_000):
        both = len(filter_of([], sized_for=WRITES * ROWS + keys, false_positives=FALSE_POSITIVES).encode())
        yield f"| {keys:,} | {alone:,} | {both:,} | {both / alone:.1f} |"
    yield ""
    yield (
        f"It saves the read of the base file's footer, here {base_bytes:,} bytes, which is one read for all log "
        "files of the slice. So the index is of the log alone."
    )


def _table(root: Path, policy: IndexPolicy | None) -> MadeTable:
    """A table with one file group. Keys of log file n begin with n, so that ranges alone answer nothing."""
    table = MadeTable(root)
    keys = [f"{i % WRITES:04}-base-{i:06}" for i in range(BASE_ROWS)]
    path = table.base(1, [row(key, 1, 1) for key in sorted(keys)])
    made = filter_of([key.encode() for key in keys], sized_for=len(keys), false_positives=FALSE_POSITIVES)
    entries = footer_of_summary(KeySummary(min(keys), max(keys), KeyCollation.JAVA, made))
    pq.write_table(pq.read_table(path).replace_schema_metadata(entries), path)
    table.commit(1)
    for number in range(2, WRITES + 2):
        added = [f"{(number + i) % WRITES:04}-{number:06}-{i:06}" for i in range(ROWS - 1)]
        added.append(f"{number - 2:04}-{ROWS // 2:06}")
        block = table.data(number, [row(key, number, number) for key in added])
        table.log(number, *([block] if policy is None else table.index(number, block, added, policy)))
        table.commit(number)
    return table


def _cost(table: MadeTable, key: str) -> Cost:
    store = CountedStore()
    opened = table.open(store=store)
    store.reads.clear()
    start = time.process_time()
    opened.locate([key])
    milliseconds = (time.process_time() - start) * 1000
    log_bytes, base_bytes, reads = _sizes(table.root, store.reads)
    return Cost(reads, log_bytes, base_bytes, milliseconds)


def _sizes(root: Path, reads: Reads) -> tuple[int, int, int]:
    whole = [(root / name).stat().st_size for name in reads.whole_logs]
    logs = [size for _, _, size in reads.log_parts]
    base = [size for name, _, size in reads.parts if ".log." not in name]
    return sum(whole) + sum(logs), sum(base), len(whole) + len(logs)


if __name__ == "__main__":
    main()
