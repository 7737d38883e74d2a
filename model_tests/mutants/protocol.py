"""Faults of the protocol by which commits, expiries, rollbacks and clean-ups agree.

Histories do not show them, because nothing happens between two operations of a table there. Each has a script that
tells a run of the simulation in which it shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from pktable import staged_write
from pktable.catalog import (
    branch_names,
    branches,
    changes,
    commit,
    earlier_commits,
    fast_forward,
    fences,
    publish,
    retention,
    rollback,
    snapshots,
)
from pktable.catalog.changes import Compaction
from pktable.catalog.fast_forward import FastForward
from pktable.catalog.fences import FenceLog
from pktable.catalog.holds import Consumers
from pktable.catalog.isolation import Isolation
from pktable.catalog.kept_changelogs import KeptChangelogs
from pktable.catalog.publish import Publisher
from pktable.catalog.retention import Expiry
from pktable.catalog.snapshots import SnapshotLog
from pktable.check import orphans, readable_snapshots, repair
from pktable.kinds.primary_key import PrimaryKeyTables

from model_tests.mutants import protocol_faults as faults
from model_tests.mutants.registry import Fault, Mutant, instead, patched, reworded
from model_tests.simulation.explore import BadRun, played
from model_tests.simulation.scheduler import Run
from model_tests.simulation.tables import FEW, ROWS_WITH_IDS, USUAL, Job, Setting

NOT_THERE = "SimulationError: acknowledged, but never there"
MISSING = ".*expected a file, f"
PUT_AFTER = "SimulationError: snapshot 11 was put after snapshot"
READ_AFTER = "SimulationError: snapshot \\d+ was read, and was not there"
REMOVED = ".*was removed, and no fence had ended it"


@dataclass(frozen=True)
class ProtocolMutant(Mutant):
    """A fault of the protocol. ``jobs``: what each actor does, ``script``: how they take turns so that it shows.

    ``setting``: of the table.
    """

    jobs: Mapping[str, Job] = field(default_factory=dict)
    script: tuple[str, ...] = ()
    setting: Setting = USUAL

    def run(self) -> Run | BadRun:
        """Return the run of its script."""
        return played(dict(self.jobs), self.script, self.setting)


def jobs_of(text: str) -> dict[str, Job]:
    """Return the jobs of a text such as ``a: write, tag; b: expire``."""
    named = (one.split(": ") for one in text.split("; "))
    return {name: Job(tuple(kinds.split(", "))) for name, kinds in named}


def _mutant(
    number: int,
    title: str,
    change: Fault,
    clause: str,
    jobs: str,
    script: str,
    found_by: str,
    setting: Setting = USUAL,
) -> ProtocolMutant:
    """Return a mutant. ``jobs``: see `jobs_of`; ``script``: sentences after one another."""
    sentences = tuple(script.split("; "))
    if not found_by.startswith((".*", "SimulationError: ")):
        found_by = f"SimulationError: {found_by}"
    return ProtocolMutant(
        f"P{number:02}",
        title,
        change,
        found_by,
        (clause,),
        jobs=jobs_of(jobs),
        script=sentences,
        setting=setting,
    )


PUT, FENCED, LISTED_TAGS = "past put_if_absent snapshot-", "past put_if_absent fence-", "past list_names tag"
LOOKED = "past list_names fence"
NEVER = instead(lambda *_: False)
NONE = instead(lambda *_: [])
OTHERS = "expire as others do"
BESIDE_ROLLBACK, RACE = "a: write only; b: roll back as others do", "a to put_if_absent snapshot-; b; a"
ROLLED_BACK = "return self._take_back(snapshot)\n        if not others:"
OVERTAKEN = "a: write only; b: write only, write only, expire most"

PROTOCOL = (
    _mutant(
        1, "a committer does not look at the fences", patched((Publisher, "outcome", faults.no_look)), "CMT-37",
        OVERTAKEN, "a to put_if_absent snapshot-; b; a", NOT_THERE,
    ),
    _mutant(
        2, "a fence names ids and no snapshots", patched((FenceLog, "put", faults.fence_without_names)),
        "CMT-35",
        OVERTAKEN, "a to put_if_absent snapshot-; b; a", "SimulationError: left by work that went well",
    ),
    _mutant(
        3, "a put without an answer is taken for a failure",
        patched((Publisher, "after_error", faults.error_is_failure)), "CMT-38",
        "a: write only", "a lose put_if_absent snapshot-", MISSING,
    ),
    _mutant(
        4, "readers do not look at the fences", patched((FenceLog, "hides", NEVER)), "CMT-36",
        "a: rollback 2; b: read", f"a {FENCED}; b; a", READ_AFTER,
    ),
    _mutant(
        5, "an expiry does not keep what tags need",
        patched((Expiry, "needed_by_tag", instead(lambda *_: set()))),
        "CMT-27",
        "a: expire", "a", MISSING,
    ),
    _mutant(
        6, "two processes remove a snapshot that was rolled back",
        reworded(
            fences,
            (
                "        if not put_once(self._store, path, data):\n"
                "            return False\n",
                "        put_once(self._store, path, data)\n",
            ),
        ),
        "CMT-43", "a: rollback 1; b: write only", "a to delete snapshot-; b; a", REMOVED,
    ),
    _mutant(
        7, "a snapshot that no fence names is taken for none",
        patched((FenceLog, "ended_as", faults.false_for_unknown)), "CMT-39",
        f"a: write only; b: write only, {OTHERS}, write only, expire most", f"a {PUT}; b; a", MISSING,
    ),
    _mutant(
        8, "a file of which nothing is known is taken for a snapshot",
        patched((FenceLog, "ended_as", faults.true_for_unknown)), "CMT-39",
        f"a: write only; b: write only, write only, {OTHERS}, write only, expire most",
        "a to put_if_absent snapshot-; b; a", NOT_THERE,
    ),
    _mutant(
        9, "an expiry removes what strays name", reworded(
            retention,
            (
                "return [one for one in found if self._snapshots.fences.ended_as(fence, one)]",
                "return found",
            ),
        ), "CMT-40",
        f"{OVERTAKEN}; c: write only, expire most", f"a to put_if_absent snapshot-; b; a {PUT}; c; a", MISSING,
    ),
    _mutant(
        10, "an expiry leaves the files of an interrupted one", reworded(
            retention,
            (
                "return [one for one in found if self._snapshots.fences.ended_as(fence, one)]",
                "return []",
            ),
        ), "CMT-40",
        "a: expire most", f"a {FENCED}; a crash before delete snapshot-", "files that an expiry left",
    ),
    _mutant(
        11, "an expiry leaves the snapshot files of an interrupted one",
        reworded(
            retention,
            (
                "sorted(one for one in self._snapshots.listed() if one <= fence.expired)",
                "sorted(one.id for one in old)",
            ),
        ), "CMT-40",
        "a: expire most", f"a {FENCED}; a crash before delete snapshot-", "snapshot files that an expiry left",
    ),
    _mutant(
        12, "a read by id does not look at the fences", reworded(
            snapshots,
            (
                "if found is None or self.fences.hides(self.fences.newest(), found):",
                "if found is None:",
            ),
        ), "CMT-36",
        "a: rollback 2; b: read", f"a {FENCED}; b; a", READ_AFTER,
    ),
    _mutant(
        13, "the maker of a tag does not look after it",
        reworded(retention, ("lost = self._snapshots.expired_error(kept)", "lost = None")),
        "CMT-17",
        "a: tag middle; b: expire most", "a to put_if_absent tag-; b; a", MISSING,
    ),
    _mutant(
        14, "the copier of a tag does not look after it",
        reworded(retention, ("lost = self._snapshots.expired_error(kept, tag)", "lost = None")),
        "CMT-17",
        "a: rollback to tag; b: untag", "a to put_if_absent tag-; b; a", MISSING,
    ),
    _mutant(
        15, "old files are listed after the metadata is read", reworded(
            orphans,
            (
                "        old = _old_files(context, older_than_millis)\n",
                "",
            ),
            (
                "        paths = {path for _",
                "        old = _old_files(context, older_than_millis)\n"
                "        paths = {path for _",
            ),
        ),
        "CMT-49",
        "a: clean; b: write only",
        "a past list_names tag; a past list_names tag; a past list_names tag; b; a", MISSING,
    ),
    _mutant(
        16, "a committer does not look for expiries without fences",
        reworded(
            publish,
            (
                "if base is None or (is_base_there and not has_expired):",
                "if True:",
            ),
        ), "CMT-41",
        f"a: write only; b: write only, write only, {OTHERS}", "a to put_if_absent snapshot-; b; a", NOT_THERE,
    ),
    _mutant(
        17, "a rollback removes the oldest first", reworded(rollback, (", reverse=True)", ")")), "CMT-45",
        "a: rollback 2", "a", "snapshot 9 was removed before snapshot 10",
    ),
    _mutant(
        18, "an expiry removes the newest first", reworded(
            retention,
            (
                "map(self._context.paths.snapshot, ended)", "map(self._context.paths.snapshot, reversed(ended))",
            ),
        ), "CMT-16",
        "a: expire most", "a", "snapshot 9 was removed before snapshot 8",
    ),
    _mutant(
        19, "a snapshot stays that was committed while a rollback began",
        patched((FenceLog, "is_rolled_back", faults.own_snapshots_only)), "CMT-42",
        "a: rollback 2; b: write only", f"a to put_if_absent fence-; b {PUT}; a {FENCED}; b; a",
        "SimulationError: snapshot 10 was removed before snapshot 11",
    ),
    _mutant(
        20, "files are removed before the fence is put", reworded(
            fences,
            (
                "        fence = replace(fence, number=after.number + 1, writer=str(uuid.uuid4()))\n",
                "        fence = replace(fence, number=after.number + 1, writer=str(uuid.uuid4()))\n"
                "        for one in sorted(fence.ended):\n"
                "            self._store.delete(self._paths.snapshot(one))\n",
            ),
        ), "CMT-35",
        "a: expire", "a", REMOVED,
    ),
    _mutant(
        21, "a fence replaces another of its number", reworded(
            fences,
            (
                "            raise FenceTakenError\n"
                "        self.expect_opened_or_remove(path, data)\n"
                "        newest",
                "            self._store.write(self._paths.fence(fence.number), encode_fence(fence))\n"
                "        newest",
            ),
        ), "CMT-44",
        "a: rollback 1; b: expire most", "a to put_if_absent fence-; b; a", REMOVED,
    ),
    _mutant(
        22, "a snapshot claims a fence that its base does not know",
        reworded(commit, ("fence=fence.number,", "fence=self.snapshots.fences.newest().number,")), "CMT-42",
        "a: write only; b: rollback 2",
        "a past write bucket-; b; a", PUT_AFTER,
    ),
    _mutant(
        23, "a commit is built on a snapshot that was rolled back",
        reworded(
            commit,
            (
                "return not self.snapshots.fences.hides(fence, state.snapshot)",
                "return True",
            ),
            ("fence = self.snapshots.fences.recent()", "fence = self.snapshots.fences.newest()"),
        ), "CMT-46",
        "a: write only; b: rollback 2", "a to write bucket-; b; a", PUT_AFTER,
    ),
    _mutant(
        24, "a reader looks at the fences before it reads", reworded(
            snapshots,
            (
                "        is_followed, found, seen = together(",
                "        early = self.fences.newest()\n        is_followed, found, seen = together(",
            ),
            ("self.fences.hides(seen or self.fences.newest(), found)", "self.fences.hides(early, found)"),
        ),
        "CMT-36",
        "a: write only; b: read; c: rollback 1; d: write only",
        "d to put_if_absent snapshot-; a; b past list_names fence; c; d past put_if_absent snapshot-; b; d",
        ".*a read of the latest",
    ),
    _mutant(
        25, "a hint is believed", reworded(
            snapshots,
            ("if not found or is_followed:", "if not found:"),
        ), "CMT-13",
        "a: write only; b: read", "a to write LATEST; b; a", ".*a read of the latest",
    ),
    _mutant(
        26, "what tags need is read before what snapshots need",
        reworded(
            retention,
            (
                "        needed = self._snapshots.retry_on_latest(self._needed_by_retained)\n",
                "        needed: set[str] = set()\n",
            ),
            (
                "        return needed\n\n    def _needed_by(",
                "        return needed | self._snapshots.retry_on_latest(self._needed_by_retained)\n\n"
                "    def _needed_by(",
            ),
        ), "CMT-31",
        "a: write only, expire; b: tag middle; c: full, expire most",
        f"a {FENCED}; a {LISTED_TAGS}; b; c; a", MISSING,
    ),
    _mutant(
        27, "what is needed is read before the snapshots are removed",
        reworded(
            retention,
            (
                "        self._needed_by_all()  # finds",
                "        kept = [one for one in self._snapshots.retained() if one not in old]\n"
                "        kept += map(self._snapshots.by_tag, self._snapshots.tags())\n"
                "        candidates = candidates.difference(*map(self.needed_files, kept))  # finds",
            ),
            (
                "        self._remove(candidates)\n",
                "        remove_quietly(self._context.store, sorted(candidates))\n",
            ),
        ),
        "CMT-31", "a: expire most; b: tag middle", "a to put_if_absent fence-; b; a", MISSING,
    ),
    _mutant(
        28, "a tag takes the files of a rolled-back snapshot with it",
        reworded(
            retention,
            (
                "if tagged is not None and fences.is_rolled_back(fences.newest(), tagged):",
                "if False:",
            ),
        ),
        "CMT-52", "a: write only; b: rollback 1; c: tag for a while",
        f"b to put_if_absent fence-; a {PUT}; c to delete tag-; b; c; a", MISSING,
    ),
    _mutant(
        29, "a clean-up removes by name what was rolled back",
        reworded(orphans, ("    if snapshot_id is None or snapshot_id <= fence.expired:", "    if True:")),
        "CMT-43",
        "a: rollback 1; b: clean; c: write only",
        "a crash before put_if_absent removed-; b to delete snapshot-; c; b", REMOVED,
    ),
    _mutant(
        30, "a clean-up removes the file that says who removes",
        reworded(orphans, ("if removed is not None and removed <= fence.expired:", "if removed is not None:")),
        "CMT-43",
        "a: rollback 1", "a crash before delete snapshot-", "expected the orphans",
    ),
    _mutant(
        31, "an interrupted put is taken for a failure",
        patched((Publisher, "after_error", faults.interrupt_is_failure)), "CMT-38",
        "a: write only", "a interrupt after put_if_absent snapshot-", MISSING,
    ),
    _mutant(
        32, "a committer leaves its stray",
        reworded(publish, ("if found == snapshot:  # a stray", "if False:  # a stray")), "CMT-37",
        OVERTAKEN, "a to put_if_absent snapshot-; b; a", "left by work that went well",
    ),
    _mutant(
        33, "an interrupted commit removes its files",
        patched((staged_write.StagedWrite, "commit_append", faults.removes_after_an_interrupt)),
        "CMT-39", "a: write only", "a interrupt after put_if_absent snapshot-", MISSING,
    ),
    _mutant(
        34, "a read by time takes the first snapshot since",
        patched((SnapshotLog, "as_of", faults.as_of_any)), "RD-17",
        "a: read by time", "a", ".*a read of the time",
    ),
    _mutant(
        35, "a repair ends what is no stray", reworded(
            repair,
            (
                "    if earliest is None or earliest not in ids or earliest - 1 in ids:\n"
                "        return []\n",
                "    earliest = ids[-1]\n",
            ),
        ), "CMT-50",
        "a: repair", "a", "fence 2, of a work to repair",
    ),
    _mutant(
        36, "a walk down the snapshots does not see that some have expired",
        reworded(
            snapshots,
            (
                "return [one for one in reversed(found) if one.id > expired or one is latest]",
                "return found[::-1]",
            ),
        ), "CMT-1",
        "a: expire", "a crash before delete snapshot-", "SimulationError: there are",
    ),
    _mutant(
        37, "a write is committed again under its identifier",
        reworded(earlier_commits, ("if wanted not in self._seen:", "if True:")),
        "CMT-53", "a: write only",
        "a lose put_if_absent snapshot-; a interrupt before read snapshot-; a", "write 6 was committed twice",
    ),
    _mutant(
        38, "a commit whose base another writer has rolled back says that it succeeded",
        reworded(publish, (ROLLED_BACK, ROLLED_BACK.replace("self._take_back(snapshot)", "Verdict.COMMITTED"))),
        "CMT-41", BESIDE_ROLLBACK, RACE, NOT_THERE,
    ),
    _mutant(
        39, "a commit whose base another writer has rolled back leaves its snapshot file and begins again",
        reworded(publish, (ROLLED_BACK, ROLLED_BACK.replace("self._take_back(snapshot)", "Verdict.LOST"))),
        "CMT-41", BESIDE_ROLLBACK, RACE, ".*snapshots: expected snapshot-10, found none",
    ),
    _mutant(
        40, "an UPDATE is committed though another write has changed its rows",
        patched((Isolation, "conflicts", instead(lambda *_: {}))), "STM-6",
        "a: update; b: write only", RACE, ".*: expected the writes",
    ),
    _mutant(
        41, "a write that is renumbered records its changes twice",
        patched((PrimaryKeyTables, "renumber", faults.logged_twice)), "CHG-11",
        "a: write only; b: write only", RACE, "changes of key", Setting(producer="input"),
    ),
    _mutant(
        42, "a compaction records no changes",
        patched((Compaction, "delta", faults.without_changelog)), "CHG-11",
        "a: write only; b: compact", "a; b", "the changes after snapshot", Setting(producer="lookup"),
    ),
    _mutant(
        43, "a base that a fence has ended shows that the id was free",
        reworded(
            publish,
            (
                "if base is None or (is_base_there and not has_expired):",
                "if base is None or has_expired or is_base_there:",
            ),
        ), "CMT-41",
        f"a: write only; b: write only, expire most, write only, write only, {OTHERS}",
        "a to put_if_absent snapshot-; b; a", NOT_THERE,
    ),
    _mutant(
        44, "a commit that has expired before its writer has looked is taken for one that came too late",
        reworded(
            publish,
            ("if self._snapshots.file(snapshot.id) != snapshot:", "if False:"),
        ), "CMT-41",
        f"a: write only; b: write only, write only, {OTHERS}", f"a {PUT}; b; a", MISSING,
    ),
    _mutant(
        45, "a fence counts that was put under a number which was free again",
        reworded(
            fences,
            (
                "        newest, numbers = self._listed()\n"
                "        old = [number for number in numbers if _is_old(number, newest)]\n"
                "        remove_quietly(self._store, [self._paths.fence(number) for number in old])\n"
                "        if not _is_old(fence.number, newest):\n"
                "            return fence\n"
                "        if not newest.continues(fence):  # its number had been free again\n"
                "            raise FenceTakenError\n"
                "        return newest\n",
                "        if fence.number > KEPT:\n"
                "            remove_quietly(self._store, [self._paths.fence(fence.number - KEPT)])\n"
                "        return fence\n",
            ),
            ("    return number <= newest.number - KEPT\n", "    return False\n"),
        ), "CMT-57",
        f"a: rollback 1; b: {', '.join(['expire one'] * (FEW + 1))}", "a to put_if_absent fence-; b; a", REMOVED,
        Setting(kept=FEW),
    ),
    _mutant(
        46, "an expiry does not look at consumers",
        patched((Consumers, "first_needed", instead(lambda *_: None))), "CMT-59",
        "a: consume, expire most", "a", "snapshot 9 was removed, which consumer-a had not read",
    ),
    _mutant(
        47, "a rollback does not look at consumers",
        reworded(rollback, ("        self._expect_unread(target)\n", "")), "CMT-60",
        "a: consume, consume, rollback 1", "a", "a rollback to snapshot 9 ended what consumer-a had read",
    ),
    _mutant(
        48, "the maker of a consumer does not look after it",
        reworded(retention, ("            self._expect_changes_of(next_snapshot)\n", "")), "CMT-59",
        "a: consume; b: expire most", "a to put_if_absent consumer-; b; a", "a consumer was to read snapshot 9, which",
    ),
    _mutant(
        49, "an expiry does not keep what branches need",
        reworded(
            retention, ("others = len(needed), other_branches(store, paths)", "others = len(needed), ()")
        ), "CMT-34",
        "a: branch, expire most", "a", MISSING,
    ),
    _mutant(
        50, "branches are read before the tags that they are made from",
        reworded(
            retention,
            (
                "        needed = self._needed_here()\n        for",
                "        needed: set[str] = set()\n        for",
            ),
            (
                "                break\n        return needed\n",
                "                break\n        return needed | self._needed_here()\n",
            ),
        ), "CMT-34",
        "a: expire most; b: branch",
        f"b to write branch-; a {FENCED}; a past list_names branch; b; a", MISSING,
    ),
    _mutant(
        51, "a clean-up does not keep what branches need",
        reworded(readable_snapshots, ("in (*others, paths):", "in (paths,):")), "CMT-48",
        "a: branch, expire most", "a", "expected the orphans",
    ),
    _mutant(
        52, "an expiry does not keep changelogs", patched((KeptChangelogs, "put", NEVER)), "CHG-17",
        "a: expire most", "a", "the changelog of snapshot 7 is gone", Setting(changelogs=6),
    ),
    _mutant(
        53, "an expiry removes changelogs that a consumer has not read",
        reworded(retention, ("if unread is None or one.id < unread]", "]")), "CMT-59",
        "a: consume, write only, write only, expire most", "a",
        "the changelog of snapshot 6 was removed, which consumer-a", Setting(changelogs=6),
    ),
    _mutant(
        54, "rows of several writes get the same ids",
        reworded(changes, ("next_row_id + file.row_count", "next_row_id")), "APP-24",
        "a: write only, write only", "a", "an id of several rows", Setting(kind=ROWS_WITH_IDS),
    ),
    _mutant(
        55, "a snapshot is older than the one before it",
        reworded(
            commit,
            (
                "max(self.clock(), state.snapshot.time_millis if state.snapshot else 0)",
                "self.clock()",
            ),
        ), "RD-17",
        "a: write only; b: write only; c: write only; d: write only", "a; b; c; d",
        "snapshot 1\\d is older than snapshot", Setting(jumps=True),
    ),
    _mutant(
        56, "the maker of a branch keeps its snapshot by no tag",
        reworded(
            branches,
            (
                "            expiry.make_tag(hold, snapshot)\n",
                "            self._old = self._catalog.snapshots.read(snapshot)\n",
            ),
            ("data = self._store.read(at)", "data = self._store.read(self._paths.snapshot(self._old.id))"),
            ("kept = decode_snapshot(data, at=at)", "kept = self._old"),
            ("self._finish(paths, claim, hold)", "self._finish(paths, claim)"),
        ), "BRN-6",
        "a: make old branch; b: expire most", "a to put_if_absent schema-0; b; a", MISSING,
    ),
    _mutant(
        57, "a fast-forward keeps its snapshots by no consumers",
        patched((FastForward, "held", instead(lambda _: nullcontext()))), "BRN-10",
        "a: make branch, write on branch, write on branch, full on branch, fast forward; b: expire on branch",
        "a to put_if_absent t/snapshot/snapshot-; b; a", MISSING,
    ),
    _mutant(
        58, "a fast-forward looks at nothing that was committed since",
        reworded(
            fast_forward,
            ("if not any(one.id == at and is_same_snapshot(one, latest) for one in found):", "if False:"),
        ), "BRN-11",
        "a: make branch, write on branch, write on branch, write only, fast forward", "a",
        "snapshot 12 is older than snapshot 11",
    ),
    _mutant(
        59, "an expiry on a branch does not keep what the main branch needs",
        reworded(branch_names, ("if paths.branch is None else [*found, paths.of_branch(None)]", "")),
        "BRN-7", "a: make old branch, write on branch, full on branch, expire on branch", "a", MISSING,
    ),
    _mutant(
        60, "a commit does not see that its branch was removed",
        reworded(publish, ("if may_be_gone and", "if False and")), "BRN-9",
        "a: make branch, remove branch, full, expire most; b: write on branch",
        "a past put_if_absent schema-0; b to put_if_absent snapshot-; a; b", MISSING,
    ),
)  # fmt: skip

WITH_OTHERS = tuple(
    map(
        jobs_of,
        (
            f"a: write; b: write only, write only, {OTHERS}",
            f"a: expire most; b: write only, {OTHERS}",
            "a: write only; b: roll back as others do",
        ),
    )
)
"""Jobs at the same time as those who put no fences, for all runs with one preemption."""
