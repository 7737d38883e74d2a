"""Keys that move between partitions: what a write does to a key that has its place in another partition.

A table whose primary key lacks partition columns holds, on disk, what a table would hold whose primary key has them.
`placed` says which changes of that table a write makes.

Clauses: BKT-22, BKT-23, BKT-24, CHG-40.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pktable_spec.interface import Change, Key, Row, Shape
from pktable_spec.vocabulary import RowKind


def placed(
    shape: Shape, engine: str, changes: Sequence[Change], rows: Iterable[Row], *, removes: bool = False
) -> list[Change]:
    """Return what ``changes`` write, in order, to a table that has ``rows``, each in its partition.

    ``engine``: the name of the merge engine; ``removes``: whether ``remove-record-on-delete`` is set.
    """
    places: dict[Key, Key] = {_key(shape, row): _partition(shape, row) for row in rows}
    found: list[Change] = []
    for kind, row in changes:
        key, own = _key(shape, row), _partition(shape, row)
        place = places.get(key)
        if place is None and kind.is_add and engine != "deduplicate":
            place = places[key] = own
        if engine != "deduplicate" or not kind.is_add:
            found.append(Change(kind, row if place is None else _in_partition(shape, row, place)))
            if engine == "deduplicate" or (removes and kind is RowKind.DELETE):
                places.pop(key, None)
        else:
            if place not in (None, own):
                found.append(Change(RowKind.DELETE, _in_partition(shape, row, place)))
            found.append(Change(kind, row))
            places[key] = own
    return found


def in_order(shape: Shape, changes: Sequence[Change]) -> Sequence[Change]:
    """Return the changes of one snapshot, which come by bucket, so that a moved key leaves before it comes.

    Those that are the last of their key in its bucket and leave a row come after all others. Clauses: CHG-40.
    """
    if not shape.moves_keys:
        return changes
    last = {shape.pick(change.row, shape.stored_key): number for number, change in enumerate(changes)}
    final = {number for number in last.values() if changes[number].kind.is_add}
    order = sorted(range(len(changes)), key=lambda number: number in final)
    return [changes[number] for number in order]


def _key(shape: Shape, row: Row) -> Key:
    return shape.pick(row, shape.primary_key)


def _partition(shape: Shape, row: Row) -> Key:
    return shape.pick(row, shape.partition_keys)


def _in_partition(shape: Shape, row: Row, partition: Key | None) -> Row:
    """Return ``row`` with the values of another partition."""
    assert partition is not None, "the key has a place"
    values = dict(zip(shape.partition_keys, partition, strict=True))
    return tuple(values.get(name, value) for name, value in zip(shape.names, row, strict=True))
