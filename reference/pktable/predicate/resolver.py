"""Translate the nodes of sqlglot to the typed tree.

`HANDLERS` lists every supported node with the arguments its handler understands. Any other node or argument is
refused, because ignoring it would change the meaning. Column names match regardless of case, as in Spark, unless two
columns differ only in case.

Clauses: RD-6.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from pktable_spec.errors import InvalidRequestError
from sqlglot import exp

from pktable.format.types import INTEGER_BITS, NESTED, NUMBERS, TIMESTAMPS, DataType
from pktable.predicate import tree
from pktable.predicate.coercion import CASTS, arithmetic_type, converted, unify
from pktable.predicate.dialect import SPARK
from pktable.predicate.functions import FUNCTIONS, there_are
from pktable.predicate.literals import (
    MOST_DIGITS,
    decimal_literal,
    decimal_type,
    fits,
    integer_literal,
    literal_as,
    number_literal,
    parsed,
    timestamp,
)
from pktable.predicate.scope import Scope, UnknownColumnError
from pktable.predicate.tree import (
    BOOLEAN,
    BYTES,
    INT,
    NULL,
    STRING,
    TIME,
    Arithmetic,
    Expression,
    Literal,
    Operator,
    Ordering,
)

Node: TypeAlias = Any  # a node of sqlglot; the name of its base class differs between versions

COMPARISONS: Final[dict[Any, Ordering]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
OPERATORS: Final[dict[Any, Arithmetic]] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Mod: "remainder",
}
TYPES: Final = {
    **{name: DataType(name) for name in ("BOOLEAN", *INTEGER_BITS, "FLOAT", "DOUBLE", "DATE")},
    "TEXT": STRING,
    "BINARY": BYTES,
    "TIME": TIME,
    "TIMESTAMPNTZ": DataType("TIMESTAMP", precision=6),
    "TIMESTAMPTZ": DataType("TIMESTAMP_LTZ", precision=6),  # the name that sqlglot gives to Spark's TIMESTAMP
    "TIMESTAMPLTZ": DataType("TIMESTAMP_LTZ", precision=6),
}
LONGEST_QUOTE: Final = 80


def quoted(text: str) -> str:
    """Return a text in quotes as errors show it, cut where it is long."""
    return repr(text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…")


@dataclass(frozen=True)
class Resolver:
    """Translates nodes of sqlglot to the tree. ``at``: begins every error. ``scope``: the columns."""

    at: str
    scope: Scope

    def condition(self, node: Node) -> Expression:
        """Return ``node`` as a condition. Raises InvalidRequestError."""
        return self.of_type(BOOLEAN, "a condition", node)

    def text(self, node: Node) -> Expression:
        """Return ``node`` as a string. Raises InvalidRequestError."""
        return self.of_type(STRING, "a string", node)

    def of_type(self, t: DataType, expected: str, node: Node) -> Expression:
        found = self.expression(node)
        if found == Literal(None, NULL):
            return Literal(None, t)
        if found.type != t:
            raise self.error(f"expected {expected}, found {found.type}", node)
        return found

    def expression(self, node: Node) -> Expression:
        """Return ``node`` as a value. Raises InvalidRequestError."""
        if node is None:
            raise InvalidRequestError(f"{self.at}: a function lacks an argument")
        understood = HANDLERS.get(type(node))
        if understood is None:
            raise self.error(f"not supported; {there_are(_name(node))}", node)
        handler, known = understood
        for name, argument in node.args.items():
            if argument and name not in known:
                raise self.error(f"{name} is not supported there", node)
        return handler(self, node)

    def error(self, problem: str, node: Node) -> InvalidRequestError:
        part = quoted(node.sql(SPARK))
        at = self.at if self.at.endswith(f" {part}") else f"{self.at}: {part}"  # the whole is named once
        return InvalidRequestError(f"{at}: {problem}")

    # Leaves

    def column(self, node: Node) -> Expression:
        table = node.table
        if table and table.lower() not in {alias.lower() for alias in self.scope.tables if alias}:
            if self.scope.find("", table):
                raise self.error("fields inside of a column are not read here; name the whole column", node)
            problem = f"{table} is not known here; columns are {', '.join(self.scope.names)}"
            raise UnknownColumnError(str(self.error(problem, node)))
        same = self.scope.find(table, node.name)
        if len(same) == 1:
            return tree.Column(*same[0][1])
        found = "is ambiguous" if same else "does not exist"
        columns = ", ".join([name for name, _ in same] or self.scope.names)
        raise UnknownColumnError(f"{self.at}: column {node.name!r} {found}; columns are {columns}")

    def literal(self, node: Node) -> Expression:
        if node.is_string:
            return Literal(node.name, STRING)
        found = number_literal(node.name)
        if found is None:
            raise self.error("expected a number of at most 38 digits", node)
        return found

    def boolean(self, node: Node) -> Expression:
        return Literal(bool(node.this), BOOLEAN)

    def null(self, node: Node) -> Expression:
        return Literal(None, NULL)

    def hex(self, node: Node) -> Expression:
        digits = str(node.this)
        try:
            return Literal(binascii.unhexlify(digits.zfill(len(digits) + len(digits) % 2)), BYTES)
        except ValueError:
            raise self.error("expected hexadecimal digits", node) from None

    def raw(self, node: Node) -> Expression:
        return Literal(str(node.this), STRING)

    # Conditions

    def parenthesis(self, node: Node) -> Expression:
        return self.expression(node.this)

    def conjunction(self, node: Node) -> Expression:
        return tree.And(tuple(self.condition(part) for part in node.flatten()))

    def disjunction(self, node: Node) -> Expression:
        return tree.Or(tuple(self.condition(part) for part in node.flatten()))

    def negation(self, node: Node) -> Expression:
        return tree.Not(self.condition(node.this))

    def comparison(self, node: Node) -> Expression:
        self.expect_grouped(node, node.left, node.right)
        return self.compared(COMPARISONS[type(node)], node.left, node.right, node)

    def null_safe(self, node: Node) -> Expression:
        self.expect_grouped(node, node.left, node.right)
        return self.compared("<=>", node.left, node.right, node)

    def expect_grouped(self, node: Node, left: Node, *others: Node) -> None:
        """Raise InvalidRequestError for operands that Spark groups otherwise than sqlglot.

        Spark has all comparisons on one level, from left to right, and IN, LIKE, BETWEEN and IS after the last one.
        """
        if not isinstance(left, (*COMPARISONS, exp.NullSafeEQ)):
            others = (left, *others)
        if any(isinstance(one, (exp.Predicate, exp.RegexpLike, exp.Not)) for one in others):
            raise self.error("expected parentheses around a condition inside of another", node)

    def distinct(self, node: Node) -> Expression:
        return tree.Not(self.null_safe(node))

    def compared(self, operator: Operator, left: Node, right: Node, node: Node) -> Expression:
        left, right = self.in_one_type([self.expression(left), self.expression(right)], node)
        return tree.Compare(operator, left, right)

    def in_one_type(self, values: list[Expression], node: Node) -> list[Expression]:
        found = unify(values)
        if found is None or any(one.type.root in NESTED for one in found):
            times = [one.type for one in values if one.type.root in (*TIMESTAMPS, "DATE", "TIME")]
            texts = [one.value for one in values if isinstance(one, Literal) and one.type == STRING]
            if times and texts:
                raise self.error(f"expected a {times[0]}, found {texts[0]!r}", node)
            kinds = " and ".join(dict.fromkeys(str(one.type) for one in values))
            raise self.error(f"{kinds} cannot be compared", node)
        return found

    def of_one_kind(self, values: list[Expression], node: Node) -> list[Expression]:
        """Return values of which one becomes the result, in one type. A literal takes the type of the others."""
        return self.in_one_type(values, node)

    def membership(self, node: Node) -> Expression:
        options = [self.expression(option) for option in node.expressions]
        if not options:
            raise self.error("expected a value in the parentheses", node)
        operand, *options = self.in_one_type([self.expression(node.this), *options], node)
        if not all(isinstance(option, Literal) for option in options):
            return tree.Or(tuple(tree.Compare("=", operand, option) for option in options))
        values = dict.fromkeys(option.value for option in options if isinstance(option, Literal))
        has_null = None in values
        return tree.In(operand, tuple(value for value in values if value is not None), has_null)

    def between(self, node: Node) -> Expression:
        self.expect_grouped(node, node.this, node.args["low"], node.args["high"])
        low = self.compared(">=", node.this, node.args["low"], node)
        return tree.And((low, self.compared("<=", node.this, node.args["high"], node)))

    def identity(self, node: Node) -> Expression:
        operand = self.expression(node.this)
        if isinstance(node.expression, exp.Null):
            return tree.IsNull(operand)
        if isinstance(node.expression, exp.Boolean) and operand.type in (BOOLEAN, NULL):
            return self.compared("<=>", node.this, node.expression, node)
        raise self.error("expected IS [NOT] NULL, TRUE or FALSE", node)

    def like(self, node: Node, escape: str = "\\") -> Expression:
        operand, pattern = self.text(node.this), self.expression(node.expression)
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            raise self.error("the pattern must be a string literal", node)
        found = tree.Like(operand, self.pattern(pattern.value, escape, node))
        return tree.Not(found) if node.args.get("negate") else found

    def escaped(self, node: Node) -> Expression:
        escape = node.expression
        if (
            not isinstance(node.this, exp.Like)
            or not isinstance(escape, exp.Literal)
            or len(escape.name) != 1
        ):
            raise self.error("ESCAPE must follow LIKE and be one character", node)
        return self.like(node.this, escape.name)

    def pattern(self, text: str, escape: str, node: Node) -> tuple[str | tree.Wildcard, ...]:
        parts: list[str | tree.Wildcard] = []
        characters = iter(text)
        for character in characters:
            if character == escape:
                character = next(characters, "")
                if character not in ("%", "_", escape):
                    raise self.error(f"expected %, _ or {escape} after {escape} in a pattern", node)
            elif character in "%_":
                parts.append(tree.Wildcard(character))
                continue
            if parts and isinstance(parts[-1], str):
                parts[-1] += character
            else:
                parts.append(character)
        return tuple(parts)

    # Values

    def arithmetic(self, node: Node) -> Expression:
        function = OPERATORS[type(node)]
        left, right = self.expression(node.left), self.expression(node.right)
        left, right = _operand(left, right), _operand(right, left)
        t = arithmetic_type(function, left.type, right.type)
        if t is None:
            advice = "; CAST one to DOUBLE" if "DECIMAL" in (left.type.root, right.type.root) else ""
            raise self.error(f"not supported for {left.type} and {right.type}{advice}", node)
        if t.root != "DECIMAL":
            left, right = converted(left, t) or left, converted(right, t) or right
        return tree.Call(function, (left, right), t)

    def negative(self, node: Node) -> Expression:
        operand = self.number(node.this)
        if isinstance(operand, Literal) and operand.value is not None:
            assert isinstance(operand.value, (int, float, Decimal))
            # The minus of Python rounds a decimal to 28 digits.
            value = operand.value.copy_negate() if isinstance(operand.value, Decimal) else -operand.value
            if isinstance(node.this, exp.Literal) and value == int(value) and node.this.name.isdecimal():
                return integer_literal(int(value)) or Literal(value, operand.type)  # as the smallest BIGINT
            if not isinstance(value, int) or fits(value, operand.type):
                return Literal(value, operand.type)
        return tree.Call("negate", (operand,), operand.type)

    def absolute(self, node: Node) -> Expression:
        operand = self.number(node.this)
        return tree.Call("abs", (operand,), operand.type)

    def number(self, node: Node) -> Expression:
        found = self.expression(node)
        if found.type.root not in NUMBERS:
            raise self.error(f"expected a number, found {found.type}", node)
        return found

    def concatenation(self, node: Node) -> Expression:
        return _joined([self.text(node.left), self.text(node.right)])

    def adjacent(self, node: Node) -> Expression:
        return _joined([self.text(part) for part in node.expressions])

    def upper(self, node: Node) -> Expression:
        return self.letter_case("upper", node)

    def lower(self, node: Node) -> Expression:
        return self.letter_case("lower", node)

    def letter_case(self, function: tree.LetterCase, node: Node) -> Expression:
        """Return a text in another case, which is not made of one. Clauses: TBL-21."""
        text = self.text(node.this)
        if any(
            isinstance(part, tree.Call) and part.function in ("upper", "lower") for part in tree.walk(text)
        ):
            raise self.error(
                "upper or lower of a value that upper or lower makes is not supported: Arrow and Spark give different "
                "results; use one of them",
                node,
            )
        return tree.Call(function, (text,), STRING)

    def length(self, node: Node) -> Expression:
        operand = self.expression(node.this)
        return tree.Call("length", (operand if operand.type == BYTES else self.text(node.this),), INT)

    def substring(self, node: Node) -> Expression:
        bounds = [self.expression(node.args[name]) for name in ("start", "length") if node.args.get(name)]
        if not bounds or not all(isinstance(one, Literal) and one.type == INT for one in bounds):
            raise self.error("start and length must be integer literals", node)
        return tree.Call("substring", (self.text(node.this), *bounds), STRING)

    def coalesce(self, node: Node) -> Expression:
        values = self.of_one_kind([self.expression(part) for part in (node.this, *node.expressions)], node)
        return tree.Call("coalesce", tuple(values), values[0].type)

    def cast(self, node: Node) -> Expression:
        target = self.cast_type(node)
        if isinstance(node, exp.TryCast) and node.args.get("safe"):
            raise self.error("not supported: it hides values that cannot be converted", node)
        operand = self.expression(node.this)
        if isinstance(operand, Literal) and operand.type == STRING and target != STRING:
            return self.text_as(str(operand.value), target, node)
        literal = literal_as(operand, target) if isinstance(operand, Literal) else None
        if literal is not None or operand.type == target:
            return literal or operand
        if target.root not in CASTS.get(operand.type.root, ()):
            problem = f"CAST from {operand.type} to {target} is not supported: Arrow and Spark give different results"
            raise self.error(problem, node)
        return tree.Cast(operand, target)

    def clock(self, operand: Expression, node: Node) -> Expression:
        """Return an instant as a time without a zone, if its zone is known."""
        raise self.error(
            "of an instant it depends on the time zone of the session; compare instants, or CAST to another type",
            node,
        )

    def text_as(self, text: str, target: DataType, node: Node) -> Literal:
        """Return a text with its type, such as DATE '2024-01-01', as a literal."""
        # Spark's TIMESTAMP '…' without a zone is wall-clock time until it meets an instant.
        found = timestamp(text) if node.args["to"].this.name == "TIMESTAMPTZ" else parsed(text, target)
        if found is None:
            raise self.error(f"the text is not a valid {target}", node)
        return found

    def cast_type(self, node: Node) -> DataType:
        to = node.args["to"]
        name, parameters = to.this.name, to.expressions
        if name == "DECIMAL":
            digits = [int(str(parameter.this)) for parameter in parameters]
            precision, scale = (*digits, *(10, 0)[len(digits) :])
            if 1 <= precision <= MOST_DIGITS and 0 <= scale <= precision:
                return decimal_type(precision, scale)
        elif name in TYPES and not parameters:
            return TYPES[name]
        raise self.error("CAST to this type is not supported", node)


def _name(node: Node) -> str:
    """Return the name of a function, or of what sqlglot calls the node."""
    return str(node.name if isinstance(node, exp.Anonymous) else node.key)


def _joined(parts: list[Expression]) -> Expression:
    """Return strings concatenated; adjacent literals, as in 'it''s', become one literal."""
    texts = [part.value for part in parts if isinstance(part, Literal) and isinstance(part.value, str)]
    if len(texts) == len(parts):
        return Literal("".join(texts), STRING)
    return tree.Call("concat", tuple(parts), STRING)


def _operand(value: Expression, other: Expression) -> Expression:
    """Return an operand of arithmetic with the type that the ``other`` operand gives it.

    NULL takes the type of the other. An integer literal next to a decimal counts only its own digits.
    """
    if isinstance(value, Literal):
        if value.value is None:
            return Literal(None, other.type)
        if value.type.root in INTEGER_BITS and other.type.root == "DECIMAL":
            assert isinstance(value.value, int)
            return decimal_literal(Decimal(value.value)) or value
    return value


Handler = Callable[[Resolver, Node], Expression]
OPERANDS: Final = frozenset({"this", "expression"})

HANDLERS: Final[dict[type[Any], tuple[Handler, frozenset[str]]]] = {
    exp.Column: (Resolver.column, frozenset({"this", "table"})),
    exp.Literal: (Resolver.literal, frozenset({"this", "is_string"})),
    exp.Boolean: (Resolver.boolean, frozenset({"this"})),
    exp.Null: (Resolver.null, frozenset()),
    exp.HexString: (Resolver.hex, frozenset({"this"})),
    exp.RawString: (Resolver.raw, frozenset({"this"})),
    exp.Paren: (Resolver.parenthesis, frozenset({"this"})),
    exp.And: (Resolver.conjunction, OPERANDS),
    exp.Or: (Resolver.disjunction, OPERANDS),
    exp.Not: (Resolver.negation, frozenset({"this"})),
    **dict.fromkeys(COMPARISONS, (Resolver.comparison, OPERANDS)),
    exp.NullSafeEQ: (Resolver.null_safe, OPERANDS),
    exp.NullSafeNEQ: (Resolver.distinct, OPERANDS),
    exp.In: (Resolver.membership, frozenset({"this", "expressions"})),
    exp.Between: (Resolver.between, frozenset({"this", "low", "high"})),
    exp.Is: (Resolver.identity, OPERANDS),
    exp.Like: (Resolver.like, OPERANDS | {"negate"}),
    exp.Escape: (Resolver.escaped, OPERANDS),
    **{kind: (Resolver.arithmetic, OPERANDS | {"typed", "safe"}) for kind in OPERATORS},
    exp.Neg: (Resolver.negative, frozenset({"this"})),
    exp.Abs: (Resolver.absolute, frozenset({"this"})),
    exp.DPipe: (Resolver.concatenation, OPERANDS | {"safe"}),
    exp.Concat: (Resolver.adjacent, frozenset({"expressions", "safe"})),
    exp.Upper: (Resolver.upper, frozenset({"this"})),
    exp.Lower: (Resolver.lower, frozenset({"this"})),
    exp.Length: (Resolver.length, frozenset({"this"})),
    exp.Substring: (Resolver.substring, frozenset({"this", "start", "length"})),
    exp.Coalesce: (Resolver.coalesce, frozenset({"this", "expressions"})),
    exp.Cast: (Resolver.cast, frozenset({"this", "to"})),
    exp.TryCast: (Resolver.cast, frozenset({"this", "to", "safe"})),
    **FUNCTIONS,
}
