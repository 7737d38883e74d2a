"""The decorator that names the clauses a test checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Check = TypeVar("Check", bound=Callable[..., object])


def covers(*clauses: str) -> Callable[[Check], Check]:
    """Return a decorator that records the clauses a test, a rule or an invariant checks. See `pktable_spec.trace`."""

    def mark(check: Check) -> Check:
        check.__dict__["clauses"] = clauses
        return check

    return mark
