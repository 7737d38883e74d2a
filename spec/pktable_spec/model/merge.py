"""Merge engines: how the changes of one key become one change.

A table names its engine by the option ``merge-engine``. An engine has two functions:

1. `MergeEngine.apply` is the meaning: the row of a key after one more change. `meaning` uses nothing else.
2. `MergeEngine.fold` is the mechanism: several changes as one. Writes, compactions and reads fold the records of a key
   in parts, and without knowing the row that older records leave.

These laws make the two agree, whatever the parts are. ``changes`` are of one key, oldest first, and at least one:

* **sound**: applying the fold to a row, or to no row, gives what applying the changes one after another gives;
* **associative over adjacent runs**: folding the folds of two adjacent parts equals folding all their changes;
* **idempotent**: the fold of a single change is that change;
* **oldest first**: an engine sees the changes of a key in the order of their sequence numbers.

With ``sequence.field`` the columns of a row come before its sequence number (`UserOrder`). Records that are merged
then need not be neighbours, so the second law must hold for any parts of the changes; it does for deduplicate.

A retraction of no row leaves no row, by soundness; so a compaction may drop one that has nothing older below it.
Module Engines of ``spec/tla`` has the same laws.

Partial-update and aggregation have no fold of a retraction with part of the older changes (`retracts_apart`). Of their
laws only the first holds with retractions, and only for no row: a write keeps each retraction apart from the other
changes of its key, and a compaction with retractions takes in all that is older (MRG-8).

The oracle's aggregation may have a function of its own for a column. Key columns have the default one, of which any but
a sum will do; with retractions there is none, and each other column has a function of its own.

Clauses: MRG-1, MRG-3, MRG-4, MRG-8, MRG-9, MRG-12 to MRG-16, MRG-19.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final, Literal, Protocol, TypeAlias

from pktable_spec.errors import UnsupportedOptionError
from pktable_spec.interface import Change, Row, Scalar, StoredRecord
from pktable_spec.vocabulary import RowKind

OPTION: Final = "merge-engine"
IGNORE_DELETE: Final = "ignore-delete"
FUNCTION: Final = "fields.default-aggregate-function"
COLUMN_FUNCTION: Final = "fields.{}.aggregate-function"
GROUP: Final = "fields.{}.sequence-group"

Lookup: TypeAlias = Literal["position", "values", "presence"]
Step: TypeAlias = Callable[[Scalar, Scalar], Scalar]
"""The value of a column after one more value."""


class MergeEngine(Protocol):
    """How the changes of one key become one. The module says which laws must hold."""

    @property
    def name(self) -> str:
        """The value of the option ``merge-engine``."""
        ...

    @property
    def lookup(self) -> Lookup:
        """The part of an older row, in a file that it does not rewrite, that a compaction needs.

        With deletion vectors: its position, or its values too. "presence": whether there is one, and without deletion
        vectors; then the newer records of the key are left out.
        """
        ...

    @property
    def ignores_retractions(self) -> bool:
        """Whether a retraction is merged as if it were not there."""
        ...

    def apply(self, row: Row | None, change: Change) -> Row | None:
        """Return the row of a key after ``change``; None is no row."""
        ...

    def fold(self, changes: Sequence[Change]) -> Change:
        """Return the one change that does what ``changes`` do, oldest first."""
        ...


@dataclass(frozen=True)
class Deduplicate:
    """The `MergeEngine` that keeps the newest change. Clauses: MRG-1, MRG-3, MRG-15."""

    ignores_retractions: bool = False
    name: str = "deduplicate"
    lookup: Lookup = "position"

    def apply(self, row: Row | None, change: Change) -> Row | None:
        if change.kind.is_add:
            return change.row
        return row if self.ignores_retractions else None

    def fold(self, changes: Sequence[Change]) -> Change:
        return _counting(changes, self)[-1]


@dataclass(frozen=True)
class Group:
    """A sequence group: the places in a row of the column that orders it, and of those that it protects.

    ``sums``: the protected columns that are summed.
    """

    by: int
    protected: tuple[int, ...]
    sums: frozenset[int] = frozenset()

    def applied(self, row: Row, change: Change) -> dict[int, Scalar]:
        """Return the columns of the group after ``change``, by their places. Clauses: MRG-14."""
        old, new = row[self.by], change.row[self.by]
        wins = new is not None and (old is None or not _greater(old, new))
        found: dict[int, Scalar] = {self.by: new if wins else old}
        for column in self.protected:
            was, value = row[column] if old is not None else None, change.row[column]
            if column in self.sums:
                step = _sum if change.kind.is_add else _difference
                found[column] = was if new is None else step(was, value)
            elif wins:
                found[column] = value if change.kind.is_add else None
            else:
                found[column] = was
        return found


@dataclass(frozen=True)
class ByColumn:
    """A `MergeEngine` that folds each column by ``step``, or with the others of its group.

    ``own``: columns by their places in a row, with steps of their own. ``takes_back``: steps of retractions, of the
    columns that have any. Clauses: MRG-9, MRG-13 to MRG-16.
    """

    name: str
    step: Step
    own: tuple[tuple[int, Step], ...] = ()
    ignores_retractions: bool = True
    lookup: Lookup = "values"
    takes_back: tuple[tuple[int, Step], ...] = ()
    groups: tuple[Group, ...] = ()

    def apply(self, row: Row | None, change: Change) -> Row | None:
        if not change.kind.is_add and (row is None or self.ignores_retractions):
            return row
        if row is None:
            return change.row
        steps = dict(self.own if change.kind.is_add else self.takes_back)
        default = self.step if change.kind.is_add else _oldest
        pairs = zip(row, change.row, strict=True)
        found = [steps.get(column, default)(was, value) for column, (was, value) in enumerate(pairs)]
        for group in self.groups:
            for column, value in group.applied(row, change).items():
                found[column] = value
        return tuple(found)

    def fold(self, changes: Sequence[Change]) -> Change:
        counting = _counting(changes, self)
        row: Row | None = None
        for change in counting:
            row = self.apply(row, change)
        newest = counting[-1]
        if row is None:
            return newest
        return Change(newest.kind if newest.kind.is_add else RowKind.INSERT, row)


@dataclass(frozen=True)
class FirstRow:
    """The `MergeEngine` that keeps the oldest change, and ignores retractions. Clauses: MRG-12, MRG-15."""

    name: str = "first-row"
    ignores_retractions: bool = True
    lookup: Lookup = "presence"

    def apply(self, row: Row | None, change: Change) -> Row | None:
        return change.row if row is None and change.kind.is_add else row

    def fold(self, changes: Sequence[Change]) -> Change:
        return _counting(changes, self)[0]


def _newest(was: Scalar, value: Scalar) -> Scalar:
    return was if value is None else value


def _greatest(was: Scalar, value: Scalar) -> Scalar:
    return max((one for one in (was, value) if one is not None), default=None)


def _oldest(was: Scalar, value: Scalar) -> Scalar:
    return was


def _sum(was: Any, value: Any) -> Scalar:
    numbers = [one for one in (was, value) if one is not None]
    return sum(numbers) if numbers else None


def _difference(was: Any, value: Any) -> Scalar:
    return _sum(was, None if value is None else -value)


def _greater(one: Any, two: Any) -> bool:
    """Return whether a value that is not null is greater than another. Strings compare by their bytes (MRG-7)."""
    return bool(one.encode() > two.encode() if isinstance(one, str) else one > two)


STEPS: Final[Mapping[str, Step]] = {
    "last_non_null_value": _newest,
    "last_value": lambda was, value: value,
    "max": _greatest,
    "sum": _sum,
    "first_value": _oldest,
    "first_non_null_value": lambda was, value: value if was is None else was,
}
"""The aggregate functions that the oracle knows."""

RETRACTIONS: Final[Mapping[str, Step]] = {
    "sum": _difference,
    "last_value": lambda was, value: None,
    "last_non_null_value": lambda was, value: was if value is None else None,
}
"""How those take a value back that can."""

DEDUPLICATE: Final = Deduplicate()


def _deduplicate(options: Mapping[str, str], columns: Sequence[str]) -> MergeEngine:
    return Deduplicate(True) if _ignores_deletes(options) else DEDUPLICATE


def _partial_update(options: Mapping[str, str], columns: Sequence[str]) -> MergeEngine:
    groups = tuple(
        _group(options, columns, by, options[GROUP.format(name)])
        for by, name in enumerate(columns)
        if GROUP.format(name) in options
    )
    if not groups:
        _expect_ignored_deletes(options)
    return ByColumn("partial-update", _newest, (), _ignores_deletes(options), groups=groups)


def _group(options: Mapping[str, str], columns: Sequence[str], by: int, protected: str) -> Group:
    names = protected.split(",")
    sums = []
    for name in names:
        function = options.get(COLUMN_FUNCTION.format(name), "sum")
        if function != "sum":
            raise UnsupportedOptionError(COLUMN_FUNCTION.format(name), function, "sum")
        if COLUMN_FUNCTION.format(name) in options:
            sums.append(columns.index(name))
    return Group(by, tuple(map(columns.index, names)), frozenset(sums))


def _aggregation(options: Mapping[str, str], columns: Sequence[str]) -> MergeEngine:
    named = {at: COLUMN_FUNCTION.format(name) for at, name in enumerate(columns)}
    named = {at: name for at, name in named.items() if name in options}
    own = tuple((at, _step_of(name, options[name])) for at, name in named.items())
    default = _step_of(FUNCTION, options.get(FUNCTION, "last_non_null_value"))
    if _ignores_deletes(options):
        return ByColumn("aggregation", default, own)
    if FUNCTION in options or not named:
        _expect_ignored_deletes(options)
    back = tuple((at, _step_of(name, options[name], RETRACTIONS)) for at, name in named.items())
    return ByColumn("aggregation", default, own, ignores_retractions=False, takes_back=back)


def _step_of(option: str, function: str, steps: Mapping[str, Step] = STEPS) -> Step:
    if function not in steps:
        raise UnsupportedOptionError(option, function, " or ".join(steps))
    return steps[function]


def _first_row(options: Mapping[str, str], columns: Sequence[str]) -> MergeEngine:
    _expect_ignored_deletes(options)
    return FirstRow()


def _ignores_deletes(options: Mapping[str, str]) -> bool:
    return options.get(IGNORE_DELETE, "false") == "true"


def _expect_ignored_deletes(options: Mapping[str, str]) -> None:
    if not _ignores_deletes(options):
        raise UnsupportedOptionError(IGNORE_DELETE, "false", "true")


ENGINES: Final[dict[str, Callable[[Mapping[str, str], Sequence[str]], MergeEngine]]] = {
    DEDUPLICATE.name: _deduplicate,
    "partial-update": _partial_update,
    "aggregation": _aggregation,
    "first-row": _first_row,
}
"""The engines by name, each made of the options of a table and the names of its columns. A test may add one."""


def engine_of(options: Mapping[str, str], columns: Sequence[str] = ()) -> MergeEngine:
    """Return the engine that table options name. Raises UnsupportedOptionError if the oracle has none such."""
    name = options.get(OPTION, DEDUPLICATE.name)
    if name not in ENGINES:
        raise UnsupportedOptionError(OPTION, name, " or ".join(ENGINES))
    return ENGINES[name](options, columns)


def retracts_apart(engine: MergeEngine) -> bool:
    """Return whether no retraction may be folded with part of the older changes of its key. Clauses: MRG-8."""
    return isinstance(engine, ByColumn) and not engine.ignores_retractions


def _counting(changes: Sequence[Change], engine: MergeEngine) -> Sequence[Change]:
    """Return the changes that are not ignored; the newest alone if all are."""
    return [one for one in changes if one.kind.is_add or not engine.ignores_retractions] or changes[-1:]


@dataclass(frozen=True)
class UserOrder:
    """The option ``sequence.field``: the places of its columns in a row, and whether small values are newer.

    Clauses: MRG-19.
    """

    columns: tuple[int, ...]
    descending: bool = False

    def is_newer(self, row: Row, other: Row) -> bool:
        """Return whether a row is newer than another by these columns alone."""
        return self.compared(row, other) > 0

    def compared(self, row: Row, other: Row) -> int:
        """Return a number above 0 if ``row`` is newer, below 0 if it is older, and 0 if that is not said."""
        for column in self.columns:
            one, two = row[column], other[column]
            if one == two:
                continue
            if one is None or two is None:
                return -1 if one is None else 1
            return 1 if _greater(one, two) != self.descending else -1
        return 0

    def sorted_changes(self, changes: Sequence[Change]) -> list[Change]:
        """Return the changes of a key, given in the order in which they were written, oldest first."""
        by_row = cmp_to_key(self.compared)
        return sorted(changes, key=lambda change: by_row(change.row))


def oldest_first(records: Sequence[StoredRecord], order: UserOrder | None) -> list[StoredRecord]:
    """Return the records of a key, given with those of older runs first, oldest first.

    Clauses: MRG-1, MRG-2, MRG-6, MRG-19.
    """
    found = sorted(records, key=lambda record: (record.sequence, record.kind.is_add))
    if order is None:
        return found
    by_row = cmp_to_key(order.compared)
    return sorted(found, key=lambda record: by_row(record.row))


def folded(records: Sequence[StoredRecord], engine: MergeEngine) -> StoredRecord:
    """Return the one record that records of one key become, oldest first.

    It has the sequence number of the newest that is not ignored, or with first-row of the record that stays.
    """
    counting = [one for one in records if one.kind.is_add or not engine.ignores_retractions] or records[-1:]
    kind, row = engine.fold([Change(record.kind, record.row) for record in counting])
    return counting[0 if engine.lookup == "presence" else -1]._replace(kind=kind, row=row)
