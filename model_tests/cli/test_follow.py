"""The loop of ``pktable compact --follow``, on a table whose compactions end as a script says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pktable import CommitConflictError, CorruptFileError, InvalidRequestError, Table
from pktable.cli import run
from pktable.cli.follow import STORE_FAILURES, Followed, Stop, follow
from pktable_spec.covers import covers
from pktable_spec.errors import StorageError

LOST = CommitConflictError("compaction failed: others changed its buckets", 3)
NO_ANSWER = StorageError("read", "s3://bucket/x", None, "no answer")
ALTERED = InvalidRequestError("the schema has changed since the table was opened")


@dataclass
class Scripted:
    """A table whose compactions end as a script says: an id, None for nothing to do, or an error.

    After the script it asks the loop to end. ``waits``: the seconds that the loop has waited.
    """

    script: list[Any]
    schema: Any = field(default_factory=lambda: SimpleNamespace(id=0))
    stop: Stop = field(init=False)
    waits: list[float] = field(default_factory=list)
    clock: float = 0.0

    def __post_init__(self) -> None:
        self.stop = Stop(self._sleep, lambda: self.clock)

    def _sleep(self, seconds: float) -> None:
        self.clock += seconds
        self.waits.append(seconds)

    def compact(self, *, full: bool) -> int | None:
        outcome = self.script.pop(0)
        self.stop.asked = not self.script
        if isinstance(outcome, Exception):
            raise outcome
        return outcome if outcome is None else int(outcome)


def followed(script: Sequence[Any], reopened: Callable[[], Any] | None = None) -> tuple[Followed, list[str]]:
    table, counts, notes = Scripted(list(script)), Followed(), list[str]()
    again = reopened or (lambda: table)
    follow(table, again, full=False, interval=0.3, stop=table.stop, note=notes.append, followed=counts)
    return counts, notes


@covers("CMT-14")
def test_a_lost_race_is_no_reason_to_end() -> None:
    counts, notes = followed([LOST] * 20 + [7, None])
    assert counts == Followed(snapshots=1, lost_races=20)
    assert notes[0].endswith("compacting again in 0.3 s")
    assert notes[-1].endswith(", snapshot 7")


def test_a_round_goes_on_at_once_while_there_is_something_to_compact() -> None:
    table = Scripted([1, 2, None, None])
    follow(
        table,
        lambda: table,
        full=False,
        interval=0.25,
        stop=table.stop,
        note=lambda line: None,
        followed=Followed(),
    )
    assert sum(table.waits) == pytest.approx(0.25)


def test_a_store_that_fails_again_and_again_ends_the_loop() -> None:
    few = [NO_ANSWER] * (STORE_FAILURES - 1)
    counts, _ = followed([*few, None, *few, None])
    assert counts.store_failures == 2 * len(few)
    with pytest.raises(StorageError):
        followed([*few, NO_ANSWER, None])


@pytest.mark.parametrize("error", [ALTERED, CorruptFileError("x", at="y", expected=1, found=2)])
def test_an_error_that_would_come_again_ends_the_loop(error: Exception) -> None:
    with pytest.raises(type(error)):
        followed([error, None])


def test_an_altered_table_is_opened_again() -> None:
    altered = Scripted([4, None], schema=SimpleNamespace(id=1))
    table, counts = Scripted([ALTERED, None]), Followed()
    follow(
        table,
        lambda: altered,
        full=False,
        interval=1,
        stop=altered.stop,
        note=lambda line: None,
        followed=counts,
    )
    assert counts.snapshots == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--interval", "1"], "--interval"),
        (["--follow", "--interval", "0"], "--interval"),
        (["--follow", "--interval", "nan"], "--interval"),
        (["--follow", "--dry-run"], "--dry-run"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], named: str
) -> None:
    Table.create(tmp_path / "t", pa.schema([("k", pa.int32())]), primary_key=["k"])
    assert run(["compact", str(tmp_path / "t"), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"pktable: {named}")


def test_a_table_that_is_not_there_has_no_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compact", str(tmp_path), "--follow"]) == 2
    assert capsys.readouterr().out == ""
