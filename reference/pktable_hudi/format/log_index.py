"""The index at the end of a log file: which keys the file has, and which keys the log files before it have.

It is carried where every Hudi reader skips it:

* in an Avro block, as the tail of the content,
* in a Parquet block, as key-value metadata of the Parquet file, whose rows are sorted by key,
* for any other block, as the tail of an empty delete block behind it.

A tail ends right before the end of its block, so that one read of the end of a log file finds it::

    keys       the keys of the file, sorted, and the number of the record of each; compressed
    summary    JSON, then the filters that it names
    trailer    lengths and CRC-32 of both, and a magic

The summary has the range and a bloom filter of the keys of the log file itself (**own**), up to the end of the block,
and of the keys of all log files that it covers (**all**). A log file is **covered** as long as it has the size that the
index names; one that was written or extended since is not. So a reader that asks `all` for covered files, and each
other file by itself, loses no key, whoever wrote in whatever order.

The files of a slice whose keys `all` has are a **clique**. A clique ends when it is full, because a filter that holds
more keys than it is sized for admits everything. The next clique begins with an empty `all` and names the last file of
the clique before (a *chain pointer*) or of all cliques before (a *chain list*).

Clauses: LOG-8, LOG-15, LOG-38 to LOG-41.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pktable.format.avro import COMPRESSOR, ZSTD_DECOMPRESSOR
from pktable.format.bounds import is_file_name, unpacked
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable_hudi.format.avro_content import decode_avro_content, encode_avro_content
from pktable_hudi.format.bloom import SimpleFilter, decode_simple
from pktable_hudi.format.delete_content import (
    DELETE_VERSION,
    DeleteContent,
    encode_delete_content,
)
from pktable_hudi.format.key_summary import KeyCollation, KeySummary, footer_of_summary
from pktable_hudi.format.log_block import BlockKind, HeaderKey, LogBlock

MAGIC: Final = b"pktLIDX1"
ENTRY: Final = b"pktable.log.index"
_TRAILER: Final = struct.Struct(">IIII8s")
_INT: Final = struct.Struct(">I")
_LONG: Final = struct.Struct(">q")
BLOCK_END: Final = 4 + _LONG.size  # the empty footer and the reverse length of a block
LIKELY_BYTES: Final = 32 << 10  # of the end of a log file, which usually has the whole summary
PARQUET_END: Final = 8
KEY: Final = "_hoodie_record_key"

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Member:
    """A log file by its name, and how many of its bytes are meant."""

    name: str
    size: int


@dataclass(frozen=True)
class LogIndex:
    """The index of a log file. ``instants``: those of its data blocks; ``slice``: when its file slice began.

    ``pending``: whether a compaction of the file group was planned when it was written. ``own``: the summary of the
    file's keys, ``all`` that of the keys of all ``members`` and of the file, each None without keys. ``own_count``,
    ``all_count``: how many keys were added. ``members``: the other log files that are covered. ``chain``: the last log
    files of earlier cliques, newest first. ``rolled_back``: the instants that rollback blocks in the members name.
    """

    instants: tuple[str, ...]
    slice: str
    own_count: int = 0
    own: KeySummary | None = None
    all_count: int = 0
    all: KeySummary | None = None
    members: tuple[Member, ...] = ()
    chain: tuple[Member, ...] = ()
    rolled_back: tuple[str, ...] = ()
    pending: bool = False


@dataclass(frozen=True)
class FoundIndex:
    """An index at the end of a log file.

    ``keys_at``: the offset and the size of the sorted keys, None for a Parquet block, whose rows are sorted.
    ``keys_checksum``: the CRC-32 of the keys.
    """

    index: LogIndex
    keys_at: tuple[int, int] | None
    keys_checksum: int = field(default=0, compare=False)


# Writing


def with_index(block: LogBlock, index: LogIndex, keys: Sequence[str]) -> list[LogBlock]:
    """Return ``block`` with its index: one block, or for a delete block two, of which the last one is empty.

    ``keys``: those of the records of the log file, in order, those of the block last. The rows of a Parquet block must
    be sorted by key.
    Clauses: LOG-15, LOG-38, LOG-39.
    """
    if block.kind is BlockKind.AVRO:
        content = decode_avro_content(block.content, at="a new block")
        if content.tail:
            raise InvalidRequestError("the block has an index already")
        tailed = encode_avro_content(replace(content, tail=encode_tail(index, keys)))
        return [replace(block, content=tailed)]
    if block.kind is BlockKind.PARQUET:
        return [replace(block, content=_with_metadata(bytes(block.content), index, keys))]
    tail = encode_tail(index, keys)
    empty = encode_delete_content(DeleteContent(DELETE_VERSION, [], tail))
    header = tuple(entry for entry in block.header if entry[0] in (HeaderKey.INSTANT, HeaderKey.SCHEMA))
    return [block, LogBlock(BlockKind.DELETE, header, empty)]


def encode_tail(index: LogIndex, keys: Sequence[str]) -> bytes:
    """Return the tail of a content. Clauses: LOG-15, LOG-38."""
    sorted_keys, summary = _encoded_keys(keys), encode_summary(index)
    checksums = zlib.crc32(sorted_keys), zlib.crc32(summary)
    trailer = _TRAILER.pack(len(sorted_keys), len(summary), *checksums, MAGIC)
    return sorted_keys + summary + trailer


def _encoded_keys(keys: Sequence[str]) -> bytes:
    encoded = KeyCollation.BYTES.of_all(keys)
    order = sorted(range(len(encoded)), key=encoded.__getitem__)
    lengths = np.array([len(encoded[i]) for i in order], ">u4")
    body = b"".join((lengths.tobytes(), np.array(order, ">u4").tobytes(), *(encoded[i] for i in order)))
    return _INT.pack(len(order)) + bytes(COMPRESSOR.compress(body, COMPRESSOR.FLUSH_FRAME))


def encode_summary(index: LogIndex) -> bytes:
    """Return the summary: JSON behind its length, then the filters."""
    filters: list[bytes] = []

    def part(summary: KeySummary | None, count: int) -> dict[str, Any] | None:
        if summary is None:
            return None
        assert summary.order is KeyCollation.BYTES
        assert isinstance(summary.filter, SimpleFilter)
        filters.append(summary.filter.encode())
        return {"keys": count, "low": summary.low, "high": summary.high, "filter": len(filters[-1])}

    content = {
        "instants": list(index.instants),
        "slice": index.slice,
        "pending": index.pending,
        "own": part(index.own, index.own_count),
        "all": part(index.all, index.all_count),
        "members": [[one.name, one.size] for one in index.members],
        "chain": [[one.name, one.size] for one in index.chain],
        "rolled_back": list(index.rolled_back),
    }
    text = json.dumps(content, separators=(",", ":")).encode()
    return b"".join((_INT.pack(len(text)), text, *filters))


def _with_metadata(content: bytes, index: LogIndex, keys: Sequence[str]) -> bytes:
    """Return a Parquet file with the index in its key-value metadata."""
    table = pq.read_table(pa.BufferReader(content))
    given = table.column(KEY).to_pylist()
    if given != sorted(given, key=KeyCollation.BYTES.of):
        raise InvalidRequestError("a Parquet block with an index has its rows in the order of their keys")
    entries = {**(table.schema.metadata or {}), ENTRY: base64.b64encode(encode_summary(index))}
    if index.own is not None:
        in_java = sorted(keys, key=KeyCollation.JAVA.of)
        entries |= footer_of_summary(KeySummary(in_java[0], in_java[-1], KeyCollation.JAVA, index.own.filter))
    sink = io.BytesIO()
    # Arrow's schema, which Hudi does not know, would have a copy of the metadata.
    with pq.ParquetWriter(sink, table.schema, store_schema=False, write_page_index=True) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(entries)
    return sink.getvalue()


# Reading


def index_at_end(tail: Callable[[int], bytes], size: int, *, at: str) -> FoundIndex | None:
    """Return the index of the last block of a log file; None if that block has none, or is torn.

    ``tail``: returns the last so many bytes of the file. ``size``: of the file. Raises CorruptFileError for an index
    that is damaged. Clauses: LOG-15, LOG-38, LOG-40.
    """
    end = tail(min(size, LIKELY_BYTES))
    if len(end) < BLOCK_END + _TRAILER.size:
        return None
    (reverse,) = _LONG.unpack_from(end, len(end) - _LONG.size)
    offset = size - _LONG.size - reverse
    if offset < 0 or end[-BLOCK_END : -_LONG.size] != b"\0" * 4:
        return None
    inside = end[:-BLOCK_END]
    if inside.endswith(MAGIC):
        return _from_tail(tail, inside, size, offset, at)
    if inside.endswith(b"PAR1"):
        return _from_parquet(tail, inside, size, offset, at)
    return None


def _from_tail(tail: Callable[[int], bytes], inside: bytes, size: int, offset: int, at: str) -> FoundIndex:
    keys_size, summary_size, keys_sum, summary_sum, _ = _TRAILER.unpack_from(
        inside, len(inside) - _TRAILER.size
    )
    behind = BLOCK_END + _TRAILER.size
    needed = summary_size + behind
    if needed + keys_size > size - offset:
        raise CorruptFileError(
            "log index", at=at, expected="an index inside its block", found=f"{needed} bytes"
        )
    if needed > len(inside) + BLOCK_END:
        inside = tail(needed)[:-BLOCK_END]
    start = len(inside) - _TRAILER.size - summary_size
    summary = inside[start : start + summary_size]
    if zlib.crc32(summary) != summary_sum:
        raise CorruptFileError("log index checksum", at=at, expected=summary_sum, found=zlib.crc32(summary))
    keys_at = size - needed - keys_size
    return FoundIndex(decode_summary(summary, at=at), (keys_at, keys_size), keys_sum)


def _from_parquet(
    tail: Callable[[int], bytes], inside: bytes, size: int, offset: int, at: str
) -> FoundIndex | None:
    length = int.from_bytes(inside[-PARQUET_END:-4], "little")
    needed = length + PARQUET_END + BLOCK_END
    if needed > size - offset:
        return None
    if needed > len(inside) + BLOCK_END:
        inside = tail(needed)[:-BLOCK_END]
    try:
        footer = pq.read_metadata(pa.BufferReader(b"PAR1" + inside[-length - PARQUET_END :]))
        text = (footer.metadata or {}).get(ENTRY)
        summary = None if text is None else base64.b64decode(text, validate=True)
    except (pa.ArrowException, OSError, binascii.Error) as error:
        raise CorruptFileError("log index", at=at, expected="Parquet metadata", found=error) from None
    return None if summary is None else FoundIndex(decode_summary(summary, at=at), None)


def decode_summary(data: bytes, *, at: str) -> LogIndex:
    """Return the index that a summary stores, without its keys. Raises CorruptFileError."""
    try:
        (length,) = _INT.unpack_from(data)
        content = json.loads(data[_INT.size : _INT.size + length])
        filters = data[_INT.size + length :]
        parts: list[tuple[int, KeySummary | None]] = []
        for name in ("own", "all"):
            part = content[name]
            if part is None:
                parts.append((0, None))
                continue
            stored, filters = filters[: part["filter"]], filters[part["filter"] :]
            found = decode_simple(stored, at=at)
            parts.append(
                (
                    int(part["keys"]),
                    KeySummary(str(part["low"]), str(part["high"]), KeyCollation.BYTES, found),
                )
            )
        if filters:
            raise ValueError(f"{len(filters)} bytes more")
        (own_count, own), (all_count, everything) = parts
        return LogIndex(
            tuple(map(str, content["instants"])),
            str(content["slice"]),
            own_count,
            own,
            all_count,
            everything,
            _members(content["members"]),
            _members(content["chain"]),
            tuple(map(str, content["rolled_back"])),
            bool(content["pending"]),
        )
    except (struct.error, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError("log index", at=at, expected="a summary", found=error) from None


def _members(given: Any) -> tuple[Member, ...]:
    found = tuple(Member(str(name), int(size)) for name, size in given)
    bad = [one.name for one in found if not is_file_name(one.name)]
    if bad:
        raise ValueError(f"a file name {bad[0]!r}")
    return found


def decode_keys(data: bytes, found: FoundIndex, *, at: str) -> tuple[pa.Array, Numbers]:
    """Return the sorted keys of a log file as strings, and the number of the record of each.

    ``data``: the bytes at ``found.keys_at``. Raises CorruptFileError. Clauses: LOG-15.
    """
    if zlib.crc32(data) != found.keys_checksum:
        raise CorruptFileError(
            "keys of a log index", at=at, expected=found.keys_checksum, found=zlib.crc32(data)
        )
    try:
        (count,) = _INT.unpack_from(data)
        body = unpacked(data[_INT.size :], ZSTD_DECOMPRESSOR())
        lengths = np.frombuffer(body, ">u4", count)
        records = np.frombuffer(body, ">u4", count, 4 * count).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        text = body[8 * count :]
        if offsets[-1] != len(text) or len(text) >= 1 << 31:
            raise ValueError(f"keys of {offsets[-1]} bytes in {len(text)}")
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(text)]
        keys = pa.Array.from_buffers(pa.string(), count, buffers)
        keys.validate(full=True)
    except Exception as error:  # whatever the libraries raise on damaged bytes
        raise CorruptFileError("keys of a log index", at=at, expected="sorted keys", found=error) from None
    return keys, records
