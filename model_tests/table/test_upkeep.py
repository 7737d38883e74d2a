"""Commits that expire snapshots: which ones, what they leave alone, and that they never fail because of it."""

from __future__ import annotations

import logging
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pktable
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable import CompactionFailedError, InvalidRequestError, Table
from pktable.catalog.changes import CommitId
from pktable.catalog.commit import CommittedError
from pktable.catalog.fences import FenceTakenError
from pktable.catalog.holds import Retained
from pktable.catalog.state import TableState
from pktable.staged_write import StagedWrite
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError
from pktable_spec.options import parse_options

HOUR = 60 * 60 * 1000
NEWEST_TWO = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "2"}
DAMAGE = CorruptFileError("it", at="there", expected="this", found="that")
ROWS = pa.table({"id": pa.array([1], pa.int32())})


def table_of(path: Path, options: dict[str, str], *, key: bool = True) -> Table:
    return Table.create(path, "id INT", primary_key=["id"] if key else [], options=options)


def ids(table: Table) -> list[int]:
    return [snapshot.id for snapshot in table.snapshots()]


def kept_by_paimon(ages: list[int], least: int, most: int, retained: int, limit: int) -> list[int]:
    """Return which snapshots stay, from the ages of snapshots 1, 2, …: ids first, as Paimon's ExpireSnapshotsImpl."""
    latest = len(ages)
    first = max(latest - most + 1, 1)
    end = min(latest - least + 1, 1 + limit)
    for one in range(1, end):
        if one >= first and ages[one - 1] <= retained:
            return list(range(one, latest + 1))
    return list(range(max(end, 1), latest + 1))


@covers("CMT-63")
@given(
    steps=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    least=st.integers(1, 4),
    more=st.integers(0, 4),
    retained=st.integers(0, 12),
    limit=st.integers(1, 4),
)
def test_the_same_snapshots_stay_as_in_paimon(
    steps: list[int], least: int, more: int, retained: int, limit: int
) -> None:
    ages = [sum(steps[at:]) for at in range(len(steps))]  # the first is the oldest
    now = 1_000
    asked = Retained.asked_for(
        parse_options(
            {
                "snapshot.num-retained.min": str(least),
                "snapshot.num-retained.max": str(least + more),
                "snapshot.time-retained": f"{retained} ms",
                "snapshot.expire.limit": str(limit),
            }
        ),
        now,
    )
    assert asked is not None
    assert asked.since is not None
    stays = set(range(1, len(ages) + 1))
    for one, since in asked.candidates(range(1, len(ages) + 1)):
        if since is not None and now - ages[one - 1] >= since:
            break
        stays.discard(one)
    assert sorted(stays) == kept_by_paimon(ages, least, least + more, retained, limit)


@covers("CMT-63")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"snapshot.num-retained.min": "2", "write-only": "true"}, None),
        ({"snapshot.num-retained.min": "2"}, Retained(2, -HOUR, None, 50)),
        ({"snapshot.num-retained.max": "20"}, Retained(10, -HOUR, 20, 50)),
        ({"snapshot.num-retained.max": "3"}, Retained(3, -HOUR, 3, 50)),
        ({"snapshot.time-retained": "5 ms", "snapshot.expire.limit": "7"}, Retained(10, -5, None, 7)),
    ],
)
def test_what_no_option_says_is_paimons_default(options: dict[str, str], expected: Retained | None) -> None:
    assert Retained.asked_for(parse_options(options), now_millis=0) == expected


@covers("CMT-63")
@pytest.mark.parametrize("key", [True, False])
def test_a_write_expires_what_the_options_say(tmp_path: Path, key: bool) -> None:
    table = table_of(tmp_path / "table", NEWEST_TWO, key=key)
    for _ in range(4):
        if key:
            table.upsert(ROWS)
        else:
            table.append(ROWS)
    assert len(ids(table)) == 2
    assert table.check().findings == []
    table.alter(reset_options=list(NEWEST_TWO))
    before = ids(table)
    table.delete(where="id = 1")
    assert ids(table)[:2] == before


@covers("CMT-63")
def test_age_counts_from_the_clock_and_consumers_and_tags_keep_what_they_need(tmp_path: Path) -> None:
    options = {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h", "write-only": "true"}
    table = table_of(tmp_path / "table", options)
    for _ in range(3):
        table.upsert(ROWS)
    table.create_tag("first", snapshot=1)
    table.set_consumer("reader", next_snapshot=2)
    table.alter(set_options={"write-only": "false"})
    table.upsert(ROWS)
    assert ids(table) == [1, 2, 3, 4]
    in_two_hours = time.time_ns() // 1_000_000 + 2 * HOUR
    table.catalog.committer.expire = lambda: table.catalog.expiry.after_commit(in_two_hours)
    table.upsert(ROWS)
    assert ids(table)[0] == 2
    assert table.to_arrow(tag="first", fresh=True).num_rows == 1


@covers("CMT-63")
@pytest.mark.parametrize("failure", [DAMAGE, FenceTakenError()])
def test_a_write_whose_expiry_fails_is_committed(
    tmp_path: Path, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_of(tmp_path / "table", NEWEST_TWO)

    def fails() -> None:
        raise failure

    table.catalog.committer.expire = fails
    with caplog.at_level(logging.WARNING, "pktable"):
        assert table.upsert(ROWS) == ids(table)[-1]
    assert ("is committed; older snapshots did not expire" in caplog.text) == isinstance(
        failure, CorruptFileError
    )


@covers("CMT-63")
def test_an_interrupt_of_the_expiry_says_that_the_write_is_committed(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", {**NEWEST_TWO, "write-only": "true"})

    def interrupted() -> None:
        raise KeyboardInterrupt

    table.catalog.committer.expire = interrupted
    with pytest.raises(CommittedError, match="after snapshot 1 was committed"):
        table.upsert(ROWS)
    assert table.to_arrow(fresh=True).num_rows == 1


Between = Callable[[], object]


def commit_between(monkeypatch: pytest.MonkeyPatch, before: Between, after: Between) -> None:
    """Have others work right ``before`` and ``after`` the rows of the next write are committed."""
    works, commit = [before, after], StagedWrite.commit_append

    def between(staged: StagedWrite, commit_id: CommitId) -> TableState | None:
        if works:
            works.pop(0)()
        state = commit(staged, commit_id)
        if works:
            works.pop(0)()
        return state

    monkeypatch.setattr(StagedWrite, "commit_append", between)


def nothing() -> None:
    """Do nothing."""


@covers("CMT-54", "RD-18")
@pytest.mark.parametrize("full", [True, False])
def test_a_write_is_compacted_though_others_have_expired_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    newest = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    always = {"full-compaction.delta-commits": "1"} if full else {"deletion-vectors.enabled": "true"}
    table = table_of(tmp_path / "table", {"bucket": "1", "write-only": "true", **newest, **always})
    table.upsert([{"id": 0}])
    table.upsert([{"id": 1}])
    table.alter(set_options={"write-only": "false"})
    table, other = Table.open(tmp_path / "table"), Table.open(tmp_path / "table")

    def compact() -> None:
        other.compact(full=True)  # so the compaction that was planned with the write does not fit

    def expire() -> None:
        for number in (3, 4):
            other.upsert([{"id": number}])
        other.compact(full=True)

    commit_between(monkeypatch, nothing if full else compact, expire)
    written = table.upsert([{"id": 2}])
    assert written is not None
    assert min(ids(table)) > 4
    assert sorted(table.to_arrow(fresh=True)["id"].to_pylist()) == [0, 1, 2, 3, 4]
    assert table.check().findings == []


def test_damage_that_the_compaction_of_a_write_meets_says_that_the_rows_are_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"bucket": "1", "full-compaction.delta-commits": "1"}
    table = table_of(tmp_path / "table", options)
    table.upsert(ROWS)

    def damage() -> None:
        for file in (tmp_path / "table/bucket-0").glob("data-*"):
            file.unlink()

    commit_between(monkeypatch, nothing, damage)
    with pytest.raises(CorruptFileError, match="the write is committed, its compaction is not"):
        table.upsert([{"id": 2}])
    assert table.snapshots()[-1].commit_kind == "APPEND"


@covers("CMT-69")
@pytest.mark.parametrize("failure", [InvalidRequestError("no such time"), RuntimeError("a watcher")])
def test_whatever_ends_the_compaction_of_a_write_says_that_the_rows_are_committed(
    tmp_path: Path, failure: Exception
) -> None:
    table = table_of(tmp_path / "table", {"bucket": "1", "full-compaction.delta-commits": "1"})

    def progress(what: str, done: int, total: int) -> None:
        if what == "compact":
            raise failure

    said = pytest.raises(CompactionFailedError, match=f"{failure}; do not write the rows again")
    with pktable.watch(progress=progress), said as raised:
        table.upsert(ROWS)
    assert raised.value.snapshot == table.snapshots()[-1].id == 1
    assert pickle.loads(pickle.dumps(raised.value)).snapshot == 1
    assert table.to_arrow(fresh=True).num_rows == len(ROWS)


@covers("CMT-69")
def test_an_interrupt_of_the_compaction_of_a_write_names_its_snapshot(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", {"bucket": "1", "full-compaction.delta-commits": "1"})

    def progress(what: str, done: int, total: int) -> None:
        if what == "compact":
            raise KeyboardInterrupt

    with pktable.watch(progress=progress), pytest.raises(CommittedError, match="after snapshot 1"):
        table.upsert(ROWS)


def test_a_least_number_above_the_greatest_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"snapshot\.num-retained\.min=3: expected at most"):
        table_of(tmp_path / "table", {"snapshot.num-retained.min": "3", "snapshot.num-retained.max": "2"})


@covers("CMT-64")
def test_a_consumer_that_was_set_long_ago_keeps_nothing(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table", {"consumer.expiration-time": "1 h", "write-only": "true"})
    for _ in range(3):
        table.upsert(ROWS)
    for name in ("old", "young"):
        table.set_consumer(name, next_snapshot=1)
    old = time.time() - 2 * 60 * 60
    os.utime(tmp_path / "table/consumer/consumer-old", (old, old))
    assert table.expire_snapshots(retain_last=1) == []
    os.utime(tmp_path / "table/consumer/consumer-young", (old, old))
    assert table.expire_snapshots(retain_last=1, dry_run=True) == [1, 2]
    fences = len(list((tmp_path / "table").glob("fence/*")))
    table.set_consumer("old", next_snapshot=2)
    assert len(list((tmp_path / "table").glob("fence/*"))) == fences + 1, "an expiry must look again"
    assert table.expire_snapshots(retain_last=1) == [1]
    assert table.consumers() == {"old": 2, "young": 1}
