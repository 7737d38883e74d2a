"""Make the values of a `RecordTable` from columns of Avro, a column at a time, and only those that are asked for.

A value is made here only if it would be the same made from a decoded record. Whatever would be damage there raises
`NotInColumns` here, also in a value that nobody asks for: the caller decodes record by record, and that says what is
wrong.

Clauses: META-22, META-23, META-60.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from pktable.format.avro_columns import Column, Lists, NotInColumns, Nullable, Numbers, Records, Spans

if TYPE_CHECKING:
    from pktable.format.metadata.manifest_fields import Kind, RecordTable

Value = TypeVar("Value")


class ColumnarValues(Generic[Value]):
    """The values of a block's records, checked by columns. Raises NotInColumns."""

    def __init__(self, table: RecordTable[Value], found: Records) -> None:
        _expect_values(table, found)
        self._table, self._found = table, found

    def __len__(self) -> int:
        return self._found.count

    def made(self, places: Sequence[int] | None = None) -> list[Value]:
        """Return the values at ``places``, None for all."""
        found = self._found
        with uncollected():
            return _values(self._table, found if places is None else found.chosen(np.array(places, np.int64)))

    def attribute(self, name: str) -> Sequence[Any]:
        """Return an attribute of each value. ``a.b``: the attribute ``b`` of the attribute ``a``."""
        table, found = self._table, self._found
        *outer, last = name.split(".")
        for attribute in outer:
            field, kind = table.field_of(attribute)
            column = found.fields[field]
            assert kind.table is not None
            assert isinstance(column, Records), "a record that must be present"
            table, found = kind.table, column
        field, kind = table.field_of(last)
        return _attributes(kind, found.fields.get(field), found.count)


@contextmanager
def uncollected() -> Iterator[None]:
    """Keep the collector of cycles away from the block, which makes many objects and no cycles.

    It would look at all of them again and again while they are made, which takes as long as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _expect_values(table: RecordTable[Any], found: Records) -> None:
    """Raise NotInColumns if a record stands for no value of ``table``, or may hold more than is known."""
    if not found.fields.keys() <= table.known:
        raise NotInColumns
    for name, kind in table.fields:
        _expect_attributes(kind, found.fields.get(name), found.count)


def _expect_attributes(kind: Kind, column: Column | None, count: int) -> None:
    """Raise NotInColumns where `_attributes` does, without making what cannot be wrong."""
    if isinstance(column, Nullable):
        present = int(np.count_nonzero(column.present))
        if present < count:
            _absent(kind)
        if present:
            _expect_attributes(kind, column.column, present)
    elif isinstance(column, Records) and kind.table is not None:
        _expect_values(kind.table, column)
    elif isinstance(column, Lists) and kind.item is not None:
        for i, part in enumerate(column.items):
            _expect_attributes(kind.item, part, int(np.count_nonzero(column.counts > i)))
    elif isinstance(column, Numbers) and kind.type is int:
        if kind.decode is not None and count:  # it allows all integers between two it allows
            _expect_allowed(kind, [int(column.values.min()), int(column.values.max())])
    elif isinstance(column, Spans) and kind.type is (str if column.text else bytes):
        if column.text or kind.decode is not None:
            _expect_allowed(kind, column.list())
    elif column is None:
        _absent(kind)
    else:
        raise NotInColumns


def _values(table: RecordTable[Any], found: Records) -> list[Any]:
    """Return a value of ``table`` for each record. Raises NotInColumns."""
    make: Any = table.make
    made: list[Any] = list(map(object.__new__, repeat(make, found.count)))
    for attribute, (name, kind) in zip(table.attributes, table.fields, strict=True):
        values = _attributes(kind, found.fields.get(name), found.count)
        # As the constructor does it, but without a call of Python for each value.
        deque(map(getattr(make, attribute).__set__, made, values), maxlen=0)
    return made


def _attributes(kind: Kind, column: Column | None, count: int) -> Sequence[Any]:
    """Return what an attribute of ``kind`` is in each of ``count`` records, after `_expect_attributes`."""
    if column is None:
        return [_absent(kind)] * count
    if isinstance(column, Nullable):
        if bool(column.present.all()):
            return _attributes(kind, column.column, count)
        absent = _absent(kind)
        if not bool(column.present.any()):
            return [absent] * count
        found = iter(_attributes(kind, column.column, int(np.count_nonzero(column.present))))
        return [next(found) if present else absent for present in column.present.tolist()]
    if isinstance(column, Lists) and kind.item is not None:
        return _tuples(kind.item, column)
    if isinstance(column, Records) and kind.table is not None:
        return _values(kind.table, column)
    assert isinstance(column, Numbers | Spans), "checked"
    return column.list()


def _absent(kind: Kind) -> Any:
    if kind.is_required:
        raise NotInColumns
    return kind.absent


def _expect_allowed(kind: Kind, values: list[Any]) -> None:
    """Raise NotInColumns if the kind forbids a value. Of numbers, text and bytes it changes none."""
    if kind.decode is not None:
        try:
            for value in values:
                kind.decode(value, "")
        except ValueError:
            raise NotInColumns from None


def _tuples(item: Kind, column: Lists) -> list[tuple[Any, ...]]:
    """Return each list as a tuple. Lists of the same length are made together."""
    found: list[tuple[Any, ...]] = [()] * len(column.counts)
    places = [np.flatnonzero(column.counts > i) for i in range(len(column.items))]
    items = [_attributes(item, part, len(at)) for part, at in zip(column.items, places, strict=True)]
    for count in np.unique(column.counts).tolist():
        rows = np.flatnonzero(column.counts == count)
        if len(rows) == len(found):
            return list(zip(*items, strict=True)) if count else found
        columns = []
        for part, at in zip(items[:count], places, strict=False):
            chosen = np.searchsorted(at, rows).tolist()
            columns.append([part[i] for i in chosen])
        for row, values in zip(rows.tolist(), zip(*columns, strict=True), strict=False):
            found[row] = values
    return found
