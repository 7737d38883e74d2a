"""Summaries of sets of keys: the least key, the greatest key and a bloom filter, which rule most other keys out.

Hudi stores them in the key-value metadata of its base files, and orders keys as Java's strings: by UTF-16 code units.
That differs from the order of their UTF-8 bytes where a key has a character beyond U+FFFF and another one from U+E000
to U+FFFF. Everything that this package adds to log files orders keys by their UTF-8 bytes, as Parquet's statistics and
the sorted runs of this project do.

Clauses: LOG-13, LOG-14, LOG-16.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import CorruptFileError

from pktable_hudi.format.bloom import SIMPLE, Filter, HashedKeys, Numbers, SimpleFilter, decode_filter

BLOOM: Final = b"org.apache.hudi.bloomfilter"
BLOOM_KIND: Final = b"hoodie_bloom_filter_type_code"
LEAST, GREATEST = b"hoodie_min_record_key", b"hoodie_max_record_key"


class KeyCollation(Enum):
    """An order of keys: that of their bytes in an encoding."""

    JAVA = "utf-16-be"
    BYTES = "utf-8"

    def of(self, key: str) -> bytes:
        """Return bytes that compare as keys do in this order."""
        return key.encode(self.value, "surrogatepass")

    def of_all(self, keys: Sequence[str]) -> list[bytes]:
        """Return such bytes for each of ``keys``."""
        encoding = self.value
        return [key.encode(encoding, "surrogatepass") for key in keys]


class KeyBatch:
    """Keys to look up in many summaries: sorted and hashed once. ``keys``: none of them empty."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys
        self._sorted: dict[
            KeyCollation, tuple[Any, Numbers]
        ] = {}  # the keys in order, and each one's place there

    def __reduce__(self) -> tuple[object, ...]:
        return KeyBatch, (self.keys,)

    @cached_property
    def text(self) -> Any:
        """The keys as a pyarrow.Array."""
        return pa.array(self.keys, pa.string())

    @cached_property
    def hashed(self) -> HashedKeys:
        return HashedKeys(self._encoded(KeyCollation.BYTES))

    @cached_property
    def numbers(self) -> Numbers:
        """The numbers of all keys."""
        return np.arange(len(self.keys))

    @cached_property
    def _is_ascii(self) -> bool:
        """Whether all keys are of characters that every order has before all others, and in the same order."""
        return bool(pc.all(pc.string_is_ascii(self.text)).as_py())

    def between(self, low: str, high: str, order: KeyCollation, numbers: Numbers) -> Numbers:
        """Return those of the keys ``numbers`` that are neither less than ``low`` nor greater than ``high``."""
        order = KeyCollation.BYTES if self._is_ascii else order
        if order not in self._sorted:
            encoded = self._encoded(order)
            sorted_ = pc.array_sort_indices(encoded)
            places = np.empty(len(encoded), np.int64)
            places[sorted_.to_numpy()] = self.numbers
            self._sorted[order] = encoded.take(sorted_), places
        encoded, places = self._sorted[order]
        begin = bisect_left(encoded, order.of(low), key=pa.BinaryScalar.as_py)
        end = bisect_right(encoded, order.of(high), begin, key=pa.BinaryScalar.as_py)
        found = places[numbers]
        return numbers[(begin <= found) & (found < end)]

    def _encoded(self, order: KeyCollation) -> Any:
        """Return bytes that compare as the keys do."""
        if order is KeyCollation.BYTES:
            return self.text.cast(pa.binary())
        return pa.array(order.of_all(self.keys), pa.binary())


@dataclass(frozen=True)
class KeySummary:
    """The range and the filter of a set of keys. ``filter``: None without one."""

    low: str
    high: str
    order: KeyCollation
    filter: Filter | None

    def among(self, batch: KeyBatch, numbers: Numbers | None = None) -> Numbers:
        """Return those of the keys ``numbers``, by default of all, that may be in the set, in the order given.

        None that is in the set is left out. Clauses: LOG-14, LOG-16.
        """
        numbers = batch.numbers if numbers is None else numbers
        numbers = batch.between(self.low, self.high, self.order, numbers)
        if self.filter is None or not len(numbers):
            return numbers
        return self.filter.among(batch.hashed, numbers)


def summary_of_footer(metadata: Mapping[bytes, bytes] | None, *, at: str) -> KeySummary | None:
    """Return the summary in a Parquet file's key-value metadata, None if there is none. Raises CorruptFileError.

    Clauses: LOG-13, LOG-16.
    """
    found = metadata or {}
    if LEAST not in found or GREATEST not in found:
        return None
    try:
        low, high = found[LEAST].decode(), found[GREATEST].decode()
        kind = found.get(BLOOM_KIND, SIMPLE.encode()).decode("ascii")
    except UnicodeDecodeError as error:
        raise CorruptFileError("key range", at=at, expected="UTF-8", found=error) from None
    stored = decode_filter(found[BLOOM], kind, at=at) if BLOOM in found else None
    return KeySummary(low, high, KeyCollation.JAVA, stored)


def footer_of_summary(summary: KeySummary) -> dict[bytes, bytes]:
    """Return the entries of key-value metadata, by Hudi's names. Clauses: LOG-13, LOG-16."""
    assert summary.order is KeyCollation.JAVA
    assert isinstance(summary.filter, SimpleFilter)
    return {
        BLOOM: base64.b64encode(summary.filter.encode()),
        BLOOM_KIND: SIMPLE.encode(),
        LEAST: summary.low.encode(),
        GREATEST: summary.high.encode(),
    }
