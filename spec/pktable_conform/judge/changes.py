"""The changes that a table must record, snapshot by snapshot, and their fold.

The changes that a compaction must record follow from the meaning alone: they are the difference that the writes make
which it has taken in. The files of a table show which writes those are (`unrecorded`).
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from pktable_spec.interface import BucketId, Change, Key, Row, Shape
from pktable_spec.model.meaning import Meaning
from pktable_spec.model.options import ModelOptions
from pktable_spec.vocabulary import APPEND

from pktable_conform.judge.layout import FileKey, Layout


def unrecorded(
    layout: Layout, before: Layout, options: ModelOptions, written_by: Mapping[FileKey, int]
) -> dict[BucketId, int]:
    """Return per bucket of ``layout`` the first write whose changes no compaction has recorded. Clauses: CHG-5, CHG-7.

    A write is recorded when it has left level 0, or with ``full-compaction`` when it has come to the greatest level.
    """
    level = options.recorded_from
    found: dict[BucketId, int] = {}
    for key, file in layout.files.items():
        if file.level == 0:
            found[file.bucket] = min(written_by[key], found.get(file.bucket, layout.id))
    for file in layout.files.values():
        # A file on its way to the greatest level holds what was the first such write before, or later ones.
        if level is not None and 0 < file.level < level:
            found[file.bucket] = before.unrecorded[file.bucket]
    return found


def expected_changes(
    layout: Layout, before: Layout, meaning: Meaning, options: ModelOptions, key_of: Callable[[Row], Key]
) -> list[Change]:
    """Return what a snapshot must record, or show without a producer. Clauses: CHG-4, CHG-5, CHG-7, CHG-9, CHG-11."""
    if options.recorded_from is not None:
        return meaning.recorded((before.id, before.unrecorded), (layout.id, layout.unrecorded))
    if layout.kind != APPEND:
        return []
    written = dict(meaning.log)[layout.id]
    if options.changelog_producer == "input":
        return list(written)
    return list({key_of(change.row): change for change in written}.values())


def comparable(changes: Sequence[Change], options: ModelOptions, shape: Shape) -> list[Change]:
    """Return changes as they are compared: of a retraction that a write gave, only the key counts."""
    if options.recorded_from is not None:
        return list(changes)
    return [one if one.kind.is_add else Change(one.kind, _key_alone(one.row, shape)) for one in changes]


def _key_alone(row: Row, shape: Shape) -> Row:
    named = zip(shape.names, row, strict=True)
    return tuple(value if name in shape.stored_key else None for name, value in named)


def difference_of(
    found: Sequence[Change], expected: Sequence[Change], key_of: Callable[[Row], Key]
) -> str | None:
    """Return how changes differ from those expected, None if they agree: the same, in the same order for each key."""
    missing, surplus = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    if missing or surplus:
        return f"missing {reprlib.repr(list(missing.elements()))}, surplus {reprlib.repr(list(surplus.elements()))}"
    for key in {key_of(change.row) for change in expected}:
        one, other = ([change for change in some if key_of(change.row) == key] for some in (found, expected))
        if one != other:
            return f"in another order: {reprlib.repr(one)}, expected {reprlib.repr(other)}"
    return None


def applied(
    rows: Mapping[Key, Row], changes: Sequence[Change], key_of: Callable[[Row], Key]
) -> dict[Key, Row]:
    """Return the rows after ``changes``, which only say what becomes of a key: a consumer's fold. Clauses: CHG-9."""
    found = dict(rows)
    for change in changes:
        found.pop(key_of(change.row), None)
        if change.kind.is_add:
            found[key_of(change.row)] = change.row
    return found
