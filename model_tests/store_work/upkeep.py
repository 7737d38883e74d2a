"""Scripts of tags, expiries, rollbacks, changelogs and statements, alone and where they meet others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from pktable import CommitId, Table
from pktable.catalog.summaries import history

from model_tests.backends.as_planned import commit_as_planned
from model_tests.store_work.play import VECTORS, Play, rows

NAMED: Final = CommitId("compactor", 1)


def _written(play: Play, count: int, **options: str) -> Table:
    """Return a table to which ``count`` rows were written, one by one."""
    return play.written({**VECTORS, **options}, *([(key, f"{key}")] for key in range(count)))


def _others(play: Play, work: Callable[[Table], object]) -> Callable[[], object]:
    return lambda: work(play.others())


def _write_and_expire(table: Table) -> None:
    table.upsert(rows(table.schema, (9, "others")))
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)


def expiry(play: Play) -> None:
    """An expiry puts a fence first, and removes what only the snapshots that went needed."""
    table = play.written(VECTORS, [(1, "a")], [(2, "b")], [(1, "c")])
    play.step("tag", lambda: table.create_tag("kept", snapshot=2))
    play.step("tag twice", lambda: table.create_tag("kept", snapshot=3))
    play.step("expire by a time before all", lambda: table.expire_snapshots(retain_last=1, older_than=1))
    play.step("what would expire", lambda: table.expire_snapshots(retain_last=1, dry_run=True))
    play.step("expire", lambda: table.expire_snapshots(retain_last=2))
    play.step("expire nothing", lambda: table.expire_snapshots(retain_last=2))
    play.step("expire by time", lambda: table.expire_snapshots(retain_last=1, older_than=play.now()))
    play.step("read the tag", lambda: table.to_arrow(tag="kept"))
    play.step("read what has gone", lambda: table.to_arrow(snapshot=1))
    play.upsert("write", table, (5, "e"))
    play.step("drop the tag", lambda: table.delete_tag("kept"))
    play.step("drop it again", lambda: table.delete_tag("kept"))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def expiry_of_many(play: Play) -> None:
    """Expiries that meet others: each decides on all fences before its own."""
    table = _written(play, 3)
    play.before("put fence/fence-1", lambda: play.others().expire_snapshots(retain_last=4))
    play.step("expire while others do", lambda: table.expire_snapshots(retain_last=2))
    play.fail("put fence/", after=True)
    play.step("expire without an answer", lambda: table.expire_snapshots(retain_last=1))


def rollbacks(play: Play) -> None:
    """A rollback ends the later snapshots by a fence; a write that was planned before is made again."""
    table = play.written(VECTORS, [(1, "a")], [(2, "b")], [(1, "c")])
    play.step("tag", lambda: table.create_tag("later"))
    play.step("back, though a tag keeps a later one", lambda: table.rollback(snapshot=2))
    play.step("drop the tag", lambda: table.delete_tag("later"))
    play.before("put snapshot/snapshot-7", lambda: play.others().rollback(snapshot=4))
    play.upsert("write while others go back", table, (3, "d"))
    play.step("back", lambda: table.rollback(snapshot=3))
    play.step("back to where it is", lambda: table.rollback(snapshot=3))
    play.step("read", table.to_arrow)
    play.upsert("write", play.open(), (4, "e"))
    play.step("orphans", lambda: len(table.remove_orphans(older_than=1 << 50, dry_run=True)))


def rollback_to_a_tag(play: Play) -> None:
    """The files of a tag whose snapshot has expired are copied, with what their vectors delete."""
    table = play.written(VECTORS, [(1, "a")], [(2, "b")], [(1, "c")])
    play.step("tag", lambda: table.create_tag("kept"))
    play.upsert("write", table, (2, "d"))
    play.step("expire", lambda: table.expire_snapshots(retain_last=1))
    play.step("back to the tag", lambda: table.rollback(tag="kept"))
    play.step("read", table.to_arrow)
    play.upsert("write", table, (2, "e"))
    play.step("expire again", lambda: table.expire_snapshots(retain_last=1))
    play.fail("create bucket-0/")
    play.step("back on a disk that fails", lambda: table.rollback(tag="kept"))


def rollback_without_an_answer(play: Play) -> None:
    """A rollback whose fence may still come says so; the next writer heeds the fence if it is there."""
    table = play.written(VECTORS, [(1, "a")], [(2, "b")])
    play.fail("put fence/", after=True, times=2)
    play.step("back", lambda: table.rollback(snapshot=2))
    play.upsert("write", play.open(), (3, "c"))
    play.step("read", lambda: play.open().to_arrow())


def strays(play: Play) -> None:
    """Hints and snapshot files that others left: a repair says what it did."""
    table = play.written(VECTORS, [(1, "a")], [(2, "b")])
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
    table = play.written(options, [(1, "a")], [(2, "b")], [(1, "c")])
    play.step("expire", lambda: table.expire_snapshots(retain_last=1))
    play.step("changes of what has expired", lambda: table.changes(3).to_arrow())
    play.step("changes that have gone", lambda: table.changes(0).to_arrow())
    play.upsert("write", table, (2, "d"))
    half = f"{play.path}/changelog/changelog-6"
    with open(half, "w", encoding="utf-8") as copy:
        copy.write("{")
    play.step("expire where half a copy is", lambda: table.expire_snapshots(retain_last=1))
    play.step("changes", lambda: play.open().changes(6).to_arrow())


def input_changes(play: Play) -> None:
    """Changes as they were written."""
    _changes_expire(play, {"changelog-producer": "input", "changelog.num-retained.min": "2"})


def plain_changes(play: Play) -> None:
    """Changes of a table that records none: the files of its writes."""
    _changes_expire(play, {"changelog.time-retained": "5 h", "write-only": "true"})


def _changes_expire(play: Play, options: dict[str, str]) -> None:
    table = play.written(options, [(1, "a")], [(2, "b")])
    play.step("delete", lambda: table.delete(rows(table.schema, (1,))))
    play.step("changes", lambda: table.changes(1).to_arrow())
    play.step("tag", lambda: table.create_tag("one", snapshot=1))
    play.step("changes since a tag", lambda: table.changes("one", 2).to_arrow())
    play.step("expire", lambda: table.expire_snapshots(retain_last=1))
    play.step("changes that are kept", lambda: table.changes(1).to_arrow())
    play.step("compact fully", lambda: table.compact(full=True))
    play.step("expire again", lambda: table.expire_snapshots(retain_last=1))
    play.step("changelogs", lambda: sorted(one.name for one in Path(play.path, "changelog").glob("*")))


def summaries(play: Play) -> None:
    """The snapshots in numbers, while others expire some of them."""
    table = _written(play, 3)
    play.before("read snapshot/snapshot-3", _others(play, lambda one: one.expire_snapshots(retain_last=2)))

    def numbers() -> list[tuple[object, ...]]:
        found = history(play.open().catalog)
        return [(one.id, one.kind, one.records, one.files, one.vectors, one.deleted_rows) for one in found]

    play.step("numbers", numbers)
    play.step("numbers again", numbers)
    play.before("read manifest/", _others(play, _write_and_expire))
    play.step("numbers of what expires", numbers)
    play.upsert("write", table, (7, "g"))


def tags(play: Play) -> None:
    """A tag of a snapshot that expires meanwhile is removed again, with what only it kept."""
    table = _written(play, 3)
    play.before("put tag/", _others(play, _write_and_expire))
    play.step("tag", lambda: table.create_tag("late", snapshot=2))
    play.step("tags", lambda: sorted(table.tags()))
    first = table.snapshots()[-1].id
    for name in ("a", "b"):
        play.upsert("write", table, (6, "f"))
        play.step("tag", partial(table.create_tag, name))
    play.before("read tag/tag-b", _others(play, lambda one: one.delete_tag("b")))
    play.step("an expiry while a tag goes", lambda: table.expire_snapshots(retain_last=3))
    play.before("read tag/tag-a", _others(play, lambda one: one.delete_tag("a")))
    play.step("a rollback while a tag goes", lambda: table.rollback(snapshot=first + 2))
    play.before("read snapshot/", _others(play, _write_and_expire))
    play.step("a tag of what expires first", lambda: play.open().create_tag("c", snapshot=1))


def rollbacks_that_meet(play: Play) -> None:
    """Of two rollbacks each decides on the fence of the other."""
    table = _written(play, 4)
    play.before("put fence/", _others(play, lambda one: one.rollback(snapshot=5)))
    play.step("back while others go back less far", lambda: table.rollback(snapshot=3))
    play.before("read snapshot/snapshot-3", _others(play, lambda one: one.rollback(snapshot=2)))
    play.step("back to what others rolled back", lambda: table.rollback(snapshot=3))
    play.upsert("write", play.open(), (8, "h"))
    last = table.snapshots()[-1].id
    path = f"{play.path}/snapshot/snapshot-{last}"
    play.before(f"read snapshot/snapshot-{last}", lambda: os.unlink(path), skip=1)
    play.step("back while the last one goes", lambda: table.rollback(snapshot=1))
    play.step("read", lambda: play.open().to_arrow())


def rollbacks_that_died(play: Play) -> None:
    """What a rollback left that died, the next committer removes or waits for."""
    table = _written(play, 3)
    play.fail("delete snapshot/snapshot-6")
    play.step("back", lambda: table.rollback(snapshot=4))
    play.upsert("write", play.open(), (8, "h"))
    play.step("repair", lambda: play.open().repair())
    play.step("read", lambda: play.open().to_arrow())
    play.fail("put fence/removed-")
    play.fail("put fence/removed-")
    play.step("back again", lambda: play.open().rollback(snapshot=3))
    play.upsert("write again", play.open(), (8, "i"))
    play.step("snapshots", lambda: [one.id for one in play.open().snapshots()])


def strays_that_came_late(play: Play) -> None:
    """A put that arrives after its id has ended leaves a stray, which is no snapshot."""
    table = _written(play, 3)
    path = f"{play.path}/snapshot/snapshot-7"
    play.after("put snapshot/snapshot-7", lambda: play.others().rollback(snapshot=4))
    play.upsert("write while others go back", table, (8, "h"))
    shutil.copy(f"{play.path}/snapshot/snapshot-4", path)
    play.step("read with a stray", lambda: play.open().to_arrow())
    os.unlink(path)
    play.after("put snapshot/", _others(play, _write_and_expire))
    play.upsert("write while others write and expire", table, (7, "i"))
    play.step("read", lambda: play.open().to_arrow())


def changes_while_others(play: Play) -> None:
    """A read of changes meets an expiry, or a rollback."""
    table = _written(play, 3, **{"changelog-producer": "lookup"})
    play.before("read manifest/", _others(play, _write_and_expire))
    play.step("changes while others expire", lambda: play.open().changes(2, 4).to_arrow())
    first = table.snapshots()[-1].id
    play.upsert("write", table, (1, "b"))

    def roll_back_and_write() -> None:
        play.others().rollback(snapshot=first)
        other = play.others()
        other.remove_orphans(older_than=1 << 50)
        other.upsert(rows(table.schema, (1, "c")))

    play.before("read manifest/", roll_back_and_write)
    play.step("changes while others go back", lambda: play.open().changes(first).to_arrow())
    play.step("changes", lambda: play.open().changes(first).to_arrow())


def kept_copies(play: Play) -> None:
    """Copies of expired snapshots: those that died expiries left, and those of writers without fences."""
    table = _written(play, 3, **{"changelog-producer": "lookup", "changelog.num-retained.max": "9"})
    play.fail("delete snapshot/snapshot-1")
    play.step("an expiry dies", lambda: table.expire_snapshots(retain_last=2))
    play.step("changes of what it left", lambda: play.open().changes(2, 5).to_arrow())
    copies = f"{play.path}/changelog"
    shutil.copy(f"{copies}/changelog-2", f"{copies}/changelog-3")
    play.step("the next one finds another copy", lambda: play.open().expire_snapshots(retain_last=2))
    play.step("copies", lambda: sorted(os.listdir(copies)))
    play.upsert("write", table, (8, "h"))
    shutil.copy(f"{play.path}/snapshot/snapshot-5", f"{copies}/changelog-5")
    play.step("a copy is there", lambda: play.open().expire_snapshots(retain_last=1))
    shutil.rmtree(copies)
    os.makedirs(copies)
    for hint in ("EARLIEST", "LATEST"):
        with open(f"{copies}/{hint}", "w", encoding="utf-8") as file:
            file.write("1")
    play.upsert("write again", table, (8, "i"))
    table = play.others()
    play.step("copies were lost", lambda: play.open().expire_snapshots(retain_last=3))


def statements(play: Play) -> None:
    """A statement is computed again if others changed what it read, also where they leave no trace of how."""
    table = _written(play, 3)
    update = partial(table.update, {"v": "v || '!'"}, where="k = 1")
    play.before("put snapshot/", _others(play, lambda one: one.upsert(rows(one.schema, (1, "o")))))
    play.step("update what others write", update)
    play.before("put snapshot/", _others(play, lambda one: one.upsert(rows(one.schema, (2, "o")))))
    play.step("update next to what others write", update)
    play.before("put snapshot/", _others(play, _write_and_expire))
    play.step("update while others expire", update)
    play.before("put snapshot/", _others(play, lambda one: one.truncate()))
    play.step("update while others truncate", update)
    play.step("read", table.to_arrow)


def compactions_that_meet(play: Play) -> None:
    """Two compactions that add to one level, or whose vectors are of files that are gone."""
    table = _written(
        play, 2, **{"write-only": "true", "bucket": "2", "num-sorted-run.compaction-trigger": "2"}
    )
    one = table.stage_compaction(full=False)
    play.upsert("write", table, (0, "a"), (1, "b"), (2, "c"), (3, "d"))
    other = table.stage_compaction(full=False)
    play.step("commit the second", lambda: list(commit_as_planned(other, NAMED).values()))
    play.step("commit the first", lambda: list(commit_as_planned(one, NAMED).values()))
    play.upsert("write once more", table, (0, "e"), (3, "f"))
    again = table.stage_compaction(full=True)
    other_handle = play.others()
    other_handle.compact(full=False)
    other_handle.upsert(rows(table.schema, (0, "g"), (3, "h")))
    play.step("commit what is planned again", lambda: state.id if (state := again.commit(NAMED)) else None)
    play.step("read", lambda: play.open().to_arrow())


def foreign_expiries(play: Play) -> None:
    """Writers without fences commit on top of a snapshot and expire it before its put is looked at again."""
    table = _written(play, 3, **{"write-only": "true"})
    path = f"{play.path}/snapshot/snapshot-"

    def write_and_expire(mine: int, *gone: int, values: str = "xy") -> None:
        play.others_write(*((9, value) for value in values))
        for number in (*range(1, mine), *gone):
            Path(f"{path}{number}").unlink(missing_ok=True)

    play.after("put snapshot/snapshot-4", lambda: write_and_expire(4, 4, 5))
    play.upsert("it has expired with the next one", table, (4, "d"))
    last = play.others().snapshots()[-1].id
    play.before(f"put snapshot/snapshot-{last + 1}", lambda: write_and_expire(last + 1, last + 1))
    play.upsert("it comes when others have had its number", play.open(), (5, "e"))
    number = play.others().snapshots()[-1].id + 1
    play.before(
        f"put snapshot/snapshot-{number}",
        lambda: write_and_expire(number, number, number + 1, values="xyz"),
    )
    play.upsert("it comes when others have had two", play.open(), (5, "f"))
    next_one = play.others().snapshots()[-1].id + 1

    def expire_and_fence() -> None:
        write_and_expire(next_one)
        play.others().expire_snapshots(retain_last=1)

    play.after(f"put snapshot/snapshot-{next_one}", expire_and_fence)
    play.upsert("a fence came, too", play.open(), (6, "f"))
    play.step("snapshots", lambda: [one.id for one in play.open().snapshots()])
