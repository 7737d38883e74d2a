"""Read the changes that files hold: changelog files, or level-0 files where a table has no changelog.

A change is a row with a row kind. Changes come in the order of the file, so those of one key in the order in which they
happened. No merge takes place and no deletion vector counts: a change stays what it was.

Clauses: CHG-11, TBL-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, VALUE_KIND, RowKind

from pktable.bucket.reader import DataReader
from pktable.context import TableContext
from pktable.format.arrow_nulls import declared
from pktable.lsm.bucket import ChangeRead
from pktable.predicate import Predicate

ROW_KIND: Final = "_row_kind"
"""The column of the row kinds, spelled +I, -U, +U and -D."""
COMMITS: Final = pa.schema(
    [
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("ms", "UTC"), nullable=False),
    ]
)
"""The id and the time of the snapshot that a change is of."""


def change_schema(context: TableContext, columns: Sequence[str], *, commits: bool = False) -> pa.Schema:
    """Return the schema of changes: `ROW_KIND`, then ``columns``. A retraction may have nothing but its key.

    ``commits``: `COMMITS` at the end.
    """
    keys = context.schema.primary_keys
    fields = [context.schema.arrow_schema.field(name) for name in columns]
    found = [field.with_nullable(field.name not in keys) for field in fields]
    return pa.schema([pa.field(ROW_KIND, pa.string(), nullable=False), *found, *(COMMITS if commits else ())])


def read_changes(
    context: TableContext,
    part: ChangeRead,
    columns: Sequence[str],
    predicate: Predicate | None,
    *,
    commits: bool = False,
) -> Iterator[pa.Table]:
    """Yield the changes of ``part`` whose row satisfies ``predicate``, as tables of `change_schema`.

    Raises CorruptFileError. Clauses: CHG-11.
    """
    kind = context.schema.system_columns[-1:]
    tested = predicate.columns() if predicate else ()
    needed = [*kind, *columns, *(name for name in tested if name not in columns)]
    schema = change_schema(context, columns, commits=commits)
    of_commit = [
        pa.scalar(value, kind)
        for value, kind in zip((part.snapshot, part.time_millis), COMMITS.types, strict=True)
    ]
    for file in part.files:
        reader = DataReader(context, part.place, file)
        # A table without columns would have no rows.
        for _, table in reader.read(needed or [context.schema.fields[0].name]):
            rows = predicate.filter(table) if predicate else table
            if rows.num_rows:
                kinds = _symbols(rows, reader.path)
                made = [pa.repeat(value, rows.num_rows) for value in of_commit] if commits else []
                yield declared(
                    pa.table([kinds, *map(rows.column, columns), *made], names=schema.names), schema
                )


def _symbols(rows: pa.Table, path: str) -> pa.Array:
    """Return the row kinds as text; the rows of an append table have none and are all inserted."""
    if VALUE_KIND not in rows.column_names:
        kinds = np.full(rows.num_rows, int(RowKind.INSERT))
    else:
        kinds = rows.column(VALUE_KIND).to_numpy()
        if ((kinds < 0) | (kinds >= len(ROW_KIND_SYMBOLS))).any():
            raise CorruptFileError("row kinds", at=path, expected="0 to 3", found="others")
    return pa.array(ROW_KIND_SYMBOLS).take(pa.array(kinds))
