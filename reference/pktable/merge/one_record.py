"""The merge engines that keep one record of a key as it is.

* ``deduplicate``: the newest record wins.
* ``first-row``: the oldest record wins, and deletions are refused or ignored. Levels above 0 hold each key once: a
  compaction leaves out the level-0 records of keys that an older file has.

Clauses: DV-24, MRG-1, MRG-2, MRG-4, MRG-6, MRG-8, MRG-12.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError

from pktable.merge.engine_options import ENGINE, IGNORE_DELETE, SEQUENCE_FIELD, VECTORS, EngineOptions
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


NAME: Final = "first-row"


class FirstRow:
    """The `MergeEngine` that keeps the oldest record."""

    name: Final = NAME
    lookup: Final[Literal["presence"]] = "presence"
    folds_retractions: Final = True
    deletes: Final = False
    updates: Final = False

    def __init__(self, options: EngineOptions) -> None:
        if options.flag(VECTORS):
            raise UnsupportedOptionError(ENGINE, NAME, f"another engine, or {VECTORS}=false")
        self._ignores_deletes = options.ignores_deletes

    def ignored(self, records: pa.Table) -> Flags | None:
        return ~is_add(records) if self._ignores_deletes else None

    def needed(self, columns: Sequence[str]) -> Sequence[str]:
        return columns

    def expect_any_order(self) -> None:
        raise UnsupportedOptionError(ENGINE, NAME, f"an engine that {SEQUENCE_FIELD} works with")

    def settled(self, window: Window) -> Sequence[str]:
        return ()

    def fold(self, window: Window) -> Selected:
        if not window.adds()[window.order].all():
            raise InvalidRequestError(
                f"option {ENGINE}={NAME}: rows cannot be deleted (-U, -D); set {IGNORE_DELETE}=true to ignore it"
            )
        return Selected(window, window.order[window.starts])
