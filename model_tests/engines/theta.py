"""Theta sketches in plain Python, from their format: a sketch is its hashes, and a bound above them."""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final

from hypothesis import strategies as st

MOST: Final = (1 << 63) - 1
"""Theta of a sketch that has seen few values."""

SEED: Final = 0x93CC
HASHES: Final = (5, 1 << 40, 1 << 61, (1 << 61) + 1, 1 << 62)


def encode(hashes: Collection[int], theta: int = MOST, *, ordered: bool = True) -> bytes:
    """Return a compact sketch. ``hashes`` are in the order of the sketch, or made ascending."""
    hashes = sorted(hashes) if ordered else list(hashes)
    if theta == MOST and len(hashes) < 2:
        flags = 0x3A if hashes else 0x1E
        return struct.pack(f"<6BH{len(hashes)}q", 1, 3, 3, 0, 0, flags, SEED if hashes else 0, *hashes)
    words = (theta,) if theta < MOST else ()
    head = struct.pack(
        "<6BHif", 2 + len(words), 3, 3, 0, 0, 0x1A if ordered else 0x0A, SEED, len(hashes), 1.0
    )
    return head + struct.pack(f"<{len(words) + len(hashes)}q", *words, *hashes)


def decode(sketch: bytes) -> tuple[set[int], int]:
    """Return the hashes of a compact sketch and its theta."""
    words = struct.unpack(f"<{len(sketch) // 8}q", sketch)
    header = sketch[0]
    return set(words[header:]), words[2] if header == 3 else MOST


def union(left: bytes, right: bytes, limit: int = 4096) -> bytes:
    """Return the union of two compact sketches."""
    (some, one), (others, other) = decode(left), decode(right)
    theta = min(one, other)
    hashes = sorted(each for each in some | others if each < theta)
    if len(hashes) > limit:
        theta = hashes[limit]
    return encode(hashes[:limit], theta)


def sketches() -> st.SearchStrategy[bytes]:
    """Draw small sketches that share hashes."""

    def made(hashes: list[int], theta: int, ordered: bool) -> bytes:
        return encode([one for one in hashes if one < theta], theta, ordered=ordered)

    drawn = st.lists(st.sampled_from(HASHES), unique=True)
    return st.builds(made, drawn, st.sampled_from([MOST, 1 << 61]), st.booleans())
