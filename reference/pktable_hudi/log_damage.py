"""Damaged ranges of log files: what a writer that died has left, or rows of a completed commit that are lost.

Readers skip a torn block, because its writer died before its commit was complete, or wrote the block again behind it
or to another file. If its commit is complete and no whole block of that commit is in the file slice, rows are lost.
Such a slice is neither read nor compacted: a compaction would remove the file, and with it the sign of the loss.

Clauses: LOG-2, LOG-3, LOG-80.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from pktable_spec.errors import CorruptFileError

from pktable_hudi.format.log_block import DamagedRange, instant_of_damaged
from pktable_hudi.format.names import log_file
from pktable_hudi.settings import HudiSettings
from pktable_hudi.timeline import Timeline

LOG: Final = logging.getLogger("pktable")


@dataclass(frozen=True, slots=True)
class DamagedBlock:
    """A damaged range of the log file ``at``. ``instant``: of its commit, None if nothing says it."""

    range: DamagedRange
    at: str
    instant: str | None

    @classmethod
    def of(cls, damaged: DamagedRange, data: bytes, at: str, settings: HudiSettings) -> DamagedBlock:
        """Return a damaged range of ``data`` with its instant. From table version 8 on the name of a file says it."""
        instant = instant_of_damaged(data, damaged)
        if instant is None and settings.has_completion_times:
            parts = log_file(at.rpartition("/")[2])
            instant = parts.instant if parts else None
        return cls(damaged, at, instant)

    @property
    def what(self) -> str:
        return f"block at {self.range.offset}"

    @property
    def found(self) -> str:
        return f"{self.range.end - self.range.offset} bytes that are no block: {self.range.why}"

    def is_lost(self, whole: Collection[str], timeline: Timeline) -> bool:
        """Return whether rows of a completed commit are lost. ``whole``: the instants of which there are blocks."""
        return self.instant is not None and self.instant not in whole and timeline.is_completed(self.instant)


def expect_nothing_lost(
    damaged: Iterable[DamagedBlock], whole: Collection[str], timeline: Timeline, until: str
) -> None:
    """Raise CorruptFileError if a read as of ``until`` lacks rows of a completed commit; warn of other damage.

    Clauses: LOG-3, LOG-80.
    """
    for one in damaged:
        if one.instant is not None and one.instant > until:
            continue
        if one.is_lost(whole, timeline):
            expected = f"the rows of the completed commit {one.instant}"
            raise CorruptFileError(one.what, at=one.at, expected=expected, found=one.found)
        LOG.warning("%s: %s: skipped %s", one.at, one.what, one.found)
