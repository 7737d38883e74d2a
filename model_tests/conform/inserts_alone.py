"""Histories of inserts that nobody compacts, for writers that do no more: a shape of tables each.

With 3 buckets, a negative hash and its absolute value have other remainders. Keys come again within a write and in
later ones, so that sequence numbers decide, and strings are longer than a slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pktable_conform.judge.history import SHAPES, Changes, History, Operation

OPTIONS: Final[Mapping[str, str]] = {"bucket": "3", "num-levels": "4"}
LONG: Final = "longer than seven bytes: é"
ROWS: Final[Mapping[str, tuple[tuple[object, ...], ...]]] = {
    "int": ((1, "a"), (-(2**31), LONG), (2**31 - 1, None), (1, "b"), (7, "")),
    "string": (("b", "a"), (LONG, "b"), ("\U0001f600", "c"), ("b", None), ("￿", "d")),
    "composite": ((1, "x", "a"), (1, LONG, "b"), (2, "x", None), (1, "x", "c")),
    "partitioned": (("p/q", 1, "a"), (" ", 1, "b"), ("p/q", 1, "c"), ("é", 2, None)),
}


def histories() -> Iterator[tuple[str, History]]:
    """Yield the histories by name."""
    for shape, rows in ROWS.items():
        changes: Changes = tuple(("+I", row) for row in rows)  # type: ignore[misc]
        writes = (changes, changes[:2], tuple(reversed(changes)))
        operations = [Operation("write", changes=some, write_only=True) for some in writes]
        operations.insert(2, Operation("reopen"))
        yield f"inserts-{shape}", History(SHAPES[shape], OPTIONS, operations)
