"""Compact file groups: give each a new base file that has the rows of its base file and its log files.

1. **Plan.** An instant is claimed like that of a write, so that every write is either in the plan or completed later.
   A new file slice of each group begins with the plan; writes go on into its log files.
2. **Execute.** The rows of each planned slice are read as of the plan, and written to a base file. Its name follows
   from the plan, and it is created only if it is absent, so a compaction that died is executed again, and two that
   execute one plan write the same files.
3. The compaction is complete with its file on the timeline.

Deleted keys are gone after that, since no log file before the plan is read any more. A file group of which no row is
left has an empty base file: without one the slice before would come back.

Clauses: LOG-22, LOG-24, LOG-60, LOG-61.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pktable.format.arrow_values import declared
from pktable.format.types import to_arrow
from pktable.retry import retry
from pktable.store.file_io import FileIO
from pktable_spec.errors import CommitConflictError, CorruptFileError

from pktable_hudi.actions import COMPACTION, REQUESTED, Actions
from pktable_hudi.format.avro_schema import fields_of
from pktable_hudi.format.names import BaseFileName, LogFileName, base_file, log_file
from pktable_hudi.format.timeline_files import CompactedGroup, decode_compaction_plan
from pktable_hudi.format.timeline_writing import WrittenFile, encode_commit, encode_compaction_plan
from pktable_hudi.group_write import (
    WRITTEN,
    base_content,
    base_name,
    below,
    schema_with_own_columns,
    written_files,
    written_table,
)
from pktable_hudi.pieces import Pieces
from pktable_hudi.scan import OWN_COLUMNS
from pktable_hudi.settings import HudiSettings
from pktable_hudi.slice_read import SliceReader
from pktable_hudi.slices import FileGroup, FileSlice, file_groups, groups_of, slices_at
from pktable_hudi.timeline import load_timeline, load_with_files

COMPACT = "COMPACT"


@dataclass(frozen=True)
class Compactor:
    """Plans and executes compactions of the table at ``root``."""

    store: FileIO
    root: str
    settings: HudiSettings
    actions: Actions
    pieces: Pieces

    def plan(self, fewest_logs: int = 1) -> str | None:
        """Plan a compaction of the file groups with so many log files or more; return its instant, None without any.

        Groups of a compaction that is planned already are left out. Raises InvalidRequestError, CommitConflictError,
        CommitUnknownError. Clauses: LOG-60.
        """
        if not self.chosen(fewest_logs):  # a claim would end writes for nothing
            return None
        return retry(lambda: self._planned(fewest_logs), on=CommitConflictError, policy=self.actions.policy)

    def _planned(self, fewest_logs: int) -> str | None:
        instant = self.actions.begin()
        chosen = self.chosen(fewest_logs, instant)
        if not chosen:
            self.actions.withdraw(instant)
            return None
        self.actions.plan(instant, encode_compaction_plan(chosen))
        return instant

    def chosen(self, fewest_logs: int = 1, instant: str | None = None) -> list[CompactedGroup]:
        """Return what a plan of ``instant``, by default one made now, would take of each file group."""
        timeline, groups = load_with_files(
            self.store, self.root, self.settings, lambda: file_groups(self.store, self.root)
        )
        at = timeline.latest if instant is None else instant
        slices = slices_at(groups, timeline, self.settings, at)
        return [
            CompactedGroup(
                one.partition,
                one.group,
                one.instant,
                one.base.name if one.base else None,
                tuple(log.name for log in one.logs),
                sum(one.sizes[log.name] for log in one.logs),
            )
            for one in slices
            if len(one.logs) >= fewest_logs and (one.partition, one.group) not in timeline.planned
        ]

    def pending(self) -> list[str]:
        """Return the instants of the compactions that are planned and not complete, oldest first."""
        names = self.actions.names()
        done = {one.instant for one in names if not one.state}
        planned = (one for one in names if one.action == COMPACTION and one.state == REQUESTED)
        return sorted(one.instant for one in planned if one.instant not in done)

    def execute(self, instant: str) -> None:
        """Execute a planned compaction. Raises CorruptFileError, CommitUnknownError. Clauses: LOG-61."""
        try:
            self._execute(instant)
        except (CorruptFileError, FileNotFoundError):
            # Another process may have executed it, and a clean may have deleted its files since.
            if not self.actions.is_settled(instant, COMPACTION):
                raise

    def _execute(self, instant: str) -> None:
        path = f"{self.actions.directory}/{instant}.{COMPACTION}.{REQUESTED}"
        plan = decode_compaction_plan(self.store.read(path), at=path)
        self.actions.inflight(instant, COMPACTION)
        timeline = load_timeline(self.store, self.root, self.settings)
        text, at = timeline.schema_text()
        schema = schema_with_own_columns(text)
        fields = fields_of(schema, at=at)
        names = tuple(field.name for field in fields)
        reader = SliceReader(self.store, self.root, self.settings, timeline, instant, fields, names, None)
        groups = {
            (partition, group.id): group
            for partition in {one.partition for one in plan}
            for group in groups_of(self.store, self.root, partition)
        }
        work = [GroupCompaction(reader, schema, i, self._slice(one, groups)) for i, one in enumerate(plan)]
        self._remove_others(instant, work)
        files = written_files(self.pieces.rows(work, WRITTEN))
        content = encode_commit(
            sorted(files, key=lambda one: one.path), schema=text, operation=COMPACT, is_compaction=True
        )
        self.actions.complete_compaction(instant, content)

    def _slice(self, planned: CompactedGroup, groups: dict[tuple[str, str], FileGroup]) -> FileSlice:
        """Return the file slice that a plan names. Raises CorruptFileError if a file of it is missing."""
        group = groups.get((planned.partition, planned.group), FileGroup(planned.partition, planned.group))
        base = _named(planned.base and planned.base.rpartition("/")[2], group, self.root)
        logs = [log_file(name.rpartition("/")[2]) for name in planned.logs]
        found = tuple(sorted((one for one in logs if one is not None), key=lambda one: one.order))
        _expect_there(found, group, self.root)
        return FileSlice(planned.partition, planned.group, planned.base_instant, base, found, group.sizes)

    def _remove_others(self, instant: str, work: Sequence[GroupCompaction]) -> None:
        """Delete base files of the compaction that another engine began; it names them otherwise."""
        ours = {one.name for one in work}
        for partition in {one.slice.partition for one in work}:
            for name in self.store.list_names(f"{self.root}/{partition}".rstrip("/")):
                found = base_file(name)
                if found is not None and found.instant == instant and name not in ours:
                    self.store.delete(f"{self.root}/{below(partition, name)}")


@dataclass(frozen=True)
class GroupCompaction:
    """The compaction of one file group. ``number``: of the group in the plan. ``schema``: with Hudi's own columns."""

    reader: SliceReader
    schema: str
    number: int
    slice: FileSlice

    @property
    def name(self) -> str:
        """The name of the base file."""
        return base_name(self.slice.group, self.number, self.reader.instant)

    def __call__(self) -> Iterator[pa.Table]:
        """Write the base file unless it is there, and yield one row about it. Clauses: LOG-61."""
        reader, slice_ = self.reader, self.slice
        path = below(slice_.partition, self.name)
        schema = pa.schema([(field.name, to_arrow(field.type)) for field in reader.fields])
        rows = pa.concat_tables(
            [schema.empty_table(), *(declared(one, schema) for one in reader.read(slice_))]
        )
        at = rows.schema.get_field_index(OWN_COLUMNS[4])
        rows = rows.set_column(at, OWN_COLUMNS[4], pa.repeat(pa.scalar(self.name), rows.num_rows))
        content = base_content(rows, self.schema)
        reader.store.put_if_absent(f"{reader.root}/{path}", content)
        yield written_table(
            [
                WrittenFile(
                    slice_.partition,
                    slice_.group,
                    path,
                    len(content),
                    rows.num_rows,
                    base=slice_.base.name if slice_.base else "",
                    before=slice_.instant,
                    logs_compacted=len(slice_.logs),
                )
            ]
        )


def _named(name: str | None, group: FileGroup, root: str) -> BaseFileName | None:
    found = base_file(name) if name else None
    if found is not None:
        _expect_there([found], group, root)
    return found


def _expect_there(names: Sequence[BaseFileName | LogFileName], group: FileGroup, root: str) -> None:
    for one in names:
        if one.name not in group.sizes:
            path = f"{root}/{below(group.partition, one.name)}"
            raise CorruptFileError("file of a planned compaction", at=path, expected="a file", found="none")
