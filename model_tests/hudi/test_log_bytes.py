"""Blocks of log files and their contents: Hudi's bytes and our own."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable_hudi.format.avro_content import (
    BLOCK_VERSION,
    AvroContent,
    decode_avro_content,
    decode_records,
    encode_avro_content,
)
from pktable_hudi.format.delete_content import (
    DELETE_VERSION,
    WRAPPED,
    Delete,
    DeleteContent,
    decode_delete_content,
    encode_delete_content,
)
from pktable_hudi.format.log_block import (
    MAGIC,
    BlockKind,
    DamagedRange,
    HeaderKey,
    LogBlock,
    decode_log,
    encode_block,
)
from pktable_hudi.format.positions import decode_positions, encode_positions
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from model_tests.hudi.real_tables import log_files
from model_tests.real_data import needs_hudi

ROLLBACK = bytes.fromhex(
    "23485544492300000000000000"
    "5b0000000100000000000000030000000000000011"
    "32303235303132363034303933363537380000000300000001300000000100000011"
    "32303235303132363034303832363837380000000000000000000000000000000000000061"
)
"""A rollback block of a table of version 6, the whole file. Written by Hudi 0.15."""

SCHEMA = '{"type":"record","name":"r","fields":[{"name":"_hoodie_record_key","type":"string"}]}'


@st.composite
def blocks(draw: st.DrawFn) -> LogBlock:
    keys = draw(st.lists(st.sampled_from(HeaderKey), unique=True, max_size=4))
    header = tuple((int(key), draw(st.binary(max_size=6))) for key in keys)
    return LogBlock(
        draw(st.sampled_from(BlockKind)), header, draw(st.binary(max_size=20) | st.just(b"x" + MAGIC))
    )


def framed(
    kind: int,
    header: bytes = b"\0\0\0\0",
    content: bytes = b"",
    footer: bytes = b"\0\0\0\0",
    version: int = 1,
) -> bytes:
    """A block put together by hand, which our encoder would refuse to write."""
    body = struct.pack(">ii", version, kind) + header + struct.pack(">q", len(content)) + content + footer
    return MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


def entry(key: int, value: bytes) -> bytes:
    return struct.pack(">iii", 1, key, len(value)) + value


@covers("LOG-1")
def test_a_rollback_block_of_hudi_says_whom_it_rolls_back() -> None:
    (block,) = decode_log(ROLLBACK, at="log")
    assert isinstance(block, LogBlock)
    assert (block.kind, block.content, block.footer) == (BlockKind.COMMAND, b"", ())
    assert block.header == ((0, b"20250126040936578"), (3, b"0"), (1, b"20250126040826878"))
    assert encode_block(block) == ROLLBACK


@needs_hudi
@covers("LOG-1", "LOG-7", "LOG-10", "LOG-12")
def test_every_real_block_is_written_as_hudi_wrote_it() -> None:
    seen = dict.fromkeys(BlockKind, 0)
    for path in log_files():
        found = decode_log(path.read_bytes(), at=str(path))
        parts = [one for one in found if isinstance(one, LogBlock)]
        assert b"".join(map(encode_block, parts)) == path.read_bytes()
        for block in parts:
            seen[block.kind] += 1
            assert _again(block) == block.content
            if text := block.entry(HeaderKey.POSITIONS):
                positions = decode_positions(text, _count(block), at=str(path))
                assert positions is not None
                assert encode_positions(positions) == text
    absent = {kind for kind, count in seen.items() if not count}
    assert absent == {BlockKind.CORRUPT, BlockKind.CDC}


def _count(block: LogBlock) -> int:
    """The number of records of a block."""
    if block.kind is BlockKind.DELETE:
        return len(decode_delete_content(block.content, at="log").deletes)
    return len(decode_avro_content(block.content, at="log").records)


def _again(block: LogBlock) -> bytes | memoryview:
    if block.kind is BlockKind.AVRO:
        return encode_avro_content(decode_avro_content(block.content, at="log"))
    if block.kind is BlockKind.DELETE:
        return encode_delete_content(decode_delete_content(block.content, at="log"))
    return block.content


@covers("LOG-1")
@given(st.lists(blocks(), max_size=4))
def test_written_blocks_are_read_back(written: list[LogBlock]) -> None:
    data = b"".join(map(encode_block, written))
    found = decode_log(data, at="log")
    assert [replace(one, offset=0) for one in found if isinstance(one, LogBlock)] == written
    assert [one.offset for one in found] == [
        sum(len(encode_block(one)) for one in written[:i]) for i in range(len(written))
    ]


@covers("LOG-2", "LOG-3")
@given(blocks(), blocks(), st.data())
def test_a_torn_block_hides_nothing_behind_it(torn: LogBlock, good: LogBlock, data: st.DataObject) -> None:
    torn = replace(torn, header=((HeaderKey.INSTANT, b"20250126040936578"),), content=b"")  # no "#" inside
    cut = data.draw(st.integers(len(MAGIC), len(encode_block(torn)) - 1))
    found = decode_log(encode_block(torn)[:cut] + encode_block(good), at="log")
    assert isinstance(found[0], DamagedRange)
    assert (found[0].offset, found[0].end) == (0, cut)
    assert [replace(one, offset=0) for one in found[1:] if isinstance(one, LogBlock)] == [good]


@covers("LOG-2")
@pytest.mark.parametrize(
    ("change", "sound"),
    [
        (lambda data: data[:-1] + b"\0", 0),  # the reverse length
        (lambda data: data[:13] + b"\0" + data[14:], 0),  # the length
        (lambda data: data[:-1], 0),
        (lambda data: data + b"garbage", 0),
        (lambda data: data + MAGIC, 1),
        (lambda data: data + MAGIC + b"\0\0\0", 1),
        (lambda data: data + data, 2),
    ],
)
def test_damage_is_seen_as_hudi_sees_it(change: Callable[[bytes], bytes], sound: int) -> None:
    found = decode_log(change(ROLLBACK), at="log")
    assert sum(isinstance(one, LogBlock) for one in found) == sound
    assert len(found) == max(sound, 1) if change(ROLLBACK) == ROLLBACK * 2 else sound + 1


def test_a_file_that_begins_with_anything_else_is_damaged() -> None:
    with pytest.raises(CorruptFileError, match="magic"):
        decode_log(b"HUDI" + ROLLBACK, at="log")
    assert decode_log(b"", at="log") == []


@covers("LOG-4")
@pytest.mark.parametrize(
    ("data", "error", "match"),
    [
        (framed(0, version=2), InvalidRequestError, "format version 2"),
        (framed(7), CorruptFileError, "kind"),
        (framed(0, header=entry(9, b"")), CorruptFileError, "header key"),
        (framed(0, header=struct.pack(">i", 1 << 30)), CorruptFileError, "header entries"),
        (framed(0, header=struct.pack(">iii", 1, 0, 1 << 30)), CorruptFileError, "header value"),
        (framed(0, footer=b"\0\0\0\0\0"), CorruptFileError, "length"),
    ],
)
def test_a_block_of_an_unknown_form_is_refused(data: bytes, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        decode_log(data, at="log")


@covers("LOG-5")
def test_a_footer_is_never_written_and_is_kept_when_read() -> None:
    (block,) = decode_log(framed(0, footer=entry(0, b"bloom")), at="log")
    assert isinstance(block, LogBlock)
    assert block.footer == ((0, b"bloom"),)
    with pytest.raises(InvalidRequestError, match=r"1\.0\.2"):
        encode_block(block)


@covers("LOG-7", "LOG-8", "LOG-9")
@given(st.lists(st.text(max_size=5), max_size=5), st.binary(max_size=9))
def test_records_are_read_without_the_tail(keys: list[str], tail: bytes) -> None:
    records = [bytes([len(key.encode()) * 2]) + key.encode() for key in keys]
    content = encode_avro_content(AvroContent(BLOCK_VERSION, records, tail))
    assert content[:4] == b"\0\0\0\x03"
    found = decode_avro_content(content, at="log")
    assert (list(found.records), found.tail) == (records, tail)
    rows = decode_records(found.records, SCHEMA, at="log")
    assert [row["_hoodie_record_key"] for row in rows] == keys


@pytest.mark.parametrize("cut", range(1, 13))
def test_no_part_of_a_content_is_read_as_a_content(cut: int) -> None:
    content = encode_avro_content(AvroContent(BLOCK_VERSION, [b"\x02a"]))
    assert len(content) == 14
    with pytest.raises(CorruptFileError):
        decode_avro_content(content[:-cut], at="log")


def test_a_content_with_fewer_records_than_it_says_is_damage() -> None:
    content = struct.pack(">iii", BLOCK_VERSION, 2, 3) + b"\x04ab" + b"\0"
    with pytest.raises(CorruptFileError, match="Avro block: expected 2 records, found 1"):
        decode_avro_content(content, at="log")


def test_a_header_that_is_no_text_is_damage() -> None:
    block = LogBlock(BlockKind.AVRO, ((HeaderKey.SCHEMA, b"\xff"),), b"", offset=7)
    with pytest.raises(CorruptFileError, match="log: SCHEMA of the block at 7: expected UTF-8"):
        block.text(HeaderKey.SCHEMA, "log")


@pytest.mark.parametrize("record", [b"", b"\x04a", b"\x02ab", b"\x02a\0"])
def test_a_record_of_another_length_is_damage(record: bytes) -> None:
    with pytest.raises(CorruptFileError, match="Avro records"):
        decode_records([b"\x02a", record], SCHEMA, at="log")


VALUES = {
    "boolean": True,
    "int": -7,
    "long": 1 << 40,
    "float": 0.5,
    "double": 0.1,
    "bytes": b"\1",
    "string": "é",
}


@covers("LOG-9", "LOG-10")
@pytest.mark.parametrize("kind", WRAPPED)
def test_deletes_keep_the_type_of_their_ordering_value(kind: str) -> None:
    written = DeleteContent(
        DELETE_VERSION, [Delete("k", "p=1", kind, VALUES[WRAPPED[kind]]), Delete("l", None)], b"tail"
    )
    content = encode_delete_content(written)
    assert content[:4] == b"\0\0\0\x03"
    found = decode_delete_content(content, at="log")
    assert (found.deletes, found.tail) == (written.deletes, b"tail")
    with pytest.raises(CorruptFileError):
        decode_delete_content(content[: -len(b"tail") - 1], at="log")


@covers("LOG-11")
def test_the_integer_zero_and_null_are_no_ordering_value() -> None:
    kinds = [(None, None), ("Int", 0), ("Int", 1), ("Long", 0), ("String", "")]
    found = [Delete("k", None, kind, value).by_commit_time for kind, value in kinds]
    assert found == [True, True, False, False, False]


def delete_list(key: str | None) -> bytes:
    return encode_delete_content(DeleteContent(DELETE_VERSION, [Delete(cast(str, key), "p")]))


def longer(content: bytes) -> bytes:
    """The content with a byte more in its list, which the length counts."""
    version, length = struct.unpack_from(">ii", content)
    return struct.pack(">ii", version, length + 1) + content[8:] + b"\0"


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (delete_list("k")[:7], "delete block: expected 8 bytes or more, found 7"),
        (longer(delete_list("k")), "delete list length: expected"),
        (delete_list(None), "found a delete without a key"),
    ],
)
def test_damaged_deletes_are_refused(content: bytes, match: str) -> None:
    with pytest.raises(CorruptFileError, match=match):
        decode_delete_content(content, at="log")


@pytest.mark.parametrize("version", [1, 2])
def test_deletes_of_kryo_are_refused_by_name(version: int) -> None:
    with pytest.raises(InvalidRequestError, match="Kryo"):
        decode_delete_content(struct.pack(">ii", version, 0), at="log")


@covers("LOG-12")
@given(st.sets(st.integers(0, 1 << 33), max_size=20))
def test_positions_are_read_back_in_order(positions: set[int]) -> None:
    text = encode_positions(np.array(sorted(positions), np.int64))
    found = decode_positions(text, len(positions), at="log")
    assert found is not None
    assert found.tolist() == sorted(positions)
    assert decode_positions(text, len(positions) + 1, at="log") is None


@pytest.mark.parametrize("text", [b"?", b"AQ", b"AQAAAAAAAAAAAAAA"])
def test_positions_that_are_none_are_damage(text: bytes) -> None:
    with pytest.raises(CorruptFileError):
        decode_positions(text, 1, at="log")


@pytest.mark.parametrize("schema", ['{"type":"fixed","name":"f","size":1}', "{"])
def test_a_schema_that_is_not_of_a_record_is_damage(schema: str) -> None:
    with pytest.raises(CorruptFileError, match="Avro schema: expected that of a record"):
        decode_records([b"a"], schema, at="log")
