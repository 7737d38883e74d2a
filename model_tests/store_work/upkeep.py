"""Scripts of tags, expiries, rollbacks, changelogs and repairs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pktable import Table

from model_tests.store_work.play import Play, rows

VECTORS: Final = {"deletion-vectors.enabled": "true", "num-levels": "4"}


def _written(play: Play, options: dict[str, str], writes: Sequence[tuple[int, str]]) -> Table:
    """Return a table with some rows, each written by itself; how is recorded by other scripts."""
    table = play.create("k INT, v STRING", options)
    lines = len(play.store.lines)
    for one in writes:
        play.step(f"write {one}", partial(table.upsert, rows(table.schema, one)))
    del play.store.lines[lines:]
    play.store.note(f"({len(writes)} writes)")
    return table


def expiry(play: Play) -> None:
    """An expiry puts a fence first, and removes what only the snapshots that went needed."""
    table = _written(play, VECTORS, [(1, "a"), (2, "b"), (1, "c")])
    play.step("tag", lambda: table.create_tag("kept", snapshot=2))
    play.step("tag twice", lambda: table.create_tag("kept", snapshot=3))
    play.step("expire by a time before all", lambda: table.expire_snapshots(retain_last=1, older_than=1))
    play.step("what would expire", lambda: table.expire_snapshots(retain_last=1, dry_run=True))
    play.step("expire", lambda: table.expire_snapshots(retain_last=2))
    play.step("expire nothing", lambda: table.expire_snapshots(retain_last=2))
    play.step("expire by time", lambda: table.expire_snapshots(retain_last=1, older_than=play.now()))
    play.step("read the tag", lambda: table.to_arrow(tag="kept"))
    play.step("read what has gone", lambda: table.to_arrow(snapshot=1))
    play.step("write", lambda: table.upsert(rows(table.schema, (5, "e"))))
    play.step("drop the tag", lambda: table.delete_tag("kept"))
    play.step("drop it again", lambda: table.delete_tag("kept"))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def expiry_of_many(play: Play) -> None:
    """Expiries that meet others: each decides on all fences before its own."""
    table = _written(play, VECTORS, [(key, "a") for key in range(3)])

    def others_expire() -> None:
        play.others().expire_snapshots(retain_last=4)

    play.before("put fence/fence-1", others_expire)
    play.step("expire while others do", lambda: table.expire_snapshots(retain_last=2))
    play.fail("put fence/", after=True)
    play.step("expire without an answer", lambda: table.expire_snapshots(retain_last=1))


def expiry_that_died(play: Play) -> None:
    """What an expiry leaves that dies after its fence, the next one removes."""
    table = _written(play, VECTORS, [(key, "a") for key in range(3)])
    play.fail("delete snapshot/snapshot-2")
    play.step("an expiry dies", lambda: table.expire_snapshots(retain_last=2))
    play.step("read", lambda: play.open().to_arrow())
    play.step("expire", lambda: play.open().expire_snapshots(retain_last=2))


def rollbacks(play: Play) -> None:
    """A rollback ends the later snapshots by a fence; a write that was planned before is made again."""
    table = _written(play, VECTORS, [(1, "a"), (2, "b"), (1, "c")])
    play.step("tag", lambda: table.create_tag("later"))
    play.step("back, though a tag keeps a later one", lambda: table.rollback(snapshot=2))
    play.step("drop the tag", lambda: table.delete_tag("later"))
    play.before("put snapshot/snapshot-7", lambda: play.others().rollback(snapshot=4))
    play.step("write while others go back", lambda: table.upsert(rows(table.schema, (3, "d"))), show=False)
    play.step("back", lambda: table.rollback(snapshot=3))
    play.step("back to where it is", lambda: table.rollback(snapshot=3))
    play.step("read", table.to_arrow)
    play.step("write", lambda: play.open().upsert(rows(table.schema, (4, "e"))))
    play.step("orphans", lambda: len(table.remove_orphans(older_than=1 << 50, dry_run=True)))


def rollback_to_a_tag(play: Play) -> None:
    """The files of a tag whose snapshot has expired are copied, with what their vectors delete."""
    table = _written(play, VECTORS, [(1, "a"), (2, "b"), (1, "c")])
    play.step("tag", lambda: table.create_tag("kept"))
    play.step("write", lambda: table.upsert(rows(table.schema, (2, "d"))), show=False)
    play.step("expire", lambda: table.expire_snapshots(retain_last=1))
    play.step("back to the tag", lambda: table.rollback(tag="kept"))
    play.step("read", table.to_arrow)
    play.step("write", lambda: table.upsert(rows(table.schema, (2, "e"))), show=False)
    play.step("expire again", lambda: table.expire_snapshots(retain_last=1))
    play.fail("create bucket-0/")
    play.step("back on a disk that fails", lambda: table.rollback(tag="kept"))


def rollback_without_an_answer(play: Play) -> None:
    """A rollback whose fence may still come says so; the next writer heeds the fence if it is there."""
    table = _written(play, VECTORS, [(1, "a"), (2, "b")])
    play.fail("put fence/", after=True, times=2)
    play.step("back", lambda: table.rollback(snapshot=2))
    play.step("write", lambda: play.open().upsert(rows(table.schema, (3, "c"))))
    play.step("read", lambda: play.open().to_arrow())


def strays(play: Play) -> None:
    """Hints and snapshot files that others left: a repair says what it did."""
    table = _written(play, VECTORS, [(1, "a"), (2, "b")])
    snapshots = f"{play.path}/snapshot"
    os.unlink(f"{snapshots}/LATEST")
    play.step("read without a hint", lambda: play.open().to_arrow())
    with open(f"{snapshots}/LATEST", "w", encoding="utf-8") as hint:
        hint.write("1")
    play.step("read with an old hint", lambda: play.open().to_arrow())
    play.step("back", lambda: table.rollback(snapshot=2))
    play.step("repair", table.repair)
    play.step("tags", lambda: sorted(table.tags()))
    play.step("snapshots", lambda: [one.id for one in table.snapshots()])


def kept_changes(play: Play) -> None:
    """Changelogs that outlive their snapshots, and their hints."""
    options = {"changelog-producer": "lookup", "changelog.num-retained.max": "3", **VECTORS}
    table = _written(play, options, [(1, "a"), (2, "b"), (1, "c")])
    play.step("expire", lambda: table.expire_snapshots(retain_last=1))
    play.step("changes of what has expired", lambda: table.changes(3).to_arrow())
    play.step("changes that have gone", lambda: table.changes(0).to_arrow())
    play.step("write", lambda: table.upsert(rows(table.schema, (2, "d"))))
    half = f"{play.path}/changelog/changelog-6"
    with open(half, "w", encoding="utf-8") as copy:
        copy.write("{")
    play.step("expire where half a copy is", lambda: table.expire_snapshots(retain_last=1))
    play.step("changes", lambda: play.open().changes(6).to_arrow())


def input_changes(play: Play) -> None:
    """Changes as they were written."""
    _changes_expire(play, {"changelog-producer": "input", "changelog.num-retained.min": "2"})


def overwritten_changes(play: Play) -> None:
    """An overwrite records no changes: what it wrote of them before is removed."""
    table = _written(play, {"changelog-producer": "input"}, [(1, "a")])
    play.step("overwrite", lambda: table.overwrite(rows(table.schema, (2, "b"))))
    play.step("files", lambda: sorted(one.name for one in Path(play.path, "bucket-0").glob("changelog-*")))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def plain_changes(play: Play) -> None:
    """Changes of a table that records none: the files of its writes."""
    _changes_expire(play, {"changelog.time-retained": "5 h", "write-only": "true"})


def _changes_expire(play: Play, options: dict[str, str]) -> None:
    table = _written(play, options, [(1, "a"), (2, "b")])
    play.step("delete", lambda: table.delete(rows(table.schema, (1,))))
    play.step("changes", lambda: table.changes(1).to_arrow())
    play.step("tag", lambda: table.create_tag("one", snapshot=1))
    play.step("changes since a tag", lambda: table.changes("one", 2).to_arrow())
    play.step("expire", lambda: table.expire_snapshots(retain_last=1))
    play.step("changes that are kept", lambda: table.changes(1).to_arrow())
    play.step("compact fully", lambda: table.compact(full=True), show=False)
    play.step("expire again", lambda: table.expire_snapshots(retain_last=1))
    play.step("changelogs", lambda: sorted(one.name for one in Path(play.path, "changelog").glob("*")))
