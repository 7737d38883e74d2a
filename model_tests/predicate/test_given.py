"""Expressions of polars and pyarrow, next to what polars and pyarrow make of them, for literals of every type."""

from __future__ import annotations

import datetime as dt
import functools
import operator
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import islice, product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pktable import InvalidRequestError
from pktable.format.types import Field, from_arrow
from pktable.predicate import condition_text, parse
from pktable.predicate.evaluation import filtered
from pktable.predicate.from_arrow import necessary, parts_of
from pktable.predicate.tree import BIGINT, FLOAT, And, Column, Compare, In, Literal, Not, Or
from pktable_spec.covers import covers

from model_tests.seeded import DEEP

NAN, AT, UTC = float("nan"), dt.datetime(2024, 1, 2, 3, 4, 5), dt.timezone.utc
EVERY = 1 if DEEP else 7  # of so many cases one is tried
NANOS = 1_704_164_645 * 10**9
TIMES = [AT, AT.replace(microsecond=1000), dt.datetime(2024, 1, 2), dt.datetime(1969, 12, 31, 23), None]
FINER = [AT, AT.replace(microsecond=1), dt.datetime(2024, 1, 2), dt.datetime(1969, 12, 31, 23), None]
EXACT = [
    Decimal("0.1"),
    Decimal("0.10000000000000000001"),
    Decimal("0.10000000149011611938"),
    Decimal(1),
    None,
]
ROWS = pa.table(
    {
        "k": pa.array(range(5), pa.int64()),
        "i8": pa.array([-128, 0, 1, 127, None], pa.int8()),
        "i32": pa.array([-1, 0, 1, 16777217, None], pa.int32()),
        "i64": pa.array([2**63 - 1, 2**53 + 1, 1, 2**53, None], pa.int64()),
        "f": pa.array([0.1, NAN, -2.5, 16777216, None], pa.float32()),
        "d": pa.array([0.1, NAN, -2.5, 2.0**53, None]),
        "n": pa.array([Decimal("0.10"), Decimal("1.00"), Decimal("-2.50"), None, None], pa.decimal128(10, 2)),
        "m": pa.array(EXACT, pa.decimal128(38, 20)),
        "s": pa.array(["a", "1", "0.1", "true", None]),
        "b": pa.array([True, False, True, False, None]),
        "v": pa.array([b"a", b"\xff", b"", b"1", None]),
        "day": pa.array([dt.date(2024, 1, 2), dt.date(1969, 12, 31), dt.date(2024, 1, 3), None, None]),
        "tm": pa.array([3600000, 0, 1, 3600001, None], pa.time32("ms")),
        "t3": pa.array(TIMES, pa.timestamp("ms")),
        "t6": pa.array(FINER, pa.timestamp("us")),
        "t9": pa.array([NANOS, NANOS + 1, NANOS + 1000, -1, None], pa.timestamp("ns")),
        "l3": pa.array(TIMES, pa.timestamp("ms", "UTC")),
        "l6": pa.array(FINER, pa.timestamp("us", "UTC")),
    }
)
COLUMNS = ROWS.schema.names[1:]
FIELDS = [Field(i, one.name, from_arrow(one.type)) for i, one in enumerate(ROWS.schema)]
CLOCKS = [dt.time(1), dt.time(1, 0, 0, 1000), dt.time(1, 0, 0, 1)]
POINTS = [AT, AT.replace(microsecond=1), AT.replace(microsecond=1000), dt.datetime(2024, 1, 2)]
NUMBERS = [
    Decimal("0.1"),
    Decimal("0.10"),
    Decimal("0.101"),
    Decimal("0.10000000000000000001"),
    Decimal("1e20"),
]
INTEGERS = [0, 1, -1, 127, 16777217, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**100]
DOUBLES = [0.1, 1.5, -2.5, 16777217.0, 2.0**53, 1e300, NAN, float("inf"), 0.10000000149011612]


def ours(expression: Any) -> list[int] | None:
    """Return the rows that a condition keeps here, None if it is refused."""
    try:
        text = condition_text(expression, FIELDS)
        assert text is not None
        found: list[int] = parse(text, FIELDS).filter(ROWS)["k"].to_pylist()
    except InvalidRequestError:
        return None
    return found


def literals_of_polars(pl: Any) -> Iterator[Any]:
    for plain in (INTEGERS, DOUBLES, NUMBERS, CLOCKS, POINTS):
        yield from plain
    yield from ("a", "1", "0.1", "true", True, False, b"a", b"\xff", b"", None, dt.timedelta(1))
    yield from (dt.date(2024, 1, 2), dt.date(1970, 1, 1))
    for whole in INTEGERS:
        for kind in (pl.Int8, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt64):
            low, high = (pl.select(end).item() for end in (kind.min(), kind.max()))
            if low <= whole <= high:
                yield pl.lit(whole, dtype=kind)
    for number in DOUBLES:
        yield from (pl.lit(number, dtype=pl.Float32), pl.lit(number, dtype=pl.Float64))
    for exact in NUMBERS[:4]:
        yield pl.lit(exact, dtype=pl.Decimal(38, 20))
    for at in POINTS:
        for unit in ("ms", "us", "ns"):
            yield from (pl.lit(at, dtype=pl.Datetime(unit)), pl.lit(at, dtype=pl.Datetime(unit, "UTC")))
        yield from (at.replace(tzinfo=UTC), at.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))))
    yield from (pl.lit("a", dtype=pl.Categorical), pl.lit("a", dtype=pl.Enum(["a"])), pl.lit([1]))
    yield from (pl.lit(None, dtype=pl.Int32), pl.lit({"a": 1}))


def expressions_of_polars(pl: Any) -> Iterator[Any]:
    for name in COLUMNS:
        column = pl.col(name)
        for value in literals_of_polars(pl):
            other = value if isinstance(value, pl.Expr) else pl.lit(value)
            yield from (column == value, column < value, other > column, column.is_between(value, value))
            yield column.eq_missing(value)
        for kind, values in (
            *((kind, [1]) for kind in (pl.Int8, pl.Int64, pl.UInt64)),
            *((kind, [0.1, -2.5]) for kind in (pl.Float32, pl.Float64)),
            *((pl.Datetime(unit, zone), FINER[:3]) for unit in ("ms", "us", "ns") for zone in (None, "UTC")),
            *((kind, NUMBERS[:2]) for kind in (pl.Decimal(38, 20), pl.Decimal(10, 2))),
            *((kind, ["a"]) for kind in (pl.String, pl.Categorical)),
            *((pl.Date, [dt.date(2024, 1, 2)]), (pl.Time, CLOCKS), (pl.Binary, [b"a"]), (pl.Boolean, [True])),
        ):
            yield from (
                column.is_in(pl.Series(values, dtype=kind)),
                ~column.is_in(pl.Series(values, dtype=kind)),
            )
        yield from (column == pl.col(other) for other in COLUMNS)


@covers("WH-32")
def test_a_literal_of_polars_is_compared_as_polars_does() -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frame: Any = pl.from_arrow(ROWS)
    same, differ = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in islice(expressions_of_polars(pl), 0, None, EVERY):
            try:
                theirs = frame.filter(one)["k"].to_list()
            except (pl.exceptions.PolarsError, OverflowError):
                continue  # what polars refuses may mean here what it means in SQL
            found = ours(one)
            same += found is not None
            if found not in (None, theirs):
                differ.append((str(one), found, theirs))
    assert not differ
    assert same > 1500 // EVERY


def literals_of_arrow() -> Iterator[pa.Scalar]:
    integers = (pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64())
    exact = (pa.decimal128(38, 20), pa.decimal128(10, 2), pa.decimal256(50, 20))
    times = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "+02:00")]
    for values, kinds in (
        (INTEGERS, integers),
        ([*DOUBLES, 0.0], (pa.float16(), pa.float32(), pa.float64())),
        (NUMBERS, exact),
        (["a", "1", "2024-01-02"], (pa.string(), pa.large_string(), pa.string_view())),
        ([b"a", b""], (pa.binary(), pa.large_binary())),
        ([dt.date(2024, 1, 2)], (pa.date32(), pa.date64())),
        (CLOCKS, (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))),
        (POINTS, times),
        ([True], (pa.bool_(),)),
        ([None], (pa.int32(), pa.null())),
    ):
        for value in values:
            for kind in kinds:
                try:
                    yield pa.scalar(value, kind)
                except (pa.ArrowException, OverflowError):
                    continue
    yield from (pa.scalar(dt.timedelta(1)), pa.scalar([1]), pa.scalar(NANOS + 1, pa.timestamp("ns")))


OF_ARROW: list[Callable[[pc.Expression, pa.Scalar], pc.Expression]] = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.ge,
    lambda column, value: pc.scalar(value) > column,
    lambda column, value: column.isin(pa.array([value.as_py()], value.type)),
    lambda column, value: ~column.isin(pa.array([value.as_py()], value.type)),
    lambda column, value: ~pc.is_in(column, pa.array([value.as_py(), None], value.type), skip_nulls=True),
]


@covers("WH-32")
def test_a_literal_of_pyarrow_is_compared_as_pyarrow_does() -> None:
    same, differ, lost = 0, [], []
    rows = ds.dataset(ROWS)
    for name, value, made in islice(product(COLUMNS, literals_of_arrow(), OF_ARROW), 0, None, EVERY):
        one = made(pc.field(name), value)
        try:
            theirs = rows.to_table(filter=one)["k"].to_pylist()
        except pa.ArrowException:
            continue
        found = ours(one)
        same += found is not None
        # SQL takes NaN, of row 1, for more than any number.
        if found is not None and (set(found) ^ set(theirs)) - ({1} if name in "fd" else set()):
            differ.append((str(one), found, theirs))
        text = necessary(parts_of(one), FIELDS)
        if text is not None and found is not None and set(theirs) - set(found):
            lost.append((str(one), found, theirs))
    assert (differ, lost) == ([], [])
    assert same > 1000 // EVERY


@covers("WH-32", "WH-33")
def test_a_long_expression_is_taken_and_a_deep_one_is_refused() -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    for column, many in ((pl.col("k"), 200), (pc.field("k"), 3000)):
        assert ours(functools.reduce(operator.or_, [column == i for i in range(3, many)])) == [3, 4]
        assert ours(functools.reduce(operator.and_, [column != i for i in range(3, many)])) == [0, 1, 2]
        deep = column == 1
        for _ in range(2000):
            deep = ~deep
        with pytest.raises(InvalidRequestError, match="where: the expression is nested too deeply"):
            condition_text(deep, FIELDS)


@covers("WH-32")
def test_what_polars_can_say_and_sql_cannot_is_refused_by_name() -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    k = pl.col("k")
    for one, problem in (
        (k + 1, "Plus"),
        (pl.lit(True), "Literal"),
        (pl.col("s").str.contains("a"), "Contains"),
        (k.is_duplicated(), "IsDuplicated"),
        (k.is_in(pl.col("i64")), "i64"),
        (k.is_in(k.filter(k > 1)), "{'input': {'Column': 'k'}, 'by': {'Binar"),
        (k.is_in(pl.lit("a")), "String"),
    ):
        with pytest.raises(InvalidRequestError, match=f": {re.escape(problem)} has no text here"):
            condition_text(one, FIELDS)


class Pickled:
    """An expression that pickles as another version of pyarrow may do it."""

    def __init__(self, make: Callable[[pa.Buffer], pc.Expression], *entries: tuple[str, str]) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, pa.schema([], metadata=pa.KeyValueMetadata(entries))):
            pass
        self.reduced = make, (sink.getvalue(),)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


@covers("WH-32")
def test_an_expression_that_pyarrow_pickles_in_another_way_is_not_taken_apart() -> None:
    make, field = (pc.field("k") == 1).__reduce__()[0], ("field_ref", "k")
    assert parts_of(Pickled(make, field)).name == "k"
    for one, problem in (
        (pc.field(0) == 1, "Serialization of non-name field_refs"),
        (Pickled(pc.field, field), "an expression that field makes"),
        (Pickled(make, field, field), "more than one tree"),
        (Pickled(make, ("table_ref", "k")), "an entry 'table_ref'"),
    ):
        with pytest.raises(ValueError, match=problem):
            parts_of(one)


@covers("WH-32")
@pytest.mark.parametrize(("nulls", "is_said"), list(enumerate([True, True, False, False])))
def test_a_set_that_may_answer_null_is_not_taken_apart(nulls: int, is_said: bool) -> None:
    one = parts_of(pc.field("k").isin([1]))
    options = {**one.options, "null_matching_behavior": pa.scalar(nulls)}
    assert (necessary(replace(one, options=options), FIELDS) is not None) == is_said


@covers("WH-33")
def test_as_many_parts_as_a_caller_may_write_do_not_end_the_process() -> None:
    k = Column("k", FIELDS[0].type)
    tests = tuple(Compare("=", k, Literal(i, BIGINT)) for i in range(2, 20_000))
    assert filtered(Or(tests), ROWS, "where")["k"].to_pylist() == [2, 3, 4]
    assert filtered(Not(And(tuple(map(Not, tests)))), ROWS, "where")["k"].to_pylist() == [2, 3, 4]
    x = Column("f", FLOAT)
    among = In(x, (0.0, -2.5, NAN, *map(float, range(10, 20_000))), has_null=True)
    assert filtered(among, ROWS, "where")["k"].to_pylist() == [1, 2]
    assert filtered(Not(among), ROWS, "where")["k"].to_pylist() == []


@covers("WH-33")
def test_a_condition_that_can_be_parsed_can_be_evaluated() -> None:
    for text, rows in (("k = " + " + ".join(["k"] * 180), 0), ("NOT " * 60 + "k = 1", 1)):
        found = parse(text, FIELDS)
        assert found.filter(ROWS.slice(1)).num_rows == rows
        assert found.text
        assert found.never_fails == (rows == 1)
    with pytest.raises(InvalidRequestError, match="expression is nested too deeply"):
        parse("k = " + " + ".join(["k"] * 290), FIELDS)
