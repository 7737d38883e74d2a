"""Index files of deletion vectors: Java's, ours, and damaged ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.format.vectors.index_file import VectorRange, encode_index, open_index
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.damage.decoders import assert_no_flip_misleads, assert_no_prefix_decodes
from model_tests.real_data import PAIMON, needs_shared

JAVA = {
    "dvindex-32": (VectorRange("a", 1, 24, 2), VectorRange("b", 33, 22, 1)),
    "dvindex-64": (VectorRange("a", 1, 44, 2), VectorRange("b", 45, 42, 1)),
}
POSITIONS = st.sets(st.integers(0, 5) | st.integers(0, (1 << 31) - 1), max_size=4)
VECTORS = st.dictionaries(
    st.sampled_from(["data-1", "data-2", "data-ä"]),
    st.builds(DeletionVector.from_positions, POSITIONS, bits=st.sampled_from([32, 64])),
)


@needs_shared
@covers("DVF-1", "DVF-2", "DVF-3", "DVF-5", "DVF-9", "DVF-10", "DVF-11")
@pytest.mark.parametrize("name", JAVA)
def test_an_index_of_java_decodes_and_encodes_to_the_same_bytes(name: str) -> None:
    data = (PAIMON / "dv-index" / name).read_bytes()
    vectors = dict(open_index(data, JAVA[name], at=name))
    assert {file: set(vector.positions().tolist()) for file, vector in vectors.items()} == {
        "a": {2, 3},
        "b": {1},
    }
    assert {vector.bits for vector in vectors.values()} == {int(name[-2:])}
    assert encode_index(vectors) == (data, JAVA[name])


@covers("DVF-1", "DVF-4", "DVF-9", "DVF-12", "DVF-13", "META-13")
@given(VECTORS, st.randoms())
def test_an_index_survives_its_bytes_whatever_kinds_it_mixes(
    vectors: dict[str, DeletionVector], random: object
) -> None:
    data, ranges = encode_index(vectors)
    assert data[0] == 1
    assert [place.cardinality for place in ranges] == [vector.cardinality for vector in vectors.values()]
    shuffled = sorted(ranges, key=lambda place: place.data_file)
    decoded = dict(open_index(data, shuffled, at="index"))
    assert decoded == vectors
    assert {file: vector.bits for file, vector in decoded.items()} == {f: v.bits for f, v in vectors.items()}
    unknown = [replace(place, cardinality=None) for place in ranges]
    assert dict(open_index(data, unknown, at="index")) == vectors


@covers("DVF-7")
def test_an_index_without_vectors_is_one_byte() -> None:
    assert encode_index({}) == (b"\x01", ())
    assert dict(open_index(b"\x01", (), at="index")) == {}


@covers("DVF-1", "DVF-5", "META-34", "RD-11")
@given(VECTORS)
@settings(max_examples=20)
def test_a_damaged_index_is_found_or_gives_the_same_vectors(vectors: dict[str, DeletionVector]) -> None:
    data, ranges = encode_index(vectors)
    assert_no_prefix_decodes(lambda damaged: dict(open_index(damaged, ranges, at="index")), data)
    assert_no_flip_misleads(lambda damaged: dict(open_index(damaged, ranges, at="index")), data)


@covers("DVF-1", "DVF-5", "DVF-9")
def test_ranges_that_do_not_fit_the_file_are_found() -> None:
    data, (first, second) = encode_index(
        {"a": DeletionVector.from_positions({1}), "b": DeletionVector.from_positions({2}, bits=64)}
    )
    assert dict(open_index(data, (second, first), at="index"))
    plain, (before, after) = encode_index({name: DeletionVector.from_positions({1}) for name in "ab"})
    wrong = [
        (data, (first,)),
        (data, (second,)),
        (data, ()),
        (data, (first, first)),
        (data, (first, replace(second, data_file="a"))),
        (data, (first, replace(second, offset_bytes=second.offset_bytes + 1))),
        (data, (replace(first, length_bytes=first.length_bytes + 1), second)),
        (data, (replace(first, length_bytes=-5), second)),
        (data, (first, replace(second, length_bytes=1 << 40))),
        (data, (replace(first, cardinality=2), second)),
        (data + b"\0", (first, second)),
        (plain, (before, replace(after, offset_bytes=after.offset_bytes + 1))),
        (b"\x02" + data[1:], (first, second)),
        (b"", ()),
    ]
    for damaged, ranges in wrong:
        with pytest.raises(CorruptFileError, match="index"):
            dict(open_index(damaged, ranges, at="index"))


@covers("DVF-5")
def test_a_vector_is_decoded_when_it_is_looked_at_and_damage_of_another_is_found_then() -> None:
    vectors = {name: DeletionVector.from_positions(range(start, 9)) for name, start in (("a", 1), ("b", 4))}
    data, ranges = encode_index(vectors)
    second = ranges[1].offset_bytes + 12
    damaged = data[:second] + bytes([data[second] ^ 1]) + data[second + 1 :]
    found = open_index(damaged, ranges, at="index")
    assert (list(found), len(found), found["a"], found.get("c")) == (["a", "b"], 2, vectors["a"], None)
    with pytest.raises(CorruptFileError, match="vector of b"):
        found["b"]
    with pytest.raises(CorruptFileError, match="vector of b"):
        dict(open_index(damaged, ranges, at="index"))
