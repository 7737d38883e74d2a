"""The columns and fields that rows have and the table has not, and rows brought to all columns of the table.

A field inside of a column counts as a column: a ROW of the rows may have more fields than that of the table, at any
depth, and may lack some that may be null.

Clauses: TBL-45.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.catalog.definitions import defined, parse_definition
from pktable.catalog.nested_alteration import path_of
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import NESTED, DataType, Field, arrow_field, to_arrow
from pktable.ingest.sources import is_spark_frame, plain_frame, untyped_rows


def evolved_rows(rows: Any, schema: TableSchema, add: Callable[[tuple[Field, ...]], TableSchema]) -> Any:
    """Return ``rows``, with all columns of the table after ``add`` has added those that only ``rows`` have.

    ``rows``: as of `accept_rows`; all but a Spark DataFrame become a pyarrow.Table. ``add``: takes columns, and fields
    by their paths, all nullable, and returns the schema that has them.
    Raises InvalidRequestError, also for a name that differs from that of a column in its case only.
    """
    rows = plain_frame(rows) if is_spark_frame(rows) else untyped_rows(rows, schema, grow=True)
    there = _names(rows)
    new = [
        _nullable(one) for one in _of_rows(rows, [name for name in there if name not in schema.value_names])
    ]
    _expect_cases([one.name for one in new], schema.value_names)
    for one in new:
        if path_of(schema.fields, one.name) is not None:
            raise InvalidRequestError(
                f"columns: {one.name}: a new column cannot have the name of a column and a dot"
            )
    nested = _nested_of_rows(rows, schema)
    whole = [
        replace(one, type=_whole(one.type, schema.field(one.name).type, one.name, new)) for one in nested
    ]
    changed = [one for one, before in zip(whole, nested, strict=True) if one.type != before.type]
    if new:
        schema = add(defined((one.name, one.type, one.description) for one in new))
    absent = [one for one in schema.fields if one.name not in there and one.type.nullable]
    fill = _spark_with_nulls if is_spark_frame(rows) else _with_nulls
    return fill(rows, absent, changed)


def _names(rows: Any) -> list[str]:
    names: list[str] = rows.columns if is_spark_frame(rows) else rows.column_names
    return names


def _of_rows(rows: Any, names: Collection[str]) -> tuple[Field, ...]:
    """Return some columns of ``rows``, in their order, as a table would define them."""
    some = [one for one in rows.schema if one.name in names]
    if not some:
        return ()
    return parse_definition(type(rows.schema)(some) if is_spark_frame(rows) else pa.schema(some))


def _nested_of_rows(rows: Any, schema: TableSchema) -> list[Field]:
    """Return the columns of ``rows`` that are nested in the table; one that no table could have is left to checks."""
    found: list[Field] = []
    for name in _names(rows):
        if name in schema.value_names and schema.field(name).type.root in NESTED:
            with suppress(InvalidRequestError):
                found += _of_rows(rows, [name])
    return found


def _nullable(one: Field) -> Field:
    return replace(one, type=replace(one.type, nullable=True))


def _expect_cases(new: list[str], known: Any, at: str = "") -> None:
    """Raise InvalidRequestError if a new name is that of another column or field, written otherwise."""
    folded = {name.casefold(): name for name in known}
    for name in new:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise InvalidRequestError(f"columns: {at}{name} must be written {at}{other}")


def _whole(found: DataType, known: DataType, at: str, new: list[Field]) -> DataType:
    """Return the type ``found`` of rows with the fields that it lacks, each ROW in the order of ``known``.

    ``at``: the path of both. ``new``: gets the fields that only ``found`` has.
    Raises InvalidRequestError for a field that is missing and may not be null.
    """
    if found.root != known.root or found.variant or known.variant or known.root not in NESTED:
        return found
    there = {part.name: part for part in found.children}
    if known.root != "ROW":
        parts = [
            replace(there[one.name], type=_whole(there[one.name].type, one.type, f"{at}.{one.name}", new))
            for one in known.children
        ]
        return replace(found, children=tuple(parts))
    names = [part.name for part in known.children]
    only = [part for name, part in there.items() if name not in names]
    _expect_cases([part.name for part in only], names, f"{at}.")
    for part in only:
        if "." in part.name:
            raise InvalidRequestError(
                f"columns: {part.name!r} in {at}: expected the name of a new field without a dot"
            )
    new += [_nullable(replace(part, name=f"{at}.{part.name}")) for part in only]
    fields = []
    for one in known.children:
        if one.name not in there and not one.type.nullable:
            raise InvalidRequestError(f"columns: {at}.{one.name} is missing, and may not be null")
        part = there.get(one.name, one)
        fields.append(replace(part, type=_whole(part.type, one.type, f"{at}.{one.name}", new)))
    return replace(found, children=(*fields, *only))


def _with_nulls(rows: pa.Table, absent: list[Field], changed: list[Field]) -> pa.Table:
    """Return ``rows`` with columns of null, and those that lack fields as they are to be."""
    for one in changed:
        at = rows.column_names.index(one.name)
        column = rows.column(at)
        try:
            rows = rows.set_column(at, one.name, column.cast(to_arrow(one.type)))
        except pa.ArrowException as error:
            raise InvalidRequestError(
                f"column {one.name}: expected {one.type}, found {column.type}: {error}"
            ) from None
    for one in absent:
        wanted = arrow_field(one)
        rows = rows.append_column(wanted, pa.nulls(rows.num_rows, wanted.type))
    return rows


def _spark_with_nulls(rows: Any, absent: list[Field], changed: list[Field]) -> Any:
    """Return a Spark DataFrame as `_with_nulls` returns rows."""
    if not absent and not changed:
        return rows
    from pktable.run.spark.types import spark_schema

    new = {one.name: one for one in spark_schema([*changed, *absent])}
    there = [new.get(one.name, one) for one in rows.schema]
    return rows.to(type(rows.schema)([*there, *(new[one.name] for one in absent)]))
