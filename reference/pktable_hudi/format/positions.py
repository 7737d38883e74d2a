"""Record positions: the rows of a base file that a block's records belong to, in the header of the block.

They are a 64-bit Roaring bitmap in its portable form, as base64. A deletion vector of 64 bits holds the same bytes
between its magic and its checksum, so they are read and written as one.

The records of such a block are ordered by position: record i belongs to position i of the ascending list.

Clauses: LOG-12.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Final

import numpy as np
import numpy.typing as npt
from pktable.format.vectors.deletion_vector import (
    LENGTH,
    MAGIC_64,
    DeletionVector,
    decode_vector,
    encode_vector,
)
from pktable_spec.errors import CorruptFileError

CRC_BYTES: Final = 4


def decode_positions(text: bytes, count: int, *, at: str) -> npt.NDArray[np.int64] | None:
    """Return the ``count`` positions, ascending; None if there are more or fewer: a few bytes can stand for billions.

    ``text``: the header entry. Raises CorruptFileError. Clauses: LOG-12.
    """
    try:
        payload = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise CorruptFileError("record positions", at=at, expected="base64", found=error) from None
    body = MAGIC_64 + payload
    frame = LENGTH.pack(len(body)) + body + zlib.crc32(body).to_bytes(CRC_BYTES, "big")
    vector = decode_vector(frame, at=at)
    return vector.positions() if vector.cardinality == count else None


def encode_positions(positions: npt.NDArray[np.int64]) -> bytes:
    """Return the header entry for ``positions``, ascending and unique. Clauses: LOG-12."""
    frame = encode_vector(DeletionVector.from_positions(positions, 64))
    return base64.b64encode(frame[LENGTH.size + len(MAGIC_64) : -CRC_BYTES])
