"""Scripts of work that meets others or a store that fails: it is done again, given up, or ends as nobody knows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from pktable import CommitId, InvalidRequestError, Table
from pktable.catalog.read_plan import uncompacted_row_count
from pktable.ingest.changes import ChangeKind
from pktable.retry import RetryPolicy

from model_tests.backends.as_planned import commit_as_planned
from model_tests.damage.table_damage import Surgeon
from model_tests.store_work.play import VECTORS, Play, rows

FEW: Final = RetryPolicy(attempts=2)
NAMED: Final = CommitId("compactor", 1)
WRITE_ONLY: Final = {"write-only": "true"}
ROWS: Final = ([(1, "a"), (2, "b")],)
SEVERAL: Final = (*ROWS, [(3, "c")], [(1, "d")])


def _begun(
    play: Play, more: Mapping[str, str] = VECTORS, *, several: bool = False, key: str | None = "k"
) -> Table:
    """Return a table with two rows, or the rows of three writes, whose work is given up after two attempts."""
    table = play.written({**VECTORS, **more}, *(SEVERAL if several else ROWS), key=key)
    table.catalog.committer.policy = FEW
    return table


def a_faster_write(play: Play) -> None:
    """A write that lost its race is numbered again, and its compaction is planned again."""
    table = _begun(play)
    play.before("put snapshot/snapshot-3", lambda: play.others_write((2, "others")))
    play.upsert("write another key", table, (3, "c"))
    play.before("put snapshot/snapshot-7", lambda: play.others().compact(full=True))
    play.upsert("write while others compact", table, (1, "d"))
    play.step("read", table.to_arrow)


def faster_writes(play: Play) -> None:
    """A write that loses each race is given up, and leaves nothing."""
    table = _begun(play)
    for _ in range(FEW.attempts):
        play.before("put snapshot/", lambda: play.others_write((2, "others")))
    play.upsert("write", table, (3, "c"))
    for _ in range(2):
        play.before("list fence", lambda: play.others_write((1, "others")))
    play.step("update", lambda: table.update({"v": "v || '!'"}, where="k = 1"))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def a_faster_compaction(play: Play) -> None:
    """A compaction of what others have compacted is planned again, or refused as it was planned."""
    table = _begun(play, WRITE_ONLY)
    play.upsert("write", table, (1, "c"))
    play.before("put snapshot/snapshot-3", lambda: play.others().compact(full=True))
    play.step("compact", table.compact)
    play.upsert("write again", table, (1, "d"))
    staged = table.stage_compaction(full=True)
    play.others().compact(full=True)
    play.step(
        "a staged compaction, as planned",
        lambda: list(commit_as_planned(staged, NAMED).values()),
    )


def no_answer(play: Play) -> None:
    """A put whose answer is lost is looked for; on a store where it may come late it is sent again."""
    table = _begun(play)
    play.fail("put snapshot/snapshot-3", after=True)
    play.upsert("a put that was done", table, (3, "c"))
    play.fail("put snapshot/snapshot-5")
    play.upsert("a put that was not", table, (4, "d"))
    play.store.late_puts = True
    play.fail("put snapshot/snapshot-5")
    play.upsert("a put that may come late", table, (5, "e"))
    play.fail("put snapshot/", times=11)
    play.upsert("a store that is gone", table, (6, "f"))
    play.step("read", lambda: play.open().to_arrow())


def hints_that_fail(play: Play) -> None:
    """A commit does not depend on its hints."""
    table = _begun(play)
    play.fail("write snapshot/LATEST", times=2)
    play.upsert("write", table, (3, "c"))
    play.step("read", lambda: play.open().to_arrow())


def metadata_that_fails(play: Play) -> None:
    """A commit that cannot write its metadata removes what it has written."""
    table = _begun(play)
    play.fail("write manifest/manifest-list-")
    play.upsert("write", table, (3, "c"))
    play.fail("write index/")
    play.upsert("write again", table, (1, "c"))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def others_without_fences(play: Play) -> None:
    """Writers that put no fences expire and roll back: the snapshots around a put say what has become of it."""
    table = _begun(play)
    play.after("put snapshot/snapshot-3", lambda: _unlink(play, 1, 2))
    play.upsert("its base expires", table, (3, "c"))
    play.after("put snapshot/snapshot-5", lambda: _unlink(play, 4))
    play.upsert("its base is rolled back", table, (4, "d"))
    latest = table.snapshots()[-1].id

    def write_and_expire() -> None:
        play.others_write((7, "others"))
        _unlink(play, *range(1, latest + 1))

    play.after(f"put snapshot/snapshot-{latest + 1}", write_and_expire)
    play.upsert("others build on it, and its base expires", table, (5, "e"))
    play.step("read", lambda: play.open().to_arrow())


def reads_while_others_expire(play: Play) -> None:
    """A read of the latest snapshot goes on with the next one, a read of another says that it has gone."""
    table = _begun(play)

    def expire() -> None:
        play.others_write((1, "others"))
        play.others().compact(full=True)
        play.others().expire_snapshots(retain_last=1)

    play.before("open bucket-0/", expire)
    play.step("read the latest", lambda: play.open().to_arrow())
    play.upsert("write", table, (2, "c"))
    play.before("open bucket-0/", expire)
    last = table.snapshots()[-1].id
    play.step("read one", lambda: play.open().to_arrow(snapshot=last))
    play.step("by a staged write", lambda: _committed(table))


def _committed(table: Table) -> object:
    staged = table.stage_write(rows(table.schema, (9, "z")), ChangeKind(), write_only=True)
    assert staged is not None, "there is a row"
    after = staged.commit(NAMED)
    return after and after.id


def _unlink(play: Play, *snapshots: int) -> None:
    for one in snapshots:
        Path(f"{play.path}/snapshot/snapshot-{one}").unlink(missing_ok=True)


def compactions(play: Play) -> None:
    """A compaction whose buckets others change each time, or while others commit each time."""
    table = _begun(play, WRITE_ONLY, several=True)

    def change() -> None:
        play.others_write((1, "o"))
        play.others().compact(full=True)
        play.others_write((2, "p"))

    for _ in range(FEW.attempts):
        play.before("put snapshot/", change)
    play.step("its files go each time", partial(table.compact, full=True))
    play.step("rows that wait", lambda: uncompacted_row_count(table.catalog.context, table.catalog.state()))
    play.upsert("write", table, (5, "e"))
    for _ in range(FEW.attempts):
        play.before("put snapshot/", lambda: play.others_write((6, "o")))
    play.step("others commit each time", partial(table.compact, full=True))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def statements_and_appends(play: Play) -> None:
    """A statement whose rows others change each time; an append table, whose files others rewrite each time."""
    table = _begun(play, WRITE_ONLY, several=True)
    for _ in range(FEW.attempts):
        play.before("put snapshot/", lambda: play.others_write((1, "o")))
    play.step("update", partial(table.update, {"v": "'u'"}, where="k = 1"))
    play.fresh()
    table = _begun(play, {"bucket": "1", "bucket-key": "k"}, several=True, key=None)
    for _ in range(FEW.attempts):
        play.before("put snapshot/", lambda: play.others_write((9, "o")))
    play.step("delete while others append", partial(table.delete, where="k = 1"))
    play.before("put snapshot/", lambda: play.others().delete(where="k = 9"))
    play.step("delete while others delete", partial(table.delete, where="k = 1 OR k = 2"))
    play.before("put snapshot/", lambda: play.others_write((9, "o")))
    play.step("update while others append", partial(table.update, {"v": "'u'"}, where="k = 3"))
    play.before("put snapshot/", lambda: play.others_write((9, "o")))
    play.step("compact while others append", partial(table.compact, full=True))


def refused_puts(play: Play) -> None:
    """A store that can put nothing, and work that is interrupted while it puts."""
    table = _begun(play, WRITE_ONLY, several=True)
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
    table = _begun(play, WRITE_ONLY, several=True)
    large = rows(table.schema, *((key, f"{key}" * 900) for key in range(9)))
    play.fail("create bucket-0/")
    play.step("write much", partial(table.upsert, large))
    play.step("write much again", partial(table.upsert, large))
    play.fail("create bucket-0/")
    play.step("compact", partial(table.compact, full=True))
    play.fail("open bucket-0/")
    play.step("compact what cannot be read", partial(play.open().compact, full=True))
    play.step("tag", partial(table.create_tag, "kept"))
    play.step("compact fully", partial(table.compact, full=True))
    play.step("expire", partial(table.expire_snapshots, retain_last=1))
    play.fail("open bucket-0/")
    play.step("back to a tag whose files cannot be read", partial(table.rollback, tag="kept"))
    play.store.late_puts = True
    play.fail("put snapshot/", times=11)
    play.step("back, without an answer", partial(table.rollback, tag="kept"))
    play.step("tags", lambda: sorted(table.tags()))


def foreign_snapshots(play: Play) -> None:
    """Snapshots of writers that know of no fences: after a rollback the fence names those that went."""
    table = _begun(play, WRITE_ONLY, several=True)
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
    table = _begun(play, several=True, key=None)
    delete = partial(table.delete, where="k = 2")

    def append_and_unlink() -> None:
        play.others_write((9, "o"))
        _unlink(play, 1, 2, 3)

    play.after("put snapshot/snapshot-4", append_and_unlink)
    play.step("its base is gone, and others have built on it", delete)
    play.fresh()
    table = _begun(play, several=True, key=None)

    def expire() -> None:
        play.others_write((9, "o"))
        play.others().expire_snapshots(retain_last=2)

    play.after("put snapshot/snapshot-4", expire)
    play.step("its base has expired", partial(table.delete, where="k = 2"))

    def replace_and_unlink() -> None:
        play.others_write((8, "p"), (8, "q"))
        latest = play.others().snapshots()[-1].id
        _unlink(play, *range(1, latest))

    latest = table.snapshots()[-1].id
    play.before(f"put snapshot/snapshot-{latest + 1}", replace_and_unlink)
    play.step("others had its number", partial(table.delete, where="k = 3"))
    play.step("read", lambda: play.open().to_arrow())


def fences_between(play: Play) -> None:
    """A fence that comes while a put is looked at begins the look again."""
    table = _begun(play, WRITE_ONLY, several=True)

    def write_and_unlink() -> None:
        play.others_write((9, "x"), (9, "y"))
        _unlink(play, 1, 2, 3)

    play.after("put snapshot/snapshot-4", write_and_unlink)
    play.before("read snapshot/snapshot-5", lambda: play.others().expire_snapshots(retain_last=1))
    play.upsert("the next one expires", table, (4, "d"))
    latest = play.others().snapshots()[-1].id

    play.after(f"put snapshot/snapshot-{latest + 2}", lambda: _unlink(play, latest))
    play.before("list snapshot", lambda: play.others_write((9, "z")))
    play.upsert("its base expires alone", table, (5, "e"))
    play.step("read", lambda: play.open().to_arrow(fresh=True))


def tags_of_what_goes(play: Play) -> None:
    """A snapshot goes between two looks at it; a tag's manifest is gone."""
    table = _begun(play, WRITE_ONLY, several=True)
    play.before("read snapshot/snapshot-1", lambda: _unlink(play, 1), skip=1)
    play.step("tag", partial(table.create_tag, "t", snapshot=1))
    play.step("tag another", partial(table.create_tag, "u", snapshot=2))
    play.step("expire by time", partial(table.expire_snapshots, retain_last=1, older_than=1))
    surgeon = Surgeon(Path(play.path))
    play.upsert("write", table, (7, "g"))
    play.step("compact", partial(table.compact, full=True))
    play.step("expire", partial(table.expire_snapshots, retain_last=1))
    kept = table.tags()["u"]
    for name in (kept.base_manifest_list, kept.delta_manifest_list):
        for meta in surgeon.metas(name):
            (surgeon.root / "manifest" / meta.file_name).unlink(missing_ok=True)
    play.upsert("write again", table, (8, "h"))
    play.step("expire with a damaged tag", lambda: play.open().expire_snapshots(retain_last=1))
    play.step("changes from a tag", lambda: play.open().changes("u").to_arrow())
    play.step("drop the damaged tag", lambda: play.open().delete_tag("u"))
