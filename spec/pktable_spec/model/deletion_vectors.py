"""Deletion vectors of a bucket: one set of (file, position), and what it hides.

The subtle case is which keys of a compaction are looked up. A key marks older positions only if a record of it comes
from level 0 or is a retraction, and no input of a deeper level has a live add of it. Otherwise the older record is
merged away right there (DV-8), or was dealt with when this add left level 0 (DV-7). Only tables of other engines have
retractions below level 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from pktable_spec.interface import Key
from pktable_spec.model.levels import DataFile, FileId, LiveFile, Record

Mark: TypeAlias = tuple[FileId, int]
"""A file and a deleted position in it."""


def visible(files: Sequence[DataFile], file: FileId, vectors: frozenset[Mark]) -> list[Record]:
    """Return the records of ``file`` that no vector marks, in key order. Clauses: DV-1, RD-7."""
    return [record for position, record in enumerate(files[file].records) if (file, position) not in vectors]


def remembered(files: Sequence[DataFile], file: FileId, vectors: frozenset[Mark]) -> list[Record]:
    """Return the records of ``file`` that no vector marks, and all retractions, in key order. Clauses: DV-22."""
    return [
        record
        for position, record in enumerate(files[file].records)
        if (file, position) not in vectors or not record.kind.is_add
    ]


def keys_to_look_up(
    files: Sequence[DataFile],
    inputs: Iterable[LiveFile],
    vectors: frozenset[Mark],
    *,
    ignores_retractions: bool = False,
) -> set[Key]:
    """Return the keys that may have an older live record outside ``inputs``.

    Clauses: DV-6, DV-7, DV-8, MRG-15.
    """
    wanted: set[Key] = set()
    merged_here: set[Key] = set()
    for file, level in inputs:
        for record in visible(files, file, vectors):
            if ignores_retractions and not record.kind.is_add:
                continue
            (merged_here if level > 0 and record.kind.is_add else wanted).add(record.key)
    return wanted - merged_here


def keys_of_level_zero_alone(
    files: Sequence[DataFile], inputs: Iterable[LiveFile], *, ignores_retractions: bool
) -> set[Key]:
    """Return the keys of which all records among ``inputs`` that count are of level 0. Clauses: CHG-20, MRG-15."""
    found: dict[bool, set[Key]] = {True: set(), False: set()}
    for file, level in inputs:
        counting = (one for one in files[file].records if one.kind.is_add or not ignores_retractions)
        found[level == 0] |= {record.key for record in counting}
    return found[True] - found[False]


def positions_of(
    keys: set[Key], files: Sequence[DataFile], live: Iterable[LiveFile], above: int, vectors: frozenset[Mark]
) -> frozenset[Mark]:
    """Return every unmarked position of ``keys`` in the live files of levels greater than ``above``.

    Clauses: DV-6, DV-9.
    """
    return frozenset(
        (file, position)
        for file, level in live
        if level > above
        for position, record in enumerate(files[file].records)
        if record.key in keys and (file, position) not in vectors
    )
