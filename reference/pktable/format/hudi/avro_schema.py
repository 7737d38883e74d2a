"""The columns that an Avro schema describes, as fields of this package's types.

Hudi keeps the schema of a table, and that of each log block, as the Avro schema of a record. A column is nullable if
its type is a union with null. Unions of several other types are refused.

Clauses: LOG-21.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.format.types import DataType, Field

PLAIN: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "bytes": "BYTES",
    "string": "STRING",
    "enum": "STRING",
    "fixed": "BYTES",
}
LOGICAL: Final[Mapping[tuple[str, str], DataType]] = {
    ("int", "date"): DataType("DATE"),
    ("long", "timestamp-millis"): DataType("TIMESTAMP_LTZ", precision=3),
    ("long", "timestamp-micros"): DataType("TIMESTAMP_LTZ", precision=6),
    ("long", "local-timestamp-millis"): DataType("TIMESTAMP", precision=3),
    ("long", "local-timestamp-micros"): DataType("TIMESTAMP", precision=6),
}
"""The types of logical types, by Avro's type and the name of the logical type."""

DEEPEST: Final = 64


def fields_of(schema: str, *, at: str) -> tuple[Field, ...]:
    """Return the columns of a record's schema, in order; the id of a field is its number.

    Raises CorruptFileError, and InvalidRequestError for a type that no column has. Clauses: LOG-21.
    """
    try:
        loaded = json.loads(schema)
        if not isinstance(loaded, dict) or loaded.get("type") != "record":
            raise ValueError(f"{str(loaded)[:60]}, no record")
        return _record(loaded, {}, 0)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{at}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError("Avro schema", at=at, expected="that of a record", found=error) from None


def _record(schema: Mapping[str, Any], named: dict[str, Any], depth: int) -> tuple[Field, ...]:
    _remember(schema, named)
    found = tuple(
        Field(i, field["name"], _type(field["type"], named, depth + 1))
        for i, field in enumerate(schema["fields"])
    )
    if len({field.name for field in found}) < len(found):
        raise ValueError("a field twice")
    return found


def _remember(schema: Mapping[str, Any], named: dict[str, Any]) -> None:
    named[schema["name"]] = schema
    if "namespace" in schema:
        named[f"{schema['namespace']}.{schema['name']}"] = schema


def _type(schema: Any, named: dict[str, Any], depth: int, nullable: bool = False) -> DataType:
    if depth > DEEPEST:
        raise ValueError(f"types more than {DEEPEST} inside each other")
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise InvalidRequestError(f"a union of {len(others)} types is not supported")
        return _type(others[0], named, depth + 1, "null" in schema)
    if isinstance(schema, str):
        if schema in PLAIN:
            return DataType(PLAIN[schema], nullable)
        return _type(named[schema], named, depth + 1, nullable)
    kind = schema["type"]
    if not isinstance(kind, str):
        return _type(kind, named, depth + 1, nullable)
    if kind == "record":
        return DataType("ROW", nullable, children=_record(schema, named, depth))
    if kind == "array":
        element = Field(0, "element", _type(schema["items"], named, depth + 1))
        return DataType("ARRAY", nullable, children=(element,))
    if kind == "map":
        value = Field(1, "value", _type(schema["values"], named, depth + 1))
        return DataType("MAP", nullable, children=(Field(0, "key", DataType("STRING", False)), value))
    if kind in ("fixed", "enum"):
        _remember(schema, named)
    return _logical(schema, kind, nullable)


def _logical(schema: Mapping[str, Any], kind: str, nullable: bool) -> DataType:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
        if not 0 <= scale <= precision <= 38 or not precision:
            raise InvalidRequestError(
                f"DECIMAL({precision}, {scale}) is not supported: expected 38 digits or fewer"
            )
        return DataType("DECIMAL", nullable, precision=precision, scale=scale)
    if (kind, logical) in LOGICAL:
        found = LOGICAL[kind, str(logical)]
        return DataType(found.root, nullable, precision=found.precision)
    if logical is not None and logical.startswith(("time", "local-timestamp")):
        raise InvalidRequestError(f"the Avro type {logical} is not supported")
    return DataType(PLAIN[kind], nullable)
