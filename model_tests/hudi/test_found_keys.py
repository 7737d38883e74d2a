"""Keys that are looked for among many are found wherever they are, and no others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable_hudi.found_keys import MANY, found_keys
from pktable_spec.covers import covers

COUNT = 2 * MANY
ALPHABET = "ab\u00e9"
TEXTS = st.text(ALPHABET, min_size=0, max_size=3).map(
    lambda ending: "00000000"[len(ending) :] + ending
) | st.text(ALPHABET, min_size=6, max_size=10)


def expected(keys: pa.Array, wanted: pa.Array) -> list[tuple[int, int]]:
    numbers = {key: number for number, key in enumerate(wanted.to_pylist())}
    return [(row, numbers[key]) for row, key in enumerate(keys.to_pylist()) if key in numbers]


def found(keys: pa.Array, wanted: pa.Array) -> list[tuple[int, int]]:
    rows, numbers = found_keys(keys, wanted)
    return list(zip(rows.tolist(), numbers.tolist(), strict=True))


@covers("LOG-41")
@given(
    st.lists(TEXTS, min_size=1, max_size=9),
    st.lists(TEXTS, max_size=9, unique=True),
    st.dictionaries(st.integers(0, COUNT - 1), TEXTS | st.none() | st.just(""), max_size=9),
    st.integers(0, 9),
)
def test_the_wanted_keys_are_found_and_no_others(
    others: list[str], wanted: list[str], placed: dict[int, str | None], start: int
) -> None:
    every: list[str | None] = [*others] * COUNT
    del every[COUNT + start :]
    for place, key in placed.items():
        every[place] = key
    keys, asked = pa.array(every, pa.string()).slice(start), pa.array(wanted, pa.string())
    assert found(keys, asked) == expected(keys, asked)


@covers("LOG-41")
@pytest.mark.parametrize("text", ["{:08}", "user-{:020}", "{:03}-same-ending", "{}"])
def test_keys_of_any_form_are_found(text: str) -> None:
    keys = pa.array([text.format(i) for i in range(COUNT)])
    asked = pa.array([text.format(i) for i in range(0, 2 * COUNT, 997)]).slice(1)
    assert found(keys, asked) == expected(keys, asked)


@covers("LOG-41")
def test_short_keys_are_found_among_empty_ones() -> None:
    for key in ("", "x"):
        keys = pa.array([key] * COUNT)
        for asked in (pa.array(["long-enough", key]), pa.array(["long-enough"])):
            assert found(keys, asked) == expected(keys, asked)
