"""Times beyond 1677 to 2262, which Arrow does not count in nanoseconds: told from others and refused.

Arrow reads INT96 as nanoseconds in 64 bits; what does not fit wraps, and is a row with another time. So its
bytes are read too, and compared: a day, and nanoseconds of it, which Paimon's JVM counts back from the midnight
after for a time before 1970. Of ORC Arrow says itself what does not fit.

Clauses: META-17, RD-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

INT96: Final = np.dtype([("nanos", "<i8"), ("day", "<i4")])
EPOCH_DAY: Final = 2_440_588  # Julian day of 1970-01-01
SECONDS_PER_DAY: Final = 86_400
NANOS_PER_SECOND: Final = 1_000_000_000


def expect_countable(times: pa.Table, stored: pa.Table, at: str) -> None:
    """Raise InvalidRequestError unless ``times`` are those ``stored``, where INT96 is twelve bytes. Clauses: RD-11."""
    for name in times.column_names:
        chunks = (table.combine_chunks().column(name).chunks for table in (times, stored))
        for found, raw in (pair for both in zip(*chunks, strict=True) for pair in _pairs(*both)):
            if not np.array_equal(_counts(found) // NANOS_PER_SECOND, _seconds(raw)):
                raise uncountable(f"{at}: column {name}", "another")


def uncountable(what: str, found: object) -> InvalidRequestError:
    """Return the error for a column that holds a time that Arrow cannot count."""
    return InvalidRequestError(
        f"{what}: expected times from 1677 to 2262, which Arrow counts in nanoseconds, found {found}; "
        "leave the column out"
    )


def _pairs(times: Any, stored: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all the times in an array, and in whatever it holds, with the bytes they are stored as."""
    kind = times.type
    if pa.types.is_timestamp(kind):
        if len(times) and pa.types.is_fixed_size_binary(stored.type):
            yield times, stored
    elif pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from _pairs(times.field(i), stored.field(i))
    elif pa.types.is_map(kind):
        yield from _pairs(times.keys, stored.keys)
        yield from _pairs(times.items, stored.items)
    elif pa.types.is_list(kind):
        yield from _pairs(times.values, stored.values)


def _counts(times: Any) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _seconds(stored: Any) -> npt.NDArray[np.int64]:
    """Return the seconds since 1970 of INT96, 0 for null."""
    raw = np.frombuffer(stored.buffers()[1], INT96, len(stored), stored.offset * INT96.itemsize)
    seconds = (raw["day"].astype(np.int64) - EPOCH_DAY) * SECONDS_PER_DAY + raw["nanos"] // NANOS_PER_SECOND
    return np.where(stored.is_null().to_numpy(zero_copy_only=False), 0, seconds)
