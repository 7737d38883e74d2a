"""The comparison itself, tested: known faults must be found, and nothing where there is none.

pypaimon 2.0.0 filters before it counts positions, so that a deletion vector hides other rows than it should;
2.1.0 does not. The same histories, read with conditions by both, must find it in the one and nothing in the
other. And pktable made wrong in a way that it agrees with itself about must be found by the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import numpy as np
import pyarrow as pa
from hypothesis.strategies import SearchStrategy
from pktable.bucket import index
from pktable.format import bucket_hash as bucket
from pktable.format.vectors import deletion_vector
from pktable.merge import aggregation
from pktable.merge.aggregates import AGGREGATES, total
from pktable.merge.segments import Column, Segments

from model_tests.interop.directions import DIRECTIONS, Bench, Result
from model_tests.interop.environments import JVM, OLDER_PYPAIMON, PYPAIMON
from model_tests.interop.histories import KEYS, PARTITIONS, History, Universe, histories

HISTORIES: Final = 60
"""Within which a fault must be found. A busy machine takes any time for them."""
OURS_ALONE, _, _, WITH_JVM = DIRECTIONS[:4]
APPEND_TABLES: Final = next(direction for direction in DIRECTIONS if direction.append)
SMALL: Final = Universe(
    {name: KEYS[name] for name in ("INT", "BIGINT", "STRING")}, {"INT": PARTITIONS["INT"]}, ("STRING",)
)
"""The types that both versions read and take conditions on."""


def filtered_positions(bench: Bench, first: int) -> list[tuple[Result, str | None]]:
    """Return for both versions what was found, and what is wrong with that."""
    found = []
    for peer, faulty in ((OLDER_PYPAIMON, True), (PYPAIMON, False)):
        name = f"calibration: {peer}, {'faulty' if faulty else 'sound'}"
        drawn = histories(OURS_ALONE.actors, OURS_ALONE.creators, SMALL, bitmap64=False, most_conditions=6)
        result = bench.run(name, drawn, [peer], count=HISTORIES, first=first, shrinks=False)
        found.append((result, _wrong_with(result, faulty=faulty)))
    return found


def _wrong_with(result: Result, *, faulty: bool) -> str | None:
    if not faulty:
        return "found something where there is no fault" if result.failure else None
    if result.failure is None:
        return f"found nothing in {result.tally.histories} histories"
    lines = result.failure[0].splitlines()
    if not all(f"{OLDER_PYPAIMON}, where " in line and "rows missing" in line for line in lines):
        return f"found another fault than rows lost or gained under a condition: {result.failure[0]}"
    return None


def _sum_of_all(values: pa.Array[Any], segments: Segments, column: Column) -> pa.Array[Any]:
    return total(values, replace(segments, adds=np.ones_like(segments.adds)), column)


Patch = tuple[Any, str, object]
FAULTS: Final[Mapping[str, tuple[SearchStrategy[History], Patch]]] = {
    "keys hashed with another seed": (WITH_JVM.histories(), (bucket, "SEED", 43)),
    "vectors with another magic": (
        OURS_ALONE.histories(),
        (deletion_vector, "MAGIC_32", b"\x5e\x43\xf2\xd1"),
    ),
    "vectors that forget what was deleted before": (
        APPEND_TABLES.histories(),
        (index, "merged", lambda before, deleted, bits: deleted),
    ),
    "sums that add what a retraction takes back": (
        OURS_ALONE.retracting_histories(),
        (aggregation, "AGGREGATES", {**AGGREGATES, "sum": replace(AGGREGATES["sum"], fold=_sum_of_all)}),
    ),
}
"""By name: where it must show, and what is wrong, in writer and reader alike."""


def own_faults(bench: Bench, first: int) -> Iterator[tuple[Result, str | None]]:
    """Yield for each fault of ours what was found, and what is wrong with that."""
    for name, (drawn, patch) in FAULTS.items():
        with mock.patch.object(*patch):
            result = bench.run(f"fault: {name}", drawn, [JVM], count=HISTORIES, first=first, shrinks=False)
        yield result, None if result.failure else f"not found in {result.tally.histories} histories"
