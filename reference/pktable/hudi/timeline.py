"""The timeline of a Hudi table: which actions are complete, and which compactions are only planned.

An action counts once its completed file is there. Old actions are moved to the history; an instant before the first
one of the timeline is therefore complete unless it is known to be pending.

From table version 8 on each action has the time of its completion, which decides to which file slice a log file
belongs. For an action of the history it is read there.

Clauses: LOG-20, LOG-22, LOG-24, LOG-25.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.format.bounds import is_file_name
from pktable.format.hudi.names import PROPERTIES, InstantName, timeline_file
from pktable.format.hudi.timeline_files import CommitMetadata, decode_commit, decode_compaction_plan
from pktable.hudi.settings import HudiSettings
from pktable.store.file_io import FileIO

WRITES: Final = frozenset({"commit", "deltacommit", "replacecommit"})
"""The actions whose completion makes rows visible. A compaction becomes a commit, a clustering a replacecommit."""

PENDING_WRITES: Final = frozenset({*WRITES, "compaction", "logcompaction", "clustering"})
VERSION_FILE, MANIFEST = "_version_", "manifest_"


@dataclass(frozen=True, slots=True)
class Instant:
    """A completed write. ``completion``: its own time if the timeline has no other. ``path``: of its metadata."""

    time: str
    action: str
    completion: str
    path: str


class Timeline:
    """The writes of a table, as they were when it was loaded. ``completed``: ascending by time.

    ``planned``: the instant of the planned compaction of a file group, by (partition, file group).
    """

    def __init__(
        self,
        store: FileIO,
        root: str,
        settings: HudiSettings,
        completed: Iterable[Instant],
        pending: Mapping[str, str],
        planned: Mapping[tuple[str, str], str],
    ) -> None:
        self._store, self._root, self._settings = store, root, settings
        self.completed = tuple(sorted(completed, key=lambda one: one.time))
        self.pending, self.planned = dict(pending), dict(planned)
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
        """Return whether the write of this instant is complete. Clauses: LOG-25."""
        return instant in self._by_time or (instant < self.first and instant not in self.pending)

    def completion_of(self, instant: str) -> str:
        """Return when a completed write was completed. Clauses: LOG-22."""
        found = self._by_time.get(instant)
        return found.completion if found else self._archived.get(instant, instant)

    def at(self, instant: str) -> Timeline:
        """Return the timeline without the writes behind ``instant``; what is complete stays what it is now."""
        return _Until(self, instant)

    def metadata(self, instant: Instant) -> CommitMetadata:
        """Return the metadata of a completed write. Raises CorruptFileError."""
        return decode_commit(self._read(instant.path), at=instant.path)

    def schema_text(self) -> tuple[str, str]:
        """Return the Avro schema of the latest write that has one, and the path of the file it is in.

        Raises CorruptFileError, InvalidRequestError for a schema that Hudi evolves on read.
        """
        for instant in reversed(self.completed):
            found = self.metadata(instant)
            if found.internal_schema:
                raise InvalidRequestError(
                    f"{instant.path}: schema-on-read (latest_schema) is not supported; rewrite the table without it"
                )
            if found.schema:
                return found.schema, instant.path
        return self._settings.created_with, f"{self._root}/{PROPERTIES}"

    def replaced(self) -> dict[tuple[str, str], str]:
        """Return when each file group was replaced, by (partition, file group). Clauses: LOG-34."""
        found = {}
        for instant in self.completed:
            if instant.action == "replacecommit":
                found.update(dict.fromkeys(self.metadata(instant).replaced, instant.time))
        return found

    def _read(self, path: str) -> bytes:
        try:
            return self._store.read(path)
        except FileNotFoundError:
            raise CorruptFileError("timeline file", at=path, expected="a file", found="none") from None

    @cached_property
    def _archived(self) -> dict[str, str]:
        """When the writes of the history were completed; empty for a table that has none."""
        directory = f"{self._root}/{self._settings.history}"
        names = self._store.list_names(directory) if self._settings.has_completion_times else []
        if VERSION_FILE not in names:
            return {}
        version = self._read(f"{directory}/{VERSION_FILE}").decode("ascii", "replace").strip()
        manifest = f"{directory}/{MANIFEST}{version}"
        found: dict[str, str] = {}
        for name in _names_in(self._read(manifest), manifest):
            path = f"{directory}/{name}"
            try:
                times = pq.read_table(
                    pa.BufferReader(self._read(path)), columns=["instantTime", "completionTime"]
                )
            except (pa.ArrowException, OSError, ValueError) as error:
                raise CorruptFileError("history", at=path, expected="instants", found=error) from None
            found.update(zip(times[0].to_pylist(), times[1].to_pylist(), strict=True))
        return found


class _Until(Timeline):
    """A timeline seen as of an instant."""

    def __init__(self, whole: Timeline, instant: str) -> None:
        seen = [one for one in whole.completed if one.time <= instant]
        super().__init__(whole._store, whole._root, whole._settings, seen, whole.pending, whole.planned)
        self._whole = whole

    def is_completed(self, instant: str) -> bool:
        return self._whole.is_completed(instant)

    def completion_of(self, instant: str) -> str:
        return self._whole.completion_of(instant)


def load_timeline(store: FileIO, root: str, settings: HudiSettings) -> Timeline:
    """Return the timeline of the table at ``root``. Raises CorruptFileError. Clauses: LOG-20, LOG-24."""
    directory = f"{root}/{settings.timeline}"
    names = [found for name in store.list_names(directory) if (found := timeline_file(name)) is not None]
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
    return Timeline(store, root, settings, completed.values(), pending, planned)


def _planned(store: FileIO, directory: str, name: InstantName) -> list[tuple[str, str]]:
    path = f"{directory}/{name.name}"
    try:
        plan = decode_compaction_plan(store.read(path), at=path)
        return [(one.partition, one.group) for one in plan]
    except FileNotFoundError:  # it was rolled back since the listing
        return []


def _names_in(manifest: bytes, at: str) -> list[str]:
    try:
        content: Any = json.loads(manifest)
        names = [str(one["fileName"]) for one in content["files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError("manifest of the history", at=at, expected="files", found=error) from None
    for name in names:
        if not is_file_name(name):
            raise CorruptFileError("file name", at=at, expected="a name without a path", found=name)
    return names
