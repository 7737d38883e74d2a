"""A check says which one failed, for which clauses; an AssertionError of the implementation is no check."""

from __future__ import annotations

import pickle

import pytest
from pktable_conform.judge.checks import CheckFailed, check, fail
from pktable_spec.covers import covers


@check
@covers("DV-5")
@covers("DV-1", "DV-2")
def outer(inner_fails: bool, message: str = "outside") -> int:
    if inner_fails:
        inner(message)
    fail(message)


@check
@covers("DVF-1")
def inner(message: str) -> None:
    if message == "of the product":
        raise AssertionError(message)
    fail(message)


def test_a_failure_names_the_innermost_check_that_runs() -> None:
    with pytest.raises(CheckFailed) as found:
        outer(False)
    assert (found.value.check, found.value.clauses) == ("outer", ("DV-5", "DV-1", "DV-2"))
    assert str(found.value) == "outer: outside [DV-5, DV-1, DV-2]"
    with pytest.raises(CheckFailed) as found:
        outer(True, "inside")
    assert (found.value.check, found.value.clauses, found.value.message) == ("inner", ("DVF-1",), "inside")


def test_an_assertion_of_the_implementation_stays_what_it_is() -> None:
    with pytest.raises(AssertionError) as found:
        outer(True, "of the product")
    assert not isinstance(found.value, CheckFailed)


def test_a_failed_check_travels_between_processes() -> None:
    failure = CheckFailed("outer", ("DV-5",), "a message")
    assert str(pickle.loads(pickle.dumps(failure))) == str(failure)
