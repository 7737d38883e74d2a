"""A polars expression as a condition in SQL: what it is stored as says all that it does.

Clauses: WH-24.
"""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.type_text import quoted
from pktable.predicate.from_arrow import literal_text
from pktable.predicate.literals import MOST_DIGITS

COMPARISONS: Final = {
    "Eq": "=",
    "NotEq": "<>",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
    "EqValidity": "<=>",
    "NotEqValidity": "IS DISTINCT FROM",
}
LOGIC: Final = {"And": "AND", "LogicalAnd": "AND", "Or": "OR", "LogicalOr": "OR"}
CLOSED: Final = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
TEXTS: Final = {"StartsWith": "startswith", "EndsWith": "endswith"}
UNITS: Final = {"Milliseconds": "ms", "Microseconds": "us"}


def as_text(expression: Any, what: str) -> str:
    """Return the condition that an expression is. Raises InvalidRequestError for what has no text here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the form may differ in another version: then it is refused
            tree = json.loads(expression.meta.serialize(format="json"))
        return _condition(tree)
    except (ValueError, KeyError, TypeError, LookupError, pa.ArrowException) as problem:
        raise InvalidRequestError(
            f"{what} {expression}: {problem or 'a part'} has no text here; there are comparisons of columns and "
            "values, is_in, is_between, is_null, is_not_null, str.starts_with, str.ends_with, &, | and ~"
        ) from None


def _only(tree: Any) -> tuple[str, Any]:
    """Return the kind and the parts of a node. Raises ValueError for one of another form."""
    if not isinstance(tree, Mapping) or len(tree) != 1:
        raise ValueError(str(tree)[:40])
    return next(iter(tree.items()))


def _condition(tree: Any) -> str:
    kind, parts = _only(tree)
    if kind == "Column":
        return f"{quoted(parts)} = TRUE"
    if kind == "BinaryExpr" and parts["op"] in LOGIC:
        return f"({_condition(parts['left'])} {LOGIC[parts['op']]} {_condition(parts['right'])})"
    if kind == "BinaryExpr" and parts["op"] in COMPARISONS:
        return f"({_value(parts['left'])} {COMPARISONS[parts['op']]} {_value(parts['right'])})"
    if kind == "Function":
        return _function(parts["input"], *_only(parts["function"]))
    raise ValueError(parts["op"] if kind == "BinaryExpr" else kind)


def _function(inputs: list[Any], family: str, function: Any) -> str:
    name = function if isinstance(function, str) else _only(function)[0]
    if family == "StringExpr" and name in TEXTS:
        return f"{TEXTS[name]}({_value(inputs[0])}, {_value(inputs[1])})"
    if family != "Boolean":
        raise ValueError(name)
    match name:
        case "Not":
            return f"(NOT {_condition(inputs[0])})"
        case "IsNull":
            return f"({_value(inputs[0])} IS NULL)"
        case "IsNotNull":
            return f"({_value(inputs[0])} IS NOT NULL)"
        case "IsBetween":
            low, high = CLOSED[function[name]["closed"]]
            value, least, most = map(_value, inputs)
            return f"({value} {low} {least} AND {value} {high} {most})"
        case "IsIn":
            return _among(inputs, function[name])
        case _:
            raise ValueError(name)


def _among(inputs: list[Any], options: Mapping[str, Any]) -> str:
    kind, stored = _only(_only(inputs[1])[1])
    if kind == "Scalar":
        kind, stored = _only(stored)
    if kind not in ("List", "Series"):
        raise ValueError(kind)
    rows = pa.ipc.open_stream(bytes(stored)).read_all().column(0)
    values = list(rows.combine_chunks().cast(_plain(rows.type)))
    if options.get("nulls_equal") or not all(one.is_valid for one in values):
        raise ValueError("is_in with null")
    if not values:
        raise ValueError("is_in of nothing")
    texts = [_known(literal_text(one)) for one in values]
    return f"({_value(inputs[0])} IN ({', '.join(texts)}))"


def _plain(kind: Any) -> pa.DataType:
    views = {pa.string_view(): pa.string(), pa.large_string(): pa.string()}
    found: pa.DataType = views.get(kind, kind)
    return found


def _known(text: str | None) -> str:
    if text is None:
        raise ValueError("a value of this kind")
    return text


def _value(tree: Any) -> str:
    kind, parts = _only(tree)
    if kind == "Column":
        return quoted(parts)
    if kind != "Literal":
        raise ValueError(kind)
    return _known(literal_text(_scalar(*_only(_only(parts)[1]))))


def _scalar(kind: str, value: Any) -> pa.Scalar:
    if kind == "Date":
        return pa.scalar(datetime.date(1970, 1, 1) + datetime.timedelta(value))
    if kind == "Datetime":
        number, unit, zone = value
        return pa.scalar(number, pa.timestamp(UNITS[unit], tz=None if zone is None else "UTC"))
    if kind == "Decimal":
        number, _, scale = value
        return pa.scalar(Decimal(number).scaleb(-scale, Context(prec=MOST_DIGITS)))
    if kind in ("Boolean", "String") or kind.startswith(("Int", "UInt", "Float")):
        if value is None:
            raise ValueError("a number that is not finite")
        return pa.scalar(float(value) if kind.startswith("Float") else value)
    raise ValueError(f"a value of {kind}")
