"""The rows of a merge-on-read table of Hudi at every instant, and where its keys are found.

A table is a list of writes, each with the time at which it was requested and completed, and a list of compactions. A
key lives in one file group, and compactions take all groups, so groups do not matter to the rows, but for one thing: a
new group begins with a base file, and what comes behind a delete is compared with its rows again (LOG-30).

* A **slice** begins with a compaction. It has the rows that the compaction found, and the writes completed since.
* The slice of a compaction that is planned and not executed is read together with the one before.

Clauses: LOG-22, LOG-24, LOG-28, LOG-29, LOG-30, LOG-41, LOG-66, LOG-67.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Key = str


class Row(NamedTuple):
    """A row: its ordering value, and the rest of it. ``value`` None: a delete that takes effect by its place."""

    ordering: int
    value: int | None


@dataclass
class Write:
    requested: str
    completed: str
    rows: Mapping[Key, Row]
    in_base: frozenset[Key]


@dataclass
class LogTable:
    """A table. ``by_event_time``: whether the greater ordering value wins; else the later write does.

    ``retained``: from which instant on it must be readable. What a read of an earlier one returns is right, too.
    """

    by_event_time: bool
    writes: list[Write] = field(default_factory=list)
    compactions: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    retained: str = ""

    def write(
        self, requested: str, completed: str, rows: Mapping[Key, Row], in_base: Collection[Key] = ()
    ) -> None:
        """Complete a write. ``in_base``: the keys whose rows are in the base files of new file groups."""
        self.writes.append(Write(requested, completed, dict(rows), frozenset(in_base)))

    def plan(self, instant: str) -> None:
        """Plan a compaction of all file groups with log files."""
        self.compactions.append(instant)

    def execute(self, instant: str) -> None:
        """Execute a planned compaction."""
        self.executed.append(instant)

    def retain(self, count: int, *, base_files: bool = False) -> None:
        """Give up all instants but the last so many commits, or ``base_files`` of each group, and what is planned."""
        based = [*self.executed, *(one.requested for one in self.writes if one.in_base)]
        commits = based if base_files else [*self.executed, *(one.requested for one in self.writes)]
        planned = [one for one in self.compactions if one not in self.executed]
        self.retained = max(self.retained, min([*sorted(commits)[-count:][:1], *planned], default=""))

    def rows(self, at: str) -> dict[Key, Row]:
        """Return the row of each key as of an instant."""
        base, log = self._slice(at)
        found = {}
        base |= {key: one.rows[key] for one in log for key in one.in_base}
        for key in {*base, *(key for one in log for key in one.rows)}:
            records = [one.rows[key] for one in log if key in one.rows and key not in one.in_base]
            row = self._merged(base.get(key), records)
            if row is not None and row.value is not None:
                found[key] = row
        return found

    def located(self, at: str) -> set[Key]:
        """Return the keys that a lookup finds: those of the base files, and those written since, deleted or not."""
        base, log = self._slice(at)
        written = (key for one in log for key, row in one.rows.items() if row.value is not None)
        return {*base, *written}

    def _slice(self, at: str) -> tuple[dict[Key, Row], list[Write]]:
        """Return the base rows of the latest executed compaction up to ``at``, and the writes since."""
        begun = [one for one in self.compactions if one in self.executed and one <= at]
        begin = begun[-1] if begun else ""
        base = self.rows_before(begin) if begin else {}
        log = [one for one in self.writes if one.completed > begin and one.requested <= at]
        return base, sorted(log, key=lambda one: one.requested)

    def rows_before(self, compaction: str) -> dict[Key, Row]:
        """Return what a compaction writes: the rows of the slice before it."""
        before = LogTable(
            self.by_event_time,
            [one for one in self.writes if one.completed < compaction],
            [one for one in self.compactions if one < compaction],
            self.executed,
        )
        return before.rows(compaction)

    def _merged(self, base: Row | None, records: list[Row]) -> Row | None:
        if not records:
            return base
        state = records[0]
        for record in records[1:]:
            state = self._winner(state, record)
        if base is None or state.value is None:
            return state
        return self._winner(base, state)

    def _winner(self, old: Row, new: Row) -> Row:
        if not self.by_event_time or old.value is None or new.value is None or new.ordering >= old.ordering:
            return new
        return old
