"""Stored columns as the columns of a table: Parquet files read by row groups, columns found by name and converted.

A column that a file lacks is null. Hudi matches columns by name, also inside nested types. A column whose type has
been widened since is converted as it is for Paimon's tables (`evolution`).

Clauses: LOG-21, LOG-35, RD-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import pyarrow as pa
from pktable.datafile.evolution import conformed, require_conversion
from pktable.datafile.readers import LIBRARY_ERRORS, Footer, ParquetRows, read_footer
from pktable.format.bounds import require_bounded_rows
from pktable.format.types import DataType, Field, from_arrow, to_arrow
from pktable_spec.errors import CorruptFileError, InvalidRequestError, StorageError

BATCH_ROWS: Final = 1 << 18
ENCRYPTED: Final = b"PARE"
NEW_FIELD: Final = 1 << 20  # ids of fields that the table does not have any more

Result = TypeVar("Result")


def parquet_tables(
    source: Any,
    at: str,
    fields: Sequence[Field],
    *,
    batch_rows: int = BATCH_ROWS,
    footer: Footer | None = None,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield (position of the first row, rows) of a Parquet file with exactly the columns ``fields``, in file order.

    ``footer``: the footer of the file, if it has been read. Raises CorruptFileError, and InvalidRequestError for an
    encrypted file or a column that cannot be converted. Clauses: LOG-21, LOG-35.
    """
    rows = _plain(lambda: ParquetRows(source, at, footer), source, at)
    _guarded(lambda: require_bounded_rows(rows.metadata.num_rows, source.size()), at)
    schema = rows.metadata.schema.to_arrow_schema()
    stored = {
        name: _guarded(lambda name=name: from_arrow(schema.field(name).type), at)  # type: ignore[misc]
        for name in {field.name for field in fields} & set(schema.names)
    }
    names = {name: stored[name] for name in sorted(stored)} or {schema.names[0]: DataType("STRING")}
    tables = rows.tables(names, ranges=None, batch_rows=batch_rows)
    while (found := _guarded(lambda: next(tables, None), at)) is not None:
        position, table = found
        yield position, aligned(table, stored, fields, table.num_rows, at)


def parquet_footer(source: Any, at: str) -> Footer:
    """Return the footer of an open file. Raises CorruptFileError, InvalidRequestError."""
    return _plain(lambda: read_footer(source, at=at), source, at)


def aligned(
    table: pa.Table, stored: Mapping[str, DataType], fields: Sequence[Field], count: int, at: str
) -> pa.Table:
    """Return ``table`` with the columns ``fields``. ``stored``: the types its columns were written as, by name.

    Raises CorruptFileError, InvalidRequestError. Clauses: LOG-21.
    """
    columns = []
    for field in fields:
        before = stored.get(field.name)
        if before is None:
            columns.append(pa.chunked_array([pa.nulls(count, to_arrow(field.type))]))
            continue
        before = _named_like(before, field.type)
        what = f"{at}: column {field.name}"
        require_conversion(before, field.type, what)
        column = table.column(field.name)
        columns.append(_guarded(lambda c=column, b=before, f=field: conformed(c, b, f.type, what), at))  # type: ignore[misc]  # noqa: B023
    return pa.table(columns, names=[field.name for field in fields])


def _named_like(before: DataType, after: DataType) -> DataType:
    """Return ``before`` with the ids that the fields of the same names have in ``after``."""
    if before.root != after.root or len(before.children) == 0:
        return before
    if before.root != "ROW":
        pairs = zip(before.children, after.children, strict=True)
        return replace(before, children=tuple(replace(a, type=_named_like(a.type, b.type)) for a, b in pairs))
    by_name = {child.name: child for child in after.children}
    children = []
    for i, child in enumerate(before.children):
        same = by_name.get(child.name)
        kind = child.type if same is None else _named_like(child.type, same.type)
        children.append(replace(child, id=NEW_FIELD + i if same is None else same.id, type=kind))
    return replace(before, children=tuple(children))


def _plain(work: Callable[[], Result], source: Any, at: str) -> Result:
    """Return what ``work`` reads of a Parquet file. Raises InvalidRequestError if the file is encrypted."""
    try:
        return _guarded(work, at)
    except CorruptFileError:
        source.seek(max(0, source.size() - len(ENCRYPTED)))
        if source.read(len(ENCRYPTED)) != ENCRYPTED:
            raise
        raise InvalidRequestError(f"{at}: encrypted Parquet files are not supported") from None


def _guarded(work: Callable[[], Result], at: str) -> Result:
    """Return what ``work`` returns, and raise what a library objects to as damage of the file ``at``."""
    try:
        return work()
    except StorageError:
        raise
    except LIBRARY_ERRORS as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the system, not of a decoder
            raise StorageError("read", at, error.errno, error.strerror or str(error)) from error
        first_line = str(error).strip().partition("\n")[0]
        if "decrypt" in first_line.lower():
            raise InvalidRequestError(f"{at}: encrypted Parquet files are not supported") from error
        raise CorruptFileError("parquet data", at=at, expected="a readable file", found=first_line) from error
