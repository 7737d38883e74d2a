"""Encode key columns as arrays that numpy compares in key order.

1. A single integer-like column is its own encoding.
2. Otherwise each column becomes bits in key order. Integers and floats are in total order. Strings are padded with
   zero bytes and followed by their length, so that "a" sorts before "a\\0"; very long ones are replaced by their ranks.
3. Bits that are the same in all rows are dropped, which changes no comparison: "customer-000017" takes the bits of its
   digits, and a pair of numbers takes the bits of the two ranges.
4. If the rest fits 64 bits, a row is one unsigned integer, the first column most significant. If not, a row is a byte
   string of fixed width, which numpy compares several times more slowly.

The encoding depends on the rows, so all arrays that will be compared with each other must be encoded in one call.

Clauses: MRG-5, MRG-7, LSM-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pktable.format.types import BINARIES, STRINGS, DataType, one_array

Columns = Sequence[pa.ChunkedArray]
Encoded = npt.NDArray[Any]
Words = npt.NDArray[np.uint64]
Matrix = npt.NDArray[np.uint8]

WORD = 64  # bits

WIDEST_STRING = 96  # bytes per row; longer strings are compared by rank
INTEGERS = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DATE": pa.int32(),
    "TIME": pa.int32(),
}
BYTE_STRINGS = STRINGS | BINARIES


def encode_keys(tables: Sequence[Columns], types: Sequence[DataType]) -> list[Encoded]:
    """Return one array for each table, with an element for each row; elements of all arrays compare in key order.

    ``tables``: the key columns of each, without nulls, in the order of ``types``. Clauses: MRG-7.
    """
    if len(types) == 1 and (_integer_like(types[0])):
        return [_integers(table[0], types[0]) for table in tables]
    columns = [_column([table[i] for table in tables], kind) for i, kind in enumerate(types)]
    if sum(column.bits for column in columns) <= WORD:
        return [_packed([(c.numbers[i], c.bits) for c in columns]) for i in range(len(tables))]
    encoded = []
    for i in range(len(tables)):
        matrix = np.ascontiguousarray(np.concatenate([column.bytes_of(i) for column in columns], axis=1))
        encoded.append(matrix.view(f"S{matrix.shape[1]}").reshape(len(matrix)))
    return encoded


@dataclass(frozen=True, slots=True)
class _Column:
    """One key column of every table: as numbers below ``2**bits``, or as rows of bytes if that exceeds a word."""

    bits: int
    numbers: Sequence[Words] = ()
    rows: Sequence[Matrix] = ()

    def bytes_of(self, table: int) -> Matrix:
        """Return the column of one table as a matrix of bytes, with a row for each value."""
        if self.rows:
            return self.rows[table]
        swapped = self.numbers[table].astype(">u8")
        return swapped.view(np.uint8).reshape(len(swapped), WORD // 8)[:, (WORD - self.bits) // 8 :]


def _packed(parts: Sequence[tuple[Words, int]]) -> Words:
    """Return one number for each row. ``parts``: (numbers, bits) of each column, the most significant first."""
    packed, _ = parts[0]
    for numbers, bits in parts[1:]:
        packed = packed << np.uint64(bits) | numbers
    return packed


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


def _column(columns: Sequence[pa.ChunkedArray], kind: DataType) -> _Column:
    """Return one key column of every table, encoded."""
    if _integer_like(kind):
        return _from_integers([_integers(column, kind) for column in columns])
    if kind.root == "DECIMAL":
        return _from_bytes([_decimals(column) for column in columns])
    assert kind.root in BYTE_STRINGS, f"{kind.root} is no key type"
    arrays = [one_array(column).cast(pa.binary()) for column in columns]
    if max((pc.max(pc.binary_length(array)).as_py() or 0 for array in arrays), default=0) > WIDEST_STRING:
        return _from_integers(_ranks(arrays))
    return _from_bytes(_padded(arrays))


def _from_integers(columns: Sequence[Encoded]) -> _Column:
    """Encode integers as their distances from the smallest of them."""
    filled = [column for column in columns if len(column)]
    low = min((int(column.min()) for column in filled), default=0)
    high = max((int(column.max()) for column in filled), default=0)
    least = np.uint64(low % (1 << WORD))  # modulo 2**64 the difference is right, whatever the signs
    return _Column((high - low).bit_length(), [column.astype(np.uint64) - least for column in columns])


def _from_bytes(matrices: Sequence[Matrix]) -> _Column:
    """Encode rows of bytes, all of the same width, without the bits that are the same in all rows."""
    varying = _varying([matrix for matrix in matrices if matrix.size])
    width, places = len(varying), np.flatnonzero(varying).tolist()
    if not places:
        return _Column(0, [np.zeros(len(matrix), np.uint64) for matrix in matrices])
    first, last = places[0], places[-1]
    if width >= 8 and last - first < 8:
        return _Column(8 * (last - first + 1), [_window(matrix, first, last) for matrix in matrices])
    masks = [(at, int(varying[at])) for at in places]
    bits = sum(mask.bit_count() for _, mask in masks)
    if bits > WORD:
        few = 2 * len(places) <= width
        return _Column(WORD + 1, rows=[m[:, places] if few else m for m in matrices])
    return _Column(
        bits,
        [_packed([(_bits_of(mask)[m[:, at]], mask.bit_count()) for at, mask in masks]) for m in matrices],
    )


def _window(matrix: Matrix, first: int, last: int) -> Words:
    """Return the bytes ``first`` to ``last`` of every row, at most eight, as a number."""
    if not len(matrix):
        return np.empty(0, np.uint64)
    start = min(first, matrix.shape[1] - 8)
    rows = np.ndarray(len(matrix), ">u8", matrix, start, (matrix.strides[0],))
    shift, mask = np.uint64(8 * (start + 7 - last)), np.uint64((1 << 8 * (last - first + 1)) - 1)
    found: Words = rows.astype(np.uint64) >> shift & mask
    return found


def _varying(matrices: Sequence[Matrix]) -> npt.NDArray[np.uint8]:
    """Return for each byte the bits in which any two rows differ; an empty array if there are no rows."""
    if not matrices:
        return np.empty(0, np.uint8)
    some, every = (
        reduce.reduce([_folded(reduce, matrix) for matrix in matrices])
        for reduce in (np.bitwise_or, np.bitwise_and)
    )
    differ: npt.NDArray[np.uint8] = some ^ every
    return differ


def _folded(reduce: np.ufunc, matrix: Matrix) -> npt.NDArray[np.uint8]:
    """Return ``reduce`` over the rows of a matrix."""
    width = matrix.shape[1]
    # Many rows are reduced as one, because numpy is slow with short rows.
    grouped = max(1, 4096 // width)
    whole = len(matrix) // grouped * grouped
    rest = matrix[whole:]
    if whole:
        folded = reduce.reduce(matrix[:whole].reshape(-1, grouped * width), axis=0)
        rest = np.concatenate([folded.reshape(grouped, width), rest])
    found: npt.NDArray[np.uint8] = reduce.reduce(rest, axis=0)
    return found


@lru_cache(maxsize=256)
def _bits_of(mask: int) -> Words:
    """Return for every possible byte its bits at ``mask``, moved together in the same order."""
    places = [bit for bit in range(8) if mask >> bit & 1]
    return np.array(
        [sum((byte >> bit & 1) << to for to, bit in enumerate(places)) for byte in range(256)], np.uint64
    )


def _decimals(column: pa.ChunkedArray) -> Matrix:
    """Return decimals as 128-bit two's complement, big-endian, with the sign bit flipped."""
    array = one_array(column.cast(pa.decimal128(38, column.type.scale)))
    data = np.frombuffer(array.buffers()[1], dtype=np.uint8) if len(array) else np.empty(0, np.uint8)
    rows = data[array.offset * 16 : (array.offset + len(array)) * 16].reshape(len(array), 16)
    matrix: Matrix = rows[:, ::-1].copy()
    matrix[:, 0] ^= 0x80
    return matrix


def _padded(arrays: Sequence[Any]) -> list[Matrix]:
    """Return byte strings padded to one width, then their length, so that a prefix sorts before a longer string."""
    lengths = [pc.binary_length(array).to_numpy() for array in arrays]
    distinct = {int(end) for length in lengths if len(length) for end in (length.min(), length.max())}
    width = max(distinct, default=0)
    if len(distinct) == 1 and width:  # all have the same length
        return [_values(array, width) for array in arrays]
    matrices = []
    for array, length in zip(arrays, lengths, strict=True):
        matrix = np.empty((len(array), width + 1), dtype=np.uint8)
        matrix[:, width] = length
        # This kernel of Arrow counts a byte as a character.
        matrix[:, :width] = _values(pc.ascii_rpad(array.view(pa.string()), width, padding="\0"), width)
        matrices.append(matrix)
    return matrices


def _values(array: Any, width: int) -> Matrix:
    """Return the bytes of strings that are all ``width`` long."""
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return np.empty((len(array), width), np.uint8)
    start = int(np.frombuffer(offsets, np.int32)[array.offset])
    return np.frombuffer(data, np.uint8)[start : start + len(array) * width].reshape(len(array), width)


def _ranks(arrays: Sequence[Any]) -> list[Words]:
    """Return the dense ranks of strings among those of all arrays."""
    together = pa.chunked_array(arrays, pa.binary())
    distinct = together.unique()
    order = pc.sort_indices(distinct)
    places = np.empty(len(distinct), dtype=np.uint64)
    places[order.to_numpy()] = np.arange(len(distinct), dtype=np.uint64)
    ranks = places[pc.index_in(together, value_set=distinct).to_numpy()]
    return np.split(ranks, np.cumsum([len(array) for array in arrays])[:-1])
