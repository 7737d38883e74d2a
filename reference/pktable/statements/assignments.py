"""New values of columns and the condition of a join, as the caller of a statement gives them.

Clauses: MRG-25, STM-4, STM-9.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import parse_options

from pktable.format.metadata.schema import TableSchema
from pktable.format.types import Field
from pktable.predicate.literals import general
from pktable.predicate.tree import Column, Expression
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
    equal = " AND ".join(f"{left}.`{name}` = {right}.`{name}`" for name in given)
    return names.condition(equal, what="on")
