"""Bring rows to the columns that an ORC file has.

The library for ORC has no times of the day, which are integers there, and no types of a limited length: CHAR and
VARCHAR are stored as STRING, which readers take for them. Of a slice it writes the rows before it, too. Where a ROW is
null inside of another ROW, it writes the values that lie there in the place of later ones. It cuts a time before 1970
off towards 1970, and stores the fraction of the second below zero, which Java's reader does not take. It writes times
outside 1677 to 2262, and does not read them. `holds` says whether rows have no such time.

Clauses: META-61, META-70, META-72, META-74, META-76.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.arrow_nulls import with_nulls_below
from pktable.format.types import NANOS_PER, NESTED, Field

MOST: Final = (1 << 63) - 1  # nanoseconds


def expect_orc(fields: Sequence[Field], advice: str) -> None:
    """Raise InvalidRequestError if the name of a column is the path of a part of another. Clauses: META-74.

    ``advice``: what to do, but for another name.
    """
    nested = [field.name for field in fields if field.type.root in NESTED]
    for field in fields:
        for part in nested:
            if field.name.startswith(f"{part}."):
                raise InvalidRequestError(
                    f"column {field.name!r} next to the nested column {part!r}: the library that reads ORC takes one "
                    f"for a part of the other; name it otherwise, or {advice}"
                )


def orc_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a file in ORC for those of a data file. Clauses: META-70, META-72."""
    return pa.schema([pa.field(field.name, _as_orc(field.type)) for field in schema])


def _as_orc(kind: Any) -> pa.DataType:
    if pa.types.is_time(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(_as_orc(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_as_orc(kind.key_type), _as_orc(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _as_orc(part.type)) for part in kind])
    found: pa.DataType = kind
    return found


def as_orc(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return ``rows``, which ORC `holds`, as a table of ``schema`` with nothing before its first row or under a null.

    Clauses: META-72.
    """
    taken = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema])).cast(schema)
    if any(map(pa.types.is_nested, schema.types)):
        taken = taken.take(pa.array(np.arange(taken.num_rows)))
    for at, field in enumerate(schema):
        if pa.types.is_nested(field.type):
            chunks = map(with_nulls_below, taken.column(at).chunks)
            taken = taken.set_column(at, field, pa.chunked_array(chunks, field.type))
    return taken


def holds(rows: pa.Table) -> bool:
    """Return whether the library stores every time in ``rows`` as it is. Clauses: META-76."""
    return not any(
        _is_lost(part) for column in rows.columns for chunk in column.chunks for part in _times(chunk)
    )


def _times(array: Any) -> Iterator[Any]:
    """Yield the timestamps of an array, and of its parts at any depth."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        yield array
    elif pa.types.is_struct(kind):
        for part in array.flatten():
            yield from _times(part)
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        # Only what is in the lists: a slice keeps the values of all rows.
        offsets = array.offsets
        first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(array) else (0, 0)
        for part in (array.keys, array.items) if pa.types.is_map(kind) else (array.values,):
            yield from _times(part.slice(first, last - first))


def _is_lost(times: Any) -> bool:
    """Return whether a timestamp is before 1970 with a fraction of a second, or its nanoseconds do not fit 64 bits."""
    counts = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    nanos = NANOS_PER[times.type.unit]
    cut = (counts < 0) & (counts % (NANOS_PER["s"] // nanos) != 0)
    return bool(np.any(cut | (counts > MOST // nanos) | (counts < -(MOST // nanos))))
