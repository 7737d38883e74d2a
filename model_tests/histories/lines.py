"""The records of each key of a drawn table or branch, the columns there are, and what they mean in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pktable_spec.interface import Change, Shape
from pktable_spec.model.moving import placed
from pktable_spec.vocabulary import RowKind

from model_tests.engines import naive
from model_tests.engines.cases import Case

KEYS: Final = ("pt", "k")
Values: TypeAlias = dict[str, Any]
"""A row, by the names that its columns had first."""
Shown: TypeAlias = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""The names of columns, and the rows in them in order."""


@dataclass
class Line:
    """The records of each partition and key, those that wait for a bucket, and the rows of each snapshot.

    ``names``: of the columns in order, each with the name that it had first; ``wide``: columns that were widened.
    """

    case: Case
    names: dict[str, str]
    records: dict[tuple[Any, ...], list[naive.Record]] = field(default_factory=dict)
    waiting: list[tuple[RowKind, Values]] = field(default_factory=list)
    snapshots: dict[int, Shown] = field(default_factory=dict)
    wide: frozenset[str] = frozenset()

    @property
    def added(self) -> list[str]:
        """The columns that the table did not begin with, by the names that they have now."""
        return [now for now, first in self.names.items() if first not in (*KEYS, *self.case.columns)]

    def rows(self) -> list[Values]:
        """Return the rows with all columns that there are now."""
        values = [first for first in self.names.values() if first not in KEYS]
        rows = []
        for key, records in self.records.items():
            full = [(kind, {name: row.get(name) for name in values}) for kind, row in records]
            if (row := self.case.means(full)) is not None:
                rows.append({**dict(zip(KEYS, key, strict=True)), **naive.with_maps_in_order(row)})
        return rows

    def shown(self) -> Shown:
        """Return the rows with the names and the order of columns that there are now."""
        rows = [tuple(row[first] for first in self.names.values()) for row in self.rows()]
        return tuple(self.names), sorted(rows, key=str)

    def add(self, changes: Iterable[tuple[RowKind, Values]]) -> None:
        """Append records of keys that stay where they are."""
        for kind, row in changes:
            self.records.setdefault((row["pt"], row["k"]), []).append((kind, row))

    def add_moving(self, changes: Sequence[tuple[RowKind, Values]], shape: Shape) -> None:
        """Append records of keys that move between partitions. Clauses: BKT-22, BKT-23, BKT-24."""
        engine = self.case.options.get("merge-engine", "deduplicate")
        rows = [(row["pt"], row["k"], 0) for row in self.rows()]
        new = [Change(kind, (row["pt"], row["k"], at)) for at, (kind, row) in enumerate(changes)]
        for kind, (partition, _, at) in placed(shape, engine, new, rows, removes=self.case.removes):
            self.add([(kind, changes[int(str(at))][1] | {"pt": partition})])

    def forget_retractions(self) -> None:
        """Leave each key its row alone, as what writes rows again does."""
        rows, self.records = self.rows(), {}
        self.add((RowKind.INSERT, row) for row in rows)

    def remove(self, partition: str) -> None:
        """Remove all records of a partition."""
        self.records = {key: records for key, records in self.records.items() if key[0] != partition}

    def copy(self) -> Line:
        records = {key: list(some) for key, some in self.records.items()}
        return Line(self.case, dict(self.names), records, list(self.waiting), dict(self.snapshots), self.wide)
