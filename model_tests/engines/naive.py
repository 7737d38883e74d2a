"""The meaning of merge engines in plain Python: a function folds the records of one key, oldest first.

A record is (row kind, row); a row is a dict of its columns without the key. None is no row. This is written from the
clauses, and shares nothing with the implementation, but for the bytes of sets of 64-bit numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pktable_spec.vocabulary import RowKind
from pyroaring import BitMap

from model_tests.engines import theta
from model_tests.format.long_sets import from_bytes, to_bytes

Row = dict[str, Any]
Record = tuple[RowKind, Row]
Meaning = Callable[[Sequence[Record]], "Row | None"]

Step = Callable[[Any, Any, bool], Any]
"""A function of what was, a value, and whether the value is of an add."""


def both(what: Callable[[Any, Any], Any]) -> Step:
    """Return a step that skips nulls."""
    return lambda was, value, add: value if was is None else was if value is None else what(was, value)


def added(was: Any, value: Any, add: bool) -> Any:
    signed = value if add or value is None else -value
    return signed if was is None else was if signed is None else was + signed


def joined(delimiter: str) -> Step:
    def step(was: Any, value: Any, add: bool) -> Any:
        if value is None or not value.strip():
            return was
        return value if was is None else was + delimiter + value

    return step


def merged(was: Any, value: Any, add: bool) -> Any:
    if value is None or (was is None and not add):
        return was
    if not add:
        return [entry for entry in was if entry[0] not in dict(value)]
    found = dict(was or [])
    found.update(value)
    return list(found.items())


def without_oldest(was: Any, value: Any) -> Any:
    left = list(was)
    for one in value:
        if one in left:
            left.remove(one)
    return left


def collected(was: Any, value: Any, add: bool) -> Any:
    if value is None or (was is None and not add):
        return was
    return [*(was or []), *value] if add else without_oldest(was, value)


def distinct(was: Any, value: Any, add: bool) -> Any:
    if value is None or (was is None and not add):
        return was
    return list(dict.fromkeys([*(was or []), *value] if add else [one for one in was if one not in value]))


def rows_by(*key: str) -> Step:
    """Return the step of nested rows: by their key, or without one all of them."""

    def of(row: Any) -> Any:
        return tuple(row[name] for name in key or sorted(row))

    def step(was: Any, value: Any, add: bool) -> Any:
        if value is None or (was is None and not add):
            return was
        if was is None:
            return value
        was, value = ([row for row in rows if row is not None] for rows in (was, value))
        if not add:
            was, value = [row for row in was if of(row) not in map(of, value)], []
        rows = [*was, *value]
        return list({of(row): row for row in rows}.values()) if key else rows

    return step


def rows_up_to(limit: int) -> Step:
    def step(was: Any, value: Any, add: bool) -> Any:
        if was is None or value is None:
            return was if value is None else value
        was, value = ([row for row in rows if row is not None] for rows in (was, value))
        return was + value[: max(limit - len(was), 0)]

    return step


def short_union(some: bytes, others: bytes) -> bytes:
    united = BitMap.deserialize(some) | BitMap.deserialize(others)
    united.run_optimize()
    return bytes(united.serialize())


STEPS: Mapping[str, Step] = {
    "sum": added,
    "product": both(lambda a, b: math.prod((a, b))),
    "max": both(max),
    "min": both(min),
    "bool_and": both(lambda a, b: a and b),
    "bool_or": both(lambda a, b: a or b),
    "last_value": lambda was, value, add: value if add else None,
    "last_non_null_value": lambda was, value, add: was if value is None else value if add else None,
    "listagg": joined("|"),
    "collect": collected,
    "distinct": distinct,
    "nested_update": rows_by(),
    "nested_update by p": rows_by("p"),
    "nested_update by p and q": rows_by("p", "q"),
    "nested_update up to 2": rows_up_to(2),
    "rbm32": both(short_union),
    "rbm64": both(lambda a, b: to_bytes({*from_bytes(a), *from_bytes(b)})),
    "theta_sketch": both(theta.union),
    "merge_map": merged,
}


def first(values: Sequence[Any], skips_null: bool) -> Any:
    kept = [value for value in values if value is not None] if skips_null else values
    return kept[0] if kept else None


def aggregated(function: str, values: Sequence[tuple[Any, bool]], ignores_retractions: bool = False) -> Any:
    """Return what a function makes of values, each with whether it is of an add."""
    if ignores_retractions:
        values = [one for one in values if one[1]]
    if function in ("first_value", "first_non_null_value"):
        return first([value for value, _ in values], function == "first_non_null_value")
    if function in ("listagg", "distinct") and len(values) == 1:
        return values[0][0]
    was = None
    for value, add in values:
        was = STEPS[function](was, value, add)
    return was


def since_the_row_began(
    records: Sequence[Record], removes: Callable[[Sequence[Record], Record], bool]
) -> list[Record]:
    """Return the records that count: none up to a removal, and no retraction of no row."""
    kept: list[Record] = []
    for record in records:
        if not kept and not record[0].is_add:
            continue
        if not record[0].is_add and removes(kept, record):
            kept = []
        else:
            kept.append(record)
    return kept


def aggregation(
    functions: Mapping[str, str],
    records: Sequence[Record],
    *,
    removes: bool = False,
    ignores: Sequence[str] = (),
) -> Row | None:
    kept = since_the_row_began(records, lambda _, one: removes and one[0] is RowKind.DELETE)
    if not kept:
        return None
    return {
        name: aggregated(
            functions.get(name, "last_non_null_value"),
            [(row[name], kind.is_add) for kind, row in kept],
            name in ignores,
        )
        for name in kept[0][1]
    }


def partial_update(
    records: Sequence[Record],
    *,
    removes: bool = False,
    groups: Mapping[tuple[str, ...], Sequence[str]] | None = None,
    functions: Mapping[str, str] | None = None,
    ignores: Sequence[str] = (),
    removing: Sequence[str] = (),
) -> Row | None:
    """``groups``: the protected columns by the ordering ones. ``functions``: of those of them that are aggregated."""
    groups = groups or {}
    if removes:
        records = [one for one in records if one[0] is not RowKind.UPDATE_BEFORE]

    def goes(kept: Sequence[Record], one: Record) -> bool:
        if removes:
            return one[0] is RowKind.DELETE
        ordered = [by for by in groups if set(by) & set(removing) and one[0] is RowKind.DELETE]
        return any(
            given(one, by) and all(rank(one, by) >= rank(other, by) for other in kept if given(other, by))
            for by in ordered
        )

    kept = since_the_row_began(records, goes)
    if not kept:
        return None
    if len(kept) == 1:
        return dict(kept[0][1])
    found: Row = {
        name: aggregated("last_non_null_value", [(row[name], True) for kind, row in kept if kind.is_add])
        for name in kept[0][1]
    }
    for by, protected in groups.items():
        counting = [one for one in kept if given(one, by)]
        winner = max(enumerate(counting), key=lambda one: (rank(one[1], by), one[0]), default=(0, None))[1]
        for name in by:
            found[name] = winner[1][name] if winner else None
        for name in protected:
            found[name] = winner[1][name] if winner and winner[0].is_add else None
            if functions and name in functions:
                values = [(row[name], kind.is_add) for kind, row in counting]
                found[name] = aggregated(functions[name], values, name in ignores)
    return found


def given(record: Record, by: Sequence[str]) -> bool:
    return any(record[1][name] is not None for name in by)


def rank(record: Record, by: Sequence[str]) -> tuple[Any, ...]:
    return tuple((record[1][name] is not None, record[1][name] or 0) for name in by)


def first_row(records: Sequence[Record]) -> Row | None:
    return dict(records[0][1]) if records else None


def deduplicate_ignoring_deletes(records: Sequence[Record]) -> Row | None:
    kept = [row for kind, row in records if kind.is_add]
    return dict(kept[-1]) if kept else None


__all__ = ["Meaning", "Record", "Row", "aggregation", "first_row", "partial", "partial_update"]


def with_maps_in_order(row: dict[str, Any]) -> dict[str, Any]:
    """Return ``row`` with the entries of its maps, which have no order, sorted. Maps are lists of pairs."""
    return {name: sorted(value) if is_map(value) else value for name, value in row.items()}


def is_map(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, tuple) for one in value)
