"""Wall times and points in time, as Spark casts one to the other in the time zone of the session.

A DataFrame that `Table.upsert` takes is cast by Spark. In the data source the rows have left Spark already.

Clauses: TBL-11.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import TIMESTAMPS, DataType, Field


def with_times_of(rows: pa.Table, fields: Sequence[Field], zone: str | None) -> pa.Table:
    """Return ``rows`` with wall times where ``fields`` want them, and points in time where they want those.

    ``zone``: the session's. Raises InvalidRequestError if it is needed and not known, if Arrow does not know it, or if
    the other kind of time is in an array, a map or a row.
    """
    wanted = {field.name: field.type for field in fields}
    for at, given in enumerate(rows.schema):
        kind = wanted.get(given.name)
        if kind is None or not _differs(given.type, kind):
            continue
        root = kind.root
        if root not in TIMESTAMPS:
            raise InvalidRequestError(
                f"column {given.name}: expected {kind}, found the other kind of time in it; cast the column before the "
                "write"
            )
        if zone is None:
            raise InvalidRequestError(
                f"column {given.name}: expected {root}, found the other kind of time, and the session has no time zone "
                "to cast it in; set spark.sql.session.timeZone, or cast the column"
            )
        try:
            column = rows.column(at)
            cast = _wall_times(column, zone) if root == "TIMESTAMP" else _instants(column, zone)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequestError(
                f"column {given.name}: {error}; cast the column before the write"
            ) from None
        rows = rows.set_column(at, given.name, cast)
    return rows


def _differs(given: pa.DataType, wanted: DataType) -> bool:
    """Whether a time in ``given`` is of the other kind in ``wanted``."""
    if wanted.root in TIMESTAMPS:
        return pt.is_timestamp(given) and (given.tz is None) != (wanted.root == "TIMESTAMP")
    if wanted.root == "ROW" and pt.is_struct(given):
        parts = {field.name: field.type for field in given}
        return any(_differs(parts[one.name], one.type) for one in wanted.children if one.name in parts)
    if wanted.root == "MAP" and pt.is_map(given):
        key, value = wanted.children
        return _differs(given.key_type, key.type) or _differs(given.item_type, value.type)
    if wanted.root == "ARRAY" and pt.is_list(given):
        return _differs(given.value_type, wanted.children[0].type)
    return False


def _wall_times(column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    return pc.local_timestamp(column.cast(pa.timestamp(column.type.unit, zone)))


def _instants(column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    """Return wall times as points in time. One that a clock skips, or shows twice, counts as before the change."""
    near = pc.assume_timezone(column, zone, ambiguous="earliest", nonexistent="earliest")
    utc = near.cast(pa.timestamp(column.type.unit, "UTC"))
    offset = pc.subtract(pc.local_timestamp(near), pc.local_timestamp(utc))
    return pc.assume_timezone(pc.subtract(column, offset), "UTC")
