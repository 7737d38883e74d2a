"""Clause, oracle and reference look up the same keys, also those of retractions below level 0.

Module Bucket of spec/tla is held to the oracle by the state graph "retractions below level 0".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st
from pktable.bucket.compact import keys_to_look_up
from pktable.merge.grouping import grouped
from pktable_spec.covers import covers
from pktable_spec.model import deletion_vectors
from pktable_spec.model.levels import DataFile, Record
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind

Input: TypeAlias = tuple[int, dict[int, bool]]
"""The level of an input file of a compaction, and per key whether its record is an add."""

INPUTS = st.lists(
    st.tuples(st.integers(0, 2), st.dictionaries(st.integers(0, 3), st.booleans(), min_size=1)),
    min_size=1,
    max_size=4,
).map(lambda files: sorted(files, key=lambda file: -file[0]))
"""Oldest first."""


def by_the_clauses(inputs: Sequence[Input]) -> set[int]:
    """DV-6, word by word."""
    held = [(level, key, add) for level, records in inputs for key, add in records.items()]
    return {
        wanted
        for _, wanted, _ in held
        if any(key == wanted and (level == 0 or not add) for level, key, add in held)
        and not any(key == wanted and level > 0 and add for level, key, add in held)
    }


def by_the_oracle(inputs: Sequence[Input]) -> set[int]:
    files = [
        DataFile(
            tuple(
                Record((key,), number, RowKind.INSERT if add else RowKind.DELETE, (key,))
                for key, add in sorted(records.items())
            ),
            level,
        )
        for number, (level, records) in enumerate(inputs)
    ]
    entries = [(at, file.born) for at, file in enumerate(files)]
    return {int(str(key[0])) for key in deletion_vectors.keys_to_look_up(files, entries, frozenset())}


def by_the_reference(inputs: Sequence[Input]) -> set[int]:
    held = [
        (level, key, number, add)
        for number, (level, records) in enumerate(inputs)
        for key, add in sorted(records.items())
    ]
    levels, keys, numbers, adds = zip(*held, strict=True)
    table = pa.table(
        {
            KEY_PREFIX + "k": pa.array(keys, pa.int64()),
            SEQUENCE_NUMBER: pa.array(numbers, pa.int64()),
            VALUE_KIND: pa.array([0 if add else 3 for add in adds], pa.int8()),
        }
    )
    window = grouped(table, np.array(keys, np.int64), np.array(levels, np.int32), single=len(inputs) == 1)
    newest = window.newest[keys_to_look_up(window, remembers=False)]
    return set(table.column(KEY_PREFIX + "k").take(pa.array(newest)).to_pylist())


@covers("DV-6", "DV-7", "DV-8")
@given(INPUTS)
@example([(1, {0: False})])
@example([(2, {0: False}), (0, {0: True})])
@example([(2, {0: True}), (1, {0: False}), (0, {0: True})])
def test_clause_oracle_and_reference_look_up_the_same_keys(inputs: Sequence[Input]) -> None:
    assert by_the_oracle(inputs) == by_the_clauses(inputs)
    assert by_the_reference(inputs) == by_the_clauses(inputs)
