"""What writes and compactions record."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table, UnsupportedOptionError
from pktable.format.binary_row import decode_row
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import encode_schema
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.errors import StorageError

from model_tests.changelog.tables import applied, changes, new_table, put, rows, stored

FLOATS = [0.0, -0.0, 1.0, float("nan"), None]


def changelog_files(table: Table, snapshot: int) -> list[DataFileMeta]:
    """Return the changelog files of a snapshot."""
    found = next(one for one in table.snapshots() if one.id == snapshot)
    manifests = table.catalog.manifests
    assert found.changelog_manifest_list is not None
    entries = [
        entry for meta in manifests.read_list(found.changelog_manifest_list) for entry in manifests.read(meta)
    ]
    assert found.changelog_record_count == sum(entry.file.row_count for entry in entries)
    assert all(entry.kind == 0 for entry in entries)
    return [entry.file for entry in entries]


def logged(table: Table, snapshot: int) -> list[tuple[str, int, int]]:
    """Return the changelog files of a snapshot: the start of the name, the level, and the file source."""
    files = changelog_files(table, snapshot)
    return [(file.file_name.partition("-")[0], file.level, file.file_source or 0) for file in files]


@covers("CHG-1", "CHG-2", "CHG-3", "CHG-5")
def test_a_compaction_records_how_rows_change_at_its_output_level(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "lookup")
    assert put(table, ("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 30)) == 2
    last = put(table, ("+U", 1, 11), ("-D", 2, None), ("+I", 4, 40), ("-D", 9, None))
    assert changes(table, 1, 2) == [("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 30)]
    assert changes(table, 2) == [("-U", 1, 10), ("+U", 1, 11), ("-D", 2, 20), ("+I", 4, 40)]
    assert logged(table, last) == [("changelog", table.files(last).column("level").to_pylist()[0], 0)]
    assert [one.changelog_manifest_list is None for one in table.snapshots()] == [True, False, True, False]


@covers("CHG-4", "CHG-3")
def test_a_write_records_all_rows_as_they_came_by_key(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "input")
    put(table, ("+I", 2, 1), ("+I", 1, 1), ("+U", 2, 2), ("-D", 2, None), ("+I", 2, 3))
    assert changes(table, 0) == [("+I", 1, 1), ("+I", 2, 1), ("+U", 2, 2), ("-D", 2, None), ("+I", 2, 3)]
    assert logged(table, 1) == [("changelog", 0, 0)]
    assert table.snapshots()[1].changelog_manifest_list is None


@covers("CHG-4")
def test_a_deletion_that_is_ignored_is_not_recorded(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "input", ignore_delete="true")
    put(table, ("+I", 1, 1), ("-D", 1, None))
    put(table, ("-D", 1, None))
    assert changes(table, 0) == [("+I", 1, 1)]
    lookup = new_table(tmp_path / "u", "lookup", ignore_delete="true")
    put(lookup, ("+I", 1, 1))
    put(lookup, ("-D", 1, None))
    assert changes(lookup, 0) == [("+I", 1, 1)]


@covers("CHG-5", "CHG-20", "MRG-15")
@pytest.mark.parametrize("engine", ["deduplicate", "partial-update"])
def test_a_lookup_passes_a_deletion_that_is_ignored(tmp_path: Path, engine: str) -> None:
    options = {"ignore_delete": "true", "deletion_vectors__enabled": "false", "merge_engine": engine}
    table = new_table(tmp_path / "t", "lookup", columns="id BIGINT, v INT, w INT", **options)

    def write(*found: tuple[str, int, int | None, int | None]) -> None:
        kinds, ids, values, others = zip(*found, strict=True)
        columns = {"kind": kinds, "id": ids, "v": values, "w": others}
        types = {"kind": pa.string(), "id": pa.int64(), "v": pa.int32(), "w": pa.int32()}
        given = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
        table.write_changes(given, row_kind="kind")

    write(("+I", 1, 1, 1))
    write(("+I", 2, 2, 2), ("+I", 3, 3, 3))
    write(("-U", 1, 0, 0), ("-U", 5, 0, 0))  # a file of its own, above the file of the row
    before = table.snapshots()[-1].id
    write(("+U", 1, 9, None))
    after = (1, 9, None) if engine == "deduplicate" else (1, 9, 1)
    assert changes(table, before) == [("-U", 1, 1, 1), ("+U", *after)]
    assert after in rows(table)


@covers("CHG-4", "CMT-24")
def test_a_write_that_is_renumbered_keeps_its_changes(tmp_path: Path) -> None:
    from pktable import CommitId
    from pktable.ingest.changes import ChangeKind

    table = new_table(tmp_path / "t", "input")
    given = pa.table({"id": [1, 1], "v": pa.array([1, 2], pa.int32())})
    late = table.stage_write(given, ChangeKind(), write_only=True)
    assert late is not None
    put(Table.open(table.path), ("+I", 1, 9), write_only=True)
    late.commit(CommitId.new())
    assert changes(table, 1) == [("+I", 1, 1), ("+I", 1, 2)]
    assert not table.check().findings


@covers("CHG-6")
def test_a_row_that_was_deleted_and_comes_again_is_new(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "lookup")
    put(table, *(("+I", key, 1) for key in range(2000)))
    gone = put(table, ("-D", 5, None))
    assert changes(table, gone - 1) == [("-D", 5, 1)]
    put(table, ("+I", 5, 1))
    assert changes(table, gone) == [("+I", 5, 1)]


@covers("CHG-8")
def test_equal_rows_are_left_out_if_the_table_says_so(tmp_path: Path) -> None:
    plain = new_table(tmp_path / "t", "lookup")
    options = {"changelog_producer__row_deduplicate": "true"}
    without = new_table(tmp_path / "u", "lookup", **options)
    for table in (plain, without):
        put(table, ("+I", 1, 1), ("+I", 2, None), ("+I", 3, 3), ("+I", 4, 4))
        put(table, ("+U", 1, 1), ("+U", 2, None), ("+U", 3, None), ("-D", 4, None), ("+I", 5, 1))
    same = [("-U", 1, 1), ("+U", 1, 1), ("-U", 2, None), ("+U", 2, None)]
    others = [("-U", 3, 3), ("+U", 3, None), ("-D", 4, 4), ("+I", 5, 1)]
    assert changes(plain, 2) == same + others
    assert changes(without, 2) == others


@covers("CHG-8", "CHG-9", "MRG-7")
@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("after", FLOATS)
@pytest.mark.parametrize("before", FLOATS)
def test_rows_whose_floats_differ_in_a_read_are_not_equal(
    tmp_path: Path, before: float | None, after: float | None, kind: str
) -> None:
    table = new_table(
        tmp_path / "t",
        "lookup",
        columns=f"id BIGINT, v {kind}",
        changelog_producer__row_deduplicate="true",
    )
    for value in (before, after):
        table.upsert([{"id": 1, "v": value}])
    expected = [] if str(before) == str(after) else [("-U", 1, before), ("+U", 1, after)]
    assert str(changes(table, 2)) == str(expected)


@covers("CHG-8")
def test_a_column_may_be_left_out_of_the_comparison(tmp_path: Path) -> None:
    table = new_table(
        tmp_path / "t",
        "full-compaction",
        columns="id BIGINT, v INT, seen INT, tags ARRAY<INT>",
        deletion_vectors__enabled="false",
        changelog_producer__row_deduplicate="true",
        changelog_producer__row_deduplicate_ignore_fields="seen, tags",
    )
    for seen in (1, 2):
        table.upsert({"id": [1, 2], "v": [1, seen], "seen": [seen, seen], "tags": [[seen], None]})
        table.compact(full=True)
    assert [one[:4] for one in changes(table, 2)] == [("-U", 2, 1, 1), ("+U", 2, 2, 2)]


@covers("CHG-7")
def test_a_full_compaction_records_the_difference_at_the_greatest_level(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "full-compaction", deletion_vectors__enabled="false")
    put(table, ("+I", 1, 1), ("+I", 2, 2), ("-D", 3, None), write_only=True)
    assert changes(table, 0) == []
    first = table.compact(full=True)
    assert first
    assert changes(table, 0) == [("+I", 1, 1), ("+I", 2, 2)]
    put(table, ("+U", 1, 5), ("-D", 2, None), write_only=True)
    put(table, ("+U", 1, 6), ("+I", 4, 4), write_only=True)
    table.compact(full=True)
    assert changes(table, first) == [("-U", 1, 1), ("+U", 1, 6), ("-D", 2, 2), ("+I", 4, 4)]


@covers("CHG-10", "CHG-9")
def test_first_row_records_each_key_once(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "lookup", merge_engine="first-row", deletion_vectors__enabled="false")
    put(table, *(("+I", key, 1) for key in range(2000)))
    before = put(table, ("+I", 7, 2), ("+I", 5000, 2), ("+I", 5000, 3))
    assert changes(table, before - 1) == [("+I", 5000, 2)]
    put(table, ("+I", 5000, 4), ("+I", 7, 4))
    table.compact(full=True)
    assert changes(table, before) == []


@covers("CHG-5", "CHG-9", "DV-20")
@pytest.mark.parametrize(
    ("engine", "vectors", "after"),
    [
        ("partial-update", "true", (2, 7)),
        ("aggregation", "true", (3, 8)),
        ("deduplicate", "true", (2, None)),
        ("deduplicate", "false", (2, None)),
    ],
)
def test_every_engine_records_its_own_rows(tmp_path: Path, vectors: str, engine: str, after: Any) -> None:
    options = {"fields.v.aggregate-function": "sum"} if engine == "aggregation" else {}
    table = Table.create(
        tmp_path / "t",
        "id BIGINT, v INT, w INT",
        primary_key=["id"],
        options={
            "merge-engine": engine,
            "changelog-producer": "lookup",
            "deletion-vectors.enabled": vectors,
            **({**options, "fields.w.aggregate-function": "sum"} if options else {}),
        },
    )
    table.upsert({"id": list(range(2000)), "v": [1] * 2000, "w": [None, 7, *[1] * 1998]})
    table.upsert(
        {"id": [1], "v": [None], "w": [1]} if engine == "aggregation" else {"id": [1], "v": [2], "w": [7]}
    )
    last = table.upsert({"id": [1], "v": [2], "w": [None]})
    assert last is not None
    (_, *before), (_, *now) = changes(table, last - 1)
    assert tuple(now[1:]) == after
    assert applied((tuple(before),), changes(table, last - 1)) == {(1, *after)}
    assert rows(table, where="id = 1") == {(1, *after)}


@covers("CHG-12", "STM-7")
@pytest.mark.parametrize("producer", ["input", "lookup"])
def test_an_overwrite_records_nothing_and_its_changes_are_refused(tmp_path: Path, producer: str) -> None:
    table = new_table(tmp_path / "t", producer)
    put(table, ("+I", 1, 1))
    table.overwrite({"id": [2], "v": [2]})
    (overwrite,) = [one.id for one in table.snapshots() if one.commit_kind == "OVERWRITE"]
    assert table.snapshots()[overwrite - 1].changelog_manifest_list is None
    with pytest.raises(InvalidRequestError, match=f"snapshot {overwrite} is an OVERWRITE, whose changes"):
        changes(table, 0)
    base = rows(table, snapshot=overwrite, fresh=producer == "input")
    put(table, ("+U", 2, 3))
    if producer == "lookup":
        assert applied(base, changes(table, overwrite)) == rows(table) == {(2, 3)}
    else:
        assert changes(table, overwrite) == [("+U", 2, 3)]
    assert not table.check().findings


@covers("CHG-5", "CHG-9")
def test_statements_record_their_changes(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "lookup")
    put(table, ("+I", 1, 1), ("+I", 2, 2), ("+I", 3, 3))
    table.update({"v": "v + 10"}, where="id <= 2")
    table.delete(where="id = 1")
    table.merge(
        {"id": [2, 4], "v": [5, 6]}, on="id"
    ).when_matched_delete().when_not_matched_insert_all().execute()
    assert changes(table, 2, 4) == [("-U", 1, 1), ("+U", 1, 11), ("-U", 2, 2), ("+U", 2, 12)]
    assert applied((), changes(table, 0)) == rows(table) == {(3, 3), (4, 6)}


REFUSED = [
    ({"changelog-producer": "full-compaction", "deletion-vectors.enabled": "true"}, "none, input or lookup"),
    (
        {"changelog-producer": "input", "merge-engine": "first-row"},
        "none or lookup with merge-engine=first-row",
    ),
    ({"changelog-producer": "full-compaction", "merge-engine": "first-row"}, "none or lookup"),
    ({"changelog-producer": "other"}, "full-compaction or input or lookup or none"),
    ({"changelog-producer.row-deduplicate": "true"}, "column a, of type ARRAY<INT>, in"),
    ({"changelog-producer.row-deduplicate-ignore-fields": "b"}, "column b does not exist"),
    ({"changelog.num-retained.max": "0"}, "expected a positive integer"),
    ({"changelog.num-retained.min": "6", "changelog.num-retained.max": "5"}, "retained.max=5"),
    ({"changelog.time-retained": "5 weeks"}, "expected a time such as 7 d"),
    ({"changelog-file.format": "lance"}, "avro or orc or parquet"),
]


@covers("CHG-15", "TBL-9")
@pytest.mark.parametrize(("options", "message"), REFUSED, ids=lambda one: str(one)[:50])
def test_what_cannot_be_recorded_is_refused_by_name(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidRequestError, match=message) as found:
        Table.create(tmp_path / "t", "id BIGINT, a ARRAY<INT>", primary_key=["id"], options=options)
    assert next(iter(options)) in str(found.value)
    assert not (tmp_path / "t").exists()


@covers("CHG-15")
def test_an_append_table_has_no_producer(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOptionError, match="none in a table without a primary key"):
        Table.create(tmp_path / "t", "id BIGINT", primary_key=None, options={"changelog-producer": "input"})


@covers("CHG-3")
def test_the_files_that_are_rewritten_and_those_that_are_upgraded_have_changelog_files_of_their_own(
    tmp_path: Path,
) -> None:
    table = new_table(tmp_path / "t", "lookup", target_file_size="1 kb")
    put(table, *(("+I", key, key) for key in range(500)), write_only=True)  # large, and so upgraded
    for value in (1, 2):
        put(table, *(("+I", key, value) for key in range(1000, 1010)), write_only=True)
    last = table.compact()
    assert last is not None
    assert len(logged(table, last)) >= 2
    found = changes(table, 0)
    assert applied((), found) == rows(table)
    assert len(found) == 510
    assert not table.check().findings


def greatest_text(table: Table, file: DataFileMeta) -> Any:
    """Return the upper bound of the column ``s`` that a manifest has of a file, None without statistics."""
    if file.value_stats_cols is not None:
        assert file.value_stats_cols == ()
        return None
    types = [field.type for field in table.schema.fields]
    return decode_row(file.value_stats.max_values, types, at="")[1]


@covers("CHG-25", "META-27")
@pytest.mark.parametrize("producer", ["input", "lookup"])
@pytest.mark.parametrize(
    ("modes", "of_data", "of_changelog"),
    [
        ({}, "b" * 15 + "c", "b" * 15 + "c"),
        ({"metadata.stats-mode": "full"}, "b" * 30, "b" * 30),
        ({"metadata.stats-mode": "none"}, None, None),
        ({"changelog-file.stats-mode": "none"}, "b" * 15 + "c", None),
        ({"changelog-file.stats-mode": "full", "metadata.stats-mode": "none"}, None, "b" * 30),
        ({"changelog-file.stats-mode": "truncate(2)"}, "b" * 15 + "c", "bc"),
    ],
)
def test_the_statistics_of_changelog_files_are_those_of_their_own_option(
    tmp_path: Path, modes: dict[str, str], of_data: Any, of_changelog: Any, producer: str
) -> None:
    options = {"deletion-vectors.enabled": "true", "changelog-producer": producer, **modes}
    table = Table.create(tmp_path / "t", "id BIGINT, s STRING", primary_key=["id"], options=options)
    table.upsert({"id": [1, 2], "s": ["a", "b" * 30]})
    recorded = 1 if producer == "input" else 2
    (file,) = changelog_files(table, recorded)
    (stored,) = next(iter(table.catalog.state().files.values()))
    assert greatest_text(table, file) == of_changelog
    assert greatest_text(table, stored) == of_data
    assert file.min_key != file.max_key
    found = table.changes(0).to_pylist()
    assert [row["s"] for row in found] == ["a", "b" * 30]
    assert [row["id"] for row in table.changes(0, where="s > 'b'").to_pylist()] == [2]
    assert not table.check().findings


def summed(path: Path, **options: str) -> Table:
    """Return a table without vectors that sums: 5000 rows of 1 at level 5, and 11 for the first 500 at level 4."""
    given = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", **options}
    table = Table.create(path, "id BIGINT, v INT", primary_key=["id"], options=given)
    table.upsert({"id": list(range(5000)), "v": [1] * 5000})
    table.compact(full=True)
    table.upsert({"id": list(range(500)), "v": [10] * 500})
    return table


def records(table: Table, key: int) -> list[tuple[int, int, int]]:
    """Return level, row kind and value of the records of a key, by level."""
    found = []
    for file in table.files().to_pylist():
        held = table.inspect.records(file["file_name"]).to_pylist()
        found += [(file["level"], one["_VALUE_KIND"], one["v"]) for one in held if one["id"] == key]
    return sorted(found)


@covers("CHG-19", "CHG-20", "CHG-21", "CHG-9")
def test_without_vectors_a_lookup_has_merged_what_lies_deeper(tmp_path: Path) -> None:
    """As Paimon writes such a table: the record of the lower level holds the sum with that of the greater one."""
    table = summed(tmp_path / "t", **{"changelog-producer": "lookup"})
    last = put(table, ("+I", 1, 100))
    assert records(table, 1) == [(3, 0, 111), (4, 0, 11), (5, 0, 1)]
    assert changes(table, last - 1) == [("-U", 1, 11), ("+U", 1, 111)]
    last = put(table, ("-U", 1, 4), ("+U", 1, 6))
    assert changes(table, last - 1) == [("-U", 1, 111), ("+U", 1, 113)]
    assert rows(table, where="id < 2") == {(0, 11), (1, 113)}
    table.compact(full=True)
    assert rows(table, where="id < 2") == {(0, 11), (1, 113)}
    assert not table.check().findings


@covers("CHG-35", "CHG-19", "CHG-20", "CHG-16")
def test_with_a_forced_lookup_levels_hold_the_same_and_no_changelog_is_written(tmp_path: Path) -> None:
    by_lookup = summed(tmp_path / "lookup", **{"changelog-producer": "lookup"})
    forced = summed(tmp_path / "forced", **{"force-lookup": "true"})
    for table in (by_lookup, forced):
        put(table, ("+I", 1, 100))
        put(table, ("-U", 1, 4), ("+U", 1, 6))
        assert rows(table, where="id < 2") == {(0, 11), (1, 113)}
    assert records(forced, 1) == records(by_lookup, 1)
    assert not list((tmp_path / "forced").rglob("changelog-*"))
    # A table whose levels somebody else has filled by lookups says so by this option alone.
    renamed = {
        name: value for name, value in by_lookup.schema.options.items() if name != "changelog-producer"
    }
    schema = replace(by_lookup.schema, id=1, options={**renamed, "force-lookup": "true"})
    (tmp_path / "lookup/schema/schema-1").write_bytes(encode_schema(schema))
    assert rows(Table.open(tmp_path / "lookup"), where="id < 2") == {(0, 11), (1, 113)}
    forced.compact(full=True)
    assert rows(forced, where="id < 2") == {(0, 11), (1, 113)}
    assert not forced.check().findings


@covers("CHG-5", "CHG-19", "CHG-35")
def test_a_full_compaction_after_a_forced_lookup_knows_the_rows_before(tmp_path: Path) -> None:
    """The record of the greatest level is the row before, though the merge leaves it out."""
    table = summed(tmp_path, **{"force-lookup": "true", "changelog-producer": "full-compaction"})
    before = table.snapshots()[-1].id
    assert [level for level, _, _ in records(table, 1)] == [4, 5]
    put(table, ("+I", 1, 100))
    table.compact(full=True)
    found = changes(table, before)
    assert len(found) == 1000
    assert [one for one in found if one[1] == 1] == [("-U", 1, 1), ("+U", 1, 111)]


@covers("CHG-19")
def test_a_table_that_gets_vectors_later_reads_its_lookups_as_they_were_written(tmp_path: Path) -> None:
    table = summed(tmp_path / "t", **{"changelog-producer": "lookup"})
    options = {**table.schema.options, "deletion-vectors.enabled": "true"}
    (tmp_path / "t/schema/schema-1").write_bytes(encode_schema(replace(table.schema, id=1, options=options)))
    table = Table.open(tmp_path / "t")
    assert rows(table, where="id < 2") == {(0, 11), (1, 11)}
    table.upsert({"id": [1], "v": [10]})
    assert rows(table, where="id < 2") == {(0, 11), (1, 21)}


@covers("CHG-20", "LSM-6", "MRG-21")
def test_a_late_record_loses_to_a_deletion_that_lies_deeper(tmp_path: Path) -> None:
    """The lookup finds the deletion, and its record is copied to the lower level."""
    options = {"sequence.field": "v", "num-sorted-run.compaction-trigger": "2"}
    table = new_table(tmp_path / "t", "lookup", deletion_vectors__enabled="false", **options)
    put(table, *(("+I", key, 5) for key in range(5000)))
    put(table, ("-D", 1, 6))
    table.compact(full=True)
    late = put(table, ("+I", 1, 4), ("+I", 2, 4))
    assert changes(table, late - 1) == [("-U", 2, 5), ("+U", 2, 5)]
    assert rows(table, where="id < 3") == {(0, 5), (2, 5)}
    assert records(table, 1)[0][1:] == (3, 6)
    # Also not for the copy: its sequence number is that of the deeper record.
    assert not table.check().findings


class NoChangelog(LocalFileIO):
    """A directory in which no changelog file can be made."""

    def write(self, path: str, data: bytes) -> None:
        if "/changelog-" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().write(path, data)


@covers("CHG-4", "CMT-12")
def test_a_write_whose_changes_cannot_be_stored_fails_and_leaves_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "input")
    put(table, ("+I", 1, 1))
    before = rows(table, fresh=True), stored(table)
    with pytest.raises(StorageError, match="No space left"):
        put(Table.open(tmp_path / "t", store=NoChangelog()), ("+I", 2, 2))
    assert (rows(table, fresh=True), stored(table)) == before


@covers("MRG-8")
def test_a_write_makes_as_many_runs_as_the_retractions_of_one_key_demand(tmp_path: Path) -> None:
    options = {"merge_engine": "aggregation", "fields__v__aggregate_function": "sum"}
    table = new_table(tmp_path / "t", "none", **options)
    put(table, *((kind, key, 1) for key in range(5) for kind in ("+I", "-U", "+U")), write_only=True)
    assert table.files().num_rows == 3
    assert rows(table, fresh=True) == {(key, 1) for key in range(5)}
