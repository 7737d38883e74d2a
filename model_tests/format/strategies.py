"""Types and values for codec tests, from small universes with the edges in them."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pktable.format.types import NANOS_PER, DataType, Field, parse_type, timestamp_unit, to_arrow

ATOMIC = [
    parse_type(text)
    for text in (
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "STRING", "BYTES",
        "CHAR(3)", "VARCHAR(20)", "BINARY(4)", "VARBINARY(9)", "DECIMAL(9, 2)", "DECIMAL(18, 0)",
        "DECIMAL(19, 3)", "DECIMAL(38, 38)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)",
        "TIME(0)", "TIME(3)", "TIME(9)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE",
    )
]  # fmt: skip
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64, "DATE": 32}
NAMES = st.sampled_from(["id", "city", "a b", "ä", "select", "_KEY_x"])


def atomic_types() -> st.SearchStrategy[DataType]:
    return st.sampled_from(ATOMIC)


def data_types() -> st.SearchStrategy[DataType]:
    """Types of any nesting, nullable or not; field ids of a ROW as they come."""
    leaves = st.builds(lambda t, nullable: t if nullable else t.not_null(), atomic_types(), st.booleans())
    return st.recursive(leaves, nested_types, max_leaves=5)


def nested_types(parts: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    def build(root: str, *children: tuple[str, DataType]) -> DataType:
        return DataType(root, children=tuple(Field(i, name, t) for i, (name, t) in enumerate(children)))

    return (
        parts.map(lambda t: build("ARRAY", ("element", t)))
        | st.tuples(parts, parts).map(lambda ts: build("MAP", ("key", ts[0]), ("value", ts[1])))
        | st.lists(st.tuples(NAMES, parts), min_size=1, max_size=3, unique_by=lambda part: part[0]).map(
            lambda parts: build("ROW", *parts)
        )
    )


def values_of_type(t: DataType, *, nan: bool = True) -> st.SearchStrategy[Any]:
    """Values of an atomic type as keys hold them."""
    if t.root in BITS:
        half = 1 << (BITS[t.root] - 1)
        return st.integers(-half, half - 1)
    if t.root == "BOOLEAN":
        return st.booleans()
    if t.root == "TIME":
        return st.integers(0, 86_400_000 - 1)
    if t.root in ("FLOAT", "DOUBLE"):
        return st.floats(width=32 if t.root == "FLOAT" else 64, allow_nan=nan).map(plain_nan)
    if t.root == "DECIMAL":
        assert t.precision is not None
        limit = 10**t.precision - 1
        small = st.sampled_from([0, 1, -1, 127, 128, -128, -129, 255, 65536, -65537, limit, -limit])
        scale = t.scale or 0
        return (st.integers(-limit, limit) | small.filter(lambda n: abs(n) <= limit)).map(
            lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
        )
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        step = NANOS_PER[timestamp_unit(t)]
        half = ((1 << 63) - 1) // max(step, 1000)
        return st.integers(-half, half).map(lambda count: count * step)
    text = st.text(max_size=20) | st.text(alphabet="ab\U0010ffff\ud7ff", min_size=14, max_size=20)
    return text if t.root in ("CHAR", "VARCHAR", "STRING") else st.binary(max_size=20)


def plain_nan(value: float) -> float:
    """Payloads of NaN do not survive the way through 32 bits; there is one NaN here."""
    return float("nan") if value != value else value


def array_of(values: list[Any], t: DataType) -> Any:
    """Return ``values`` (None for null) as an Arrow array of the type."""
    if t.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        step = NANOS_PER[timestamp_unit(t)]
        counts = [None if value is None else value // step for value in values]
        return pa.array(counts, pa.int64()).cast(to_arrow(t))
    if t.root == "DATE":
        return pa.array(values, pa.int32()).cast(pa.date32())
    return pa.array(values, to_arrow(t))


def same(left: Any, right: Any) -> bool:
    """Return whether two values are the same, NaN and the sign of zero included."""
    if isinstance(left, float) and isinstance(right, float):
        return struct.pack("<d", left) == struct.pack("<d", right) or (left != left and right != right)
    return type(left) is type(right) and bool(left == right)
