"""The merge engine ``aggregation``: each column of the rows of a key is folded by a function of its own.

``fields.<column>.aggregate-function`` names it, ``fields.default-aggregate-function`` those of the others, which
without it keep their last value that is not null. A retraction takes its values back, where the function can;
``aggregation.remove-record-on-delete`` makes -D remove the row instead.

Clauses: MRG-8, MRG-9, MRG-10, MRG-11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind

from pktable.format.types import is_atomic
from pktable.merge.aggregates import AGGREGATES, MISSING, Aggregate
from pktable.merge.engine_options import (
    COUNT_LIMIT,
    DEFAULT_FUNCTION,
    DELIMITER,
    DISTINCT,
    ENGINE,
    FIELDS,
    FUNCTION,
    IGNORE_DELETE,
    IGNORE_RETRACT,
    NESTED_KEY,
    SEQUENCE_FIELD,
    EngineOptions,
    remove_on_delete,
)
from pktable.merge.grouping import Flags, Window, kinds_of
from pktable.merge.segments import Column, Computed, Segments, segments_of
from pktable.merge.set_functions import is_comparable, sketch_library
from pktable.merge.user_order import user_order_of

NAME: Final = "aggregation"
LAST_NON_NULL: Final = "last_non_null_value"
NEWEST: Final = "last_value"


@dataclass(frozen=True, slots=True)
class AggregatedColumn:
    """A column, its function, and whether retractions leave it as it is."""

    column: Column
    aggregate: Aggregate
    ignores_retractions: bool

    def of(self, segments: Segments) -> pa.Array:
        """Return the column of the segments' rows."""
        name, choose = self.column.name, self.aggregate.choose
        if choose is None or self.ignores_retractions:
            return self.fold(segments.values(name), segments)
        return segments.values_at(name, choose(segments, segments.known(name), self.column))

    def fold(self, values: pa.Array, segments: Segments) -> pa.Array:
        """Return the column of the segments' rows; ``values``: that of their records, or others in their place."""
        if self.ignores_retractions and not segments.adds.all():
            values, segments = values.filter(pa.array(segments.adds)), segments.adds_only()
        return self.aggregate.fold(values, segments, self.column)

    def expect_no_retraction(self) -> None:
        """Raise InvalidRequestError if a retraction cannot be taken back from the column."""
        if not (self.aggregate.retracts(self.column) or self.ignores_retractions):
            name = f"{FIELDS}{self.column.name}"
            reason = f", because {self.aggregate.lasting}" if self.aggregate.lasting else ""
            raise InvalidRequestError(
                f"option {name}.{FUNCTION}={self.aggregate.name}: column {self.column.name} cannot take back a "
                f"retraction (-U, -D){reason}; set {name}.{IGNORE_RETRACT}=true to leave it as it is"
            )


def aggregated_column(options: EngineOptions, name: str, function: str) -> AggregatedColumn:
    """Return a column with its function. Raises InvalidRequestError, UnsupportedOptionError."""
    own = f"{FIELDS}{name}.{FUNCTION}"
    option = own if own in options.options else DEFAULT_FUNCTION
    aggregate = AGGREGATES.get(function)
    if aggregate is None:
        reason = f"; {MISSING[function]}" if function in MISSING else ""
        raise UnsupportedOptionError(option, function, " or ".join(AGGREGATES) + reason)
    kind = options.schema.field(name).type
    takes, test = aggregate.takes
    if not test(kind):
        raise InvalidRequestError(
            f"option {option}={function}: column {name} is of type {kind}; expected {takes}"
        )
    column = Column(name, kind)
    if function == "listagg":
        delimiter = options.of_column(name, DELIMITER)
        column = replace(column, delimiter="," if delimiter is None else delimiter)
    elif function == "collect":
        column = replace(column, distinct=_distinct(options, column))
    elif function == "theta_sketch":
        sketch_library()
    elif function == "nested_update":
        column = replace(column, nested_key=_nested_key(options, column), limit=_limit(options, name))
    return AggregatedColumn(column, aggregate, options.flag(f"{FIELDS}{name}.{IGNORE_RETRACT}"))


def _distinct(options: EngineOptions, column: Column) -> bool:
    option, element = f"{FIELDS}{column.name}.{DISTINCT}", column.type.children[0].type
    found = options.flag(option)
    if found and not is_comparable(element):
        raise UnsupportedOptionError(option, "true", f"false for elements of type {element}")
    return found


def _nested_key(options: EngineOptions, column: Column) -> tuple[str, ...]:
    """Return the fields that identify the rows of a column. Raises InvalidRequestError for one that cannot."""
    fields = {one.name: one.type for one in column.type.children[0].type.children}
    text = options.of_column(column.name, NESTED_KEY)
    names = () if text is None else tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in fields or not is_atomic(fields[name]):
            atomic = ", ".join(one for one, kind in fields.items() if is_atomic(kind))
            raise InvalidRequestError(
                f"option {FIELDS}{column.name}.{NESTED_KEY}={text}: expected some of the atomic fields {atomic} "
                f"of the rows, found {name or 'none'}"
            )
    return names


def _limit(options: EngineOptions, name: str) -> int | None:
    """Return the number of rows that a column may get, None for any. Raises InvalidRequestError."""
    option, text = f"{FIELDS}{name}.{COUNT_LIMIT}", options.of_column(name, COUNT_LIMIT)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 31):
        raise InvalidRequestError(f"option {option}={text!r}: expected a positive integer")
    if options.of_column(name, NESTED_KEY) is not None:
        raise UnsupportedOptionError(option, text, f"it without {FIELDS}{name}.{NESTED_KEY}")
    return int(text)


def copied_columns(options: EngineOptions) -> frozenset[str]:
    """Return the columns that are the same in all records of a key, or those of the newest."""
    keys = options.schema.primary_keys
    return frozenset({SEQUENCE_NUMBER, VALUE_KIND, *options.common, *(KEY_PREFIX + key for key in keys)})


class Aggregation:
    """The `MergeEngine` that aggregates columns."""

    name: Final = NAME
    lookup: Final[Literal["values"]] = "values"
    updates: Final = False

    def __init__(self, options: EngineOptions) -> None:
        self.ignores = options.ignores
        self.folds_retractions = bool(self.ignores)
        self._removes = options.flag(remove_on_delete(NAME))
        self.deletes = self._removes and not self.ignores
        self._copied = copied_columns(options)
        order = user_order_of(options.schema)
        self._ordering = order.columns if order else ()
        default = options.options.get(DEFAULT_FUNCTION, LAST_NON_NULL)
        self._columns: Mapping[str, AggregatedColumn] = {
            field.name: aggregated_column(
                options,
                field.name,
                NEWEST
                if field.name in self._ordering
                else options.of_column(field.name, FUNCTION) or default,
            )
            for field in options.schema.fields
            if field.name not in options.common
        }
        for name in self._ordering:
            if options.of_column(name, FUNCTION) is not None:
                options.refuse_together(f"{FIELDS}{name}.{FUNCTION}", f"{SEQUENCE_FIELD}={name}")
        for name, column in self._columns.items():
            if self._removes and column.ignores_retractions:
                options.refuse_together(f"{FIELDS}{name}.{IGNORE_RETRACT}", remove_on_delete(NAME))

    def needed(self, columns: Sequence[str]) -> Sequence[str]:
        return columns

    def expect_any_order(self) -> None:
        """Refuse functions that ask for the order of older records, and removals. Clauses: MRG-24."""
        if self._removes:
            raise UnsupportedOptionError(remove_on_delete(NAME), "true", f"{SEQUENCE_FIELD} without it")
        for name, column in self._columns.items():
            function = column.aggregate
            if not function.commutes and function.name != NEWEST:
                raise UnsupportedOptionError(
                    f"{FIELDS}{name}.{FUNCTION}",
                    function.name,
                    f"with {SEQUENCE_FIELD} {NEWEST}, or a function that values may reach in any order",
                )

    def settled(self, window: Window) -> Sequence[str]:
        records = window.records
        if not window.adds().all():
            return ()
        functions = {name: one.aggregate.name for name, one in self._columns.items()}
        return [
            name
            for name in records.column_names
            if functions.get(name) == NEWEST
            or (functions.get(name) == LAST_NON_NULL and not records.column(name).null_count)
        ]

    def fold(self, window: Window) -> Computed:
        removals = None if window.adds().all() else self._removals(window)
        segments, alive = segments_of(window, removals)
        return Computed(window, segments, alive, self._column, self._copied.union(self.settled(window)))

    def _removals(self, window: Window) -> Flags | None:
        """Return per record of ``window.order`` whether it removes the row, None if none does.

        Raises InvalidRequestError if another retraction cannot be taken back.
        """
        kinds = kinds_of(window.records)[window.order]
        retractions = kinds & 1 != 0
        if self._ordering and retractions.any():
            raise InvalidRequestError(
                f"option {SEQUENCE_FIELD}: {ENGINE}={NAME} cannot take back values (-U, -D) that may come later; "
                f"set {IGNORE_DELETE}=true to ignore it"
            )
        removals = kinds == RowKind.DELETE if self._removes else None
        if (retractions if removals is None else retractions & ~removals).any():
            names = set(window.records.column_names)
            for name, column in self._columns.items():
                if name in names:
                    column.expect_no_retraction()
        return removals

    def _column(self, name: str, segments: Segments) -> pa.Array:
        return self._columns[name].of(segments)
