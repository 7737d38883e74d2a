"""Rows in parts: as large as memory has room for, and as often as they are asked for.

A source such as a reader or an iterator is read once. If its rows are more than the write buffer, they lie on local
disk from then on: a write that loses a race reads them again.

Clauses: SAFE-9, TBL-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.store.scratch import Aside, Scratch


@dataclass(frozen=True, slots=True)
class Spooled:
    """Rows on local disk, in their order."""

    rows: Aside

    def whole(self) -> pa.Table:
        """Return all rows, in memory."""
        return pa.concat_tables(self.rows)


def spooled(tables: Iterable[pa.Table], most_bytes: int) -> pa.Table | Spooled:
    """Return the rows of ``tables``, at least one: on disk if they take more than ``most_bytes`` of memory.

    Raises InvalidRequestError if they have different columns.
    """
    held: list[pa.Table] = []
    size = 0
    remaining = _of_same_columns(tables)
    for table in remaining:
        held.append(table)
        size += table.nbytes
        if size > most_bytes:
            held.reverse()
            before = (held.pop() for _ in range(len(held)))  # so that nothing holds them any more
            return Spooled(Scratch().put(chain(before, remaining)))
    return pa.concat_tables(held)


def _of_same_columns(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    schema: pa.Schema = None
    for table in tables:
        schema = schema or table.schema
        if not table.schema.equals(schema):
            raise InvalidRequestError(
                f"rows: expected record batches of the same columns: {shown(schema)}, found {shown(table.schema)}"
            )
        yield table


def shown(schema: pa.Schema) -> str:
    """Return the columns of ``schema`` in one line."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def in_parts(rows: Any, most_bytes: int) -> Iterator[Any]:
    """Yield ``rows``, in order, in parts of about ``most_bytes`` of Arrow memory, at least one.

    Rows in a form that is neither a table nor `Spooled` are yielded as they are.
    """
    if isinstance(rows, Spooled):
        yield from in_tables(rows.rows, most_bytes)
    elif not isinstance(rows, pa.Table) or rows.nbytes <= most_bytes:
        yield rows
    else:
        step = max(1, rows.num_rows * most_bytes // rows.nbytes)
        yield from (rows.slice(start, step) for start in range(0, rows.num_rows, step))


def in_tables(tables: Iterable[pa.Table], most_bytes: int) -> Iterator[pa.Table]:
    """Yield the rows of ``tables``, in order, in tables of about ``most_bytes`` of Arrow memory."""
    held: list[pa.Table] = []
    size = 0
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size >= most_bytes:
            yield pa.concat_tables(held)
            held, size = [], 0
    if size:
        yield pa.concat_tables(held)
