"""The index at the end of a log file: its bytes, where it is carried, and that every reader skips it."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pktable_hudi.format.avro_content import decode_avro_content
from pktable_hudi.format.bloom import filter_of
from pktable_hudi.format.delete_content import decode_delete_content
from pktable_hudi.format.key_summary import (
    BLOOM,
    BLOOM_KIND,
    GREATEST,
    LEAST,
    KeyBatch,
    KeyCollation,
    KeySummary,
    summary_of_footer,
)
from pktable_hudi.format.log_block import BlockKind, LogBlock, decode_log, encode_block
from pktable_hudi.format.log_index import (
    ENTRY,
    FoundIndex,
    LogIndex,
    Member,
    decode_keys,
    decode_summary,
    encode_tail,
    index_at_end,
    with_index,
)
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from model_tests.hudi.made_tables import MadeTable, instant, row

KEYS = st.text(min_size=1, max_size=4)
MEMBERS = st.lists(
    st.builds(Member, st.from_regex(r"\.g_[0-9]{14}\.log\.1_0-0-0", fullmatch=True), st.integers(0, 9)),
    max_size=2,
)


def summary(keys: list[str]) -> KeySummary | None:
    if not keys:
        return None
    made = filter_of([key.encode() for key in keys], sized_for=len(keys), false_positives=0.01)
    return KeySummary(
        min(keys, key=KeyCollation.BYTES.of), max(keys, key=KeyCollation.BYTES.of), KeyCollation.BYTES, made
    )


@st.composite
def indexes(draw: st.DrawFn) -> tuple[LogIndex, list[str]]:
    keys = draw(st.lists(KEYS, max_size=5))
    everything = keys + draw(st.lists(KEYS, max_size=3))
    return (
        LogIndex(
            (instant(1),) if keys else (), instant(0), len(keys), summary(keys), len(everything), summary(everything),
            tuple(draw(MEMBERS)), tuple(draw(MEMBERS)), (instant(3),) * draw(st.integers(0, 1)), draw(st.booleans()),
        ),
        keys,
    )  # fmt: skip


def found_in(data: bytes) -> FoundIndex | None:
    return index_at_end(lambda count: data[len(data) - count :], len(data), at="log")


def same(first: LogIndex, second: LogIndex) -> bool:
    """Whether two indexes are equal. Filters hold arrays, which have no equality of their own."""
    return encode_tail(first, []) == encode_tail(second, [])


@covers("LOG-15", "LOG-38")
@given(indexes(), st.sampled_from([BlockKind.AVRO, BlockKind.DELETE, BlockKind.COMMAND]))
def test_an_index_is_found_by_the_end_of_its_file(made: tuple[LogIndex, list[str]], kind: BlockKind) -> None:
    index, keys = made
    content = {BlockKind.AVRO: b"\0\0\0\3\0\0\0\0", BlockKind.DELETE: b"\0\0\0\3\0\0\0\1\0"}.get(kind, b"")
    blocks = with_index(LogBlock(kind, ((0, b"1"),), content), index, keys)
    data = b"".join(map(encode_block, blocks))
    found = found_in(data)
    assert found is not None
    assert same(found.index, index)
    assert found.keys_at is not None
    offset, size = found.keys_at
    stored, records = decode_keys(data[offset : offset + size], found, at="log")
    assert stored.to_pylist() == sorted(keys, key=str.encode)
    assert [keys[i] for i in records] == stored.to_pylist()
    last = blocks[-1]
    decode = decode_avro_content if last.kind is BlockKind.AVRO else decode_delete_content
    assert bytes(decode(last.content, at="log").tail) == encode_tail(index, keys)
    assert (last.kind is BlockKind.DELETE) == (kind is not BlockKind.AVRO)


@covers("LOG-15", "LOG-39")
def test_a_parquet_block_has_the_index_in_its_metadata(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t")
    keys = ["a", "\uff5e", "\U0001f600"]  # ordered by their bytes, and not as Java does
    block = table.parquet(1, [row(key, 1, 1) for key in keys])
    index = LogIndex((instant(1),), instant(0), 3, summary(keys), 3, summary(keys))
    (made,) = with_index(block, index, keys)
    data = encode_block(made)
    found = found_in(data)
    assert found is not None
    assert same(found.index, index)
    assert found.keys_at is None
    metadata = pq.read_metadata(pa.BufferReader(made.content)).metadata
    assert set(metadata) == {ENTRY, BLOOM, BLOOM_KIND, LEAST, GREATEST}
    stored = summary_of_footer(metadata, at="log")
    assert stored is not None
    assert (stored.low, stored.high, stored.order) == ("a", "\uff5e", KeyCollation.JAVA)
    assert len(stored.among(KeyBatch(keys))) == 3
    assert pq.read_table(pa.BufferReader(made.content)).equals(pq.read_table(pa.BufferReader(block.content)))
    with pytest.raises(InvalidRequestError, match="order"):
        with_index(table.parquet(1, [row("b", 1, 1), row("a", 1, 1)]), index, ["b", "a"])


@covers("LOG-39", "LOG-40")
@pytest.mark.parametrize("damage", ["no Base64", "no footer"])
def test_a_parquet_block_with_a_damaged_index_is_refused(damage: str) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"k": ["a"]}).replace_schema_metadata({ENTRY: b"?"}), sink)
    content = sink.getvalue()
    if damage == "no footer":
        content = content[:4] + b"\xff" * 9 + struct.pack("<i", 9) + b"PAR1"
    with pytest.raises(CorruptFileError, match="log index: expected Parquet metadata"):
        found_in(encode_block(LogBlock(BlockKind.PARQUET, (), content)))


@covers("LOG-40")
@given(indexes(), st.data())
def test_no_part_of_a_file_is_taken_for_its_end(
    made: tuple[LogIndex, list[str]], data: st.DataObject
) -> None:
    index, keys = made
    (block,) = with_index(LogBlock(BlockKind.AVRO, ((0, b"1"),), b"\0\0\0\3\0\0\0\0"), index, keys)
    whole = encode_block(block)
    cut = data.draw(st.integers(1, len(whole)))
    assert found_in(whole[:-cut]) is None
    assert found_in(whole + whole[: data.draw(st.integers(1, len(whole) - 1))]) is None


def test_every_changed_byte_of_an_index_is_found_or_takes_the_index_away() -> None:
    keys = ["a", "b"]
    index = LogIndex((instant(1),), instant(0), 2, summary(keys), 2, summary(keys), (Member("x", 3),))
    (block,) = with_index(LogBlock(BlockKind.AVRO, (), b"\0\0\0\3\0\0\0\0"), index, keys)
    whole = encode_block(block)
    start = len(whole) - len(encode_tail(index, keys)) - 12
    for i in range(start, len(whole) - 8):
        damaged = whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :]
        try:
            found = found_in(damaged)
            if found is not None:
                assert same(found.index, index)
                assert found.keys_at is not None
                offset, size = found.keys_at
                decode_keys(damaged[offset : offset + size], found, at="log")
                raise AssertionError(f"byte {i} of {len(whole)} changes nothing")
        except CorruptFileError:
            continue


def test_a_damaged_summary_or_list_of_keys_is_refused_for_what_is_wrong() -> None:
    content: dict[str, object] = {
        "own": None,
        "all": None,
        "instants": [],
        "slice": instant(0),
        "members": [],
        "chain": [],
    }
    text = json.dumps({**content, "rolled_back": [], "pending": False}).encode()
    stored = struct.pack(">i", len(text)) + text
    index = decode_summary(stored, at="log")
    assert index == LogIndex((), instant(0))
    with pytest.raises(CorruptFileError, match="2 bytes more"):
        decode_summary(stored + b"xx", at="log")
    for body, message in (
        (struct.pack(">II", 3, 0) + b"ab", "keys of 3 bytes in 2"),
        (struct.pack(">II", 2, 0) + b"\xff\xfe", "expected sorted keys"),
    ):
        data = struct.pack(">i", 1) + zstandard.compress(body)
        with pytest.raises(CorruptFileError, match=message):
            decode_keys(data, FoundIndex(index, (0, len(data)), zlib.crc32(data)), at="log")


CHANGES: list[Callable[[LogIndex], LogIndex]] = [
    lambda index: replace(index, members=(Member("../x", 1),)),
    lambda index: replace(index, chain=(Member("", 1),)),
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_index_names_files_without_a_path(change: Callable[[LogIndex], LogIndex]) -> None:
    index = change(LogIndex((), instant(0)))
    (block,) = with_index(LogBlock(BlockKind.AVRO, (), b"\0\0\0\3\0\0\0\0"), index, [])
    with pytest.raises(CorruptFileError, match="log index"):
        found_in(encode_block(block))


def test_an_index_is_put_once() -> None:
    (block,) = with_index(LogBlock(BlockKind.AVRO, (), b"\0\0\0\3\0\0\0\0"), LogIndex((), ""), [])
    with pytest.raises(InvalidRequestError, match="already"):
        with_index(block, LogIndex((), ""), [])


@covers("LOG-8", "LOG-38")
def test_rows_are_the_same_with_and_without_an_index(tmp_path: Path) -> None:
    tables = [MadeTable(tmp_path / name) for name in ("with", "without")]
    for table, has_index in zip(tables, (True, False), strict=True):
        table.base(1, [row("a", 1, 1), row("b", 1, 1)])
        table.commit(1)
        blocks = [
            (table.data(2, [row("a", 2, 2), row("c", 2, 2)]), ["a", "c"]),
            (table.parquet(3, [row("c", 3, 3), row("d", 3, 3)]), ["c", "d"]),
            (table.deletes(4), []),
        ]
        for number, (block, keys) in enumerate(blocks, 2):
            table.log(number, *(table.index(number, block, keys) if has_index else [block]))
            table.commit(number)
    assert tables[0].rows() == tables[1].rows() == {"a": 2, "b": 1, "c": 3, "d": 3}
    assert tables[0].open().check().findings == []
    indexed = [found_in(path.read_bytes()) for path in sorted(tables[0].root.glob(".g_*"))]
    assert all(indexed)
    assert not any(found_in(path.read_bytes()) for path in tables[1].root.glob(".g_*"))
    for path in tables[0].root.glob(".g_*"):
        assert all(
            isinstance(one, LogBlock) and not one.footer for one in decode_log(path.read_bytes(), at="log")
        )
