"""The merge engine ``deduplicate``: the newest record of a key wins.

Clauses: MRG-1, MRG-2, MRG-4, MRG-6, MRG-8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from pktable.merge.grouping import Flags, Indices, Window, is_add, taken


class Deduplicate:
    """The `MergeEngine` that keeps the newest record."""

    name: Final = "deduplicate"
    lookup: Final[Literal["position"]] = "position"
    folds_retractions: Final = True
    updates: Final = True

    def __init__(self, ignores_deletes: bool = False) -> None:
        self._ignores_deletes = ignores_deletes
        self.deletes = not ignores_deletes

    def ignored(self, records: pa.Table) -> Flags | None:
        return ~is_add(records) if self._ignores_deletes else None

    def needed(self, columns: Sequence[str]) -> Sequence[str]:
        return columns

    def expect_any_order(self) -> None:
        """Do nothing: the newest record wins."""

    def settled(self, window: Window) -> Sequence[str]:
        return ()

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

    def places(self, chosen: Flags) -> tuple[pa.Table, Indices]:
        return self.window.records, self.winners[chosen]
