"""The merge engine ``deduplicate``: the newest record of a key wins.

Clauses: MRG-1, MRG-2, MRG-4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from pktable.merge.grouping import Flags, Indices, Window, taken


class Deduplicate:
    """The `MergeEngine` that keeps the newest record."""

    name: Final = "deduplicate"
    lookup: Final[Literal["position", "values"]] = "position"

    def fold(self, window: Window) -> Selected:
        return Selected(window, window.newest)


@dataclass(frozen=True, slots=True)
class Selected:
    """A fold that selects one record of each key. ``winners``: k row numbers of the window's records."""

    window: Window
    winners: Indices

    def adds(self) -> Flags:
        return self.window.adds()[self.winners]

    def rows(self, chosen: Flags | None = None) -> pa.Table:
        return taken(self.window.records, self.winners if chosen is None else self.winners[chosen])
