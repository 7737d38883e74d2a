"""Which files and blocks count: timelines, compactions, rollbacks and writers that end in another order."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from pktable import HudiTable
from pktable.format.types import DataType, Field
from pktable.store.file_io import LocalFileIO
from pktable_hudi.format.log_block import BlockKind, HeaderKey, LogBlock, encode_block
from pktable_hudi.stored import parquet_tables
from pktable_spec.covers import covers
from pktable_spec.errors import (
    CorruptFileError,
    InvalidRequestError,
    NotATableError,
    OutsideTableError,
    SnapshotNotFoundError,
    StorageError,
    UnsupportedOptionError,
)

from model_tests.hudi.made_tables import MadeTable, instant, row


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    found = MadeTable(tmp_path / "t")
    found.base(10, [row("a", 1, 10)])
    found.commit(10)
    return found


def add(table: MadeTable, number: int, key: str = "a", completed: int | None = None) -> None:
    """A commit that writes ``number`` as the value of a key."""
    table.log(number, table.data(number, [row(key, number, number)]))
    table.commit(number, completed=completed)


@covers("LOG-25")
def test_a_commit_counts_once_it_is_complete(table: MadeTable) -> None:
    table.log(20, table.data(20, [row("a", 20, 20)]))
    table.begin(20)
    table.base(30, [row("a", 30, 30)])
    table.begin(30, "commit")
    assert table.rows() == {"a": 10}
    table.commit(20)
    assert table.rows() == {"a": 20}
    assert table.rows(instant=instant(15)) == {"a": 10}


@covers("LOG-25")
def test_an_instant_before_the_timeline_is_complete_unless_it_is_pending(table: MadeTable) -> None:
    table.base(5, [row("b", 5, 5)], "older")
    table.base(6, [row("c", 5, 5)], "pending")
    table.begin(6, "commit")
    assert table.rows() == {"a": 10, "b": 5}


@covers("LOG-22")
def test_a_commit_that_ends_after_a_compaction_began_belongs_to_the_new_slice(table: MadeTable) -> None:
    add(table, 20)
    add(table, 25, completed=35)  # requested before the compaction, complete after it was requested
    table.base(30, [row("a", 20, 20)])
    table.commit(30, action="commit", completed=40)
    assert table.rows() == {"a": 25}
    assert table.rows(read_optimized=True) == {"a": 20}


@covers("LOG-22", "LOG-24")
def test_a_commit_that_ends_after_a_compaction_was_planned_is_read_at_once(table: MadeTable) -> None:
    table.log(20, table.data(20, [row("a", 20, 20)]))
    table.begin(20)
    table.plan_compaction(30, ["g"])
    table.commit(20, completed=40)  # the last completed instant is before the slice that it belongs to
    assert table.rows() == {"a": 20}
    assert table.rows(instant=instant(20)) == {"a": 10}  # as in Hudi


@covers("LOG-22")
def test_completion_times_of_the_history_count(table: MadeTable) -> None:
    table.log(25, table.data(25, [row("a", 25, 25)]))
    table.base(30, [row("a", 20, 20)])
    add(table, 40, "b")
    (table.timeline / f"{instant(10)}_{instant(10)}.deltacommit").unlink()
    assert table.rows() == {"a": 20, "b": 40}  # without a history it counts as complete at once
    history = table.timeline / "history"
    history.mkdir()
    times = {
        "instantTime": [instant(10), instant(25), instant(30)],
        "completionTime": [instant(10), instant(35), instant(40)],
    }
    name = f"{instant(10)}_{instant(30)}_0.parquet"
    pq.write_table(pa.table(times), history / name)
    (history / "manifest_3").write_text(json.dumps({"files": [{"fileName": name, "fileLen": 1}]}))
    (history / "_version_").write_text("3")
    assert table.rows() == {"a": 25, "b": 40}
    (history / "manifest_4").write_text("{")  # by a writer that died
    assert table.rows() == {"a": 25, "b": 40}
    (history / "_version_").unlink()
    with pytest.raises(CorruptFileError, match="manifest of the history: expected a file, found none"):
        table.rows()
    (history / "manifest_4").unlink()
    (history / "_version_").write_text("3")
    (history / name).rename(history / "elsewhere")
    with pytest.raises(CorruptFileError, match=f"{name}: history: expected a file, found none"):
        table.rows()
    (history / "manifest_3").write_text(json.dumps({"files": [{"fileName": "../one.parquet"}]}))
    with pytest.raises(CorruptFileError, match="file name"):
        table.rows()


@covers("LOG-24")
@pytest.mark.parametrize("version", [6, 8])
def test_the_slice_of_a_planned_compaction_is_read_with_the_one_before(tmp_path: Path, version: int) -> None:
    table = MadeTable(
        tmp_path / "t",
        version,
        {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"},
    )
    table.base(10, [row("a", 1, 10), row("b", 1, 10)])
    table.commit(10)
    table.log(20, table.data(20, [row("a", 20, 20)]), base=10 if version == 6 else None)
    table.commit(20)
    table.plan_compaction(30, ["g"])
    table.log(40, table.data(40, [row("b", 40, 40)]), base=30 if version == 6 else None)
    table.commit(40)
    assert table.rows() == {"a": 20, "b": 40}
    assert table.rows(instant=instant(20)) == {"a": 20, "b": 10}
    table.base(30, [row("a", 20, 20), row("b", 1, 10)])
    assert table.rows() == {"a": 20, "b": 40}
    assert table.rows(read_optimized=True) == {"a": 10, "b": 10}
    table.commit(30, action="commit", completed=50)
    assert table.rows() == {"a": 20, "b": 40}
    assert table.rows(read_optimized=True) == {"a": 20, "b": 10}


@covers("LOG-23")
def test_before_version_8_the_name_decides(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t", 6)
    table.base(10, [row("a", 1, 10)])
    table.commit(10)
    table.base(30, [row("a", 1, 30)])
    table.commit(30, action="commit")
    table.log(20, table.data(20, [row("a", 20, 20)]), base=10)
    table.commit(20)
    table.log(40, table.data(40, [row("b", 40, 40)]), base=30)
    table.commit(40)
    assert table.rows() == {"a": 30, "b": 40}
    assert table.rows(instant=instant(20)) == {"a": 20}


@covers("LOG-26")
def test_a_rollback_takes_out_the_blocks_before_it(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t", 6)
    table.base(10, [row("a", 1, 10)])
    for number in (10, 20, 40):
        table.commit(number)
    data = table.data
    table.log(20, data(20, [row("a", 2, 20)]), base=10)
    table.log(20, table.rollback(30, 20), base=10, version=2)
    assert table.rows() == {"a": 10}
    table.log(40, data(20, [row("b", 2, 21)]), data(40, [row("c", 2, 40)]), base=10, version=3)
    assert table.rows() == {"a": 10, "b": 21, "c": 40}  # a block behind the rollback is not taken out


@covers("LOG-27")
def test_a_log_compaction_takes_the_place_of_the_latest_block_it_names(table: MadeTable) -> None:
    add(table, 20)
    add(table, 30)
    add(table, 40)
    names = ",".join((instant(20), instant(30))).encode()
    # Its value differs from that of the blocks it names, to see that it is read, and where.
    table.log(
        50, table.data(50, [row("a", 40, 5), row("b", 1, 5)], header={HeaderKey.COMPACTED_INSTANTS: names})
    )
    table.commit(50)
    assert table.rows() == {"a": 40, "b": 5}
    assert table.rows(instant=instant(30)) == {"a": 30}
    everything = ",".join((instant(40), instant(50))).encode()
    table.log(60, table.data(60, [row("a", 1, 6)], header={HeaderKey.COMPACTED_INSTANTS: everything}))
    table.commit(60)
    assert table.rows() == {"a": 6}


@covers("LOG-34")
def test_a_replaced_group_is_read_before_it_was_replaced_only(table: MadeTable) -> None:
    table.base(20, [row("a", 1, 20)], "h")
    table.commit(20, action="replacecommit", replaced=["g"])
    assert table.rows() == {"a": 20}
    assert table.rows(instant=instant(10)) == {"a": 10}


@covers("LOG-3", "LOG-25", "LOG-80")
def test_a_torn_block_of_a_write_that_died_is_skipped_with_a_warning(
    table: MadeTable, caplog: pytest.LogCaptureFixture
) -> None:
    torn = encode_block(table.data(20, [row("a", 20, 20)]))[:-3]
    path = table.log(30, table.data(30, [row("b", 30, 30)]))
    path.write_bytes(torn + path.read_bytes() + torn)
    table.commit(30)
    table.begin(20)
    assert table.rows() == {"a": 10, "b": 30}
    found = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(found) == 2
    assert found[0].startswith(f"{path}: block at 0: skipped {len(torn)} bytes that are no block: ")


@covers("LOG-80")
def test_a_torn_block_that_was_written_again_is_no_loss(table: MadeTable) -> None:
    block = encode_block(table.data(20, [row("a", 20, 20)]))
    table.log(20, table.data(20, [row("a", 20, 20)])).write_bytes(block[:-3] + block)
    table.commit(20)
    assert table.rows() == {"a": 20}
    assert [one.severity for one in table.open().check().findings] == ["note"]


@covers("LOG-80")
@pytest.mark.parametrize("left", [-1, -7, 40, 10, 6])
def test_lost_rows_of_a_completed_commit_are_refused_wherever_they_would_be_needed(
    table: MadeTable, left: int
) -> None:
    path = table.log(20, table.data(20, [row("a", 20, 20), row("b", 20, 20)]))
    path.write_bytes(path.read_bytes()[:left])
    table.commit(20)
    files = sorted(table.root.rglob("*"))
    opened = table.open()
    for work in (opened.to_arrow, lambda: opened.locate(["b"]), lambda: opened.compact()):
        with pytest.raises(CorruptFileError, match=f"the rows of the completed commit {instant(20)}, found"):
            work()
    assert [one for one in sorted(table.root.rglob("*")) if one.suffix == ".parquet"] == [
        one for one in files if one.suffix == ".parquet"
    ]
    assert [one.severity for one in opened.check().findings] == ["error"]
    assert opened.to_arrow(read_optimized=True).num_rows == 1
    assert table.rows(instant=instant(10)) == {"a": 10}


@pytest.mark.parametrize("asked", ["20260101", "now", "2026-01-01T00:00:00", "", "20260101000000a"])
def test_an_instant_is_digits(table: MadeTable, asked: str) -> None:
    if asked:
        with pytest.raises(InvalidRequestError, match="instant"):
            table.open().scan(instant=asked)
    with pytest.raises(SnapshotNotFoundError):
        table.rows(instant=instant(9))


def test_a_table_without_a_commit_has_no_rows(tmp_path: Path) -> None:
    schema = {
        "hoodie.table.create.schema": json.dumps(
            {"type": "record", "name": "r", "fields": [{"name": "k", "type": "string"}]}
        )
    }
    table = MadeTable(tmp_path / "t", settings=schema)
    table.log(20, table.data(20, [row("a", 20, 20)]))
    assert table.open().to_arrow().column_names[-1] == "k"
    assert table.open().count() == 0
    with pytest.raises(SnapshotNotFoundError):
        table.rows(instant=instant(20))
    with pytest.raises(InvalidRequestError, match="no schema"):
        MadeTable(tmp_path / "u").open().to_arrow()


@covers("LOG-18")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.table.version", "7"),
        ("hoodie.table.base.file.format", "ORC"),
        ("hoodie.populate.meta.fields", "false"),
        ("hoodie.datasource.write.drop.partition.columns", "true"),
        ("hoodie.record.merge.mode", "CUSTOM"),
        ("hoodie.table.ordering.fields", "ts,v"),
        ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS"),
        ("hoodie.bootstrap.base.path", "/else"),
        ("hoodie.record.merge.property.hoodie.payload.delete.field", "op"),
    ],
)
def test_a_setting_that_is_not_implemented_is_refused_by_name(
    tmp_path: Path, option: str, value: str
) -> None:
    table = MadeTable(tmp_path / "t", settings={option: value})
    with pytest.raises(UnsupportedOptionError, match=option.replace(".", r"\.")):
        table.open()


@covers("LOG-18")
@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ("DefaultHoodieRecordPayload", "ts"),
        ("OverwriteWithLatestAvroPayload", None),
        ("AWSDmsAvroPayload", "refused"),
    ],
)
def test_a_payload_class_is_one_of_the_merge_modes_or_refused(
    tmp_path: Path, payload: str, field: str | None
) -> None:
    settings = {"hoodie.compaction.payload.class": f"org.apache.hudi.common.model.{payload}"}
    table = MadeTable(tmp_path / "t", 6, settings)
    if field == "refused":
        with pytest.raises(UnsupportedOptionError, match="payload"):
            table.open()
    else:
        assert table.open().settings.ordering_field == field


@covers("LOG-18")
def test_a_merge_strategy_is_one_of_the_merge_modes_or_refused(tmp_path: Path) -> None:
    name = "hoodie.record.merge.strategy.id"
    latest = MadeTable(tmp_path / "t", 6, {name: "ce9acb64-bde0-424c-9b91-f6ebba25356d"})
    assert latest.open().settings.ordering_field is None
    with pytest.raises(UnsupportedOptionError, match=name):
        MadeTable(tmp_path / "u", 6, {name: "00000000-0000-0000-0000-000000000000"}).open()


@covers("LOG-35")
@pytest.mark.parametrize("kind", [BlockKind.HFILE, BlockKind.CDC, BlockKind.CORRUPT])
def test_blocks_of_other_kinds_are_refused_by_name(table: MadeTable, kind: BlockKind) -> None:
    table.log(20, LogBlock(kind, ((HeaderKey.INSTANT, instant(20).encode()),), b""))
    table.commit(20)
    with pytest.raises(InvalidRequestError, match=kind.name):
        table.rows()


@covers("LOG-35")
def test_files_of_other_formats_are_refused_by_name(table: MadeTable) -> None:
    path = table.root / f"g_0-0-0_{instant(10)}.parquet"
    path.write_bytes(path.read_bytes()[:-4] + b"PARE")
    with pytest.raises(InvalidRequestError, match="encrypted"):
        table.rows()
    path.rename(path.with_suffix(".orc"))
    with pytest.raises(InvalidRequestError, match="orc"):
        table.rows()


class OneKey(encryption.KmsClient):  # type: ignore[misc]
    """Keeps keys as they are."""

    def __init__(self, _: object) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> str:
        return base64.b64encode(key).decode()

    def unwrap_key(self, wrapped: str, _: str) -> bytes:
        return base64.b64decode(wrapped)


@covers("LOG-35")
@pytest.mark.parametrize("count", [1, 9000])
def test_files_with_encrypted_columns_behind_a_plain_footer_are_refused_by_name(
    table: MadeTable, count: int
) -> None:
    path = table.base(10, [row(f"{number:05}", 1, number) for number in range(count)])
    rows = pq.read_table(path)
    how = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": rows.column_names}, plaintext_footer=True
    )
    factory = encryption.CryptoFactory(OneKey)
    given = factory.file_encryption_properties(encryption.KmsConnectionConfig(), how)
    with pq.ParquetWriter(path, rows.schema, encryption_properties=given) as writer:
        writer.write_table(rows)
    for work in (table.rows, lambda: table.open().locate(["00000"])):
        with pytest.raises(InvalidRequestError, match="encrypted Parquet files are not supported"):
            work()


class FailingFile(io.BytesIO):
    """A file whose disk fails at reads of its first half, which has no footer."""

    failure: OSError = OSError(errno.EIO, "the disk fails")

    def read(self, count: int | None = -1) -> bytes:
        if self.tell() < len(self.getbuffer()) // 2:
            raise self.failure
        return super().read(count)

    def size(self) -> int:
        return len(self.getbuffer())


class FailingStore(LocalFileIO):
    def open(self, path: str) -> Any:
        return FailingFile(Path(path).read_bytes())


@covers("SAFE-5")
def test_a_disk_that_fails_is_no_damage_and_no_end_of_the_rows(table: MadeTable) -> None:
    rows = [row(f"{number:05}", 1, number) for number in range(3000)]
    path = table.base(10, rows)
    with pytest.raises(StorageError, match="the disk fails"):
        table.open(store=FailingStore()).to_arrow()
    file = FailingFile(path.read_bytes())
    for failure in (file.failure, StorageError("read", "file", None, "the disk fails")):
        file.failure = failure
        with pytest.raises(StorageError, match=r"^file: cannot read: the disk fails"):
            list(parquet_tables(file, "file", [Field(0, "k", DataType("STRING"))]))


@covers("LOG-35")
def test_a_block_without_an_instant_is_damage(table: MadeTable) -> None:
    table.log(20, table.data(20, [row("a", 20, 20)], header={HeaderKey.INSTANT: b""}))
    table.commit(20)
    with pytest.raises(CorruptFileError, match="block at 0: expected an instant, found none"):
        table.rows()


@covers("LOG-19")
def test_directories_inside_each_other_without_end_are_damage(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t")
    (table.root / ".hoodie_partition_metadata").unlink()
    table.commit(10)
    (table.root / "/".join("d" * 40)).mkdir(parents=True)
    with pytest.raises(CorruptFileError, match="partition: expected at most 32 levels, found more"):
        table.rows()


def test_an_argument_of_a_read_or_delete_that_means_nothing_is_refused(table: MadeTable) -> None:
    hudi = table.open()
    for ask, message in (
        (lambda: hudi.scan(limit=1).splits(), "a scan with a limit cannot be divided"),
        (
            lambda: hudi.to_arrow(columns=["k", "nosuch"]),
            "columns: expected some of .*, each once, found k, nosuch",
        ),
        (lambda: hudi.to_arrow(columns=["k", "k"]), "each once, found k, k"),
        (lambda: hudi.delete(), "give either keys or where"),
        (lambda: hudi.delete({"k": ["a"]}, where="k = 'a'"), "give either keys or where"),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            ask()


def test_unknown_commands_are_refused(table: MadeTable) -> None:
    header = ((HeaderKey.INSTANT, instant(20).encode()), (HeaderKey.COMMAND, b"9"))
    table.log(20, LogBlock(BlockKind.COMMAND, header, b""))
    table.commit(20)
    with pytest.raises(InvalidRequestError, match="command"):
        table.rows()


def test_a_table_without_its_ordering_field_is_damage(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t", settings={"hoodie.table.ordering.fields": "nosuch"})
    add(table, 10)
    with pytest.raises(CorruptFileError, match="schema: expected the ordering field nosuch, found none"):
        table.rows()


@covers("LOG-20")
def test_a_commit_that_has_gone_from_timeline_and_history_is_damage(table: MadeTable) -> None:
    timeline = table.open().timeline()
    (table.timeline / f"{instant(10)}_{instant(10)}.deltacommit").unlink()
    with pytest.raises(CorruptFileError, match="timeline file: expected a file, found none"):
        timeline.schema_text()


@covers("LOG-21")
def test_a_schema_that_hudi_evolves_on_read_is_refused(table: MadeTable) -> None:
    (path,) = table.timeline.glob("*.deltacommit")
    content = json.loads(path.read_text())
    content["extraMetadata"]["latest_schema"] = "{}"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidRequestError, match=r"schema-on-read \(latest_schema\) is not supported"):
        table.rows()


def test_damaged_and_missing_files_are_named(table: MadeTable) -> None:
    path = table.root / f"g_0-0-0_{instant(10)}.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + b"\xff" * 60 + whole[64:])
    with pytest.raises(CorruptFileError, match=f"{path.name}: parquet data: expected a readable file"):
        table.rows()
    for damaged in (whole[:-9], whole[:30], b""):
        path.write_bytes(damaged)
        with pytest.raises(CorruptFileError, match=path.name):
            table.rows()
    path.write_bytes(whole)
    splits = table.open().scan().splits()
    path.unlink()
    with pytest.raises(CorruptFileError, match="found none"):
        list(splits[0].read())


@covers("SAFE-1", "SAFE-2")
def test_a_table_never_leads_a_reader_out_of_its_directory(table: MadeTable, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    path = table.root / f"g_0-0-0_{instant(10)}.parquet"
    shutil.move(path, elsewhere / path.name)
    os.symlink(elsewhere / path.name, path)
    with pytest.raises(OutsideTableError):
        table.rows()
    path.unlink()
    shutil.copy(elsewhere / path.name, elsewhere / ".hoodie_partition_metadata")
    (table.root / ".hoodie_partition_metadata").unlink()
    os.symlink(elsewhere, table.root / "p=1")
    with pytest.raises(OutsideTableError):
        table.rows()


def test_partitions_are_found_at_any_depth(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t")
    (table.root / ".hoodie_partition_metadata").unlink()
    for name in ("2026/01", "2026/02"):
        directory = table.root / name
        directory.mkdir(parents=True)
        (directory / ".hoodie_partition_metadata").write_text("")
        table.base(10, [row(name, 1, 10)]).rename(directory / f"g_0-0-0_{instant(10)}.parquet")
    (table.root / "stray").mkdir()
    table.commit(10)
    assert table.rows() == {"2026/01": 10, "2026/02": 10}
    assert [split.partition for split in table.open().scan().splits()] == ["2026/01", "2026/02"]


def test_a_directory_without_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotATableError):
        HudiTable.open(tmp_path)


def test_a_table_and_its_reads_pickle(table: MadeTable) -> None:
    add(table, 20, "b")
    copy = pickle.loads(pickle.dumps(table.open()))
    assert copy.count() == 2
    scan, splits = pickle.loads(pickle.dumps((table.open().scan(), table.open().scan().splits())))
    assert scan.to_arrow().num_rows == 2
    assert sum(part.num_rows for part in splits[0].read()) == 2


def test_a_copy_on_write_table_is_read_by_its_base_files(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t", settings={"hoodie.table.type": "COPY_ON_WRITE"})
    table.base(10, [row("a", 1, 10)])
    table.commit(10, action="commit")
    table.base(20, [row("a", 1, 20), row("b", 1, 20)])
    table.commit(20, action="commit")
    assert table.rows() == {"a": 20, "b": 20}
    assert table.rows(instant=instant(10)) == {"a": 10}


def test_a_table_shows_what_it_is(table: MadeTable) -> None:
    assert repr(table.open()) == f"<HudiTable {table.root}: merge-on-read, version 8; record key k>"
