"""Column types: read and write their SQL text and JSON, and convert types and values to and from Arrow.

A type is a root and its parameters. STRING and BYTES are VARCHAR and VARBINARY without a limit. An ARRAY
has one child, a MAP two, a ROW one for each of its fields.

Internal values of the atomic types are plain Python. A DATE is days and a timestamp is nanoseconds since the epoch,
whatever the unit of its column, so that values of one type compare with ``<``. A TIME is milliseconds of the day,
whatever its precision, because that is what Paimon stores.

Clauses: META-19, META-70.
"""

from __future__ import annotations

import decimal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format import type_text

Value: TypeAlias = "bool | int | float | str | bytes | decimal.Decimal | None"

PRECISIONS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Digits of a second that a time of an Arrow unit has."""
NANOS_PER: Final = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
OUTSIDE_NANOS: Final = "lies outside 1677 to 2262, the range of Arrow's nanoseconds"
DAY_MILLIS: Final = 86_400_000
VARIANT: Final = "VARIANT"
NESTED: Final = frozenset({"ARRAY", "MAP", "ROW"})
STRINGS: Final = frozenset({"CHAR", "VARCHAR", "STRING"})
BINARIES: Final = frozenset({"BINARY", "VARBINARY", "BYTES"})
TIMESTAMPS: Final = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ"})
FLOATS: Final = frozenset({"FLOAT", "DOUBLE"})
INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
INTEGER_DIGITS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
"""Decimal digits of the greatest value of the type."""
NUMBERS: Final = frozenset({*INTEGER_BITS, *FLOATS, "DECIMAL"})

_PLAIN_ARROW: Final[dict[str, Any]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    **dict.fromkeys(STRINGS, pa.string()),
    **dict.fromkeys(BINARIES, pa.binary()),
}


@dataclass(frozen=True)
class DataType:
    """The type of a column or of a part of one. A parameter that the root does not have is None.

    ``length``: of CHAR and VARCHAR in characters, of BINARY and VARBINARY in bytes. ``precision``: of DECIMAL, TIME
    and the timestamps, in digits. ``scale``: of DECIMAL. ``children``: of ARRAY (element), MAP (key, value) and ROW.
    ``variant``: whether the ROW is a VARIANT, whose two fields are the bytes of its value and of the names in it.
    """

    root: str
    nullable: bool = True
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    children: tuple[Field, ...] = ()
    variant: bool = False

    def __str__(self) -> str:
        """Return the type as SQL text, as `parse_type` reads it."""
        if self.variant:
            return VARIANT if self.nullable else f"{VARIANT} NOT NULL"
        inner = ", ".join(
            f"{type_text.quoted(child.name)} {child.type}" if self.root == "ROW" else str(child.type)
            for child in self.children
        )
        text = f"{self.root}<{inner}>" if self.root in NESTED else self._atomic_text()
        return text if self.nullable else f"{text} NOT NULL"

    def _atomic_text(self) -> str:
        if self.root == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.root == "TIMESTAMP_LTZ":
            return f"TIMESTAMP({self.precision}) WITH LOCAL TIME ZONE"
        parameter = self.length if self.length is not None else self.precision
        return self.root if parameter is None else f"{self.root}({parameter})"

    def to_json(self) -> object:
        """Return the type as a schema file holds it: text, or an object for ARRAY, MAP and ROW.

        Clauses: META-19.
        """
        if self.root not in NESTED or self.variant:
            return str(self)
        name = self.root if self.nullable else f"{self.root} NOT NULL"
        if self.root == "ROW":
            return {"type": name, "fields": [child.to_json() for child in self.children]}
        return {"type": name, **{child.name: child.type.to_json() for child in self.children}}

    def not_null(self) -> DataType:
        """Return the same type without null."""
        return replace(self, nullable=False)


@dataclass(frozen=True)
class Field:
    """A named column, or a part of a nested one. The id survives renames."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the field as a schema file holds it."""
        optional = {"description": self.description, "defaultValue": self.default}
        return {
            "id": self.id,
            "name": self.name,
            "type": self.type.to_json(),
            **{name: text for name, text in optional.items() if text is not None},
        }


def has_variant(t: DataType) -> bool:
    """Return whether ``t`` or a part of it is a VARIANT."""
    return t.variant or any(has_variant(child.type) for child in t.children)


def is_atomic(t: DataType) -> bool:
    """Return whether ``t`` is neither ARRAY nor MAP nor ROW."""
    return t.root not in NESTED


def parse_type(json_or_sql: object, depth: int = type_text.DEEPEST) -> DataType:
    """Return a type from the JSON of a schema file or from SQL text. Raises InvalidRequestError.

    ``depth``: how many levels it may have. Clauses: META-19.
    """
    if not depth:
        raise InvalidRequestError(f"type: expected types nested at most {type_text.DEEPEST} levels deep")
    if isinstance(json_or_sql, str):
        return _from_parsed(type_text.parse_type(json_or_sql), iter(range(1 << 31)))
    if not isinstance(json_or_sql, dict):
        raise InvalidRequestError(f"type: expected text or an object, found {json_or_sql!r}")
    name = json_or_sql.get("type")
    root, _, rest = name.partition(" ") if isinstance(name, str) else ("", "", "")
    if root not in NESTED or rest not in ("", "NOT NULL"):
        raise InvalidRequestError(f"type: expected ARRAY, MAP or ROW, found {name!r}")
    if root == "ROW":
        children = json_or_sql.get("fields")
        if not isinstance(children, list) or not children:
            raise InvalidRequestError(f"fields of ROW: expected a list, not empty, found {children!r}")
        fields = tuple(parse_field(child, depth - 1) for child in children)
        _require_unique_names(fields)
        return DataType(root, not rest, children=fields)
    parts = ("element",) if root == "ARRAY" else ("key", "value")
    return DataType(
        root,
        not rest,
        children=tuple(
            Field(i, part, parse_type(json_or_sql.get(part), depth - 1)) for i, part in enumerate(parts)
        ),
    )


def parse_field(json: object, depth: int = type_text.DEEPEST) -> Field:
    """Return a field from the JSON of a schema file. ``depth``: of its type, at most. Raises InvalidRequestError."""
    if not isinstance(json, dict):
        raise InvalidRequestError(f"field: expected an object, found {json!r}")
    number, name = json.get("id"), json.get("name")
    if type(number) is not int or not 0 <= number < 1 << 31:
        raise InvalidRequestError(f"id of field {name!r}: expected a number, found {number!r}")
    if not isinstance(name, str) or not name:
        raise InvalidRequestError(f"name of field {number}: expected text, found {name!r}")
    texts = json.get("description"), json.get("defaultValue")
    for text in texts:
        if text is not None and not isinstance(text, str):
            raise InvalidRequestError(f"description of field {name!r}: expected text, found {text!r}")
    return Field(number, name, parse_type(json.get("type"), depth), *texts)


def parse_columns(ddl: str) -> tuple[Field, ...]:
    """Return the columns of ``id BIGINT NOT NULL, tags ARRAY<STRING>``, ids from 0 in order.

    Fields inside ROW get the ids after those of the columns. Raises InvalidRequestError.
    """
    columns = type_text.parse_columns(ddl)
    nested_ids = iter(range(len(columns), 1 << 31))
    fields = tuple(
        Field(i, column.name, _from_parsed(column.type, nested_ids), column.comment)
        for i, column in enumerate(columns)
    )
    _require_unique_names(fields)
    return fields


def highest_field_id(fields: Sequence[Field]) -> int:
    """Return the greatest id in use, inside ROW too; -1 if there is none."""
    return max((identifier for field in fields for identifier in _ids(field)), default=-1)


def _ids(field: Field) -> Iterator[int]:
    yield field.id
    yield from _ids_inside(field.type)


def _ids_inside(t: DataType) -> Iterator[int]:
    for child in t.children:
        if t.root == "ROW" and not t.variant:
            yield child.id
        yield from _ids_inside(child.type)


def _require_unique_names(fields: Sequence[Field]) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            raise InvalidRequestError(f"column {field.name!r} is defined twice")
        seen.add(field.name)


def _from_parsed(parsed: type_text.ParsedType, ids: Iterator[int]) -> DataType:
    if parsed.root == VARIANT:
        parts = [
            Field(i, name, DataType("BYTES", nullable=False)) for i, name in enumerate(("value", "metadata"))
        ]
        return DataType("ROW", parsed.nullable, children=tuple(parts), variant=True)
    if parsed.root == "ROW":  # noqa: SIM108
        numbers = [next(ids) for _ in parsed.children]
    else:
        numbers = list(range(len(parsed.children)))
    children = tuple(
        Field(number, child.name, _from_parsed(child.type, ids), child.comment)
        for number, child in zip(numbers, parsed.children, strict=True)
    )
    if parsed.root == "ROW":
        _require_unique_names(children)
    return DataType(parsed.root, parsed.nullable, parsed.length, parsed.precision, parsed.scale, children)


def to_arrow(t: DataType) -> pa.DataType:
    """Return the Arrow type of columns of type ``t``."""
    if t.root in _PLAIN_ARROW:
        plain: pa.DataType = _PLAIN_ARROW[t.root]
        return plain
    if t.root == "DECIMAL":
        assert t.precision is not None
        assert t.scale is not None
        return pa.decimal128(t.precision, t.scale)
    if t.root in TIMESTAMPS:
        return pa.timestamp(timestamp_unit(t), tz="UTC" if t.root == "TIMESTAMP_LTZ" else None)
    parts = [arrow_field(child) for child in t.children]
    if t.root == "ARRAY":
        return pa.list_(parts[0])
    if t.root == "MAP":
        value: Any = parts[1]
        mapped: pa.DataType = pa.map_(parts[0].type, value)
        return mapped
    return pa.struct(parts)


def arrow_field(field: Field) -> pa.Field[Any]:
    """Return the field in Arrow: name, type, nullability."""
    return pa.field(field.name, to_arrow(field.type), field.type.nullable)


def timestamp_unit(t: DataType) -> Any:
    """Return the Arrow unit of a timestamp type: ms, us or ns."""
    assert t.precision is not None
    return "ms" if t.precision <= 3 else "us" if t.precision <= 6 else "ns"


_FROM_PLAIN_ARROW: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint8(): "SMALLINT",
    pa.uint16(): "INT",
    pa.uint32(): "BIGINT",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.string_view(): "STRING",
    pa.binary(): "BYTES",
    pa.large_binary(): "BYTES",
    pa.binary_view(): "BYTES",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
}


def from_arrow(t: pa.DataType, nullable: bool = True) -> DataType:
    """Return the narrowest type that holds every value of ``t``. Raises InvalidRequestError if none does.

    Times of the day are an exception: a TIME of any precision has milliseconds.
    """
    kind: Any = t
    if t in _FROM_PLAIN_ARROW:
        return DataType(_FROM_PLAIN_ARROW[t], nullable)
    if pa.types.is_uint64(t):
        return DataType("DECIMAL", nullable, precision=20, scale=0)
    if pa.types.is_fixed_size_binary(t):
        return DataType("BINARY", nullable, length=kind.byte_width)
    if pa.types.is_decimal(t) and kind.precision <= 38 and 0 <= kind.scale <= kind.precision:
        return DataType("DECIMAL", nullable, precision=kind.precision, scale=kind.scale)
    if pa.types.is_timestamp(t):
        root = "TIMESTAMP_LTZ" if kind.tz else "TIMESTAMP"
        return DataType(root, nullable, precision=PRECISIONS[kind.unit])
    if pa.types.is_time(t):
        return DataType("TIME", nullable, precision=PRECISIONS[kind.unit])
    if pa.types.is_dictionary(t):
        return from_arrow(kind.value_type, nullable)
    return _nested_from_arrow(kind, nullable)


def _nested_from_arrow(kind: Any, nullable: bool) -> DataType:
    parts: list[tuple[str, Any]]
    if pa.types.is_map(kind):
        root, parts = "MAP", [("key", kind.key_field), ("value", kind.item_field)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        root, parts = "ARRAY", [("element", kind.value_field)]
    elif pa.types.is_struct(kind) and kind.num_fields:
        root, parts = "ROW", [(field.name, field) for field in kind]
    else:
        raise InvalidRequestError(f"Arrow type {kind}: no column type holds all of its values")
    children = tuple(
        Field(i, name, from_arrow(field.type, field.nullable)) for i, (name, field) in enumerate(parts)
    )
    if root == "ROW":
        _require_unique_names(children)
    return DataType(root, nullable, children=children)


def java_time(millis: int, precision: int) -> str:
    """Return a TIME as Paimon writes it: with a fraction, of a digit or more, if the type has digits for one."""
    seconds, millis = divmod(millis % DAY_MILLIS, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    fraction = f"{millis:03d}".rstrip("0")[:precision] or "0"
    return f"{text}.{fraction}" if precision else text


def array_of(values: Sequence[Any], t: DataType) -> pa.Array[Any]:
    """Return internal values of the atomic type ``t``, None for null, as an array. The inverse of `values_of`."""
    wanted: Any = to_arrow(t)
    if t.root == "DATE":
        return pa.array(values, pa.int32()).cast(wanted)
    if t.root in TIMESTAMPS:
        unit = NANOS_PER[wanted.unit]
        return pa.array([None if v is None else v // unit for v in values], pa.int64()).cast(wanted)
    return pa.array(values, wanted)


def values_of(array: pa.Array[Any] | pa.ChunkedArray[Any], t: DataType) -> list[Any]:
    """Return the rows of ``array`` as internal values, None for null.

    Values of ARRAY, MAP and ROW are as Arrow converts them to Python. Clauses: META-4.
    """
    chunks: list[Any] = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    if len(chunks) == 1:
        return _values_of_chunk(chunks[0], t)
    return [value for chunk in chunks for value in _values_of_chunk(chunk, t)]


def one_array(column: pa.Array[Any] | pa.ChunkedArray[Any]) -> Any:
    """Return the rows of ``column`` as one array; they are copied only if there are several chunks."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _values_of_chunk(array: Any, t: DataType) -> list[Any]:
    if t.root in TIMESTAMPS:
        factor = NANOS_PER[array.type.unit]
        counts = _numbers(array.view(pa.int64()))
        return counts if factor == 1 else [None if count is None else count * factor for count in counts]
    if t.root == "DATE":
        return _numbers(array.cast(pa.date32()).view(pa.int32()))
    if t.root == "TIME":
        return _numbers(array.cast(pa.time32("ms")).view(pa.int32()))
    if t.root in _NUMPY_ROOTS:
        return _numbers(array)
    values: list[Any] = array.to_pylist()
    return values


_NUMPY_ROOTS: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"})


def _numbers(array: Any) -> list[Any]:
    """Return fixed-width numbers as a list; numpy makes one several times faster than Arrow."""
    if array.null_count:
        values: list[Any] = array.to_pylist()
        return values
    numbers: list[Any] = array.to_numpy().tolist()
    return numbers
