"""A few bytes of others cannot ask for memory or work without bound, nor crash a decoder."""

from __future__ import annotations

import bz2
import json
import lzma
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import CorruptFileError, Table
from pktable.format.avro import MAGIC, decode_container, encode_bytes, encode_long
from pktable.format.bounds import ALWAYS_ALLOWED, MOST_TIMES, unpacked
from pktable.format.types import parse_type
from pktable.lsm.bucket import KeyOrder
from pktable.table import check
from pktable_spec.covers import covers

from model_tests.damage import fuzz
from model_tests.damage.fuzz_seeds import seeds
from model_tests.damage.fuzz_targets import TARGETS
from model_tests.damage.table_damage import Surgeon

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CODECS: dict[str, tuple[Callable[[bytes], bytes], Callable[[], Any]]] = {
    "zstd": (zstd.compress, zstd.ZstdDecompressor),
    "zlib": (zlib.compress, zlib.decompressobj),
    "bz2": (bz2.compress, bz2.BZ2Decompressor),
    "xz": (lzma.compress, lzma.LZMADecompressor),
}


def container(schema: object, block: bytes, count: int, codec: bytes = b"null") -> bytes:
    metadata = {b"avro.schema": json.dumps(schema).encode(), b"avro.codec": codec}
    entries = b"".join(encode_bytes(key) + encode_bytes(value) for key, value in metadata.items())
    sync = b"0123456789abcdef"
    head = MAGIC + encode_long(2) + entries + encode_long(0) + sync
    return head + encode_long(count) + encode_long(len(block)) + block + sync


def record(kind: object) -> dict[str, object]:
    return {"type": "record", "name": "r", "fields": [{"name": "f", "type": kind}]}


@covers("RD-11")
@pytest.mark.parametrize("codec", CODECS)
def test_a_block_unpacks_to_a_bounded_size(codec: str) -> None:
    compress, decompressor = CODECS[codec]
    assert unpacked(compress(b"x" * 1000), decompressor()) == b"x" * 1000
    with pytest.raises(ValueError, match="after the frame"):
        unpacked(compress(b"x") + b"y", decompressor())
    with pytest.raises(ValueError, match="does not end"):
        unpacked(compress(b"x" * 1000)[:-5], decompressor())
    if codec != "zlib":  # which never packs a thousandfold
        bomb = compress(bytes(ALWAYS_ALLOWED + MOST_TIMES * 20_000))
        with pytest.raises(ValueError, match="more than"):
            unpacked(bomb, decompressor())


@covers("RD-11")
def test_a_small_block_of_a_container_does_not_fill_memory() -> None:
    bomb = zstd.compress(bytes(1 << 28))
    assert len(bomb) < 1 << 14
    with pytest.raises(CorruptFileError, match="more than"):
        decode_container(container(record("bytes"), bomb, 1, b"zstandard"), "x")


@covers("RD-11")
@pytest.mark.parametrize(
    "kind",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "fixed", "name": "n", "size": 0}},
        {"type": "map", "values": {"type": "array", "items": {"type": "record", "name": "n", "fields": []}}},
        ["null", "r"],
        ["null", {"type": "array", "items": "r"}],
    ],
    ids=str,
)
def test_a_schema_that_asks_for_endless_work_is_refused(kind: object) -> None:
    endless = encode_long(1 << 60) + encode_long(0)
    with pytest.raises(CorruptFileError, match="schema"):
        decode_container(container(record(kind), endless, 1), "x")


@covers("RD-11")
def test_records_of_no_bytes_are_refused() -> None:
    for schema in ({"type": "record", "name": "r", "fields": []}, record("null")):
        with pytest.raises(CorruptFileError, match="schema"):
            decode_container(container(schema, encode_long(1 << 60), 1), "x")


@covers("META-3")
def test_a_schema_may_use_a_type_twice() -> None:
    inner = {"type": "record", "name": "n", "fields": [{"name": "a", "type": ["null", "double"]}]}
    outer = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "f", "type": inner}, {"name": "g", "type": "n"}],
    }
    assert decode_container(container(outer, b"\0\0", 1), "x") == [{"f": {"a": None}, "g": {"a": None}}]


@covers("RD-11")
@pytest.mark.parametrize("name", ["", ".", "..", "../snapshot/snapshot-1", "a/b", "a\0b", "x" * 256])
def test_a_name_that_leads_elsewhere_is_damage(tmp_path: Path, name: str) -> None:
    table = Table.create(tmp_path, "k INT", primary_key=["k"])
    table.upsert(pa.table({"k": pa.array([1], pa.int32())}))
    surgeon = Surgeon(tmp_path)
    (file,) = (entry.file.file_name for entry in surgeon.live(1))
    surgeon.edit_file(file, file_name=name)
    with pytest.raises(CorruptFileError, match="the name of a file"):
        Table.open(tmp_path).to_arrow(fresh=True)
    assert [one.clause for one in check(tmp_path).findings] == ["META-3"]
    surgeon.edit_snapshot(1, delta_manifest_list=name, index_manifest=name)
    with pytest.raises(CorruptFileError, match="List: expected"):
        Table.open(tmp_path).snapshots()


@covers("RD-11")
def test_a_null_in_a_stored_key_is_damage() -> None:
    null = bytes.fromhex("00000001 0001000000000000 0000000000000000")
    for kind in ("INT", "DOUBLE", "STRING"):
        with pytest.raises(CorruptFileError, match="no null"):
            KeyOrder([parse_type(kind)]).key(null, "x")


@covers("CMT-13")
@pytest.mark.parametrize("hint", [b"9" * 5000, b"", b"\xff", b"-1", "²".encode()])
def test_a_hint_may_be_anything(tmp_path: Path, hint: bytes) -> None:
    table = Table.create(tmp_path, "k INT", primary_key=["k"])
    table.upsert(pa.table({"k": pa.array([1], pa.int32())}))
    (tmp_path / "snapshot/LATEST").write_bytes(hint)
    assert Table.open(tmp_path).to_arrow(fresh=True).num_rows == 1


# Without atheris too: the targets of the fuzzer, on what decodes and on what hardly does not


SEEDS = list(seeds())


@covers("RD-11")
def test_the_seeds_of_the_fuzzer_decode() -> None:
    assert {name for name, _ in SEEDS} == set(TARGETS) - {"statistics"}
    for name, data in SEEDS:
        TARGETS[name](data)


@covers("RD-11")
@settings(max_examples=1000)
@given(data=st.data())
def test_a_decoder_raises_nothing_but_corrupt_file_errors(data: st.DataObject) -> None:
    name, good = data.draw(st.sampled_from(SEEDS))
    number = list(TARGETS).index(name)
    at, end = sorted(data.draw(st.tuples(*[st.integers(0, len(good))] * 2)))
    fuzz.run_one(
        bytes([number]) + good[:at] + data.draw(st.binary(max_size=8)) + good[end if at % 2 else at + 1 :]
    )
