"""Scripts of work that is given up, or whose end nobody knows: after each try others were faster, or a store failed."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Final

from pktable import CommitId, InvalidRequestError, Table
from pktable.catalog.read_plan import uncompacted_row_count
from pktable.retry import RetryPolicy

from model_tests.damage.table_damage import Surgeon
from model_tests.store_work.play import Play, rows

VECTORS: Final = {"deletion-vectors.enabled": "true", "num-levels": "4"}
FEW: Final = RetryPolicy(attempts=2)
NAMED: Final = CommitId("compactor", 1)


def _begun(play: Play, options: dict[str, str], *, key: str | None = "k") -> Table:
    """Return a table with some rows, whose work is given up after two attempts."""
    table = play.create("k INT, v STRING", options, primary_key=key)
    lines = len(play.store.lines)
    write = table.upsert if key else table.append
    for some in ([(1, "a"), (2, "b")], [(3, "c")], [(1, "d")]):
        play.step("", partial(write, rows(table.schema, *some)))
    del play.store.lines[lines:]
    table.stager.policy = table.catalog.committer.policy = FEW
    return table


def _unlink(play: Play, *snapshots: int) -> None:
    for one in snapshots:
        Path(f"{play.path}/snapshot/snapshot-{one}").unlink(missing_ok=True)


def compactions(play: Play) -> None:
    """A compaction whose buckets others change each time, or while others commit each time."""
    table = _begun(play, {**VECTORS, "write-only": "true"})

    def change() -> None:
        play.others().upsert(rows(table.schema, (1, "o")))
        play.others().compact(full=True)
        play.others().upsert(rows(table.schema, (2, "p")))

    for _ in range(FEW.attempts):
        play.before("put snapshot/", change)
    play.step("its files go each time", partial(table.compact, full=True))
    play.step("rows that wait", lambda: uncompacted_row_count(table.catalog.context, table.catalog.state()))
    play.step("write", lambda: table.upsert(rows(table.schema, (5, "e"))), show=False)
    for _ in range(FEW.attempts):
        play.before("put snapshot/", lambda: play.others().upsert(rows(table.schema, (6, "o"))))
    play.step("others commit each time", partial(table.compact, full=True))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def statements_and_appends(play: Play) -> None:
    """A statement whose rows others change each time; an append table, whose files others rewrite each time."""
    table = _begun(play, {**VECTORS, "write-only": "true"})
    for _ in range(FEW.attempts):
        play.before("put snapshot/", lambda: play.others().upsert(rows(table.schema, (1, "o"))))
    play.step("update", partial(table.update, {"v": "'u'"}, where="k = 1"))
    play.fresh()
    table = _begun(play, {**VECTORS, "bucket": "1", "bucket-key": "k"}, key=None)
    for _ in range(FEW.attempts):
        play.before("put snapshot/", lambda: play.others().append(rows(table.schema, (9, "o"))))
    play.step("delete while others append", partial(table.delete, where="k = 1"))
    play.before("put snapshot/", lambda: play.others().delete(where="k = 9"))
    play.step("delete while others delete", partial(table.delete, where="k = 1 OR k = 2"))
    play.before("put snapshot/", lambda: play.others().append(rows(table.schema, (9, "o"))))
    play.step("update while others append", partial(table.update, {"v": "'u'"}, where="k = 3"))
    play.before("put snapshot/", lambda: play.others().append(rows(table.schema, (9, "o"))))
    play.step("compact while others append", partial(table.compact, full=True))


def refused_puts(play: Play) -> None:
    """A store that can put nothing, and work that is interrupted while it puts."""
    table = _begun(play, {**VECTORS, "write-only": "true"})
    write = partial(table.upsert, rows(table.schema, (5, "e")))
    play.fail("put snapshot/", error=InvalidRequestError("a store that cannot put"))
    play.step("a put that is refused", write)
    play.fail("put snapshot/", error=PermissionError(13, "Permission denied"))
    play.step("a put that is not permitted", write)
    play.fail("put snapshot/", error=KeyboardInterrupt())
    play.step("an interrupt before the put", write)
    play.fail("put snapshot/", after=True, error=KeyboardInterrupt())
    play.step("an interrupt after the put", write)
    play.store.late_puts = True
    play.fail("put snapshot/", error=KeyboardInterrupt())
    play.step("an interrupt of a put that may come late", write)
    play.fail("write manifest/", error=KeyboardInterrupt())
    play.step("an interrupt of the metadata", write)
    play.step("read", lambda: play.open().to_arrow(fresh=True))


def failing_rewrites(play: Play) -> None:
    """Files that cannot be made or read end the work, and nothing is left of it."""
    table = _begun(play, {**VECTORS, "write-only": "true"})
    large = rows(table.schema, *((key, f"{key}" * 900) for key in range(9)))
    play.fail("create bucket-0/")
    play.step("write much", partial(table.upsert, large))
    play.step("write much again", partial(table.upsert, large), show=False)
    play.fail("create bucket-0/")
    play.step("compact", partial(table.compact, full=True))
    play.fail("open bucket-0/")
    play.step("compact what cannot be read", partial(play.open().compact, full=True))
    play.step("tag", partial(table.create_tag, "kept"))
    play.step("compact fully", partial(table.compact, full=True), show=False)
    play.step("expire", partial(table.expire_snapshots, retain_last=1))
    play.fail("open bucket-0/")
    play.step("back to a tag whose files cannot be read", partial(table.rollback, tag="kept"))
    play.store.late_puts = True
    play.fail("put snapshot/", times=11)
    play.step("back, without an answer", partial(table.rollback, tag="kept"))
    play.step("tags", lambda: sorted(table.tags()))


def foreign_snapshots(play: Play) -> None:
    """Snapshots of writers that know of no fences: after a rollback the fence names those that went."""
    table = _begun(play, {**VECTORS, "write-only": "true"})
    surgeon = Surgeon(Path(play.path))
    for number in surgeon.snapshots():
        surgeon.edit_snapshot(number, fence=None)
    kept = f"{play.path}/snapshot-kept"
    shutil.copy(f"{play.path}/snapshot/snapshot-3", kept)
    play.step("back", lambda: play.open().rollback(snapshot=2))
    shutil.copy(kept, f"{play.path}/snapshot/snapshot-3")
    play.step("read, though what was rolled back is there", lambda: play.open().to_arrow(fresh=True))
    play.step("write", lambda: play.open().upsert(rows(table.schema, (7, "g"))))
    _unlink(play, 3)
    play.step("write again", lambda: play.open().upsert(rows(table.schema, (8, "h"))))
    surgeon.edit_snapshot(surgeon.snapshots()[-1], fence=None)
    os.unlink(f"{play.path}/fence/fence-1")
    play.step("read without the fence", lambda: play.open().to_arrow(fresh=True))


def vectors_alone(play: Play) -> None:
    """A commit of vectors alone, whose base others end: what was built on it may be built on another one."""
    table = _begun(play, VECTORS, key=None)
    delete = partial(table.delete, where="k = 2")

    def append_and_unlink() -> None:
        play.others().append(rows(table.schema, (9, "o")))
        _unlink(play, 1, 2, 3)

    play.after("put snapshot/snapshot-4", append_and_unlink)
    play.step("its base is gone, and others have built on it", delete)
    play.fresh()
    table = _begun(play, VECTORS, key=None)

    def expire() -> None:
        play.others().append(rows(table.schema, (9, "o")))
        play.others().expire_snapshots(retain_last=2)

    play.after("put snapshot/snapshot-4", expire)
    play.step("its base has expired", partial(table.delete, where="k = 2"))

    def replace_and_unlink() -> None:
        play.others().append(rows(table.schema, (8, "p")))
        play.others().append(rows(table.schema, (8, "q")))
        latest = play.others().snapshots()[-1].id
        _unlink(play, *range(1, latest))

    latest = table.snapshots()[-1].id
    play.before(f"put snapshot/snapshot-{latest + 1}", replace_and_unlink)
    play.step("others had its number", partial(table.delete, where="k = 3"))
    play.step("read", lambda: play.open().to_arrow())


def fences_between(play: Play) -> None:
    """A fence that comes while a put is looked at begins the look again."""
    table = _begun(play, {**VECTORS, "write-only": "true"})

    def write_and_unlink() -> None:
        for value in "xy":
            play.others().upsert(rows(table.schema, (9, value)))
        _unlink(play, 1, 2, 3)

    play.after("put snapshot/snapshot-4", write_and_unlink)
    play.before("read snapshot/snapshot-5", lambda: play.others().expire_snapshots(retain_last=1))
    play.step("the next one expires", lambda: table.upsert(rows(table.schema, (4, "d"))))
    latest = play.others().snapshots()[-1].id

    def unlink_base() -> None:
        _unlink(play, latest)

    play.after(f"put snapshot/snapshot-{latest + 2}", unlink_base)
    play.before("list snapshot", lambda: play.others().upsert(rows(table.schema, (9, "z"))))
    play.step("its base expires alone", lambda: table.upsert(rows(table.schema, (5, "e"))))
    play.step("read", lambda: play.open().to_arrow(fresh=True))


def tags_of_what_goes(play: Play) -> None:
    """A snapshot goes between two looks at it; a tag's manifest is gone."""
    table = _begun(play, {**VECTORS, "write-only": "true"})
    play.before("read snapshot/snapshot-1", lambda: _unlink(play, 1), skip=1)
    play.step("tag", partial(table.create_tag, "t", snapshot=1))
    play.step("tag another", partial(table.create_tag, "u", snapshot=2))
    play.step("expire by time", partial(table.expire_snapshots, retain_last=1, older_than=1))
    surgeon = Surgeon(Path(play.path))
    play.step("write", lambda: table.upsert(rows(table.schema, (7, "g"))), show=False)
    play.step("compact", partial(table.compact, full=True), show=False)
    play.step("expire", partial(table.expire_snapshots, retain_last=1))
    kept = table.tags()["u"]
    for name in (kept.base_manifest_list, kept.delta_manifest_list):
        for meta in surgeon.metas(name):
            (surgeon.root / "manifest" / meta.file_name).unlink(missing_ok=True)
    play.step("write again", lambda: table.upsert(rows(table.schema, (8, "h"))), show=False)
    play.step("expire with a damaged tag", lambda: play.open().expire_snapshots(retain_last=1))
    play.step("changes from a tag", lambda: play.open().changes("u").to_arrow())
    play.step("drop the damaged tag", lambda: play.open().delete_tag("u"))
