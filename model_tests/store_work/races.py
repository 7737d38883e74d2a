"""Scripts of writes and compactions that meet others, or whose store does not answer."""

from __future__ import annotations

import os
from typing import Final

from pktable import CommitId, Table
from pktable.ingest.changes import ChangeKind
from pktable.retry import RetryPolicy

from model_tests.store_work.play import Play, rows

VECTORS: Final = {"deletion-vectors.enabled": "true", "num-levels": "4"}
FEW: Final = RetryPolicy(attempts=3)
NAMED: Final = CommitId("compactor", 1)


def _begun(play: Play, **options: str) -> Table:
    """Return a table with two rows at the greatest level."""
    table = play.create("k INT, v STRING", {**VECTORS, **options})
    lines = len(play.store.lines)
    play.step("write", lambda: table.upsert(rows(table.schema, (1, "a"), (2, "b"))))
    del play.store.lines[lines:]
    table.stager.policy = table.catalog.committer.policy = FEW
    return table


def _others_write(play: Play, key: int = 2, value: str = "others") -> None:
    table = play.others()
    table.upsert(rows(table.schema, (key, value)))


def a_faster_write(play: Play) -> None:
    """A write that lost its race is numbered again, and its compaction is planned again."""
    table = _begun(play)
    play.before("put snapshot/snapshot-3", lambda: _others_write(play))
    play.step("write another key", lambda: table.upsert(rows(table.schema, (3, "c"))))
    play.before("put snapshot/snapshot-7", lambda: play.others().compact(full=True))
    play.step("write while others compact", lambda: table.upsert(rows(table.schema, (1, "d"))))
    play.step("read", table.to_arrow)


def faster_writes(play: Play) -> None:
    """A write that loses each race is given up, and leaves nothing."""
    table = _begun(play)
    for _ in range(FEW.attempts):
        play.before("put snapshot/", lambda: _others_write(play))
    play.step("write", lambda: table.upsert(rows(table.schema, (3, "c"))))
    for _ in range(4):
        play.before("list fence", lambda: _others_write(play, 1))
    play.step("update", lambda: table.update({"v": "v || '!'"}, where="k = 1"))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def a_faster_compaction(play: Play) -> None:
    """A compaction of what others have compacted is planned again, or refused as it was planned."""
    table = _begun(play, **{"write-only": "true"})
    play.step("write", lambda: table.upsert(rows(table.schema, (1, "c"))), show=False)
    play.before("put snapshot/snapshot-3", lambda: play.others().compact(full=True))
    play.step("compact", table.compact)
    play.step("write again", lambda: table.upsert(rows(table.schema, (1, "d"))), show=False)
    staged = table.stage_compaction(full=True)
    play.others().compact(full=True)
    play.step(
        "a staged compaction, as planned",
        lambda: list(staged.commit_as_planned(NAMED).values()),
    )


def no_answer(play: Play) -> None:
    """A put whose answer is lost is looked for; on a store where it may come late it is sent again."""
    table = _begun(play)
    play.fail("put snapshot/snapshot-3", after=True)
    play.step("a put that was done", lambda: table.upsert(rows(table.schema, (3, "c"))), show=False)
    play.fail("put snapshot/snapshot-5")
    play.step("a put that was not", lambda: table.upsert(rows(table.schema, (4, "d"))))
    play.store.late_puts = True
    play.fail("put snapshot/snapshot-5")
    play.step("a put that may come late", lambda: table.upsert(rows(table.schema, (5, "e"))), show=False)
    play.fail("put snapshot/", times=11)
    play.step("a store that is gone", lambda: table.upsert(rows(table.schema, (6, "f"))))
    play.step("read", lambda: play.open().to_arrow())


def hints_that_fail(play: Play) -> None:
    """A commit does not depend on its hints."""
    table = _begun(play)
    play.fail("write snapshot/LATEST", times=2)
    play.step("write", lambda: table.upsert(rows(table.schema, (3, "c"))))
    play.step("read", lambda: play.open().to_arrow())


def metadata_that_fails(play: Play) -> None:
    """A commit that cannot write its metadata removes what it has written."""
    table = _begun(play)
    play.fail("write manifest/manifest-list-")
    play.step("write", lambda: table.upsert(rows(table.schema, (3, "c"))))
    play.fail("write index/")
    play.step("write again", lambda: table.upsert(rows(table.schema, (1, "c"))))
    play.step("orphans", lambda: table.remove_orphans(older_than=1 << 50, dry_run=True))


def others_without_fences(play: Play) -> None:
    """Writers that put no fences expire and roll back: the snapshots around a put say what has become of it."""
    table = _begun(play)
    snapshot = f"{play.path}/snapshot/snapshot-"

    def expire() -> None:
        for number in (1, 2):
            os.unlink(f"{snapshot}{number}")

    play.after("put snapshot/snapshot-3", expire)
    play.step("its base expires", lambda: table.upsert(rows(table.schema, (3, "c"))), show=False)

    def roll_back() -> None:
        os.unlink(f"{snapshot}4")

    play.after("put snapshot/snapshot-5", roll_back)
    play.step("its base is rolled back", lambda: table.upsert(rows(table.schema, (4, "d"))), show=False)
    latest = table.snapshots()[-1].id

    def write_and_expire() -> None:
        _others_write(play, 7)
        for number in range(1, latest + 1):
            if os.path.exists(f"{snapshot}{number}"):
                os.unlink(f"{snapshot}{number}")

    play.after(f"put snapshot/snapshot-{latest + 1}", write_and_expire)
    play.step("others build on it, and its base expires", lambda: table.upsert(rows(table.schema, (5, "e"))))
    play.step("read", lambda: play.open().to_arrow())


def reads_while_others_expire(play: Play) -> None:
    """A read of the latest snapshot goes on with the next one, a read of another says that it has gone."""
    table = _begun(play)

    def expire() -> None:
        _others_write(play, 1)
        play.others().compact(full=True)
        play.others().expire_snapshots(retain_last=1)

    play.before("open bucket-0/", expire)
    play.step("read the latest", lambda: play.open().to_arrow())
    play.step("write", lambda: table.upsert(rows(table.schema, (2, "c"))), show=False)
    play.before("open bucket-0/", expire)
    last = table.snapshots()[-1].id
    play.step("read one", lambda: play.open().to_arrow(snapshot=last))
    play.step("by a staged write", lambda: _committed(table))


def _committed(table: Table) -> object:
    staged = table.stage_write(rows(table.schema, (9, "z")), ChangeKind(), write_only=True)
    assert staged is not None, "there is a row"
    return staged.commit(NAMED).id
