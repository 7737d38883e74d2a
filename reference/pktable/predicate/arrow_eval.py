"""The condition over Arrow, with SQL's three values: what is NULL stays NULL until the filter drops it.

Floats compare as in Spark: NaN equals NaN and is greater than every number, and the zeros are equal. What
overflows, divides by zero or does not convert raises, in the rows that the conditions before it left.

Clauses: RD-6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError
from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

from pktable.format.types import FLOATS, TIMESTAMPS, DataType, array_of
from pktable.format.types import to_arrow as arrow_type
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
    Or,
    Wildcard,
    conjuncts,
    walk,
)

COMPARISONS: Final[dict[str, Callable[..., Any]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
MIRRORED: Final = {">": "<", ">=": "<="}
LIVE: Final = "__pktable_live"


def filtered(
    root: Expression, table: pa.Table, where: str, live: npt.NDArray[np.bool_] | None = None
) -> pa.Table:
    """Return the rows of ``table``, in order, that are ``live`` and for which ``root`` is true.

    What may fail is evaluated only over rows for which the conditions before it may hold, of which being live
    is the first. Raises InvalidRequestError where it does fail.
    """
    names = table.column_names
    tests = [(expression_of(one, table.schema), may_fail(one)) for one in conjuncts(root)]
    if live is not None:
        tests.insert(0, (pc.field(LIVE), False))
        table = table.append_column(LIVE, pa.array(live))
    try:
        for group in _guarded(tests):
            plan = [
                Declaration("table_source", TableSourceNodeOptions(table)),
                Declaration("project", ProjectNodeOptions([reduce(pc.and_kleene, group)])),
            ]
            holds = Declaration.from_sequence(plan).to_table(use_threads=False).column(0)
            # Taking rows by number is faster than any filter, and what is tested need not be what is taken.
            table = table.take(pc.indices_nonzero(holds))
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(f"where {where!r}: {str(error).partition(chr(10))[0]}") from None
    return table.select(names)


def may_fail(root: Expression) -> bool:
    """Return whether there may be a row for which ``root`` has no answer."""
    return any(isinstance(part, (Call, Cast)) for part in walk(root))


def _guarded(tests: Iterable[tuple[pc.Expression, bool]]) -> Iterator[list[pc.Expression]]:
    """Yield conditions, of which is known whether they may fail, in groups of which only the first may."""
    group: list[pc.Expression] = []
    for condition, fails in tests:
        if group and fails:
            yield group
            group = []
        group.append(condition)
    yield group


def expression_of(root: Expression, schema: pa.Schema) -> pc.Expression:
    """Return ``root`` as an expression over columns of ``schema``: true, false or null."""
    if isinstance(root, Column):
        field = pc.field(root.name)
        wanted = arrow_type(root.type)
        return field if schema.field(root.name).type == wanted else field.cast(wanted)
    if isinstance(root, Literal):
        return pc.scalar(array_of([root.value], root.type)[0])
    if isinstance(root, In):
        return _membership(root, schema)
    if isinstance(root, Compare):
        if _beyond(root.left) or _beyond(root.right):
            return _from_afar(root, schema)
        return _comparison(root, expression_of(root.left, schema), expression_of(root.right, schema))
    if isinstance(root, (And, Or)):
        combine = pc.and_kleene if isinstance(root, And) else pc.or_kleene
        return reduce(combine, [expression_of(part, schema) for part in root.operands])
    if isinstance(root, Call):
        return _call(root, [expression_of(argument, schema) for argument in root.arguments])
    operand = expression_of(root.operand, schema)
    if isinstance(root, Not):
        return pc.invert(operand)
    if isinstance(root, IsNull):
        return pc.is_null(operand)
    if isinstance(root, Like):
        return pc.match_substring_regex(operand, _regex(root))
    return _cast(operand, root.operand.type, root.type)


def _comparison(root: Compare, left: Any, right: Any) -> Any:
    if root.operator == "<=>":
        both_null = pc.and_kleene(pc.is_null(left), pc.is_null(right))
        equal = pc.coalesce(_ordered("=", left, right, root.left.type), pc.scalar(False))
        return pc.or_kleene(both_null, equal)
    return _ordered(root.operator, left, right, root.left.type)


def _beyond(side: Expression) -> int:
    """Return 1 for a time after all that a column of nanoseconds can hold, -1 for one before, else 0."""
    if not (isinstance(side, Literal) and isinstance(side.value, int) and side.type.root in TIMESTAMPS):
        return 0
    if (side.type.precision or 0) <= 6 or -(1 << 63) <= side.value < 1 << 63:
        return 0
    return 1 if side.value > 0 else -1


def _from_afar(root: Compare, schema: pa.Schema) -> Any:
    """Return a comparison with a time that is before or after all that there can be."""

    def place(side: Expression) -> Any:
        if at := _beyond(side):
            return pc.scalar(at)
        return pc.if_else(pc.is_null(expression_of(side, schema)), pa.scalar(None, pa.int64()), 0)

    return _comparison(root, place(root.left), place(root.right))


def _ordered(operator: str, left: Any, right: Any, t: DataType) -> Any:
    """Return a comparison of values of type ``t``, null where one of them is."""
    if t.root not in FLOATS:
        return COMPARISONS[operator](left, right)
    if operator == "<>":
        return pc.invert(_ordered("=", left, right, t))
    if operator in MIRRORED:
        operator, left, right = MIRRORED[operator], right, left
    plain = COMPARISONS[operator](left, right)
    if operator == "<":
        return pc.or_kleene(plain, pc.and_kleene(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
    other = pc.is_valid(left) if operator == "<=" else pc.is_nan(left)
    return pc.or_kleene(plain, pc.and_kleene(other, pc.is_nan(right)))


def _membership(root: In, schema: pa.Schema) -> Any:
    operand, t = root.operand, root.operand.type
    if not root.values or t.root in FLOATS:  # a hash of floats would tell the zeros apart
        options = [*root.values, *([None] if root.has_null else [])]
        return reduce(
            pc.or_kleene, [expression_of(Compare("=", operand, Literal(v, t)), schema) for v in options]
        )
    value = expression_of(operand, schema)
    near = [one for one in root.values if not _beyond(Literal(one, t))]
    found = pc.is_in(value, value_set=array_of(near, t))
    null = pa.scalar(None, pa.bool_())
    return pc.if_else(pc.is_null(value), null, pc.if_else(found, True, null if root.has_null else False))


def _regex(like: Like) -> str:
    wildcards = {Wildcard.ONE: ".", Wildcard.ANY: ".*"}
    parts = [wildcards[p] if isinstance(p, Wildcard) else re.escape(p) for p in like.pattern]
    return r"\A(?s:" + "".join(parts) + r")\z"


def _call(call: Call, arguments: list[Any]) -> Any:
    if call.function in ("upper", "lower"):
        return arguments[0]._call(f"pktable_{call.function}", arguments)
    if call.function == "length":
        kind = call.arguments[0].type
        return (pc.binary_length if kind == BYTES else pc.utf8_length)(arguments[0]).cast(pa.int32())
    if call.function == "substring":
        bounds = [part.value for part in call.arguments[1:] if isinstance(part, Literal)]
        return _substring(arguments[0], *bounds)
    if call.function == "concat":
        return pc.binary_join_element_wise(*arguments, "", null_handling="emit_null")
    if call.function == "remainder":
        return _remainder(*arguments)
    return FUNCTIONS[call.function](*arguments)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "divide": pc.divide_checked,
    "negate": pc.negate_checked,
    "abs": pc.abs_checked,
    "coalesce": pc.coalesce,
}


def _remainder(left: Any, right: Any) -> Any:
    """Return the remainder with the sign of the dividend; -1 would overflow on the smallest integer."""
    divisor = pc.if_else(pc.equal(right, -1), 1, right)
    return pc.subtract(left, pc.multiply(pc.divide_checked(left, divisor), divisor))


def _substring(text: Any, start: Any, length: Any = None) -> Any:
    """Return characters from ``start``, counted from 1, or from the end if negative; 0 is 1."""
    first = start - 1 if start > 0 else start
    stop = None if length is None or first + max(length, 0) >= 0 > first else first + max(length, 0)
    return pc.utf8_slice_codeunits(text, first, stop)


def _cast(operand: Any, found: DataType, t: DataType) -> Any:
    wanted: Any = arrow_type(t)
    if found.root == "DECIMAL" and t.root == "DOUBLE":
        return operand.cast(pa.string()).cast(wanted)  # by way of text it is the nearest double
    if found.root == "DECIMAL" and t.root == "DECIMAL":
        return pc.round(operand, t.scale, "half_towards_infinity").cast(wanted)
    if t.root == "DECIMAL":
        return operand.cast(pa.decimal128(38, t.scale)).cast(wanted)
    if found.root in (*FLOATS, "DECIMAL") and pa.types.is_integer(wanted):
        return pc.trunc(operand).cast(wanted)
    if t.root == "DATE":
        return pc.floor_temporal(operand, unit="day").cast(wanted)
    return operand.cast(wanted, safe=t.root not in FLOATS)


def _register(name: str, function: Callable[[str], str]) -> None:
    """Make a function of strings known to Arrow, whose own knows no mapping of one letter to several."""

    def over(_: object, text: Any) -> Any:
        if isinstance(text, pa.Scalar):
            return pa.scalar(function(text.as_py()) if text.is_valid else None, pa.string())
        return pa.array([None if one is None else function(one) for one in text.to_pylist()], pa.string())

    summary = {"summary": name, "description": f"{name} of every character, as Unicode maps it"}
    pc.register_scalar_function(over, f"pktable_{name}", summary, {"text": pa.string()}, pa.string())


_register("upper", str.upper)
_register("lower", str.lower)
