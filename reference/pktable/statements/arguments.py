"""What the caller of a statement gives: the source of a MERGE, the condition of its join, new values of columns.

A source may have any columns. It is brought to Arrow. Python values, whose type Arrow would guess, take that of the
table's column of the same name, if there is one.

Clauses: MRG-25, STM-4, STM-9, STM-10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import parse_options

from pktable.format.metadata.schema import TableSchema
from pktable.format.type_text import quoted
from pktable.format.types import Field, from_arrow, to_arrow
from pktable.ingest.changes import ChangeKind, as_changes, conform
from pktable.ingest.sources import as_arrow, is_spark_frame, plain_frame, untyped_rows
from pktable.predicate import Predicate
from pktable.predicate.literals import general
from pktable.predicate.spark_sql import spark_text
from pktable.predicate.tree import STRING, Column, Expression, Literal
from pktable.statements.names import Names
from pktable.statements.plan import TARGET, SparkText, qualified

Assignments: TypeAlias = Mapping[str, Any]


def updated(
    assignments: Assignments, schema: TableSchema, names: Names, what: str, sides: Sequence[str]
) -> tuple[Expression | SparkText, ...]:
    """Return the values of all columns of an updated row.

    Raises InvalidRequestError for a column of the key or of ``sequence.field``. Clauses: STM-9, MRG-25.
    """
    given = assigned(assignments, schema, names, what, sides)
    if not given:
        raise InvalidRequestError(f"{what}: no column to update")
    keys = [name for name in given if name in schema.primary_keys]
    if keys:
        raise InvalidRequestError(
            f"{what}: {', '.join(keys)} is part of the primary key and cannot be updated; delete the row and insert it"
        )
    ordering = [name for name in given if name in parse_options(schema.options).sequence_fields]
    if ordering and schema.primary_keys:
        raise InvalidRequestError(
            f"{what}: {', '.join(ordering)} is part of sequence.field, and the updated row could be the older one; "
            "write it with upsert"
        )
    return tuple(given.get(f.name) or _target_column(f) for f in schema.fields)


def _target_column(column: Field) -> Column:
    return Column(qualified(TARGET, column.name), general(column.type))


def assigned(
    assignments: Assignments, schema: TableSchema, names: Names, what: str, sides: Sequence[str]
) -> dict[str, Expression | SparkText]:
    """Return the values that the caller gives to columns. Raises InvalidRequestError."""
    if not isinstance(assignments, Mapping):
        raise InvalidRequestError(
            f"{what}: expected a dict of columns and values, found {type(assignments).__name__}"
        )
    unknown = [str(name) for name in assignments if name not in schema.value_names]
    if unknown:
        raise InvalidRequestError(
            f"{what}: column {', '.join(unknown)} is not in the table; columns are {', '.join(schema.value_names)}"
        )
    return {
        name: given
        if isinstance(given, Column)
        else names.value(given, schema.field(name), what=f"{what}: {name} =", sides=sides)
        for name, given in assignments.items()
    }


def texts_of(assignments: Assignments) -> dict[str, str]:
    """Return the new values that were given as SQL, by column."""
    return {name: given for name, given in assignments.items() if isinstance(given, str)}


def join_condition(on: str | Sequence[str], names: Names) -> Expression | SparkText:
    """Return the condition of a join: SQL text, or the names of columns that are equal."""
    if not isinstance(on, str) and not (isinstance(on, Iterable) and not isinstance(on, bytes | Mapping)):
        raise InvalidRequestError(f"on: expected a condition, a column or several, found {on!r}")
    both = {f.name for f in names.target} & {f.name for f in names.source}
    given = [on] if isinstance(on, str) else list(on)
    if isinstance(on, str) and on not in both:
        return names.condition(on, what="on")
    absent = [str(name) for name in given if not isinstance(name, str) or name not in both]
    if absent or not given:
        raise InvalidRequestError(
            f"on: expected columns of target and source, found {', '.join(absent) or 'none'}"
        )
    left, right = names.aliases
    equal = " AND ".join(f"{left}.{quoted(name)} = {right}.{quoted(name)}" for name in given)
    return names.condition(equal, what="on")


ROW: Final = "__pktable_row"
OUTSIDE: Final = "pktable: overwrite: a row"
"""Begins the message of a failed job in which a row was not among those to overwrite."""


def accept_source(rows: Any, schema: TableSchema) -> Any:
    """Return ``rows`` as a pyarrow.Table whose columns have types that a table has, or as the Spark DataFrame it is.

    Reads ``rows`` to the end, into memory; a Spark DataFrame stays lazy. Raises InvalidRequestError for a form that is
    not accepted, for two columns of one name, and for a type that no column of a table has.
    """
    if is_spark_frame(rows):
        frame = plain_frame(rows)
        if frame.isStreaming:
            raise InvalidRequestError(
                "source: a streaming DataFrame cannot be merged at once; use foreachBatch"
            )
        return frame if frame.columns else schema.arrow_schema.empty_table()
    try:
        table = untyped_rows(rows, schema)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"source: {str(error).removeprefix('rows: ')}") from None
    expect_distinct(table.column_names)
    if not table.num_columns:  # an empty list, say: no rows of any columns
        return schema.arrow_schema.empty_table()
    return pa.table({name: _plain(name, table.column(name)) for name in table.column_names})


def expect_all(rows: Any, where: str, predicate: Predicate, schema: TableSchema) -> Any:
    """Return ``rows`` if ``predicate``, written ``where``, holds for every row; else raise InvalidRequestError.

    It runs a DataFrame. The one that is returned fails if it has other rows when it runs again. Clauses: STM-10.
    """
    if is_spark_frame(rows):
        found = source_types(rows).items()
        no_rows = pa.schema([pa.field(name, kind) for name, kind in found]).empty_table()
        as_changes(no_rows, schema, ChangeKind(whole=True))  # refuses columns that the table does not have
        text = spark_text(predicate.root)
        other = as_arrow(rows.where(f"NOT coalesce({text}, false)").limit(1))
        message = spark_text(Literal(f"{OUTSIDE} does not satisfy {where!r}", STRING))
        kept = rows.where(f"CASE WHEN {text} THEN true ELSE CAST(raise_error({message}) AS BOOLEAN) END")
    else:
        numbered = conform(rows, schema).append_column(ROW, pa.array(np.arange(rows.num_rows)))
        found = predicate.filter(numbered).column(ROW).to_numpy()
        other = numbered.take(np.setdiff1d(np.arange(rows.num_rows), found)[:1]).drop_columns([ROW])
        kept = rows
    if other.num_rows:
        (row,) = other.select(schema.value_names).to_pylist()
        raise InvalidRequestError(f"overwrite: the row {row} does not satisfy {where!r}; leave it out")
    return kept


def expect_distinct(names: Sequence[str]) -> None:
    """Raise InvalidRequestError if two columns of a source have one name."""
    if len(set(names)) != len(names):
        raise InvalidRequestError(f"source: two columns have one name; columns are {', '.join(names)}")


def source_fields(types: Mapping[str, pa.DataType]) -> list[Field]:
    """Return the columns of a source with the types that expressions see. Raises InvalidRequestError."""
    fields = []
    for i, (name, kind) in enumerate(types.items()):
        try:
            # A column of nulls alone has no type; as a boolean it can be compared with nothing but NULL.
            fields.append(Field(i, name, from_arrow(pa.bool_() if pt.is_null(kind) else kind)))
        except InvalidRequestError as error:
            raise InvalidRequestError(f"source: column {name}: {error}") from None
    return fields


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in the Arrow type that a table's column with its values has."""
    if pt.is_nested(column.type) or pt.is_null(column.type):
        return column
    (field,) = source_fields({name: column.type})
    return column.cast(to_arrow(field.type))


def source_types(source: Any) -> dict[str, pa.DataType]:
    """Return the columns of a source that `accept_source` has accepted; of a DataFrame, without running it.

    Raises InvalidRequestError for a column of a DataFrame that Arrow has no type for, or whose name occurs twice.
    """
    if isinstance(source, pa.Table):
        return dict(zip(source.column_names, source.schema.types, strict=True))
    expect_distinct(source.columns)
    try:
        found = source.limit(0).toArrow().schema
    except (TypeError, ValueError) as error:
        raise InvalidRequestError(
            f"source: Arrow has no type for a column of this DataFrame: {error}"
        ) from None
    return dict(zip(found.names, found.types, strict=True))
