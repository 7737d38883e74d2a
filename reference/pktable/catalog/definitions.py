"""Read the columns of a new table from whatever form the caller has them in.

Every form is first brought to the SQL text of its columns, so all get their field ids in the same way. The forms: SQL
text itself, a dict of names and types, an Arrow schema, anything that exports one (``__arrow_c_schema__``, as pyarrow
and polars do), and a Spark StructType. A StructType is recognised by its fields: Spark is not imported here.

Clauses: TBL-1, META-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.catalog.arguments import expect_text
from pktable.format import type_text
from pktable.format.types import NESTED, DataType, Field, from_arrow, parse_columns, parse_type

SPARK_TYPES: Final[Mapping[str, str]] = {
    "string": "STRING",
    "binary": "BYTES",
    "timestamp": "TIMESTAMP_LTZ(6)",  # Spark's TIMESTAMP is a point in time
    "timestamp_ntz": "TIMESTAMP(6)",
}
"""Spark's name of a type without parts: the SQL text of ours, where the same text is not the same type."""

SAME_TYPES: Final = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "variant")
SIZED_TYPES: Final = ("decimal(", "char(", "varchar(", "time(")

Column = tuple[str, DataType, "str | None"]
"""Name, type and comment."""

ACCEPTED: Final = (
    "SQL text such as 'id BIGINT, city STRING', a dict of names and SQL types, an Arrow schema, "
    "an object with __arrow_c_schema__, or a Spark StructType"
)


def parse_definition(columns: Any) -> tuple[Field, ...]:
    """Return the columns that ``columns`` define, ids from 0 in order, then those of fields inside ROW.

    Raises InvalidRequestError naming the column, or saying which forms are accepted. Clauses: TBL-1, META-1.
    """
    if isinstance(columns, str):
        return parse_columns(columns)
    if hasattr(columns, "__arrow_c_schema__"):  # polars.Schema is a dict as well
        described = _of_arrow(columns)
    elif isinstance(columns, Mapping):
        described = [(name, _type_of(name, given), None) for name, given in columns.items()]
    elif _is_struct(columns):
        described = list(_of_spark(columns))
    else:
        raise InvalidRequestError(f"columns: expected {ACCEPTED}, found {type(columns).__name__}")
    if not described:
        raise InvalidRequestError("columns: expected at least one, found none")
    return defined(described)


def defined(columns: Iterable[Column]) -> tuple[Field, ...]:
    """Return ``columns`` as fields with ids, as `parse_definition` does. Raises InvalidRequestError."""
    return parse_columns(", ".join(_sql(*column) for column in columns))


def column_names(what: str, names: str | Sequence[str]) -> tuple[str, ...]:
    """Return ``names``, or the one that a plain string is. Raises InvalidRequestError; ``what`` begins the message."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, Iterable) or isinstance(names, (bytes, Mapping)):
        raise InvalidRequestError(f"{what}: expected a column name or a list of them, found {names!r}")
    found = tuple(names)
    for name in found:
        if not isinstance(name, str):
            raise InvalidRequestError(f"{what}: expected column names, found {name!r}")
    return found


def option_texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Return table options as the text that a schema stores. Raises InvalidRequestError."""
    if not isinstance(options, Mapping):
        raise InvalidRequestError(f"options: expected a dict of names and values, found {options!r}")
    for name in options:
        expect_text("option", name)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }


def _sql(name: str, kind: DataType, comment: str | None) -> str:
    if not name or not isinstance(name, str):
        raise InvalidRequestError(f"columns: expected names that are text and not empty, found {name!r}")
    text = f"{type_text.quoted(name)} {_type_sql(kind)}"
    return text if comment is None else text + " COMMENT '" + comment.replace("'", "''") + "'"


def _type_sql(kind: DataType) -> str:
    """Return a type as SQL text, with the comments of the fields in it."""
    if kind.root not in NESTED or kind.variant:
        return str(kind)
    inner = (
        _sql(one.name, one.type, one.description) if kind.root == "ROW" else _type_sql(one.type)
        for one in kind.children
    )
    return f"{kind.root}<{', '.join(inner)}>{'' if kind.nullable else ' NOT NULL'}"


def _type_of(name: str, given: Any) -> DataType:
    """Return the type that the value of a dict gives: SQL text, or a type of Arrow."""
    try:
        if isinstance(given, pa.DataType):
            return from_arrow(given)
        if isinstance(given, str):
            return parse_type(given)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"column {name}: {error}") from None
    raise InvalidRequestError(f"column {name}: expected the SQL text of a type, found {given!r}")


def _of_arrow(columns: Any) -> list[Column]:
    try:
        schema = columns if isinstance(columns, pa.Schema) else pa.schema(columns)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidRequestError(
            f"columns: Arrow reads no columns from this {type(columns).__name__}: {error}"
        ) from None
    described: list[Column] = []
    for field in schema:
        try:
            described.append((field.name, from_arrow(field.type, field.nullable), None))
        except InvalidRequestError as error:
            raise InvalidRequestError(f"column {field.name}: {error}") from None
    return described


def _is_struct(columns: Any) -> bool:
    fields = getattr(columns, "fields", None)
    return isinstance(fields, (list, tuple)) and all(hasattr(field, "dataType") for field in fields)


def _of_spark(struct: Any) -> Iterator[Column]:
    """Yield the fields of a StructType."""
    for field in struct.fields:
        try:
            yield field.name, _spark_type(field.dataType, nullable=field.nullable), _comment(field)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"column {field.name}: {error}") from None


def _comment(field: Any) -> str | None:
    found: str | None = (getattr(field, "metadata", None) or {}).get("comment")
    return found


def _spark_type(kind: Any, *, nullable: bool) -> DataType:
    """Return the type that holds what a column of a Spark DataType holds."""
    parts: Sequence[tuple[str, DataType] | Column]
    if hasattr(kind, "elementType"):
        root, parts = "ARRAY", [("element", _spark_type(kind.elementType, nullable=kind.containsNull))]
    elif hasattr(kind, "keyType"):
        key = _spark_type(kind.keyType, nullable=False)
        root = "MAP"
        parts = [("key", key), ("value", _spark_type(kind.valueType, nullable=kind.valueContainsNull))]
    elif _is_struct(kind):
        root = "ROW"
        parts = [(f.name, _spark_type(f.dataType, nullable=f.nullable), _comment(f)) for f in kind.fields]
    else:
        return _plain_spark_type(kind.simpleString(), nullable)
    return DataType(root, nullable, children=tuple(Field(i, *part) for i, part in enumerate(parts)))


def _plain_spark_type(text: str, nullable: bool) -> DataType:
    if text in SPARK_TYPES or text in SAME_TYPES or text.startswith(SIZED_TYPES):
        found = parse_type(SPARK_TYPES.get(text, text))
        return found if nullable else found.not_null()
    raise InvalidRequestError(f"Spark type {text} is not supported")
