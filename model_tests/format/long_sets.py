"""Sets of 64-bit numbers of many shapes, and what Java's class makes of them."""

from __future__ import annotations

import random
import struct
import subprocess
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pktable.format.vectors.roaring import Bitmap
from pktable.format.vectors.roaring_tree import decode, encode
from pyroaring import BitMap

from benchmarks.roaring.machine import janino_command

WORD = 1 << 64


@dataclass(frozen=True)
class Request:
    """A task for Java: unite serialized sets, add numbers one by one, remove some, run-optimise."""

    united: Sequence[bytes] = ()
    added: Sequence[int] = ()
    removed: Sequence[int] = ()
    optimized: bool = True

    def encode(self) -> bytes:
        united = b"".join(struct.pack(">i", len(one)) + one for one in self.united)
        numbers = _longs(self.added) + _longs(self.removed)
        return struct.pack(">i", len(self.united)) + united + numbers + bytes([self.optimized])

    @property
    def numbers(self) -> list[int]:
        """The numbers of the set if nothing is united."""
        return sorted(set(self.added) - set(self.removed))


def java_answers(requests: Sequence[Request]) -> list[tuple[bytes, list[int]]]:
    """Return for each request the bytes of the set and its numbers, ascending without signs."""
    asked = struct.pack(">i", len(requests)) + b"".join(one.encode() for one in requests)
    command = janino_command(Path(__file__).with_name("LongSets.java"))
    done = subprocess.run(command, input=asked, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    data, found = memoryview(done.stdout), []
    while data:
        (size,) = struct.unpack_from(">i", data)
        (count,) = struct.unpack_from(">i", data, 4 + size)
        end = 8 + size + 8 * count
        found.append((bytes(data[4 : 4 + size]), list(struct.unpack(f">{count}Q", data[8 + size : end]))))
        data = data[end:]
    assert len(found) == len(requests)
    return found


def _longs(numbers: Sequence[int]) -> bytes:
    return struct.pack(f">i{len(numbers)}Q", len(numbers), *numbers)


def bitmaps_of(numbers: Iterable[int]) -> dict[int, Bitmap]:
    """Return the low halves by key."""
    lows: dict[int, list[int]] = {}
    for number in numbers:
        lows.setdefault(number >> 16, []).append(number & 0xFFFF)
    return {key: Bitmap.optimized(BitMap(array("I", some))) for key, some in lows.items()}


def numbers_of(bitmaps: dict[int, Bitmap]) -> list[int]:
    """Return the numbers in the order of the keys."""
    return [key << 16 | int(low) for key, bitmap in bitmaps.items() for low in bitmap.positions()]


def to_bytes(numbers: Iterable[int]) -> bytes:
    return encode(bitmaps_of(numbers))


def from_bytes(data: bytes) -> list[int]:
    """Return the numbers of a set, ascending without signs."""
    return numbers_of(decode(data, "set"))


def requests(seed: int) -> Iterator[Request]:
    """Yield sets whose trees have nodes of every kind and depth, and containers of every kind."""
    drawn = random.Random(seed)
    yield Request()
    yield Request(added=[5], optimized=False)
    yield Request(added=[5, 6 << 20], removed=[6 << 20, 5])
    yield Request(added=[WORD - 1, WORD - 2, WORD - (1 << 40), 1 << 62])
    yield Request(added=[*range(100), *range(1 << 33, (1 << 33) + 70_000)])
    yield Request(added=[*range(0, 20_000, 2), *range(1 << 50, (1 << 50) + 200_000, 3)], optimized=False)
    yield Request(added=range(0, 20_000, 2), removed=range(0, 20_000, 4))
    for count in (4096, 4097):
        yield Request(added=range(0, 2 * count, 2))
    for count in (2, 4, 5, 16, 17, 20, 48, 49, 60, 256, 300):
        yield Request(added=[i << 16 for i in range(count)])
        yield Request(added=[i << 16 + 8 * (i % 5) | i for i in range(count)])
        anywhere = [drawn.getrandbits(64) for _ in range(count)]
        yield Request(added=anywhere)
        yield Request(added=anywhere, removed=anywhere[3:])
        deep = [_deep(drawn) for _ in range(2 * count)]
        yield Request(added=deep, removed=drawn.sample(deep, count), optimized=False)
        neighbours = drawn.sample([i << 16 for i in range(count)], count)
        for left in (1, 2, 3, 4, 12, 13, 36, 37, count // 2):
            yield Request(added=neighbours, removed=neighbours[left:])


def _deep(drawn: random.Random) -> int:
    """A number that shares bytes of its key with others."""
    return drawn.randrange(256) << 16 + 8 * drawn.randrange(6) | drawn.randrange(3) << 56 | drawn.randrange(9)
