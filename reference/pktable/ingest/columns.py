"""Compare the columns that a caller gives with the table's columns, and bring each Arrow column to the table's type.

1. The types must be of one family, because Arrow also casts by parsing (`related`).
2. Arrow casts the column; then floats are compared with the original, because Arrow rounds them (`_converted`).
3. Strings are checked to be UTF-8, bytes to be a VARIANT, and values to hold no null where their type has none; Arrow
   does none of these (`_sound`).

Values outside the slice, or masked by a null, are ignored.

A MAP that has a key twice is refused, because readers do not agree on the value of such a key. All maps of a column
are looked at together: a map has a key twice if its number and that of the key occur together twice. Which row that is
in is looked for only where there is one.

Clauses: TBL-8, TBL-13, TBL-23, TBL-64, MRG-7.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pktable_spec.errors import InvalidRequestError

from pktable.format.arrow_values import declared_array, empty_values, inside
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import FLOATS, STRINGS, DataType, Field, to_arrow
from pktable.ingest.values import shown
from pktable.ingest.variants import are_variants

Optional: TypeAlias = Sequence[frozenset[str]]
"""Sets of columns that rows of a write can leave out, each as a whole."""


def optional_columns(schema: TableSchema) -> Optional:
    """Return the columns that rows of a write can leave out, because nulls there change nothing.

    Those of a sequence group are one set: with a value of its sequence, a null takes the place of a value.
    Clauses: TBL-24.
    """
    if schema.options.get("merge-engine") != "partial-update":
        return ()
    left = {f.name for f in schema.fields if f.type.nullable and f.name not in schema.primary_keys}
    groups = []
    for name, value in schema.options.items():
        if name.startswith("fields.") and name.endswith(".sequence-group"):
            ordering = name.removeprefix("fields.").removesuffix(".sequence-group")
            groups.append(frozenset(one.strip() for one in f"{ordering},{value}".split(",")))
    alone = left.difference(*groups)
    return [*(group for group in groups if group <= left), *(frozenset([name]) for name in alone)]


def expect_columns(
    found: Sequence[object],
    expected: Sequence[str],
    schema: TableSchema,
    *,
    at: str = "columns",
    optional: Optional = (),
) -> None:
    """Raise InvalidRequestError unless ``found`` are the ``expected`` columns, each once, in any order.

    ``at``: where the columns were found; the message begins with it. ``optional``: what may be absent.
    Clauses: TBL-8, TBL-13, TBL-24.
    """
    names = set(found)
    absent = {name for one in optional if names.isdisjoint(one) for name in one}
    if len(found) == len(names) and set(expected) - absent <= names <= set(expected):
        return
    problems = [f"{name} occurs {count} times" for name, count in Counter(found).items() if count > 1]
    missing = [name for name in expected if name not in found]
    unknown = [str(name) for name in dict.fromkeys(found) if name not in expected]
    for name in list(unknown):
        same = [other for other in missing if other.casefold() == name.casefold()]
        if same:  # SQL would take one for the other
            problems.append(f"{name} must be written {same[0]}")
            unknown.remove(name)
            missing.remove(same[0])
    missing = [name for name in missing if name not in absent]
    keys = [name for name in missing if name in schema.primary_keys]
    others = [name for name in missing if name not in keys]
    problems += [f"primary-key column {name} is missing" for name in keys]
    problems += [f"column {name} is missing" for name in others]
    for name in unknown:
        # Only deletes by key do not expect all columns of the table.
        what = "is not part of the primary key" if name in schema.value_names else "is not in the table"
        problems.append(f"column {name} {what}")
    raise InvalidRequestError(f"{at}: {'; '.join(problems)}; expected {', '.join(expected)}")


def expect_distinct_keys(
    rows: pa.Table, fields: Sequence[Field], chosen: npt.NDArray[np.bool_] | None = None
) -> None:
    """Raise InvalidRequestError naming column, row and key if a MAP at any depth of ``rows`` has a key twice.

    ``chosen``: a flag per row, whether it is looked at; by default each is. Clauses: TBL-23.
    """
    for field in fields:
        if _has_map(field.type):
            _expect_distinct(rows.column(field.name), field, chosen)


def _expect_distinct(column: pa.ChunkedArray, field: Field, chosen: npt.NDArray[np.bool_] | None) -> None:
    rows = np.arange(len(column)) if chosen is None else np.flatnonzero(chosen)
    column = column if len(rows) == len(column) else column.take(pa.array(rows))
    first = 0
    for chunk in column.chunks:
        if _twice(chunk, field.type):

            def until(at: int, chunk: pa.Array = chunk) -> bool:
                return bool(_twice(chunk.slice(0, at + 1), field.type))

            at = bisect_left(range(len(chunk)), True, key=until)
            (key,) = _twice(chunk.slice(at, 1), field.type)
            raise InvalidRequestError(
                f"column {field.name}, row {rows[first + at]}: expected a MAP that has each key once, "
                f"found {shown(key)} twice"
            )
        first += len(chunk)


def _has_map(t: DataType) -> bool:
    return t.root == "MAP" or any(_has_map(child.type) for child in t.children)


def _twice(values: pa.Array, t: DataType) -> list[Any]:
    """Return a key that a map in ``values`` has twice, in a list, which is empty if there is none."""
    if not _has_map(t):
        return []
    parts = inside(values)
    if t.root == "MAP":
        whole = values.drop_null() if values.null_count else values
        lengths = np.diff(whole.offsets.to_numpy()) if len(whole) else np.zeros(0, np.int32)
        keys = parts[0]
        if lengths.max(initial=0) > 1:
            codes, distinct = _codes(keys, t.children[0].type)
            if distinct < len(keys):
                places = np.repeat(np.arange(len(lengths)), lengths) * distinct + codes
                order = np.argsort(places, kind="stable")
                same = np.flatnonzero(places[order][1:] == places[order][:-1])
                if len(same):
                    return [keys[int(order[same[0]])].as_py()]
    found = (_twice(part, child.type) for part, child in zip(parts, t.children, strict=True))
    return next(filter(None, found), [])


def _codes(keys: pa.Array, t: DataType) -> tuple[npt.NDArray[np.int64], int]:
    """Return a number per key, the same for equal ones, and how many numbers there are."""
    if t.root in FLOATS:
        keys = pc.add(keys, pa.scalar(0.0, keys.type))  # the two zeros are one key
    elif t.children:  # which Arrow has no dictionary of
        keys = pa.array([repr(key) for key in keys.to_pylist()], pa.string())
    encoded: Any = keys.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


# A type converts to another of its family if every value does without parsing or rounding.
FAMILIES = (
    pt.is_boolean,
    lambda t: pt.is_integer(t) or pt.is_decimal(t),
    lambda t: pt.is_floating(t),
    lambda t: pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t),
    lambda t: pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t) or pt.is_fixed_size_binary(t),
    pt.is_date,
    pt.is_time,
    pt.is_timestamp,
    # List views are left out: Arrow's cast empties the lists after a null.
    lambda t: pt.is_list(t) or pt.is_large_list(t) or pt.is_fixed_size_list(t),
    pt.is_map,
    pt.is_struct,
)

INTEGER_DIGITS = 20  # decimal digits of the greatest unsigned integer


def conform_column(values: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """Return ``values`` in the type of ``field``, row for row.

    Raises InvalidRequestError naming the column and what was expected and found. Clauses: TBL-8, TBL-13.
    """
    wanted = to_arrow(field.type)
    if values.type != wanted:
        values = _converted(values, field, wanted)
    if not field.type.nullable and values.null_count:
        raise InvalidRequestError(
            f"column {field.name}: expected {field.type}, found null in {values.null_count} of {len(values)} rows"
        )
    if _checked(field.type):
        return pa.chunked_array([_sound(chunk, field) for chunk in values.chunks], wanted)
    return values


def _checked(t: DataType) -> bool:
    """Return whether Arrow arrays of ``t`` can hold nulls inside values, or bytes, that ``t`` does not allow."""
    return t.root in STRINGS or any(not child.type.nullable or _checked(child.type) for child in t.children)


def _sound(values: pa.Array, field: Field) -> pa.Array:
    """Return ``values`` in the type of ``field``. Raises InvalidRequestError for a value that it does not allow."""
    # Leaving out the values that are masked by a null costs a copy, and rarely makes a difference.
    suspect = bool(_defect(values, field, exact=False))
    found = _defect(values, field, exact=True) if suspect else ""
    if found:
        raise InvalidRequestError(f"column {field.name}: expected {field.type}, found {found}")
    wanted = to_arrow(field.type)
    if not suspect and values.type == wanted:
        return values
    return declared_array(values, wanted, nullable=field.type.nullable)


def _defect(values: pa.Array, field: Field, *, exact: bool) -> str:
    """Say where ``values`` break the type of ``field``; return an empty text if they do not."""
    if not field.type.nullable and values.null_count:
        return f"null in {field.name}"
    if field.type.root in STRINGS:
        wrong = not_utf8(values)
        return f"{wrong} in {field.name}" if wrong else ""
    inner = inside(values, exact=exact)
    parts = zip(inner, field.type.children, strict=True)
    found = (_defect(part, child, exact=exact) for part, child in parts)
    defect = next((f"{defect} of {field.name}" for defect in found if defect), "")
    if field.type.variant and not defect and not are_variants(inner):
        return f"bytes that are no VARIANT in {field.name}"
    return defect


def not_utf8(strings: pa.Array) -> str:
    """Say which of ``strings`` is not UTF-8; return an empty text if all are."""
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    return ""


def conform_key_column(values: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    """Return a column of the primary key, with one bit pattern for every NaN, so that all are one key in one bucket.

    Clauses: MRG-7, TBL-10.
    """
    column = conform_column(values, field)
    if field.type.root not in FLOATS:
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), column.type), column)


def _converted(values: pa.ChunkedArray, field: Field, wanted: pa.DataType) -> pa.ChunkedArray:
    found, plain = values.type, _plain(values.type)
    if not related(plain, wanted):
        raise InvalidRequestError(f"column {field.name}: expected {field.type}, found {found}")
    try:
        values = _with_words(values).cast(plain)
        # `_sound` looks for nulls that are not allowed: Arrow also finds those that are masked.
        cast = values.cast(_between(plain, wanted)).cast(_plain(wanted))
        # Arrow rounds floats, also inside lists and structs; a rounded one differs when it is cast back.
        same = not _rounds(plain) or _equal(values, cast.cast(plain))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowIndexError) as error:
        raise InvalidRequestError(
            f"column {field.name}: expected {field.type}, found {found}: {error}"
        ) from None
    if not same:
        raise InvalidRequestError(
            f"column {field.name}: expected {field.type}, found values of more precision"
        )
    return cast


def _with_words(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a dictionary of views, as polars makes of its categories, with plain words: Arrow cannot look views up."""
    kind: Any = values.type
    if not pt.is_dictionary(kind) or _plain(kind.value_type) == kind.value_type:
        return values
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, chunk.dictionary.cast(_plain(kind.value_type)))
        for chunk in values.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(kind.index_type, _plain(kind.value_type)))


def related(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether ``found`` and ``wanted`` are of one family, and so are all their parts."""
    if pt.is_null(found):
        return True
    if not any(family(found) and family(wanted) for family in FAMILIES):
        return False
    if pt.is_struct(wanted) and [part.name for part in found] != [part.name for part in wanted]:
        return False
    return all(related(*parts) for parts in zip(_parts(found), _parts(wanted), strict=True))


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return ``kind`` without dictionaries, views and the other kinds of list, in all its parts.

    Arrow casts a dictionary to the type of its values only, and cannot take rows out of views.
    """
    if pt.is_dictionary(kind):
        return _plain(kind.value_type)
    if pt.is_string_view(kind) or pt.is_binary_view(kind):
        return pa.string() if pt.is_string_view(kind) else pa.binary()
    parts = _parts(kind)
    return _nested(kind, [_plain(part) for part in parts]) if parts else kind


def _between(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type in between: the plain type ``found`` is cast to it first, and then to ``wanted``.

    Arrow casts an integer only to a decimal that holds all integers of its type, but any decimal to a narrower one.
    """
    if pt.is_integer(found) and pt.is_decimal(wanted):
        fits = INTEGER_DIGITS + wanted.scale <= 38  # decimals of more digits are several times slower
        return pa.decimal128(38, wanted.scale) if fits else pa.decimal256(76, wanted.scale)
    pairs = zip(_parts(found), _parts(wanted), strict=False)  # null has no parts
    parts = [_between(*pair) for pair in pairs]
    return _nested(wanted, parts) if parts else wanted


def _parts(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of the parts of ``kind``: an element, a key and a value, or fields; none if it is atomic."""
    if pt.is_map(kind):
        return [kind.key_type, kind.item_type]
    if pt.is_struct(kind):
        return [part.type for part in kind]
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return [kind.value_type]
    return []


def _nested(kind: pa.DataType, parts: list[pa.DataType]) -> pa.DataType:
    """Return a map, struct or list, whichever ``kind`` is, of nullable ``parts``."""
    if pt.is_map(kind):
        return pa.map_(*parts)
    if pt.is_struct(kind):
        return pa.struct([pa.field(part.name, new) for part, new in zip(kind, parts, strict=True)])
    return pa.list_(parts[0])


def _rounds(kind: pa.DataType) -> bool:
    return pt.is_floating(kind) or any(map(_rounds, _parts(kind)))


def _equal(before: pa.ChunkedArray, after: pa.ChunkedArray) -> bool:
    return before.equals(after) or all(
        map(_equal_but_for_nan, before.chunks, after.chunks)  # for Arrow a NaN equals no other
    )


def _equal_but_for_nan(left: pa.Array, right: pa.Array) -> bool:
    """Return whether the floats in all parts of two arrays of one type and shape are equal, or both NaN."""
    if pt.is_floating(left.type):
        return bool(np.array_equal(_numpy(left), _numpy(right), equal_nan=True))
    return all(map(_equal_but_for_nan, inside(left), inside(right)))


def _numpy(floats: pa.Array) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = floats.to_numpy(zero_copy_only=False)
    return numbers


def empty_column(field: Field, count: int) -> pa.Array:
    """Return values for a column that a delete does not give; they are never visible."""
    kind = to_arrow(field.type)
    return pa.nulls(count, kind) if field.type.nullable else empty_values(kind, count)
