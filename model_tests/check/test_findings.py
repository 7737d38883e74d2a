"""Every kind of damage is found, and nothing else is: a small table is damaged in one way, and shows one finding.

The table has four writes of one bucket and seven snapshots. In snapshot 7 the greatest level holds ten keys with a
vector of two, level 4 holds what replaced one of them, and level 0 holds a write not yet compacted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.check.findings import NOTE, Finding
from pktable.format.binary_row import encode_row
from pktable.format.metadata.manifest import ADD, DELETE
from pktable.format.metadata.stats import SimpleStats
from pktable.format.types import DataType
from pktable.ingest.changes import ChangeKind
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.damage.table_damage import Surgeon

Damage = Callable[[Surgeon], Any]
BIGINT = DataType("BIGINT")
LAST, LEVEL, DEEPEST = 7, 4, 5


def rows(keys: list[int], text: str) -> pa.Table:
    return pa.table(
        {
            "p": ["a"] * len(keys),
            "k": keys,
            "v": [f"{text}{key}" for key in keys],
            "d": [key / 2 for key in keys],
        }
    )


def make_table(path: Path, options: dict[str, str] | None = None) -> Table:
    """Make the table that is damaged."""
    table = Table.create(
        path,
        "p STRING, k BIGINT, v STRING, d DOUBLE",
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"deletion-vectors.enabled": "true", "bucket": "1"} | (options or {}),
    )
    table.upsert(rows(list(range(10)), "x" * 30))
    table.upsert(rows([2, 12], "second "))
    table.delete(rows([5], "").select(["p", "k"]))
    prepared = table.stage_write(rows([7], "fresh "), ChangeKind(RowKind.INSERT), write_only=True)
    assert prepared is not None
    prepared.commit(CommitId("test"))
    return table


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checked") / "table"
    make_table(path)
    return path


@pytest.fixture
def surgeon(original: Path, tmp_path: Path) -> Surgeon:
    return Surgeon(Path(shutil.copytree(original, tmp_path / "table")))


def kinds(found: list[Finding]) -> set[tuple[str, str]]:
    return {(finding.clause, finding.what) for finding in found}


def levels(surgeon: Surgeon) -> dict[int, str]:
    return {entry.file.level: entry.file.file_name for entry in surgeon.live(LAST)}


# ------------------------------------------------------------------ snapshots, schemas, manifests


def _remove(pattern: str) -> Damage:
    return lambda s: next(s.root.glob(pattern)).unlink()


def _flip(path: Callable[[Surgeon], Path], at: float = 0.5) -> Damage:
    def damage(surgeon: Surgeon) -> None:
        good = bytearray(path(surgeon).read_bytes())
        good[int(len(good) * at)] ^= 0x10
        path(surgeon).write_bytes(good)

    return damage


def _steps(*damages: Damage) -> Damage:
    def damage(surgeon: Surgeon) -> None:
        for one in damages:
            one(surgeon)

    return damage


def _stray(name: str, data: bytes = b"stray") -> Damage:
    def damage(surgeon: Surgeon) -> None:
        path = surgeon.root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(data)

    return damage


def _cut(path: Callable[[Surgeon], Path]) -> Damage:
    return lambda s: path(s).write_bytes(path(s).read_bytes()[:-9])


def _in_manifest(name: Callable[[Surgeon], str]) -> Callable[[Surgeon], Path]:
    return lambda s: s.root / "manifest" / name(s)


def _added_and_deleted(surgeon: Surgeon) -> None:
    entries = surgeon.entries(surgeon.delta(LAST))
    passing = replace(entries[0], file=replace(entries[0].file, file_name="data-passing.parquet"))
    surgeon.put_entries(surgeon.delta(LAST), [*entries, passing, replace(passing, kind=DELETE)])


def _delete_alone(surgeon: Surgeon) -> None:
    entries = surgeon.entries(surgeon.delta(LAST))
    stray = replace(
        entries[0], kind=DELETE, file=replace(entries[0].file, file_name="data-never.parquet", row_count=0)
    )
    surgeon.put_entries(surgeon.delta(LAST), [*entries, stray])


def _added_twice(surgeon: Surgeon) -> None:
    entries = surgeon.entries(surgeon.delta(LAST))
    surgeon.put_entries(surgeon.delta(LAST), entries * 2)
    count = surgeon.snapshot(LAST)
    surgeon.edit_snapshot(LAST, delta_record_count=2 * count.delta_record_count)


def _added_again(surgeon: Surgeon) -> None:
    entries = surgeon.entries(surgeon.delta(LAST))
    live = surgeon.at_level(LAST - 1, DEEPEST)
    surgeon.put_entries(surgeon.delta(LAST), [*entries, replace(live, kind=ADD)])
    surgeon.edit_snapshot(LAST, delta_record_count=1 + live.file.row_count)


def _upgrade_that_changes(surgeon: Surgeon) -> None:
    name = levels(surgeon)[DEEPEST]

    def changed(entry: Any) -> Any:
        if entry.kind == ADD and entry.file.file_name == name:
            return replace(entry, file=replace(entry.file, creation_time=1))
        return entry

    surgeon.edit_entries(2, changed)


def tag_of_an_expired_snapshot(surgeon: Surgeon) -> None:
    (surgeon.root / "tag").mkdir()
    (surgeon.root / "snapshot/snapshot-1").rename(surgeon.root / "tag/tag-a")


def _tag_without_manifests(surgeon: Surgeon) -> None:
    (surgeon.root / "manifest" / surgeon.lists(1)[1]).unlink()
    tag_of_an_expired_snapshot(surgeon)


METADATA: dict[str, tuple[Damage, set[tuple[str, str]]]] = {
    "a snapshot is missing": (_remove("snapshot/snapshot-3"), {("CMT-1", "snapshots")}),
    "a snapshot does not match its checksum": (
        _flip(lambda s: s.root / "snapshot/snapshot-3"),
        {("META-14", "checksum")},
    ),
    "a snapshot is no JSON": (
        lambda s: (s.root / "snapshot/snapshot-3").write_text("{"),
        {("META-2", "JSON")},
    ),
    "a snapshot has the id of another": (lambda s: s.edit_snapshot(3, id=2), {("META-2", "snapshot id")}),
    "a tag is damaged": (
        _stray("tag/tag-a", b"{}"),
        {("META-2", "version")},
    ),
    "a tag is of manifests that are gone": (_tag_without_manifests, {("CMT-15", "manifest")}),
    "a schema does not match its checksum": (
        _flip(lambda s: s.root / "schema/schema-0"),
        {("META-14", "checksum")},
    ),
    "a schema has the id of another": (
        lambda s: (s.root / "schema/schema-0").rename(s.root / "schema/schema-1") and None,
        {("META-1", "schema id"), ("META-1", "schema"), ("CMT-15", "schema")},
    ),
    "a snapshot is of a schema that is missing": (
        lambda s: s.edit_snapshot(LAST, schema_id=3),
        {("META-1", "schema")},
    ),
    "the size of a manifest list is wrong": (
        lambda s: s.edit_snapshot(LAST, delta_manifest_list_size=7),
        {("META-2", "size of the manifest list")},
    ),
    "a manifest list is missing": (
        lambda s: (s.root / "manifest" / s.lists(LAST)[1]).unlink(),
        {("CMT-15", "manifest")},
    ),
    "a manifest is missing": (
        lambda s: _in_manifest(lambda s: s.delta(3))(s).unlink(),
        {("CMT-15", "manifest")},
    ),
    "a manifest does not match its checksum": (
        _flip(_in_manifest(lambda s: s.delta(3)), 0.98),
        {("META-14", "checksum")},
    ),
    "a manifest list is cut short": (
        _cut(_in_manifest(lambda s: s.lists(LAST)[0])),
        {("META-14", "checksum")},
    ),
    "an index manifest is missing": (
        lambda s: _in_manifest(lambda s: str(s.snapshot(LAST).index_manifest))(s).unlink(),
        {("CMT-15", "manifest")},
    ),
    "the size of a manifest is wrong": (
        lambda s: s.edit_meta(s.delta(LAST), file_size=7),
        {("META-12", "size of the manifest")},
    ),
    "the number of added files is wrong": (
        lambda s: s.edit_meta(s.delta(LAST), num_added_files=7),
        {("META-12", "added files")},
    ),
    "the number of deleted files is wrong": (
        lambda s: s.edit_meta(s.delta(LAST), num_deleted_files=7),
        {("META-12", "deleted files")},
    ),
    "the schema of a manifest is older than its files'": (
        lambda s: s.edit_meta(s.delta(LAST), schema_id=-1),
        {("META-12", "schema id")},
    ),
    "the buckets of a manifest are others": (
        lambda s: s.edit_meta(s.delta(LAST), min_bucket=1, max_bucket=1),
        {("META-12", "buckets")},
    ),
    "the levels of a manifest are others": (
        lambda s: s.edit_meta(s.delta(LAST), min_level=1, max_level=1),
        {("META-12", "levels")},
    ),
    "the partitions of a manifest are others": (
        lambda s: s.edit_meta(
            s.delta(LAST),
            partition_stats=SimpleStats(*(encode_row(["b"], [DataType("STRING")]),) * 2, (0,)),
        ),
        {("META-12", "partitions by p")},
    ),
    "a file is deleted that was never added": (
        _delete_alone,
        {("CMT-4", "entries of data-never.parquet")},
    ),
    "a file is added and deleted in one snapshot": (
        _added_and_deleted,
        {("CMT-4", "entries of data-passing.parquet")},
    ),
    "a file is added twice in one snapshot": (_added_twice, {("CMT-4", "entries of {0}")}),
    "a live file is added again": (_added_again, {("CMT-4", "entries of {5}")}),
    "a base list is not what the snapshot before had": (
        lambda s: s.put_metas(s.lists(LAST)[0], [*s.metas(s.lists(LAST)[0])[:-1]]),
        {("CMT-5", "base manifest list"), ("META-11", "total record count")},
    ),
    "an append has other vectors": (
        lambda s: s.edit_snapshot(LAST, index_manifest=s.snapshot(4).index_manifest),
        {("CMT-6", "index manifest of an APPEND"), ("DV-11", "vector of {5}")},
    ),
    "an upgrade changes more than the level": (_upgrade_that_changes, {("CMP-10", "upgrade of {5}")}),
    "the total record count is wrong": (
        lambda s: s.edit_snapshot(LAST, total_record_count=99),
        {("META-11", "total record count")},
    ),
    "the delta record count is wrong": (
        lambda s: s.edit_snapshot(LAST, delta_record_count=99),
        {("META-11", "delta record count")},
    ),
}


# ------------------------------------------------------------------ levels, key ranges, vectors


def _key(key: int) -> bytes:
    return encode_row([key], [BIGINT])


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


LAYOUT: dict[str, tuple[Damage, set[tuple[str, str]]]] = {
    "a level is beyond the greatest": (
        lambda s: s.relevel(levels(s)[DEEPEST], DEEPEST, 9),
        {("LSM-3", "level")},
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
        lambda s: s.edit_file(levels(s)[LEVEL], min_key=_key(99)),
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
        _steps(
            lambda s: s.index_file(LAST).write_bytes(s.index_file(LAST).read_bytes() + b"\0"),
            lambda s: s.edit_index(LAST, lambda entry: replace(entry, file_size=entry.file_size + 1)),
        ),
        {("DVF-1", "index length")},
    ),
    "a vector has the wrong cardinality": (
        _ranges(lambda ranges: [replace(ranges[0], cardinality=9)]),
        {("DVF-5", "vector cardinality")},
    ),
    "a vector does not match its checksum": (
        _flip(lambda s: s.index_file(LAST), 0.8),
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


# ------------------------------------------------------------------ rows


def _stats(surgeon: Surgeon, of: str, low: list[Any], high: list[Any], nulls: tuple[int, ...]) -> None:
    kinds = {
        "key_stats": [BIGINT],
        "value_stats": [DataType("STRING"), BIGINT, DataType("STRING"), DataType("DOUBLE")],
    }
    stats = SimpleStats(encode_row(low, kinds[of]), encode_row(high, kinds[of]), nulls)
    surgeon.edit_file(levels(surgeon)[DEEPEST], **{of: stats})


X = "x" * 16
TRUE_LOW, TRUE_HIGH, NO_NULLS = ["a", 0, X, -0.0], ["a", 9, "x" * 15 + "y", 4.5], (0, 0, 0, 0)


def _edit(level: int, column: str, change: Callable[[list[Any]], list[Any]]) -> Damage:
    return lambda s: s.edit_column(levels(s)[level], column, change)


def _flip_a_page(surgeon: Surgeon) -> None:
    path = surgeon.data_file(levels(surgeon)[DEEPEST])
    data = bytearray(path.read_bytes())
    data[data.index(b"x" * 30)] ^= 0x10  # a small file is not compressed
    path.write_bytes(data)


ROWS: dict[str, tuple[Damage, set[tuple[str, str]]]] = {
    "a data file is missing": (lambda s: s.data_file(levels(s)[LEVEL]).unlink(), {("CMT-15", "data file")}),
    "a page does not match its checksum": (
        _flip_a_page,
        {("RD-11", "parquet data")},
    ),
    "the size of a data file is wrong": (
        lambda s: s.edit_file(levels(s)[LEVEL], file_size=9),
        {("LSM-7", "file size")},
    ),
    "the row count of a data file is wrong": (
        lambda s: s.edit_file(levels(s)[LEVEL], row_count=9),
        {("LSM-7", "row count"), ("META-11", "delta record count"), ("META-11", "total record count")},
    ),
    "keys do not ascend": (
        lambda s: s.edit_rows(levels(s)[LEVEL], lambda table: table.take([1, 0])),
        {("LSM-1", "keys"), ("META-5", "smallest key"), ("META-5", "greatest key")},
    ),
    "a key comes twice": (
        lambda s: s.edit_rows(levels(s)[DEEPEST], lambda table: table.take([0, 0, *range(2, 10)])),
        {("LSM-1", "keys")},
    ),
    "a row kind is none": (
        _edit(DEEPEST, "_VALUE_KIND", lambda values: [4, *values[1:]]),
        {("TBL-4", "row kinds")},
    ),
    "a retraction is not counted": (
        _edit(0, "_VALUE_KIND", lambda values: [3]),
        {("LSM-7", "retractions")},
    ),
    "a key is null": (
        _edit(0, "k", lambda values: [None]),
        {("TBL-2", "key columns"), ("META-6", "value statistics of k: nulls")},
    ),
    "a row has another key than its key columns": (
        _edit(DEEPEST, "k", lambda values: [*values[:3], 4, *values[4:]]),
        {("META-7", "key columns")},
    ),
    "a row is of another partition": (
        _edit(0, "p", lambda values: ["b"]),
        {("TBL-3", "partition column p"), ("META-6", "value statistics of p: bounds")},
    ),
    "sequence numbers are others": (
        _edit(DEEPEST, "_SEQUENCE_NUMBER", lambda values: [*values[:-1], 77]),
        {("LSM-7", "sequence numbers")},
    ),
    "the smallest key is another": (
        lambda s: s.edit_file(levels(s)[DEEPEST], min_key=_key(-1)),
        {("META-5", "smallest key")},
    ),
    "the greatest key is another": (
        lambda s: s.edit_file(levels(s)[DEEPEST], max_key=_key(8)),
        {("META-5", "greatest key")},
    ),
    "key statistics exclude a present key": (
        lambda s: _stats(s, "key_stats", [1], [9], (0,)),
        {("META-6", "key statistics of _KEY_k: bounds")},
    ),
    "a minimum is above a present value": (
        lambda s: _stats(s, "value_stats", ["a", 1, X, -0.0], TRUE_HIGH, NO_NULLS),
        {("META-6", "value statistics of k: bounds")},
    ),
    "a maximum is below a present value": (
        lambda s: _stats(s, "value_stats", TRUE_LOW, ["a", 9, X, 4.5], NO_NULLS),
        {("META-6", "value statistics of v: bounds")},
    ),
    "a maximum is missing": (
        lambda s: _stats(s, "value_stats", TRUE_LOW, ["a", 9, "xy", None], NO_NULLS),
        {("META-6", "value statistics of d: bounds")},
    ),
    "a null count is wrong": (
        lambda s: _stats(s, "value_stats", TRUE_LOW, TRUE_HIGH, (0, 0, 1, 0)),
        {("META-6", "value statistics of v: nulls")},
    ),
    "there are bounds though a NaN is present": (
        _edit(DEEPEST, "d", lambda values: [float("nan"), *values[1:]]),
        {("META-6", "value statistics of d: bounds")},
    ),
    "a key is live twice": (
        _steps(
            lambda s: s.put_vectors(4, {levels(s)[DEEPEST]: []}),
            lambda s: s.put_vectors(LAST, {levels(s)[DEEPEST]: [5]}),
        ),
        {("DV-12", "live keys")},
    ),
    "an older record is in a newer run": (
        _steps(
            _edit(0, "_SEQUENCE_NUMBER", lambda values: [3]),
            lambda s: s.edit_file(levels(s)[0], min_sequence_number=3, max_sequence_number=3),
        ),
        {("LSM-6", "order of records")},
    ),
}


# ------------------------------------------------------------------ files that nothing refers to


UNREFERENCED: dict[str, tuple[Damage, set[tuple[str, str]]]] = {
    "a data file": (_stray("p=a/bucket-0/data-stray-0.parquet"), {("CMT-12", "data file")}),
    "a data file of a partition without rows": (
        _stray("p=b/bucket-3/data-stray-0.parquet"),
        {("CMT-12", "data file")},
    ),
    "a manifest": (_stray("manifest/manifest-stray-0"), {("CMT-12", "manifest")}),
    "an index file": (_stray("index/index-stray-0"), {("CMT-12", "index file")}),
    "an unfinished snapshot": (_stray("snapshot/.snapshot-8.1234.tmp"), {("CMT-12", "file")}),
}

ALL = {**METADATA, **LAYOUT, **ROWS, **UNREFERENCED}

NOTES = {"CMT-12", "DV-4"}
"""The clauses whose violation harms no read."""


@covers(
    "CMT-1", "CMT-4", "CMT-5", "CMT-6", "CMT-12", "CMT-15", "CMP-10", "DV-2", "DV-3", "DV-4", "DV-5", "DV-11", "DV-12",
    "DVF-1", "DVF-5", "DVF-8", "LSM-1", "LSM-2", "LSM-3", "LSM-6", "LSM-7", "META-1", "META-2", "META-5", "META-6",
    "META-7", "META-11", "META-12", "META-14", "RD-11", "TBL-2", "TBL-3", "TBL-4", "DV-16", "DVF-9",
)  # fmt: skip
@pytest.mark.parametrize("name", ALL)
def test_a_damage_is_found_and_nothing_else(surgeon: Surgeon, name: str) -> None:
    damage, expected = ALL[name]
    files = levels(surgeon)
    damage(surgeon)
    found = check(surgeon.root).findings
    named = {
        (clause, what.replace("{0}", files[0]).replace("{5}", files[DEEPEST])) for clause, what in expected
    }
    assert kinds(found) == named, "\n".join(map(str, found))
    assert all((finding.severity == NOTE) == (finding.clause in NOTES) for finding in found)
