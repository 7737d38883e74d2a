"""Functions of conditions whose results in Arrow and Spark are equal: CASE, parts of dates, rounding, and of text.

A function is left out where they differ: those of the session's time zone and of the clock, and rounding of
floating-point numbers to places. Regular expressions have the parts that `text_as_java` knows.

Clauses: RD-6, WH-25.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from pktable.format.types import FLOATS, INTEGER_BITS, NESTED, DataType
from pktable.predicate import tree
from pktable.predicate.coercion import converted, digits
from pktable.predicate.literals import MOST_DIGITS, decimal_type
from pktable.predicate.text_as_java import for_re2
from pktable.predicate.tree import BIGINT, BOOLEAN, INT, NULL, STRING, Expression, Function, Literal

if TYPE_CHECKING:
    from pktable.predicate.resolver import Resolver

OF_DATES: Final[dict[Any, Function]] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.WeekOfYear: "weekofyear",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfWeek: "dayofweek",
    exp.DayOfYear: "dayofyear",
}
OF_TIMES: Final[dict[Any, Function]] = {exp.Hour: "hour", exp.Minute: "minute", exp.Second: "second"}
ROUNDED: Final[dict[Any, Function]] = {exp.Floor: "floor", exp.Ceil: "ceil"}
ENDS: Final[dict[Any, Function]] = {exp.Greatest: "greatest", exp.Least: "least"}
TRIMMED: Final[dict[str, Function]] = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def chosen(resolver: Resolver, node: Any) -> Expression:
    """Return a CASE: the value of the first condition that is true, otherwise the last value."""
    conditions, values = [], []
    for one in node.args["ifs"]:
        value = one.args["true"]
        if not node.this and isinstance(one.this.unnest(), exp.Null):  # as Spark does, but not in if(NULL, …)
            raise resolver.error("expected a condition", one)
        holds = (
            resolver.compared("=", node.this, one.this, node) if node.this else resolver.condition(one.this)
        )
        conditions.append(holds)
        values.append(value)
    return _case(resolver, node, conditions, [*values, node.args.get("default")])


def of_condition(resolver: Resolver, node: Any) -> Expression:
    """Return ``if(condition, value, value)`` as a CASE."""
    return _case(resolver, node, [resolver.condition(node.this)], [node.args["true"], node.args.get("false")])


def null_if(resolver: Resolver, node: Any) -> Expression:
    """Return ``nullif(a, b)`` as a CASE."""
    same = resolver.compared("=", node.this, node.expression, node)
    return _case(resolver, node, [same], [exp.Null(), node.this])


def _case(
    resolver: Resolver, node: Any, conditions: Sequence[Expression], values: Sequence[Any]
) -> Expression:
    found = [resolver.expression(exp.Null() if value is None else value) for value in values]
    found = resolver.of_one_kind(found, node)
    parts = [part for pair in zip(conditions, found, strict=False) for part in pair]
    return tree.Call("case", (*parts, found[-1]), found[-1].type)


def part_of_date(resolver: Resolver, node: Any) -> Expression:
    """Return a part of a date, or of a time without a zone."""
    return _part(resolver, node, OF_DATES[type(node)], ("DATE", "TIMESTAMP"))


def part_of_time(resolver: Resolver, node: Any) -> Expression:
    """Return a part of a time without a zone."""
    return _part(resolver, node, OF_TIMES[type(node)], ("TIMESTAMP", "TIME"))


def _part(resolver: Resolver, node: Any, function: Function, roots: Sequence[str]) -> Expression:
    inner = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
    operand = resolver.expression(inner)
    if operand.type.root == "TIMESTAMP_LTZ":
        operand = resolver.clock(operand, node)
    if operand.type.root not in roots:
        raise resolver.error(f"expected a {' or '.join(roots)}, found {operand.type}", node)
    return tree.Call(function, (operand,), INT)


def days_between(resolver: Resolver, node: Any) -> Expression:
    """Return ``datediff(end, start)``."""
    days = [one.this if isinstance(one, exp.TsOrDsToDate) else one for one in (node.this, node.expression)]
    found = [resolver.expression(one) for one in days]
    if any(one.type.root != "DATE" for one in found):
        raise resolver.error("expected two dates; CAST to DATE", node)
    return tree.Call("datediff", tuple(found), INT)


def days_later(resolver: Resolver, node: Any) -> Expression:
    """Return ``date_add(date, days)`` or ``date_sub(date, days)``."""
    date = resolver.expression(node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this)
    days = resolver.expression(node.expression)
    if date.type.root != "DATE" or days.type.root not in ("TINYINT", "SMALLINT", "INT"):
        raise resolver.error(f"expected a DATE and an INT, found {date.type} and {days.type}", node)
    return tree.Call("date_add", (date, days), date.type)


def whole_quotient(resolver: Resolver, node: Any) -> Expression:
    """Return ``a DIV b`` of integers: their quotient without its fraction."""
    parts = [resolver.number(one) for one in (node.this, node.expression)]
    if any(one.type.root not in INTEGER_BITS for one in parts):
        raise resolver.error("expected integers", node)
    return tree.Call("div", tuple(converted(one, BIGINT) or one for one in parts), BIGINT)


def whole(resolver: Resolver, node: Any) -> Expression:
    """Return the number rounded down or up."""
    operand = resolver.number(node.this)
    if operand.type.root in INTEGER_BITS:
        return operand if operand.type == BIGINT else tree.Cast(operand, BIGINT)
    if operand.type.root in FLOATS:
        raise resolver.error(
            "of a floating-point number it is not supported: Arrow and Spark give different results", node
        )
    precision, scale = digits(operand.type)
    if not scale:
        return operand
    return tree.Call(
        ROUNDED[type(node)], (operand,), decimal_type(min(precision - scale + 1, MOST_DIGITS), 0)
    )


def rounded(resolver: Resolver, node: Any) -> Expression:
    """Return a decimal rounded half up to places."""
    operand, places = resolver.number(node.this), node.args.get("decimals")
    wanted = resolver.expression(places) if places is not None else Literal(0, INT)
    if not isinstance(wanted, Literal) or not isinstance(wanted.value, int) or wanted.value < 0:
        raise resolver.error("expected a number of places from 0 on, as a literal", node)
    if operand.type.root in INTEGER_BITS:
        return operand
    if operand.type.root in FLOATS:
        raise resolver.error(
            "of a floating-point number it is not supported: Arrow and Spark give different results", node
        )
    precision, scale = digits(operand.type)
    left = min(wanted.value, scale)
    kind = decimal_type(min(precision - scale + 1 + left, MOST_DIGITS), left)
    return tree.Call("round", (operand,), kind)


def trimmed(resolver: Resolver, node: Any) -> Expression:
    """Return a text without the blanks at its ends."""
    return tree.Call(TRIMMED[str(node.args.get("position") or "")], (resolver.text(node.this),), STRING)


def replaced(resolver: Resolver, node: Any) -> Expression:
    """Return a text in which one text is replaced by another."""
    parts = [_text_literal(resolver, node.args.get(name), node) for name in ("expression", "replacement")]
    return tree.Call("replace", (resolver.text(node.this), *parts), STRING)


def part_of_text(resolver: Resolver, node: Any) -> Expression:
    """Return ``startswith``, ``endswith`` and ``contains`` as a LIKE, by which files are chosen too."""
    text = _text_literal(resolver, node.expression, node).value
    many = (tree.Wildcard.ANY,)
    before = () if isinstance(node, exp.StartsWith) else many
    after = () if isinstance(node, exp.EndsWith) else many
    return tree.Like(resolver.text(node.this), (*before, str(text), *after))


def matches(resolver: Resolver, node: Any) -> Expression:
    """Return ``text RLIKE pattern``: whether a regular expression is found in a text. Clauses: STM-14."""
    text, pattern = resolver.text(node.this), resolver.expression(node.expression)
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise resolver.error("expected a pattern as a literal", node)
    if for_re2(pattern.value) is None:
        raise resolver.error(
            "a part of this pattern is not supported: Arrow and Spark may read it differently; there are . [ ] ( | ) * "
            "+ ? { }, ^ at the beginning, $ at the end, and \\d \\w \\s",
            node,
        )
    return tree.Call("rlike", (text, pattern), BOOLEAN)


def _text_literal(resolver: Resolver, node: Any, whole: Any) -> Literal:
    found = Literal("", STRING) if node is None else resolver.expression(node)
    if (
        not isinstance(found, Literal)
        or not isinstance(found.value, str)
        or (not found.value and node is whole)
    ):
        raise resolver.error("expected a text as a literal", whole)
    return found


def end_of(resolver: Resolver, node: Any) -> Expression:
    """Return ``greatest`` or ``least`` of values, NULL left out."""
    given = [resolver.expression(one) for one in (node.this, *node.expressions)]
    values = resolver.of_one_kind(given, node)
    mixed = len({one.type == STRING for one in given if one.type != NULL}) > 1  # which Spark does not convert
    kind: DataType = values[0].type
    if mixed or kind.root in (*FLOATS, *NESTED, "BOOLEAN") or len(values) < 2:
        raise resolver.error(f"expected two values or more of one kind, not {kind}", node)
    return tree.Call(ENDS[type(node)], tuple(values), kind)


Handler = Callable[[Any, Any], Expression]
ONE: Final = frozenset({"this"})

FUNCTIONS: Final[dict[type[Any], tuple[Handler, frozenset[str]]]] = {
    exp.Case: (chosen, frozenset({"this", "ifs", "default"})),
    exp.If: (of_condition, frozenset({"this", "true", "false"})),
    exp.Nullif: (null_if, frozenset({"this", "expression"})),
    **dict.fromkeys(OF_DATES, (part_of_date, ONE)),
    **dict.fromkeys(OF_TIMES, (part_of_time, ONE)),
    exp.TsOrDsAdd: (days_later, frozenset({"this", "expression", "unit"})),
    exp.IntDiv: (whole_quotient, frozenset({"this", "expression"})),
    exp.DateDiff: (days_between, frozenset({"this", "expression"})),
    **dict.fromkeys(ROUNDED, (whole, ONE)),
    exp.Round: (rounded, frozenset({"this", "decimals"})),
    exp.RegexpLike: (matches, frozenset({"this", "expression"})),
    exp.Trim: (trimmed, frozenset({"this", "position"})),
    exp.Replace: (replaced, frozenset({"this", "expression", "replacement"})),
    **dict.fromkeys(
        (exp.StartsWith, exp.EndsWith, exp.Contains), (part_of_text, frozenset({"this", "expression"}))
    ),
    **dict.fromkeys(ENDS, (end_of, frozenset({"this", "expressions", "ignore_nulls"}))),
}
OF_TEXT: Final = (
    *("upper", "lower", "trim", "ltrim", "rtrim", "length", "substring", "concat", "replace"),
    *("startswith", "endswith", "contains", "LIKE", "RLIKE"),
)
OF_NUMBERS: Final = ("abs", "DIV", "floor", "ceil", "round", "greatest", "least")
OF_TIME: Final = (
    *("year", "quarter", "month", "weekofyear", "day", "dayofweek", "dayofyear"),
    *("hour", "minute", "second", "datediff", "date_add", "date_sub"),
)
OF_ANY: Final = ("CASE", "CAST", "IN", "BETWEEN", "IS NULL", "coalesce", "nullif", "if")
FAMILIES: Final = (
    (re.compile("date|time|day|month|year|week|hour|minute|second|now", re.I), "of dates and times", OF_TIME),
    (re.compile("round|trunc|floor|ceil|mod|sqrt|pow|log|exp|sign", re.I), "of numbers", OF_NUMBERS),
    (
        re.compile("str|char|text|trim|pad|reg|like|concat|split|lower|upper|case|replace", re.I),
        "of text",
        OF_TEXT,
    ),
)
"""The purposes of names that are not known, by their text, and what there is for each."""


def there_are(name: str) -> str:
    """Return what there is in place of something that is not known, as the end of a refusal."""
    every = (*OF_ANY, *OF_TEXT, *OF_NUMBERS, *OF_TIME)
    close = [one for one in get_close_matches(name.lower(), every, 3, 0.75) if one != name.lower()]
    if close:
        return f"did you mean {' or '.join(close)}?"
    family = next(((what, names) for pattern, what, names in FAMILIES if pattern.search(name)), None)
    what, names = family or (
        "of any values",
        (*OF_ANY, "arithmetic and functions of text, numbers and dates"),
    )
    return f"{what} there are {', '.join(names)}"
