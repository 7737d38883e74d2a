"""The blocks of a file slice that count, in the order in which their records take effect.

1. Blocks of commits that are not complete, or later than the instant that is read, are left out.
2. A rollback block takes out the blocks before it of the commit that it names.
3. A log compaction merges the blocks of several commits into one block, which names them. It takes the place of the
   latest of them; a block that it names is left out.

Clauses: LOG-3, LOG-25, LOG-26, LOG-27.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable_hudi.format.log_block import BlockKind, DamagedRange, HeaderKey, LogBlock, decode_log
from pktable_hudi.log_damage import DamagedBlock, expect_nothing_lost
from pktable_hudi.timeline import Timeline

ROLLBACK: Final = "0"
WITH_RECORDS: Final = (BlockKind.AVRO, BlockKind.PARQUET, BlockKind.DELETE)


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """A block, its instant, and the path of its log file."""

    block: LogBlock
    instant: str
    at: str


def counting_blocks(files: Iterable[tuple[str, bytes]], timeline: Timeline, until: str) -> list[PlacedBlock]:
    """Return the blocks that count, oldest first.

    ``files``: path and bytes of the log files of a slice, in order. ``until``: the instant that is read.
    Raises CorruptFileError, also if rows of a completed commit are lost, and InvalidRequestError for kinds of blocks
    that are not supported. Clauses: LOG-25, LOG-26, LOG-27, LOG-80.
    """
    by_instant: dict[str, list[PlacedBlock]] = {}  # in the order of their first blocks
    damaged: list[DamagedBlock] = []
    whole: set[str] = set()
    for at, data in files:
        for block in decode_log(data, at=at):
            if isinstance(block, DamagedRange):
                damaged.append(DamagedBlock.of(block, data, at, timeline.settings))
                continue
            instant = block.text(HeaderKey.INSTANT, at)
            if block.kind is BlockKind.COMMAND:
                by_instant.pop(rolled_back(block, at), None)
                continue
            if block.kind not in WITH_RECORDS:
                raise InvalidRequestError(f"{at}: {block.kind.name} blocks in a log file are not supported")
            if not instant:
                raise CorruptFileError(f"block at {block.offset}", at=at, expected="an instant", found="none")
            whole |= instants_of(block, at)
            if instant <= until and timeline.is_completed(instant):
                by_instant.setdefault(instant, []).append(PlacedBlock(block, instant, at))
    expect_nothing_lost(damaged, whole, timeline, until)
    return _in_order(by_instant)


def instants_of(block: LogBlock, at: str) -> set[str]:
    """Return the instants whose records a block has: its own, and those that a log compaction merged into it."""
    merged = block.text(HeaderKey.COMPACTED_INSTANTS, at).split(",")
    return {block.text(HeaderKey.INSTANT, at), *merged} - {""}


def rolled_back(block: LogBlock, at: str) -> str:
    """Return the instant that a command block rolls back. Raises InvalidRequestError for another command."""
    if block.text(HeaderKey.COMMAND, at) != ROLLBACK:
        raise InvalidRequestError(f"{at}: the command of the block at {block.offset} is not supported")
    return block.text(HeaderKey.TARGET_INSTANT, at)


def _in_order(by_instant: dict[str, list[PlacedBlock]]) -> list[PlacedBlock]:
    """Return the blocks in order, those of log compactions in their places. Clauses: LOG-27."""
    merged_into: dict[str, str] = {}
    placed: list[list[PlacedBlock]] = []
    included: set[str] = set()
    for instant in reversed(by_instant):
        first = by_instant[instant][0]
        compacted = first.block.text(HeaderKey.COMPACTED_INSTANTS, first.at)
        if compacted:
            final = merged_into.get(instant, instant)
            merged_into.update(dict.fromkeys(compacted.split(","), final))
            continue
        found = merged_into.get(instant, instant)
        if found not in included:
            included.add(found)
            placed.append(by_instant[found])
    return [block for blocks_ in reversed(placed) for block in blocks_]
