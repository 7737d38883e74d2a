"""Values as JSON and as text, exactly, and back.

FLOAT and DOUBLE are JSON numbers, but NaN and the infinities are strings; DECIMAL is a string with all its
digits; DATE, TIME and the timestamps are ISO strings, instants with a Z; bytes are base64; a MAP is a list of
pairs. As text a nested value is its JSON. Every value that is written this way is read back as the same value.

These forms are read, too: a MAP as an object with the keys as text, a ROW without its null fields, a number as text,
TRUE and False, and any time whose date is whole. Any other shape is refused. Text in SQL may mean more: there `yes` is
true, `8.0` an integer and `2024` the first of January.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import (
    INTEGER_BITS,
    NANOS_PER,
    NESTED,
    NUMBERS,
    TIMESTAMPS,
    DataType,
    Field,
    timestamp_unit,
    to_arrow,
)
from pktable.predicate.literals import clock_text, date_text, general, parsed, time_text

SPELLINGS: Final = {
    "BOOLEAN": re.compile("true|false", re.I),
    "DATE": re.compile(r"\d+-\d+-\d+", re.ASCII),
    **dict.fromkeys(INTEGER_BITS, re.compile(r"[+-]?\d+", re.ASCII)),
}
"""The texts of a type, where SQL takes others as well."""
INFINITIES: Final = {math.inf: "Infinity", -math.inf: "-Infinity"}
LONGEST_SHOWN: Final = 200  # characters of a value in an error
MOST_TIME: Final = 1 << 63  # since the epoch, in the unit of the type: with nanoseconds, the year 2262


def to_json(value: Any, t: DataType) -> Any:
    """Return an internal value, or what Arrow gives for a part of a nested one, as `json` writes it."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if t.root in NESTED:
        return _nested_to_json(value, t)
    if isinstance(value, float):
        return INFINITIES.get(value, "NaN" if math.isnan(value) else value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if t.root == "DATE":
        return date_text(value) if isinstance(value, int) else value.isoformat()
    if t.root == "TIME":
        return clock_text(value) if isinstance(value, int) else value.isoformat()
    if t.root in TIMESTAMPS:
        text = time_text(value) if isinstance(value, int) else value.replace(tzinfo=None).isoformat()
        return text + "Z" if t.root == "TIMESTAMP_LTZ" else text
    return value


def _nested_to_json(value: Any, t: DataType) -> Any:
    kinds = [child.type for child in t.children]
    if t.root == "ARRAY":
        return [to_json(one, kinds[0]) for one in value]
    if t.root == "MAP":
        return [tuple(map(to_json, pair, kinds)) for pair in value]
    return {child.name: to_json(value[child.name], child.type) for child in t.children}


def to_text(value: Any) -> str:
    """Return what `to_json` made of a value as a CSV field; null and only null is nothing at all."""
    if value is None:
        return ""
    text: str = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    quoted = not text or text != text.strip() or any(character in text for character in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def load(text: str) -> Any:
    """Return the JSON that ``text`` is, exactly. Raises ValueError if it is none."""
    try:
        return json.loads(text, parse_float=Decimal, object_pairs_hook=_object)
    except ArithmeticError:
        return _refuse("an exponent has too many digits")
    except RecursionError:
        return _refuse("it is nested too deeply")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse("a name stands twice in an object")


def from_json(value: Any, t: DataType) -> Any:
    """Return a value that Arrow takes for ``t``. Raises ValueError if there is none."""
    if value is None:
        return None if t.nullable else _refuse()
    if t.root in NESTED:
        return _nested_from_json(value, t)
    if isinstance(value, bool) or t.root == "BOOLEAN":
        return value if isinstance(value, bool) and t.root == "BOOLEAN" else _refuse()
    if isinstance(value, str) or (isinstance(value, (int, Decimal)) and t.root in NUMBERS):
        return from_text(str(value), t)
    return _refuse()


def _nested_from_json(value: Any, t: DataType) -> Any:
    """Return the parts of ``value``. Another shape is refused: read part by part it would be another value."""
    kinds = [child.type for child in t.children]
    if t.root == "ARRAY" and isinstance(value, list):
        return [from_json(one, kinds[0]) for one in value]
    if t.root == "MAP" and isinstance(value, list):
        return [_pair(pair, *kinds) for pair in value]
    if t.root == "MAP" and isinstance(value, dict):
        return [(from_text(key, kinds[0]), from_json(one, kinds[1])) for key, one in value.items()]
    if t.root == "ROW" and isinstance(value, dict) and value.keys() <= {child.name for child in t.children}:
        return {child.name: from_json(value.get(child.name), child.type) for child in t.children}
    return _refuse()


def _pair(pair: Any, key: DataType, value: DataType) -> tuple[Any, Any]:
    if not isinstance(pair, list) or len(pair) != 2 or pair[0] is None:
        raise ValueError
    return from_json(pair[0], key), from_json(pair[1], value)


def from_text(text: str, t: DataType) -> Any:
    """Return a value that Arrow takes for ``t``. Raises ValueError if there is none."""
    kind = general(t)
    if kind.root in NESTED:
        return from_json(load(text), t)
    if kind.root == "STRING":
        text.encode("utf-8")  # half a surrogate pair, which JSON can spell, is no text
        return text
    if kind.root == "BYTES":
        return base64.b64decode(text, validate=True)
    spelling = SPELLINGS.get(kind.root)
    if text != text.strip() or (spelling and not spelling.fullmatch(text)):
        return _refuse()
    found = parsed(text, kind)
    if found is None:
        return _refuse()
    if kind.root in TIMESTAMPS:
        assert isinstance(found.value, int)
        time = found.value // NANOS_PER[timestamp_unit(t)]
        return time if -MOST_TIME <= time < MOST_TIME else _refuse()
    return found.value


def _refuse(why: str = "") -> Any:
    raise ValueError(why)


def as_column(
    values: list[Any], field: Field, convert: Callable[[Any, DataType], Any], place: Callable[[int], str]
) -> pa.Array:
    """Return ``values``, each converted by ``convert``, as a column.

    ``place``: where value i was read, for messages. Raises InvalidRequestError that names the place and the column.
    """
    converted = []
    for i, value in enumerate(values):
        if value is None and not field.type.nullable:
            raise InvalidRequestError(f"{place(i)}, column {field.name}: expected {field.type}, found null")
        try:
            converted.append(None if value is None else convert(value, field.type))
        except (ValueError, ArithmeticError):  # an exponent may be too long for a Decimal
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            raise InvalidRequestError(
                f"{place(i)}, column {field.name}: expected {field.type}, found {_shortened(text)!r}"
            ) from None
    return pa.array(converted, to_arrow(field.type))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"
