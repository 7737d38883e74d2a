"""A check finds good tables clean; what it walks and leaves out, and where it runs.

Tables of histories are checked where those are played (`model_tests.histories`: `is_sound`)."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import NotATableError, SnapshotNotFoundError, Table
from pktable.bucket.reader import DataReader
from pktable.check import keys
from pktable.check import rows as checked_rows
from pktable.cli import run
from pktable.run.spark.runner import SparkRunner
from pktable.store.directories import tables_in
from pktable.store.file_io import LocalFileIO
from pktable.table import check
from pktable_spec.clauses import requirements
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.check.sample import levels, make_table, tag_of_an_expired_snapshot
from model_tests.damage.table_damage import Surgeon
from model_tests.real_data import each_paimon_table

LEFT_BY_PAIMON = {
    "data-1599b187-f60c-439b-841c-b0fa0a78da4f-0.parquet",
    "data-0b9eadf8-7773-4de7-8f02-3765934f62b7-0.orc",
}
"""Files in the real tables that no snapshot refers to: intermediate runs of writers that compacted twice."""

DONE_BY_PAIMON = {"dangling-vector": {"DV-4"}, "values-with-dense-statistics": {"META-6"}}
"""Vectors whose writer broke a rule: a full compaction left a vector (paimon#8778); bounds of a column with NaN."""


# Good tables are clean


@each_paimon_table(shipped=True)
@covers("RD-11")
def test_a_table_that_paimon_wrote_is_clean(table: Path) -> None:
    report = check(table)
    assert report.snapshots
    assert report.rows
    found = [one for one in report.findings if Path(one.file).name not in LEFT_BY_PAIMON]
    # Paimon 0.9 writes no ids of columns into Parquet, and no cardinalities of vectors into the index manifest.
    case = table.parent / "case.json"
    old = "jvm-0.9" in table.parts or (case.exists() and "0.9" in json.loads(case.read_text())["written_by"])
    clauses = {one.clause for one in found if one.severity == "error" or not old or one.clause != "DVF-13"}
    assert clauses == (DONE_BY_PAIMON.get(table.parent.name) or ({"META-8"} if old else set())), found


# What is walked


def test_a_tag_of_an_expired_snapshot_is_checked(surgeon: Surgeon) -> None:
    tag_of_an_expired_snapshot(surgeon)
    report = check(surgeon.root)
    assert (report.findings, report.snapshots) == ([], 7)


def test_files_of_branches_and_of_lasting_changelogs_are_referred_to(surgeon: Surgeon) -> None:
    (surgeon.root / "snapshot/snapshot-1").rename(surgeon.root / "snapshot/kept")
    shutil.copytree(surgeon.root / "snapshot", surgeon.root / "branch/branch-b/snapshot")
    (surgeon.root / "branch/branch-b/snapshot/kept").rename(
        surgeon.root / "branch/branch-b/snapshot/snapshot-1"
    )
    (surgeon.root / "snapshot/kept").unlink()
    assert check(surgeon.root).findings == []
    (surgeon.root / "changelog").mkdir()
    (surgeon.root / "branch/branch-b/snapshot/snapshot-1").rename(surgeon.root / "changelog/changelog-1")
    shutil.rmtree(surgeon.root / "branch")
    assert check(surgeon.root).findings == []
    (surgeon.root / "changelog/changelog-1").unlink()
    assert {one.clause for one in check(surgeon.root).findings} == {"CMT-12"}


def test_a_check_goes_on_after_damage(surgeon: Surgeon) -> None:
    files = levels(surgeon)
    surgeon.data_file(files[4]).write_bytes(b"")
    surgeon.edit_file(files[5], min_sequence_number=9)
    surgeon.edit_snapshot(2, total_record_count=1)
    (surgeon.root / "manifest" / surgeon.lists(4)[1]).write_bytes(b"")
    found = {(one.clause, one.snapshots) for one in check(surgeon.root).findings}
    assert {
        ("LSM-7", (3, 5, 6, 7)),
        ("LSM-7", (1, 2, 3, 5, 6, 7)),
        ("META-11", (2,)),
        ("META-3", (4,)),
    } <= found


def test_what_shows_in_several_snapshots_is_one_finding(surgeon: Surgeon) -> None:
    surgeon.relevel(levels(surgeon)[5], 5, 9)
    (found,) = check(surgeon.root).findings
    assert (found.snapshots, found.partition, found.bucket) == (tuple(range(2, 8)), "p=a", 0)
    assert str(found) == (
        f"error LSM-3: p=a/bucket-0/{levels(surgeon)[9]}: level: expected 0 to 5, found 9 (snapshots 2 to 7)"
    )


@pytest.mark.parametrize("batch_rows", [1, 3, 1 << 16])
def test_a_finding_of_rows_gives_the_position_of_the_first_and_the_number_of_others(
    surgeon: Surgeon, monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    monkeypatch.setattr(checked_rows, "BATCH_ROWS", batch_rows)
    surgeon.edit_rows(levels(surgeon)[5], lambda table: table.take([0, 1, 2, 4, 3, 5, 6, 8, 7, 9]))
    (found,) = check(surgeon.root, snapshot=7).findings
    more = "" if batch_rows < 5 else " and 1 more"  # the others of the first batch that shows it
    assert (found.clause, found.found) == ("LSM-1", f"not ascending at position 4{more}")


def test_one_snapshot_alone_is_checked(surgeon: Surgeon) -> None:
    surgeon.edit_snapshot(3, total_record_count=1)
    report = check(surgeon.root, snapshot=4)
    assert (report.findings, report.snapshots, report.files) == ([], 1, 2)
    assert len(check(surgeon.root, snapshot=3).findings) == 1
    with pytest.raises(SnapshotNotFoundError, match="1 to 7"):
        check(surgeon.root, snapshot=8)


def test_metadata_alone_opens_no_data_file(surgeon: Surgeon, monkeypatch: pytest.MonkeyPatch) -> None:
    surgeon.data_file(levels(surgeon)[4]).unlink()
    monkeypatch.setattr(DataReader, "__init__", None)
    report = check(surgeon.root, reads_rows=False)
    assert [one.clause for one in report.findings] == ["CMT-15"]
    assert report.rows == 0


def test_each_row_is_read_once_whatever_the_number_of_snapshots(
    surgeon: Surgeon, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: Counter[tuple[str, bool]] = Counter()
    original = DataReader.read

    def counted(self: DataReader, columns: Sequence[str], **rest: Any) -> Iterator[tuple[int, pa.Table]]:
        read[self.meta.file_name, "v" in columns] += 1
        return original(self, columns, **rest)

    monkeypatch.setattr(DataReader, "read", counted)
    report = check(surgeon.root)
    assert set(read.values()) == {1}
    assert Counter(whole for _, whole in read)[True] == report.files == 4


def test_memory_holds_a_window_of_rows_and_few_files(
    surgeon: Surgeon, monkeypatch: pytest.MonkeyPatch
) -> None:
    surgeon.put_vectors(4, {levels(surgeon)[5]: []})
    surgeon.put_vectors(7, {levels(surgeon)[5]: [5]})
    expected = check(surgeon.root).findings
    assert [one.snapshots for one in expected] == [(4, 5, 6, 7)]
    monkeypatch.setattr(keys, "MOST_FILES", 1)
    monkeypatch.setattr("pktable.bucket.windows.FEWEST_ROWS", 1)
    monkeypatch.setattr(keys, "WINDOW_BYTES", 1)
    again = check(surgeon.root).findings
    assert [(one.clause, one.snapshots) for one in again] == [("DV-12", (4, 5, 6, 7))]


def test_twenty_runs_of_a_key_are_in_order_or_not(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "k INT, v INT", primary_key=["k"], options={"write-only": "true"})
    for step in range(20):
        table.upsert(
            pa.table({"k": pa.array([1, step], pa.int32()), "v": pa.array([step, step], pa.int32())})
        )
    assert check(tmp_path).findings == []
    surgeon = Surgeon(tmp_path)
    names = [entry.file.file_name for entry in surgeon.live(20)]
    surgeon.edit_column(names[3], "_SEQUENCE_NUMBER", lambda numbers: [number + 2 for number in numbers])
    surgeon.edit_file(names[3], max_sequence_number=9, min_sequence_number=8)
    found = {one.clause for one in check(tmp_path).findings}
    assert found == {"LSM-6"}


def test_a_table_read_by_merging_has_a_key_once_in_a_run(tmp_path: Path) -> None:
    make_table(tmp_path / "table", {"deletion-vectors.enabled": "false"})
    assert check(tmp_path / "table").findings == []


@pytest.mark.parametrize("name", ["nothing", "empty", "file"])
def test_what_is_no_table_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(NotATableError):
        check(tmp_path / name)


# The tables that Paimon itself damages


@covers("CMT-8", "DV-11")
def test_two_writers_of_one_bucket_lose_a_delete_and_the_check_says_so(tmp_path: Path) -> None:
    """The table is Paimon 0.9's own: two_writers/README.md says how it was made."""
    zipfile.ZipFile(Path(__file__).parent / "two_writers/table.zip").extractall(tmp_path)
    rows = [Table.open(tmp_path).to_arrow(snapshot=one, where="k <= 2").to_pylist() for one in (4, 6)]
    assert [sorted(row["k"] for row in one) for one in rows] == [[2], [1, 2]]
    found = [one for one in check(tmp_path).findings if one.severity == "error"]
    assert [(one.clause, one.snapshots) for one in found] == [("DV-11", (6,))]
    assert found[0].found == "1 of them missing, the first is 0"


# Where it runs


@pytest.mark.versions
@pytest.mark.spark
@covers("CMP-16")
def test_spark_finds_the_same(tmp_path: Path) -> None:
    spark = spark_session()
    table = Table.create(
        tmp_path,
        "k INT, v STRING",
        primary_key=["k"],
        options={"deletion-vectors.enabled": "true", "bucket": "5"},
    )
    for step in range(3):
        table.upsert(pa.table({"k": pa.array(range(step, 40), pa.int32()), "v": ["x" * step] * (40 - step)}))
    surgeon = Surgeon(tmp_path)
    damaged = next(surgeon.live(6)).file.file_name
    surgeon.edit_file(damaged, min_sequence_number=0, max_sequence_number=10_000)
    reported: list[tuple[str, int, int]] = []
    on_spark = Table.open(tmp_path, spark=spark)
    on_spark.runner = SparkRunner(spark)
    report = on_spark.check(progress=lambda *what: reported.append(what))
    here = check(tmp_path)
    assert report == here
    assert here.errors == 1
    assert reported[-1] == ("data files", here.files, here.files)
    assert len(reported) > 7


# The command


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def command(*arguments: object) -> tuple[int, str, str]:
        code = run([str(argument) for argument in arguments])
        found = capsys.readouterr()
        return code, found.out, found.err

    return command


def test_the_command_says_clean_or_what_is_wrong(surgeon: Surgeon, cli: Any) -> None:
    path = surgeon.root
    counted = "checked: 7 snapshots, 1 bucket, 4 data files, 14 rows\n"
    assert cli("check", path) == (0, f"clean; {counted}", "")
    (path / "index/index-stray").write_bytes(b"")
    code, out, err = cli("check", path)
    assert (code, err) == (0, "")
    assert out == (
        "note CMT-12: index/index-stray: index file: expected a snapshot, tag, branch or changelog that refers to "
        "it, found none (a write is running, or was killed)\n"
        f"    CMT-12: {requirements()['CMT-12']}\nerrors: 0, notes: 1; {counted}"
    )
    assert cli("check", path, "--severity", "error") == (0, f"clean; {counted}", "")
    surgeon.edit_snapshot(3, total_record_count=1)
    code, out, _ = cli("check", path, "--format", "jsonl")
    assert code == 1
    assert json.loads(out.splitlines()[0]) == {
        "severity": "error",
        "clause": "META-11",
        "partition": "",
        "bucket": None,
        "file": "snapshot/snapshot-3",
        "what": "total record count",
        "expected": "12",
        "found": "1",
        "snapshots": [3],
    }
    assert cli("check", path, "--snapshot", 4, "--metadata-only")[0] == 0


def test_notes_fail_a_strict_check_only(surgeon: Surgeon, cli: Any) -> None:
    path = surgeon.root
    assert cli("check", path, "--strict")[0] == 0
    (path / "index/index-stray").write_bytes(b"")
    assert cli("check", path)[0] == 0
    assert cli("check", path, "--strict")[0] == 1
    assert cli("check", path, "--strict", "--severity", "error")[0] == 0
    surgeon.edit_snapshot(3, total_record_count=1)
    assert cli("check", path)[0] == 1
    assert cli("check", path, "--severity", "error")[0] == 1


def test_formats_for_programs_give_findings_alone_and_the_summary_on_standard_error(
    surgeon: Surgeon, cli: Any
) -> None:
    counted = "checked: 7 snapshots, 1 bucket, 4 data files, 14 rows\n"
    assert cli("check", surgeon.root, "--format", "jsonl") == (0, "", f"clean; {counted}")
    code, out, err = cli("check", surgeon.root, "--format", "csv")
    assert (code, out.count("\n"), err) == (0, 1, f"clean; {counted}")
    (surgeon.root / "index/index-stray").write_bytes(b"")
    code, out, err = cli("check", surgeon.root, "--format", "jsonl")
    assert (code, json.loads(out)["clause"], err) == (0, "CMT-12", f"errors: 0, notes: 1; {counted}")


def test_the_error_for_a_directory_of_tables_names_them(surgeon: Surgeon, tmp_path: Path, cli: Any) -> None:
    database = tmp_path / "shop.db"
    for name in ("orders", "cities"):
        shutil.copytree(surgeon.root, database / name)
    (database / "empty").mkdir()
    (database / "notes.txt").write_text("")
    found = "a directory of tables"
    for command in ("check", "count"):
        assert cli(command, database)[::2] == (
            2,
            f"pktable: {database}: expected a table directory with schema/schema-<N>, "
            f"found {found}: cities, orders\n",
        )
    shutil.rmtree(surgeon.root)
    assert cli("check", tmp_path)[2].endswith(f"found {found}: shop.db/cities, shop.db/orders\n")
    for number in range(11):
        (database / f"more-{number:02}/schema").mkdir(parents=True)
        (database / f"more-{number:02}/schema/schema-0").write_text("")
    assert cli("check", database)[2].endswith(
        ": cities, more-00, more-01, more-02, more-03, more-04, more-05, more-06, more-07, more-08 and 3 more\n"
    )
    assert cli("check", database / "empty")[2].endswith("found an empty directory or a file\n")
    (database / "empty/file").write_text("")
    assert cli("check", database / "empty/file")[2].endswith("found an empty directory or a file\n")
    assert cli("check", database / "empty")[2].endswith("found a directory without one\n")
    (database / "empty/.hoodie").mkdir()
    (database / "empty/.hoodie/hoodie.properties").write_text("")
    with pytest.raises(NotATableError, match=r"found a Hudi table; pktable\.HudiTable opens it"):
        Table.open(database / "empty")
    assert cli("check", database / "none")[2].endswith("found nothing\n")


def test_a_directory_that_cannot_be_listed_does_not_hide_the_tables_next_to_it(
    surgeon: Surgeon, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = LocalFileIO.list_names

    def refusing(self: LocalFileIO, directory: str) -> list[str]:
        if "secret" in directory:
            raise PermissionError(directory)
        return listed(self, directory)

    monkeypatch.setattr(LocalFileIO, "list_names", refusing)
    (surgeon.root.parent / "secret.db").mkdir()
    assert tables_in(LocalFileIO(), str(surgeon.root.parent)) == ["table"]


def test_the_command_refuses_what_is_no_table_and_reports_one_that_cannot_be_opened(
    surgeon: Surgeon, tmp_path: Path, cli: Any
) -> None:
    code, out, err = cli("check", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert cli("check", surgeon.root, "--snapshot", 99)[0] == 2
    (surgeon.root / "schema/schema-0").write_text("{")
    code, out, err = cli("check", surgeon.root)
    assert (code, err) == (1, "")
    assert out.startswith("error META-1: schema/schema-0: JSON")


def test_a_report_prints_its_findings_and_what_was_checked(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT", primary_key=None)
    table.append([{"k": 1}, {"k": 2}])
    assert str(table.check()) == "clean; checked: 1 snapshot, 1 bucket, 1 data file, 2 rows"
    (path,) = tmp_path.glob("t/bucket-0/*.parquet")
    path.unlink()
    *findings, last = str(table.check()).splitlines()
    assert findings == [str(one) for one in table.check().findings]
    assert last.startswith("errors: 1, notes: 0; checked: 1 snapshot")


@covers("META-52", "RD-11")
@pytest.mark.parametrize("data", [b"{broken", b"", b"{}", b"[]"])
def test_a_damaged_fence_is_a_finding(tmp_path: Path, data: bytes) -> None:
    table = Table.create(tmp_path / "t", "k INT, v INT", primary_key="k", options={"write-only": "true"})
    for number in range(3):
        table.upsert([{"k": number, "v": number}])
    table.expire_snapshots(retain_last=1)
    (fence,) = (tmp_path / "t" / "fence").iterdir()
    fence.write_bytes(data)
    found = [one for one in check(tmp_path / "t").findings if one.severity == "error"]
    assert {(one.clause, one.file) for one in found} == {("META-52", f"fence/{fence.name}")}


@covers("TBL-20")
def test_rows_that_wait_for_a_bucket_are_noted_and_not_compared(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, v INT", primary_key="k", options={"write-only": "true"})
    table.upsert([{"k": 1, "v": 1}])
    (tmp_path / "t" / "bucket-0").rename(tmp_path / "t" / "bucket-postpone")
    Surgeon(tmp_path / "t").edit_entries(1, lambda entry: replace(entry, bucket=-2, total_buckets=-2))
    schema = tmp_path / "t" / "schema" / "schema-0"
    fields = json.loads(schema.read_text())
    fields["options"]["bucket"] = "-2"
    schema.write_text(json.dumps({name: value for name, value in fields.items() if name != "pktable.crc32"}))
    (finding,) = check(tmp_path / "t").findings
    assert (finding.clause, finding.severity, finding.bucket, finding.file) == (
        "TBL-20",
        "note",
        -2,
        "bucket-postpone",
    )
    assert "rows that wait for a bucket" in finding.found


@covers("CHG-17", "CMT-15", "META-2")
def test_a_changelog_that_an_expired_snapshot_has_left_is_checked(tmp_path: Path) -> None:
    kept = {"changelog.num-retained.min": "20", "changelog.num-retained.max": "20"}
    table = Table.create(
        tmp_path, "id BIGINT", primary_key="id", options={"changelog-producer": "input", **kept}
    )
    for one in (1, 2, 3):
        table.upsert([{"id": one}])
    table.expire_snapshots(retain_last=1)

    def errors() -> set[tuple[str, str]]:
        return {(one.clause, one.what) for one in table.check().findings if one.severity == "error"}

    assert errors() == set()
    logged = next((tmp_path / "bucket-0").glob("changelog-*"))
    data = logged.read_bytes()
    logged.unlink()
    assert errors() == {("CMT-15", "data file")}
    logged.write_bytes(data)
    (tmp_path / "changelog/changelog-1").write_text("{")
    assert errors() == {("META-2", "JSON")}
