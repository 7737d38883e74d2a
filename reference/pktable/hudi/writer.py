"""Write to a Hudi table: upserts and deletes as commits on its timeline.

A write goes like this:

1. The rows are checked and brought to the table's columns. Whatever is wrong with them, nothing is written.
2. An instant is claimed, and every other write that is not complete is ended (`actions`).
3. The keys are looked up, and each row is given to a file group (`placing`).
4. One file per file group is written (`group_write`).
5. The write is decided to be complete, and its completed file is written.

A write that another writer has ended in between begins again at 2. One that fails is rolled back; one whose process
dies is rolled back by the next writer.

Clauses: LOG-49 to LOG-64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pktable_spec.errors import CommitConflictError, CommitUnknownError

from pktable.format.hudi.avro_schema import fields_of
from pktable.format.hudi.timeline_writing import WrittenFile, encode_commit
from pktable.hudi.actions import DELTA_COMMIT, Actions
from pktable.hudi.archiving import Archiver
from pktable.hudi.cleaning import Cleaner
from pktable.hudi.compaction import Compactor
from pktable.hudi.group_write import WRITTEN, GroupWrite, schema_with_own_columns, written_files
from pktable.hudi.incoming import Incoming, incoming, partition_numbers
from pktable.hudi.index_writer import DEFAULT, IndexPolicy
from pktable.hudi.lookup import SliceLookup
from pktable.hudi.pieces import Pieces
from pktable.hudi.placing import Share, WriteOptions, placed, tagged
from pktable.hudi.settings import HudiSettings
from pktable.hudi.slices import PARTITION_FILE, FileGroup, FileSlice, groups_of, slices_at, writing_slice
from pktable.hudi.timeline import Timeline, load_timeline
from pktable.hudi.writable import users, write_settings
from pktable.retry import RetryPolicy, retry
from pktable.store.file_io import FileIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UPSERT, DELETE = "UPSERT", "DELETE"
BASE_BYTES: Final = 4
"""How many times smaller rows are in a base file than in memory, roughly."""

PATIENT: Final = RetryPolicy(first_wait=0.02)
"""A write takes some hundredths of a second, in which another writer should not end it."""


@dataclass(frozen=True)
class Writer:
    """Writes to the table at ``root``. ``clock``: milliseconds since 1970. ``new_id``: a new name, never the same."""

    store: FileIO
    root: str
    settings: HudiSettings
    clock: Callable[[], int]
    new_id: Callable[[], str]
    session: SparkSession | None = None
    options: WriteOptions = field(default_factory=WriteOptions)
    index: IndexPolicy = DEFAULT
    policy: RetryPolicy = PATIENT

    def upsert(self, rows: Any) -> str | None:
        """Write rows; return the instant of the commit, None if there are none.

        Raises InvalidRequestError, CommitConflictError, CommitUnknownError. Clauses: LOG-50, LOG-54, LOG-58.
        """
        return self._write(rows, deletes=False)

    def delete(self, keys: Any) -> str | None:
        """Delete the rows of ``keys``, rows of the key columns; return the instant, None if none of them is there.

        Raises as `upsert`. Clauses: LOG-62.
        """
        return self._write(keys, deletes=True)

    def _write(self, rows: Any, *, deletes: bool) -> str | None:
        found = write_settings(self.store, self.root)
        schema, at = load_timeline(self.store, self.root, self.settings).schema_text()
        fields = users(fields_of(schema, at=at))
        given = incoming(rows, fields, self.settings, hive_style=found.hive_style, deletes=deletes)
        if not len(given.keys):
            return None
        attempt = _Attempt(self, self.actions(utc=found.utc), schema, given, deletes)
        return retry(attempt.run, on=CommitConflictError, policy=self.policy)

    def actions(self, *, utc: bool) -> Actions:
        """Return the writer of the timeline."""
        timeline, history = (f"{self.root}/{one}" for one in (self.settings.timeline, self.settings.history))
        return Actions(self.store, self.root, timeline, history, utc, self.clock, self.policy)

    def compactor(self) -> Compactor:
        """Return what plans and executes compactions."""
        actions = self.actions(utc=write_settings(self.store, self.root).utc)
        return Compactor(self.store, self.root, self.settings, actions, Pieces(self.session))

    def cleaner(self) -> Cleaner:
        """Return what cleans."""
        actions = self.actions(utc=write_settings(self.store, self.root).utc)
        return Cleaner(self.store, self.root, self.settings, actions)

    def archiver(self) -> Archiver:
        """Return what moves old actions into the history."""
        actions = self.actions(utc=write_settings(self.store, self.root).utc)
        return Archiver(self.store, actions)

    def roll_back(self) -> list[str]:
        """End every write that is not complete; return the instants that were rolled back. Clauses: LOG-51, LOG-53."""
        actions = self.actions(utc=write_settings(self.store, self.root).utc)
        before = set(load_timeline(self.store, self.root, self.settings).pending)
        actions.withdraw(actions.begin())
        return sorted(before - {one.instant for one in actions.names()})


@dataclass(frozen=True)
class _Attempt:
    """One attempt at a write."""

    writer: Writer
    actions: Actions
    schema: str
    given: Incoming
    deletes: bool

    def run(self) -> str | None:
        """Return the instant, None if nothing is to be written. Raises CommitConflictError."""
        instant = self.actions.begin()
        try:
            writes = self._planned(instant)
            if not writes:
                self.actions.withdraw(instant)
                return None
            operation = DELETE if self.deletes else UPSERT
            content = encode_commit([], schema="", operation=operation)
            self.actions.inflight(instant, DELTA_COMMIT, content)
            files = self._written(writes)
            content = encode_commit(files, schema=self.schema, operation=operation)
            self.actions.complete(instant, content)
        except CommitConflictError:
            self.actions.delete_files(
                instant
            )  # also those written after another writer rolled the write back
            raise
        except CommitUnknownError:
            raise
        except Exception:
            if not self.actions.end(instant):
                raise
        return instant

    def _planned(self, instant: str) -> list[GroupWrite]:
        """Return what is to be written, by file group. Clauses: LOG-54, LOG-55."""
        writer, keys = self.writer, self.given.keys.to_pylist()
        timeline = load_timeline(writer.store, writer.root, writer.settings)
        by_partition = partition_numbers(self.given)
        groups = {one: groups_of(writer.store, writer.root, one) for one in by_partition}
        slices = {one: slices_at(groups[one], timeline, writer.settings, instant) for one in by_partition}
        lookups = [
            (self._lookup(timeline, instant, slice_), numbers)
            for partition, numbers in by_partition.items()
            for slice_ in slices[partition]
        ]
        known = iter(tagged(lookups, keys, Pieces(writer.session)))
        shares: list[Share] = []
        for partition, numbers in by_partition.items():
            own = [next(known) for _ in slices[partition]]
            if self.deletes:
                numbers = np.unique(np.concatenate([*own, numbers[:0]]))
            shares += placed(partition, numbers, slices[partition], own, writer.options, self._row_bytes())
        by_id = {(one.partition, one.id): one for found in groups.values() for one in found}
        return [self._group_write(i, one, instant, timeline, by_id) for i, one in enumerate(shares)]

    def _lookup(self, timeline: Timeline, instant: str, slice_: FileSlice) -> SliceLookup:
        writer = self.writer
        return SliceLookup(writer.store, writer.root, writer.settings, timeline, instant, slice_)

    def _row_bytes(self) -> int:
        rows = self.given.rows
        return max(1, int(rows.nbytes / max(1, rows.num_rows) / BASE_BYTES))

    def _group_write(
        self,
        number: int,
        share: Share,
        instant: str,
        timeline: Timeline,
        groups: dict[tuple[str, str], FileGroup],
    ) -> GroupWrite:
        writer, rows = self.writer, self.given.take(share.rows)
        slice_ = share.slice
        if slice_ is not None:
            group = groups[share.partition, slice_.group]
            slice_ = writing_slice(group, timeline, writer.settings, instant)
        name = f"{writer.new_id()}-0" if slice_ is None else slice_.group
        return GroupWrite(
            writer.store,
            writer.root,
            instant,
            schema_with_own_columns(self.schema),
            share.partition,
            name,
            number,
            None if self.deletes else rows.rows,
            rows.keys,
            share.known,
            slice_,
            (share.partition, name) in timeline.planned,
            writer.index,
        )

    def _written(self, writes: Sequence[GroupWrite]) -> list[WrittenFile]:
        writer = self.writer
        for partition in {one.partition for one in writes}:
            make_partition(writer.store, writer.root, partition, writes[0].instant)
        found = written_files(Pieces(writer.session).rows(writes, WRITTEN))
        return sorted(found, key=lambda one: one.path)


def make_partition(store: FileIO, root: str, partition: str, instant: str) -> None:
    """Write the file that says a directory is a partition, unless it is there."""
    depth = partition.count("/") + 1 if partition else 0
    path = f"{root}/{partition}/{PARTITION_FILE}" if partition else f"{root}/{PARTITION_FILE}"
    if not store.exists(path):
        store.write(path, f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n".encode())
