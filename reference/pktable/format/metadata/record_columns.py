"""Make the values of a `RecordTable` from columns of Avro, a column at a time.

A value is made here only if it would be the same made from a decoded record. Whatever would be damage there raises
`NotInColumns` here: the caller decodes record by record, and that says what is wrong.

Clauses: META-22, META-23.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from pktable.format.avro_columns import Column, Lists, NotInColumns, Nullable, Numbers, Records, Spans

if TYPE_CHECKING:
    from pktable.format.metadata.manifest_fields import Kind, RecordTable


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


def values_in_columns(table: RecordTable[Any], found: Records) -> list[Any]:
    """Return a value of ``table`` for each record. Raises NotInColumns."""
    make: Any = table.make
    made: list[Any] = list(map(object.__new__, repeat(make, found.count)))
    for attribute, (name, kind) in zip(table.attributes, table.fields, strict=True):
        values = _attributes(kind, found.fields.get(name), found.count)
        # As the constructor does it, but without a call of Python for each value.
        deque(map(getattr(make, attribute).__set__, made, values), maxlen=0)
    return made


def _attributes(kind: Kind, column: Column | None, count: int) -> Sequence[Any]:
    """Return what an attribute of ``kind`` is in each of ``count`` records."""
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
    if isinstance(column, Numbers) and kind.type is int:
        if kind.decode is not None and count:  # it allows all integers between two it allows
            _decoded(kind, [int(column.values.min()), int(column.values.max())])
        return column.list()
    if isinstance(column, Spans) and kind.type is (str if column.text else bytes):
        return _decoded(kind, column.list())
    if isinstance(column, Lists) and kind.item is not None:
        return _tuples(kind.item, column)
    if isinstance(column, Records) and kind.table is not None:
        return values_in_columns(kind.table, column)
    raise NotInColumns


def _absent(kind: Kind) -> Any:
    if kind.is_required:
        raise NotInColumns
    return kind.absent


def _decoded(kind: Kind, values: list[Any]) -> list[Any]:
    if kind.decode is None:
        return values
    try:
        return [kind.decode(value, "") for value in values]
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
