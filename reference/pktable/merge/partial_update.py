"""The merge engine ``partial-update``: a record overwrites the columns in which it is not null.

``fields.<g>.sequence-group=<a>,<b>`` makes a group of columns: the record with the greatest ``g`` gives ``g``, ``a``
and ``b``, nulls included, however late it comes. ``g`` may be several columns; a record in which they are all null
gives the group nothing, if it is not the only one of its key. An aggregate function of a column of a group folds the
values of all records that give the group something.

Deletions are refused unless an option says what they do:

* ``ignore-delete``: nothing.
* ``partial-update.remove-record-on-delete``: -D removes the row, -U does nothing.
* sequence groups: a retraction with the greatest ``g`` sets the columns of the group to null, or takes aggregated
  values back. ``partial-update.remove-record-on-sequence-group=<g>`` makes a -D with the greatest ``g`` remove the row.

Clauses: MRG-8, MRG-10, MRG-11, MRG-13, MRG-14.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.vocabulary import RowKind

from pktable.format.types import DataType, one_array
from pktable.merge.aggregates import single_or
from pktable.merge.aggregation import (
    LAST_NON_NULL,
    AggregatedColumn,
    aggregated_column,
    copied_columns,
)
from pktable.merge.engine_options import (
    DEFAULT_FUNCTION,
    ENGINE,
    FIELDS,
    FUNCTION,
    IGNORE_DELETE,
    REMOVE_ON_GROUP,
    SEQUENCE_FIELD,
    EngineOptions,
    remove_on_delete,
)
from pktable.merge.grouping import Flags, Indices, Window, kinds_of
from pktable.merge.segments import Computed, Segments, segments_of, valid
from pktable.merge.user_order import ranks, ranks_of

NAME: Final = "partial-update"
NEWEST_OF_GROUP: Final = "last_value"


@dataclass(frozen=True, slots=True)
class SequenceGroup:
    """A sequence group: the columns that order it with their types, and those that it protects."""

    ordering: tuple[str, ...]
    types: tuple[DataType, ...]
    protected: frozenset[str]

    def ranks(self, values: Sequence[pa.Array]) -> Indices:
        """Return integers that compare as the ordering columns do, -1 where all are null. Null is least."""
        known = np.logical_or.reduce([valid(column) for column in values])
        one = len(values) == 1  # then no null is compared
        every = ranks_of(values[0], self.types[0]) if one else ranks(values, self.types)
        found = np.full(len(known), -1, dtype=np.int64)
        found[known] = _from_zero(every[known])
        return found

    def winners(self, ranks: Indices, segments: Segments) -> Indices:
        """Return per segment the newest of the records with the greatest rank, -1 if none has any."""
        best = np.maximum.reduceat(ranks, segments.starts)
        return segments.last((ranks >= 0) & (ranks == np.repeat(best, segments.lengths)))


def _from_zero(ranks: Indices) -> Indices:
    """Return numbers from 0 to less than 2**31 that compare as ``ranks`` do, of less than 2**31 records."""
    if not len(ranks):
        return ranks
    low = int(ranks.min())
    if int(ranks.max()) - low < 1 << 31:
        return ranks - low
    _, found = np.unique(ranks, return_inverse=True)
    return found


class PartialUpdate:
    """The `MergeEngine` that updates columns."""

    name: Final = NAME
    lookup: Final[Literal["values"]] = "values"
    updates: Final = False

    def __init__(self, options: EngineOptions) -> None:
        ignores_deletes = self.folds_retractions = bool(options.ignores)
        self._removes = options.flag(remove_on_delete(NAME))
        self.ignores = options.ignores or frozenset({RowKind.UPDATE_BEFORE} if self._removes else ())
        self._copied = copied_columns(options)
        self._groups = _groups(options)
        self._group_of = {
            column: group for group in self._groups for column in (*group.ordering, *group.protected)
        }
        self._removing = _removing_groups(options, self._groups)
        self._aggregated = _aggregated(options, self._group_of)
        self.deletes = self._removes
        if ignores_deletes and self._removes:
            options.refuse_together(remove_on_delete(NAME), IGNORE_DELETE)
        if ignores_deletes and self._removing:
            options.refuse_together(REMOVE_ON_GROUP, IGNORE_DELETE)
        if self._groups and self._removes:
            options.refuse_together(remove_on_delete(NAME), "a sequence group")

    def needed(self, columns: Sequence[str]) -> Sequence[str]:
        groups = [*self._removing, *(self._group_of[name] for name in columns if name in self._group_of)]
        return list(dict.fromkeys([*columns, *(name for group in groups for name in group.ordering)]))

    def expect_any_order(self) -> None:
        """Refuse: a row does not say how new the record was that gave a column its value."""
        raise UnsupportedOptionError(
            ENGINE, NAME, f"an engine that {SEQUENCE_FIELD} works with; sequence groups order partial updates"
        )

    def settled(self, window: Window) -> Sequence[str]:
        records, fixed = window.records, self._copied | self._group_of.keys()
        names = [name for name in records.column_names if name not in fixed] if window.adds().all() else []
        return [name for name in names if not records.column(name).null_count]

    def fold(self, window: Window) -> Computed:
        if not (self._removes or self._groups) and not window.adds()[window.order].all():
            raise InvalidRequestError(
                f"option {ENGINE}={NAME}: rows cannot be deleted (-U, -D) without one of {remove_on_delete(NAME)}, "
                f"{IGNORE_DELETE} and a sequence group"
            )
        removals = None
        if self._removes:
            removals = (kinds_of(window.records) == RowKind.DELETE)[window.order]
        elif self._removing:
            removals = self._removed_by_group(window)
        segments, alive = segments_of(window, removals)
        folded = _Fold(self._group_of, self._aggregated)
        return Computed(window, segments, alive, folded.column, self._copied.union(self.settled(window)))

    def _removed_by_group(self, window: Window) -> Flags:
        """Return per record of ``window.order`` whether it is a -D that removes the row by its group.

        Whether it does depends on the records since the last removal, so removals are found round by round: the
        first of each key, then the second.
        """
        order, count = window.order, len(window.order)
        kinds = kinds_of(window.records)[order]
        found = np.zeros(count, dtype=bool)
        deletions = kinds == RowKind.DELETE
        if not deletions.any():
            return found
        ranks = [
            group.ranks(
                [one_array(window.records.column(name)).take(pa.array(order)) for name in group.ordering]
            )
            for group in self._removing
        ]
        at = np.arange(count)
        lengths = np.diff(np.append(window.starts, count))
        begin = window.starts.copy()
        while True:
            # The row begins with the first add since the last removal.
            adds = np.where((kinds & 1 == 0) & (at >= np.repeat(begin, lengths)), at, count)
            there = at >= np.repeat(np.minimum.reduceat(adds, window.starts), lengths)
            removing = np.zeros(count, dtype=bool)
            for rank in ranks:
                removing |= deletions & there & (rank >= 0) & (rank >= _greatest_before(rank, there, window))
            first = np.minimum.reduceat(np.where(removing, at, count), window.starts)
            hit = first < count
            if not hit.any():
                return found
            found[first[hit]] = True
            begin = np.where(hit, first + 1, count)


def _greatest_before(ranks: Indices, there: Flags, window: Window) -> Indices:
    """Return per record the greatest rank of the earlier records of its key for which ``there`` holds, else -1."""
    count, step = len(ranks), int(ranks.max(initial=0)) + 2
    lengths = np.diff(np.append(window.starts, count))
    offsets = np.repeat(np.arange(len(window.starts)), lengths) * step
    running = np.maximum.accumulate(np.where(there, ranks, -1) + 1 + offsets)
    before = np.append(0, running[:-1])
    before[window.starts] = offsets[window.starts]
    return before - offsets - 1


class _Fold:
    """The columns of one fold. Each group is ranked once."""

    def __init__(self, group_of: dict[str, SequenceGroup], aggregated: dict[str, AggregatedColumn]) -> None:
        self._group_of, self._aggregated = group_of, aggregated
        self._ranked: dict[SequenceGroup, tuple[Flags, Indices]] = {}

    def column(self, name: str, segments: Segments) -> pa.Array:
        group = self._group_of.get(name)
        if group is None:
            adds = segments.adds_only()
            return adds.values_at(name, adds.last_or_end(adds.known(name)))  # which is null, if none is known
        given, winners = self._of_group(group, segments)
        aggregated = self._aggregated.get(name)
        if aggregated is not None:
            values = segments.values(name)
            hidden = values.take(pa.array(np.arange(len(values)), mask=~given))
            return single_or(values, segments, aggregated.fold(hidden, segments))
        if name in group.protected:
            winners = np.where((winners >= 0) & segments.adds[winners], winners, -1)
        # The fold of one record is itself.
        return segments.values_at(name, np.where(segments.lengths == 1, segments.starts, winners))

    def _of_group(self, group: SequenceGroup, segments: Segments) -> tuple[Flags, Indices]:
        """Return which records give the group something, and the winner of each segment, -1 if there is none."""
        if group not in self._ranked:
            ranks = group.ranks([segments.values(name) for name in group.ordering])
            self._ranked[group] = ranks >= 0, group.winners(ranks, segments)
        return self._ranked[group]


def _groups(options: EngineOptions) -> list[SequenceGroup]:
    return [
        SequenceGroup(
            ordering, tuple(options.schema.field(name).type for name in ordering), frozenset(protected)
        )
        for _, ordering, protected in options.groups()
    ]


def _removing_groups(options: EngineOptions, groups: Sequence[SequenceGroup]) -> list[SequenceGroup]:
    """Return the groups by which -D removes the row."""
    named = [name.strip() for name in options.options.get(REMOVE_ON_GROUP, "").split(",") if name.strip()]
    for name in named:
        if not any(name in group.ordering for group in groups):
            raise InvalidRequestError(f"option {REMOVE_ON_GROUP}: column {name} orders no sequence group")
    return [group for group in groups if set(group.ordering) & set(named)]


def _aggregated(options: EngineOptions, group_of: dict[str, SequenceGroup]) -> dict[str, AggregatedColumn]:
    """Return the columns of groups that a function folds. Raises InvalidRequestError, UnsupportedOptionError."""
    found = {}
    for field in options.schema.fields:
        name, group = field.name, group_of.get(field.name)
        own = options.of_column(name, FUNCTION)
        function = own or options.options.get(DEFAULT_FUNCTION)
        ordering = group is not None and name in group.ordering
        if function is None or name in options.common or ordering:
            continue
        option = f"{FIELDS}{name}.{FUNCTION}" if own else DEFAULT_FUNCTION
        if group is None:
            if function != LAST_NON_NULL:
                raise InvalidRequestError(
                    f"option {option}={function}: column {name} is in no sequence group"
                )
            continue
        column = aggregated_column(options, name, function)
        if function == NEWEST_OF_GROUP:  # which a group does of itself
            continue
        if not column.aggregate.commutes:
            raise UnsupportedOptionError(
                option,
                function,
                f"a function of column {name}, in a sequence group, that values may reach in any order",
            )
        found[name] = column
    return found
