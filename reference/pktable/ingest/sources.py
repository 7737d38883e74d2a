"""Take rows in whatever form the caller has them, and return them as a pyarrow.Table.

A form is recognised by what it can do, so that neither pandas nor polars, DuckDB or Spark is imported here:

1. A pyarrow.Table is taken as it is. A Spark DataFrame is left to the Spark runner.
2. A pandas DataFrame is taken column by column, without its index (`_of_pandas`).
3. A list of dicts is rows, and so is a list of record batches; an iterator is read into a list. A dict is columns, or
   a single row (`_holds_columns`).
4. Anything else that speaks Arrow (record batches, readers, datasets, polars, DuckDB) is read to the end.

Types are checked later, by `pktable.ingest.changes`; only Python values are converted here, because Arrow guesses
their type. A form that can be read only once is read here, before the first attempt to commit, so that every attempt
sees all rows: `accept_rows` holds them, `accept_parts` puts them on disk if they are many.

Clauses: TBL-4, TBL-8, TBL-13, TBL-24, TBL-70.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.metadata.schema import TableSchema
from pktable.format.types import INTEGER_BITS, Field
from pktable.ingest.changes import ChangeKind
from pktable.ingest.columns import expect_columns, optional_columns
from pktable.ingest.parts import spooled
from pktable.ingest.values import UNCONVERTIBLE, column_of_values, column_with_new_fields, shown

ACCEPTED: Final = (
    "a pyarrow.Table, a DataFrame of pandas, polars or Spark, a DuckDB relation, a list or an iterator of dicts or of "
    "record batches, a dict of lists, or any object with __arrow_c_stream__"
)
PART_ROWS: Final = 1 << 17
"""Python rows that become a table together."""
SCALARS: Final = (str, bytes, bytearray, memoryview, Mapping, set, frozenset)
"""Types with a length that are no column."""


def accept_rows(rows: Any, schema: TableSchema, change: ChangeKind) -> Any:
    """Return ``rows`` as a pyarrow.Table, or as a Spark DataFrame if it is one.

    Reads ``rows`` to the end, into memory. A Spark DataFrame stays lazy; neither it nor Arrow data is checked.
    Raises InvalidRequestError for a form that is not accepted, for pandas and Python rows with other columns than
    those of the table, and for a Python value that its column cannot hold exactly. Clauses: TBL-4, TBL-8, TBL-13.
    """
    if is_spark_frame(rows):
        return plain_frame(rows)
    rows = _gathered(rows)
    if isinstance(rows, pa.Table):
        return rows
    if change.keys_only and isinstance(rows, str):
        raise InvalidRequestError(
            f"delete takes rows of the key columns; for a condition use delete(where={rows!r})"
        )
    columns = _Columns(schema, change)
    if _is_frame_of("pandas", rows):
        return _from_pandas(rows, columns)
    if isinstance(rows, (list, tuple)):
        return _from_dicts(rows, columns)
    if isinstance(rows, Mapping):
        return _from_dict(rows, columns)
    return _from_arrow(rows)


def accept_parts(rows: Any, schema: TableSchema, change: ChangeKind, most_bytes: int) -> Any:
    """Return ``rows`` as `accept_rows`, but on disk if they come in parts that take more than ``most_bytes``."""
    if isinstance(rows, Iterator) and not hasattr(rows, "__arrow_c_stream__"):
        parts = _parts_of(rows, schema, change)
    elif _is_lazy(rows):
        parts = _tables_of(rows)
    else:
        return accept_rows(rows, schema, change)
    return spooled(parts, most_bytes)


def _parts_of(rows: Iterator[Any], schema: TableSchema, change: ChangeKind) -> Iterator[pa.Table]:
    """Yield the rows of an iterator of dicts or of record batches, some at a time, at least one table."""
    first = list(islice(rows, 1))
    rows = chain(first, rows)
    if first and isinstance(first[0], pa.RecordBatch):
        yield from (_of_batches([batch]) for batch in rows)
        return
    columns = _Columns(schema, change)
    for start in count(0, PART_ROWS):
        some = list(islice(rows, PART_ROWS))
        if some or not start:
            yield _from_dicts(some, columns, start)
        if len(some) < PART_ROWS:
            return


def _is_lazy(rows: Any) -> bool:
    """Return whether ``rows`` speak Arrow, and need not be in memory as a whole."""
    if isinstance(rows, (pa.Table, pa.RecordBatch)):
        return False
    if any(_is_frame_of(one, rows) for one in ("pandas", "polars", "pyspark")):
        return False
    batches = hasattr(rows, "to_batches") and isinstance(getattr(rows, "schema", None), pa.Schema)
    return batches or hasattr(rows, "projected_schema") or hasattr(rows, "__arrow_c_stream__")


def _tables_of(rows: Any) -> Iterator[pa.Table]:
    """Yield the rows of a dataset, a scanner, a reader or another stream of Arrow, at least one table."""
    try:
        if hasattr(rows, "__arrow_c_stream__"):
            batches = pa.RecordBatchReader.from_stream(rows)
            schema = batches.schema
        else:
            batches = rows.to_batches()
            schema = rows.projected_schema if hasattr(rows, "projected_schema") else rows.schema
        yield schema.empty_table()
        for batch in batches:
            yield pa.Table.from_batches([batch])
    except (pa.ArrowException, TypeError) as error:
        raise InvalidRequestError(f"rows: Arrow cannot read this {type(rows).__name__}: {error}") from None


def untyped_rows(rows: Any, schema: TableSchema, *, grow: bool = False) -> pa.Table:
    """Return ``rows``, which may have any columns, as a pyarrow.Table; read to the end, into memory.

    A column that the table has too takes Python values by the type it has there; of others Arrow guesses the type.
    ``grow``: whether a ROW may lack fields, and have others.
    Raises InvalidRequestError for a form that is not accepted. A Spark DataFrame is not.
    """
    rows = _gathered(rows)
    if isinstance(rows, pa.Table):
        return rows
    if _is_frame_of("pandas", rows):
        names = [str(name) for name in rows.columns]
        columns = _Columns.of_any_rows(names, schema, grow)
        return pa.Table.from_arrays(
            [columns.of_any(n, rows.iloc[:, at]) for at, n in enumerate(names)], names
        )
    if isinstance(rows, Mapping):
        columns = _Columns.of_any_rows(rows, schema, grow)
        return _from_columns(rows, columns) if _holds_columns(rows, columns) else _from_dicts([rows], columns)
    if isinstance(rows, (list, tuple)):
        names = next((list(row) for row in rows if isinstance(row, Mapping)), [])
        return _from_dicts(rows, _Columns.of_any_rows(names, schema, grow))
    return _from_arrow(rows)


def is_spark_frame(rows: Any) -> bool:
    """Return whether ``rows`` are a Spark DataFrame: classic, of Spark Connect, or of pyspark.pandas."""
    return _is_frame_of("pyspark", rows)


def plain_frame(rows: Any) -> Any:
    """Return a Spark DataFrame as it is, and one of pyspark.pandas without its index, as from pandas."""
    return rows.to_spark() if type(rows).__module__.startswith("pyspark.pandas") else rows


def as_arrow(frame: Any) -> pa.Table:
    """Return the rows of a Spark DataFrame, in memory. Raises what pyspark raises. Clauses: TBL-70."""
    try:
        return frame.toArrow()
    except pa.ArrowInvalid:
        # pyspark casts what it has collected, and Arrow casts no NULL whose type has NOT NULL inside, as VARIANT. A
        # frame of Spark Connect takes any attribute for a column: so its class is asked.
        collect = getattr(type(frame), "_collect_as_arrow", None)
        return frame._to_table()[0] if collect is None else pa.Table.from_batches(collect(frame))


def _is_frame_of(package: str, rows: Any) -> bool:
    """Return whether ``rows`` are a DataFrame of ``package``, or of a class derived from it."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == package
        for kind in type(rows).__mro__
    )


class _Columns:
    """The columns that rows must have: those of the table, or of its primary key, and that of the row kinds."""

    def __init__(self, schema: TableSchema, change: ChangeKind) -> None:
        self.schema = schema
        names = schema.primary_keys if change.keys_only else schema.value_names
        self.fields: dict[str, Field | None] = {name: schema.field(name) for name in names}
        self.kinds = change.column
        self.grow = False
        if change.column is not None:
            self.fields[change.column] = None  # row kinds are checked later
        self.names = list(self.fields)
        whole = change.keys_only or change.whole
        self.optional = () if whole else optional_columns(schema)

    @classmethod
    def of_any_rows(cls, names: Iterable[str], schema: TableSchema, grow: bool) -> _Columns:
        """Return columns of these names; those that the table has too are of its types."""
        found = cls(schema, ChangeKind(whole=True))
        found.grow = grow
        known = found.fields
        found.fields = {str(name): known.get(str(name)) for name in names}
        found.names = list(found.fields)
        return found

    def expect(self, names: Sequence[object], *, at: str = "columns") -> None:
        """Raise InvalidRequestError unless ``names`` are those of these columns."""
        expect_columns(names, self.names, self.schema, at=at, optional=self.optional)

    def of_python(self, name: str, values: list[Any], start: int = 0) -> pa.Array | pa.ChunkedArray:
        """Return Python values, of rows from ``start`` on, as the column ``name``. Raises InvalidRequestError."""
        field = self.fields[name]
        try:
            if field is None or self.grow:
                return column_with_new_fields(values, field, start)
            return column_of_values(values, field, start)
        except InvalidRequestError:
            raise
        except UNCONVERTIBLE:
            if name == self.kinds:
                raise InvalidRequestError(f"row kinds in {name!r}: expected strings or integers") from None
            raise InvalidRequestError(f"column {name}: Arrow finds no type for its values") from None

    def of_any(self, name: str, values: Any) -> pa.Array | pa.ChunkedArray:
        """Return a list, a numpy array, or anything that speaks Arrow as the column ``name``."""
        try:
            if hasattr(values, "isna"):
                return _of_pandas(self, name, values)
            if isinstance(values, (pa.Array, pa.ChunkedArray)):
                return values
            if hasattr(values, "__arrow_c_stream__"):
                return pa.chunked_array(values)
            if isinstance(values, np.ndarray) and values.dtype != object:
                return pa.array(values)
        except (pa.ArrowException, TypeError) as error:
            raise InvalidRequestError(f"column {name}: Arrow cannot read it: {error}") from None
        if not _is_column(values):
            raise InvalidRequestError(f"column {name}: expected a list of values, found {shown(values)}")
        return self.of_python(name, list(values))


def _gathered(rows: Any) -> Any:
    """Return an iterator's rows as a list, and record batches in a list as a table. Raises InvalidRequestError."""
    if isinstance(rows, Iterator) and not hasattr(rows, "__arrow_c_stream__"):
        rows = list(rows)
    if not isinstance(rows, (list, tuple)) or not any(isinstance(row, pa.RecordBatch) for row in rows):
        return rows
    return _of_batches(rows)


def _of_batches(batches: Sequence[Any]) -> pa.Table:
    try:
        return pa.Table.from_batches(batches)
    except (pa.ArrowException, TypeError) as error:
        problem = " ".join(str(error).split())
        raise InvalidRequestError(f"rows: expected record batches of the same columns: {problem}") from None


def _from_pandas(frame: Any, columns: _Columns) -> pa.Table:
    names = list(frame.columns)
    try:
        columns.expect(names)
    except InvalidRequestError as error:
        indexed = [name for name in columns.names if name not in names and name in frame.index.names]
        if not indexed:
            raise
        raise InvalidRequestError(
            f"{error}; the index is ignored: make {', '.join(indexed)} a column by reset_index()"
        ) from None
    return pa.table({name: columns.of_any(name, frame.iloc[:, at]) for at, name in enumerate(names)})


def _of_pandas(columns: _Columns, name: str, series: Any) -> pa.Array | pa.ChunkedArray:
    """Return a column of pandas, null where pandas has a missing value (`isna`), NaN of numpy's floats included.

    For a column of integers numpy's floats are taken if they are whole, because pandas makes floats of integers
    when one is missing. From 2**53 on (float32: 2**24) it rounds them; those are refused. A column without any value
    may be of any type, because pandas makes floats of those too.
    """
    field, dtype = columns.fields[name], series.dtype
    if series.isna().all():
        return pa.nulls(len(series))
    if dtype.kind == "O" and isinstance(dtype, np.dtype):
        pairs = zip(series.tolist(), series.isna().tolist(), strict=True)
        return columns.of_python(name, [None if missing else value for value, missing in pairs])
    floats = isinstance(dtype, np.dtype) and dtype.kind == "f"
    if field is None or field.type.root not in INTEGER_BITS or not floats:
        return pa.array(series, from_pandas=True)
    numbers, missing = series.to_numpy(), series.isna().to_numpy()
    exact = (numbers == np.trunc(numbers)) & (abs(numbers) < 2.0 ** (np.finfo(dtype).nmant + 1))
    wrong = np.flatnonzero(~exact & ~missing)
    if len(wrong):
        raise InvalidRequestError(
            f"column {name}, row {wrong[0]}: expected {field.type}, found {float(numbers[wrong[0]])} ({dtype})"
        )
    return pa.array(np.where(missing, 0, numbers).astype(np.int64), mask=missing)


def _from_dicts(rows: Sequence[Any], columns: _Columns, start: int = 0) -> pa.Table:
    """Return one row per dict. A dict has all columns: a missing one is null only if it is optional.

    ``start``: the number of the first row in messages.
    """
    names = set(columns.names)
    for number, row in enumerate(rows, start):
        if not isinstance(row, Mapping):
            raise InvalidRequestError(
                f"row {number}: expected a dict of the columns {', '.join(columns.names)}, found {shown(row)}"
            )
        if row.keys() != names:
            columns.expect(list(row), at=f"row {number}")
    return pa.table(
        {name: columns.of_python(name, [row.get(name) for row in rows], start) for name in columns.names}
    )


def _from_dict(rows: Mapping[Any, Any], columns: _Columns) -> pa.Table:
    """Return the rows of a dict of columns, or the one row of a dict of values."""
    columns.expect(list(rows))
    return _from_columns(rows, columns) if _holds_columns(rows, columns) else _from_dicts([rows], columns)


def _holds_columns(rows: Mapping[Any, Any], columns: _Columns) -> bool:
    """Return whether a dict holds columns, and not the values of one row.

    No value of the key is a list, so a list there is a column. Without the key, columns other than ARRAY and MAP tell,
    and without these the columns that the table lacks. Raises InvalidRequestError for a dict without any of them.
    """
    types = {name: field and field.type.root for name, field in columns.fields.items()}
    asked = (
        [name for name in rows if name in columns.schema.primary_keys]
        or [name for name in rows if types.get(name) not in (None, "ARRAY", "MAP")]
        or [name for name in rows if types.get(name) is None]
    )
    if not asked and any(map(_is_column, rows.values())):
        raise InvalidRequestError(
            f"rows: a dict of {', '.join(map(str, rows))} may hold one row or columns; give a list of dicts"
        )
    return bool(asked) and all(_is_column(rows[name]) for name in asked)


def _from_columns(rows: Mapping[Any, Any], columns: _Columns) -> pa.Table:
    """Return the rows of a dict of columns. Raises InvalidRequestError unless all are of one length."""
    found = {name: columns.of_any(name, rows[name]) for name in columns.names if name in rows}
    if len({len(column) for column in found.values()}) > 1:
        lengths = ", ".join(f"{name} has {len(column)}" for name, column in found.items())
        raise InvalidRequestError(f"columns: expected as many values in each, but {lengths}")
    return pa.table(found)


def _is_column(values: Any) -> bool:
    """Return whether ``values`` are several values, one after the other."""
    return hasattr(values, "__len__") and not isinstance(values, SCALARS) and getattr(values, "ndim", 1) == 1


def _from_arrow(rows: Any) -> pa.Table:
    """Return ``rows`` read to the end. Raises InvalidRequestError if they do not speak Arrow, or not as a table."""
    if _is_lazy(rows):
        return pa.concat_tables(_tables_of(rows))
    if type(rows).__module__.partition(".")[0] == "polars":
        rows = rows.collect() if hasattr(rows, "collect") else rows
        for name, kind in getattr(rows, "schema", {}).items():
            if str(kind) == "Object":  # polars exports its addresses in memory
                raise InvalidRequestError(f"column {name}: the type Object of polars cannot be written")
    if not hasattr(rows, "__arrow_c_stream__") and not hasattr(rows, "__arrow_c_array__"):
        raise InvalidRequestError(f"rows: expected {ACCEPTED}, found {type(rows).__name__}")
    try:
        return pa.table(rows)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidRequestError(f"rows: Arrow cannot read this {type(rows).__name__}: {error}") from None
