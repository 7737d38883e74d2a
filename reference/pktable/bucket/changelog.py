"""Write changelog files (the changes that a write brings, or a compaction makes visible), and read changes from files.

A table names by the option ``changelog-producer`` who writes them:

* ``input``: a write, all rows as they came.
* ``lookup``: a compaction of level 0. For each key of a level-0 record it compares the row of the levels above 0 before
  and after the compaction. The row before comes from the lookup that also finds the positions to delete.
* ``full-compaction``: a compaction to the greatest level, by the row of that level before and after.

So the last two are one comparison (`CompactionChangelog`): the fold of the records from some level on with the fold of
all. A new row is +I, a row that is gone is -D, and a replaced row is -U and +U. A row that is replaced by an equal one
gives both, too, unless ``changelog-producer.row-deduplicate`` says otherwise. The subtle case is an older record that a
deletion vector deletes: it is no row before, however recently it was one (CHG-6).

Where a table has no changelog, its level-0 files hold the changes. They are read in the order of the file, so the
changes of one key come in the order in which they happened. No merge takes place and no deletion vector counts.

Clauses: CHG-3 to CHG-8, CHG-10, CHG-11, TBL-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, VALUE_KIND, RowKind

from pktable.bucket.reader import DataReader
from pktable.bucket.run_writer import FROM_WRITE, RunWriter
from pktable.context import TableContext
from pktable.format.arrow_values import declared
from pktable.format.metadata.manifest import DataFileMeta
from pktable.lsm.bucket import BucketPath, ChangeRead
from pktable.merge.engine import Folded, Selected
from pktable.merge.grouping import Flags, Indices, Window
from pktable.merge.key_encoding import encode_keys
from pktable.predicate import Predicate
from pktable.store.new_files import NewFiles

ROW_KIND: Final = "_row_kind"
"""The column of the row kinds, spelled +I, -U, +U and -D."""
COMMITS: Final = pa.schema(
    [
        pa.field("_commit_version", pa.int64(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("ms", "UTC"), nullable=False),
    ]
)
"""The id and the time of the snapshot that a change is of."""


def change_schema(context: TableContext, columns: Sequence[str], *, commits: bool = False) -> pa.Schema:
    """Return the schema of changes: `ROW_KIND`, then ``columns``. A retraction may have nothing but its key.

    ``commits``: `COMMITS` at the end.
    """
    keys = context.schema.primary_keys
    fields = [context.schema.arrow_schema.field(name) for name in columns]
    found = [field.with_nullable(field.name not in keys) for field in fields]
    return pa.schema([pa.field(ROW_KIND, pa.string(), nullable=False), *found, *(COMMITS if commits else ())])


def read_changes(
    context: TableContext,
    part: ChangeRead,
    columns: Sequence[str],
    predicate: Predicate | None,
    *,
    commits: bool = False,
) -> Iterator[pa.Table]:
    """Yield the changes of ``part`` whose row satisfies ``predicate``, as tables of `change_schema`.

    Raises CorruptFileError. Clauses: CHG-11, CHG-40.
    """
    kind = context.schema.system_columns[-1:]
    tested = predicate.columns() if predicate else ()
    needed = [*kind, *columns, *(name for name in tested if name not in columns)]
    schema = change_schema(context, columns, commits=commits)
    of_commit = [
        pa.scalar(value, kind)
        for value, kind in zip((part.snapshot, part.time_millis), COMMITS.types, strict=True)
    ]
    final = None if part.final is None else _final(context, part)
    for number, file in enumerate(part.files):
        reader = DataReader(context, part.place, file)
        # A table without columns would have no rows.
        for at, table in reader.read(needed or [context.schema.fields[0].name]):
            if final is not None:
                table = table.filter(pa.array(final[number][at : at + table.num_rows] == part.final))
            rows = predicate.filter(table) if predicate else table
            if rows.num_rows:
                kinds = _symbols(rows, reader.path)
                made = [pa.repeat(value, rows.num_rows) for value in of_commit] if commits else []
                yield declared(
                    pa.table([kinds, *map(rows.column, columns), *made], names=schema.names), schema
                )


def _final(context: TableContext, part: ChangeRead) -> list[Flags]:
    """Return for each file of ``part`` which changes are the last of their key in it all, and leave a row.

    A snapshot has one such change of a key at most, because a key has one place. Clauses: BKT-21, CHG-40.
    """
    names, types = context.schema.key_names, context.key_types
    read = [
        table
        for file in part.files
        for _, table in DataReader(context, part.place, file).read([VALUE_KIND, *names])
    ]
    keys = np.concatenate(encode_keys([[table.column(name) for name in names] for table in read], types))
    adds = np.concatenate([table.column(VALUE_KIND).to_numpy() & 1 == 0 for table in read])
    _, last = np.unique(keys[::-1], return_index=True)
    final = np.zeros(len(keys), dtype=bool)
    final[len(keys) - 1 - last] = True
    return np.split(final & adds, np.cumsum([file.row_count for file in part.files])[:-1])


def _symbols(rows: pa.Table, path: str) -> pa.Array:
    """Return the row kinds as text; the rows of an append table have none and are all inserted."""
    if VALUE_KIND not in rows.column_names:
        kinds = np.full(rows.num_rows, int(RowKind.INSERT))
    else:
        kinds = rows.column(VALUE_KIND).to_numpy()
        if ((kinds < 0) | (kinds >= len(ROW_KIND_SYMBOLS))).any():
            raise CorruptFileError("row kinds", at=path, expected="0 to 3", found="others")
    return pa.array(ROW_KIND_SYMBOLS).take(pa.array(kinds))


INPUT: Final = "input"
LOOKUP: Final = "lookup"


def write_input(
    context: TableContext, place: BucketPath, window: Window, new: NewFiles, *, now_millis: int
) -> tuple[DataFileMeta, ...]:
    """Write all records of a write as changelog files; none with another producer. Clauses: CHG-4."""
    if context.options.changelog_producer != INPUT or not len(window.order):
        return ()
    writer = RunWriter(context, place, new, level=0, source=FROM_WRITE, now_millis=now_millis, changelog=True)
    try:
        writer.write(window.records.take(pa.array(window.order)))
        return tuple(writer.close())
    except BaseException:
        writer.abort()
        raise


def looks_up_rows(context: TableContext) -> bool:
    """Return whether a compaction must know the older rows that it replaces: to record the changes, or to fold them.

    Clauses: CHG-20, CHG-35.
    """
    options = context.options
    records = options.changelog_producer == LOOKUP and context.merge_engine.lookup != "presence"
    return records or options.deeper_rows_are_merged


class CompactionChangelog:
    """The changelog files of one compaction.

    ``from_level``: the rows before are those of this level and greater ones, and the keys that may change are those of
    records below it.
    """

    def __init__(
        self, context: TableContext, place: BucketPath, new: NewFiles, output_level: int, now_millis: int
    ) -> None:
        options = context.options
        self._engine = context.merge_engine
        self.from_level = options.max_level if options.records_full_compactions else 1
        skipped = (*context.schema.primary_keys, *options.changelog_ignored_fields)
        self._compared = (
            [name for name in context.schema.value_names if name not in skipped]
            if options.changelog_row_deduplicate
            else None
        )
        self._begin = partial(
            RunWriter,
            context,
            place,
            new,
            level=output_level,
            source=FROM_WRITE,
            now_millis=now_millis,
            changelog=True,
        )
        self._writer = self._begin()
        self._done: list[DataFileMeta] = []

    @classmethod
    def of(
        cls, context: TableContext, place: BucketPath, new: NewFiles, output_level: int, now_millis: int
    ) -> CompactionChangelog | None:
        """Return the changelog of a compaction to ``output_level``, None if it writes none. Clauses: CHG-5, CHG-7."""
        options = context.options
        full = options.records_full_compactions and output_level == options.max_level
        if options.changelog_producer == LOOKUP or full:
            return cls(context, place, new, output_level, now_millis)
        return None

    def record(self, merged: Window, window: Window, folded: Folded, left_out: Indices) -> None:
        """Record the changes of the keys of ``window``, which holds all records that their rows are made of.

        Windows of a group come in key order, and `end_group` follows the last one.
        ``merged``: all records of these keys in the files that are compacted. ``folded``: the fold of ``window``.
        ``left_out``: the numbers of the keys whose older row stays.
        """
        if self.from_level > 1:  # the row before may be a record that `window` leaves out by CHG-19
            window = merged
        fresh = window.any_of_key(window.levels < self.from_level)
        if self._engine.lookup == "presence":  # a row that is there stays as it is
            fresh[left_out] = False
            fresh &= ~window.any_of_key(window.levels >= self.from_level)
        if fresh.any():
            before, was = self._before(window, fresh)
            self._writer.write(changed_rows(before, was, folded, fresh, self._compared))

    def _before(self, window: Window, fresh: Flags) -> tuple[Folded, Flags]:
        """Return the fold of the records before of the keys that are ``fresh``, as far as they have any, and per key
        whether it has.
        """
        keys = np.flatnonzero(fresh)
        changing, from_before = window.of_keys(keys), window.levels >= self.from_level
        there = np.zeros(len(fresh), dtype=bool)
        there[keys] = changing.any_of_key(from_before)
        older = changing.without(~from_before)
        one_each = len(older.order) == len(older.starts)  # the fold of one record is itself
        return (Selected(older, older.order) if one_each else self._engine.fold(older)), there

    def end_group(self) -> None:
        """End the files of a group: the keys of the next one may be smaller. Clauses: CHG-3."""
        self._done += self._writer.close()
        self._writer = self._begin()

    @property
    def files(self) -> tuple[DataFileMeta, ...]:
        """The files of all groups that have ended."""
        return tuple(self._done)

    def abort(self) -> None:
        self._writer.abort()


def changed_rows(
    before: Folded, there: Flags, after: Folded, fresh: Flags, compared: Sequence[str] | None
) -> pa.Table:
    """Return the changes of the keys that are ``fresh``, by key, -U in front of +U.

    ``there``: of k keys, those of which ``before`` has a record. ``after``: a record of each of the k keys.
    ``compared``: a row that is replaced by one with equal values there has not changed; None if all have.
    Clauses: CHG-5, CHG-7, CHG-8.
    """
    was, now = there.copy(), after.adds() & fresh
    was[there] = before.adds()
    if compared is not None:
        both = was & now
        same = equal_rows(before.rows(both[there]), after.rows(both), compared)
        unchanged = np.flatnonzero(both)[same]
        was[unchanged] = now[unchanged] = False
    old, new = np.flatnonzero(was), np.flatnonzero(now)
    # Stable, so that of one key the row before comes first.
    order = np.argsort(np.concatenate([old, new]), kind="stable")
    kinds = np.concatenate(
        [
            np.where(now[old], int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE)),
            np.where(was[new], int(RowKind.UPDATE_AFTER), int(RowKind.INSERT)),
        ]
    ).astype(np.int8)
    rows = taken_of_both(before.places(was[there]), after.places(now), order)
    return rows.set_column(rows.column_names.index(VALUE_KIND), VALUE_KIND, pa.array(kinds[order]))


def taken_of_both(
    first: tuple[pa.Table, Indices], second: tuple[pa.Table, Indices], order: Indices
) -> pa.Table:
    """Return rows of two tables in one: those of ``first`` and then of ``second``, put in ``order``.

    Both: a table and row numbers of it. If it is the same table, each row is copied once.
    """
    (one, rows), (other, others) = first, second
    if one is other:
        return one.take(pa.array(np.concatenate([rows, others])[order]))
    # Few rows of two large tables are found faster in each alone.
    few, more = one.take(pa.array(rows)), other.take(pa.array(others))
    return pa.concat_tables([few, declared(more, few.schema)]).take(pa.array(order))


def equal_rows(left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Flags:
    """Return per row whether two tables have equal values in ``columns``.

    Null equals null, and NaN equals NaN; the two zeros differ. Clauses: CHG-8, CHG-9, MRG-7.
    """
    equal = np.ones(left.num_rows, dtype=bool)
    for name in columns:
        one, other = left.column(name), right.column(name)
        same = pc.fill_null(pc.equal(one, other), False).to_numpy()
        if pa.types.is_floating(one.type):
            same = same & (np.signbit(one.to_numpy()) == np.signbit(other.to_numpy()))
            same |= pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), False).to_numpy()
        equal &= same | pc.and_(pc.is_null(one), pc.is_null(other)).to_numpy()
    return equal
