"""The interface of a kind of table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.options import TableOptions

from pktable.bucket.write import BucketAppend
from pktable.context import TableContext
from pktable.datafile.writers import expect_storable
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import is_atomic
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.lsm.bucket import BucketChange, BucketPath, BucketState
from pktable.lsm.universal import Pick
from pktable.store.new_files import NewFiles


class TableKind(Protocol):
    """A kind of table. It holds no state: one object serves all tables of its kind, on every executor."""

    @property
    def name(self) -> str:
        """How messages call the kind."""
        ...

    def claims(self, schema: TableSchema) -> bool:
        """Return whether a table with ``schema`` is of this kind."""
        ...

    def require_writable(self, schema: TableSchema, options: TableOptions) -> None:
        """Raise InvalidRequestError unless a writer can honour every option of the table. Clauses: TBL-9, TBL-20."""
        ...

    def files_to_read(
        self, context: TableContext, live: Sequence[DataFileMeta], *, fresh: bool
    ) -> tuple[Sequence[DataFileMeta], bool]:
        """Return which of a bucket's live files a read takes, and whether it must merge them.

        ``fresh``: a fresh read, which sees level 0; otherwise a default read. Reads no data.
        """
        ...

    def choose_compaction(self, context: TableContext, state: BucketState, *, full: bool) -> Sequence[Pick]:
        """Return what to compact in a bucket, each part by itself. Reads no data."""
        ...

    def compact(
        self,
        context: TableContext,
        state: BucketState,
        chosen: Pick,
        new: NewFiles,
        *,
        now_millis: int,
        cached_rows: Mapping[str, pa.Table],
        dropped: Mapping[str, DeletionVector],
    ) -> BucketChange:
        """Carry out ``chosen`` on a bucket as it is in ``state``, and return the change to commit.

        ``cached_rows``: the rows of some files by name, which then need not be read. ``dropped``: by data file, the
        positions of rows that a statement leaves out. Files are written, nothing becomes visible.
        Raises CorruptFileError on damaged files.
        """
        ...

    @property
    def has_keys(self) -> bool:
        """Whether rows have keys: files are sorted runs in levels, and a write compacts the buckets it touches."""
        ...

    def runs_of_rows(
        self,
        context: TableContext,
        place: BucketPath,
        rows: pa.Table,
        kinds: npt.NDArray[np.int8],
        first_sequence: int,
        new: NewFiles,
        *,
        now_millis: int,
    ) -> tuple[list[pa.Table], tuple[DataFileMeta, ...]]:
        """Return ``rows`` as runs, oldest first, and the changelog files written of them.

        ``rows``: n rows of the table's columns, ``kinds`` their n row kinds. Row i has sequence number
        ``first_sequence + i``. Nothing becomes visible.
        """
        ...

    def write_runs(
        self,
        context: TableContext,
        place: BucketPath,
        runs: Sequence[Iterable[pa.Table]],
        first_sequence: int,
        new: NewFiles,
        *,
        now_millis: int,
    ) -> BucketAppend:
        """Write runs, oldest first, that `runs_of_rows` has made of rows that follow each other, as level-0 files.

        ``runs``: each in tables, in a list if they are in memory. ``first_sequence``: of the first row. Memory does not
        depend on the size of the runs. Nothing becomes visible.
        """
        ...

    def renumber(
        self,
        context: TableContext,
        append: BucketAppend,
        first_sequence: int,
        new: NewFiles,
        *,
        now_millis: int,
    ) -> BucketAppend:
        """Return ``append`` with sequence numbers from ``first_sequence`` on; files that must be written again are.

        Clauses: CMT-24, APP-6.
        """
        ...


PRODUCER: Final = "changelog-producer"
DEDUPLICATE: Final = f"{PRODUCER}.row-deduplicate"
IGNORED: Final = f"{DEDUPLICATE}-ignore-fields"
DELTA_COMMITS: Final = "full-compaction.delta-commits"


def expect_formats(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidRequestError for a column that a format of new files cannot hold. Clauses: META-74."""
    for format, option in sorted(options.formats.items()):
        expect_storable(format, schema.fields, f"let the option {option} say parquet")


def expect_changelog_options(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidRequestError unless a writer can make the changelog that the options ask for.

    Clauses: CHG-15, CMP-31.
    """
    producer = options.changelog_producer
    if producer != "none" and not schema.primary_keys:
        raise UnsupportedOptionError(PRODUCER, producer, "none in a table without a primary key")
    commits = options.full_compaction_delta_commits
    if commits is not None and (producer == "lookup" or not schema.primary_keys):
        expected = f"it in tables with a primary key whose {PRODUCER} is not lookup"
        raise UnsupportedOptionError(DELTA_COMMITS, str(commits), expected)
    if producer == "full-compaction" and options.deletion_vectors_enabled:
        raise UnsupportedOptionError(
            PRODUCER, producer, "none, input or lookup with deletion-vectors.enabled=true"
        )
    if producer in ("input", "full-compaction") and options.merge_engine == "first-row":
        raise UnsupportedOptionError(PRODUCER, producer, "none or lookup with merge-engine=first-row")
    for name in options.changelog_ignored_fields:
        if name not in schema.value_names:
            raise InvalidRequestError(
                f"option {IGNORED}: column {name} does not exist; columns are {', '.join(schema.value_names)}"
            )
    if options.changelog_row_deduplicate:
        for field in schema.fields:
            if not is_atomic(field.type) and field.name not in options.changelog_ignored_fields:
                raise UnsupportedOptionError(
                    DEDUPLICATE, "true", f"column {field.name}, of type {field.type}, in {IGNORED}"
                )
        if producer == "none":
            raise UnsupportedOptionError(DEDUPLICATE, "true", f"a {PRODUCER} other than none with it")
