"""Checks in other processes: what they return, raise and show comes back."""

from __future__ import annotations

import os
import signal

import pytest
from pktable.cli.progress import Reporter
from pktable_spec.errors import InvalidRequestError

from model_tests.verify.workers import Show, Workers


class Seen(Reporter):
    """Remembers what is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[str, int, int]] = []
        self.said: list[str] = []

    def __call__(self, what: str, done: int, total: int) -> None:
        self.shown.append((what, done, total))

    def say(self, message: str) -> None:
        self.said.append(message)


def counting(show: Show, count: int) -> int:
    for done in range(1, count + 1):
        show("counting", done, 5)
    show.say(f"counted to {count}")
    return os.getpid()


def failing(show: Show) -> None:
    show.say("this fails")
    raise InvalidRequestError("expected something else")


def dying(show: Show) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_parts_of_a_check_are_shown_as_one() -> None:
    show = Seen()
    with Workers(show) as workers:
        parts = [workers.start(counting, count) for count in (2, 3)]
    assert os.getpid() not in {part.result() for part in parts}
    assert show.shown[-1] == ("counting", 5, 5)
    assert set(workers.seconds) == {"counting"}
    assert sorted(done for _, done, _ in show.shown) == [1, 2, 3, 4, 5]
    assert sorted(show.said) == ["counted to 2", "counted to 3"]


def test_an_error_comes_back_and_the_others_end() -> None:
    show = Seen()
    with Workers(show) as workers:
        bad, good = workers.start(failing), workers.start(counting, 1)
    with pytest.raises(InvalidRequestError, match="expected something else"):
        bad.result()
    assert good.result()
    assert sorted(show.said) == ["counted to 1", "this fails"]


def test_a_process_that_dies_is_no_success() -> None:
    with Workers(Seen()) as workers:
        lost = workers.start(dying)
    with pytest.raises(RuntimeError, match="terminated abruptly"):
        lost.result()
