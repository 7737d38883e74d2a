"""Evaluate a condition in Arrow, with SQL's three values: a NULL stays NULL until the filter drops the row.

Floats compare as in Spark: NaN equals NaN and is greater than every number, and the zeros are equal. A part may fail by
overflow, division by zero or a failed conversion; `evaluation` chooses the rows for which it is evaluated.

Clauses: RD-6.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pktable.format.arrow_values import WIDEST, half_up
from pktable.format.types import FLOATS, OUTSIDE_NANOS, TIMESTAMPS, DataType, array_of
from pktable.format.types import to_arrow as arrow_type
from pktable.predicate.text_as_java import CASES, changed, re2_pattern
from pktable.predicate.tree import (
    BYTES,
    And,
    Call,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Or,
    Ordering,
    Wildcard,
    assert_never,
    walk,
)

COMPARISONS: Final[dict[Ordering, Callable[..., Any]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def may_fail(root: Expression) -> bool:
    """Return whether evaluating ``root`` may raise for some row."""
    return any(map(_may_raise, walk(root)))


def _may_raise(part: Expression) -> bool:
    """Return whether ``part`` itself may raise, whatever its own parts do."""
    match part:
        case Call() | Cast():
            return True
        case Column() | Literal() | Compare() | In() | IsNull() | Like() | Not() | And() | Or():
            return False
        case _:
            assert_never(part)


def _scalar(literal: Literal) -> pa.Scalar:
    """Return the value of a literal. Raises ArrowInvalid for a time that nanoseconds in 64 bits cannot count."""
    try:
        return array_of([literal.value], literal.type)[0]
    except OverflowError:
        raise pa.ArrowInvalid(f"a {literal.type} {OUTSIDE_NANOS}") from None


def expression_of(root: Expression, schema: pa.Schema) -> pc.Expression:
    """Return ``root`` as an expression over columns of ``schema``: true, false or null."""
    match root:
        case Column():
            return _column(root, schema)
        case Literal():
            return pc.scalar(_scalar(root))
        case Cast():
            return _cast(expression_of(root.operand, schema), root.operand.type, root.type)
        case Call():
            return _call(root, [expression_of(argument, schema) for argument in root.arguments])
        case Compare():
            return _comparison(root, schema)
        case In():
            return _membership(root, schema)
        case IsNull():
            return pc.is_null(expression_of(root.operand, schema))
        case Like():
            return pc.match_substring_regex(expression_of(root.operand, schema), _regex(root))
        case Not():
            return pc.invert(expression_of(root.operand, schema))
        case And():
            return reduce(pc.and_kleene, [expression_of(part, schema) for part in root.operands])
        case Or():
            return reduce(pc.or_kleene, [expression_of(part, schema) for part in root.operands])
        case _:
            assert_never(root)


def _column(column: Column, schema: pa.Schema) -> pc.Expression:
    wanted = arrow_type(column.type)
    field = pc.field(column.name)
    return field if schema.field(column.name).type == wanted else field.cast(wanted)


def _comparison(root: Compare, schema: pa.Schema) -> Any:
    if _beyond(root.left) or _beyond(root.right):
        left, right = (_place(side, schema) for side in (root.left, root.right))
    else:
        left, right = (expression_of(side, schema) for side in (root.left, root.right))
    return _compared(root.operator, left, right, root.left.type)


def _beyond(side: Expression) -> int:
    """Return 1 for a literal after every time that a column of nanoseconds can hold, -1 for one before, else 0."""
    if not (isinstance(side, Literal) and isinstance(side.value, int) and side.type.root in TIMESTAMPS):
        return 0
    if (side.type.precision or 0) <= 6 or -(1 << 63) <= side.value < 1 << 63:
        return 0
    return 1 if side.value > 0 else -1


def _place(side: Expression, schema: pa.Schema) -> Any:
    """Return an integer to compare in place of a time: a literal out of range is -1 or 1, a present time 0."""
    if at := _beyond(side):
        return pc.scalar(at)
    return pc.if_else(pc.is_null(expression_of(side, schema)), pa.scalar(None, pa.int64()), 0)


def _compared(operator: Operator, left: Any, right: Any, t: DataType) -> Any:
    if operator == "<=>":
        both_null = pc.and_kleene(pc.is_null(left), pc.is_null(right))
        equal = pc.coalesce(_ordered("=", left, right, t), pc.scalar(False))
        return pc.or_kleene(both_null, equal)
    return _ordered(operator, left, right, t)


def _ordered(operator: Ordering, left: Any, right: Any, t: DataType) -> Any:
    """Return a comparison of values of type ``t``, null where one of them is."""
    if t.root not in FLOATS:
        return COMPARISONS[operator](left, right)
    match operator:
        case "=":
            with_nan = pc.is_nan(left)
        case "<":
            with_nan = pc.invert(pc.is_nan(left))
        case "<=":
            with_nan = pc.is_valid(left)
        case "<>":
            return pc.invert(_ordered("=", left, right, t))
        case ">":
            return _ordered("<", right, left, t)
        case ">=":
            return _ordered("<=", right, left, t)
        case _:
            assert_never(operator)
    # Arrow's comparison is false if a side is NaN; `with_nan` is the answer where the right side is NaN.
    return pc.or_kleene(COMPARISONS[operator](left, right), pc.and_kleene(with_nan, pc.is_nan(right)))


def _membership(root: In, schema: pa.Schema) -> Any:
    t, value = root.operand.type, expression_of(root.operand, schema)
    possible = [one for one in root.values if not _beyond(Literal(one, t))]
    options = array_of(possible, t)
    if t.root in FLOATS:  # is_in hashes, and equal ones of them may have different hashes
        value, options = _of_one_hash(value, options.type), _of_one_hash(options, options.type)
    found = pc.is_in(value, value_set=options)
    null = pa.scalar(None, pa.bool_())
    return pc.if_else(pc.is_null(value), null, pc.if_else(found, True, null if root.has_null else False))


def _of_one_hash(value: Any, t: pa.DataType) -> Any:
    """Return floats with one zero and one NaN."""
    value = pc.if_else(pc.equal(value, pa.scalar(0.0, t)), pa.scalar(0.0, t), value)
    return pc.if_else(pc.is_nan(value), pa.scalar(math.nan, t), value)


def _regex(like: Like) -> str:
    wildcards = {Wildcard.ONE: ".", Wildcard.ANY: ".*"}
    parts = [wildcards[p] if isinstance(p, Wildcard) else re.escape(p) for p in like.pattern]
    return r"\A(?s:" + "".join(parts) + r")\z"


def _case(parts: list[Any]) -> Any:
    """Return the value of the first condition that is true. Arrow computes all of them."""
    *pairs, found = parts
    for condition, value in reversed(list(zip(pairs[::2], pairs[1::2], strict=True))):
        found = pc.if_else(pc.coalesce(condition, pc.scalar(False)), value, found)
    return found


def _call(call: Call, arguments: list[Any]) -> Any:
    match call.function:
        case "add":
            return pc.add_checked(*arguments)
        case "subtract":
            return pc.subtract_checked(*arguments)
        case "multiply":
            return pc.multiply_checked(*arguments)
        case "divide":
            return pc.divide_checked(*arguments)
        case "remainder":
            return _remainder(*arguments)
        case "negate":
            return pc.negate_checked(*arguments)
        case "abs":
            return pc.abs_checked(*arguments)
        case "concat":
            return pc.binary_join_element_wise(*arguments, "", null_handling="emit_null")
        case "upper" | "lower":
            return arguments[0]._call(f"pktable_{call.function}", arguments)
        case "length":
            is_binary = call.arguments[0].type == BYTES
            return (pc.binary_length if is_binary else pc.utf8_length)(*arguments).cast(pa.int32())
        case "substring":
            bounds = [part.value for part in call.arguments[1:] if isinstance(part, Literal)]
            return _substring(arguments[0], *bounds)
        case "trim":
            return pc.utf8_trim(*arguments, characters=" ")
        case "ltrim":
            return pc.utf8_ltrim(*arguments, characters=" ")
        case "rtrim":
            return pc.utf8_rtrim(*arguments, characters=" ")
        case "replace":
            old, new = (part.value for part in call.arguments[1:] if isinstance(part, Literal))
            return pc.replace_substring(arguments[0], str(old), str(new)) if old else arguments[0]
        case "date_add":
            date, days = (one.cast(pa.int32()) for one in arguments)
            return pc.add_checked(date, days).cast(pa.date32())
        case "div":
            return pc.divide_checked(*arguments)
        case "rlike":
            return pc.match_substring_regex(arguments[0], re2_pattern(call))
        case "greatest" | "least":
            choose = pc.max_element_wise if call.function == "greatest" else pc.min_element_wise
            if call.type.root not in TIMESTAMPS:
                return choose(*arguments)
            kind = arrow_type(call.type)  # Arrow compares their numbers alone
            return choose(*(one.cast(kind).cast(pa.int64()) for one in arguments)).cast(kind)
        case "floor" | "ceil":
            widest = arguments[0].cast(pa.decimal256(WIDEST, call.arguments[0].type.scale or 0))
            return (pc.floor if call.function == "floor" else pc.ceil)(widest).cast(arrow_type(call.type))
        case "round":
            places = call.type.scale or 0
            return half_up(arguments[0], call.arguments[0].type.scale or 0, places).cast(
                arrow_type(call.type)
            )
        case "datediff":
            end, start = (one.cast(pa.int32()) for one in arguments)
            return pc.subtract_checked(end, start)
        case "dayofweek":
            return pc.day_of_week(*arguments, count_from_zero=False, week_start=7).cast(pa.int32())
        case "year" | "quarter" | "month" | "day" | "hour" | "minute" | "second":
            return getattr(pc, call.function)(*arguments).cast(pa.int32())
        case "dayofyear":
            return pc.day_of_year(*arguments).cast(pa.int32())
        case "weekofyear":
            return pc.iso_week(*arguments).cast(pa.int32())
        case "case":
            return _case(arguments)
        case "coalesce":
            return pc.coalesce(*arguments)
        case _:
            assert_never(call.function)


def _remainder(left: Any, right: Any) -> Any:
    """Return the remainder with the sign of the dividend.

    A divisor of -1 is replaced by 1, which gives the same remainder: the quotient of the smallest integer and -1
    would overflow.
    """
    divisor = pc.if_else(pc.equal(right, -1), 1, right)
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, divisor), divisor))


def _substring(text: Any, start: Any, length: Any = None) -> Any:
    """Return characters from ``start`` on, counted from 1, or from the end if negative; 0 means 1."""
    first = start - 1 if start > 0 else start
    stop = None if length is None or first + max(length, 0) >= 0 > first else first + max(length, 0)
    return pc.utf8_slice_codeunits(text, first, stop)


def _cast(operand: Any, found: DataType, t: DataType) -> Any:
    wanted: Any = arrow_type(t)
    if found.root == "DECIMAL" and t.root == "DOUBLE":
        return operand.cast(pa.string()).cast(wanted)  # a direct cast need not give the nearest double
    if found.root == "DECIMAL" and t.root == "DECIMAL":
        return half_up(operand, found.scale or 0, t.scale or 0).cast(wanted)
    if t.root == "DECIMAL":
        return operand.cast(pa.decimal128(38, t.scale)).cast(wanted)
    if found.root in (*FLOATS, "DECIMAL") and pa.types.is_integer(wanted):
        return pc.trunc(operand).cast(wanted)
    if t.root == "DATE":
        return pc.floor_temporal(operand, unit="day").cast(wanted)
    return operand.cast(wanted, safe=t.root not in FLOATS)


def _register(function: str) -> None:
    """Register `changed` with Arrow, whose own functions cannot map one letter to several."""

    def over(_: object, text: Any) -> Any:
        if isinstance(text, pa.Scalar):
            return pa.scalar(changed(text.as_py(), function) if text.is_valid else None, pa.string())
        text.validate(full=True)  # a file may have text that is no UTF-8
        values = text.to_pylist()
        return pa.array([None if one is None else changed(one, function) for one in values], pa.string())

    summary = {"summary": function, "description": f"{function} of every character, as Unicode maps it"}
    pc.register_scalar_function(over, f"pktable_{function}", summary, {"text": pa.string()}, pa.string())


for _function in CASES:
    _register(_function)
