"""The merge engine ``first-row``: the oldest record of a key wins, and deletions are refused or ignored.

Levels above 0 hold each key once. A compaction leaves out the level-0 records of keys that an older file has.

Clauses: DV-24, MRG-8, MRG-12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError

from pktable.merge.deduplicate import Selected
from pktable.merge.engine_options import ENGINE, IGNORE_DELETE, SEQUENCE_FIELD, VECTORS, EngineOptions
from pktable.merge.grouping import Flags, Window, is_add

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
