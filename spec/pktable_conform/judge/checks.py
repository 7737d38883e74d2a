"""The error of a failing check: its name, the clauses it checks, and a message.

A check is a function with two decorators, `check` over `covers`. Where something is not as it must be, the check
calls `fail` with a message; `check` adds the name and the clauses of the innermost check that is running:

    @check
    @covers("DV-5")
    def vectors_name_rows(vectors):
        for vector in vectors:
            if not vector.positions:
                fail(f"the vector of {vector.data_file} is empty")

An AssertionError that the implementation raises is no CheckFailed, and passes through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Final, NoReturn, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


DONE: Final[Counter[tuple[str, tuple[str, ...]]]] = Counter()
"""How often each check has begun in this process, by its name and clauses."""


def by_clause(done: Iterable[tuple[tuple[str, tuple[str, ...]], int]]) -> Counter[str]:
    """Return how often each clause was checked by checks that were done so often."""
    found: Counter[str] = Counter()
    for (_, clauses), count in done:
        found.update(dict.fromkeys(clauses, count))
    return found


class CheckFailed(AssertionError):  # noqa: N818 -- a finding, not an error of the program
    """A check did not hold. ``check``: its name; ``clauses``: those it checks; ``message``: what was found.

    ``options``: those of the table, if a history failed. As text: the name, the message, and the clauses in brackets.
    """

    options: Mapping[str, str] | None = None

    def __init__(self, check: str, clauses: tuple[str, ...], message: str) -> None:
        super().__init__(check, clauses, message)  # all three, so that it can be pickled
        self.check, self.clauses, self.message = check, clauses, message

    def __str__(self) -> str:
        return f"{self.check}: {self.message} [{', '.join(self.clauses)}]"


def message_of(failure: BaseException) -> str:
    """Return a failure as text: a check with its name and clauses, another error with its type."""
    return str(failure) if isinstance(failure, CheckFailed) else f"{type(failure).__name__}: {failure}"


class _NotAsItMustBe(Exception):  # noqa: N818
    """The message of `fail`, on its way to the check that is running."""


def fail(message: str) -> NoReturn:
    """End the check that is running; it raises CheckFailed with ``message``."""
    raise _NotAsItMustBe(message)


def check(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function that `fail`s into a check, which raises CheckFailed under the function's name.

    Its clauses are those that `covers` has given it.
    """
    clauses: tuple[str, ...] = function.__dict__["clauses"]
    key = function.__name__, clauses

    @wraps(function)
    def checking(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        DONE[key] += 1
        try:
            return function(*arguments, **named)
        except _NotAsItMustBe as found:
            raise CheckFailed(function.__name__, clauses, str(found)) from None

    return checking
