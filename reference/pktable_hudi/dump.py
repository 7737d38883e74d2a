"""A log file of Hudi field by field, for `pktable dump`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from pktable.cli.dump import Part

from pktable_hudi.format.log_block import (
    HEADER_KEYS,
    BlockKind,
    DamagedRange,
    HeaderKey,
    LogBlock,
    decode_log,
)


def parts(data: bytes, at: str) -> Iterator[Part]:
    """Yield the fields of a log file, block by block, and its damaged ranges. Raises CorruptFileError."""
    for number, one in enumerate(decode_log(data, at=at), 1):
        if isinstance(one, DamagedRange):
            yield Part(f"range {number}", one.offset, "damaged", f"{one.end - one.offset} bytes: {one.why}")
        else:
            yield from _of_block(one, f"block {number}")


def _of_block(block: LogBlock, part: str) -> Iterator[Part]:
    yield Part(part, block.offset, "kind", f"{int(block.kind)}, {BlockKind(block.kind).name}")
    for where, entries in (("header", block.header), ("footer", block.footer)):
        for key, value in entries:
            name = HeaderKey(key).name if key in HEADER_KEYS else str(key)
            yield Part(part, None, f"{where}.{name}", _shown(value))
    yield Part(part, None, "content", f"{len(block.content)} bytes")


def _shown(value: bytes) -> str:
    with suppress(UnicodeDecodeError):
        return value.decode()
    return value.hex()
