"""The aggregate function ``theta_sketch``: the bytes of unions, and what is refused."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest
from pktable import InvalidRequestError, Table
from pktable_spec.covers import covers

from model_tests.engines import theta
from model_tests.engines.test_arrays_and_bitmaps import table_of, upsert, value_of
from model_tests.engines.test_refusals import files_of

datasketches = pytest.importorskip("datasketches")

# What the library for Java (4.2.0, which Paimon 1.4 has) serializes for some sketches of integers, and their unions as
# ThetaSketch of Paimon makes them.
NONE = "01030300001e0000"
ONE = "01030300003acc9315f97dcbbd86a105"  # 1
FEW = (  # 1 to 4
    "02030300001acc93040000000000803f15f97dcbbd86a10540de2ee1c9db3d08c397fc1281709d1eba40b3c1da06695d"
)
UNORDERED = (  # 3 to 7
    "02030300000acc93050000000000803fba40b3c1da06695dbd3273724691cc1440de2ee1c9db3d08e0f48bea9983c37c"
    "fe162113fb98bc10"
)
ESTIMATE = (  # 0 to 299, of nominally 16 hashes
    "03030300001acc931c0000000000803f614ecd35427f6f0bdeac6be1e1d96500fa74b34c16b16e00e4c758129ac40601"
    "0a22dbb71c875f0188655737d10a7401fb38798913248f010f5d1190dc88b1034962bb9062b6fc03e8a7bd68fe0b8604"
    "e2dacf9fcdeabe04ed0b4d6d52ba060552ec19491d2d680515f97dcbbd86a1052596796c863eb205f7ce79d2837fc905"
    "6aa9cade240aed0563319a572b2de6071f728df16d810e0840de2ee1c9db3d08698bb991b8685708dc3f9f540c995a08"
    "fa69f9593ca28308a0fd066176e58e08f385d11765f6c508be111e938546fe08a8c1da2d5ffa8709b4659a020a47f409"
    "b21e8b1c4525480b"
)
SAMPLED = "03030300001acc93000000000000803f0000000014ae4701"  # a hundredth of three values: none
UPDATABLE = "c30302040500cc93040000000000803fffffffffffffff7f" + "00" * 256
FEW_AND_UNORDERED = (
    "02030300001acc93070000000000803f15f97dcbbd86a10540de2ee1c9db3d08fe162113fb98bc10bd3273724691cc14"
    "c397fc1281709d1eba40b3c1da06695de0f48bea9983c37c"
)
EVERY = "03030300001acc93030000000000803f0000000014ae4701deac6be1e1d96500fa74b34c16b16e00e4c758129ac40601"
UNIONS = {
    (NONE, NONE): NONE,
    (NONE, ONE): ONE,
    (FEW, ONE): FEW,
    (FEW, UNORDERED): FEW_AND_UNORDERED,
    (FEW, ESTIMATE): ESTIMATE,
    (SAMPLED, NONE): SAMPLED,
    (UNORDERED, FEW, ONE): FEW_AND_UNORDERED,
    (NONE, FEW, ESTIMATE, SAMPLED): EVERY,
}
OF_9000_VALUES = "b9d80070195fc1f86f34fb425f2f1f8ade3547b2f7eadaec3658a9639032f6ae"
"""The SHA-256 of Java's union of the sketches of 0 to 4999 and of 4000 to 8999."""

FUNCTION = "theta_sketch"
GROUP = {
    "merge-engine": "partial-update",
    "fields.g.sequence-group": "a",
    "fields.a.aggregate-function": FUNCTION,
}


@covers("MRG-31")
@pytest.mark.parametrize("sketches", UNIONS, ids=len)
def test_a_union_of_sketches_has_the_bytes_that_paimon_writes(
    tmp_path: Path, sketches: Sequence[str]
) -> None:
    for at, some in enumerate(permutations(sketches)):
        table = table_of(tmp_path / str(at), "BYTES", FUNCTION)
        for one in some:
            upsert(table, bytes.fromhex(one), None)
        assert value_of(table).hex() == UNIONS[tuple(sketches)]


@covers("MRG-31")
def test_a_union_of_many_values_keeps_4096_hashes(tmp_path: Path) -> None:
    table = table_of(tmp_path, "BYTES", FUNCTION)
    for first in (0, 4000):
        whole = datasketches.update_theta_sketch(12)
        for value in range(first, first + 5000):
            whole.update(value)
        upsert(table, whole.compact().serialize())
    table.compact(full=True)
    found = value_of(table)
    assert hashlib.sha256(found).hexdigest() == OF_9000_VALUES
    hashes, _ = theta.decode(found)
    assert len(hashes) == 4096


@covers("MRG-31")
def test_a_compressed_sketch_is_united(tmp_path: Path) -> None:
    table = table_of(tmp_path, "BYTES", FUNCTION)
    few = datasketches.compact_theta_sketch.deserialize(bytes.fromhex(FEW))
    upsert(table, few.serialize(compress=True), bytes.fromhex(UNORDERED))
    assert value_of(table).hex() == FEW_AND_UNORDERED


@covers("MRG-31")
@pytest.mark.parametrize("sketch", [UNORDERED, UPDATABLE])
def test_a_sketch_of_a_single_record_keeps_its_bytes(tmp_path: Path, sketch: str) -> None:
    table = table_of(tmp_path, "BYTES", FUNCTION)
    upsert(table, None, bytes.fromhex(sketch))
    upsert(table, None)
    assert value_of(table).hex() == sketch


@covers("MRG-31", "MRG-14")
def test_a_sequence_group_unites_the_sketches_of_late_records(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, g INT, a BYTES", primary_key="k", options=GROUP)
    for order, sketch in ((2, FEW), (1, UNORDERED)):
        table.upsert([{"k": 1, "g": order, "a": bytes.fromhex(sketch)}])
    (row,) = table.to_arrow().to_pylist()
    assert (row["g"], row["a"].hex()) == (2, FEW_AND_UNORDERED)


WRONG = {
    "empty": b"",
    "text": b"no theta sketch at all",
    "short": bytes.fromhex(FEW)[:-1],
    "long": bytes.fromhex(FEW) + b"\0",
    "updatable": bytes.fromhex(UPDATABLE),
    "of another seed": theta.encode(theta.HASHES).replace(b"\xcc\x93", b"\xcc\x92"),
    "not in order": theta.encode([5, 3, 9], ordered=False).replace(b"\x0a\xcc\x93", b"\x1a\xcc\x93"),
    "twice the same": theta.encode([5, 5, 9]),
    "not below theta": theta.encode([5, 9], 9),
    "below zero": theta.encode([-5, 9]),
}


@covers("MRG-31")
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("first", [False, True])
def test_bytes_that_are_no_sketch_are_refused_and_nothing_written(
    tmp_path: Path, wrong: str, first: bool
) -> None:
    table = table_of(tmp_path, "BYTES", FUNCTION)
    upsert(table, bytes.fromhex(FEW))
    before = files_of(tmp_path)
    values = [bytes.fromhex(ONE), WRONG[wrong]]
    with pytest.raises(
        InvalidRequestError, match=r"^column a: expected a serialized theta sketch, found other bytes: "
    ) as caught:
        upsert(table, *(values[::-1] if first else values))
    assert "\n" not in str(caught.value)
    assert files_of(tmp_path) == before


@covers("MRG-31")
def test_a_union_of_sketches_that_its_column_cannot_hold_is_refused(tmp_path: Path) -> None:
    table = table_of(tmp_path, "VARBINARY(60)", FUNCTION)
    with pytest.raises(InvalidRequestError, match=r"a theta sketch that VARBINARY\(60\) can hold, found 72 "):
        upsert(table, bytes.fromhex(FEW), bytes.fromhex(UNORDERED))


@covers("MRG-31")
def test_without_the_library_a_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(InvalidRequestError, match=r"pip install 'pktable\[sketches\]'") as caught:
        table_of(tmp_path, "BYTES", FUNCTION)
    assert "\n" not in str(caught.value)
    assert not files_of(tmp_path)
    table_of(tmp_path, "BYTES", "rbm32")
