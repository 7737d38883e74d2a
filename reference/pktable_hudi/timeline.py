"""The timeline of a Hudi table: which actions are complete, and which compactions are only planned.

An action counts once its completed file is there. Old actions are moved to the history. An instant before the first
one of the timeline, and before the history, is therefore complete unless it is known to be pending.

From table version 8 on each action has the time of its completion, which decides to which file slice a log file
belongs. For an action of the history it is read there.

A clean deletes the files of old slices, and says from which instant on the table is readable.

Clauses: LOG-20, LOG-22, LOG-24, LOG-25, LOG-67, LOG-70, LOG-76, LOG-77, LOG-81.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import FileIO
from pktable_spec.errors import CorruptFileError, InvalidRequestError, SnapshotNotFoundError

from pktable_hudi.format.clean_files import decode_clean_plan, decode_retained
from pktable_hudi.format.names import PROPERTIES, InstantName, timeline_file
from pktable_hudi.format.timeline_files import CommitMetadata, decode_commit, decode_compaction_plan
from pktable_hudi.history import History
from pktable_hudi.settings import HudiSettings, properties_as_opened

WRITES: Final = frozenset({"commit", "deltacommit", "replacecommit"})
"""The actions whose completion makes rows visible. A compaction becomes a commit, a clustering a replacecommit."""

PENDING_WRITES: Final = frozenset({*WRITES, "compaction", "logcompaction", "clustering"})
CLEAN: Final = "clean"

Files = TypeVar("Files")


@dataclass(frozen=True, slots=True)
class Instant:
    """A completed write. ``completion``: its own time if the timeline has no other. ``path``: of its metadata."""

    time: str
    action: str
    completion: str
    path: str


class Timeline:
    """The writes of a table, as they were when it was loaded. ``completed``: ascending by time.

    ``planned``: the instant of the planned compaction of a file group, by (partition, file group). ``cleaned``: the
    instants of cleans, complete or not.
    """

    def __init__(
        self,
        store: FileIO,
        root: str,
        settings: HudiSettings,
        completed: Iterable[Instant],
        pending: Mapping[str, str],
        planned: Mapping[tuple[str, str], str],
        cleaned: frozenset[str] = frozenset(),
    ) -> None:
        self.store, self.root, self.settings = store, root, settings
        self.completed = tuple(sorted(completed, key=lambda one: one.time))
        self.pending, self.planned, self.cleaned = dict(pending), dict(planned), cleaned
        self._by_time = {one.time: one for one in self.completed}

    @property
    def first(self) -> str:
        """The first completed instant, empty without one."""
        return self.completed[0].time if self.completed else ""

    @property
    def last(self) -> str:
        """The last completed instant, empty without one."""
        return self.completed[-1].time if self.completed else ""

    @property
    def latest(self) -> str:
        """The instant that a read sees by default: the last completed one, or a planned compaction behind it.

        A commit that was requested before the compaction, and completed after it, is in the slice that begins with it.
        """
        return max(self.last, *self.planned.values()) if self.completed and self.planned else self.last

    def is_completed(self, instant: str) -> bool:
        """Return whether the write of this instant is complete. Clauses: LOG-25, LOG-70."""
        if instant in self._by_time:
            return True
        if self._history is not None and self._history.covers(instant):
            return self._history.completion_of(instant) is not None
        return instant < self.first and instant not in self.pending

    def completion_of(self, instant: str) -> str:
        """Return when a completed write was completed. Clauses: LOG-22."""
        found = self._by_time.get(instant)
        if found is not None:
            return found.completion
        return (self._history.completion_of(instant) if self._history is not None else None) or instant

    def at(self, instant: str) -> Timeline:
        """Return the timeline without the writes behind ``instant``; what is complete stays what it is now."""
        return _Until(self, instant)

    def metadata(self, instant: Instant) -> CommitMetadata:
        """Return the metadata of a completed write, also if it has left the timeline since. Raises CorruptFileError."""
        try:
            data: bytes | None = self.store.read(instant.path)
        except FileNotFoundError:
            data = History(self.store, f"{self.root}/{self.settings.history}").metadata_of(instant.time)
        if data is None:
            raise CorruptFileError("timeline file", at=instant.path, expected="a file", found="none")
        return decode_commit(data, at=instant.path)

    def schema_text(self) -> tuple[str, str]:
        """Return the Avro schema of the latest write that has one, and the path of the file it is in.

        Raises CorruptFileError, InvalidRequestError if there is none, or for a schema that Hudi evolves on read.
        """
        for instant in reversed(self.completed):
            found = self.metadata(instant)
            if found.internal_schema:
                raise InvalidRequestError(
                    f"{instant.path}: schema-on-read (latest_schema) is not supported; rewrite the table without it"
                )
            if found.schema:
                return found.schema, instant.path
        if not self.settings.created_with:
            raise InvalidRequestError(f"{self.root}: the table has no schema yet: nothing was written")
        return self.settings.created_with, f"{self.root}/{PROPERTIES}"

    def last_files(self) -> list[tuple[str, str]]:
        """Return (partition, name) of the files of the last write that has any."""
        written = (self.metadata(instant).written for instant in reversed(self.completed))
        last: Sequence[tuple[str, str, int]] = next(filter(None, written), ())
        return [(partition, path.rpartition("/")[2]) for partition, path, _ in last]

    def replaced(self) -> dict[tuple[str, str], str]:
        """Return when each file group was replaced, by (partition, file group). Clauses: LOG-34."""
        found = {}
        for instant in self.completed:
            if instant.action == "replacecommit":
                found.update(dict.fromkeys(self.metadata(instant).replaced, instant.time))
        return found

    @cached_property
    def _history(self) -> History | None:
        """The history; None for a table whose timeline has no completion times."""
        if not self.settings.has_completion_times:
            return None
        return History(self.store, f"{self.root}/{self.settings.history}")


class _Until(Timeline):
    """A timeline seen as of an instant."""

    def __init__(self, whole: Timeline, instant: str) -> None:
        seen = [one for one in whole.completed if one.time <= instant]
        fields = (
            whole.store,
            whole.root,
            whole.settings,
            seen,
            whole.pending,
            whole.planned,
            whole.cleaned,
        )
        super().__init__(*fields)
        self._whole = whole

    def is_completed(self, instant: str) -> bool:
        return self._whole.is_completed(instant)

    def completion_of(self, instant: str) -> str:
        return self._whole.completion_of(instant)


def load_timeline(store: FileIO, root: str, settings: HudiSettings) -> Timeline:
    """Return the timeline of the table at ``root``, which is the one that was opened with ``settings``.

    Raises CorruptFileError, and as `properties_as_opened`. Clauses: LOG-20, LOG-24, LOG-81.
    """
    directory = f"{root}/{settings.timeline}"
    names = _names(store, directory)
    properties_as_opened(store, root, settings)
    completed = {
        one.instant: Instant(
            one.instant, one.action, one.completion or one.instant, f"{directory}/{one.name}"
        )
        for one in names
        if not one.state and one.action in WRITES
    }
    pending = {
        one.instant: one.action
        for one in names
        if one.state and one.action in PENDING_WRITES and one.instant not in completed
    }
    planned: dict[tuple[str, str], str] = {}
    for one in sorted(names, key=lambda name: name.instant):
        if one.action == "compaction" and one.state == "requested" and one.instant in pending:
            planned.update(dict.fromkeys(_planned(store, directory, one), one.instant))
    return Timeline(store, root, settings, completed.values(), pending, planned, _cleans(names))


def load_with_files(
    store: FileIO, root: str, settings: HudiSettings, listed: Callable[[], Files]
) -> tuple[Timeline, Files]:
    """Return the timeline, and what ``listed`` returns, which lists files, of a time in which no clean began.

    A clean deletes a slice after the compaction that replaces it is complete. A timeline from before that would take
    the new base file for one that is not complete, and see neither. Raises CorruptFileError; SnapshotNotFoundError if
    cleans begin all the time. Clauses: LOG-77.
    """

    def attempt() -> tuple[Timeline, Files]:
        timeline = load_timeline(store, root, settings)
        files = listed()
        if _cleans(_names(store, f"{root}/{settings.timeline}")) <= timeline.cleaned:
            return timeline, files
        raise SnapshotNotFoundError(f"{root}: a list of files without a clean", "none")

    return retry(attempt, on=SnapshotNotFoundError, policy=RetryPolicy())


def expect_retained(store: FileIO, root: str, settings: HudiSettings, instant: str) -> None:
    """Raise SnapshotNotFoundError if a clean deletes files of ``instant``. Clauses: LOG-67."""
    directory = f"{root}/{settings.timeline}"
    retained = retained_since(store, directory, _names(store, directory))
    if instant < retained:
        raise SnapshotNotFoundError(
            f"instant {instant}", f"{retained} and later; the files of others are cleaned"
        )


def cleaned_error(
    timeline: Timeline, instant: str, files: Container[tuple[str, str]]
) -> SnapshotNotFoundError | None:
    """Return the error of a read as of ``instant`` if a clean deletes some of ``files`` since ``timeline`` was loaded.

    ``files``: (partition, name) of each. Raises CorruptFileError. Clauses: LOG-76.
    """
    store, directory = timeline.store, f"{timeline.root}/{timeline.settings.timeline}"
    names = _names(store, directory)
    cleans = [one for one in names if one.action == CLEAN and one.state == "requested"]
    new = [one for one in cleans if one.instant not in timeline.cleaned]
    now = load_timeline(store, timeline.root, timeline.settings)
    if now.first <= instant and not any(_cleans_some(store, f"{directory}/{one.name}", files) for one in new):
        return None
    retained = max(retained_since(store, directory, names), now.first)
    return SnapshotNotFoundError(
        f"instant {instant}", f"{retained} and later; the files of others are cleaned"
    )


def _cleans_some(store: FileIO, path: str, files: Container[tuple[str, str]]) -> bool:
    """Return whether a clean deletes some files; True if its plan has left the timeline since."""
    try:
        plan = decode_clean_plan(store.read(path), at=path)
    except FileNotFoundError:
        return True
    return any((partition, name) in files for partition, names in plan.files.items() for name in names)


def retained_since(store: FileIO, directory: str, names: Sequence[InstantName]) -> str:
    """Return from which instant on a table is readable after its cleans, empty without any.

    A clean counts from its plan on. Raises CorruptFileError. Clauses: LOG-67.
    """
    retained = ""
    for one in names:
        if one.action == CLEAN and one.state != "inflight":
            path = f"{directory}/{one.name}"
            try:
                data = store.read(path)
            except (
                FileNotFoundError
            ):  # it has left the timeline since the listing, and older instants with it
                continue
            retained = max(retained, decode_retained(data, at=path) if data else "")
    return retained


def _cleans(names: Sequence[InstantName]) -> frozenset[str]:
    return frozenset(one.instant for one in names if one.action == CLEAN)


def _names(store: FileIO, directory: str) -> list[InstantName]:
    return [found for name in store.list_names(directory) if (found := timeline_file(name)) is not None]


def _planned(store: FileIO, directory: str, name: InstantName) -> list[tuple[str, str]]:
    path = f"{directory}/{name.name}"
    try:
        plan = decode_compaction_plan(store.read(path), at=path)
        return [(one.partition, one.group) for one in plan]
    except FileNotFoundError:  # it was rolled back since the listing
        return []
