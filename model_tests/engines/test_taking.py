"""Values, bits and nulls that NumPy takes out of Arrow's buffers are those that Arrow takes."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.merge.segments import at, flags_of, valid

TYPES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 0, 7],
    pa.int16(): [-1, 300],
    pa.int32(): [-5, 1 << 30],
    pa.int64(): [-(1 << 63), 1],
    pa.float32(): [-0.0, 0.5],
    pa.float64(): [-0.0, 1e300],
    pa.date32(): [datetime.date(1969, 1, 1), datetime.date(2020, 2, 3)],
    pa.timestamp("us"): [datetime.datetime(1969, 1, 1), datetime.datetime(2020, 2, 3)],
    pa.decimal128(38, 2): [1, -2],
    pa.bool_(): [True, False],
    pa.string(): ["", "a", "bc"],
    pa.list_(pa.int8()): [[], [1, None]],
    pa.null(): [],
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(st.data())
def test_values_are_taken_as_arrow_takes_them(kind: pa.DataType, data: st.DataObject) -> None:
    items = data.draw(st.lists(st.sampled_from([None, *TYPES[kind]]), max_size=40))
    start = data.draw(st.integers(0, len(items)))
    values = pa.array(items, kind)[start:]
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=40) if len(values) else st.just([]))
    taken = at(values, np.array(rows, np.int64))
    taken.validate(full=True)
    assert taken.type == kind
    assert taken.equals(values.take(pa.array(rows, pa.int64())))
    assert valid(values).tolist() == values.is_valid().to_pylist()


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind != pa.null()], ids=str)
def test_nulls_are_taken_from_a_buffer_that_several_types_share(kind: pa.DataType) -> None:
    values = pa.nulls(1, pa.struct({"other": pa.binary(17), "it": kind})).field("it")
    assert at(values, np.zeros(3, np.int64)).equals(pa.nulls(3, kind))


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 40))
def test_flags_are_those_of_the_array(flags: list[bool], start: int) -> None:
    values = pa.array(flags, pa.bool_())
    assert flags_of(values[start:]).tolist() == flags[start:]
    assert flags_of(pc.invert(values[start:])).tolist() == [not flag for flag in flags[start:]]
