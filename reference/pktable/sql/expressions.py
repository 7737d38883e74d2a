"""Expressions of a query: those of conditions, and aggregates, windows and subqueries besides.

All that conditions know is resolved by their resolver, so that it means the same in a query. What only a query has
becomes a column whose name is SQL of DuckDB.

Clauses: WH-28.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError
from sqlglot import exp

from pktable.format.types import FLOATS, INTEGER_BITS, NESTED, DataType
from pktable.predicate.coercion import common, converted
from pktable.predicate.duckdb_sql import FAILS, as_type, condition_text, duckdb_text
from pktable.predicate.literals import MOST_DIGITS, decimal_type
from pktable.predicate.resolver import Node, Resolver
from pktable.predicate.scope import Scope
from pktable.predicate.tree import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    NULL,
    STRING,
    And,
    Cast,
    Column,
    Expression,
    Literal,
    Operator,
    Or,
)
from pktable.sql.relations import Relations


@dataclass(frozen=True)
class Over:
    """What completes the call of an aggregate: its OVER, and the condition of its FILTER, "" if it has none."""

    window: str = ""
    holds: str = ""

    def call(self, text: str) -> str:
        """Return the call of an aggregate."""
        keeps = f" FILTER (WHERE {self.holds})" if self.holds and self.window else ""
        return f"{text}{keeps}{self.window}"

    def of(self, value: str) -> str:
        """Return what an aggregate takes of each row. For rows that its FILTER leaves out it is not computed.

        With an OVER it is, in Spark too.
        """
        return f"CASE WHEN {self.holds} THEN {value} END" if self.holds and not self.window else value


def bare(node: Node) -> Node:
    """Return what is in parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


@dataclass(frozen=True, slots=True)
class Instant(Literal):
    """A literal TIMESTAMP without a zone: a point in time, unless it meets a wall clock or a date."""

    @property
    def literal(self) -> Literal:
        """The point in time, in microseconds at least."""
        return Literal(self.value, DataType(INSTANT.root, precision=max(self.type.precision or 0, 6)))


INSTANT: Final = DataType("TIMESTAMP_LTZ", precision=6)
CLOCKS: Final = {"TIMESTAMP": DataType("TIMESTAMP", precision=6), "DATE": DataType("DATE")}


@dataclass(frozen=True)
class Query:
    """A query in SQL of DuckDB, whose columns are called c0, c1 and so on. ``columns``: names and types."""

    text: str
    columns: Sequence[tuple[str, DataType]]


@dataclass(frozen=True)
class QueryResolver(Resolver):
    """Resolves what a query may compute. ``inner``: makes SQL of a subquery in a scope."""

    inner: Callable[[Node, Scope | None], Query]

    def expression(self, node: Node) -> Expression:
        """Return ``node`` as a value. Raises InvalidRequestError."""
        if isinstance(node, exp.In) and node.args.get("query"):
            return self._among_rows(node)
        handler = OF_QUERIES.get(type(node))
        return super().expression(node) if handler is None else handler(self, node)

    def clause(self, node: Node) -> str:
        """Return the condition of WHERE or HAVING as SQL of DuckDB. Spark refuses a bare NULL there."""
        return condition_text(self.present(node))

    def present(self, node: Node) -> Expression:
        """Return a condition that is no NULL. Raises InvalidRequestError."""
        if isinstance(bare(node), exp.Null):
            raise self.error("expected a condition", node)
        return self.condition(node)

    def text_as(self, text: str, target: DataType, node: Node) -> Literal:
        found = super().text_as(text, target, node)
        is_instant = target.root == INSTANT.root and found.type.root == "TIMESTAMP"
        return Instant(found.value, found.type) if is_instant else found

    def cast(self, node: Node) -> Expression:
        """Return a CAST. A time without a zone and an instant become each other in UTC."""
        self.expect_only(node, "this", "to")
        target, operand = self.cast_type(node), self.expression(node.this)
        if isinstance(operand, Instant) and target.root == "TIMESTAMP":
            return Literal(operand.value, operand.type)
        if operand.type.root == INSTANT.root and target.root in CLOCKS:
            return Cast(Cast(operand, CLOCKS["TIMESTAMP"]), target)
        if operand.type.root in CLOCKS and target.root == INSTANT.root:
            return _as_instant(operand)
        return super().expression(node)

    def clock(self, operand: Expression, node: Node) -> Expression:
        return Cast(operand, CLOCKS["TIMESTAMP"])

    def in_one_type(self, values: list[Expression], node: Node) -> list[Expression]:
        if any(one.type.root == INSTANT.root for one in values):
            values = [_as_instant(one) for one in values]
        return super().in_one_type(values, node)

    def output(self, node: Node) -> Expression:
        """Return a value that reaches the result. A literal TIMESTAMP is a point in time there."""
        found = self.expression(node)
        return found.literal if isinstance(found, Instant) else found

    def of_one_kind(self, values: list[Expression], node: Node) -> list[Expression]:
        """Return values of which one becomes the result, in the type that Spark gives a column of them."""
        if any(isinstance(one, Instant) for one in values):
            values = [_as_instant(one) for one in values]
        kind: DataType | None = NULL
        for one in values:
            if not (
                isinstance(one, Literal) and one.type == STRING
            ):  # a text is read as the others are typed
                kind = common(kind, one.type) if kind is not None else None
        found = [converted(one, kind) for one in values] if kind not in (None, NULL) else []
        whole = [one for one in found if one is not None]
        return whole if len(whole) == len(values) else self.in_one_type(values, node)

    def subquery(self, node: Node) -> Expression:
        """Return the one value of a query."""
        found = self.inner(node, self.scope)
        if len(found.columns) != 1:
            raise self.error("expected a query of one column", node)
        return Column(f"({found.text})", found.columns[0][1])

    def exists(self, node: Node) -> Expression:
        """Return whether a query has rows."""
        return Column(f"EXISTS ({self.inner(node.this, self.scope).text})", BOOLEAN)

    def compared(self, operator: Operator, left: Node, right: Node, node: Node) -> Expression:
        if any(isinstance(bare(one), exp.In) and bare(one).args.get("query") for one in (left, right)):
            raise self.error(
                "a comparison with IN of a query is not supported here; use it as it is, or NOT", node
            )
        return super().compared(operator, left, right, node)

    def negation(self, node: Node) -> Expression:
        """Return NOT. It is brought to each IN of a query, as Spark does before it says what NULL is there."""
        inner = bare(node.this)
        if isinstance(inner, exp.In) and inner.args.get("query"):
            return self._among_rows(inner, "NOT IN")
        if not any(one.args.get("query") for one in inner.find_all(exp.In)):
            return super().negation(node)
        if isinstance(inner, exp.Not):
            return self.condition(inner.this)
        if isinstance(inner, exp.And | exp.Or):
            parts = tuple(self.condition(exp.Not(this=one)) for one in inner.flatten())
            return Or(parts) if isinstance(inner, exp.And) else And(parts)
        return super().negation(node)

    def _among_rows(self, node: Node, word: str = "IN") -> Expression:
        """Return whether a value is one of the rows of a query, or is none. Where SQL has NULL, Spark has false."""
        self.expect_only(node, "this", "query")
        found = self.inner(node.args["query"], self.scope)
        if len(found.columns) != 1:
            raise self.error("expected a query of one column", node)
        operand, of_rows = self.in_one_type(
            [self.expression(node.this), Column("c0", found.columns[0][1])], node
        )
        rows = f"SELECT {duckdb_text(of_rows)} FROM ({found.text})"
        return Column(f"coalesce({duckdb_text(operand)} {word} ({rows}), FALSE)", BOOLEAN)

    def aggregate(self, node: Node) -> Expression:
        """Return an aggregate of the rows of a group, or of those for which a FILTER holds."""
        scope = self.scope.of_rows() if isinstance(self.scope, Relations) else self.scope
        return replace(self, scope=scope)._aggregate(node, Over())

    def _aggregate(self, node: Node, over: Over) -> Expression:
        if isinstance(node, exp.Filter):
            over = replace(over, holds=duckdb_text(self.present(node.expression.this)))
            node = node.this
        handler = AGGREGATES.get(type(node))
        if handler is None:
            raise self.error("no aggregate that there is here", node)
        self.expect_only(node, "this", "big_int")
        return handler(self, node, over)

    def window(self, node: Node) -> Expression:
        """Return a function of the rows around each row."""
        self.expect_only(node, "this", "partition_by", "order", "spec", "over")
        parts = [duckdb_text(self.comparable(one)) for one in node.args.get("partition_by") or ()]
        order = (
            [self.ordered(one) for one in node.args["order"].expressions] if node.args.get("order") else []
        )
        if any(FAILS in text for text in (*parts, *order)):
            raise self.error(
                "a division that may fail is not supported in a window; compute it in a subquery", node
            )
        words = f"PARTITION BY {', '.join(parts)}" if parts else ""
        words += f" ORDER BY {', '.join(order)}" if order else ""
        words += self._frame(node.args["spec"], node) if node.args.get("spec") else ""

        over = Over(f" OVER ({words.strip()})")
        inner = node.this
        if inner.find(exp.Distinct) is not None:
            raise self.error("DISTINCT is not supported in a window", node)
        if not order and type(inner) in (*NUMBERINGS, exp.Lag, exp.Lead):
            raise self.error("expected ORDER BY in the window of this function", node)
        if type(inner) in NUMBERINGS:
            self.expect_only(inner)
            return Column(as_type(over.call(f"{NUMBERINGS[type(inner)]}()"), INT), INT)
        if isinstance(inner, (exp.Lag, exp.Lead)):
            return self._neighbour(inner, over)
        return self._aggregate(inner, over)

    def _neighbour(self, node: Node, over: Over) -> Expression:
        self.expect_only(node, "this", "offset", "default")
        offset = self.expression(node.args.get("offset") or exp.Literal.number(1))
        if not isinstance(offset, Literal) or offset.type != INT:
            raise self.error("expected a number of rows as a literal", node)
        value = self.output(node.this)
        given = self.expression(node.args.get("default") or exp.Null())
        instead = converted(_as_instant(given) if value.type.root == INSTANT.root else given, value.type)
        if instead is None:
            raise self.error(f"expected a default of {value.type}", node)
        name = "lag" if isinstance(node, exp.Lag) else "lead"
        call = f"{name}({duckdb_text(value)}, {duckdb_text(offset)}, {duckdb_text(instead)})"
        return Column(over.call(call), value.type)

    def _frame(self, spec: Node, node: Node) -> str:
        self.expect_only(spec, "kind", "start", "start_side", "end", "end_side", where=node)
        kind = str(spec.args["kind"]).upper()
        ends = [self._bound(spec.args.get(name), spec.args.get(f"{name}_side"), kind, node) for name in ENDS]
        if _place(ends[0]) > _place(ends[1]):
            raise self.error("expected a frame whose end is not before its start", node)
        return f" {kind} BETWEEN {ends[0]} AND {ends[1]}"

    def _bound(self, value: Any, side: Any, kind: str, node: Node) -> str:
        word, way = str(value or "CURRENT ROW").upper(), str(side or "").upper()
        if word == "CURRENT ROW":
            return word
        if word != "UNBOUNDED" and not (kind == "ROWS" and word.isdecimal()):
            raise self.error("expected a frame of ROWS between numbers, UNBOUNDED and CURRENT ROW", node)
        return f"{word} {way}"

    def comparable(self, node: Node) -> Expression:
        """Return a value by which rows can be compared. Raises InvalidRequestError."""
        found = self.output(node)
        if found.type.root in NESTED:
            raise self.error(f"rows cannot be compared by {found.type} here", node)
        return found

    def ordered(self, node: Node, of: Callable[[Node], str] | None = None) -> str:
        """Return a part of ORDER BY. ``of``: how to say what it orders by."""
        self.expect_only(node, "this", "desc", "nulls_first")
        what = of(node.this) if of is not None else duckdb_text(self.comparable(node.this))
        descending, first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        return f"{what} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"

    def expect_only(self, node: Node, *names: str, where: Node | None = None) -> None:
        """Raise InvalidRequestError if a node says more than ``names``."""
        for name, argument in node.args.items():
            if argument and name not in names:
                raise self.error(f"{name.strip('_').upper()} is not supported here", where or node)


def _as_instant(value: Expression) -> Expression:
    """Return a time or date as a point in time, as Spark does where another value is one."""
    if isinstance(value, Instant):
        return value.literal
    return Cast(value, INSTANT) if value.type.root in CLOCKS else value


ENDS: Final = ("start", "end")


def _place(bound: str) -> float:
    """Return how many rows after its own row an end of a frame is."""
    count, _, way = bound.partition(" ")
    rows = 0 if count == "CURRENT" else inf if count == "UNBOUNDED" else int(count)
    return -rows if way == "PRECEDING" else rows


NUMBERINGS: Final = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}


def _argument(resolver: QueryResolver, node: Node) -> tuple[Expression, str]:
    """Return the argument of an aggregate, and the DISTINCT before it."""
    inner = node.this
    if not isinstance(inner, exp.Distinct):
        return resolver.output(inner), ""
    if len(inner.expressions) != 1:
        raise resolver.error("DISTINCT of several values is not supported here", node)
    return resolver.comparable(inner.expressions[0]), "DISTINCT "


def _number(resolver: QueryResolver, node: Node) -> tuple[Expression, str]:
    value, distinct = _argument(resolver, node)
    if value.type.root not in (*INTEGER_BITS, *FLOATS, "DECIMAL"):
        raise resolver.error(f"expected a number, found {value.type}", node)
    return value, distinct


def _count(resolver: QueryResolver, node: Node, over: Over) -> Expression:
    if isinstance(node.this, exp.Star):
        return Column(over.call(f"count({over.of('1')})"), BIGINT)
    value, distinct = _argument(resolver, node)
    return Column(over.call(f"count({distinct}{over.of(duckdb_text(value))})"), BIGINT)


def _count_if(resolver: QueryResolver, node: Node, over: Over) -> Expression:
    holds = duckdb_text(resolver.condition(node.this))
    counted = over.of(f"CASE WHEN {holds} THEN 1 END")
    return Column(over.call(f"count({counted})"), BIGINT)


def _sum(resolver: QueryResolver, node: Node, over: Over) -> Expression:
    value, distinct = _number(resolver, node)
    kind = BIGINT if value.type.root in INTEGER_BITS else DOUBLE
    if value.type.root == "DECIMAL":
        kind = decimal_type(min((value.type.precision or 0) + 10, MOST_DIGITS), value.type.scale or 0)
    return Column(as_type(over.call(f"sum({distinct}{over.of(duckdb_text(value))})"), kind), kind)


def _average(resolver: QueryResolver, node: Node, over: Over) -> Expression:
    """Return an average. That of decimals has four more digits, the last of them rounded half up."""
    value, distinct = _number(resolver, node)
    text = over.of(duckdb_text(value))
    if value.type.root != "DECIMAL":
        return Column(over.call(f"avg({distinct}{as_type(text, DOUBLE)})"), DOUBLE)
    precision, scale = value.type.precision or 0, value.type.scale or 0
    if precision > LONGEST_AVERAGE:
        raise resolver.error(f"of {value.type} it is not supported here; CAST to DOUBLE", node)
    whole = f"CAST({text} AS DECIMAL({MOST_DIGITS}, {scale})) * {10**scale}"
    total = over.call(f"sum({distinct}CAST({whole} AS HUGEINT))")
    count = over.call(f"count({distinct}{text})")
    kind = decimal_type(precision + 4, scale + 4)
    rounded = f"sign({total}) * ((2 * abs({total}) * {10**4} + {count}) // (2 * {count}))"
    unit = f"CAST('0.{'1':0>{scale + 4}}' AS DECIMAL({scale + 4}, {scale + 4}))"
    text = f"CASE WHEN {count} > 0 THEN CAST({rounded} AS DECIMAL({MOST_DIGITS}, 0)) * {unit} END"
    return Column(as_type(text, kind), kind)


LONGEST_AVERAGE: Final = 18
"""The digits of decimals whose average is computed here: the sum of as many rows as there can be still fits."""


def _end(resolver: QueryResolver, node: Node, over: Over) -> Expression:
    value, distinct = _argument(resolver, node)
    if value.type.root in NESTED:
        raise resolver.error(f"rows cannot be compared by {value.type} here", node)
    name = "min" if isinstance(node, exp.Min) else "max"
    return Column(over.call(f"{name}({distinct}{over.of(duckdb_text(value))})"), value.type)


AGGREGATES: Final[dict[type[Any], Callable[[QueryResolver, Node, Over], Expression]]] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Min: _end,
    exp.Max: _end,
}
OF_QUERIES: Final[dict[type[Any], Callable[[QueryResolver, Node], Expression]]] = {
    **dict.fromkeys(AGGREGATES, QueryResolver.aggregate),
    exp.Filter: QueryResolver.aggregate,
    exp.Not: QueryResolver.negation,
    exp.Window: QueryResolver.window,
    exp.Subquery: QueryResolver.subquery,
    exp.Exists: QueryResolver.exists,
    exp.Cast: QueryResolver.cast,
    exp.TryCast: QueryResolver.cast,
}


def of_one_type(left: Query, right: Query) -> tuple[Query, Query]:
    """Return two queries with columns of the same types. Raises InvalidRequestError."""
    if len(left.columns) != len(right.columns):
        raise InvalidRequestError(
            f"sql: expected queries of as many columns, found {len(left.columns)} and {len(right.columns)}"
        )
    kinds = []
    for (name, a), (_, b) in zip(left.columns, right.columns, strict=True):
        kind = common(a, b)
        if kind is None:
            raise InvalidRequestError(f"sql: column {name}: {a} and {b} cannot be in one column here")
        kinds.append(kind)
    return _as_types(left, kinds), _as_types(right, kinds)


def _as_types(query: Query, kinds: Sequence[DataType]) -> Query:
    if [kind for _, kind in query.columns] == list(kinds):
        return query
    items = []
    for i, ((_, found), kind) in enumerate(zip(query.columns, kinds, strict=True)):
        column = Literal(None, found) if found.root == "NULL" else Column(f"c{i}", found)
        value = converted(column, kind)
        assert value is not None, "`common` gives types to which both are converted"
        items.append(f"{duckdb_text(value)} AS c{i}")
    names = [name for name, _ in query.columns]
    return Query(f"SELECT {', '.join(items)} FROM ({query.text})", list(zip(names, kinds, strict=True)))
