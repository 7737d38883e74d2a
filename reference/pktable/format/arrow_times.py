"""Times beyond 1677 to 2262, which Arrow does not count in nanoseconds: told from others and refused.

Arrow reads INT96 as nanoseconds in 64 bits; what does not fit wraps, and is a row with another time. So it
is read in milliseconds too, and compared. Of ORC Arrow says itself what does not fit.

Clauses: META-17, RD-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import NANOS_PER


def expect_countable(fine: pa.Table, coarse: pa.Table, at: str) -> None:
    """Raise InvalidRequestError unless the times of both tables are the same; ``coarse`` has milliseconds."""
    for name in fine.column_names:
        nanos, millis = (
            [leaf for chunk in table.column(name).chunks for leaf in _times(chunk)]
            for table in (fine, coarse)
        )
        for found, expected in zip(nanos, millis, strict=True):
            scale = NANOS_PER[expected.type.unit] // NANOS_PER[found.type.unit]
            if not np.array_equal(_counts(found) // scale, _counts(expected)):
                raise uncountable(f"{at}: column {name}", "another")


def uncountable(what: str, found: object) -> InvalidRequestError:
    """Return the error for a column that holds a time that Arrow cannot count."""
    return InvalidRequestError(
        f"{what}: expected times from 1677 to 2262, which Arrow counts in nanoseconds, found {found}; "
        "leave the column out"
    )


def _times(array: Any) -> Iterator[Any]:
    """Yield all the times in an array, and in whatever it holds."""
    if pa.types.is_timestamp(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from _times(array.field(i))
    elif pa.types.is_map(array.type):
        yield from _times(array.keys)
        yield from _times(array.items)
    elif pa.types.is_list(array.type):
        yield from _times(array.values)


def _counts(times: Any) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found
