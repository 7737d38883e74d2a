"""The aggregate function ``theta_sketch``: unions of theta sketches of Apache DataSketches.

A sketch is a set of hashes below a bound, *theta*. A union has the hashes of all sketches below the least theta; if
these are more than 4096, the next one is theta. So the grouping in which sketches are united makes no difference.

The library for Python unites sketches. Three fields of the header that it writes are not those of the library for Java,
and so of Paimon: a share of sampled values, the hash of the seed of a sketch without values, and a flag of one with a
single hash. No reader looks at them; `_as_java` writes them as Java does.

Clauses: MRG-9, MRG-31.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import Any, Final

import numpy as np
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.merge.bitmaps import union_of

LOG_HASHES: Final = 12
PLAIN: Final = 3  # the serial version of sketches whose hashes are not compressed
HEADER_WORDS: Final = 0x3F  # of the first byte
SINGLE: Final = 0x20
NONE: Final = bytes.fromhex("01030300001e0000")
SAMPLED: Final = struct.pack("<f", 1.0)


def sketch_library() -> Any:
    """Return the library of sketches. Raises InvalidRequestError if it is not installed."""
    try:
        import datasketches
    except ModuleNotFoundError:
        raise InvalidRequestError(
            "theta_sketch unites sketches with the library datasketches, which is not installed; "
            "install it with: pip install 'pktable[sketches]'"
        ) from None
    return datasketches


def _unite(blobs: list[bytes], at: str) -> bytes:
    library = sketch_library()
    union = library.theta_union(LOG_HASHES)
    for blob in blobs:
        union.update(_read(library, blob, at))
    return _as_java(union.get_result().serialize())


def _read(library: Any, blob: bytes, at: str) -> Any:
    """Return a sketch. Raises CorruptFileError if the library cannot read it, or its hashes are not as it says."""
    try:
        sketch = library.compact_theta_sketch.deserialize(blob)
    except (ValueError, IndexError, RuntimeError) as error:
        raise CorruptFileError("theta sketch", at=at, expected="a compact one", found=str(error)) from error
    if blob[1] == PLAIN:
        _expect_hashes(blob, sketch, at)
    return sketch


def _expect_hashes(blob: bytes, sketch: Any, at: str) -> None:
    count = sketch.num_retained
    size = 8 * ((blob[0] & HEADER_WORDS) + count)
    if len(blob) != size:
        raise CorruptFileError("theta sketch", at=at, expected=f"{size} bytes", found=len(blob))
    hashes = np.frombuffer(blob, "<i8", offset=size - 8 * count)
    wrong = (hashes <= 0) | (hashes >= sketch.theta64)
    if sketch.is_ordered():
        wrong[1:] |= hashes[1:] <= hashes[:-1]
    if wrong.any():
        found = hashes[np.argmax(wrong)]
        raise CorruptFileError("theta sketch", at=at, expected="hashes in order, below theta", found=found)


def _as_java(written: bytes) -> bytes:
    """Return a sketch that the library for Python wrote, in the bytes that the one for Java writes."""
    if written[0] > 1:
        return written[:12] + SAMPLED + written[16:]
    if len(written) == len(NONE):
        return NONE
    return written[:5] + bytes([written[5] | SINGLE]) + written[6:]


union_theta: Final = partial(union_of, "theta sketch", _unite)
