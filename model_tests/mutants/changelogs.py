"""Faults of changelogs that are looked up or kept, and of full compactions after a number of commits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pktable import staging
from pktable.bucket import changelog, compact
from pktable.catalog import change_plan, commit, retention
from pktable.format.metadata.snapshot import Snapshot
from pktable.merge.grouping import Window
from pktable_spec.vocabulary import APPEND

from model_tests.mutants.registry import NOT_PICKED, READ, Mutant, instead, patched, reworded


def _with_vectors_only(looks_up_rows: Any) -> Any:
    return lambda context: context.options.deletion_vectors_enabled and looks_up_rows(context)


def _counting_compactions(delta_commits_after: Any) -> Any:
    """Count a compaction as a commit."""
    return lambda context, snapshots, before, after, kind: delta_commits_after(
        context, snapshots, before, after, APPEND
    )


def _one_more(expired_changelogs: Any) -> Any:
    """Let one more changelog expire than may."""

    def expired(options: Any, snapshots: Iterable[Snapshot], latest: int, now_millis: int) -> Any:
        listed = list(snapshots)
        found = expired_changelogs(options, listed, latest, now_millis)
        return {*found, *(one.id for one in listed[len(found) : len(found) + 1])}

    return expired


MUTANTS = (
    Mutant(
        "L1",
        "without vectors a compaction looks up no row before a change",
        patched((compact, "looks_up_rows", _with_vectors_only)),
        "changes_agree: ",
        ("CHG-5", "CHG-20"),
        twin=True,
    ),
    Mutant(
        "L2",
        "a merge takes a deeper record, which a less deep one holds already",
        patched((Window, "without_deeper", instead(lambda self: self))),
        READ,
        ("CHG-19",),
        twin=True,
        engines=True,
    ),
    Mutant(
        "D3",
        "no full compaction follows, however many commits there are",
        patched((staging, "is_full_compaction_due", instead(lambda context, snapshots, latest: False))),
        NOT_PICKED,
        ("CMP-30",),
    ),
    Mutant(
        "D4",
        "a compaction counts as a commit, and the next full compaction comes too early",
        patched((commit, "delta_commits_after", _counting_compactions)),
        f"{NOT_PICKED}|compaction_took_the_pick: .* was compacted, though",
        ("CMP-30", "META-55"),
    ),
    Mutant(
        "K1",
        "an expiry removes one changelog too many",
        patched((retention, "expired_changelogs", _one_more)),
        "retained_changes_agree: ",
        ("CHG-17", "CHG-22"),
    ),
    Mutant(
        "K2",
        "an expiry deletes the files of changelogs that stay",
        patched((retention, "changes_list", instead(lambda options, snapshot: (None, None)))),
        "retained_changes_agree: ",
        ("CHG-17",),
    ),
    Mutant(
        "K3",
        "changes come bucket by bucket, also where keys move",
        reworded(change_plan, ("if context.moves_keys and", "if False and")),
        "changes_agree: ",
        ("CHG-40",),
    ),
    Mutant(
        "K4",
        "all changes that leave a row come after the others where keys move",
        reworded(changelog, ("np.split(final & adds,", "np.split(adds,")),
        "changes_agree: ",
        ("CHG-40",),
    ),
)
