"""File slices: which base file and log files hold the rows of each file group as of an instant.

A **file group** is a set of keys of a partition that stay together. Each compaction gives it a new base file, with
which a new **file slice** begins; log files hold the changes since.

Before table version 8 a log file names the base file it belongs to. From version 8 on it names its own commit, and
belongs to the latest slice that began no later than that commit was completed.

A planned compaction begins a slice too, before its base file exists. Until then its log files are read together with
the slice before.

A slice may have no base file: some writers put the first rows of a group into a log file.

Clauses: LOG-19, LOG-22, LOG-23, LOG-24, LOG-25, LOG-33, LOG-34.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pktable.store.file_io import FileIO
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable_hudi.format.names import DIRECTORY, BaseFileName, LogFileName, base_file, log_file
from pktable_hudi.settings import HudiSettings
from pktable_hudi.timeline import Timeline

PARTITION_FILE: Final = ".hoodie_partition_metadata"
PARQUET: Final = "parquet"
DEEPEST: Final = 32


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A base file and its log files, oldest first. ``instant``: when the slice began. ``sizes``: bytes by name."""

    partition: str
    group: str
    instant: str
    base: BaseFileName | None = None
    logs: tuple[LogFileName, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict, hash=False, compare=False)

    @property
    def size_bytes(self) -> int:
        """The size of its files."""
        return sum(self.sizes[one.name] for one in (self.base, *self.logs) if one is not None)

    def path(self, root: str, name: str) -> str:
        """Return the path of one of its files."""
        return f"{root}/{self.partition}/{name}" if self.partition else f"{root}/{name}"


@dataclass
class FileGroup:
    """All files of a file group: base files by instant, and log files in order."""

    partition: str
    id: str
    bases: dict[str, BaseFileName] = field(default_factory=dict)
    logs: list[LogFileName] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)


def file_groups(store: FileIO, root: str, below: Sequence[str] | None = None) -> list[FileGroup]:
    """Return the file groups of some partitions of the table at ``root``, None for all, from listings of directories.

    Raises CorruptFileError for directories inside each other without end. Clauses: LOG-19.
    """
    found = partitions(store, root) if below is None else below
    return [group for partition in found for group in groups_of(store, root, partition)]


def partitions(store: FileIO, root: str) -> list[str]:
    """Return the partitions of the table, as paths below it; the only one of a table without partitions is empty."""
    return sorted(_partitions(store, root, "", 0))


def _partitions(store: FileIO, root: str, below: str, depth: int) -> Iterator[str]:
    directory = f"{root}/{below}".rstrip("/")
    if depth > DEEPEST:
        raise CorruptFileError("partition", at=directory, expected=f"at most {DEEPEST} levels", found="more")
    names = store.list_names(directory)
    if any(name == PARTITION_FILE or name.startswith(f"{PARTITION_FILE}.") for name in names):
        yield below
        return
    files = {one.name for one in store.list_files(directory)}
    for name in names:
        if name not in files and name != DIRECTORY and not name.startswith("."):
            yield from _partitions(store, root, f"{below}/{name}".strip("/"), depth + 1)


def groups_of(store: FileIO, root: str, partition: str) -> list[FileGroup]:
    """Return the file groups of a partition, sorted. Raises InvalidRequestError for base files of another format."""
    groups: dict[str, FileGroup] = {}

    directory = f"{root}/{partition}".rstrip("/")
    sizes = {one.name: one.size for one in store.list_files(directory)}

    def group(of: BaseFileName | LogFileName) -> FileGroup:
        found = groups.setdefault(of.group, FileGroup(partition, of.group))
        found.sizes[of.name] = sizes.get(of.name, 0)  # a link has none; the store sees where it leads
        return found

    for name in sorted(store.list_names(directory)):
        if log := log_file(name):
            group(log).logs.append(log)
        elif base := base_file(name):
            if base.format in ("orc", "hfile"):
                raise InvalidRequestError(
                    f"{directory}/{name}: base files of {base.format} are not supported"
                )
            if base.format == PARQUET:
                group(base).bases[base.instant] = base
    for found in groups.values():
        found.logs.sort(key=lambda one: one.order)
    return sorted(groups.values(), key=lambda one: one.id)


def slices_at(
    groups: Sequence[FileGroup],
    timeline: Timeline,
    settings: HudiSettings,
    instant: str,
    *,
    read_optimized: bool = False,
) -> list[FileSlice]:
    """Return the file slice of each file group as of ``instant``, those without files left out.

    ``read_optimized``: base files only, of the latest compaction. Clauses: LOG-33, LOG-34.
    """
    replaced = timeline.at(instant).replaced()
    found = []
    for group in groups:
        if (group.partition, group.id) in replaced:
            continue
        slice_ = (
            _latest_base(group, timeline, instant)
            if read_optimized
            else _at(group, timeline, settings, instant)
        )
        if slice_ is not None and (slice_.base or slice_.logs):
            found.append(slice_)
    return found


def _latest_base(group: FileGroup, timeline: Timeline, instant: str) -> FileSlice | None:
    found = max((one for one in _visible_bases(group, timeline) if one <= instant), default=None)
    if found is None:
        return None
    return FileSlice(group.partition, group.id, found, group.bases[found], (), group.sizes)


def _at(group: FileGroup, timeline: Timeline, settings: HudiSettings, instant: str) -> FileSlice | None:
    """Return the latest slice that began no later than ``instant``. Clauses: LOG-24."""
    slices = all_slices(group, timeline, settings)
    begun = [one for one in slices if one.instant <= instant]
    if not begun:
        return None
    latest = begun[-1]
    if (
        latest.base is None
        and latest.instant == timeline.planned.get((group.partition, group.id))
        and begun[1:]
    ):
        before = begun[-2]
        latest = replace(before, logs=tuple(sorted({*before.logs, *latest.logs}, key=lambda one: one.order)))
    if settings.has_completion_times:  # others say in their blocks which commit wrote them
        latest = replace(latest, logs=tuple(one for one in latest.logs if one.instant <= instant))
    return latest


def all_slices(group: FileGroup, timeline: Timeline, settings: HudiSettings) -> list[FileSlice]:
    """Return the slices of a file group, oldest first; that of a planned compaction has no base file.

    Clauses: LOG-22, LOG-23, LOG-25.
    """
    bases = _visible_bases(group, timeline)
    planned = timeline.planned.get((group.partition, group.id))
    slices: dict[str, list[LogFileName]] = {one: [] for one in bases}
    if planned is not None:
        slices[planned] = []
    for log in group.logs:
        begin = log.instant
        if settings.has_completion_times:
            if not timeline.is_completed(log.instant):
                continue
            completion = timeline.completion_of(log.instant)
            begin = max((one for one in slices if one <= completion), default=log.instant)
        elif begin != planned and not timeline.is_completed(begin):
            continue
        slices.setdefault(begin, []).append(log)
    return [
        FileSlice(
            group.partition,
            group.id,
            begin,
            group.bases[begin] if begin in bases else None,
            tuple(logs),
            group.sizes,
        )
        for begin, logs in sorted(slices.items())
    ]


def writing_slice(group: FileGroup, timeline: Timeline, settings: HudiSettings, instant: str) -> FileSlice:
    """Return the slice that a log file of ``instant`` would go to, with all log files that are there by now.

    Those of commits that are not complete belong to it, too. Clauses: LOG-24, LOG-45.
    """
    latest = _at(group, timeline, settings, instant) or FileSlice(group.partition, group.id, instant)
    open_ = [one for one in group.logs if not timeline.is_completed(one.instant)]
    logs = {*latest.logs, *(open_ if settings.has_completion_times else ())}
    return replace(latest, logs=tuple(sorted(logs, key=lambda one: one.order)), sizes=group.sizes)


def _visible_bases(group: FileGroup, timeline: Timeline) -> set[str]:
    return {one for one in group.bases if timeline.is_completed(one)}
