"""Clean a table: delete the files of old file slices that no retained instant needs.

1. **Choose.** A policy says from which instant on the table stays readable: the last N commits, or the instants of the
   last N base files of each file group. An instant that is pending, such as that of a planned compaction or of a
   running write, is retained too. Of each group the slice is kept that is read as of that instant, and all later ones.
2. **Plan.** The names of all other files are put on the timeline together with that instant. From then on reads of
   earlier instants are refused, so nobody reads a slice of which a part is gone.
3. **Execute.** The files are deleted, in any order, by anybody, as often as it takes. Nothing that is retained needs
   them, whatever has been written since: new log files go to the slices that are kept.

Files of commits that are not complete are none of a clean's business; rollbacks delete them.

Clauses: LOG-66 to LOG-69.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pktable.store.file_io import FileIO
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable_hudi.actions import REQUESTED, Actions
from pktable_hudi.format.clean_files import CleanPlan, decode_clean_plan, encode_clean, encode_clean_plan
from pktable_hudi.settings import HudiSettings
from pktable_hudi.slices import FileGroup, FileSlice, all_slices, file_groups, partitions
from pktable_hudi.timeline import CLEAN, Timeline, load_timeline, retained_since

COMMITS, VERSIONS = "KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"
SAVEPOINT: Final = "savepoint"


@dataclass(frozen=True)
class Retention:
    """A rule of what stays. ``policy``: by Hudi's name; ``count``: of commits, or of base files of each group."""

    policy: str
    count: int


@dataclass(frozen=True)
class Cleaner:
    """Cleans the table at ``root``."""

    store: FileIO
    root: str
    settings: HudiSettings
    actions: Actions

    def clean(self, retention: Retention) -> str | None:
        """Finish cleans that died, and do a new one; return its instant, None if there is nothing to delete.

        Raises InvalidRequestError, CorruptFileError, CommitUnknownError. Clauses: LOG-66, LOG-68.
        """
        for instant in self.pending():
            self.execute(instant)
        plan = self.chosen(retention)
        if plan is None:
            return None
        instant = self.actions.begin_clean(encode_clean_plan(plan, self.root))
        self.execute(instant)
        return instant

    def pending(self) -> list[str]:
        """Return the instants of the cleans that are planned and not complete, oldest first."""
        names = self.actions.names()
        done = {one.instant for one in names if not one.state}
        planned = (one.instant for one in names if one.action == CLEAN and one.state == REQUESTED)
        return sorted(one for one in planned if one not in done)

    def chosen(self, retention: Retention) -> CleanPlan | None:
        """Return what a clean would delete now, None if all stays. Raises InvalidRequestError, CorruptFileError."""
        names = self.actions.names()
        if any(one.action == SAVEPOINT for one in names):
            raise InvalidRequestError(f"{self.root}: cleaning keeps no savepoints; delete them with Hudi")
        timeline = load_timeline(self.store, self.root, self.settings)
        retained = retained_since(self.store, self.actions.directory, names)
        return choose(file_groups(self.store, self.root), timeline, self.settings, retention, retained)

    def planned(self, instant: str) -> Mapping[str, Sequence[str]]:
        """Return the names of the files that a clean deletes, by partition; none if it has left the timeline."""
        path = self._path(instant)
        try:
            return decode_clean_plan(self.store.read(path), at=path).files
        except FileNotFoundError:
            return {}

    def _path(self, instant: str) -> str:
        return f"{self.actions.directory}/{instant}.{CLEAN}.{REQUESTED}"

    def execute(self, instant: str) -> None:
        """Execute a planned clean. Raises CorruptFileError, CommitUnknownError. Clauses: LOG-68."""
        path = self._path(instant)
        try:
            data = self.store.read(path)
        except FileNotFoundError:  # withdrawn, or another process has executed it
            return
        plan = decode_clean_plan(data, at=path)
        unknown = set(plan.files) - set(partitions(self.store, self.root))
        if unknown:
            raise CorruptFileError(
                "clean plan", at=path, expected="partitions of the table", found=", ".join(sorted(unknown))
            )
        self.actions.inflight(instant, CLEAN, data)
        for partition, names in plan.files.items():
            for name in names:
                self.store.delete(f"{self.root}/{partition}".rstrip("/") + f"/{name}")
        last = load_timeline(self.store, self.root, self.settings).last
        self.actions.complete_clean(instant, encode_clean(plan, instant, last))


def choose(
    groups: Sequence[FileGroup],
    timeline: Timeline,
    settings: HudiSettings,
    retention: Retention,
    retained: str,
) -> CleanPlan | None:
    """Return which files go, None if all stay. ``retained``: from which instant on the table is readable by now.

    Clauses: LOG-66, LOG-69.
    """
    until = min(timeline.pending, default=timeline.latest)
    if retention.policy == COMMITS and timeline.completed:
        until = min(until, timeline.completed[-retention.count :][0].time)
        retained = max(retained, until)
    replaced = timeline.replaced()
    files: dict[str, list[str]] = {}
    for group in groups:
        slices = all_slices(group, timeline, settings)
        gone = replaced.get((group.partition, group.id), until)
        begin = len(slices) if gone < until else _first_kept(slices, until, retention)
        if begin:
            files.setdefault(group.partition, []).extend(
                name for one in slices[:begin] for name in _names_in(one)
            )
            retained = max(retained, gone if gone < until else slices[begin].instant)
    return CleanPlan(retention.policy, retained, files) if files else None


def _first_kept(slices: Sequence[FileSlice], until: str, retention: Retention) -> int:
    """Return the number of the first slice that stays, with a base file; 0 if all stay.

    ``until``: the slice that is read as of it stays.
    """
    based = [i for i, one in enumerate(slices) if one.instant <= until and one.base is not None]
    count = retention.count if retention.policy == VERSIONS else 1
    return based[-count] if len(based) >= count else 0


def _names_in(slice_: FileSlice) -> list[str]:
    return [one.name for one in (slice_.base, *slice_.logs) if one is not None]
