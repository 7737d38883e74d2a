"""Compact one bucket: rewrite or upgrade files, and delete the older rows that their records replace.

1. Each group of files to rewrite is merged into one run of the output level, window by window.
2. In each window, the keys that older files may hold are looked up there, and the positions found are added to the
   deletion vectors of those files.
3. A level-0 file that only changes its level gets the same lookup.
4. A changelog is written of the same windows, by what the lookup found (`changelog`).
5. Rewritten files lose their vectors. If a vector changed, a new DV index file is written for the bucket.

Whether a key needs a lookup is one condition: it does unless a record of it in the merge is an add of a level >= 1.
That record is the one live row the key has above level 0 (DV-12), and the merge replaces it. Without such a record,
the key's live row, if there is one, lies above the output level. It must be deleted there before the record of this
compaction becomes visible, or before a retraction is dropped. A lookup of a key ends where it finds the live row.

What is done with a row that a lookup finds:

| table | the row found |
| --- | --- |
| deduplicate | is deleted |
| an engine that computes values | is merged as the oldest record of its key, and deleted |
| first-row, which has no vectors | stays, and the record of this compaction is left out |
| no vectors, a changelog by lookup | stays, and is merged if the engine computes values or has ``sequence.field`` |
| ``sequence.field``, the row found is newer | stays, and the record of this compaction is left out (`late`) |

A table without vectors does not delete the older rows. So a merge takes only the shallowest record of each key above
level 0. With ``sequence.field`` and vectors, retractions are kept and deleted (`kept_retractions`).

So there is no lookup if no level-0 record and no retraction takes part (DV-7), nor for a level-0 record merged with
an older add (DV-8). All other keys are looked up (DV-6, CMP-13).

Clauses: CHG-5 to CHG-7, CHG-19 to CHG-21, CMP-9 to CMP-16, CMP-23 to CMP-26, DV-6 to DV-11, DV-13, DV-16 to DV-23,
MRG-12.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND

from pktable.bucket.changelog import CompactionChangelog, looks_up_rows
from pktable.bucket.index import write_index
from pktable.bucket.kept_retractions import KeptRetractions
from pktable.bucket.locate import Located, Locator, fetch_rows, late_keys, ordering_rows
from pktable.bucket.run_writer import FROM_COMPACTION, RunWriter
from pktable.bucket.windows import merge
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta, IndexManifestEntry
from pktable.format.vectors.deletion_vector import DeletionVector, Positions
from pktable.lsm.bucket import BucketChange, BucketState, Run, sorted_runs
from pktable.lsm.plan import CompactionPlan, VectorMaintainer, plan
from pktable.lsm.universal import Pick
from pktable.merge.grouping import Flags, Indices, Window, is_add, is_of, taken
from pktable.store.new_files import NewFiles


def compact_bucket(
    context: TableContext,
    state: BucketState,
    chosen: Pick,
    new: NewFiles,
    *,
    now_millis: int,
    cached_rows: Mapping[str, pa.Table],
) -> BucketChange:
    """Carry out ``chosen`` on a bucket as it is in ``state`` and return the change to commit.

    ``cached_rows``: the rows of some inputs by file name, which then are not read.
    Files are written, nothing becomes visible. Raises CorruptFileError on damaged inputs.
    """
    compares = context.user_order is not None or context.merge_engine.lookup != "position"
    merges_older = (replaces_older(context) and compares) or context.options.deeper_rows_are_merged
    steps = plan(chosen, state.files, context.options, context.order, merges_older=merges_older)
    return _Compaction(context, state, steps, new, now_millis, cached_rows).run()


def replaces_older(context: TableContext) -> bool:
    """Return whether what a compaction writes depends on older rows in files that it does not rewrite."""
    return context.options.deletion_vectors_enabled or context.merge_engine.lookup == "presence"


def looks_up(context: TableContext) -> bool:
    """Return whether a compaction looks for older rows of its keys in files that it does not rewrite."""
    return replaces_older(context) or looks_up_rows(context)


def keys_to_look_up(window: Window, *, remembers: bool) -> Flags:
    """Return per key of ``window`` whether older files may hold a live row of it.

    ``remembers``: whether retractions above level 0 are deleted by their vector. Clauses: DV-6, DV-7, DV-8.
    """
    needed: Flags = ~window.any_of_key(window.adds() & (window.levels > 0))
    return needed & window.any_of_key(window.levels == 0) if remembers else needed


def not_deleted(vector: DeletionVector | None, positions: Positions) -> Flags:
    """Return which of ``positions`` (ascending, at least one) ``vector`` does not delete.

    The vector is that from before the compaction, which meets each key once. Clauses: DV-9, CHG-6.
    """
    if vector is None:
        return np.ones(len(positions), dtype=bool)
    first, last = positions[0], positions[-1]
    live: Flags = ~vector.mask(int(last - first) + 1, int(first))[positions - first]
    return live


class _Compaction:
    """One compaction under way."""

    def __init__(
        self,
        context: TableContext,
        state: BucketState,
        steps: CompactionPlan,
        new: NewFiles,
        now_millis: int,
        cached_rows: Mapping[str, pa.Table],
    ) -> None:
        self._context, self._state, self._plan, self._new, self._now = context, state, steps, new, now_millis
        self._cached_rows = cached_rows
        self._base_vectors = context.vectors(state)
        self._vectors = VectorMaintainer(self._base_vectors, bits=context.vector_bits)
        self._drop_dangling()
        older = [file for file in state.files if file.level > steps.output_level]
        self._older = older if looks_up(context) else []
        self._engine, self._order = context.merge_engine, context.user_order
        self._changelog = CompactionChangelog.of(context, state.place, new, steps.output_level, now_millis)
        self._keys = frozenset({*context.key_columns, *context.schema.primary_keys})
        self._has_vectors = context.options.deletion_vectors_enabled
        self._shadows = context.deeper_rows_are_merged(state.files)
        merges_older = self._has_vectors and self._engine.lookup == "values"
        self._needs_rows = merges_older or looks_up_rows(context)
        # With both, rows that were found are compared with older ones, deleted ones included.
        self._compares_deeper = self._has_vectors and self._order is not None

    def _drop_dangling(self) -> None:
        """Drop the vectors of files that are not live: Paimon 1.x leaves them. Clauses: DV-19."""
        for name in self._base_vectors.keys() - {file.file_name for file in self._state.files}:
            self._vectors.forget(name)

    def run(self) -> BucketChange:
        """Carry out the plan. The change has every file that was made."""
        try:
            return self._run()
        except BaseException:
            if self._changelog is not None:
                self._changelog.abort()
            raise

    def _run(self) -> BucketChange:
        removed: list[DataFileMeta] = []
        added: list[DataFileMeta] = []
        for group in self._plan.rewrites:
            added += self._rewrite(group)
            removed += group
            self._end_group()
        for file in self._plan.upgrades:
            self._read_upgraded(file)
            self._end_group()
            added.append(replace(file, level=self._plan.output_level))
            removed.append(file)
        for group in self._plan.rewrites:
            for file in group:
                self._vectors.forget(file.file_name)
        index = self._index()
        return BucketChange(
            place=self._state.place,
            removed=tuple(removed),
            added=tuple(added),
            base_index=self._state.index,
            index=index,
            changelog=self._changelog.files if self._changelog else (),
            created=tuple(self._new.paths),
        )

    def _end_group(self) -> None:
        if self._changelog is not None:
            self._changelog.end_group()

    def _rewrite(self, group: Sequence[DataFileMeta]) -> list[DataFileMeta]:
        """Merge ``group`` into one run of the output level. Clauses: CMP-12, CMP-13, DV-6, DV-7, DV-8."""
        runs = sorted_runs(group, self._context.order)
        columns = [field.name for field in self._context.schema.fields]
        writer = RunWriter(
            self._context,
            self._state.place,
            self._new,
            level=self._plan.output_level,
            source=FROM_COMPACTION,
            now_millis=self._now,
        )
        locator = self._locator()
        kept = KeptRetractions()
        try:
            for window in self._merged(runs, columns, encoded=self._only_moved()):
                together, left_out = self._with_older(window, locator, columns)
                folded = self._engine.fold(together)
                if self._changelog is not None:
                    self._changelog.record(window, together, folded, left_out)
                chosen = (
                    folded.adds() if self._plan.drop_deletes else np.ones(len(together.starts), dtype=bool)
                )
                chosen[left_out] = False
                rows = folded.rows(None if chosen.all() else chosen)
                if self._context.hides_retractions:
                    kept.add(rows)
                writer.write(rows)
            files = writer.close()
        except BaseException:
            writer.abort()
            raise
        for name, positions in kept.by_file(files):
            self._vectors.delete(name, positions)
        return files

    def _read_upgraded(self, file: DataFileMeta) -> None:
        """Delete the older rows that the keys of an upgraded level-0 file replace, and record the changes.

        Clauses: CMP-10, DV-6, CHG-5, CHG-7.
        """
        locator = self._locator() if file.level == 0 else None
        recorded = self._changelog if self._changelog and file.level < self._changelog.from_level else None
        if locator is None and recorded is None:
            return
        columns = None if recorded is None else [field.name for field in self._context.schema.fields]
        for window in self._merged(sorted_runs([file], self._context.order), columns or ()):
            together, left_out = self._with_older(window, locator, columns)
            if recorded is not None:
                recorded.record(window, together, self._engine.fold(together), left_out)

    def _only_moved(self) -> Collection[str]:
        """Return the columns whose values nothing looks at: these rows are written, or they are not."""
        if self._engine.lookup == "values" or self._changelog is not None:
            return ()
        looked_at = {*self._keys, *(self._order.columns if self._order else ())}
        return [name for name in self._context.schema.value_names if name not in looked_at]

    def _merged(
        self, runs: Sequence[Run], columns: Sequence[str], *, encoded: Collection[str] = ()
    ) -> Iterator[Window]:
        windows = merge(
            self._context,
            self._state.place,
            runs,
            self._base_vectors,
            columns,
            cached_rows=self._cached_rows,
            encoded=encoded,
        )
        for window in windows:
            yield window.without_kinds(self._engine.ignores)

    def _with_older(
        self, window: Window, locator: Locator | None, columns: Sequence[str] | None
    ) -> tuple[Window, Indices]:
        """Look up the older rows that the keys of ``window`` replace, and delete them where they are.

        Return the window, with these rows if the engine or the changelog needs them, and the numbers of the keys to
        leave out.
        ``columns``: those of a merged row; None if there is no merge. Clauses: DV-6, DV-9, DV-20, DV-23, MRG-12.
        """
        left_out = np.empty(0, dtype=np.int64)
        window = window.without_deeper() if self._shadows else window
        if locator is None:
            return window, left_out
        needed = np.flatnonzero(self._keys_to_look_up(window))
        keys = list(self._context.key_columns)
        if self._order is not None and self._has_vectors and self._engine.lookup == "position":
            names = dict.fromkeys([*keys, SEQUENCE_NUMBER, VALUE_KIND, *self._order.columns])
            newest = taken(window.records.select(list(names)), window.newest[needed])
            all_found = list(locator.locate(newest.select(keys)))
            compared = ordering_rows(self._context, self._state.place, all_found)
            late = self._late(newest, all_found, compared)
            if self._needs_rows:
                for found, rows in zip(all_found, compared, strict=True):
                    window = self._joined(window, found, needed[found.keys], rows)
            return window, needed[late]
        wanted = taken(window.records.select(keys), window.newest[needed])
        for found in locator.locate(wanted, None if self._compares_deeper else self._is_only_row):
            if self._engine.lookup == "presence":
                left_out = np.append(left_out, needed[found.keys])
                continue
            if columns is not None and self._needs_rows:
                window = self._joined(window, found, needed[found.keys])
            if self._has_vectors:
                self._vectors.delete(found.file.file_name, found.positions)
        return window.without_deeper() if self._shadows else window, left_out

    def _is_only_row(self, found: Located) -> Flags:
        """Return per row that was found whether deeper ones of its key do not matter.

        With vectors, a live row is the only one of its key (DV-12). Without them the least deep record that is not
        ignored holds what deeper ones hold (CHG-20), or is newer.
        """
        if self._has_vectors:
            return not_deleted(self._base_vectors.get(found.file.file_name), found.positions)
        if found.file.delete_row_count == 0 or not self._engine.ignores:
            return np.ones(len(found.keys), dtype=bool)
        kinds = fetch_rows(self._context, self._state.place, found.file, found.positions, [VALUE_KIND])
        return ~is_of(self._engine.ignores, kinds)

    def _keys_to_look_up(self, window: Window) -> Flags:
        """Return per key whether its older records are needed: for the result, or for the changelog alone."""
        if replaces_older(self._context):
            return keys_to_look_up(window, remembers=self._context.hides_retractions)
        return ~window.any_of_key(window.levels > 0)

    def _late(self, newest: pa.Table, found: Sequence[Located], compared: Sequence[pa.Table]) -> Flags:
        """Delete the rows of ``found`` whose key has a newer record in ``newest``; return which of ``newest`` are late.

        ``compared``: the rows of ``found``. Clauses: DV-23.
        """
        if not found:
            return np.zeros(newest.num_rows, dtype=bool)
        late = late_keys(self._context, newest, found, compared)
        for one in found:
            positions = one.positions[~late[one.keys]]
            self._vectors.delete(one.file.file_name, positions)
        return late

    def _joined(
        self, window: Window, found: Located, keys: Indices, compared: pa.Table | None = None
    ) -> Window:
        """Return the window with the rows that were found, of ``keys``: live ones, and retractions that are kept.

        ``compared``: columns of all rows that were found, which have been read.
        """
        live = not_deleted(self._base_vectors.get(found.file.file_name), found.positions)
        positions = found.positions
        if not self._context.hides_retractions:
            compared = compared and taken(compared, np.flatnonzero(live))
            positions, keys, live = positions[live], keys[live], live[live]
        if not len(positions):
            return window
        names, from_newest = window.records.column_names, self._from_newest(window, found.file)
        known = taken(
            window.records.select([name for name in names if name in from_newest]), window.newest[keys]
        )
        columns = dict(zip(known.column_names, known.columns, strict=True))
        if compared is not None:
            columns |= zip(compared.column_names, compared.columns, strict=True)
        others = [name for name in names if name not in columns]
        if others:
            fetched = fetch_rows(self._context, self._state.place, found.file, positions, others)
            columns |= zip(others, fetched.columns, strict=True)
        rows = pa.table({name: columns[name] for name in names})
        chosen = (live | ~is_add(rows)) & ~is_of(self._engine.ignores, rows)
        rows, keys = taken(rows, np.flatnonzero(chosen)), keys[chosen]
        joined = window.with_oldest(rows, keys, np.full(len(keys), found.file.level, dtype=np.int32))
        return joined if self._order is None else joined.in_order(self._order)

    def _from_newest(self, window: Window, file: DataFileMeta) -> frozenset[str]:
        """Return the columns of older rows, of ``file``, that are taken from the newest record of their key in
        ``window``.

        The key is one. The place of a row in the window may say by itself that the row is older. Then its sequence
        number is one, its kind if all are adds and a +U is merged as a +I, and the columns that make no difference.
        """
        if self._order is not None or self._changelog is not None:
            return self._keys
        settled = [SEQUENCE_NUMBER, *self._engine.settled(window)]
        if not self._engine.updates and file.delete_row_count == 0 and window.adds().all():
            settled.append(VALUE_KIND)
        return self._keys.union(settled)

    def _locator(self) -> Locator | None:
        return Locator(self._context, self._state.place, self._older) if self._older else None

    def _index(self) -> IndexManifestEntry | None:
        """Write the bucket's vectors if they changed, and return their index entry. Clauses: DV-16, DVF-1."""
        if not self._vectors.modified:
            return self._state.index
        vectors = self._vectors.vectors()
        if not vectors:
            return None
        return write_index(self._context, self._state.place, vectors, self._new)
