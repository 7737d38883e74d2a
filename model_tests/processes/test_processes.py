"""Real processes on one table, and the judge of what they did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable_spec.covers import covers

from model_tests.processes.__main__ import main
from model_tests.processes.content import Rows, digest, rows_of
from model_tests.processes.events import Event, EventLog, read_events
from model_tests.processes.judge import judge
from model_tests.processes.run import Hammer


@covers("CMT-1", "CMT-3", "CMT-10", "CMT-24", "CMT-28", "CMT-29", "CMT-37", "CMT-48")
def test_nothing_is_lost_or_doubled_by_processes_of_which_some_are_killed(tmp_path: Path) -> None:
    wanted = ("kills", "pauses", "committed", "lost", "compacted", "expired snapshots", "reads compared")
    found = Hammer(tmp_path, seconds=2, workers=6, kills=True, wanted=wanted).run()
    assert not found.problems, "\n".join(found.problems)
    assert all(found.counts[name] for name in wanted)


@covers("CMT-29", "CMT-30")
def test_processes_on_eight_buckets_that_nobody_kills_leave_no_file_over(tmp_path: Path) -> None:
    found = Hammer(tmp_path, seconds=2, workers=4, buckets=8, wanted=("committed", "expired snapshots")).run()
    assert not found.problems, "\n".join(found.problems)


def test_the_command_prints_what_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "processes.md"
    assert main(["--seconds", "1", "--workers", "3", "--buckets", "2", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert out.read_text() == text
    assert "| | 2 buckets |" in text
    assert "| problems | 0 |" in text


def a_run() -> list[Event]:
    """Two upserts and a delete, a compaction between them, and reads of all of it."""
    rows = Rows()
    digests = [rows.digest]
    rows.upsert(1)
    digests += [rows.digest, rows.digest]
    rows.upsert(2)
    digests.append(rows.digest)
    rows.delete([1])
    digests.append(rows.digest)
    events: list[Event] = []
    kinds = ((1, "APPEND", 1), (2, "COMPACT", 1), (3, "APPEND", 2), (4, "APPEND", 3))
    for snapshot, kind, number in kinds:
        if kind == "APPEND":
            deletes = [1] if number == 3 else None
            events.append({"event": "try", "at": snapshot, "number": number, "deletes": deletes})
            events.append({"event": "committed", "at": snapshot + 0.5, "number": number, "lost": 2})
        names = {"id": snapshot, "name": f"list-{snapshot}", "kind": kind, "user": "hammer", "number": number}
        events.append({"event": "snapshot", "at": snapshot, **names})
        read = {"low": snapshot, "high": snapshot, "digest": list(digests[snapshot])}
        events.append({"event": "read latest", "at": snapshot + 0.9, "began": snapshot + 0.6, **read})
    return events


def test_the_judge_finds_nothing_in_a_run_without_faults() -> None:
    found = judge(a_run())
    assert not found.problems
    assert (found.counts["lost"], found.counts["reads compared"], found.counts["snapshots"]) == (6, 4, 4)


def without(**facts: Any) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [event for event in events if not facts.items() <= event.items()]


def changed(old: Event, **new: Any) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [{**event, **new} if old.items() <= event.items() else event for event in events]


def added(**event: Any) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [*events, event]


FORK = {"id": 3, "name": "other", "kind": "APPEND", "user": "hammer", "number": 9}


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (changed({"event": "snapshot", "id": 3}, kind="COMPACT"), "acknowledged, but in no snapshot: [2]"),
        (changed({"event": "snapshot", "id": 3}, number=1), "write 1 was committed 2 times"),
        (added(event="snapshot", at=9, **FORK), "snapshot 3 was seen twice"),
        (without(event="snapshot", id=2), "no process has seen the snapshots [2]"),
        (added(event="refused", at=9, number=2, what="x"), "refused, but in a snapshot: [2]"),
        (added(event="refused", at=9, number=7, what="why"), "the write 7 was refused: why"),
        (without(event="try", number=3), "in a snapshot, but of nobody: [3]"),
        (changed({"event": "read latest", "low": 3}, digest=[2, 0]), "expected (5, "),
        (
            changed({"event": "read latest", "low": 1}, began=3.8),
            "snapshot 3 was acknowledged saw snapshot 1",
        ),
        (
            lambda events: [*events, *[{"event": "expired", "at": 9, "ids": [1]}] * 2],
            "have expired the snapshots [1]",
        ),
        (added(event="error", at=9, kind="writer", what="x", trace="y"), "writer: x"),
    ],
)
def test_the_judge_finds_each_fault(fault: Callable[[list[Event]], list[Event]], problem: str) -> None:
    assert any(problem in one for one in judge(fault(a_run())).problems), judge(fault(a_run())).problems


def test_a_digest_follows_writes_whatever_their_order() -> None:
    rows = Rows()
    for number in (5, 21, 22):
        rows.upsert(number)
    rows.delete([5, 404])
    expected = {**rows_of(5), **rows_of(21), **rows_of(22)}
    del expected[5]
    assert rows.digest == digest(list(expected), list(expected.values()))
    assert rows.digest == digest(list(expected)[::-1], list(expected.values())[::-1])
    assert rows.digest != digest(list(expected), [0, *list(expected.values())[1:]])


def test_a_line_that_a_killed_process_did_not_finish_is_no_event(tmp_path: Path) -> None:
    path = tmp_path / "log"
    EventLog(path).write("try", number=1)
    with path.open("a") as file:
        file.write('{"event": "comm')
    assert [event["event"] for event in read_events(path)] == ["try"]
