"""Values as JSON and as text, exactly, and back.

FLOAT and DOUBLE are JSON numbers, but NaN and the infinities are strings; DECIMAL is a string with all its
digits; DATE and the timestamps are ISO strings, instants with a Z; bytes are base64; a MAP is a list of
pairs. As text a nested value is its JSON. What is written is read back as the same value.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import NANOS_PER, NESTED, TIMESTAMPS, DataType, Field, timestamp_unit, to_arrow
from pktable.where.values import date_text, general, parsed, time_text

INFINITIES: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}


def to_json(value: Any, t: DataType) -> Any:
    """Return an internal value, or what Arrow gives for a part of a nested one, as `json` writes it."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if t.root in NESTED:
        return _nested(value, t, to_json)
    if isinstance(value, float):
        return INFINITIES.get(value, "NaN" if math.isnan(value) else value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if t.root == "DATE":
        return date_text(value) if isinstance(value, int) else value.isoformat()
    if t.root in TIMESTAMPS:
        text = time_text(value) if isinstance(value, int) else value.replace(tzinfo=None).isoformat()
        return text + "Z" if t.root == "TIMESTAMP_LTZ" else text
    return value


def _nested(value: Any, t: DataType, convert: Callable[[Any, DataType], Any]) -> Any:
    kinds = [child.type for child in t.children]
    if t.root == "ARRAY":
        return [convert(one, kinds[0]) for one in value]
    if t.root == "MAP":
        return [tuple(map(convert, pair, kinds)) for pair in value]
    return {child.name: convert(value[child.name], child.type) for child in t.children}


def to_text(value: Any) -> str:
    """Return what `to_json` made of a value as a CSV field; null and only null is nothing at all."""
    if value is None:
        return ""
    text: str = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    quoted = not text or text != text.strip() or any(character in text for character in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def from_json(value: Any, t: DataType) -> Any:
    """Return a value that Arrow takes for ``t``. Raises ValueError if there is none."""
    if value is None:
        return None
    if t.root in NESTED:
        return _nested(value, t, from_json)
    if t.root == "BOOLEAN" or isinstance(value, bool):
        if t.root == "BOOLEAN" and isinstance(value, bool):
            return value
    elif isinstance(value, (str, int, Decimal)):
        return from_text(str(value), t) if t.root != "STRING" or isinstance(value, str) else _refuse()
    return _refuse()


def from_text(text: str, t: DataType) -> Any:
    """Return a value that Arrow takes for ``t``. Raises ValueError if there is none."""
    kind = general(t)
    if kind.root in NESTED:
        return from_json(json.loads(text, parse_float=Decimal), t)
    if kind.root == "STRING":
        return text
    if kind.root == "BYTES":
        return base64.b64decode(text, validate=True)
    found = parsed(text, kind)
    if found is None:
        return _refuse()
    if kind.root in TIMESTAMPS:
        assert isinstance(found.value, int)
        return found.value // NANOS_PER[timestamp_unit(t)]
    return found.value


def _refuse() -> Any:
    raise ValueError


def as_column(values: list[Any], field: Field, convert: Callable[[Any, DataType], Any]) -> pa.Array:
    """Return a column of what ``convert`` makes of ``values``. Raises InvalidRequestError naming the row."""
    converted = []
    for row, value in enumerate(values, 1):
        try:
            converted.append(None if value is None else convert(value, field.type))
        except (ValueError, TypeError, KeyError):
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            raise InvalidRequestError(
                f"row {row}, column {field.name}: expected {field.type}, found {text!r}"
            ) from None
    try:
        return pa.array(converted, to_arrow(field.type))
    except pa.ArrowException as error:
        raise InvalidRequestError(f"column {field.name}: expected {field.type}: {error}") from None
