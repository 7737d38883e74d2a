"""Hadoop's bloom filter a byte and a bit at a time: the oracle of the vectorised one."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

MULTIPLIER: Final = 0x5BD1E995
WORD: Final = 0xFFFFFFFF


def hashed(key: bytes, seed: int) -> int:
    """The Murmur hash of a key. The bytes behind its last whole word are signed."""
    signed = [byte - 256 if byte > 127 else byte for byte in key]
    h = (seed ^ len(key)) & WORD
    whole = len(key) // 4 * 4
    for i in range(0, whole, 4):
        (k,) = struct.unpack_from("<I", key, i)
        k = k * MULTIPLIER & WORD
        k = (k ^ k >> 24) * MULTIPLIER & WORD
        h = (h * MULTIPLIER & WORD) ^ k
    rest = len(key) - whole
    for back in range(rest, 0, -1):
        h ^= signed[-back] << 8 * (back - 1) & WORD
    if rest:
        h = h * MULTIPLIER & WORD
    h ^= h >> 13
    h = h * MULTIPLIER & WORD
    return h ^ h >> 15


def bits_of(keys: Sequence[bytes], bit_count: int, hash_count: int) -> bytes:
    """The bits of a simple filter."""
    bits = bytearray((bit_count + 7) // 8)
    for key in keys:
        h = 0
        for _ in range(hash_count):
            h = hashed(key, h)
            signed = h - (1 << 32) if h >> 31 else h
            place = abs(signed) % bit_count
            bits[place >> 3] |= 1 << (place & 7)
    return bytes(bits)
