"""A polars expression as a condition in SQL: what it is stored as says all that it does.

Clauses: WH-24, WH-32.
"""

from __future__ import annotations

import datetime
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.type_text import quoted
from pktable.format.types import NANOS_PER, NUMBERS, TIMESTAMPS, DataType, Field
from pktable.predicate.from_arrow import literal_text, shortened, type_of
from pktable.predicate.literals import MOST_DIGITS, nearest_float
from pktable.predicate.scope import Scope

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
UNITS: Final = {"Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}
UNIT_OF: Final = {3: "ms", 6: "us", 9: "ns"}
"""The unit of a time by its digits, as a table of Arrow has it."""


def as_text(expression: Any, fields: Sequence[Field], what: str) -> str:
    """Return the condition that an expression is. Raises InvalidRequestError for what has no text here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the form may differ in another version: then it is refused
            tree = json.loads(expression.meta.serialize(format="json"))
        return _Conditions(Scope.of(fields)).condition(tree)
    except (ValueError, KeyError, TypeError, LookupError, ArithmeticError, pa.ArrowException) as problem:
        raise InvalidRequestError(
            f"{what} {shortened(str(expression))}: {problem or 'a part'} has no text here; there are comparisons of "
            "columns and values, is_in, is_between, is_null, is_not_null, str.starts_with, str.ends_with, &, | and ~"
        ) from None
    except RecursionError:
        raise InvalidRequestError(f"{what}: the expression is nested too deeply") from None


def _only(tree: Any) -> tuple[str, Any]:
    """Return the kind and the parts of a node. Raises ValueError for one of another form."""
    if not isinstance(tree, Mapping) or len(tree) != 1:
        raise ValueError(str(tree)[:40])
    return next(iter(tree.items()))


@dataclass(frozen=True)
class _Conditions:
    """Writes the parts of a condition over the columns of ``scope``. Raises ValueError for what has no text here."""

    scope: Scope

    def condition(self, tree: Any) -> str:
        kind, parts = _only(tree)
        if kind == "Column":
            return f"{quoted(parts)} = TRUE"
        if kind == "BinaryExpr" and parts["op"] in LOGIC:
            word = LOGIC[parts["op"]]
            return f"({f' {word} '.join(map(self.condition, _combined(tree)))})"
        if kind == "BinaryExpr" and parts["op"] in COMPARISONS:
            left, right = self.values(parts["left"], parts["right"])
            return f"({left} {COMPARISONS[parts['op']]} {right})"
        if kind == "Function":
            return self.function(parts["input"], *_only(parts["function"]))
        raise ValueError(parts["op"] if kind == "BinaryExpr" else kind)

    def function(self, inputs: list[Any], family: str, function: Any) -> str:
        name = function if isinstance(function, str) else _only(function)[0]
        if family == "StringExpr" and name in TEXTS:
            return f"{TEXTS[name]}({', '.join(self.values(*inputs))})"
        if family != "Boolean":
            raise ValueError(name)
        match name:
            case "Not":
                return f"(NOT {self.condition(inputs[0])})"
            case "IsNull":
                return f"({self.values(inputs[0])[0]} IS NULL)"
            case "IsNotNull":
                return f"({self.values(inputs[0])[0]} IS NOT NULL)"
            case "IsBetween":
                low, high = CLOSED[function[name]["closed"]]
                value, least = self.values(inputs[0], inputs[1])
                _, most = self.values(inputs[0], inputs[2])
                return f"({value} {low} {least} AND {value} {high} {most})"
            case "IsIn":
                return self.among(inputs, function[name])
            case _:
                raise ValueError(name)

    def among(self, inputs: list[Any], options: Mapping[str, Any]) -> str:
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
        return f"({self.values(inputs[0])[0]} IN ({', '.join(texts)}))"

    def values(self, *trees: Any) -> list[str]:
        """Return values that polars compares with one another."""
        names = [parts for kind, parts in map(_only, trees) if kind == "Column"]
        types = [found for name in names if (found := type_of(name, self.scope)) is not None]
        units = {one.precision for one in types if one.root in TIMESTAMPS}
        if len(units) > 1:
            raise ValueError("a comparison of times of several units, which polars makes in the coarsest,")
        column = types[0] if types else None
        return [self.value(*_only(tree), column) for tree in trees]

    def value(self, kind: str, parts: Any, column: DataType | None) -> str:
        """Return a column, or a literal that is compared with one of type ``column``."""
        if kind == "Column":
            return quoted(parts)
        if kind != "Literal":
            raise ValueError(kind)
        _, stored = _only(parts)
        return _known(literal_text(_scalar(*_only(stored), column)))


def _combined(tree: Any) -> list[Any]:
    """Return what a tree of one operator combines, left to right. A long one is as deep as it has parts."""
    operator, found, waiting = tree["BinaryExpr"]["op"], [], [tree]
    while waiting:
        kind, parts = _only(waiting.pop())
        if kind == "BinaryExpr" and parts["op"] == operator:
            waiting += parts["right"], parts["left"]
        else:
            found.append({kind: parts})
    return found


def _plain(kind: Any) -> pa.DataType:
    views = {pa.string_view(): pa.string(), pa.large_string(): pa.string()}
    found: pa.DataType = views.get(kind, kind)
    return found


def _known(text: str | None) -> str:
    if text is None:
        raise ValueError("a value of this kind")
    return text


def _scalar(kind: str, value: Any, column: DataType | None) -> pa.Scalar:
    """Return a literal as polars compares it with a column of type ``column``. Clauses: WH-32."""
    root = "" if column is None else column.root
    if kind == "Date":
        return pa.scalar(datetime.date(1970, 1, 1) + datetime.timedelta(value))
    if kind == "Datetime":
        number, unit, zone = value
        found = pa.scalar(number, pa.timestamp(UNITS[unit], tz=None if zone is None else "UTC"))
        if column is not None and root in TIMESTAMPS:
            # polars compares times in the coarser of both units.
            wanted = UNIT_OF[column.precision or 0]
            if NANOS_PER[UNITS[unit]] > NANOS_PER[wanted]:
                raise ValueError(f"a time in {unit.lower()}, while the column is finer,")
            return found.cast(pa.timestamp(wanted, found.type.tz))
        return found
    if kind == "Time":
        return pa.scalar(value, pa.time64("ns"))
    if kind == "Binary":
        return pa.scalar(bytes(value))
    if kind == "Decimal":
        number, _, scale = value
        return pa.scalar(Decimal(number).scaleb(-scale, Context(prec=MOST_DIGITS)))
    if kind not in ("Boolean", "String") and not kind.startswith(("Int", "UInt", "Float")):
        raise ValueError(f"a value of {kind}")
    if value is None:
        raise ValueError("a number that is not finite")
    if kind == "String":
        if root in (*NUMBERS, "BOOLEAN"):
            raise ValueError(f"a text next to a column of {column}")
        return pa.scalar(value)
    # A number without a type takes that of the column.
    if kind == "Float32" or (kind in ("Int", "Float") and root == "FLOAT"):
        return pa.scalar(nearest_float(float(value)))
    if kind.startswith("Float"):
        return pa.scalar(float(value))
    return pa.scalar(value if kind == "Boolean" else Decimal(value))
