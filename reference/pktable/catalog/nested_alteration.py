"""Change the fields inside of columns: add, rename, drop, widen and move them, by their paths.

A path is names with dots between them: a column, then a field of a ROW, ``element`` for that of an ARRAY, ``value`` for
that of a MAP, and so on. A name that a column has as a whole is no path. Ids stay, so that files are read as before; a
new field gets an id that nothing has had. The keys of a MAP do not change. A type is widened to one that has every
value of the old type.

Clauses: TBL-47, TBL-39 to TBL-42.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pktable_spec.errors import InvalidRequestError

from pktable.format.metadata.schema import TableSchema
from pktable.format.types import BINARIES, INTEGER_BITS, INTEGER_DIGITS, NESTED, TIMESTAMPS, DataType, Field

if TYPE_CHECKING:
    from pktable.catalog.alteration import Alteration


EXACT_BITS: Final = {"FLOAT": 24, "DOUBLE": 53}
"""Bits of an integer that the type holds exactly."""
MICROSECONDS: Final = 6
"""Digits of a second from which on Arrow counts nanoseconds, which end in the years 1677 and 2262."""


def loses_nothing(before: DataType, after: DataType) -> bool:
    """Return whether a column of type ``before`` may become one of ``after``, which is another type.

    Parts of nested types cannot change so. Neither can CHAR, whose values are filled up to its length, BINARY, nor a
    type to which readers do not convert. Nullability is ignored.
    """
    old, new = before.root, after.root
    if old in INTEGER_BITS and new in INTEGER_BITS:
        return INTEGER_BITS[old] < INTEGER_BITS[new]
    if old in INTEGER_BITS and new in EXACT_BITS:
        return INTEGER_BITS[old] <= EXACT_BITS[new]
    if new == "DECIMAL" and (old in INTEGER_BITS or old == "DECIMAL"):
        return _fits_decimal(before, after)
    if (old, new) == ("FLOAT", "DOUBLE"):
        return True
    if new in TIMESTAMPS and old in (new, "DATE"):
        return _fits_times(before, after)
    if new in ("VARCHAR", "STRING") and old in ("CHAR", "VARCHAR"):
        return after.length is None or (before.length or 0) + (old == "VARCHAR") <= after.length
    if new in ("VARBINARY", "BYTES") and old in BINARIES - {"BYTES"}:
        return after.length is None or (before.length or 0) < after.length
    return False


def _fits_times(before: DataType, after: DataType) -> bool:
    """Return whether a timestamp has more digits than a time or date, whose years Arrow's nanoseconds have, too."""
    if before.root == "DATE":
        return after.root == "TIMESTAMP" and (after.precision or 0) <= MICROSECONDS
    return (before.precision or 0) < (after.precision or 0) and (
        (after.precision or 0) <= MICROSECONDS or (before.precision or 0) > MICROSECONDS
    )


def _fits_decimal(before: DataType, after: DataType) -> bool:
    scale = before.scale or 0
    whole = INTEGER_DIGITS[before.root] if before.root != "DECIMAL" else (before.precision or 0) - scale
    room, places = (after.precision or 0) - (after.scale or 0), after.scale or 0
    return whole <= room and scale <= places and (before.root, whole, scale) != ("DECIMAL", room, places)


PARTS: Final = {"ARRAY": "element", "MAP": "value"}
"""The part that a path may name, of a type whose parts have no names of their own."""
PLACES: Final = "FIRST, LAST, BEFORE <column> or AFTER <column>"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NestedChange:
    """A change of fields inside of columns, by path. ``add``: the new fields by the path of their ROW."""

    add: Mapping[Path, Sequence[Field]] = field(default_factory=dict)
    rename: Mapping[Path, str] = field(default_factory=dict)
    drop: Collection[Path] = ()
    widen: Mapping[Path, DataType] = field(default_factory=dict)
    nullable: Collection[Path] = ()
    comments: Mapping[Path, str | None] = field(default_factory=dict)

    @property
    def paths(self) -> list[Path]:
        """Every path of the change. One that ends with nothing must be that of a ROW."""
        asked = (*self.rename, *self.drop, *self.widen, *self.nullable, *self.comments)
        return [*((*at, "") for at in self.add), *asked]


def path_of(fields: Sequence[Field], name: str) -> Path | None:
    """Return the path that ``name`` is, None if it names a column, or nothing that is inside of one."""
    first, dot, _ = name.partition(".")
    columns = {one.name: one.type for one in fields}
    if name in columns or not dot or columns.get(first, DataType("NULL")).root not in NESTED:
        return None
    return tuple(name.split("."))


def added_at(schema: TableSchema, one: Field) -> tuple[Path, Field] | None:
    """Return the path of the ROW that a field is to be added to, and the field; None if it is a column."""
    path = path_of(schema.fields, one.name)
    return None if path is None else (path[:-1], replace(one, name=path[-1]))


def apart(schema: TableSchema, change: Alteration) -> tuple[Alteration, NestedChange]:
    """Return what is asked for of columns, and of the fields inside of them. Clauses: TBL-47."""
    paths = {name: path_of(schema.fields, name) for name in names_in(change)}
    inside = {name: path for name, path in paths.items() if path is not None}
    new = [(one, added_at(schema, one)) for one in change.add]
    places: dict[Path, list[Field]] = {}
    for _, place in new:
        if place is not None:
            places.setdefault(place[0], []).append(place[1])
    nested = NestedChange(
        places,
        {path: change.rename[name] for name, path in inside.items() if name in change.rename},
        tuple(path for name, path in inside.items() if name in change.drop),
        {path: change.widen[name] for name, path in inside.items() if name in change.widen},
        tuple(path for name, path in inside.items() if name in change.nullable),
        {path: change.comments[name] for name, path in inside.items() if name in change.comments},
    )
    columns = replace(
        change,
        add=tuple(one for one, place in new if place is None),
        rename={name: to for name, to in change.rename.items() if name not in inside},
        drop=tuple(name for name in change.drop if name not in inside),
        widen={name: kind for name, kind in change.widen.items() if name not in inside},
        nullable=tuple(name for name in change.nullable if name not in inside),
        comments={name: text for name, text in change.comments.items() if name not in inside},
    )
    return columns, nested


def names_in(change: Alteration) -> list[str]:
    """Return the names that a change says something about, but for those of new columns and of moves."""
    return [*change.rename, *change.drop, *change.widen, *change.nullable, *change.comments]


def expect_consistent(schema: TableSchema, change: Alteration) -> None:
    """Raise InvalidRequestError if what is dropped is changed, too, or anything inside of it is.

    A new field may have the name of one that is dropped. Clauses: TBL-62.
    """

    def paths(names: Iterable[str]) -> list[Path]:
        return [path_of(schema.fields, name) or (name,) for name in names]

    new = [(*at, one.name) for at, one in filter(None, (added_at(schema, one) for one in change.add))]
    changed = paths((*change.rename, *change.widen, *change.nullable, *change.comments))
    gone = paths(change.drop)
    for top in gone:
        inside = [path for path in (*gone, *new) if path[: len(top)] == top and path != top]
        found = [*inside, *(path for path in changed if path[: len(top)] == top)]
        if found:
            raise InvalidRequestError(
                f"alter: column {'.'.join(top)} is dropped; expected nothing else about it or what is in it, found a "
                f"change of {'.'.join(found[0])}"
            )


def with_changes(one: Field, change: NestedChange) -> Field:
    """Return a column with what is asked for inside of it. Raises InvalidRequestError. Clauses: TBL-47."""
    asked = [path for path in change.paths if path[0] == one.name]
    if not asked:
        return one
    met: set[Path] = set()
    kind = _changed(one.type, (one.name,), change, met)
    for path in asked:
        if path not in met:
            raise _no_field(filter(None, path), one.type)
    return replace(one, type=kind)


def _changed(kind: DataType, at: Path, change: NestedChange, met: set[Path]) -> DataType:
    """Return a type with what is asked for inside of it. ``at``: its path. ``met``: gets the paths that are there."""
    if kind.root == "ROW" and not kind.variant:
        return _changed_row(kind, at, change, met)
    if kind.root not in PARTS:
        return kind
    path = (*at, PARTS[kind.root])
    parts = [
        replace(part, type=_part(part.type, path, change, met)) if part.name == path[-1] else part
        for part in kind.children
    ]
    if path in change.drop or path in change.rename:
        raise InvalidRequestError(f"alter: {'.'.join(path)} is no field of a ROW, and stays")
    return replace(kind, children=tuple(parts))


def _part(kind: DataType, at: Path, change: NestedChange, met: set[Path]) -> DataType:
    """Return a part of a type as it is asked for: wider, or such that it may be null, and changed inside."""
    met.add(at)
    wider = change.widen.get(at)
    if wider is not None:
        expect_wider(".".join(at), "field", kind, wider)
    inside = _changed(kind, at, change, met) if wider is None else wider
    return replace(inside, nullable=kind.nullable or at in change.nullable)


def _changed_row(kind: DataType, at: Path, change: NestedChange, met: set[Path]) -> DataType:
    met.add((*at, ""))
    fields = []
    for part in kind.children:
        path = (*at, part.name)
        met.add(path)
        if path in change.drop:
            continue
        fields.append(
            replace(
                part,
                name=change.rename.get(path, part.name),
                type=_part(part.type, path, change, met),
                description=change.comments.get(path, part.description),
            )
        )
    added = change.add.get(at, ())
    for one in added:
        expect_nullable(".".join((*at, one.name)), one.type)
    fields += added
    if not fields:
        raise InvalidRequestError(f"alter: {'.'.join(at)} would have no field left")
    return replace(kind, children=tuple(fields))


def moved(fields: Sequence[Field], name: str, place: str) -> list[Field]:
    """Return columns in their new order, or one of them with its fields in theirs.

    ``name``: of a column, or the path of a field. ``place``: one of `PLACES`, next to a field of the same ROW.
    Raises InvalidRequestError. Clauses: TBL-47.
    """

    def inside(fields: Sequence[Field], at: int) -> list[Field]:
        if at == len(path) - 1:
            return _placed(fields, path[at], place, name)
        kind = next((one.type for one in fields if one.name == path[at]), DataType("NULL"))
        row = kind.root == "ROW" and not kind.variant
        part = at + 2 < len(path) and path[at + 1] == PARTS.get(kind.root)
        if not row and not part:
            raise _no_field(path, ", ".join(f"{one.name} {one.type}" for one in fields))
        within = replace(kind, children=tuple(inside(kind.children, at + 1)))
        return [replace(one, type=within) if one.name == path[at] else one for one in fields]

    path = path_of(fields, name) or (name,)
    return inside(fields, 0)


def _placed(fields: Sequence[Field], last: str, place: str, called: str) -> list[Field]:
    """Return the fields of one ROW, or columns, with that of the name ``last`` in its new place."""
    order = list(fields)
    names = [one.name for one in order]
    word, _, other = place.strip().partition(" ")
    other, word = other.strip(), word.upper()
    relative = word in ("BEFORE", "AFTER")
    if last not in names or word not in ("FIRST", "LAST", "BEFORE", "AFTER") or relative != bool(other):
        raise InvalidRequestError(
            f"alter: column {called} to {place!r}: expected one of {', '.join(names)}, and {PLACES}"
        )
    if relative and (other not in names or other == last):
        raise InvalidRequestError(
            f"alter: column {called} to {place!r}: expected another one of {', '.join(names)}"
        )
    one = order.pop(names.index(last))
    names.remove(last)
    at = {"FIRST": 0, "LAST": len(order)}.get(word)
    order.insert(names.index(other) + (word == "AFTER") if at is None else at, one)
    return order


def _no_field(path: Iterable[str], found: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"alter: {'.'.join(path)}: there is no such field; expected names of fields, element for those of an ARRAY, "
        f"and value for those of a MAP, found {found}"
    )


def rows_without_fields(before: TableSchema, after: TableSchema) -> dict[tuple[int, ...], str]:
    """Return the ROWs of ``after`` of whose fields a file of ``before`` has none: by their ids, their names.

    Clauses: META-42, TBL-63.
    """
    found: dict[tuple[int, ...], str] = {}

    def look(old: DataType, new: DataType, ids: tuple[int, ...], names: Path) -> None:
        if old.root != new.root or new.variant:
            return
        known = {part.id: part.type for part in old.children}
        same = [part for part in new.children if part.id in known]
        if new.root == "ROW" and not same:
            found[ids] = ".".join(names)
        for part in same:
            look(known[part.id], part.type, (*ids, part.id), (*names, part.name))

    for one in after.fields:
        if one.id in before.by_id:
            look(before.by_id[one.id].type, one.type, (one.id,), (one.name,))
    return found


def changes_type(before: DataType, kind: DataType) -> bool:
    """Return whether ``kind`` is another type than ``before``, but for whether it holds null, which stays."""
    return replace(kind, nullable=before.nullable) != before


def expect_wider(called: str, what: str, before: DataType, kind: DataType) -> None:
    """Raise InvalidRequestError unless ``kind`` has every value of ``before``. ``what``: "column" or "field"."""
    if changes_type(before, kind) and not loses_nothing(before, kind):
        raise InvalidRequestError(
            f"alter: {called} cannot become {kind}, because not every {before} is one; "
            f"add a {what}, and fill it by an update"
        )


def expect_nullable(called: str, kind: DataType) -> None:
    """Raise InvalidRequestError if what is added may not be null."""
    if not kind.nullable:
        raise InvalidRequestError(
            f"alter: {called} is added as {kind}; expected a type without NOT NULL, because rows that are there "
            "have no value"
        )


def expect_free(change: NestedChange, is_named: Callable[[str, str], str | None]) -> None:
    """Raise InvalidRequestError if a field is dropped or renamed that an option names.

    ``is_named``: returns the option, of a column and a name of a field in it. Clauses: TBL-42.
    """
    for path in (*change.drop, *change.rename):
        option = is_named(path[0], path[-1])
        if option is not None:
            raise InvalidRequestError(
                f"alter: {'.'.join(path)} stays as it is, because option {option} names it"
            )
