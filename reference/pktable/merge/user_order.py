"""The order that the option ``sequence.field`` gives to the records of a key.

A table may name columns that say which record is newer, however late it is written. They are compared one after the
other: by value as keys are, null below everything. ``sequence.field.sort-order=descending`` makes the smallest value
the newest; null stays the oldest. Records that are equal in all of these columns compare by their sequence numbers.

An engine that computes columns merges records long before an older one may come. So its result must be the same for
any order of the older records, which holds for functions that commute and for the value of the newest record.

Clauses: MRG-19, MRG-20, MRG-23, MRG-24.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import parse_options

from pktable.format.metadata.schema import TableSchema
from pktable.format.types import DataType, one_array
from pktable.merge.engine_options import SEQUENCE_FIELD
from pktable.merge.grouping import Indices
from pktable.merge.key_encoding import BYTE_STRINGS, INTEGERS, encode_keys

ORDERED: Final = {
    *INTEGERS,
    *BYTE_STRINGS,
    "BOOLEAN",
    "DECIMAL",
    "FLOAT",
    "DOUBLE",
    "TIMESTAMP",
    "TIMESTAMP_LTZ",
}
"""The types that have an order."""


@dataclass(frozen=True, slots=True)
class UserOrder:
    """The columns of ``sequence.field`` with their types, and whether the smallest value is the newest."""

    columns: tuple[str, ...]
    types: tuple[DataType, ...]
    descending: bool = False

    def ranks(self, records: pa.Table) -> Indices:
        """Return an integer per record, greater for a newer one. Only ranks of one call compare."""
        columns = [one_array(records.column(name)) for name in self.columns]
        return ranks(columns, self.types, descending=self.descending)


def user_order_of(schema: TableSchema) -> UserOrder | None:
    """Return the order of a table with a primary key, None without ``sequence.field``.

    Raises InvalidRequestError for a column that is unknown, named twice, or of a type without an order.
    Clauses: MRG-23.
    """
    options = parse_options(schema.options)
    names = options.sequence_fields
    for at, name in enumerate(names):
        if name not in schema.value_names:
            found = ", ".join(schema.value_names)
            raise InvalidRequestError(
                f"option {SEQUENCE_FIELD}: column {name} does not exist; columns are {found}"
            )
        if name in names[:at]:
            raise InvalidRequestError(f"option {SEQUENCE_FIELD}: column {name} is named twice")
        kind = schema.field(name).type
        if kind.root not in ORDERED:
            raise InvalidRequestError(
                f"option {SEQUENCE_FIELD}: column {name} is of type {kind}; "
                "expected an atomic type that has an order"
            )
    types = tuple(schema.field(name).type for name in names)
    return UserOrder(names, types, options.sequence_order == "descending") if names else None


def ranks(columns: Sequence[pa.Array], types: Sequence[DataType], *, descending: bool = False) -> Indices:
    """Return an integer per row, n rows, that compares as the columns do one after the other; null is least."""
    found = _ranks(columns[0], types[0], descending)
    for column, kind in zip(columns[1:], types[1:], strict=True):
        _, major = np.unique(found, return_inverse=True)
        _, minor = np.unique(_ranks(column, kind, descending), return_inverse=True)
        found = major * (len(column) + 1) + minor
    return found


def _ranks(values: pa.Array, kind: DataType, descending: bool) -> Indices:
    """Return the ranks of one column; a null is below all others."""
    known = np.asarray(values.is_valid())
    found = ranks_of(values, kind)
    if descending:
        found = np.invert(found)
    if known.all():
        return found
    _, above = np.unique(found[known], return_inverse=True)
    places = np.zeros(len(values), dtype=np.int64)
    places[known] = above + 1
    return places


def ranks_of(values: pa.Array, kind: DataType) -> Indices:
    """Return integers that compare as the values do, in the order of keys (MRG-7); 0 for null."""
    known = np.asarray(values.is_valid())
    found = np.zeros(len(values), dtype=np.int64)
    (encoded,) = encode_keys([[pa.chunked_array([values.filter(pa.array(known))])]], [kind])
    if encoded.dtype == np.uint64:
        encoded = (encoded ^ np.uint64(1 << 63)).view(np.int64)  # the same order, with a sign
    elif not np.issubdtype(encoded.dtype, np.signedinteger):
        _, encoded = np.unique(encoded, return_inverse=True)
    found[known] = encoded
    return found
