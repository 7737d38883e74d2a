"""A statement as data: which rows it joins, what it does to each, and which target rows need not be read.

Without a clause about target rows that no source row matches, such rows stay as they are and need not be read. Then
the conditions of the join on the target alone hold for every row of interest, and its join values are among those of
the source. With such a clause every row is read.

Clauses: STM-1, STM-2, STM-3, STM-5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.vocabulary import ROW_ID, RowKind

from pktable.format.types import FLOATS, INTEGER_BITS, NESTED, values_of
from pktable.predicate.evaluation import evaluated
from pktable.predicate.tree import (
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    Literal,
    conjuncts,
    rewritten,
    walk,
)

TARGET: Final = "target"
SOURCE: Final = "source"
INSTANT: Final = "TIMESTAMP_LTZ"
KIND: Final = "__pktable_change_kind"
"""The column of row kinds in the rows that a statement makes."""
PLACE: Final = ("__pktable_file", "__pktable_position")
"""The columns that say where a row of an append table lies: the name of its data file, and its position there."""


@dataclass(frozen=True, slots=True)
class SparkText:
    """A condition or a value in the caller's words, which Spark alone evaluates.

    It names columns of target and source under the aliases of the statement. ``certain``: the part of a condition that
    is understood here and means the same there, if any. Clauses: WH-8.
    """

    text: str
    certain: Expression | None = None


@dataclass(frozen=True, slots=True)
class SparkWords:
    """How a session of Spark reads conditions and values.

    ``in_utc``: whether its time zone is UTC. ``substitutes``: whether it puts variables in place of ``${name}``.
    ``keeps_backslashes``: whether a backslash in a text is one. ``quotes_names``: whether names are in double quotes.
    ``joins_texts``: whether a doubled quote ends a text and begins another.
    """

    in_utc: bool
    substitutes: bool
    keeps_backslashes: bool
    quotes_names: bool
    joins_texts: bool

    def differ(self, text: str, found: Expression) -> bool:
        """Return whether the session may read ``text`` as something else than ``found``. Clauses: WH-8."""
        return self._spells_otherwise(text) or (not self.in_utc and _reads_zone(found))

    def same(self, text: str, found: Expression) -> Expression | None:
        """Return the parts of the condition ``found`` that mean the same in the session, None without any."""
        parts = [] if self._spells_otherwise(text) else conjuncts(found)
        same = tuple(part for part in parts if self.in_utc or not _reads_zone(part))
        return And(same) if len(same) > 1 else same[0] if same else None

    def _spells_otherwise(self, text: str) -> bool:
        return (
            (self.substitutes and "${" in text)
            or (self.keeps_backslashes and "\\" in text)
            or (self.quotes_names and '"' in text)
            or (self.joins_texts and ("''" in text or '""' in text))
        )


def _reads_zone(expression: Expression) -> bool:
    """Return whether the value of ``expression`` may depend on the time zone of a session."""
    return any(map(_is_of_zone, walk(expression)))


def _is_of_zone(part: Expression) -> bool:
    match part:
        case Literal() if part.type.root == INSTANT:
            return part.value is not None
        case Cast() if part.type.root == INSTANT:
            return True
        case In() | Cast():
            return part.operand.type.root == INSTANT
        case Call():
            return any(argument.type.root == INSTANT for argument in part.arguments)
    return False


class When(Enum):
    """The rows a clause decides about: pairs of the join, source rows in no pair, target rows in no pair."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


@dataclass(frozen=True, slots=True)
class Clause:
    """What is done to the rows of ``when`` for which ``condition`` holds (None: to all).

    ``values``: the new value of each column of the table, in its order; None for a delete. ``name``: what messages call
    the clause. ``text``: of the condition. ``texts``: of the new values by column, where they were given as SQL.
    """

    when: When
    kind: RowKind
    condition: Expression | SparkText | None
    values: tuple[Expression | SparkText, ...] | None = None
    name: str = "clause"
    text: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def parts(self) -> Iterator[Expression | SparkText]:
        """Yield the condition and the new values."""
        if self.condition is not None:
            yield self.condition
        yield from self.values or ()

    def shown_condition(self) -> str:
        """Return what messages call the condition."""
        return f"{self.name} {self.text!r}"

    def shown_value(self, column: str) -> str:
        """Return what messages call the new value of ``column``."""
        text = self.texts.get(column)
        return f"{self.name}: {column} =" + ("" if text is None else f" {text!r}")


@dataclass(frozen=True, slots=True)
class Statement:
    """A MERGE, or without a source an UPDATE or DELETE.

    ``columns``: the table's. ``key``: its primary key. ``keys``: pairs of equal values that join a target row with a
    source row, the target's first; empty without a source. ``residual``: what else must hold for a pair.
    ``tracked``: whether rows of the target have ids. ``on``: the text of the condition of the join. ``same_keys``: join
    values are equal if they are one key, not as SQL compares: it tells -0.0 from 0.0. ``aliases``: what `SparkText`
    calls target and source. Clauses: STM-10, MRG-7.
    """

    clauses: tuple[Clause, ...]
    columns: tuple[str, ...]
    key: tuple[str, ...]
    keys: tuple[tuple[Expression, Expression], ...] = ()
    residual: Expression | SparkText | None = None
    tracked: bool = False
    on: str = ""
    same_keys: bool = False
    aliases: tuple[str, str] = (TARGET, SOURCE)

    @property
    def by_key(self) -> bool:
        """Whether the primary key tells one target row from another; in an append table its place (`PLACE`) does."""
        return bool(self.key)

    @property
    def inserts_are_new(self) -> bool:
        """Whether a row that it inserts has a key that no target row has, if all of them were read.

        False if the join has any other condition than equal columns of the key. Clauses: STM-8, WH-12.
        """
        of_key = {qualified(TARGET, name): self.columns.index(name) for name in self.key}
        inserts = [clause.values or () for clause in self.clauses if clause.kind is RowKind.INSERT]
        if not self.by_key or not inserts:
            return True
        for left, right in self.keys:
            column, same = _unwidened(left), (right, _unwidened(right))
            if not isinstance(column, Column) or column.name not in of_key:
                return False
            if any(values[of_key[column.name]] not in same for values in inserts):
                return False
        return self.residual is None

    @property
    def place(self) -> tuple[str, ...]:
        """The columns that come with a target row and stay with it besides its values; null for an inserted row."""
        return () if self.by_key else (*PLACE, ROW_ID) if self.tracked else PLACE

    @property
    def in_sparks_words(self) -> bool:
        """Whether Spark alone can evaluate a part of it."""
        return any(isinstance(part, SparkText) for part in self._parts())

    def has(self, kind: RowKind) -> bool:
        """Return whether a clause makes rows of ``kind``."""
        return any(clause.kind is kind for clause in self.clauses)

    @property
    def shown_on(self) -> str:
        """The name of the condition of the join in messages."""
        return f"on {self.on!r}"

    @property
    def shown_key(self) -> tuple[str, ...]:
        """The target's columns that tell people of which row a message speaks."""
        return self.key or tuple(
            left.name.partition(".")[2] for left, _ in self.keys if isinstance(left, Column)
        )

    def of(self, when: When) -> list[tuple[int, Clause]]:
        """Return the clauses about the rows of ``when``, each with its number in the statement."""
        return [(i, clause) for i, clause in enumerate(self.clauses) if clause.when is when]

    def needed(self, side: str) -> list[str]:
        """Return the columns of the target or the source that the statement reads, in order of their first use."""
        if side == TARGET and self.in_sparks_words:  # whose names nobody has resolved
            return list(self.columns)
        found: dict[str, None] = {}
        for root in self._expressions(side):
            for part in walk(root):
                if isinstance(part, Column) and part.name.startswith(side + "."):
                    found[part.name[len(side) + 1 :]] = None
        if side == TARGET and self.by_key:  # an append table's rows come with their place, which is no column
            # A deleted row is written whole, as it was.
            found |= dict.fromkeys(self.columns if self.has(RowKind.DELETE) else self.key)
        return list(found)

    def expressions(self) -> Iterator[Expression]:
        """Yield all expressions but those in Spark's words."""
        yield from (side for pair in self.keys for side in pair)
        yield from self._expressions_of_pairs()

    def _expressions(self, side: str) -> Iterator[Expression]:
        for pair in self.keys:
            yield pair[0 if side == TARGET else 1]
        yield from self._expressions_of_pairs()

    def _expressions_of_pairs(self) -> Iterator[Expression]:
        for part in self._parts():
            if not isinstance(part, SparkText):
                yield part

    def _parts(self) -> Iterator[Expression | SparkText]:
        if self.residual is not None:
            yield self.residual
        for clause in self.clauses:
            yield from clause.parts()


def _unwidened(value: Expression) -> Expression:
    """Return the integer that a comparison brings to another type of integers, and any other value as it is."""
    if isinstance(value, Cast) and {value.type.root, value.operand.type.root} <= INTEGER_BITS.keys():
        return value.operand
    return value


def qualified(side: str, name: str) -> str:
    """Return the name of a column of one side in the expressions of a statement."""
    return f"{side}.{name}"


def tree_of(part: Expression | SparkText) -> Expression:
    """Return a part of a statement that is evaluated here."""
    assert not isinstance(part, SparkText), "the runner has left it to Spark"
    return part


MOST_VALUES: Final = 1000
"""Each of which is looked for in the bounds of files. Of more, the range is."""


def target_condition(statement: Statement, source: pa.Table | None) -> Expression | None:
    """Return a condition on the table's columns that every target row in a pair satisfies; None if none is known.

    ``source``: an Arrow source, whose join values are looked at; None if it is not here.
    """
    if statement.of(When.NOT_MATCHED_BY_SOURCE):
        return None
    found = [*_alone(statement), *(_of_values(statement, source) if source is not None else ())]
    if not found:
        return None
    return of_table(And(tuple(found)) if len(found) > 1 else found[0])


def of_table(condition: Expression) -> Expression:
    """Return a condition on target columns as one on the table's columns."""
    return rewritten(condition, lambda column: Column(column.name.removeprefix(TARGET + "."), column.type))


def _alone(statement: Statement) -> Iterator[Expression]:
    """Yield the conditions of the join that read the target alone."""
    residual = statement.residual
    for part in () if residual is None or isinstance(residual, SparkText) else conjuncts(residual):
        columns = [one.name for one in walk(part) if isinstance(one, Column)]
        if columns and all(name.startswith(TARGET + ".") for name in columns):
            yield part


def _of_values(statement: Statement, source: pa.Table) -> Iterator[Expression]:
    """Yield for each column of the target that is joined its values in the source, or their range."""
    renamed = source.rename_columns([qualified(SOURCE, name) for name in source.column_names])
    for left, right in statement.keys:
        t = left.type
        if not isinstance(left, Column) or t.root in (*FLOATS, *NESTED, "BOOLEAN"):
            continue
        values = pc.unique(
            evaluated({"value": right}, renamed, lambda _: statement.shown_on).column("value").drop_null()
        )
        yield from among(left, values)


def among(column: Column, values: Any) -> Iterator[Expression]:
    """Yield conditions that hold where ``column`` has one of ``values``, an Arrow array: these, or their range."""
    kind = column.type
    if len(values) <= MOST_VALUES:
        yield In(column, tuple(values_of(values, kind)), has_null=False)
        return
    ends = pc.min_max(values)
    low, high = values_of(pa.array([ends["min"].as_py(), ends["max"].as_py()], values.type), kind)
    yield Compare(">=", column, Literal(low, kind))
    yield Compare("<=", column, Literal(high, kind))
