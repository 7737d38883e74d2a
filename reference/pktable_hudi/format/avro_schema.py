"""The columns that an Avro schema describes, as fields of this package's types.

Hudi keeps the schema of a table, and that of each log block, as the Avro schema of a record. A column is nullable if
its type is a union with null. Unions of several other types are refused.

Clauses: LOG-21.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pktable.format.types import DataType, Field
from pktable_spec.errors import CorruptFileError, InvalidRequestError

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

WRITTEN: Final = (
    *("BOOLEAN", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BYTES", "DATE", "DECIMAL(p, s)"),
    *("TIMESTAMP(3 or 6)", "TIMESTAMP_LTZ(3 or 6)", "ARRAY", "MAP<STRING, ...>", "ROW"),
)
"""The types that columns of a new table may have."""

DEEPEST: Final = 64
MOST_PARTS: Final = 1 << 16
"""The limits of a schema whose named types are written out wherever they are used."""


def written_out(schema: str, *, at: str) -> Mapping[str, Any]:
    """Return a record's schema with each named type written out wherever it is used. Raises CorruptFileError."""
    try:
        return _written_out(schema)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError("Avro schema", at=at, expected="that of a record", found=error) from None


@lru_cache(maxsize=256)
def _written_out(schema: str) -> Mapping[str, Any]:
    loaded = json.loads(schema)
    if not isinstance(loaded, dict) or loaded.get("type") != "record":
        raise ValueError(f"{str(loaded)[:60]}, no record")
    found: Mapping[str, Any] = _Names().written_out(loaded, 0)
    return found


class _Names:
    """The named types that a schema has defined so far."""

    def __init__(self) -> None:
        self._types: dict[str, Any] = {}
        self._parts = 0

    def written_out(self, schema: Any, depth: int) -> Any:
        self._parts += 1
        if depth > DEEPEST or self._parts > MOST_PARTS:
            raise ValueError("types inside each other without end")
        if isinstance(schema, list):
            return [self.written_out(one, depth + 1) for one in schema]
        if isinstance(schema, str):
            if schema == "null" or (schema in PLAIN and schema not in ("enum", "fixed")):
                return schema
            return self.written_out(self._types[schema], depth + 1)
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.written_out(kind, depth + 1)
        if kind in ("record", "fixed", "enum"):
            self._types[schema["name"]] = schema
            if "namespace" in schema:
                self._types[f"{schema['namespace']}.{schema['name']}"] = schema
        found = dict(schema)
        for part in ("items", "values"):
            if part in schema:
                found[part] = self.written_out(schema[part], depth + 1)
        if kind == "record":
            found["fields"] = [
                {**one, "type": self.written_out(one["type"], depth + 1)} for one in schema["fields"]
            ]
        return found


def fields_of(schema: str, *, at: str) -> tuple[Field, ...]:
    """Return the columns of a record's schema, in order; the id of a field is its number.

    Raises CorruptFileError, and InvalidRequestError for a type that no column has. Clauses: LOG-21.
    """
    written_out(schema, at=at)
    try:
        return _fields_of(schema)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{at}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError("Avro schema", at=at, expected="that of a record", found=error) from None


@lru_cache(maxsize=256)
def _fields_of(schema: str) -> tuple[Field, ...]:
    return _record(_written_out(schema))


def _record(schema: Mapping[str, Any]) -> tuple[Field, ...]:
    found = tuple(
        Field(i, str(one["name"]), _type(one["type"]), _comment(one))
        for i, one in enumerate(schema["fields"])
    )
    if len({field.name for field in found}) < len(found):
        raise ValueError("a field twice")
    return found


def _comment(field: Mapping[str, Any]) -> str | None:
    comment = field.get("doc")
    return comment if isinstance(comment, str) else None


def _type(schema: Any, nullable: bool = False) -> DataType:
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise InvalidRequestError(f"a union of {len(others)} types is not supported")
        return _type(others[0], "null" in schema)
    if isinstance(schema, str):
        return DataType(PLAIN[schema], nullable)
    kind = schema["type"]
    if kind == "record":
        return DataType("ROW", nullable, children=_record(schema))
    if kind == "array":
        return DataType("ARRAY", nullable, children=(Field(0, "element", _type(schema["items"])),))
    if kind == "map":
        key, value = Field(0, "key", DataType("STRING", False)), Field(1, "value", _type(schema["values"]))
        return DataType("MAP", nullable, children=(key, value))
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


def schema_text(fields: Sequence[Field], table: str) -> str:
    """Return the Avro schema of a table's columns, named as Spark's writer of Hudi names it.

    Raises InvalidRequestError for a type that no Avro schema of Hudi has. Clauses: LOG-21.
    """
    record = f"{table}_record"
    namespace = f"hoodie.{table}"
    parts = [_avro_field(one, f"{namespace}.{record}") for one in fields]
    content = {"type": "record", "name": record, "namespace": namespace, "fields": parts}
    return json.dumps(content, separators=(",", ":"))


def _avro_field(field: Field, path: str) -> dict[str, Any]:
    kind = _avro_type(field.type, f"{path}.{field.name}", field.name)
    comment = {} if field.description is None else {"doc": field.description}
    if not field.type.nullable:
        return {"name": field.name, "type": kind, **comment}
    return {"name": field.name, "type": ["null", kind], "default": None, **comment}


def _avro_type(kind: DataType, path: str, column: str) -> Any:
    def child(one: Field) -> Any:
        inside = _avro_type(one.type, f"{path}.{one.name}", column)
        return ["null", inside] if one.type.nullable else inside

    if kind.root == "ROW" and not kind.variant:
        parts = [_avro_field(one, path) for one in kind.children]
        return {"type": "record", "name": path.rpartition(".")[2], "namespace": path, "fields": parts}
    if kind.root == "ARRAY":
        return {"type": "array", "items": child(kind.children[0])}
    if kind.root == "MAP" and kind.children[0].type.root == "STRING":
        return {"type": "map", "values": child(kind.children[1])}
    if kind.root == "DECIMAL":
        assert kind.precision is not None
        size = ((10**kind.precision).bit_length() + 1 + 7) // 8  # with a sign
        decimal = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return {"type": "fixed", "name": "fixed", "namespace": path, "size": size, **decimal}
    for avro, root in PLAIN.items():
        if root == kind.root:
            return avro
    for (avro, logical), known in LOGICAL.items():
        if (known.root, known.precision) == (kind.root, kind.precision):
            return {"type": avro, "logicalType": logical}
    raise InvalidRequestError(f"column {column}: Hudi has no type {kind}; use one of {', '.join(WRITTEN)}")
