"""Append tables: without a primary key. A row is deleted by its position, and files are in no order.

All files are at level 0, and every read takes them all. With deletion vectors a deleted row is a position in a vector,
without them its file is written again.

Clauses: APP-1 to APP-7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError, UnsupportedOptionError
from pktable_spec.options import TableOptions
from pktable_spec.vocabulary import ROW_ID, SEQUENCE_NUMBER

from pktable.bucket.append_write import numbered, rewrite_files, write_files
from pktable.bucket.run_writer import FROM_WRITE
from pktable.bucket.write import BucketAppend
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import TableSchema
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.kinds.kind import expect_changelog_options, expect_formats
from pktable.lsm.bucket import BucketChange, BucketPath, BucketState
from pktable.lsm.plan import pick_files
from pktable.lsm.universal import Pick
from pktable.store.new_files import NewFiles

NO_BUCKETS: Final = -1
"""The value of the option ``bucket`` under which a partition has no buckets."""


class AppendTables:
    """The `TableKind` of tables without a primary key."""

    name: Final = "append table"
    has_keys: Final = False

    def claims(self, schema: TableSchema) -> bool:
        return not schema.primary_keys

    def require_writable(self, schema: TableSchema, options: TableOptions) -> None:
        """Raise InvalidRequestError for an option that is not implemented, or a number of buckets without their key.

        Clauses: TBL-9, APP-3, APP-7.
        """
        options.require_writable()
        expect_changelog_options(schema, options)
        expect_formats(schema, options)
        if options.bucket < 1 and options.bucket != NO_BUCKETS:
            expected = f"a number of buckets, or {NO_BUCKETS} for none"
            raise UnsupportedOptionError("bucket", str(options.bucket), expected)
        if options.bucket > 0 and options.row_tracking:
            raise UnsupportedOptionError("row-tracking.enabled", "true", "a table without buckets")
        if options.bucket > 0 and not options.bucket_key:
            raise InvalidRequestError(
                f"option bucket={options.bucket}: an append table with buckets needs the option bucket-key"
            )
        if options.bucket < 1 and options.bucket_key:
            raise InvalidRequestError(
                f"option bucket-key={','.join(options.bucket_key)}: expected the option bucket with it"
            )

    def files_to_read(
        self, context: TableContext, live: Sequence[DataFileMeta], *, fresh: bool
    ) -> tuple[Sequence[DataFileMeta], bool]:
        """Return all files; a fresh read is a default read. Clauses: APP-4."""
        return live, False

    def choose_compaction(self, context: TableContext, state: BucketState, *, full: bool) -> list[Pick]:
        """Return groups of small files, and of files with many deleted rows. Clauses: APP-19, APP-20."""
        counts, target = context.deleted_counts(state), context.target_file_bytes
        groups = pick_files(state, counts, context.options, target, full=full)
        return [Pick(0, files) for files in groups]

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
        """Write the files again without their deleted rows. No rows are kept from a write. Clauses: APP-12, APP-20."""
        return rewrite_files(context, state, chosen.files, dropped, new, now_millis=now_millis)

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
        """Return ``rows`` in their order. Raises InvalidRequestError for a retraction.

        ``rows`` with `ROW_ID` are updated ones that keep their ids. Clauses: APP-5, APP-32.
        """
        if (kinds & 1).any():  # -U and -D are the odd row kinds
            raise InvalidRequestError("rows of an append table can only be added; use delete(where=…)")
        if ROW_ID not in rows.column_names:
            return [rows], ()
        if rows.column(ROW_ID).null_count:
            expected = "a first id or a column of ids in each file"
            raise CorruptFileError("row ids", at=place.directory, expected=expected, found="none")
        # Null is the number of the file, which it gets when the snapshot is known.
        return [rows.append_column(SEQUENCE_NUMBER, pa.nulls(rows.num_rows, pa.int64()))], ()

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
        """Write ``runs`` one after the other. Clauses: APP-5, APP-6."""
        tables = chain.from_iterable(runs)
        first = next(tables, None)
        assert first is not None, "a run has rows"
        files = write_files(
            context,
            place,
            chain([first], tables),
            new,
            source=FROM_WRITE,
            now_millis=now_millis,
            tracked=ROW_ID in first.column_names,
        )
        return BucketAppend(place, numbered(context, files, first_sequence), first_sequence)

    def renumber(
        self,
        context: TableContext,
        append: BucketAppend,
        first_sequence: int,
        new: NewFiles,
        *,
        now_millis: int,
    ) -> BucketAppend:
        """Return the same files under other numbers, which only their metadata has. Clauses: APP-6."""
        return BucketAppend(append.place, numbered(context, append.files, first_sequence), first_sequence)
