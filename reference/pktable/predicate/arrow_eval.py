"""Evaluate a condition in Arrow, with SQL's three values: a NULL stays NULL until the filter drops the row.

Floats compare as in Spark: NaN equals NaN and is greater than every number, and the zeros are equal. A part
that can fail (by overflow, division by zero or a failed conversion) is evaluated only for the rows that the
conditions before it have kept; there a failure raises.

Clauses: RD-6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError

from pktable.format.decimals import WIDEST, half_up
from pktable.format.types import FLOATS, TIMESTAMPS, DataType, array_of
from pktable.format.types import to_arrow as arrow_type
from pktable.predicate.letter_case import CASES, changed
from pktable.predicate.regular import re2_pattern
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
    conjuncts,
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
LIVE: Final = "__pktable_live"


def filtered(
    root: Expression,
    table: pa.Table,
    what: str,
    live: npt.NDArray[np.bool_] | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the rows of ``table``, in order, that are ``live`` and for which ``root`` is true.

    ``columns``: those to return, all if None; at least one. A condition that may fail is evaluated only for the live
    rows that the conditions before it keep. Raises InvalidRequestError, which calls the condition ``what``, if it fails
    for one of them.
    """
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions  # it imports pandas

    columns = table.column_names if columns is None else columns
    tests = [(expression_of(one, table.schema), may_fail(one)) for one in conjuncts(root)]
    if live is not None:
        tests.insert(0, (pc.field(LIVE), False))
        table = table.append_column(LIVE, pa.array(live))
    groups = list(_guarded(tests))
    try:
        for group in groups:
            plan = [
                Declaration("table_source", TableSourceNodeOptions(table)),
                Declaration("project", ProjectNodeOptions([reduce(pc.and_kleene, group)])),
            ]
            holds = Declaration.from_sequence(plan).to_table(use_threads=False).column(0)
            if group is groups[-1]:
                table = table.select(columns)
            # Taking rows by number is faster than any filter, and the condition need not read the taken columns.
            table = table.take(pc.indices_nonzero(holds))
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(f"{what}: {str(error).partition(chr(10))[0]}") from None
    return table


def evaluated(values: Mapping[str, Expression], rows: pa.Table, what: Callable[[str], str]) -> pa.Table:
    """Return a table of ``values``, name by name, row for row. A bare column is returned as it is, in its own type.

    Raises InvalidRequestError if an expression fails for a row. ``what`` says how messages call the value of a name.
    """
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions  # it imports pandas

    computed = {name: value for name, value in values.items() if not isinstance(value, Column)}
    found = {name: rows.column(value.name) for name, value in values.items() if isinstance(value, Column)}
    if computed:
        needed = dict.fromkeys(
            part.name for value in computed.values() for part in walk(value) if isinstance(part, Column)
        )
        few = rows.select(list(needed)) if needed else pa.table({LIVE: pa.nulls(rows.num_rows)})
        expressions = [expression_of(value, few.schema) for value in computed.values()]
        plan = [
            Declaration("table_source", TableSourceNodeOptions(few)),
            Declaration("project", ProjectNodeOptions(expressions, list(computed))),
        ]
        try:
            made = Declaration.from_sequence(plan).to_table(use_threads=False)
        except pa.ArrowInvalid as error:
            for name, value in computed.items() if len(computed) > 1 else ():
                evaluated({name: value}, rows, what)  # only by itself it tells which one fails
            problem = str(error).partition(chr(10))[0]
            raise InvalidRequestError(f"{what(next(iter(computed)))}: {problem}") from None
        found |= dict(zip(made.column_names, made.columns, strict=True))
    return pa.table({name: found[name] for name in values})


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


def _guarded(tests: Iterable[tuple[pc.Expression, bool]]) -> Iterator[list[pc.Expression]]:
    """Yield the conditions of ``tests`` (condition, may fail) in groups in which only the first may fail."""
    group: list[pc.Expression] = []
    for condition, fails in tests:
        if group and fails:
            yield group
            group = []
        group.append(condition)
    yield group


def expression_of(root: Expression, schema: _Rows) -> pc.Expression:
    """Return ``root`` as an expression over columns of ``schema``: true, false or null."""
    match root:
        case Column():
            return _column(root, schema)
        case Literal():
            value = array_of([root.value], root.type)[0]
            # Arrow computes what has no columns at once, taken or not.
            return _taken(pc.scalar(value), schema, value.type)
        case Cast():
            return _cast(expression_of(root.operand, schema), root.operand.type, root.type)
        case Call(function="case"):
            return _case(root, schema)
        case Call(function="coalesce"):
            return _first_present(root, schema)
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


def _column(column: Column, rows: _Rows) -> pc.Expression:
    wanted, inside = arrow_type(column.type), rows
    while isinstance(inside, _Taken):
        inside = inside.rows
    field = pc.field(column.name)
    value = field if inside.field(column.name).type == wanted else field.cast(wanted)
    return _taken(value, rows, wanted)


def _comparison(root: Compare, schema: _Rows) -> Any:
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


def _place(side: Expression, schema: _Rows) -> Any:
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


def _membership(root: In, schema: _Rows) -> Any:
    operand, t = root.operand, root.operand.type
    if not root.values or t.root in FLOATS:  # is_in hashes, and the two zeros have different hashes
        options = [*root.values, *([None] if root.has_null else [])]
        return reduce(
            pc.or_kleene, [expression_of(Compare("=", operand, Literal(v, t)), schema) for v in options]
        )
    value = expression_of(operand, schema)
    possible = [one for one in root.values if not _beyond(Literal(one, t))]
    found = pc.is_in(value, value_set=array_of(possible, t))
    null = pa.scalar(None, pa.bool_())
    return pc.if_else(pc.is_null(value), null, pc.if_else(found, True, null if root.has_null else False))


def _regex(like: Like) -> str:
    wildcards = {Wildcard.ONE: ".", Wildcard.ANY: ".*"}
    parts = [wildcards[p] if isinstance(p, Wildcard) else re.escape(p) for p in like.pattern]
    return r"\A(?s:" + "".join(parts) + r")\z"


@dataclass(frozen=True)
class _Taken:
    """The columns of ``rows`` where the condition ``taken`` is true, and nulls elsewhere."""

    rows: _Rows
    taken: Any


_Rows: TypeAlias = pa.Schema | _Taken
"""The place where columns are looked up."""


def _case(case: Call, rows: _Rows) -> Any:
    """Return the value of the first condition that is true.

    Arrow computes all values of all rows. A part that may fail is computed of nulls where its turn does not come. So it
    fails only where Spark computes it, too.
    """
    *pairs, last = case.arguments
    chosen, open_ = [], pc.scalar(True)
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        holds = pc.coalesce(_where(condition, rows, open_), pc.scalar(False))
        taken = pc.and_kleene(open_, holds)
        chosen.append((taken, _where(value, rows, taken)))
        open_ = pc.and_kleene(open_, pc.invert(holds))
    found = _where(last, rows, open_)
    for taken, value in reversed(chosen):
        found = pc.if_else(taken, value, found)
    return found


def _first_present(call: Call, rows: _Rows) -> Any:
    """Return the first value that is not NULL. Those after it are not computed, as in `_case`."""
    found = expression_of(call.arguments[0], rows)
    for one in call.arguments[1:]:
        found = pc.coalesce(found, _where(one, rows, pc.is_null(found)))
    return found


def _taken(value: Any, rows: _Rows, kind: pa.DataType) -> Any:
    """Return a value where the conditions of ``rows`` are true, and null elsewhere."""
    while isinstance(rows, _Taken):
        value, rows = pc.if_else(rows.taken, value, pa.scalar(None, kind)), rows.rows
    return value


def _where(part: Expression, rows: _Rows, taken: Any) -> Any:
    return expression_of(part, _Taken(rows, taken) if may_fail(part) else rows)


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
        case "rlike":
            return pc.match_substring_regex(arguments[0], re2_pattern(call))
        case "greatest":
            return pc.max_element_wise(*arguments)
        case "least":
            return pc.min_element_wise(*arguments)
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
        case "case" | "coalesce":
            raise AssertionError("done before its arguments are")
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
