from __future__ import annotations

from model_tests.unasked import refusals

SOURCE = """
def checked(x):
    if x < 0:
        raise ValueError("a number below 0")
    try:
        return 1 / x
    except ZeroDivisionError:
        raise
    raise AssertionError("cannot happen")
"""


def test_only_a_refusal_in_a_line_that_was_not_executed_is_listed() -> None:
    assert list(refusals(SOURCE, range(1, 20))) == [(4, "raise ValueError('a number below 0')")]
    assert not list(refusals(SOURCE, {3, 5}))
