"""Our sets of 64-bit numbers against Java's class, whose bytes they have.

``PKTABLE_ROARING_JAR=…/RoaringBitmap-1.2.1.jar`` asks the version that Paimon 1.4 contains; pyspark has a later one.
"""

from __future__ import annotations

import random

import pytest
from pktable.format.vectors.roaring_tree import decode
from pktable_spec.covers import covers

from model_tests.format.long_sets import Request, from_bytes, java_answers, numbers_of, requests, to_bytes


@pytest.mark.spark
@covers("MRG-30")
def test_java_reads_our_sets_and_we_read_its_and_write_the_same_bytes() -> None:
    asked = list(requests(seed=1))
    answers = java_answers(asked)
    for request, (data, numbers) in zip(asked, answers, strict=True):
        assert numbers == request.numbers
        found = decode(data, "set")
        assert list(found) == sorted(found)
        assert numbers_of(found) == numbers
    ours = [to_bytes(request.numbers) for request in asked]
    added_in_order = [Request(added=request.numbers) for request in asked]
    assert ours == [data for data, _ in java_answers(added_in_order)]
    pairs = random.Random(1).sample(range(len(ours)), 2 * (len(ours) // 2))
    united = [Request([ours[i], ours[j]]) for i, j in zip(pairs[::2], pairs[1::2], strict=True)]
    together = [
        sorted({*asked[i].numbers, *asked[j].numbers}) for i, j in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    for whole, (data, numbers) in zip(together, java_answers(united), strict=True):
        assert numbers == whole
        assert from_bytes(data) == whole
