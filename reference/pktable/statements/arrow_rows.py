"""Evaluate a statement on Arrow tables.

The target comes in pieces, and each piece is joined with the whole source (`ArrowStatement.of`), so that only the
source and the changes are in memory at once. The source rows that were in no pair come last (`ArrowStatement.rest`).

Of a piece, step by step:

1. Pairs of equal join values are found by Arrow's hash join over row numbers; the residual condition filters them.
2. The clauses are asked in order. A row goes to the first one whose condition holds. The new values of a clause are
   evaluated for its rows alone, so an expression that can fail meets no other row.

Clauses: STM-1, STM-2, STM-3, STM-5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError

from pktable.format.arrow_values import declared
from pktable.format.metadata.schema import TableSchema
from pktable.ingest.changes import conform
from pktable.ingest.columns import empty_column
from pktable.merge.key_encoding import encode_keys
from pktable.predicate.evaluation import evaluated, filtered
from pktable.statements.plan import KIND, SOURCE, TARGET, Clause, Statement, When, qualified, tree_of

Rows = npt.NDArray[np.int64]
ROW: str = "__pktable_row"


class ArrowStatement:
    """A statement and its source, ready for pieces of the target.

    It is not changed by use, so that several threads may share it. ``source``: None for a statement without one.
    """

    def __init__(self, statement: Statement, source: pa.Table | None, schema: TableSchema) -> None:
        self._statement, self._schema = statement, schema
        types = (pa.string(), pa.int64(), pa.int64())
        self._place = [pa.field(*pair) for pair in zip(statement.place, types, strict=False)]
        self._source = (
            None
            if source is None
            else source.rename_columns([qualified(SOURCE, n) for n in source.column_names])
        )
        self._source_keys = (
            None if self._source is None else _keys(statement, SOURCE, self._source, "source_row")
        )

    def of(self, target: pa.Table) -> tuple[pa.Table, Rows]:
        """Return the changes of ``target`` rows, and the numbers of the source rows in a pair with one of them.

        ``target``: the columns `Statement.needed`, a pyarrow.Table. The changes have the table's columns and `KIND`.
        Those of an append table come and go with `Statement.place`, which is null for a row that is inserted.
        Raises InvalidRequestError if an expression fails, or two source rows change one target row.
        """
        target = target.rename_columns([qualified(TARGET, name) for name in target.column_names])
        left, right = self._pairs(target)
        found = [self._matched(target, left, right)]
        if self._statement.of(When.NOT_MATCHED_BY_SOURCE):
            alone = np.ones(target.num_rows, dtype=bool)
            alone[left] = False
            rows = target.take(pa.array(np.flatnonzero(alone)))
            found += self._changes(rows, When.NOT_MATCHED_BY_SOURCE)
        return self._table(found), np.unique(right)

    def rest(self, matched: Iterable[Rows]) -> pa.Table:
        """Return the changes of the source rows that are in none of ``matched``.

        They come after those of the target's rows: a row may be inserted under a key that the statement deletes.
        Raises InvalidRequestError if two have one key. Clauses: STM-3.
        """
        if self._source is None or not self._statement.of(When.NOT_MATCHED):
            return self._table([])
        alone = np.ones(self._source.num_rows, dtype=bool)
        for rows in matched:
            alone[rows] = False
        rows = self._source.take(pa.array(np.flatnonzero(alone)))
        inserted = self._table(self._changes(rows, When.NOT_MATCHED))
        if self._statement.by_key:
            self._expect_distinct(inserted.select(list(self._statement.key)))
        return inserted

    def _pairs(self, target: pa.Table) -> tuple[Rows, Rows]:
        """Return the rows of target and source that the join pairs, ordered by target row."""
        if self._source is None or self._source_keys is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        keys = _keys(self._statement, TARGET, target, "target_row")
        names = [name for name in keys.column_names if name != "target_row"]
        joined = keys.join(self._source_keys, names, join_type="inner").select(["target_row", "source_row"])
        joined = joined.sort_by([("target_row", "ascending"), ("source_row", "ascending")])
        left, right = (joined.column(i).to_numpy() for i in (0, 1))
        if self._statement.residual is not None:
            rows = filtered(
                tree_of(self._statement.residual), self._paired(target, left, right), self._statement.shown_on
            )
            kept = rows.column(ROW).to_numpy()
            left, right = left[kept], right[kept]
        return left, right

    def _paired(self, target: pa.Table, left: Rows, right: Rows) -> pa.Table:
        assert self._source is not None
        pairs = target.take(pa.array(left))
        for name, column in zip(
            self._source.column_names, self._source.take(pa.array(right)).columns, strict=True
        ):
            pairs = pairs.append_column(name, column)
        return pairs.append_column(ROW, pa.array(np.arange(len(left))))

    def _matched(self, target: pa.Table, left: Rows, right: Rows) -> pa.Table:
        if not len(left) or not self._statement.of(When.MATCHED):
            return self._table([])
        pairs = self._paired(target, left, right).append_column("__pktable_target", pa.array(left))
        changes, rows = [], []
        for clause, chosen in self._chosen(pairs, When.MATCHED):
            rows.append(chosen.column("__pktable_target").to_numpy())
            changes.append(self._changed(chosen, clause))
        self._expect_once(target, np.concatenate(rows) if rows else np.empty(0, np.int64))
        return self._table(changes)

    def _expect_once(self, target: pa.Table, rows: Rows) -> None:
        """Raise InvalidRequestError if a target row is in ``rows`` twice. Clauses: STM-3."""
        distinct, counts = np.unique(rows, return_counts=True)
        if (counts > 1).any():
            row = target.slice(int(distinct[counts > 1][0]), 1)
            names = self._statement.shown_key
            raise _several(
                row.select([qualified(TARGET, name) for name in names]).rename_columns(list(names))
            )

    def _expect_distinct(self, keys: pa.Table) -> None:
        """Raise InvalidRequestError if two rows of ``keys`` are equal. Clauses: STM-3."""
        types = [self._schema.field(name).type for name in keys.column_names]
        (encoded,) = encode_keys([keys.columns], types)
        order = np.argsort(encoded, kind="stable")
        same = np.flatnonzero(encoded[order][1:] == encoded[order][:-1])
        if len(same):
            raise _several(keys.slice(int(order[same[0]]), 1))

    def _changes(self, rows: pa.Table, when: When) -> list[pa.Table]:
        return [self._changed(chosen, clause) for clause, chosen in self._chosen(rows, when)]

    def _chosen(self, rows: pa.Table, when: When) -> list[tuple[Clause, pa.Table]]:
        """Return each clause about ``when`` that has rows, with these: of ``rows`` those that no clause before took."""
        rows = (
            rows if ROW in rows.column_names else rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))
        )
        found = []
        for _, clause in self._statement.of(when):
            chosen = (
                rows
                if clause.condition is None
                else filtered(tree_of(clause.condition), rows, clause.shown_condition())
            )
            if chosen.num_rows:
                found.append((clause, chosen))
                taken = pc.is_in(rows.column(ROW), value_set=chosen.column(ROW).combine_chunks())
                rows = rows.filter(pc.invert(taken))
        return found

    def _changed(self, rows: pa.Table, clause: Clause) -> pa.Table:
        names = self._statement.columns
        if clause.values is None:
            found = self._deleted(rows)
        else:
            values = dict(zip(names, map(tree_of, clause.values), strict=True))
            found = conform(evaluated(values, rows, clause.shown_value), self._schema)
        found = found.append_column(KIND, pa.array(np.full(rows.num_rows, int(clause.kind), dtype=np.int8)))
        for field in self._place:
            name = qualified(TARGET, field.name)
            is_old = name in rows.column_names
            found = found.append_column(
                field, rows.column(name) if is_old else pa.nulls(rows.num_rows, field.type)
            )
        return found

    def _deleted(self, rows: pa.Table) -> pa.Table:
        """Return deleted target rows; those of an append table, whose place is all that counts, without values."""
        if not self._statement.by_key:
            columns = [empty_column(field, rows.num_rows) for field in self._schema.fields]
            return pa.table(columns, names=list(self._statement.columns))
        names = list(self._statement.columns)
        return rows.select([qualified(TARGET, name) for name in names]).rename_columns(names)

    def _table(self, changes: Sequence[pa.Table]) -> pa.Table:
        fields = [*self._schema.arrow_schema, pa.field(KIND, pa.int8()), *self._place]
        empty = pa.schema(fields).empty_table()
        return pa.concat_tables([empty, *(declared(table, empty.schema) for table in changes)])


def _keys(statement: Statement, side: str, rows: pa.Table, number: str) -> pa.Table:
    """Return the join values of ``rows`` of ``side`` and their numbers. Arrow pairs no row in which one is null."""
    values = {f"key{i}": pair[side == SOURCE] for i, pair in enumerate(statement.keys)}
    keys = evaluated(values, rows, lambda _: statement.shown_on)
    columns = [_comparable(column, same_keys=statement.same_keys) for column in keys.columns]
    return pa.table([*columns, pa.array(np.arange(rows.num_rows))], names=[*keys.column_names, number])


def _comparable(values: pa.ChunkedArray, *, same_keys: bool) -> pa.ChunkedArray:
    """Return floats so that equal ones have equal bits: one NaN, and one zero unless two are two keys.

    Other values are returned as they are. Clauses: STM-12, MRG-7.
    """
    if not pa.types.is_floating(values.type):
        return values
    if not same_keys:
        values = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)


def _several(key: pa.Table) -> InvalidRequestError:
    (values,) = key.to_pylist()
    shown = ", ".join(f"{name} = {value}" for name, value in values.items())
    return InvalidRequestError(f"merge: several source rows change the row with {shown}")
