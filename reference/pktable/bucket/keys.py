"""Key columns as arrays that numpy compares in key order.

A single integer-like column is its own encoding. Everything else becomes fixed-width byte strings whose
unsigned order is the key order: integers big-endian with the sign flipped, floats in total order, strings
padded with zero bytes and followed by their length, so that "a" sorts before "a\\0". Very long strings are
replaced by their ranks. Widths and ranks depend on the rows at hand, therefore all arrays that are to be
compared with each other are encoded in one call.

Clauses: MRG-5, LSM-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pktable.format.types import DataType

Columns = Sequence[pa.ChunkedArray]
Encoded = npt.NDArray[Any]

WIDEST_STRING = 96  # bytes per row; longer strings are compared by rank
INTEGERS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DATE": pa.int32(),
}
STRINGS = {"CHAR", "VARCHAR", "STRING", "BINARY", "VARBINARY", "BYTES"}


def encode_keys(tables: Sequence[Columns], types: Sequence[DataType]) -> list[Encoded]:
    """Return one array per table, row for row, comparable with each other and in key order.

    ``tables``: for each its key columns, without nulls, in the order of ``types``.
    Clauses: MRG-5.
    """
    if len(types) == 1 and (_integer_like(types[0])):
        return [_integers(table[0], types[0]) for table in tables]
    rows = [len(table[0]) for table in tables]
    parts = [_bytes_of([table[i] for table in tables], kind) for i, kind in enumerate(types)]
    width = sum(part[0].shape[1] for part in parts)
    encoded = []
    for i, count in enumerate(rows):
        matrix = np.concatenate([part[i] for part in parts], axis=1) if len(parts) > 1 else parts[0][i]
        encoded.append(np.ascontiguousarray(matrix).view(f"S{width}").reshape(count))
    return encoded


def _integer_like(kind: DataType) -> bool:
    return kind.root in INTEGERS or kind.root in ("BOOLEAN", "TIMESTAMP", "TIMESTAMP_LTZ", "FLOAT", "DOUBLE")


def _integers(column: pa.ChunkedArray, kind: DataType) -> Encoded:
    """Return a column of one of the integer-like types as integers in key order."""
    if kind.root == "BOOLEAN":
        return _numpy(column.cast(pa.uint8()))
    if kind.root in ("FLOAT", "DOUBLE"):
        values = column.to_numpy()
        bits = values.view(np.int32 if kind.root == "FLOAT" else np.int64)
        limit = np.iinfo(bits.dtype).max
        return np.where(np.isnan(values), limit, np.where(bits < 0, bits ^ limit, bits))
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return _numpy(column.cast(pa.int64()))
    return _numpy(column.cast(INTEGERS[kind.root]))


def _numpy(column: pa.ChunkedArray) -> Encoded:
    found: Encoded = column.to_numpy()
    return found


def _bytes_of(columns: Sequence[pa.ChunkedArray], kind: DataType) -> list[npt.NDArray[np.uint8]]:
    """Return each column as a matrix of bytes, one row per value, all of one width."""
    if _integer_like(kind):
        return [_big_endian(_integers(column, kind)) for column in columns]
    if kind.root == "DECIMAL":
        return [_decimals(column) for column in columns]
    assert kind.root in STRINGS, f"{kind.root} is no key type"
    width = max(
        (pc.max(pc.binary_length(column)).as_py() or 0 for column in columns if len(column)), default=0
    )
    if width > WIDEST_STRING:
        return _ranks(columns)
    return [_padded(column, width) for column in columns]


def _big_endian(values: Encoded) -> npt.NDArray[np.uint8]:
    if values.dtype.kind == "u":
        unsigned = values
    else:
        size = values.dtype.itemsize
        unsigned = values.view(f"u{size}") ^ np.array(1 << (8 * size - 1), dtype=f"u{size}")
    swapped = np.ascontiguousarray(unsigned.astype(unsigned.dtype.newbyteorder(">")))
    matrix: npt.NDArray[np.uint8] = swapped.view(np.uint8).reshape(len(values), unsigned.dtype.itemsize)
    return matrix


def _decimals(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """128-bit two's complement, turned big-endian with the sign flipped."""
    array = _one_array(column.cast(pa.decimal128(38, column.type.scale)))
    data = np.frombuffer(array.buffers()[1], dtype=np.uint8) if len(array) else np.empty(0, np.uint8)
    rows = data[array.offset * 16 : (array.offset + len(array)) * 16].reshape(len(array), 16)
    matrix: npt.NDArray[np.uint8] = rows[:, ::-1].copy()
    matrix[:, 0] ^= 0x80
    return matrix


def _padded(column: pa.ChunkedArray, width: int) -> npt.NDArray[np.uint8]:
    """Bytes padded to ``width``, then the length, so that a prefix sorts before what it begins."""
    array = _one_array(column.cast(pa.binary()))
    matrix = np.zeros((len(array), width + 1), dtype=np.uint8)
    if len(array):
        offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[
            array.offset : array.offset + len(array) + 1
        ]
        lengths = np.diff(offsets)
        matrix[:, width] = lengths
        if width:
            data = np.frombuffer(array.buffers()[2] or b"", dtype=np.uint8)[offsets[0] : offsets[-1]]
            matrix[:, :width][np.arange(width) < lengths[:, None]] = data
    return matrix


def _ranks(columns: Sequence[pa.ChunkedArray]) -> list[npt.NDArray[np.uint8]]:
    """Dense ranks over all columns together, as 8 big-endian bytes."""
    together = pa.chunked_array(
        [chunk.cast(pa.binary()) for column in columns for chunk in column.chunks], pa.binary()
    )
    distinct = together.unique()
    order = pc.sort_indices(distinct)
    places = np.empty(len(distinct), dtype=np.uint64)
    places[order.to_numpy()] = np.arange(len(distinct), dtype=np.uint64)
    ranks = places[pc.index_in(together, value_set=distinct).to_numpy()]
    return [
        _big_endian(part) for part in np.split(ranks, np.cumsum([len(column) for column in columns])[:-1])
    ]


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
