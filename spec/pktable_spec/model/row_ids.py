"""Append tables whose rows have identities: an id for life, and the number of the snapshot that wrote the row last.

`IdentifiedRows` says what statements do to them, without any file. Which of the new rows of a commit gets which of the
new ids is the table's choice (`choose`). All else is determined.

Clauses: APP-1, APP-24, APP-25, APP-32, APP-33.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from pktable_spec.model.append import Row

Identified = dict[int, tuple[Row, int]]
"""By the id of a row: the row, and the number of the snapshot that wrote it last. Clauses: APP-33."""


class IdentifiedRows:
    """The rows at every snapshot. ``next_id``: at every snapshot, the first id that no row has had."""

    def __init__(self) -> None:
        self.at: dict[int, Identified] = {0: {}}
        self.next_id: dict[int, int] = {0: 0}

    @property
    def last(self) -> int:
        return max(self.at)

    @property
    def latest(self) -> Identified:
        return self.at[self.last]

    def rows(self, snapshot: int) -> Counter[Row]:
        """Return how often each row is there. Clauses: APP-1."""
        return Counter(row for row, _ in self.at[snapshot].values())

    def commit(
        self,
        snapshot: int,
        *,
        gone: Collection[int] = (),
        updated: Mapping[int, Row] | None = None,
        inserted: Sequence[Row] = (),
    ) -> None:
        """Add a snapshot: rows go, rows get other values, rows come. Clauses: APP-12, APP-24, APP-25, APP-32."""
        changed = {row_id: (row, snapshot) for row_id, row in (updated or {}).items()}
        assert {*gone, *changed} <= self.latest.keys(), "only rows that are there can go or change"
        kept = {row_id: row for row_id, row in self.latest.items() if row_id not in gone}
        first = self.next_id[self.last]
        new = {first + i: (row, snapshot) for i, row in enumerate(inserted)}
        self.at[snapshot] = kept | changed | new
        self.next_id[snapshot] = first + len(inserted)

    def choose(self, snapshot: int, found: Identified) -> str | None:
        """Give the new rows of a snapshot, the last one, the ids that they have in ``found``.

        Return what is wrong with ``found``, None if nothing is. Clauses: APP-24, APP-25, APP-32.
        """
        expected, first = self.at[snapshot], self.next_id[max(one for one in self.at if one < snapshot)]
        old = {row_id: row for row_id, row in expected.items() if row_id < first}
        wrong = {i: (old[i], found.get(i)) for i in old if found.get(i) != old[i]}
        if wrong:
            return f"rows and their numbers by id, expected and found: {wrong}"
        if found.keys() != expected.keys():
            return f"expected rows with the ids {sorted(expected)}, found {sorted(found)}"
        if Counter(found.values()) != Counter(expected.values()):
            return f"new rows are {[found[i] for i in found if i >= first]}"
        self.at[snapshot] = dict(found)
        return None
