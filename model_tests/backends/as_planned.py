"""A compaction that is committed as it was planned, or not at all: for checks of what a commit refuses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from pktable.catalog.changes import CatalogChange, CommitId, Conflicts
from pktable.catalog.commit import Staged
from pktable.staged import StagedCompaction


def commit_as_planned(staged: StagedCompaction, commit_id: CommitId) -> Conflicts:
    """Make all of a compaction of a table with keys visible, or discard it; return the conflicts, none if committed."""
    change: Any = staged.change()
    if change is None:
        return {}
    whole = _Whole(replace(change, partly=False), staged)
    staged.stager.committer.commit(whole, commit_id)
    return whole.refused


@dataclass
class _Whole(Staged):
    """A compaction that is given up when it is refused."""

    one: CatalogChange
    staged: StagedCompaction
    refused: Conflicts = field(default_factory=dict)

    @property
    def base(self) -> Any:
        return self.staged.base

    @property
    def failure(self) -> tuple[str, str, str]:
        return "compaction", "it was refused", "nothing of it is visible"

    def change(self) -> CatalogChange | None:
        return None if self.refused else self.one

    def refuse(self, refused: Conflicts) -> None:
        self.refused = refused
        self.discard()

    def plan_again(self, state: Any) -> None:
        """Plan nothing."""

    def discard(self) -> None:
        self.staged.discard()
