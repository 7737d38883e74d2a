"""Damages to levels, key ranges and deletion vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from model_tests.check.sample import (
    DEEPEST,
    LAST,
    LEVEL,
    Damage,
    Damages,
    flip,
    key,
    levels,
    steps,
)
from model_tests.damage.table_damage import Surgeon


def _at_two_levels(surgeon: Surgeon) -> None:
    live = surgeon.at_level(LAST, LEVEL)
    again = replace(live, file=live.file.at_level(3))
    surgeon.put_entries(surgeon.delta(LAST), [*surgeon.entries(surgeon.delta(LAST)), again])
    count = surgeon.snapshot(LAST)
    surgeon.edit_snapshot(
        LAST,
        delta_record_count=count.delta_record_count + live.file.row_count,
        total_record_count=count.total_record_count + live.file.row_count,
    )


def _to_level(surgeon: Surgeon, file: str, level: int) -> None:
    surgeon.edit_entries(
        LAST,
        lambda entry: (
            replace(entry, file=entry.file.at_level(level)) if entry.file.file_name == file else entry
        ),
    )


def _ranges(change: Callable[[list[Any]], list[Any]]) -> Damage:
    """Change where the vectors lie; their number is made true again."""

    def damage(surgeon: Surgeon) -> None:
        def edited(entry: Any) -> Any:
            ranges = tuple(change(list(entry.ranges)))
            return replace(entry, ranges=ranges, row_count=len(ranges))

        surgeon.edit_index(LAST, edited)

    return damage


def _second_index(surgeon: Surgeon) -> None:
    (entry,) = surgeon.index(LAST)
    surgeon.put_index(LAST, [entry, replace(entry, file_name="index-other")])


LAYOUT: Damages = {
    "a level is beyond the greatest": (
        lambda s: s.relevel(levels(s)[DEEPEST], DEEPEST, 9),
        {("LSM-3", "level")},
    ),
    "files of a fixed bucket have no number of buckets": (
        lambda s: s.edit_entries(LAST, lambda entry: replace(entry, total_buckets=-1)),
        {("BKT-19", "total buckets")},
    ),
    "files of a bucket are of two numbers of buckets": (
        lambda s: s.edit_entries(LAST, lambda entry: replace(entry, total_buckets=2)),
        {("BKT-19", "numbers of buckets"), ("TBL-5", "bucket of the keys")},
    ),
    "a bucket is beyond the number of buckets": (
        lambda s: s.edit_entries(LAST, lambda entry: replace(entry, total_buckets=1, bucket=4)),
        {("TBL-3", "bucket"), ("CMT-15", "data file"), ("CMT-12", "data file")},
    ),
    "sequence numbers run backwards": (
        lambda s: s.edit_file(levels(s)[DEEPEST], max_sequence_number=-5),
        {("LSM-7", "sequence numbers")},
    ),
    "the smallest key is above the greatest": (
        lambda s: s.edit_file(levels(s)[LEVEL], min_key=key(99)),
        {("LSM-7", "keys"), ("META-5", "smallest key")},
    ),
    "a key cannot be decoded": (
        lambda s: s.edit_file(levels(s)[LEVEL], min_key=b"\0\0\0\2"),
        {("META-5", "row length")},
    ),
    "a file is live at two levels": (_at_two_levels, {("LSM-2", "levels"), ("DV-12", "live keys")}),
    "two files of a level overlap": (
        lambda s: _to_level(s, levels(s)[0], LEVEL),
        {("LSM-2", "key range at level 4"), ("DV-12", "live keys")},
    ),
    "a vector names a file that is not live": (
        _ranges(lambda ranges: [replace(ranges[0], data_file="data-gone.parquet")]),
        {("DV-4", "vector of data-gone.parquet"), ("DV-11", "vector of {5}"), ("DV-12", "live keys")},
    ),
    "a vector names a file of level 0": (
        lambda s: s.put_vectors(LAST, {levels(s)[DEEPEST]: [2, 5], levels(s)[0]: [0]}),
        {("DV-3", "vector of {0}"), ("DV-4", "vector of {0}")},
    ),
    "a file has two vectors": (
        _ranges(lambda ranges: [*ranges, replace(ranges[0], offset_bytes=33)]),
        {("DV-5", "vector of {5}"), ("DV-5", "vectors")},
    ),
    "a bucket has two DV index files": (_second_index, {("DV-16", "DV index files of bucket 0")}),
    "the number of vectors is wrong": (
        lambda s: s.edit_index(LAST, lambda entry: replace(entry, row_count=9)),
        {("DVF-8", "number of vectors")},
    ),
    "the size of an index file is wrong": (
        lambda s: s.edit_index(LAST, lambda entry: replace(entry, file_size=9)),
        {("DVF-8", "size of the DV index file")},
    ),
    "a vector begins inside another": (
        _ranges(lambda ranges: [replace(ranges[0], offset_bytes=5)]),
        {("DVF-9", "offset of the vector of {5}")},
    ),
    "an index file has bytes left over": (
        steps(
            lambda s: s.index_file(LAST).write_bytes(s.index_file(LAST).read_bytes() + b"\0"),
            lambda s: s.edit_index(LAST, lambda entry: replace(entry, file_size=entry.file_size + 1)),
        ),
        {("DVF-1", "index length")},
    ),
    "a vector has the wrong cardinality": (
        _ranges(lambda ranges: [replace(ranges[0], cardinality=9)]),
        {("DVF-5", "vector cardinality")},
    ),
    "a vector has no cardinality": (
        _ranges(lambda ranges: [replace(ranges[0], cardinality=None)]),
        {("DVF-13", "cardinalities")},
    ),
    "a vector does not match its checksum": (
        flip(lambda s: s.index_file(LAST), 0.8),
        {("DVF-5", "vector checksum")},
    ),
    "an index file is missing": (lambda s: s.index_file(LAST).unlink(), {("CMT-15", "DV index file")}),
    "a position is beyond the rows": (
        lambda s: s.put_vectors(LAST, {levels(s)[DEEPEST]: [2, 5, 10]}),
        {("DV-2", "vector of {5}")},
    ),
    "a vector loses a position": (
        lambda s: s.put_vectors(LAST, {levels(s)[DEEPEST]: [5]}),
        {("DV-11", "vector of {5}"), ("DV-12", "live keys")},
    ),
    "a vector loses the position of a deleted key": (
        lambda s: s.put_vectors(4, {levels(s)[DEEPEST]: [2, 4]}),
        {("DV-11", "vector of {5}")},
    ),
}
