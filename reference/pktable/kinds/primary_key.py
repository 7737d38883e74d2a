"""Tables with a primary key: one LSM tree per bucket, with or without deletion vectors.

Clauses: RD-1, RD-3, RD-4, RD-5, RD-13, CMP-3, CMP-7, DV-12, DV-15, DV-18, LSM-5, TBL-20.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.options import DYNAMIC_BUCKETS, TableOptions, parse_options

from pktable.bucket.compact import compact_bucket
from pktable.bucket.write import renumber, runs_of_rows, write_runs
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import TableSchema
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.kinds.kind import expect_changelog_options, expect_formats
from pktable.lsm.bucket import BucketChange, BucketState, sorted_runs
from pktable.lsm.universal import Pick, pick, pick_deleted, pick_full
from pktable.merge.engine import Deduplicate, expect_writable_engine
from pktable.merge.engine_options import EngineOptions
from pktable.store.new_files import NewFiles


class PrimaryKeyTables:
    """The `TableKind` of tables with a primary key."""

    name: Final = "primary-key table"
    has_keys: Final = True

    def claims(self, schema: TableSchema) -> bool:
        """Return whether there is a primary key. Clauses: TBL-12."""
        return bool(schema.primary_keys)

    def require_writable(self, schema: TableSchema, options: TableOptions) -> None:
        """Raise InvalidRequestError for an option that is not implemented, or not by the table's merge engine.

        Clauses: BKT-1, BKT-29, MRG-11, TBL-9, TBL-16, TBL-20.
        """
        if not set(schema.primary_keys).issuperset(schema.partition_keys):
            _require_keys_that_move(schema, options)
        options.require_writable_buckets()
        options.require_writable()
        if options.row_tracking:
            raise UnsupportedOptionError("row-tracking.enabled", "true", "a table without a primary key")
        expect_writable_engine(schema)
        expect_changelog_options(schema, options)
        expect_formats(schema, options)

    def files_to_read(
        self, context: TableContext, live: Sequence[DataFileMeta], *, fresh: bool
    ) -> tuple[Sequence[DataFileMeta], bool]:
        """Return the files a read takes and whether it merges them. Clauses: RD-1, RD-3, RD-4, RD-28."""
        if not fresh and context.options.one_record_per_key:
            live = [file for file in live if file.level > 0 or _is_of_before(context, file)]
        return live, needs_merge(context, live)

    def choose_compaction(self, context: TableContext, state: BucketState, *, full: bool) -> list[Pick]:
        """Return the strategy's pick, or everything. Clauses: CMP-3, CMP-7, CMP-28, DV-18."""
        chosen = self._chosen(context, state, full=full)
        return [] if chosen is None else [chosen]

    def _chosen(self, context: TableContext, state: BucketState, *, full: bool) -> Pick | None:
        full = full or may_shadow_rows_without_vector(context, state.files)
        runs = sorted_runs(state.files, context.order)
        if full:
            forgets = context.options.full_compaction_forgets_deletions
            names = files_to_purge(context, state)
            return pick_full(runs, context.options, names, forgets_deletions=forgets)
        chosen = pick(runs, context.options)
        if chosen is None and context.options.deletion_vectors_enabled:
            return pick_deleted(runs, context.options, purged_counts(context, state))
        if chosen is not None and must_take_all(context, chosen.files):
            return pick_full(runs, context.options, ())
        return chosen

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
        """Merge the files, and delete the older rows that theirs replace. Clauses: CMP-8, DV-6."""
        assert not dropped, "a statement writes changes of rows with keys"
        return compact_bucket(context, state, chosen, new, now_millis=now_millis, cached_rows=cached_rows)

    runs_of_rows = staticmethod(runs_of_rows)
    write_runs = staticmethod(write_runs)
    renumber = staticmethod(renumber)


def _require_keys_that_move(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidRequestError unless a writer can move the keys of a table between partitions. Clauses: BKT-29."""
    outside = next(name for name in schema.partition_keys if name not in schema.primary_keys)
    ignores = options.merge_engine == Deduplicate.name and EngineOptions(schema).ignores
    unfit = (
        (
            options.bucket != DYNAMIC_BUCKETS,
            f"bucket={options.bucket}; only dynamic buckets (-1) hold such keys once",
        ),
        (bool(options.sequence_fields), "sequence.field; records of two partitions are in no order"),
        (ignores, "ignore-delete; what a key leaves where it was is a deletion"),
    )
    for applies, why in unfit:
        if applies:
            raise InvalidRequestError(
                f"partition keys: {outside} is not one of the primary-key columns {', '.join(schema.primary_keys)}, so "
                f"that keys move between partitions, which is not supported with {why}"
            )


def needs_merge(context: TableContext, wanted: Sequence[DataFileMeta]) -> bool:
    """Return whether reading ``wanted`` requires a merge.

    It does if a file holds retractions. Otherwise, with one live record per key above level 0 (deletion vectors,
    or first-row), it does only if level 0 is included; without, it does unless all files form one sorted run.
    Clauses: RD-1, RD-4, RD-5, RD-13, DV-12, DV-15.
    """
    if any(may_show_retractions(context, file) for file in wanted):
        return True
    levels = {file.level for file in wanted}
    if context.options.one_record_per_key:
        return 0 in levels or may_shadow_rows_without_vector(context, wanted)
    return len(levels) > 1 or (0 in levels and len(wanted) > 1)


def may_show_retractions(context: TableContext, file: DataFileMeta) -> bool:
    """Return whether a read of ``file`` without merging could return a retraction as a row.

    Not so if it was written with deletion vectors and ``sequence.field``: its vector deletes them.
    Clauses: RD-5, DV-21.
    """
    if file.delete_row_count == 0:
        return False
    return file.level == 0 or not hides_retractions(context, file)


def files_to_purge(context: TableContext, state: BucketState) -> frozenset[str]:
    """Return the names of the files that a full compaction rewrites, whatever else it does.

    A vector of such a file deletes more than kept retractions, or the file has retractions that are to be forgotten.
    Clauses: CMP-22, CMP-25, DV-13, MRG-22.
    """
    options = context.options
    if options.remembers_deletions and options.full_compaction_forgets_deletions:
        with_retractions = {file.file_name for file in state.files if file.delete_row_count != 0}
        return state.files_with_vector | with_retractions
    return frozenset(purged_counts(context, state))


def purged_counts(context: TableContext, state: BucketState) -> dict[str, int]:
    """Return how many rows a rewrite of each file would leave out, without the files that would keep all.

    Retractions that are kept are deleted rows, but a rewrite does not leave them out. Clauses: CMP-22, CMP-28, MRG-21.
    """
    counts = context.deleted_counts(state)
    if not context.hides_retractions:
        return counts
    for file in state.files:
        if file.file_name in counts and hides_retractions(context, file):
            counts[file.file_name] -= file.delete_row_count or 0
    return {name: count for name, count in counts.items() if count > 0}


def hides_retractions(context: TableContext, file: DataFileMeta) -> bool:
    """Return whether ``file`` was written where vectors delete retractions that are kept."""
    if not context.hides_retractions:
        return False
    options = parse_options(context.schema_of(file.schema_id).options)
    return options.deletion_vectors_enabled and options.remembers_deletions


def must_take_all(context: TableContext, picked: Sequence[DataFileMeta]) -> bool:
    """Return whether retractions of ``picked`` can be merged only with all that is older. Clauses: MRG-8.

    With deletion vectors, or a lookup for the changelog, a compaction looks up what is older.
    """
    looks_up = context.options.deletion_vectors_enabled or context.options.deeper_rows_are_merged
    return (
        any(file.delete_row_count != 0 for file in picked)
        and not looks_up
        and not context.merge_engine.folds_retractions
    )


def may_shadow_rows_without_vector(context: TableContext, live: Sequence[DataFileMeta]) -> bool:
    """Return whether a file of ``live`` may replace rows of another that no vector deletes.

    A file above the deepest level may, if it was written before the table had deletion vectors. Clauses: DV-15.
    """
    if not context.options.deletion_vectors_enabled:
        return False
    deepest = max((file.level for file in live), default=0)
    return any(_is_of_before(context, file) for file in live if 0 < file.level < deepest)


def _is_of_before(context: TableContext, file: DataFileMeta) -> bool:
    """Return whether ``file`` was written before the table had the deletion vectors that it has."""
    return context.options.deletion_vectors_enabled and not context.has_vectors(file.schema_id)
