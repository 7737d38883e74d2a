"""The records of log blocks as columns: keys, ordering values, which of them are deletes, and the columns of rows.

A record of a data block is a delete if its field ``_hoodie_is_deleted`` is true or its ``_hoodie_operation`` is D or
-U. A block of a partial update has the changed columns only.

Clauses: LOG-7, LOG-10, LOG-11, LOG-12, LOG-21, LOG-31.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable.datafile.avro_records import arrow_columns
from pktable.format.types import NANOS_PER, TIMESTAMPS, DataType, Field, one_array, to_arrow
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable_hudi.format.avro_columns import decode_columns
from pktable_hudi.format.avro_content import decode_records, record_bounds
from pktable_hudi.format.avro_schema import fields_of, written_out
from pktable_hudi.format.delete_content import DECIMAL_SCALE, Delete, decode_delete_content
from pktable_hudi.format.log_block import BlockKind, HeaderKey
from pktable_hudi.format.positions import decode_positions
from pktable_hudi.log_scan import PlacedBlock
from pktable_hudi.stored import aligned, parquet_tables

KEY: Final = "_hoodie_record_key"
IS_DELETED: Final = "_hoodie_is_deleted"
OPERATION: Final = "_hoodie_operation"
DELETING: Final = ("D", "-U")
SIGNS: Final = (
    Field(0, KEY, DataType("STRING")),
    Field(1, IS_DELETED, DataType("BOOLEAN")),
    Field(2, OPERATION, DataType("STRING")),
)
"""Columns that are read if a block has them, in addition to those wanted."""

ORDERING_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "BOOLEAN": ("Boolean",),
    "INT": ("Int",),
    "BIGINT": ("Long",),
    "FLOAT": ("Float",),
    "DOUBLE": ("Double",),
    "STRING": ("String",),
    "BYTES": ("Bytes",),
    "DECIMAL": ("Decimal",),
    "DATE": ("Date", "Int"),
    **dict.fromkeys(TIMESTAMPS, ("Long", "TimestampMicros")),
}
"""The types of ordering values that a delete may have, by the type of the ordering field."""

EXACT: Final = decimal.Context(prec=100)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Wanted:
    """The columns to read from a log. ``fields``: of the rows; ``ordering``: the ordering field, None without one."""

    fields: tuple[Field, ...]
    ordering: Field | None


@dataclass(frozen=True)
class BlockRows:
    """The records of one block, in order.

    ``keys``: strings. ``ordering``: the ordering values, of the ordering field's type, None without one.
    ``deletes``: which are deletes. ``by_commit_time``: which of these take effect by their place in the log.
    ``rows``: the wanted columns, of a delete block none. ``present``: the names of those that the block has.
    ``positions``: of the rows in the base file, ascending, if the block says them for ``base_instant``.
    """

    keys: pa.Array
    ordering: pa.Array | None
    deletes: Mask
    by_commit_time: Mask
    is_delete_block: bool
    rows: pa.Table | None
    present: frozenset[str]
    positions: npt.NDArray[np.int64] | None
    base_instant: str


def block_rows(placed: PlacedBlock, wanted: Wanted) -> BlockRows:
    """Return the records of a block. Raises CorruptFileError, InvalidRequestError. Clauses: LOG-7, LOG-10, LOG-31."""
    if placed.block.kind is BlockKind.DELETE:
        return _of_deletes(placed, wanted)
    return _of_data(placed, wanted)


def _of_data(placed: PlacedBlock, wanted: Wanted) -> BlockRows:
    block, at = placed.block, placed.at
    schema = block.text(HeaderKey.SCHEMA, at)
    names = {field.name for field in fields_of(schema, at=at)}
    ordering_fields = () if wanted.ordering is None else (wanted.ordering,)
    signs = [field for field in SIGNS if field.name in names]
    fields = list({one.name: one for one in (*signs, *ordering_fields, *wanted.fields)}.values())
    missing = [name for name in (KEY, *(one.name for one in ordering_fields)) if name not in names]
    if missing:
        raise CorruptFileError(
            f"schema of the block at {block.offset}", at=at, expected=missing[0], found=sorted(names)
        )
    read = _avro_table if block.kind is BlockKind.AVRO else _parquet_table
    table = read(placed, schema, fields)
    keys = _strings(table, at)
    ordering = None if wanted.ordering is None else one_array(table.column(wanted.ordering.name))
    deletes = deleted_among(table)
    # Hudi takes an ordering value that is missing, or the integer 0, for none.
    unordered = np.zeros(len(deletes), np.bool_)
    if ordering is not None and deletes.any():
        is_integer = pa.types.is_int32(ordering.type)
        none = pc.equal(pc.fill_null(ordering, 0), 0) if is_integer else ordering.is_null()
        unordered = deletes & none.to_numpy(zero_copy_only=False)
    is_partial = block.text(HeaderKey.IS_PARTIAL, at).lower() == "true"
    present = frozenset(field.name for field in wanted.fields if field.name in names or not is_partial)
    return BlockRows(
        keys,
        ordering,
        deletes,
        unordered,
        False,
        table.select([field.name for field in wanted.fields]),
        present,
        *_positions(placed, len(keys)),
    )


def _avro_table(placed: PlacedBlock, schema: str, fields: Sequence[Field]) -> pa.Table:
    at, content = placed.at, placed.block.content
    known = {field.name: field for field in fields_of(schema, at=at)}
    chosen = [known[field.name] for field in fields if field.name in known]
    stored = {field.name: field.type for field in chosen}
    _, starts, lengths = record_bounds(content, at=at)
    whole = written_out(schema, at=at)
    columns = decode_columns(content, starts, lengths, whole, chosen, at=at)
    if columns is None:
        view = memoryview(content)
        ends = starts + lengths
        records = [view[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        rows = decode_records(records, schema, at=at, names=list(stored))
        try:
            columns = arrow_columns(rows, whole, stored)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise CorruptFileError(
                "Avro records", at=at, expected="values of their types", found=error
            ) from None
    return aligned(columns, stored, fields, len(starts), at)


def _parquet_table(placed: PlacedBlock, schema: str, fields: Sequence[Field]) -> pa.Table:
    source = pa.BufferReader(pa.py_buffer(placed.block.content))
    tables = [table for _, table in parquet_tables(source, placed.at, fields)]
    return (
        pa.concat_tables(tables)
        if tables
        else pa.schema([(f.name, to_arrow(f.type)) for f in fields]).empty_table()
    )


def _strings(table: pa.Table, at: str) -> pa.Array:
    keys = one_array(table.column(KEY))
    if keys.null_count:
        raise CorruptFileError("record key", at=at, expected="a key", found="null")
    return keys


def deleted_among(rows: pa.Table) -> Mask:
    """Return which rows say by one of Hudi's columns that they are deletes, as far as they have these columns."""
    found = np.zeros(rows.num_rows, np.bool_)
    if IS_DELETED in rows.column_names:
        found |= pc.fill_null(rows.column(IS_DELETED), False).to_numpy()
    if OPERATION in rows.column_names:
        found |= pc.is_in(rows.column(OPERATION), pa.array(DELETING)).to_numpy()
    return found


def _positions(placed: PlacedBlock, count: int) -> tuple[npt.NDArray[np.int64] | None, str]:
    """Return the positions of a block and the base file they are for, None if it says none. Clauses: LOG-12."""
    text = placed.block.entry(HeaderKey.POSITIONS)
    if not text:
        return None, ""
    positions = decode_positions(text, count, at=placed.at)
    if positions is None:
        return None, ""
    return positions, placed.block.text(HeaderKey.BASE_INSTANT_OF_POSITIONS, placed.at)


def _of_deletes(placed: PlacedBlock, wanted: Wanted) -> BlockRows:
    deletes = decode_delete_content(placed.block.content, at=placed.at).deletes
    count = len(deletes)
    ordering = None
    unordered = np.fromiter((one.by_commit_time for one in deletes), np.bool_, count)
    if wanted.ordering is not None:
        ordering = _ordering_values(deletes, wanted.ordering, placed.at)
    return BlockRows(
        pa.array([one.key for one in deletes], pa.string()),
        ordering,
        np.ones(count, np.bool_),
        unordered,
        True,
        None,
        frozenset(),
        *_positions(placed, count),
    )


def _ordering_values(deletes: Sequence[Delete], field: Field, at: str) -> pa.Array:
    """Return the ordering values of deletes as the type of the ordering field; null for those without.

    Raises InvalidRequestError for a value of another type, which Hudi cannot compare either.
    """
    wanted: Any = to_arrow(field.type)
    kinds = ORDERING_KINDS.get(field.type.root, ())
    values: list[Any] = []
    for one in deletes:
        if not one.by_commit_time and one.kind not in kinds:
            raise InvalidRequestError(
                f"{at}: a delete has an ordering value of type {one.kind}, but the ordering field {field.name} "
                f"is {field.type}"
            )
        values.append(None if one.by_commit_time else _converted(one, wanted))
    try:
        stored = {"DATE": pa.int32(), **dict.fromkeys(TIMESTAMPS, pa.int64())}.get(field.type.root, wanted)
        return pa.array(values, stored).cast(wanted)
    except (pa.ArrowException, OverflowError) as error:
        raise CorruptFileError("ordering value", at=at, expected=field.type, found=error) from None


def _converted(delete: Delete, wanted: Any) -> Any:
    if delete.kind == "Decimal":
        return EXACT.scaleb(decimal.Decimal(int.from_bytes(delete.value, "big", signed=True)), -DECIMAL_SCALE)
    if delete.kind == "TimestampMicros":
        return delete.value * NANOS_PER["us"] // NANOS_PER[wanted.unit]
    return delete.value
