"""The reader in JavaScript reads what pktable writes, and notices what it does not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.runner import Runner

from model_tests.conform import second_reader
from model_tests.conform.__main__ import node_reader
from model_tests.interop.environments import SetupError
from model_tests.seeded import cases, seed_for


@pytest.fixture
def runner() -> Iterator[Runner]:
    try:
        found = Runner(node_reader())
    except SetupError as reason:
        pytest.skip(f"the reader for Node is not set up: {reason}")
    found.supports()
    yield found
    found.end()


def test_both_read_the_same_rows_of_drawn_tables(runner: Runner) -> None:
    first, number = seed_for(2036), cases(10)
    compared = 0
    for seed in range(first, first + number):
        try:
            compared += second_reader.play(runner, random.Random(seed))
        except CheckFailed as failure:
            raise AssertionError(f"seed {seed}: {failure.message}") from None
    assert compared > 3 * number


def test_a_row_that_one_does_not_have_is_noticed(runner: Runner) -> None:
    ask = runner.ask

    def forgetful(do: str, **fields: object) -> Any:
        answer = ask(do, **fields)
        return {"rows": answer["rows"][1:]} if do == "read" else answer

    runner.ask = forgetful  # type: ignore[method-assign]
    drawn = random.Random(1)
    with pytest.raises(CheckFailed, match="pktable reads"):
        second_reader.play(runner, drawn)
