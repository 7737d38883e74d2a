"""One attempt at a write: its instant is claimed, its rows are given to file groups, and one file for each is written.

Rows are those of this process, or of a Spark DataFrame (`frame_write`), which stay on the executors.

Clauses: LOG-49 to LOG-57, LOG-64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pktable.store.file_io import FileIO
from pktable_spec.errors import CommitConflictError, CommitUnknownError, CorruptFileError

from pktable_hudi.actions import DELTA_COMMIT, Actions
from pktable_hudi.format.timeline_writing import encode_commit
from pktable_hudi.frame_write import NEW, FrameRows, Placing
from pktable_hudi.group_write import WRITTEN, GroupWrite, schema_with_own_columns, written_files
from pktable_hudi.incoming import Incoming, partition_numbers
from pktable_hudi.lookup import SliceLookup
from pktable_hudi.pieces import Pieces
from pktable_hudi.placing import Share, placed, rooms, tagged
from pktable_hudi.slices import PARTITION_FILE, FileGroup, FileSlice, groups_of, slices_at, writing_slice
from pktable_hudi.timeline import Timeline, load_with_files

if TYPE_CHECKING:
    from pktable_hudi.writer import Writer

UPSERT, DELETE = "UPSERT", "DELETE"
BASE_BYTES: Final = 4
"""How many times smaller rows are in a base file than in memory, roughly."""
NO_KEYS: Final = pa.array([], pa.string())


@dataclass(frozen=True)
class TableAt:
    """The table as a write of ``instant`` finds it. ``groups``: those of the partitions that it touches."""

    writer: Writer
    instant: str
    timeline: Timeline
    groups: dict[str, list[FileGroup]]

    @cached_property
    def slices(self) -> dict[str, list[FileSlice]]:
        """The file slices of each partition."""
        settings = self.writer.settings
        return {
            one: slices_at(found, self.timeline, settings, self.instant) for one, found in self.groups.items()
        }

    def lookup(self, slice_: FileSlice) -> SliceLookup:
        """Return the lookup of a file slice."""
        writer = self.writer
        return SliceLookup(writer.store, writer.root, writer.settings, self.timeline, self.instant, slice_)

    def writing(self, slice_: FileSlice) -> FileSlice:
        """Return the slice to append to: with the log files of open commits."""
        group = next(one for one in self.groups[slice_.partition] if one.id == slice_.group)
        return writing_slice(group, self.timeline, self.writer.settings, self.instant)


@dataclass(frozen=True)
class Attempt(ABC):
    """One attempt at a write."""

    writer: Writer
    actions: Actions
    schema: str
    deletes: bool

    def run(self) -> str | None:
        """Return the instant, None if nothing is to be written. Raises CommitConflictError. Clauses: LOG-76."""
        instant = self.actions.begin()
        try:
            writes = self._planned(instant)
            if not writes:
                self.actions.withdraw(instant)
                return None
            operation = DELETE if self.deletes else UPSERT
            content = encode_commit([], schema="", operation=operation)
            self.actions.inflight(instant, DELTA_COMMIT, content)
            for partition in {one.partition for one in writes}:
                make_partition(self.writer.store, self.writer.root, partition, instant)
            files = sorted(written_files(self._written(writes)), key=lambda one: one.path)
            content = encode_commit(files, schema=self.schema, operation=operation)
            self.actions.complete(instant, content)
        except CommitConflictError:
            # Also the files that were written after another writer rolled the write back.
            self.actions.delete_files(instant)
            raise
        except CommitUnknownError:
            raise
        except Exception as error:
            is_overtaken = isinstance(error, CorruptFileError) and self.actions.is_overtaken(instant)
            if not self.actions.end(instant):
                if is_overtaken:
                    raise CommitConflictError(str(error), int(instant)) from error
                raise
        return instant

    @abstractmethod
    def _planned(self, instant: str) -> list[GroupWrite]:
        """Return what is to be written, by file group. Clauses: LOG-54, LOG-55."""

    @abstractmethod
    def _written(self, writes: Sequence[GroupWrite]) -> pa.Table:
        """Write; return what was written, as `WRITTEN`."""

    def _found(self, instant: str, partitions: Sequence[str]) -> TableAt:
        writer = self.writer
        timeline, groups = load_with_files(
            writer.store,
            writer.root,
            writer.settings,
            lambda: {one: groups_of(writer.store, writer.root, one) for one in partitions},
        )
        return TableAt(writer, instant, timeline, groups)

    def _group_write(
        self,
        at: TableAt,
        number: int,
        partition: str,
        slice_: FileSlice | None,
        rows: Incoming | None = None,
        known: int = 0,
    ) -> GroupWrite:
        """Return the write to one file group. ``slice_``: None for a new one. ``rows``: None if they come later."""
        writer = self.writer
        name = f"{writer.new_id()}-0" if slice_ is None else slice_.group
        return GroupWrite(
            writer.store,
            writer.root,
            at.instant,
            schema_with_own_columns(self.schema),
            partition,
            name,
            number,
            None if rows is None or self.deletes else rows.rows,
            NO_KEYS if rows is None else rows.keys,
            known,
            None if slice_ is None else at.writing(slice_),
            (partition, name) in at.timeline.planned,
            writer.index,
        )


@dataclass(frozen=True)
class RowsAttempt(Attempt):
    """An attempt at a write of rows of this process.

    ``rows``: returns them. It is called after every write before has ended, so it may read the table. Clauses: LOG-74.
    """

    rows: Callable[[], Incoming]

    def _planned(self, instant: str) -> list[GroupWrite]:
        writer, given = self.writer, self.rows()
        by_partition = partition_numbers(given)
        at = self._found(instant, list(by_partition))
        lookups = [
            (at.lookup(one), numbers) for name, numbers in by_partition.items() for one in at.slices[name]
        ]
        known = iter(tagged(lookups, given.keys.to_pylist(), Pieces(writer.session)))
        row_bytes = max(1, int(given.rows.nbytes / max(1, given.rows.num_rows) / BASE_BYTES))
        shares: list[Share] = []
        for partition, numbers in by_partition.items():
            own = [next(known) for _ in at.slices[partition]]
            if self.deletes:
                numbers = np.unique(np.concatenate([*own, numbers[:0]]))
            shares += placed(partition, numbers, at.slices[partition], own, writer.options, row_bytes)
        return [
            self._group_write(at, i, one.partition, one.slice, given.take(one.rows), one.known)
            for i, one in enumerate(shares)
        ]

    def _written(self, writes: Sequence[GroupWrite]) -> pa.Table:
        return Pieces(self.writer.session).rows(writes, WRITTEN)


@dataclass(frozen=True)
class FrameAttempt(Attempt):
    """An attempt at a write of a Spark DataFrame. ``placings``: by instant, where its rows go."""

    given: FrameRows
    placings: dict[str, Placing]

    def _planned(self, instant: str) -> list[GroupWrite]:
        at = self._found(instant, self.given.partitions)
        slices = [one for partition in self.given.partitions for one in at.slices[partition]]
        known, new = self.given.tag([at.lookup(one) for one in slices])
        row_bytes = max(1, int(self.given.bytes_per_row / BASE_BYTES))
        parts: dict[str, list[tuple[int | None, int]]] = {}
        start = 0
        for partition in self.given.partitions:
            own = at.slices[partition]
            divided = rooms(new.get(partition, 0), own, self.writer.options, row_bytes)
            parts[partition] = [(None if i is None else start + i, count) for i, count in divided]
            start += len(own)
        appended = sorted({*known, *(i for found in parts.values() for i, _ in found if i is not None)})
        writes = [self._group_write(at, n, slices[i].partition, slices[i]) for n, i in enumerate(appended)]
        targets = np.full(len(slices) + 1, NEW, np.int64)  # the last one is that of rows without a slice
        targets[appended] = np.arange(len(appended))
        placed: dict[str, list[tuple[int, int]]] = {}
        for partition, found in parts.items():
            for i, count in found:
                if i is None:
                    writes.append(self._group_write(at, len(writes), partition, None))
                target = len(writes) - 1 if i is None else int(targets[i])
                placed.setdefault(partition, []).append((target, count))
        self.placings[instant] = Placing(targets, placed)
        return writes

    def _written(self, writes: Sequence[GroupWrite]) -> pa.Table:
        return self.given.write(self.placings[writes[0].instant], writes)


def make_partition(store: FileIO, root: str, partition: str, instant: str) -> None:
    """Write the file that says a directory is a partition, unless it is there."""
    depth = partition.count("/") + 1 if partition else 0
    path = f"{root}/{partition}/{PARTITION_FILE}" if partition else f"{root}/{PARTITION_FILE}"
    if not store.exists(path):
        store.write(path, f"#partition metadata\ncommitTime={instant}\npartitionDepth={depth}\n".encode())
