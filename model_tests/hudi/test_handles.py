"""Handles of Hudi tables: of one that was dropped or made again, their options, and directories with another table."""

from __future__ import annotations

import copy
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import HudiTable, Table
from pktable_hudi import incoming, writer
from pktable_hudi.format.names import DIRECTORY
from pktable_hudi.index_writer import IndexPolicy
from pktable_hudi.placing import WriteOptions
from pktable_spec.covers import covers
from pktable_spec.errors import InvalidRequestError, NotATableError, UnsupportedOptionError

from model_tests.hudi.written_tables import COLUMNS, new_table, rows_of

ROW = {"k": "a", "ts": 1, "v": 1}
USES: dict[str, Callable[[HudiTable], Any]] = {
    "count": lambda table: table.count(),
    "to_arrow": lambda table: table.to_arrow(),
    "check": lambda table: table.check(),
    "history": lambda table: table.history(),
    "files": lambda table: table.files(),
    "locate": lambda table: table.locate(["a"]),
    "upsert": lambda table: table.upsert([ROW]),
    "delete": lambda table: table.delete([{"k": "a"}]),
    "delete where": lambda table: table.delete(where="v = 1"),
    "plan_compaction": lambda table: table.plan_compaction(),
    "compact": lambda table: table.compact(),
    "rollback": lambda table: table.rollback(),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
}


def made_again(path: Path, **options: Any) -> HudiTable:
    shutil.rmtree(path)
    columns = options.pop("columns", COLUMNS)
    table = HudiTable.create(path, columns, **{"key": "k", "ordering": "ts", **options})
    table.upsert([ROW])
    return table


@covers("LOG-81")
@pytest.mark.parametrize("use", USES)
def test_a_handle_of_a_table_that_was_dropped_says_so(tmp_path: Path, use: str) -> None:
    table = new_table(tmp_path / "t")
    table.upsert([ROW])
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(NotATableError, match="the table was dropped or renamed after it was opened"):
        USES[use](table)
    assert not (tmp_path / "t").exists()


@covers("LOG-81")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "options", [{"ordering": None}, {"key": ["k", "v"]}, {"partition_by": "v"}, {"name": "u"}]
)
def test_a_handle_of_a_table_that_was_made_again_is_refused(
    tmp_path: Path, options: dict[str, Any], use: str
) -> None:
    table = new_table(tmp_path / "t")
    new = made_again(tmp_path / "t", **options)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(
        InvalidRequestError, match=r"another table has taken its place since it was opened.*open it again"
    ):
        USES[use](table)
    assert sorted(tmp_path.rglob("*")) == before
    assert new.count() == 1


@covers("LOG-81")
def test_a_table_that_is_made_again_under_a_write_does_not_get_its_rows(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert([ROW])
    real = table.writer()
    made: list[HudiTable] = []

    def clock() -> int:
        if not made:
            made.append(made_again(tmp_path / "t", ordering=None))
        return real.clock()

    writer = replace(real, clock=clock)
    with pytest.raises(InvalidRequestError, match="another table has taken its place"):
        writer.upsert([{**ROW, "v": 7}])
    assert rows_of(made[0])["a"].value == 1
    assert len(made[0].timeline().completed) == 1


@covers("LOG-81")
def test_a_handle_writes_to_a_table_that_was_made_again_as_it_was(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    made_again(tmp_path / "t")
    table.upsert([{**ROW, "v": 2}])
    assert rows_of(table)["a"].value == 2


@covers("LOG-82")
def test_no_table_is_created_over_one_of_the_other_kind(tmp_path: Path) -> None:
    Table.create(tmp_path / "p", "k STRING NOT NULL, v INT", primary_key="k")
    with pytest.raises(InvalidRequestError, match="a table of another format already exists here"):
        HudiTable.create(tmp_path / "p", "k STRING", key="k")
    assert not (tmp_path / "p" / DIRECTORY).exists()
    new_table(tmp_path / "h")
    with pytest.raises(
        InvalidRequestError, match=r"a table of Hudi already exists here; pktable.HudiTable opens it"
    ):
        Table.create(tmp_path / "h", "k STRING NOT NULL, v INT", primary_key="k")
    assert not (tmp_path / "h" / "schema").exists()


@covers("LOG-58", "LOG-55")
def test_options_of_a_handle_are_refused_when_they_are_set(tmp_path: Path) -> None:
    for wrong in ({"small_bytes": "5"}, {"small_bytes": -1}, {"most_bytes": 0}, {"most_bytes": True}):
        with pytest.raises(InvalidRequestError, match=f"{next(iter(wrong))}: expected an integer"):
            WriteOptions(**wrong)
    table = new_table(tmp_path / "t")
    for value in ({"small_bytes": 0}, None):
        with pytest.raises(InvalidRequestError, match="write_options: expected WriteOptions"):
            table.write_options = value  # type: ignore[assignment]
        with pytest.raises(InvalidRequestError, match="index_policy: expected IndexPolicy"):
            table.index_policy = value  # type: ignore[assignment]
    assert (table.write_options, table.index_policy) == (WriteOptions(), IndexPolicy())


@covers("LOG-55")
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))]
)
def test_a_copy_of_a_handle_has_its_options(tmp_path: Path, copied: Callable[[HudiTable], HudiTable]) -> None:
    table = new_table(tmp_path / "t")
    table.write_options, table.index_policy = WriteOptions(small_bytes=0), IndexPolicy(clique_files=3)
    found = copied(table)
    assert (found.write_options, found.index_policy) == (table.write_options, table.index_policy)
    found.upsert([ROW])
    assert table.count() == 1


@covers("LOG-84")
def test_a_table_of_hudis_bucket_index_is_not_written(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    writer = replace(table.writer(), new_id=lambda: "00000003-1b4e-4f6d-9d6e-0d9a1c5f7c11")
    writer.upsert([ROW])
    before = sorted(tmp_path.rglob("*"))
    for use in ("upsert", "delete", "delete where"):
        with pytest.raises(InvalidRequestError, match="a table with Hudi's bucket index is not written"):
            USES[use](table)
    assert sorted(tmp_path.rglob("*")) == before
    assert table.count() == 1


@covers("LOG-58")
def test_writes_to_a_table_without_a_schema_say_so(tmp_path: Path) -> None:
    path = Path(new_table(tmp_path / "t").path)
    properties = path / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines()
    properties.write_text("\n".join(one for one in lines if "create.schema" not in one))
    table = HudiTable.open(path)
    for use in ("count", "upsert", "delete", "delete where"):
        with pytest.raises(InvalidRequestError, match="the table has no schema yet: nothing was written"):
            USES[use](table)


@covers("LOG-83")
def test_the_comment_of_a_column_is_read_back(tmp_path: Path) -> None:
    table = HudiTable.create(
        tmp_path / "t", "k STRING COMMENT 'the ''key''', r ROW<a INT COMMENT 'é'>, v INT", key="k"
    )
    for _ in range(2):
        k, r, v = table.fields[5:]
        assert (k.description, r.description, v.description) == ("the 'key'", None, None)
        assert r.type.children[0].description == "é"
        table.upsert([{"k": "a", "r": {"a": 1}, "v": 1}])
    table.compact()
    assert table.to_arrow(columns=["k", "r", "v"]).to_pylist() == [{"k": "a", "r": {"a": 1}, "v": 1}]


def rewritten(path: Path, before: str, after: str) -> HudiTable:
    """Return a table whose properties say something else now."""
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    assert before in text
    properties.write_text(text.replace(before, after))
    return HudiTable.open(path)


@covers("LOG-56")
@pytest.mark.parametrize(
    ("column", "kind", "live", "deleted"),
    [("_hoodie_is_deleted", "BOOLEAN", False, True), ("_hoodie_operation", "STRING", "I", "D")],
)
def test_a_row_that_is_deleted_is_in_no_base_file(
    tmp_path: Path, column: str, kind: str, live: object, deleted: object
) -> None:
    HudiTable.create(tmp_path / "t", f"k STRING, v INT, {column[1:]}X {kind}", key="k")
    table = rewritten(tmp_path / "t", f"{column[1:]}X", column)
    for keys in ("ab", "cd"):
        table.upsert([{"k": k, "v": 1, column: deleted if k in "bd" else live} for k in keys])
    assert table.to_arrow()["k"].to_pylist() == ["a", "c"]


@covers("LOG-18")
def test_the_type_of_a_table_is_read_in_any_case_of_letters(tmp_path: Path) -> None:
    HudiTable.create(tmp_path / "t", "k STRING, v INT", key="k").upsert([{"k": "a", "v": 1}])
    table = rewritten(tmp_path / "t", "hoodie.table.type=MERGE_ON_READ", "hoodie.table.type=merge_on_read")
    table.upsert([{"k": "a", "v": 2}])
    assert table.to_arrow()["v"].to_pylist() == [2]


GENERATOR = "hoodie.table.keygenerator.type=NON_PARTITION"


@covers("LOG-18", "LOG-54", "LOG-58")
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        ("hoodie.table.type=MERGE_ON_READ", "", "hoodie.table.type"),  # copy on write, as Hudi understands it
        (GENERATOR, "hoodie.table.keygenerator.class=org.example.Keys", "hoodie.table.keygenerator.class"),
        (GENERATOR, "hoodie.table.keygenerator.type=TIMESTAMP", "hoodie.table.keygenerator.type"),
        *(
            (GENERATOR, f"{GENERATOR}\n{option}={value}", option)
            for option, value in (
                ("hoodie.datasource.write.slash.separated.date.partitioning", "true"),
                ("hoodie.table.partition_extractor_class", "org.example.HiveStylePartitionValueExtractor"),
            )
        ),
    ],
)
def test_a_table_of_other_settings_is_read_and_not_written(
    tmp_path: Path, before: str, after: str, refused: str
) -> None:
    HudiTable.create(tmp_path / "t", "k STRING, v INT", key="k").upsert([{"k": "a", "v": 1}])
    table = rewritten(tmp_path / "t", before, after)
    for write, row in ((table.upsert, {"k": "a", "v": 2}), (table.delete, {"k": "a"})):
        with pytest.raises(UnsupportedOptionError, match=refused):
            write([row])
    assert table.to_arrow()["v"].to_pylist() == [1]


@covers("LOG-54")
@pytest.mark.parametrize(("what", "kind"), [("key", "DOUBLE"), ("key", "BYTES"), ("partition", "TIMESTAMP")])
def test_a_table_whose_keys_or_partitions_hudi_may_spell_otherwise_is_not_written(
    tmp_path: Path, what: str, kind: str
) -> None:
    HudiTable.create(tmp_path / "t", f"k STRING, p STRING, d {kind}, v INT", key="k", partition_by="p")
    option = "recordkey.fields=k" if what == "key" else "partition.fields=p"
    table = rewritten(tmp_path / "t", option, f"{option[:-1]}d")
    for write, row in ((table.upsert, {"k": "a", "p": "x", "v": 1}), (table.delete, {"k": "a"})):
        with pytest.raises(InvalidRequestError, match=f"{what} column d: Hudi may write values of {kind}"):
            write([row])


def partitioned_twice(path: Path) -> HudiTable:
    return HudiTable.create(path, "k STRING, p INT, q INT, v INT", key="k", partition_by=["p", "q"])


def keys_of(table: HudiTable) -> list[tuple[str, int]]:
    rows = table.to_arrow(columns=["_hoodie_record_key", "v"]).to_pylist()
    return sorted((row["_hoodie_record_key"], row["v"]) for row in rows)


@covers("LOG-85")
@pytest.mark.parametrize("named", [False, True])
def test_record_keys_are_spelled_as_those_of_the_rows_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    table, name = partitioned_twice(tmp_path / "t"), "k:" if named else ""
    with monkeypatch.context() as context:
        context.setattr(writer, "has_named_key", lambda *_: named)
        table.upsert([{"k": k, "p": 1, "q": 1, "v": 1} for k in ("a", "k:a", "b")])
    table.upsert([{"k": k, "p": 1, "q": q, "v": 2} for k in ("a", "k:a") for q in (1, 2)])
    expected = [(name + "a", 2), (name + "a", 2), (name + "b", 1), (name + "k:a", 2), (name + "k:a", 2)]
    assert keys_of(table) == expected
    table.delete([{"k": "a", "p": 1, "q": 1}])  # of the last write alone no row is in its partition
    table.delete([{"k": k, "p": 1, "q": 1} for k in ("b", "k:a")])
    table.upsert([{"k": "b", "p": 1, "q": 1, "v": 3}])
    assert keys_of(table) == [(name + "a", 2), (name + "b", 3), (name + "k:a", 2)]


@covers("LOG-85", "LOG-58")
def test_a_table_with_record_keys_of_a_third_spelling_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = partitioned_twice(tmp_path / "t")
    with monkeypatch.context() as context:
        context.setattr(incoming, "record_keys", lambda rows, *_, **__: pa.array(["K:A"] * rows.num_rows))
        table.upsert([{"k": "a", "p": 1, "q": 1, "v": 1}])
    for write in (table.upsert, lambda rows: table.delete([{"k": "a", "p": 1, "q": 1}])):
        with pytest.raises(
            InvalidRequestError, match="the record key of a row is 'K:A', where 'a' or 'k:a' was"
        ):
            write([{"k": "a", "p": 1, "q": 1, "v": 2}])
    assert keys_of(table) == [("K:A", 1)]
