"""The decorator that ties a test to the clauses it checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Check = TypeVar("Check", bound=Callable[..., object])


def covers(*clauses: str) -> Callable[[Check], Check]:
    """Say which clauses a test, a rule or an invariant checks; several add up. See `pktable_spec.trace`."""

    def mark(check: Check) -> Check:
        check.__dict__["clauses"] = (*clauses, *check.__dict__.get("clauses", ()))
        return check

    return mark
