"""Scripts of writes, compactions and reads of tables with a primary key."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from functools import partial
from typing import Final

from pktable import CommitId, Table

from model_tests.store_work.play import Play, rows

VECTORS: Final = {"deletion-vectors.enabled": "true"}
NAMED: Final = CommitId("loader", 7)


def writes(play: Play) -> None:
    """The least that happens: each write is two snapshots, and a compaction marks what was replaced."""
    table = play.create("k INT, v STRING", {**VECTORS, "num-levels": "4"})
    of = table.schema
    play.step("a read of no snapshot", table.to_arrow)
    play.upsert("write the first rows", table, (1, "a"), (2, "b"), (3, None))
    play.step("write over one of them", lambda: table.upsert(rows(of, (2, "c")), commit_id=NAMED))
    play.step("write the same again", lambda: table.upsert(rows(of, (2, "c")), commit_id=NAMED))
    play.step("delete by key", lambda: table.delete(rows(of, (1,))))
    play.step("delete what is not there", lambda: table.delete(where="k > 7"))
    play.step("read", table.to_arrow)
    play.step("read freshly", lambda: table.to_arrow(fresh=True))
    play.step("count", table.count)
    play.step("read by key", lambda: table.to_arrow(where="k = 2"))
    play.step("read by a key beyond all", lambda: table.to_arrow(where="k = 9"))
    play.step("read some rows of one column", lambda: table.to_arrow(columns=["v"], limit=1))
    other = play.open()
    play.step("read an old snapshot from another process", lambda: other.to_arrow(snapshot=1))
    play.step("the compaction that would be", lambda: other.plan_compaction(full=True))
    play.step("compact fully", lambda: other.compact(full=True))
    play.step("compact fully, with nothing to do", lambda: other.compact(full=True))
    play.step("the compaction that would be", lambda: other.plan_compaction(full=True))
    play.step("read after another process", table.to_arrow)
    play.upsert("write after another process", table, (4, "d"))
    play.step("check", lambda: [str(one) for one in table.check().findings])


def partitions(play: Play) -> None:
    """Partitions, buckets, and what conditions on them rule out."""
    table = play.create(
        "p STRING, k INT, v INT",
        {**VECTORS, "bucket": "2", "write-only": "true"},
        primary_key=["p", "k"],
        partition_by=["p"],
    )
    of = table.schema
    play.upsert("write to two", table, ("a", 1, 1), ("a", 2, 2), ("b", 1, 3))
    play.upsert("write to one", table, ("a", 1, 4), ("c=d", 5, None))
    play.step("compact", table.compact)
    play.upsert("write to one again", table, ("a", 1, 5), ("a", 9, 5))
    for where in [
        "p = 'a'",
        "p = 'a' AND k = 1",
        "k = 1",
        "v = 3",
        "v > 4",
        "p IS NULL",
        "p = 'b' AND v = 5",
    ]:
        play.step(f"read where {where}", partial(table.to_arrow, where=where))
        play.step(f"how: {where}", table.scan(where=where).explain)
    play.step("overwrite a partition", lambda: table.overwrite(rows(of, ("a", 7, 7)), where="p = 'a'"))
    play.step("update", lambda: table.update({"v": "v + 1"}, where="p = 'b'"))
    play.step("files", lambda: table.files().drop_columns(["file_size"]))
    play.step("compact fully", lambda: table.compact(full=True))
    play.step("truncate", table.truncate)
    play.step("count of nothing", table.count)


def levels(play: Play) -> None:
    """Runs of many levels, without deletion vectors: which of them a compaction takes, and what it writes."""
    options = {"num-sorted-run.compaction-trigger": "3", "num-levels": "5", "compaction.size-ratio": "1"}
    table = play.create("k INT, v BYTES", options)
    drawn = random.Random(1)
    for number, count in enumerate((40, 10, 10, 1, 1, 1, 20, 1, 1)):
        many = [(key, drawn.randbytes(3_000)) for key in range(number, number + count)]
        play.upsert(f"write {count} rows", table, *many)
    play.step("delete", lambda: table.delete(rows(table.schema, (3,), (41,))))
    play.step("compact", table.compact)
    play.step("compact fully", lambda: table.compact(full=True))
    play.step("files", lambda: table.files().select(["level", "row_count", "retraction_count"]))


def sizes(play: Play) -> None:
    """Row groups, pages, files of a target size, and which columns have dictionaries and statistics."""
    options = {
        **VECTORS,
        "target-file-size": "9 kb",
        "parquet.block.row.count.limit": "8",
        "parquet.page.row.count.limit": "2",
        "write-only": "true",
    }
    table = play.create("k INT, s STRING, b BYTES, f DOUBLE, t TIMESTAMP(9)", options)
    drawn = random.Random(2)
    many = [(key, f"{key % 3}", drawn.randbytes(700), key / 2, None) for key in range(40)]
    play.upsert("write many", table, *many)
    play.step("write few", lambda: table.upsert(rows(table.schema, *[(5, "x", b"", float("nan"), 7)])))
    play.step("compact", table.compact)
    play.step("read by key", lambda: table.to_arrow(columns=["s"], where="k = 17"))
    play.step("read a range", lambda: table.to_arrow(columns=["k"], where="k BETWEEN 15 AND 18"))
    play.step("read by text", lambda: table.to_arrow(columns=["k"], where="s = 'x'"))
    play.step(
        "read by a number that has no statistics", lambda: table.to_arrow(columns=["k"], where="f = 3.5")
    )


TYPES: Final = (
    "k BIGINT, n BOOLEAN, d DECIMAL(7, 2), w DECIMAL(25, 2), c CHAR(3), x BYTES, y DATE, z TIMESTAMP(3), "
    "a ARRAY<INT>"
)


def statistics(play: Play) -> None:
    """Statistics of each type, of few columns, and cut to a length."""
    table = play.create(TYPES, {"metadata.stats-mode": "truncate(4)", "write-only": "true"})
    first = (1, True, Decimal("1.50"), Decimal(-3), "abc", b"abcdef", dt.date(2020, 2, 2), None, [1])
    second = (2, None, None, Decimal(10**20), "a", b"\xff" * 9, dt.date(1969, 1, 1), None, None)
    play.upsert("write", table, first, second)
    play.upsert("write nulls", table, (3, *[None] * (len(first) - 1)))
    for where in ("n", "d > 1", "w < 0", "c = 'abc'", "y = DATE '2020-02-02'", "x IS NULL"):
        play.step(f"read where {where}", partial(table.to_arrow, columns=["k"], where=where))


def manifests(play: Play) -> None:
    """Manifests are merged when there are many, or many deletions, and divided when they are large."""
    options = {**VECTORS, "manifest.merge-min-count": "3", "manifest.target-file-size": "1 kb"}
    table = play.create("k INT, v INT", options)
    for key in range(6):
        play.upsert(f"write {key}", table, (key, key), (9, key))
    play.step("compact fully", lambda: table.compact(full=True))
    other = play.open()
    play.step("read", other.to_arrow)


def manifests_in_full(play: Play) -> None:
    """All small manifests are folded into one when they are large together, though nothing is deleted."""
    options = {"manifest.full-compaction-threshold-size": "4 kb", "write-only": "true"}
    table = play.create("k INT, v INT", options)
    for key in range(5):
        play.upsert(f"write {key}", table, (key, key))


def first_rows(play: Play) -> None:
    """First-row keeps the row that there was, and records only what is new."""
    table = play.create("k INT, v STRING", {"merge-engine": "first-row", "changelog-producer": "lookup"})
    play.upsert("write", table, (1, "a"), (2, "b"))
    play.upsert("write again", table, (1, "c"), (3, "d"))
    play.step("changes", lambda: table.changes(0).to_arrow())
    play.step("read", table.to_arrow)


def delta_commits(play: Play) -> None:
    """Each third write compacts fully, whoever makes it."""
    table = play.create("k INT, v INT", {"full-compaction.delta-commits": "3"})
    for key in range(4):
        handle = Table.open(play.path, store=play.store)
        play.step(f"write {key}", partial(handle.upsert, rows(table.schema, (key, key))))
