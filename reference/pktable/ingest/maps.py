"""Refuse a MAP that has a key twice: readers do not agree on the value of such a key.

All maps of a column are looked at together: a map has a key twice if its number and that of the key occur together
twice. Which row that is in is looked for only where there is one.

Clauses: TBL-23.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError

from pktable.format.arrow_nulls import inside
from pktable.format.types import FLOATS, DataType, Field
from pktable.ingest.values import shown


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
