"""Find some keys among many.

Most keys of a base file are none of those that are looked for, and a table of hashes reads every byte of them. So keys
are compared by eight bytes first, the last ones, where keys with a common beginning differ. Only those that agree are
looked up as a whole.

Clauses: LOG-30, LOG-41.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

WORD: Final = 8
FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
PLACES_PER_KEY: Final = 64
MOST_BITS: Final = 20
WORTHWHILE: Final = 4
MANY: Final = 1 << 14

Numbers = npt.NDArray[np.int64]


def found_keys(keys: pa.Array, wanted: pa.Array) -> tuple[Numbers, Numbers]:
    """Return the rows of ``keys`` that are among ``wanted``, ascending, and the number of each in ``wanted``.

    Both are strings. ``wanted``: each once, none of them null.
    """
    suspects = _suspects(keys, wanted)
    codes = pc.index_in(keys if suspects is None else keys.take(pa.array(suspects)), value_set=wanted)
    found = np.flatnonzero(codes.is_valid().to_numpy(zero_copy_only=False))
    numbers = codes.take(pa.array(found)).to_numpy().astype(np.int64)
    return (found if suspects is None else suspects[found]), numbers


def _suspects(keys: Any, wanted: Any) -> Numbers | None:
    """Return the rows of ``keys`` that end as one of ``wanted`` does, and some others; None if that spares little."""
    if len(keys) < max(MANY, WORTHWHILE * len(wanted)) or not len(wanted):
        return None
    data = keys.buffers()[2]
    if data is None or data.size < 2 * WORD or pc.min(pc.binary_length(wanted)).as_py() < WORD:
        return None
    bits = min(MOST_BITS, (PLACES_PER_KEY * len(wanted)).bit_length())
    is_taken = np.zeros(1 << bits, np.bool_)
    is_taken[_hashed_endings(wanted, bits)] = True
    suspects = np.flatnonzero(is_taken[_hashed_endings(keys, bits)])
    return suspects if WORTHWHILE * len(suspects) < len(keys) else None


def _hashed_endings(strings: Any, bits: int) -> npt.NDArray[np.uint64]:
    """Return a hash of the last eight bytes of each string. A shorter one is hashed with other bytes."""
    _, offsets, data = strings.buffers()
    starts = np.frombuffer(offsets, np.int32, len(strings), 4 * (strings.offset + 1)) - WORD
    words: Any = np.ndarray(data.size - WORD + 1, np.uint64, data, strides=(1,))  # one at every byte
    found: npt.NDArray[np.uint64] = words[starts]  # a negative place is one from the end
    found *= FACTOR
    found >>= np.uint64(64 - bits)
    return found
