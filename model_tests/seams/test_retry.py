"""One loop retries lost races: with backoff, jitter and an end."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pktable import CommitConflictError, Table
from pktable.catalog.changes import CommitId
from pktable.ingest.changes import ChangeKind
from pktable.retry import RetryPolicy, retry
from pktable_spec.covers import covers

from model_tests.seams.memory_store import MemoryFileIO


class LostError(Exception):
    """A lost race."""


def policy(waits: list[float], *, attempts: int = 12, draw: float = 1.0) -> RetryPolicy:
    return RetryPolicy(attempts, 0.5, 4.0, waits.append, lambda: draw)


def test_waits_double_up_to_the_longest_and_are_drawn() -> None:
    for draw in (1.0, 0.25):
        waits: list[float] = []
        attempts = iter([LostError()] * 6)

        def attempt(attempts: object = attempts) -> str:
            for error in attempts:  # type: ignore[attr-defined]
                raise error
            return "won"

        assert retry(attempt, on=LostError, policy=policy(waits, draw=draw)) == "won"
        assert waits == [draw * wait for wait in (1.0, 2.0, 4.0, 4.0, 4.0, 4.0)]


def test_waits_after_a_lost_race_are_in_times_of_what_an_attempt_takes() -> None:
    one = RetryPolicy(first_wait=0.5, longest_wait=4.0, draw=lambda: 0.5, races=True)
    assert [one.wait(failures, 1.0) for failures in (1, 2, 3, 9)] == [0.5, 1.0, 1.5, 2.0]
    assert [one.wait(failures, 0.0) for failures in (1, 2, 3, 99)] == [0.25, 0.5, 0.75, 2.0]


def test_the_last_failure_is_raised_and_others_at_once() -> None:
    waits: list[float] = []

    def lose() -> None:
        raise LostError(len(waits))

    with pytest.raises(LostError, match="4"):
        retry(lose, on=LostError, policy=policy(waits, attempts=5))
    with pytest.raises(ZeroDivisionError):
        retry(lambda: 1 / 0, on=LostError, policy=policy(waits))
    assert len(waits) == 4


class Overtaken(MemoryFileIO):
    """A store on which another commit is always faster."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return "/snapshot/" not in path and super().put_if_absent(path, data)


@covers("CMT-3", "CMT-12")
def test_a_commit_that_always_loses_waits_longer_and_gives_up_in_plain_words() -> None:
    store, waits = Overtaken(), list[float]()
    table = Table.create("t", "k INT", primary_key=["k"], store=store)
    table.catalog.committer.policy = policy(waits, attempts=7)
    before = set(store.files)
    staged = table.stage_write(pa.table({"k": [1]}), ChangeKind())
    assert staged is not None
    with pytest.raises(
        CommitConflictError, match="in all 7 attempts other writers committed first"
    ) as raised:
        staged.commit(CommitId("writer"))
    assert str(raised.value).endswith("nothing of it is visible; try again when fewer commit to the table")
    assert waits == sorted(waits)
    assert len(waits) == 6
    assert set(store.files) == before, "a failed commit leaves no file"


class Raced(MemoryFileIO):
    """A store that lets others write and compact before each put of a snapshot of a kind."""

    def __init__(self, kind: bytes) -> None:
        super().__init__()
        self.kind, self.others = kind, MemoryFileIO()
        self.others.files = self.files

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if "/snapshot/" in path and self.kind in data:
            table = Table.open("t", store=self.others)
            table.upsert(pa.table({"k": [1]}))
            table.compact(full=True)
            staged = table.stage_write(pa.table({"k": [1]}), ChangeKind(), write_only=True)
            assert staged is not None
            staged.commit(CommitId("others"))
        return super().put_if_absent(path, data)


def raced(kind: bytes) -> tuple[Table, list[float]]:
    """Return a table whose snapshots of a kind always come too late, and the waits of what is planned again."""
    store, waits = Raced(kind), list[float]()
    dv = {"deletion-vectors.enabled": "true"}
    Table.create("t", "k INT", primary_key=["k"], options=dv, store=store.others)
    table = Table.open("t", store=store)
    table.catalog.committer.policy = policy(waits, attempts=4)
    return table, waits


@covers("CMT-12", "CMT-24")
def test_a_write_whose_numbers_are_always_taken_gives_up_and_says_that_nothing_is_visible() -> None:
    table, waits = raced(b"APPEND")
    with pytest.raises(CommitConflictError, match="in all 4 attempts other writers took") as raised:
        table.upsert(pa.table({"k": [9]}))
    assert str(raised.value).endswith(
        "nothing of it is visible; write again when fewer write to the same buckets"
    )
    assert len(waits) == 3
    assert table.to_arrow(fresh=True)["k"].to_pylist() == [1]


@covers("CMT-14", "CMT-33")
def test_a_write_whose_compaction_is_always_too_late_says_that_its_rows_are_there() -> None:
    table, waits = raced(b"COMPACT")
    with pytest.raises(CommitConflictError, match="the write is committed, its compaction is not") as raised:
        table.upsert(pa.table({"k": [9]}))
    assert str(raised.value).endswith(
        "do not write the rows again: the next write or compact() compacts them"
    )
    assert len(waits) == 3
    assert sorted(table.to_arrow(fresh=True)["k"].to_pylist()) == [1, 9]


@covers("CMT-7", "CMT-14")
def test_a_compaction_that_is_always_too_late_gives_up_and_says_that_no_row_is_lost() -> None:
    table, waits = raced(b"COMPACT")
    table.stage_write(pa.table({"k": [9]}), ChangeKind(), write_only=True).commit(CommitId("w"))  # type: ignore[union-attr]
    with pytest.raises(CommitConflictError, match="in all 4 attempts others changed its buckets") as raised:
        table.compact(full=True)
    assert str(raised.value).endswith("no row is lost; compact again when fewer write or compact")
    assert len(waits) == 3


@covers("META-2")
def test_a_commit_carries_who_made_it_and_its_number() -> None:
    table = Table.create(
        "t",
        "k INT",
        primary_key=["k"],
        options={"deletion-vectors.enabled": "true"},
        store=MemoryFileIO(),
    )
    for checkpoint in (7, 8):
        staged = table.stage_write(pa.table({"k": [checkpoint]}), ChangeKind())
        assert staged is not None
        staged.commit(CommitId("stream-1", checkpoint))
    found = [(one.commit_user, one.commit_identifier, one.commit_kind) for one in table.snapshots()]
    assert found == [("stream-1", n, kind) for n in (7, 8) for kind in ("APPEND", "COMPACT")]
