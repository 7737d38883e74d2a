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
    with pytest.raises(CommitConflictError, match="other writers committed first in all 7 attempts"):
        staged.commit(CommitId("writer"))
    assert waits == sorted(waits)
    assert len(waits) == 6
    assert set(store.files) == before, "a failed commit leaves no file"


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
