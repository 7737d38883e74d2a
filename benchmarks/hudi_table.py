"""``python -m benchmarks.hudi_table``: reads and lookups in a merge-on-read table of Hudi, with and without an index.

A million rows in five file groups, and six upserts of 4,620 known keys into each, which makes 30 log files. Hudi 1.2.0
was measured on Spark at these sizes, in CPU seconds of its tasks: to look up 20,000 keys it took 5.0 with the index
SIMPLE, 3.8 with BLOOM, 2.2 with RECORD_INDEX, and 0.76 with BUCKET, which looks nothing up; a snapshot aggregate took
11 times as long as a read-optimized one. That was measured elsewhere: compare with the anchor, a scan of the column of
keys by pyarrow, which took 0.69 there.
"""

from __future__ import annotations

import random
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pktable.format.hudi.bloom import filter_of
from pktable.format.hudi.key_summary import KeyCollation, KeySummary, footer_of_summary
from pktable.hudi.index_writer import IndexPolicy

from benchmarks.machine import describe, hardware
from model_tests.hudi.made_tables import OWN, MadeTable, instant, row

RESULT = Path(__file__).parent / "results" / "hudi-table.md"
GROUPS, ROWS, WRITES, UPSERTED, ASKED = 5, 200_000, 6, 4620, 4000
POLICY = IndexPolicy(clique_keys=1 << 15)
TURNS = 3


def main() -> None:
    text = "\n".join(_lines()) + "\n"
    RESULT.write_text(text)
    print(text)


def _lines() -> Iterator[str]:
    assert __doc__
    about = describe()
    yield "# A merge-on-read table of Hudi"
    yield ""
    command = shlex.join(["python", "-m", "benchmarks.hudi_table", *sys.argv[1:]])
    yield f"`{command}`. {hardware(about)}; load before: {about['load_before'][0]}."
    yield ""
    yield __doc__.partition("\n\n")[2].replace("\n", " ").strip()
    yield ""
    results = []
    for policy in (None, POLICY):
        with tempfile.TemporaryDirectory() as directory:
            table, keys = _table(Path(directory) / "t", policy)
            results.append(_measured(table, keys))
    yield "| least CPU seconds of three turns | log files as Hudi writes them | with an index |"
    yield "| --- | ---: | ---: |"
    for name in results[0]:
        yield f"| {name} | {results[0][name]} | {results[1][name]} |"


def _table(root: Path, policy: IndexPolicy | None) -> tuple[MadeTable, list[list[str]]]:
    """The table, and the keys of each file group."""
    draw = random.Random(1)
    table = MadeTable(root)
    keys = [[f"{draw.getrandbits(64):016x}-{group}-{i:08d}" for i in range(ROWS)] for group in range(GROUPS)]
    for group, own in enumerate(keys):
        filter_ = filter_of([key.encode() for key in own], sized_for=ROWS, false_positives=0.001)
        summary = KeySummary(min(own), max(own), KeyCollation.JAVA, filter_)
        columns = {name: pa.array([instant(1)] * ROWS) for name in OWN}
        columns |= {
            "_hoodie_record_key": pa.array(own),
            "k": pa.array(own),
            "ts": pa.array(np.ones(ROWS, np.int64)),
        }
        rows = pa.table({**columns, "v": pa.array(np.arange(ROWS), pa.int32())})
        path = root / f"g{group}_0-0-0_{instant(1)}.parquet"
        pq.write_table(
            rows.replace_schema_metadata(footer_of_summary(summary)), path, row_group_size=ROWS // 2
        )
    table.commit(1)
    for number in range(2, WRITES + 2):
        for group, own in enumerate(keys):
            some = draw.sample(own, UPSERTED)
            block = table.data(number, [row(key, number, number) for key in some])
            blocks = [block] if policy is None else table.index(number, block, some, policy, f"g{group}")
            table.log(number, *blocks, group=f"g{group}")
        table.commit(number)
    return table, keys


def _measured(table: MadeTable, keys: list[list[str]]) -> dict[str, str]:
    opened, draw = table.open(), random.Random(2)
    asked = [key for own in keys for key in draw.sample(own, ASKED)]
    bases, logs = sorted(table.root.glob("g*.parquet")), table.root.glob(".g*")

    def anchor() -> int:
        return sum(
            pq.read_table(path, columns=["_hoodie_record_key"], use_threads=False).num_rows for path in bases
        )

    log_bytes = sum(path.stat().st_size for path in logs)
    return {
        "anchor: the column of keys, 1,000,000 rows": _seconds(anchor, GROUPS * ROWS),
        f"look up {len(asked):,} keys": _seconds(lambda: opened.locate(asked).num_rows, len(asked)),
        "look up one key": _seconds(lambda: opened.locate(asked[:1]).num_rows, 1),
        "look up an absent key": _seconds(lambda: opened.locate(["8-absent"]).num_rows, 0),
        "read one row by its key": _seconds(
            lambda: opened.to_arrow(where=f"_hoodie_record_key = '{asked[0]}'").num_rows, 1
        ),
        "snapshot read, all columns": _seconds(lambda: opened.to_arrow().num_rows, GROUPS * ROWS),
        "read-optimized read, all columns": _seconds(
            lambda: opened.to_arrow(read_optimized=True).num_rows, GROUPS * ROWS
        ),
        "bytes of the log files": f"{log_bytes:,}",
    }


def _seconds(work: Callable[[], int], expected: int) -> str:
    times = []
    for _ in range(TURNS):
        start = time.process_time()
        assert work() == expected
        times.append(time.process_time() - start)
    return f"{min(times):.2f}"


if __name__ == "__main__":
    main()
