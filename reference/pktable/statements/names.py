"""Parse the text of a statement: conditions and values over the columns of a target and a source.

A name may be qualified (``target.x``, ``source.x``, or the aliases the caller chose); a bare name must be a column of
one side only. Everything else is as in a condition of a read.

Clauses: STM-4, RD-6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pktable_spec.errors import InvalidRequestError

from pktable.format.types import (
    FLOATS,
    INTEGER_BITS,
    NUMBERS,
    STRINGS,
    TIMESTAMPS,
    DataType,
    Field,
    values_of,
)
from pktable.ingest.values import column_of_values
from pktable.predicate.coercion import converted
from pktable.predicate.literals import general, literal_as
from pktable.predicate.scope import Scope
from pktable.predicate.tree import NULL, And, Column, Compare, Expression, Literal, conjuncts, walk
from pktable.statements.plan import SOURCE, TARGET, SparkText, SparkWords, qualified

EXACT = (*INTEGER_BITS, "DECIMAL")


@dataclass(frozen=True)
class Names:
    """The columns that a statement may name. ``aliases``: what the text calls target and source.

    ``by_spark``: how a session reads words that it evaluates where they are not understood here, or differ there; None
    if it evaluates none. Clauses: WH-8.
    """

    target: Sequence[Field]
    source: Sequence[Field] = ()
    aliases: tuple[str, str] = (TARGET, SOURCE)
    by_spark: SparkWords | None = None

    def condition(
        self, text: str, *, what: str, sides: Sequence[str] = (TARGET, SOURCE)
    ) -> Expression | SparkText:
        """Return the condition ``text``. ``what``: how messages call it. Raises InvalidRequestError."""
        from pktable.predicate.resolve import resolve_condition  # late, here and below: it brings sqlglot

        try:
            found = resolve_condition(text, self._scope(sides), what=what)
        except InvalidRequestError:
            if self.by_spark is None:
                raise
            return self._left_to_spark(text, sides, what)
        if self.by_spark is None or not self.by_spark.differ(text, found):
            return found
        return replace(self._left_to_spark(text, sides, what), certain=self.by_spark.same(text, found))

    def value(
        self, given: Any, field: Field, *, what: str, sides: Sequence[str] = (TARGET, SOURCE)
    ) -> Expression | SparkText:
        """Return the value for the column ``field``: SQL text, or any other Python value as it is.

        Raises InvalidRequestError also if the value is of a type that the column does not take.
        """
        kind = general(field.type)
        if not isinstance(given, str):
            (value,) = values_of(column_of_values([given], field), field.type)
            return Literal(value, kind)
        from pktable.predicate.resolve import resolve_value

        try:
            found = resolve_value(given, self._scope(sides), what=what)
        except InvalidRequestError as error:
            if self.by_spark is not None:
                return self._left_to_spark(given, sides, what)
            if field.type.root not in STRINGS or "'" in given:
                raise
            quoted = f"'{given}'"
            raise InvalidRequestError(f"{error}; a text needs quotes of its own: {quoted!r}") from None
        fitting = assigned(found, kind)
        if self.by_spark is not None and (
            fitting is None or _is_converted(fitting.type, kind) or self.by_spark.differ(given, fitting)
        ):
            return self._left_to_spark(given, sides, what)
        if fitting is None:
            cast = f"CAST({given} AS {kind})" if kind.root in NUMBERS else "a CAST"
            raise InvalidRequestError(
                f"{what} {given!r}: column {field.name} is {kind}, the value is {found.type}; write {cast}"
            )
        return fitting

    def null(self, field: Field) -> Expression:
        """Return NULL as a value of the column ``field``."""
        return Literal(None, general(field.type))

    def _left_to_spark(self, text: str, sides: Sequence[str], what: str) -> SparkText:
        """Return ``text`` as one for Spark.

        Raises InvalidRequestError if it names a side that has no row there: Spark would take it for nulls.
        """
        from pktable.predicate.resolve import columns_named

        absent = {self.aliases[i].lower() for i, side in enumerate((TARGET, SOURCE)) if side not in sides}
        known = {
            one.name.lower() for side in sides for one in (self.source if side == SOURCE else self.target)
        }
        others = {one.name.lower() for one in (*self.target, *self.source)} - known
        for table, name in columns_named(text):
            if table.lower() in absent or (not table and name.lower() in others):
                shown = f"{table}.{name}" if table else name
                raise InvalidRequestError(f"{what} {text!r}: column {shown} has no row here")
        return SparkText(text)

    def _scope(self, sides: Sequence[str]) -> Scope:
        # Without a source there is one table, and its columns need no qualified names.
        alone = {TARGET: "" if self.aliases[0] == TARGET else self.aliases[0]}
        aliases = dict(zip((TARGET, SOURCE), self.aliases, strict=True)) if self.source else alone
        return Scope({aliases[side]: self._columns[side] for side in sides})

    @cached_property
    def _columns(self) -> dict[str, dict[str, tuple[str, DataType]]]:
        """By side and name: what the tree calls a column, and its type."""
        return {
            side: {field.name: (qualified(side, field.name), general(field.type)) for field in fields}
            for side, fields in ((TARGET, self.target), (SOURCE, self.source))
        }


def assigned(value: Expression, wanted: DataType) -> Expression | None:
    """Return ``value`` as it is stored in a column of type ``wanted``, None if it cannot be.

    Exact numbers keep their type: whether each fits is seen when it is written. But a computed number that has more
    decimal places than the column has none that is sure to fit. Clauses: STM-4, STM-15.
    """
    found = value.type
    if found in (wanted, NULL) or isinstance(value, Literal):
        return literal_as(value, wanted) if isinstance(value, Literal) else value
    if wanted.root in EXACT and found.root in EXACT:
        return value if isinstance(value, Column) or (found.scale or 0) <= (wanted.scale or 0) else None
    if {wanted.root, found.root} <= set(TIMESTAMPS):
        return value if wanted.root == found.root else None
    if wanted.root in FLOATS or (found.root, wanted.root) == ("DATE", "TIMESTAMP"):
        return converted(value, wanted)
    return value if wanted.root == found.root else None


def _is_converted(found: DataType, wanted: DataType) -> bool:
    """Return whether Spark rounds or rebuilds a value that is taken here as it is, or refused. Clauses: WH-8."""
    return bool(found.children and found != wanted) or (found.scale or 0) > (wanted.scale or 0)


def join_of(on: Expression) -> tuple[tuple[tuple[Expression, Expression], ...], Expression | None]:
    """Split the condition of a join: equal values (the target's, the source's), and what else must hold."""
    keys: list[tuple[Expression, Expression]] = []
    others: list[Expression] = []
    for part in conjuncts(on):
        pair = _equal_sides(part)
        if pair is None:
            others.append(part)
        else:
            keys.append(pair)
    if len(others) > 1:
        return tuple(keys), And(tuple(others))
    return tuple(keys), others[0] if others else None


def _equal_sides(part: Expression) -> tuple[Expression, Expression] | None:
    if not (isinstance(part, Compare) and part.operator == "="):
        return None
    sides = [_side(part.left), _side(part.right)]
    if sides == [TARGET, SOURCE]:
        return part.left, part.right
    return (part.right, part.left) if sides == [SOURCE, TARGET] else None


def _side(value: Expression) -> str | None:
    """Return the side whose columns ``value`` reads, None if both or none."""
    sides = {part.name.partition(".")[0] for part in walk(value) if isinstance(part, Column)}
    return sides.pop() if len(sides) == 1 else None
