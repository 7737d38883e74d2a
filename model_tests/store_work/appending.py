"""Scripts of append tables: files, vectors, row ids, and columns of the same rows in several files."""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from pktable import CommitId, Table

from model_tests.store_work.play import Play, rows

VECTORS: Final = {"deletion-vectors.enabled": "true"}
IDS: Final = {"row-tracking.enabled": "true"}


def _appended(play: Play, options: dict[str, str], columns: str = "k INT, v STRING") -> Table:
    table = play.create(columns, options, primary_key=None)
    of = table.schema
    play.step("append", lambda: table.append(rows(of, (1, "a"), (2, "b"), (2, "b"), (None, None))))
    play.step("append more", lambda: table.append(rows(of, (3, "c"), (4, "d"))))
    return table


def appends(play: Play) -> None:
    """Without vectors and buckets: what is deleted or updated is written again."""
    table = _appended(play, {"compaction.min.file-num": "2"})
    play.step("delete", lambda: table.delete(where="k = 2"))
    play.step("update", lambda: table.update({"v": "upper(v)"}, where="k >= 3"))
    play.step("what a compaction would do", table.plan_compaction)
    play.step("compact", table.compact)
    play.step("read", table.to_arrow)
    play.step("read where", lambda: table.to_arrow(where="v = 'C'", columns=["k"]))
    play.step("changes", lambda: table.changes(0, 2).to_arrow())
    play.step("changes where", lambda: table.changes(0, 2, where="k > 2", columns=["v"]).to_arrow())
    play.step("overwrite", lambda: table.overwrite(rows(table.schema, (9, "z"))))
    play.step("expire", lambda: table.expire_snapshots(retain_last=1))


def append_vectors(play: Play) -> None:
    """With vectors: positions are deleted, and a compaction drops them."""
    table = _appended(play, VECTORS)
    play.step("delete", lambda: table.delete(where="k = 2"))
    play.step("delete all of a file", lambda: table.delete(where="k >= 3"))
    play.step("update", lambda: table.update({"v": "'x'"}, where="k IS NULL"))
    play.step("count", table.count)
    play.step("read", table.to_arrow)
    play.step("compact fully", lambda: table.compact(full=True))
    play.step("read again", lambda: play.open().to_arrow())


def append_buckets(play: Play) -> None:
    """With buckets: rows are hashed, and files are numbered."""
    options = {"bucket": "2", "bucket-key": "k", "compaction.min.file-num": "2", **VECTORS}
    table = _appended(play, options)
    play.step("append again", lambda: table.append(rows(table.schema, (1, "e"), (5, "f"))))
    play.step("compact", table.compact)
    play.step("read by the bucket key", lambda: table.to_arrow(where="k = 1"))
    play.step("delete", lambda: table.delete(where="k = 1"))
    play.before("put snapshot/", lambda: play.others_write((1, "g")))
    play.step("append while others do", lambda: table.append(rows(table.schema, (1, "h"))))
    play.step("read", table.to_arrow)


def null_partitions(play: Play) -> None:
    """Partitions without a value have a directory of their own."""
    options = {**VECTORS, "compaction.min.file-num": "2", "partition.default-name": "nobody"}
    table = play.create("p STRING, q INT, v INT", options, primary_key=None, partition_by=["p", "q"])
    some = [("a", 1, 1), (None, 1, 2), ("a", None, 3), (None, None, 4), (None, 1, 5)]
    play.step("append", lambda: table.append(rows(table.schema, *some)))
    play.step("append nulls", lambda: table.append(rows(table.schema, (None, None, 6))))
    for where in ("p IS NULL", "p = 'a'", "q IS NOT NULL AND v > 1", "p IS NULL AND q = 1"):
        play.step(f"read where {where}", partial(table.to_arrow, where=where))
    play.step("delete", lambda: table.delete(where="p IS NULL AND v < 5"))
    play.step("overwrite", lambda: table.overwrite(rows(table.schema, (None, 1, 9)), where="p IS NULL"))
    play.step("compact", table.compact)


def row_ids(play: Play) -> None:
    """Row ids stay with their rows."""
    for_each = "when rows are updated, merged and compacted"
    table = _appended(play, {**IDS, "compaction.min.file-num": "2"})
    play.step(f"update, {for_each}", lambda: table.update({"v": "'u'"}, where="k = 2"))
    merge = table.merge(rows(table.schema, (4, "m"), (7, "n")), on="k")
    play.step("merge", merge.when_matched_update_all().when_not_matched_insert_all().execute)
    play.step("compact", table.compact)
    play.step("compact fully", lambda: table.compact(full=True))
    play.step("ids", lambda: table.to_arrow(columns=["k", "v"]))
    play.step("delete", lambda: table.delete(where="k = 7"))
    play.step("overwrite some", lambda: table.overwrite(rows(table.schema, (1, "o")), where="k = 1"))


def row_ids_with_vectors(play: Play) -> None:
    """An updated row is deleted where it was, and added with its id."""
    table = _appended(play, {**IDS, **VECTORS})
    play.step("update", lambda: table.update({"v": "'u'"}, where="k >= 2"))
    play.step("update again", lambda: table.update({"v": "'w'"}, where="v = 'u' AND k < 4"))
    play.before("put snapshot/", lambda: play.others_write((8, "o")))
    play.step("delete while others append", lambda: table.delete(where="k = 1"))
    play.before("put snapshot/", lambda: play.others().delete(where="k = 2"))
    play.step("update what others delete", lambda: table.update({"v": "'y'"}, where="k = 2"))
    play.step("read", table.to_arrow)


def append_races(play: Play) -> None:
    """A statement whose rows others have changed is computed again, and given up at last; an append never is."""
    table = _appended(play, VECTORS)
    play.before("put snapshot/snapshot-3", lambda: play.others().compact(full=True))
    play.step("delete while others compact", lambda: table.delete(where="k = 3"))
    for _ in range(3):
        play.before("put snapshot/", lambda: play.others_write((6, "o")))
    play.step("append while others do", lambda: table.append(rows(table.schema, (5, "e"))))
    play.before("put snapshot/", lambda: play.others().delete(where="k = 6"))
    play.step("compact while others delete", lambda: table.compact(full=True))
    named = CommitId("loader", 3)
    play.step("append", lambda: table.append(rows(table.schema, (7, "f")), commit_id=named))
    play.step("append again", lambda: table.append(rows(table.schema, (7, "f")), commit_id=named))
    play.fail("write index/")
    play.step("delete on a store that fails", lambda: table.delete(where="k = 7"))
    play.step("orphans", lambda: len(table.remove_orphans(older_than=1 << 50, dry_run=True)))
    os.unlink(f"{play.path}/snapshot/LATEST")
    play.step("read", lambda: play.open().to_arrow())
