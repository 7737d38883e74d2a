"""A compaction that is committed as it was planned, or not at all: for checks of what a commit refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pktable.catalog.changes import CommitId, Conflicts
from pktable.staged import StagedCompaction


def commit_as_planned(staged: StagedCompaction, commit_id: CommitId) -> Conflicts:
    """Make all of a compaction of a table with keys visible, or discard it; return the conflicts, none if committed."""
    change: Any = staged.change()
    if change is None:
        return {}
    outcome = staged.stager.committer.commit(replace(change, partly=False), commit_id, staged.base)
    if outcome.refused:
        staged.discard()
    return outcome.refused
