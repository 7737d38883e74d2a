"""Gather tables of rows that come in any order, and give them in the order of a column, within bounded memory.

Rows of up to the limit stay in memory. Further rows go to files of the worker's temporary directory, as Arrow, and
is mapped into memory when it is needed. Of every row the number that orders it stays in memory.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa


class Gathered:
    """Rows of one schema, ordered by the column ``order`` of int64, which no two rows share.

    ``most_bytes``: of Arrow memory that rows may take at a time. Use it as a context manager: it removes its files.
    """

    def __init__(self, order: str, most_bytes: int) -> None:
        self._order, self._most = order, most_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = self._all_bytes = 0
        self._folder: Path | None = None
        self._stored: list[Path] = []

    def __enter__(self) -> Gathered:
        return self

    def __exit__(self, *error: object) -> None:
        self._held.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, table: pa.Table) -> None:
        """Add rows."""
        self._held.append(table)
        self._held_bytes += table.nbytes
        self._all_bytes += table.nbytes
        if self._held_bytes >= self._most:
            self._store()

    def _store(self) -> None:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="pktable-write-"))
        path = self._folder / str(len(self._stored))
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, self._held[0].schema) as writer:
            for table in self._held:
                writer.write_table(table)
        self._stored.append(path)
        self._held.clear()
        self._held_bytes = 0

    def in_order(self) -> Iterator[pa.Table]:
        """Yield all rows without the column of their order, in tables of about ``most_bytes``."""
        if not self._stored:
            if self._held:
                yield self._ordered(self._held)
            return
        if self._held:
            self._store()
        numbers = np.sort(np.concatenate([self._numbers(self._mapped(path)) for path in self._stored]))
        tables = min(len(self._stored), -(-self._all_bytes // self._most))
        ends = numbers[[len(numbers) * (i + 1) // tables - 1 for i in range(tables)]]
        before = numbers[0] - 1
        for end in ends:
            parts = []
            for path in self._stored:
                table = self._mapped(path)
                found = self._numbers(table)
                parts.append(table.take(pa.array(np.flatnonzero((found > before) & (found <= end)))))
            yield self._ordered(parts)
            before = end

    def _ordered(self, tables: list[pa.Table]) -> pa.Table:
        table = pa.concat_tables(tables)
        numbers = self._numbers(table)
        rows = table.drop_columns([self._order])
        if bool(np.all(numbers[1:] > numbers[:-1])):
            return rows
        return rows.take(pa.array(np.argsort(numbers, kind="stable")))

    def _mapped(self, path: Path) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()

    def _numbers(self, table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        numbers: np.ndarray[tuple[int], np.dtype[np.int64]] = table.column(self._order).to_numpy()
        return numbers
