"""Detect and refuse times outside 1677 to 2262, the range of Arrow's nanoseconds.

Arrow reads INT96 as nanoseconds in 64 bits. A time that does not fit wraps and becomes another time. Therefore the
twelve bytes are read too and compared with Arrow's result: they are a day and the nanoseconds in that day. (For a time
before 1970 Paimon's JVM writes the next day and negative nanoseconds.) In ORC files Arrow itself reports such times.

Clauses: META-46, META-47, RD-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import NANOS_PER, OUTSIDE_NANOS

INT96: Final = np.dtype([("nanos", "<i8"), ("day", "<i4")])
EPOCH_DAY: Final = 2_440_588  # Julian day of 1970-01-01
SECONDS_PER_DAY: Final = 86_400


def expect_countable(times: pa.Table, stored: pa.Table, at: str) -> None:
    """Raise InvalidRequestError unless ``times`` equal ``stored``, the same columns with INT96 as twelve bytes.

    Clauses: RD-11.
    """
    for name in times.column_names:
        chunks = (table.combine_chunks().column(name).chunks for table in (times, stored))
        for found, raw in (pair for both in zip(*chunks, strict=True) for pair in _pairs(*both)):
            if not np.array_equal(_counts(found) // NANOS_PER["s"], _seconds(raw)):
                raise uncountable(f"{at}: column {name}")


def uncountable(what: str) -> InvalidRequestError:
    """Return the error for a file or column, called ``what``, with a time that Arrow cannot hold."""
    return InvalidRequestError(f"{what}: a time {OUTSIDE_NANOS}; leave the column out of the read")


def _pairs(times: Any, stored: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the times in an array, and in its parts at any depth, with the bytes they are stored as."""
    kind = times.type
    if pa.types.is_timestamp(kind):
        if len(times) and pa.types.is_fixed_size_binary(stored.type):
            yield times, stored
    elif pa.types.is_struct(kind):
        for pair in zip(times.flatten(), stored.flatten(), strict=True):  # null under a null
            yield from _pairs(*pair)
    elif pa.types.is_map(kind):
        yield from _pairs(times.keys, stored.keys)
        yield from _pairs(times.items, stored.items)
    elif pa.types.is_list(kind):
        yield from _pairs(times.values, stored.values)


def _counts(times: Any) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _seconds(stored: Any) -> npt.NDArray[np.int64]:
    """Return INT96 values as seconds since 1970, 0 for null."""
    raw = np.frombuffer(stored.buffers()[1], INT96, len(stored), stored.offset * INT96.itemsize)
    seconds = (raw["day"].astype(np.int64) - EPOCH_DAY) * SECONDS_PER_DAY + raw["nanos"] // NANOS_PER["s"]
    return np.where(stored.is_null().to_numpy(zero_copy_only=False), 0, seconds)
