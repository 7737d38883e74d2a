"""Snapshot files: round trips, files of others, damage."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable.format.metadata.snapshot import COMMIT_KINDS, Snapshot, decode_snapshot, encode_snapshot
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.damage.decoders import (
    assert_no_flip_crashes,
    assert_no_flip_misleads,
    assert_no_prefix_decodes,
)

LONGS = st.sampled_from([0, 1, (1 << 63) - 1]) | st.integers(-5, 5)
TEXTS = st.sampled_from(["x", "manifest-list-0", 'ä\n"', "\U0001f600"])
SNAPSHOTS = st.builds(
    Snapshot, LONGS, LONGS, TEXTS, TEXTS, TEXTS, LONGS, st.sampled_from(COMMIT_KINDS), LONGS, LONGS, LONGS,
    *(st.none() | texts for texts in (TEXTS, TEXTS, LONGS, LONGS, LONGS, TEXTS, LONGS, LONGS, TEXTS)),
    st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
    st.none() | LONGS,
)  # fmt: skip
ONE = Snapshot(
    7, 0, "base", "delta", "user", (1 << 63) - 1, "COMPACT", 1700000000000, 12, -3, index_manifest="index"
)
REQUIRED = ("version", "id", "schemaId", "baseManifestList", "deltaManifestList",
            "commitUser", "commitIdentifier", "commitKind", "timeMillis", "totalRecordCount",
            "deltaRecordCount")  # fmt: skip


def decode(data: bytes) -> Snapshot:
    return decode_snapshot(data, at="table/snapshot/snapshot-7")


def foreign(**changes: Any) -> bytes:
    """Return a snapshot file as others write it, without a checksum."""
    fields = json.loads(encode_snapshot(ONE))
    del fields["pktable.crc32"]
    return json.dumps(
        {name: value for name, value in (fields | changes).items() if value != "absent"}
    ).encode()


@covers("META-2", "META-13")
@given(SNAPSHOTS)
def test_a_snapshot_survives_its_file(snapshot: Snapshot) -> None:
    assert decode(encode_snapshot(snapshot)) == snapshot


@covers("META-2")
def test_fields_have_the_names_of_paimon_and_absent_ones_are_left_out() -> None:
    fields = json.loads(encode_snapshot(ONE))
    assert set(fields) == {*REQUIRED, "indexManifest", "pktable.crc32"}
    assert fields["version"] == 3


@covers("META-21")
def test_unknown_fields_and_nulls_are_ignored() -> None:
    assert (
        decode(foreign(logOffsets={}, changelogManifestList=None, operation={"a": [1]}, writerVersion="9"))
        == ONE
    )


@covers("META-2")
@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_field_that_is_absent_or_of_another_type_is_damage(name: str) -> None:
    values: list[Any] = ["absent", None, [], 1.5, True, "", 1 << 63]
    for value in values:
        with pytest.raises(CorruptFileError, match=f"snapshot-7: {name}: expected"):
            decode(foreign(**{name: value}))


@covers("META-2")
@pytest.mark.parametrize(
    "changes",
    [{"version": 2}, {"commitKind": "MERGE"}, {"indexManifest": 1}, {"watermark": "1"},
     {"properties": {"a": 1}}, {"properties": []}],
)  # fmt: skip
def test_a_value_that_means_nothing_is_damage(changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptFileError, match=next(iter(changes))):
        decode(foreign(**changes))


@covers("META-34", "RD-11")
def test_no_damage_to_what_we_wrote_misleads() -> None:
    data = encode_snapshot(replace(ONE, properties={"a": "b"}))
    assert_no_prefix_decodes(decode, data)
    assert_no_flip_misleads(decode, data)


@covers("META-34", "RD-11")
def test_damage_to_what_others_wrote_never_crashes() -> None:
    assert_no_prefix_decodes(decode, foreign())
    assert_no_flip_crashes(decode, foreign())


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"7", b"\xff\xfe{}", b"[" * 100_000, b"nan", b'{"a": "\\ud800"}']
)
def test_what_is_no_json_object_is_damage(data: bytes) -> None:
    with pytest.raises(CorruptFileError, match="JSON"):
        decode(data)
