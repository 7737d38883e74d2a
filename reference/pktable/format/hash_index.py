"""Hash index files: the hashes of the keys that a dynamic bucket has ever had, four bytes each, the highest first.

Paimon writes them in no order. Ours ascend, which makes them faster to open.

Clauses: BKT-2.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from pktable_spec.errors import CorruptFileError

Hashes = npt.NDArray[np.int32]

HASH_BYTES: Final = 4
STORED: Final = np.dtype(">i4")


def encode_hashes(hashes: Hashes) -> bytes:
    """Return the file of some hashes. Clauses: BKT-2."""
    return hashes.astype(STORED).tobytes()


def decode_hashes(data: bytes, count: int, *, at: str) -> Hashes:
    """Return the hashes of a file, as they are stored. ``count``: of these, by the index manifest.

    Raises CorruptFileError. Clauses: BKT-2.
    """
    if len(data) != HASH_BYTES * count:
        expected = f"{HASH_BYTES * count} bytes, for {count} hashes"
        raise CorruptFileError("length of the hash index file", at=at, expected=expected, found=len(data))
    return np.frombuffer(data, STORED).astype(np.int32)
