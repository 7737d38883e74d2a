"""The oracle's bucket hash, against hashes that Paimon computed."""

from __future__ import annotations

import pytest
from pktable_conform.judge.history import SHAPES
from pktable_spec.covers import covers
from pktable_spec.model.buckets import binary_row, bucket_number, bucket_of, murmur


@covers("TBL-5", "META-4")
@pytest.mark.parametrize(
    ("key", "hash_"), [((1,), 1465514398), ((-7,), 1485184587), (("abc",), -101922419), ((0,), -300363099)]
)
def test_the_hash_is_paimons(key: tuple[int | str, ...], hash_: int) -> None:
    assert murmur(binary_row(key)) == hash_


@covers("META-4", "META-24")
def test_a_string_of_more_than_seven_bytes_lies_in_the_variable_part() -> None:
    row = binary_row((1, "a2345678"))
    assert row[16:24] == bytes([8, 0, 0, 0, 24, 0, 0, 0])
    assert row[24:] == b"a2345678"
    assert binary_row(("Alice", 1)) == bytes(8) + b"Alice\0\0\x85" + bytes([1, 0, 0, 0, 0, 0, 0, 0])


@covers("TBL-5")
def test_the_bucket_of_a_negative_hash_is_that_of_its_absolute_value() -> None:
    assert bucket_number(("abc",), 2) == 101922419 % 2
    assert bucket_number((-7,), 4) == 3


@covers("TBL-10", "TBL-15", "TBL-3")
def test_a_partition_key_is_no_part_of_the_bucket_key() -> None:
    shape = SHAPES["partitioned"]
    for partition in ("x", "y"):
        assert bucket_of(shape, (partition, -7, "a", 1), 4) == ((partition,), 3)
