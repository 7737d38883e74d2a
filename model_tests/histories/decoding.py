"""Notes of what is decoded of data files, and what a condition leaves of their rows, for `work`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from pktable import Table
from pktable.datafile import page_index, readers
from pktable.datafile.page_index import RowRanges
from pktable.datafile.readers import Columns, ParquetRows

from model_tests.histories.typed_conditions import Comparison
from model_tests.predicate.conditions import OPERATORS

NEAR: Final = 2
"""Rows between two wanted ones that are read with them."""

Row = dict[str, Any]
Decoded = Counter[tuple[str, str, int]]
"""How often the value of a column is decoded: by file, column and position."""


@dataclass
class Work:
    """The values that were decoded, and how often each file was opened."""

    decoded: Decoded = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)

    def add(self, file: StoredFile, columns: Sequence[str], positions: Sequence[int]) -> None:
        """Add some rows of a file, which is opened once."""
        self.opened[file.name] = 1
        self.decoded.update((file.name, name, at) for name in columns for at in positions)

    def beyond(self, expected: Work) -> str | None:
        """Return what was done that is not expected, in words; None if there is nothing."""
        opened, decoded = self.opened - expected.opened, self.decoded - expected.decoded
        if opened:
            return f"opened in vain: {dict(opened)}"
        return f"decoded in vain: {sorted(decoded)[:5]}, {len(decoded)} in all" if decoded else None


@contextmanager
def counted() -> Iterator[Work]:
    """Note what is decoded of Parquet files."""
    work = Work()

    class Counting(ParquetRows):
        """A Parquet file that notes what is decoded of it."""

        def __init__(self, source: Any, at: str) -> None:
            super().__init__(source, at)
            self._name = Path(at).name
            work.opened[self._name] += 1

        def tables(
            self, columns: Columns, *, ranges: RowRanges | None, batch_rows: int, **how: Any
        ) -> Iterator[tuple[int, pa.Table]]:
            for position, table in super().tables(columns, ranges=ranges, batch_rows=batch_rows, **how):
                places = range(position, position + table.num_rows)
                work.decoded.update((self._name, name, at) for name in table.column_names for at in places)
                yield position, table

    with mock.patch.dict(readers.FORMATS, {"parquet": Counting}), mock.patch.object(page_index, "NEAR", NEAR):
        yield work


@dataclass(frozen=True)
class Condition:
    """Some alternatives that must each be fulfilled: ``clauses``, of which each is a list of comparisons."""

    clauses: Sequence[Sequence[Comparison]]

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(one.column for clause in self.clauses for one in clause))

    @property
    def sql(self) -> str:
        clauses = [" OR ".join(f"{c} {sign} {_spelled(v)}" for c, sign, v in one) for one in self.clauses]
        return " AND ".join(f"({one})" for one in clauses)

    def holds(self, row: Row) -> bool:
        return all(
            any(row[c] is not None and OPERATORS[sign](row[c], v) for c, sign, v in clause)
            for clause in self.clauses
        )

    def is_ruled_out(self, rows: Sequence[Row], columns: Sequence[str]) -> bool:
        """Return whether the least and greatest values of ``columns`` say that none of ``rows`` fulfils it."""
        return any(
            all(
                one.column in columns and one.is_ruled_out([row[one.column] for row in rows])
                for one in clause
            )
            for clause in self.clauses
        )

    @property
    def key_count(self) -> int | None:
        """How many keys it names, None if it does not restrict the key to some."""
        named = [
            {v for _, _, v in one}
            for one in self.clauses
            if all((c, sign) == ("k", "=") for c, sign, _ in one)
        ]
        return len(set.intersection(*named)) if named else None


def _spelled(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class StoredFile:
    """A live file: its rows as they are stored, those that a vector deletes, and its row groups as positions."""

    name: str
    level: int
    rows: list[Row]
    deleted: frozenset[int]
    groups: list[range]

    @property
    def keys(self) -> list[Any]:
        return [row["k"] for row in self.rows]


@cache
def _rows_and_groups(path: Path) -> tuple[list[Row], list[range]]:
    """Return what a Parquet file holds, and the positions of each of its row groups."""
    file = pq.ParquetFile(path)
    counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    ends = [sum(counts[:at]) for at in range(len(counts) + 1)]
    return file.read().to_pylist(), [range(*both) for both in pairwise(ends)]


def files_of(table: Table) -> list[StoredFile]:
    """Return the live files of a table with one bucket and without partitions."""
    vectors = {one["file_name"]: frozenset(one["positions"]) for one in table.inspect.vectors().to_pylist()}
    found = []
    for one in table.files().to_pylist():
        name = one["file_name"]
        rows, groups = _rows_and_groups(Path(table.path, "bucket-0", name))
        found.append(StoredFile(name, one["level"], rows, vectors.get(name, frozenset()), groups))
    return found


def is_near(at: int, rows: Sequence[int]) -> bool:
    """Whether a row is one of ``rows``, or lies between two of them that are near each other."""
    before = max((row for row in rows if row <= at), default=None)
    after = min((row for row in rows if row >= at), default=None)
    return before is not None and after is not None and after - before <= NEAR
