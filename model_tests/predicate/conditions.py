"""Conditions in SQL, drawn together with what they mean.

A drawn condition is a pair: its text, and a Python function of a row that gives true, false or None. The
function knows nothing of how the text is parsed. Numbers, strings and dates come from small universes.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from hypothesis import strategies as st
from pktable.format.types import parse_columns, to_arrow

Row = dict[str, Any]

FIELDS = parse_columns(
    "id INT, k INT, n BIGINT, t TINYINT, s STRING, d DATE, m DECIMAL(5, 2), f DOUBLE, e FLOAT, b BOOLEAN, "
    "w TIMESTAMP(6), z TIMESTAMP(6) WITH LOCAL TIME ZONE, y BYTES"
)
Texts: TypeAlias = "st.SearchStrategy[Text]"
SCHEMA = pa.schema([(field.name, to_arrow(field.type)) for field in FIELDS])


# A plain evaluator


class Text(NamedTuple):
    """SQL and what it means for a row."""

    sql: str
    of: Callable[[Row], Any]

    def __repr__(self) -> str:
        return self.sql


def lifted(function: Callable[..., Any], *parts: Text) -> Callable[[Row], Any]:
    """Return ``function`` of the parts, None where one of them is."""

    def of(row: Row) -> Any:
        values = [part.of(row) for part in parts]
        return None if None in values else function(*values)

    return of


def column(name: str) -> Text:
    return Text(name, lambda row: row[name])


def constant(sql: str, value: object) -> Text:
    return Text(sql, lambda row: value)


def order_key(value: Any) -> Any:
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compared(sign: str, left: Text, right: Text) -> Text:
    sql = f"{left.sql} {sign} {right.sql}"
    if sign == "<=>":
        return Text(sql, lambda row: order_key(left.of(row)) == order_key(right.of(row)))
    return Text(sql, lifted(lambda a, b: OPERATORS[sign](order_key(a), order_key(b)), left, right))


def any_of(values: list[Any]) -> Any:
    return True if True in values else None if None in values else False


def negated(value: Any) -> Any:
    return None if value is None else not value


def member(value: Text, options: list[Text]) -> Text:
    equal = [compared("=", value, option) for option in options]
    sql = f"{value.sql} IN ({', '.join(option.sql for option in options)})"
    return Text(sql, lambda row: any_of([one.of(row) for one in equal]))


def matches(text: str, pattern: str) -> bool:
    regex = re.sub(r"\\(.)|(%)|(_)|(.)", like_part, pattern, flags=re.DOTALL)
    return re.fullmatch(regex, text, re.DOTALL) is not None


def like(text: Text, pattern: str) -> Text:
    return Text(f"{text.sql} LIKE r'{pattern}'", lifted(lambda value: matches(value, pattern), text))


def like_part(part: re.Match[str]) -> str:
    return ".*" if part[2] else "." if part[3] else re.escape(part[1] or part[4])


def remainder(dividend: Any, divisor: int) -> int:
    return int(math.fmod(dividend, divisor))


def substring(text: str, start: int, length: int) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


# What is drawn


def binary(name: str, function: Callable[..., Any], operands: Texts, others: Texts | None = None) -> Texts:
    """Two operands and the sign between them."""
    return st.builds(
        lambda a, b: Text(f"({a.sql} {name} {b.sql})", lifted(function, a, b)),
        operands,
        operands if others is None else others,
    )


def unary(name: str, function: Callable[[Any], Any], operands: Texts) -> Texts:
    """A function in front of its operand in parentheses."""
    return st.builds(lambda a: Text(f"{name}({a.sql})", lifted(function, a)), operands)


def numbers() -> Texts:
    literals = [constant(text, Decimal(text)) for text in ("-1", "0", "1", "2", "1.5", "-0.25", "300")]
    exact = st.sampled_from([column("k"), column("n"), column("t"), column("m"), *literals])
    whole = st.sampled_from([column("k"), column("n"), column("t"), *literals[:4]])
    divisors = st.sampled_from([constant("2", 2), constant("-1", -1), constant("3", 3)])
    return st.one_of(
        exact,
        binary("+", operator.add, exact),
        binary("-", operator.sub, exact),
        binary("*", operator.mul, exact),
        binary("%", remainder, whole, divisors),
        unary("-", operator.neg, st.sampled_from([column("k"), column("m")])),
        unary("abs", abs, exact),
        unary("length", len, strings()),
        st.integers(0, 2).map(rounded),
        st.builds(coalesced, exact, exact),
        st.builds(chosen, booleans(), exact, exact),
        st.just(Text("CASE WHEN k <> 0 THEN n % k ELSE -1 END", guarded)),
        *(unary(name, of, days()) for name, of in DATE_PARTS.items()),
        unary("floor", math.floor, st.just(column("m"))),
        unary("ceil", math.ceil, st.just(column("m"))),
        unary("round", lambda one: one.quantize(Decimal(1), ROUND_HALF_UP), st.just(column("m"))),
    )


DATE_PARTS = {
    "year": lambda one: one.year,
    "month": lambda one: one.month,
    "day": lambda one: one.day,
    "quarter": lambda one: (one.month + 2) // 3,
    "dayofweek": lambda one: one.isoweekday() % 7 + 1,
    "dayofyear": lambda one: one.timetuple().tm_yday,
    "weekofyear": lambda one: one.isocalendar()[1],
}


def chosen(condition: Text, a: Text, b: Text) -> Text:
    sql = f"CASE WHEN {condition.sql} THEN {a.sql} ELSE {b.sql} END"
    return Text(sql, lambda row: a.of(row) if condition.of(row) is True else b.of(row))


def guarded(row: Row) -> Any:
    """Return the value of a CASE whose remainder fails where its condition does not hold."""
    if row["k"] is None or row["k"] == 0:
        return -1
    return None if row["n"] is None else remainder(row["n"], row["k"])


def rounded(scale: int) -> Text:
    places = Decimal(1).scaleb(-scale)
    of = lifted(lambda value: value.quantize(places, ROUND_HALF_UP), column("m"))
    return Text(f"CAST(m AS DECIMAL({4 + scale}, {scale}))", of)


def coalesced(a: Text, b: Text) -> Text:
    return Text(f"coalesce({a.sql}, {b.sql})", lambda row: b.of(row) if a.of(row) is None else a.of(row))


BLANK = st.just(constant("' '", " "))


def strings() -> Texts:
    """Functions of functions. `upper` and `lower` take no value that either of them made."""
    literals = [constant(f"'{text}'", text) for text in ("", "a", "b", "é", "aB", "ß", "Σ", "ΑΣ")]
    plain = st.sampled_from([column("s"), column("s"), *literals])
    inner = st.recursive(plain, made_of, max_leaves=3)
    cased = inner | unary("upper", str.upper, inner) | unary("lower", str.lower, inner)
    return st.recursive(cased, made_of, max_leaves=3)


def made_of(texts: Texts) -> Texts:
    return st.one_of(
        binary("||", operator.add, texts),
        st.builds(substring_of, texts, st.integers(-3, 3), st.integers(-1, 3)),
        st.builds(coalesced, texts, texts),
        unary("trim", lambda text: text.strip(" "), binary("||", operator.add, texts, BLANK)),
        st.builds(chosen, booleans(), texts, texts),
        texts.map(
            lambda a: Text(f"replace({a.sql}, 'a', 'xa')", lifted(lambda text: text.replace("a", "xa"), a))
        ),
        st.builds(lambda a: Text(f"CAST({a.sql} AS STRING)", a.of), texts),
    )


def substring_of(text: Text, start: int, length: int) -> Text:
    of = lifted(lambda value: substring(value, start, length), text)
    return Text(f"substring({text.sql}, {start}, {length})", of)


def floats() -> Texts:
    texts = ("NaN", "-0.0", "0", "1.5", "Infinity", "-1")
    return st.sampled_from(
        [column("f"), column("e"), *(constant(f"CAST('{text}' AS DOUBLE)", float(text)) for text in texts)]
    )


def days() -> Texts:
    literals = [constant(f"DATE '{day}'", day) for day in (date(1969, 12, 31), date(2024, 2, 29))]
    return st.sampled_from([column("d"), column("d"), *literals])


def times() -> Texts:
    texts = ("1969-12-31 23:59:59.999999", "2024-02-29 00:00:00")
    literals = [constant(f"TIMESTAMP_NTZ '{text}'", datetime.fromisoformat(text)) for text in texts]
    return st.sampled_from([column("w"), column("w"), *literals])


def booleans() -> Texts:
    return st.sampled_from([column("b"), constant("true", True), constant("false", False)])


KINDS = [numbers(), strings(), floats(), days(), times(), booleans()]
VALUES = st.one_of([st.tuples(kind, kind) for kind in KINDS])
NULL = constant("NULL", None)
OPTIONS = st.one_of(
    [st.tuples(kind, st.lists(kind | st.just(NULL), min_size=1, max_size=3)) for kind in KINDS]
)
PATTERNS = st.lists(st.sampled_from(["a", "B", "é", "%", "_", "\\%", "\\_"]), max_size=4).map("".join)
SIMPLE = st.one_of(
    st.builds(lambda sign, pair: compared(sign, *pair), st.sampled_from([*OPERATORS, "<=>"]), VALUES),
    st.builds(lambda pair: member(*pair), OPTIONS),
    st.one_of(KINDS).map(lambda a: Text(f"{a.sql} IS NULL", lambda row: a.of(row) is None)),
    st.one_of(KINDS).map(lambda a: Text(f"{a.sql} IS NOT NULL", lambda row: a.of(row) is not None)),
    st.builds(lambda a, pattern: like(a, pattern), strings(), PATTERNS),
    booleans(),
)


def combined(inner: Texts) -> Texts:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner.map(lambda a: Text(f"(NOT ({a.sql}))", lambda row: negated(a.of(row)))),
        inner.map(lambda a: Text(f"(({a.sql}) IS TRUE)", lambda row: a.of(row) is True)),
        several.map(disjunction),
        several.map(conjunction),
    )


def disjunction(parts: list[Text]) -> Text:
    return Text(
        f"({' OR '.join(part.sql for part in parts)})", lambda row: any_of([p.of(row) for p in parts])
    )


def conjunction(parts: list[Text]) -> Text:
    sql = f"({' AND '.join(part.sql for part in parts)})"
    return Text(sql, lambda row: negated(any_of([negated(part.of(row)) for part in parts])))


CONDITIONS = st.recursive(SIMPLE, combined, max_leaves=4)


def or_null(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


LAST_MICROSECOND = datetime(1969, 12, 31, 23, 59, 59, 999999)
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -1.0, math.nan, math.inf])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "k": or_null(st.integers(-2, 3)),
            "n": or_null(st.integers(-2, 3)),
            "t": or_null(st.integers(-2, 3)),
            "s": or_null(st.text("aBéßΣİ", max_size=3)),
            "d": or_null(st.sampled_from([date(1969, 12, 31), date(2024, 2, 29), date(2024, 3, 1)])),
            "m": or_null(st.sampled_from(["-1.00", "0.00", "1.50", "2.00", "-0.25", "999.99"]).map(Decimal)),
            "f": or_null(FLOATS),
            "e": or_null(FLOATS),
            "b": or_null(st.booleans()),
            "w": or_null(st.sampled_from([datetime(2024, 2, 29), LAST_MICROSECOND])),
            "z": st.none(),
            "y": st.none(),
        }
    ),
    max_size=6,
).map(lambda rows: [{"id": at, **row} for at, row in enumerate(rows)])


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def ids(table: pa.Table) -> list[int]:
    found: list[int] = table.column("id").to_pylist()
    return found
