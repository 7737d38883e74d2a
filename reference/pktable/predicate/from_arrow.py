"""An Arrow expression as a condition in SQL, as far as ours can say what it asks for.

Engines that read an Arrow dataset, such as DuckDB and polars, hand over the filter of a query as an expression of
pyarrow, and pyarrow has no way to look into one. It pickles, though: into an Arrow file whose schema metadata lists the
tree in prefix order, and whose columns hold the literals. The keys of the metadata repeat, which Python's dict of it
hides, so it is read from the C data interface.

The text that comes out holds wherever the expression is true, and may hold elsewhere too. So it may choose files and
rows, and the expression itself must be evaluated on what is left.
"""

from __future__ import annotations

import ctypes
import datetime
import decimal
import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError

COMPARISONS: Final = {"equal": "=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
AND: Final = ("and", "and_kleene")
OR: Final = ("or", "or_kleene")


@dataclass(frozen=True)
class Node:
    """A part of an expression. ``kind``: that of `CALL` and so on; ``options``: of a call, as a dict."""

    kind: str
    name: str = ""
    value: Any = None
    arguments: tuple[Node, ...] = ()
    options: Any = None


CALL: Final = "call"
FIELD: Final = "field_ref"
LITERAL: Final = "literal"
OTHER: Final = "other"


def parts_of(expression: pc.Expression) -> Node:
    """Return the tree of an expression. Raises ValueError if it is pickled in another way than is known here."""
    try:
        make, (buffer,) = expression.__reduce__()
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
    if make.__name__ != "_deserialize":
        raise ValueError(f"an expression that {make.__name__} makes")
    file = pa.ipc.open_file(buffer)
    values = file.get_batch(0).columns if file.num_record_batches else []
    entries = iter(_metadata(file.schema))
    found = _node(next(entries), entries, values)
    if next(entries, None) is not None:
        raise ValueError("more than one tree")
    return found


def _node(entry: tuple[str, str], entries: Iterator[tuple[str, str]], values: Sequence[Any]) -> Node:
    kind, value = entry
    if kind == FIELD:
        return Node(FIELD, value)
    if kind == LITERAL:
        return Node(LITERAL, value=values[int(value)][0])
    if kind == "nested_field_ref":
        names = [next(entries)[1] for _ in range(int(value))]
        return Node(OTHER, names[0], arguments=(Node(FIELD, names[0]),))
    if kind != CALL:
        raise ValueError(f"an entry {kind!r}")
    arguments, options = [], None
    while (inner := next(entries))[0] != "end":
        if inner[0] == "options":
            options = values[int(inner[1])][0]
        else:
            arguments.append(_node(inner, entries, values))
    return Node(CALL, value, arguments=tuple(arguments), options=options)


class _CSchema(ctypes.Structure):
    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the keys and values of the metadata of a schema, all of them, in order."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = _CSchema.from_address(pointer(capsule, b"arrow_schema")).metadata
    found: list[str] = []
    if address:
        (count,), at = struct.unpack("=i", ctypes.string_at(address, 4)), address + 4
        for _ in range(2 * count):
            (length,) = struct.unpack("=i", ctypes.string_at(at, 4))
            found.append(ctypes.string_at(at + 4, length).decode())
            at += 4 + length
    return list(zip(found[::2], found[1::2], strict=True))


def names_in(node: Node) -> Iterator[str]:
    """Yield the names of the columns that an expression reads."""
    if node.kind == FIELD:
        yield node.name
    for argument in node.arguments:
        yield from names_in(argument)


def necessary(node: Node) -> str | None:
    """Return a condition that holds wherever the expression is true, None if none can be said."""
    if node.kind == FIELD:
        return f"{_quoted(node.name)} = TRUE"
    if node.kind != CALL:
        return None
    if node.name in AND:
        return _joined(" AND ", [text for one in node.arguments if (text := necessary(one))])
    if node.name in OR:
        texts = [necessary(one) for one in node.arguments]
        return None if None in texts else _joined(" OR ", [text for text in texts if text])
    if node.name in COMPARISONS:
        return _compared(COMPARISONS[node.name], *node.arguments)
    if node.name == "is_in":
        return _among(node)
    return _of_nulls(node)


def as_text(expression: pc.Expression, what: str) -> str:
    """Return the condition that an expression is. Raises InvalidRequestError for what has no text here."""
    try:
        return _exact(parts_of(expression))
    except ValueError as problem:
        raise InvalidRequestError(
            f"{what} {expression}: {problem} has no text here; there are comparisons of a column and a value, isin, "
            "is_null, is_valid, &, | and ~"
        ) from None


def _exact(node: Node) -> str:
    """Return the text of a condition, all of it. Raises ValueError with what has none."""
    if node.kind == CALL and node.name in AND + OR:
        word = " AND " if node.name in AND else " OR "
        return f"({word.join(map(_exact, node.arguments))})"
    if node.kind == CALL and node.name == "not_equal":
        return f"(NOT {_exact(replace(node, name='equal'))})"
    text = necessary(node)
    if text is not None:
        return text
    if node.kind == CALL and node.name == "invert":
        return f"(NOT {_exact(node.arguments[0])})"
    raise ValueError(node.name if node.kind == CALL else node.kind)


def _joined(word: str, texts: Sequence[str]) -> str | None:
    return f"({word.join(texts)})" if texts else None


def _compared(operator: str, left: Node, right: Node) -> str | None:
    if (left.kind, right.kind) == (LITERAL, FIELD):
        left, right, operator = right, left, MIRRORED[operator]
    if (left.kind, right.kind) != (FIELD, LITERAL):
        return None
    value = literal_text(right.value)
    return None if value is None else f"{_quoted(left.name)} {operator} {value}"


def _among(node: Node) -> str | None:
    (operand,) = node.arguments
    values = node.options["value_set"].values if node.options is not None else ()
    if operand.kind != FIELD:
        return None
    column, texts = _quoted(operand.name), [literal_text(one) for one in values if one.is_valid]
    if None in texts:
        return None
    found = [f"{column} IN ({', '.join(text for text in texts if text)})"] if texts else []
    if len(texts) < len(values):
        found.append(f"{column} IS NULL")
    return _joined(" OR ", found)


def _of_nulls(node: Node) -> str | None:
    negated = node.name == "invert" and node.arguments[0].kind == CALL
    inner = node.arguments[0] if negated else node
    asked = {"is_null": True, "is_valid": False}.get(inner.name)
    if asked is None or inner.arguments[0].kind != FIELD:
        return None
    if inner.name == "is_null" and inner.options is not None and inner.options["nan_is_null"].as_py():
        return None
    is_null = asked != negated
    return f"{_quoted(inner.arguments[0].name)} IS {'' if is_null else 'NOT '}NULL"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal_text(scalar: pa.Scalar) -> str | None:
    """Return a value as SQL, None for one that has no text here. NULL has none, and neither has NaN."""
    value = scalar.as_py() if not pa.types.is_timestamp(scalar.type) else scalar
    match value:
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case decimal.Decimal():
            return f"{value:f}"  # with an exponent it would be a double
        case float():
            return f"{value!r}D" if math.isfinite(value) else None
        case str() if value.isprintable() and "\\" not in value:
            return "'" + value.replace("'", "''") + "'"
        case datetime.date():
            return f"DATE '{value.isoformat()}'"
        case datetime.time() if value.microsecond % 1000 == 0:
            return f"TIME '{value.isoformat()}'"
        case pa.TimestampScalar() if value.is_valid:
            return _timestamp(value)
        case _:
            return None


def _timestamp(scalar: pa.Scalar) -> str | None:
    if scalar.type.unit == "ns":
        return None
    wall = scalar.cast(pa.timestamp("us")).as_py()
    return f"TIMESTAMP{'' if scalar.type.tz else '_NTZ'} '{wall.isoformat(sep=' ')}{'Z' if scalar.type.tz else ''}'"
