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

from pktable.format.type_text import quoted
from pktable.format.types import FLOATS, INTEGER_BITS, NANOS_PER, DataType, Field
from pktable.predicate.literals import time_text
from pktable.predicate.scope import Scope

COMPARISONS: Final = {"equal": "=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
MIRRORED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
AND: Final = ("and", "and_kleene")
OR: Final = ("or", "or_kleene")
MATCH, SKIP = range(2)
"""Ways to take a null in the set of `isin`: it matches null, or nothing. The answer is never null."""
LONGEST: Final = 200
"""Characters of an expression in an error."""


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
    found = _node(entries, values)
    if next(entries, None) is not None:
        raise ValueError("more than one tree")
    return found


def _node(entries: Iterator[tuple[str, str]], values: Sequence[Any]) -> Node:
    """Return the tree that begins with the next of ``entries``. The depth of a tree is not that of Python's calls."""
    calls: list[tuple[str, list[Node]]] = []
    options: list[Any] = []
    while True:
        kind, value = next(entries)
        if kind == CALL:
            calls.append((value, []))
            options.append(None)
            continue
        if kind == "options":
            options[-1] = values[int(value)][0]
            continue
        if kind == "end":
            name, arguments = calls.pop()
            found = Node(CALL, name, arguments=tuple(arguments), options=options.pop())
        elif kind == FIELD:
            found = Node(FIELD, value)
        elif kind == LITERAL:
            found = Node(LITERAL, value=values[int(value)][0])
        elif kind == "nested_field_ref":
            names = [next(entries)[1] for _ in range(int(value))]
            found = Node(OTHER, names[0], arguments=(Node(FIELD, names[0]),))
        else:
            raise ValueError(f"an entry {kind!r}")
        if not calls:
            return found
        calls[-1][1].append(found)


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
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.kind == FIELD:
            yield one.name
        waiting += reversed(one.arguments)


def necessary(node: Node, fields: Sequence[Field]) -> str | None:
    """Return a condition on ``fields`` that holds wherever the expression is true, None if none can be said."""
    return _necessary(node, Scope.of(fields))


def _necessary(node: Node, scope: Scope) -> str | None:
    if node.kind == FIELD:
        return f"{quoted(node.name)} = TRUE"
    if node.kind != CALL:
        return None
    if node.name in AND:
        return _joined(" AND ", [text for one in _parts(node, AND) if (text := _necessary(one, scope))])
    if node.name in OR:
        texts = [_necessary(one, scope) for one in _parts(node, OR)]
        return None if None in texts else _joined(" OR ", [text for text in texts if text])
    if node.name in COMPARISONS:
        left, right = node.arguments
        return _compared(COMPARISONS[node.name], left, right, scope)
    if node.name == "is_in":
        return _among(node, scope)
    return _of_nulls(node)


def as_text(expression: pc.Expression, fields: Sequence[Field], what: str) -> str:
    """Return the condition that an expression is. Raises InvalidRequestError for what has no text here."""
    try:
        return _exact(parts_of(expression), Scope.of(fields))
    except ValueError as problem:
        raise InvalidRequestError(
            f"{what} {shortened(str(expression))}: {problem} has no text here; there are comparisons of a column and a "
            "value, isin, is_null, is_valid, &, | and ~"
        ) from None
    except RecursionError:
        raise InvalidRequestError(f"{what}: the expression is nested too deeply") from None


def _exact(node: Node, scope: Scope) -> str:
    """Return the text of a condition, all of it. Raises ValueError with what has none."""
    if node.kind == CALL and node.name in AND + OR:
        word, names = (" AND ", AND) if node.name in AND else (" OR ", OR)
        return f"({word.join(_exact(one, scope) for one in _parts(node, names))})"
    if node.kind == CALL and node.name == "not_equal":
        return f"(NOT {_exact(replace(node, name='equal'), scope)})"
    text = _necessary(node, scope)
    if text is not None:
        return text
    if node.kind == CALL and node.name == "invert":
        return f"(NOT {_exact(node.arguments[0], scope)})"
    raise ValueError(node.name if node.kind == CALL else node.kind)


def _parts(node: Node, names: Sequence[str]) -> list[Node]:
    """Return what a tree of AND, or of OR, combines, left to right. A long one is as deep as it has parts."""
    found, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        if one.kind == CALL and one.name in names:
            waiting += reversed(one.arguments)
        else:
            found.append(one)
    return found


def _joined(word: str, texts: Sequence[str]) -> str | None:
    return f"({word.join(texts)})" if texts else None


def _compared(operator: str, left: Node, right: Node, scope: Scope) -> str | None:
    if (left.kind, right.kind) == (LITERAL, FIELD):
        left, right, operator = right, left, MIRRORED[operator]
    if (left.kind, right.kind) != (FIELD, LITERAL):
        return None
    column = type_of(left.name, scope)
    if column is not None and _rounded(column, right.value.type):
        return None
    value = literal_text(right.value)
    return None if value is None else f"{quoted(left.name)} {operator} {value}"


def _among(node: Node, scope: Scope) -> str | None:
    (operand,) = node.arguments
    if operand.kind != FIELD or node.options is None:
        return None
    values, nulls = node.options["value_set"].values, node.options["null_matching_behavior"].as_py()
    if nulls not in (MATCH, SKIP):
        return None
    type_found = type_of(operand.name, scope)
    if type_found is not None and not pa.types.is_null(values.type):
        # Arrow brings the values to the type of the column before it compares.
        if _rounded(type_found, values.type) or _cut(type_found, values.type):
            return None
        if type_found.root == "FLOAT" and pa.types.is_floating(values.type):
            values = values.cast(pa.float32(), safe=False)
    column, texts = quoted(operand.name), [literal_text(one) for one in values if one.is_valid]
    if None in texts:
        return None
    found = [f"{column} IN ({', '.join(text for text in texts if text)})"] if texts else []
    if len(texts) < len(values) and nulls == MATCH:
        return _joined(" OR ", [*found, f"{column} IS NULL"])
    return _joined(" AND ", [f"{column} IS NOT NULL", *found]) if found else None


def _rounded(column: DataType, found: pa.DataType) -> bool:
    """Return whether Arrow compares numbers of these types by doubles that need not be the nearest ones."""
    kinds = pa.types
    return (column.root == "DECIMAL" and kinds.is_floating(found)) or (
        column.root in FLOATS and kinds.is_decimal(found)
    )


def _cut(column: DataType, found: pa.DataType) -> bool:
    """Return whether values may become others in the type of a column: times a date, doubles an integer."""
    kinds = pa.types
    is_text = kinds.is_string(found) or kinds.is_large_string(found) or found == pa.string_view()
    return (
        (column.root == "DATE" and kinds.is_timestamp(found))
        or (column.root in INTEGER_BITS and kinds.is_floating(found))
        or (column.root != "STRING" and is_text)
    )


def type_of(name: str, scope: Scope) -> DataType | None:
    """Return the type of a column, None if the scope does not have it or has several."""
    found = scope.find("", name)
    return found[0][1][1] if len(found) == 1 else None


def shortened(text: str) -> str:
    """Return the text of an expression as errors show it, cut where it is long."""
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _of_nulls(node: Node) -> str | None:
    negated = node.name == "invert" and node.arguments[0].kind == CALL
    inner = node.arguments[0] if negated else node
    asked = {"is_null": True, "is_valid": False}.get(inner.name)
    if asked is None or inner.arguments[0].kind != FIELD:
        return None
    if inner.name == "is_null" and inner.options is not None and inner.options["nan_is_null"].as_py():
        return None
    is_null = asked != negated
    return f"{quoted(inner.arguments[0].name)} IS {'' if is_null else 'NOT '}NULL"


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
        case bytes():
            return f"X'{value.hex()}'"
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


def _timestamp(scalar: pa.Scalar) -> str:
    zone = scalar.type.tz
    wall = time_text(scalar.value * NANOS_PER[scalar.type.unit]).replace("T", " ")
    return f"TIMESTAMP{'' if zone else '_NTZ'} '{wall}{'Z' if zone else ''}'"
