"""Scripts of upkeep and statements that meet others at the one place where it matters."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from typing import Final

from pktable import CommitId, Table
from pktable.catalog.summaries import history

from model_tests.store_work.play import Play, rows

VECTORS: Final = {"deletion-vectors.enabled": "true", "num-levels": "4"}
NAMED: Final = CommitId("compactor", 1)


def _written(play: Play, count: int, **options: str) -> Table:
    """Return a table to which ``count`` rows were written, one by one."""
    table = play.create("k INT, v STRING", {**VECTORS, **options})
    lines = len(play.store.lines)
    for key in range(count):
        play.step("", partial(table.upsert, rows(table.schema, (key, f"{key}"))))
    del play.store.lines[lines:]
    return table


def _others(play: Play, work: Callable[[Table], object]) -> Callable[[], object]:
    return lambda: work(play.others())


def _write_and_expire(table: Table) -> None:
    table.upsert(rows(table.schema, (9, "others")))
    table.compact(full=True)
    table.expire_snapshots(retain_last=1)


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
    play.step("write", lambda: table.upsert(rows(table.schema, (7, "g"))), show=False)


def tags(play: Play) -> None:
    """A tag of a snapshot that expires meanwhile is removed again, with what only it kept."""
    table = _written(play, 3)
    play.before("put tag/", _others(play, _write_and_expire))
    play.step("tag", lambda: table.create_tag("late", snapshot=2))
    play.step("tags", lambda: sorted(table.tags()))
    first = table.snapshots()[-1].id
    for name in ("a", "b"):
        play.step("write", lambda: table.upsert(rows(table.schema, (6, "f"))), show=False)
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
    play.step("write", lambda: play.open().upsert(rows(table.schema, (8, "h"))), show=False)
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
    play.step("write", lambda: play.open().upsert(rows(table.schema, (8, "h"))))
    play.step("repair", lambda: play.open().repair())
    play.step("read", lambda: play.open().to_arrow())
    play.fail("put fence/removed-")
    play.fail("put fence/removed-")
    play.step("back again", lambda: play.open().rollback(snapshot=3))
    play.step("write again", lambda: play.open().upsert(rows(table.schema, (8, "i"))))
    play.step("snapshots", lambda: [one.id for one in play.open().snapshots()])


def strays_that_came_late(play: Play) -> None:
    """A put that arrives after its id has ended leaves a stray, which is no snapshot."""
    table = _written(play, 3)
    path = f"{play.path}/snapshot/snapshot-7"

    def roll_back() -> None:
        play.others().rollback(snapshot=4)

    play.after("put snapshot/snapshot-7", roll_back)
    play.step("write while others go back", lambda: table.upsert(rows(table.schema, (8, "h"))), show=False)
    shutil.copy(f"{play.path}/snapshot/snapshot-4", path)
    play.step("read with a stray", lambda: play.open().to_arrow())
    os.unlink(path)
    play.after("put snapshot/", _others(play, _write_and_expire))
    play.step("write while others write and expire", lambda: table.upsert(rows(table.schema, (7, "i"))))
    play.step("read", lambda: play.open().to_arrow())


def changes_while_others(play: Play) -> None:
    """A read of changes meets an expiry, or a rollback."""
    table = _written(play, 3, **{"changelog-producer": "lookup"})
    play.before("read manifest/", _others(play, _write_and_expire))
    play.step("changes while others expire", lambda: play.open().changes(2, 4).to_arrow())
    first = table.snapshots()[-1].id
    play.step("write", lambda: table.upsert(rows(table.schema, (1, "b"))), show=False)

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
    play.step("write", lambda: table.upsert(rows(table.schema, (8, "h"))), show=False)
    shutil.copy(f"{play.path}/snapshot/snapshot-5", f"{copies}/changelog-5")
    play.step("a copy is there", lambda: play.open().expire_snapshots(retain_last=1))
    shutil.rmtree(copies)
    os.makedirs(copies)
    for hint in ("EARLIEST", "LATEST"):
        with open(f"{copies}/{hint}", "w", encoding="utf-8") as file:
            file.write("1")
    play.step("write again", lambda: table.upsert(rows(table.schema, (8, "i"))), show=False)
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
    play.step("write", lambda: table.upsert(rows(table.schema, (0, "a"), (1, "b"), (2, "c"), (3, "d"))))
    other = table.stage_compaction(full=False)
    play.step("commit the second", lambda: list(other.commit_as_planned(NAMED).values()))
    play.step("commit the first", lambda: list(one.commit_as_planned(NAMED).values()))
    play.step("write once more", lambda: table.upsert(rows(table.schema, (0, "e"), (3, "f"))))
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
        for value in values:
            play.others().upsert(rows(table.schema, (9, value)))
        for number in (*range(1, mine), *gone):
            if os.path.exists(f"{path}{number}"):
                os.unlink(f"{path}{number}")

    play.after("put snapshot/snapshot-4", lambda: write_and_expire(4, 4, 5))
    play.step("it has expired with the next one", lambda: table.upsert(rows(table.schema, (4, "d"))))
    last = play.others().snapshots()[-1].id
    late = lambda: write_and_expire(last + 1, last + 1)  # noqa: E731
    play.before(f"put snapshot/snapshot-{last + 1}", late)
    play.step(
        "it comes when others have had its number", lambda: play.open().upsert(rows(table.schema, (5, "e")))
    )
    number = play.others().snapshots()[-1].id + 1
    play.before(
        f"put snapshot/snapshot-{number}",
        lambda: write_and_expire(number, number, number + 1, values="xyz"),
    )
    play.step("it comes when others have had two", lambda: play.open().upsert(rows(table.schema, (5, "f"))))
    next_one = play.others().snapshots()[-1].id + 1

    def expire_and_fence() -> None:
        write_and_expire(next_one)
        play.others().expire_snapshots(retain_last=1)

    play.after(f"put snapshot/snapshot-{next_one}", expire_and_fence)
    play.step("a fence came, too", lambda: play.open().upsert(rows(table.schema, (6, "f"))))
    play.step("snapshots", lambda: [one.id for one in play.open().snapshots()])
