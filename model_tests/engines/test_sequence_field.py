"""Tables with ``sequence.field``: whatever comes late and is compacted when, they read as plain Python says."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.bucket.kept_retractions import KeptRetractions
from pktable.catalog.changes import CommitId
from pktable.format.metadata.schema import encode_schema
from pktable.ingest.changes import ChangeKind
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session
from model_tests.engines.schedules import changes_of, rows_of
from model_tests.engines.sequences import CASES, Sequenced
from model_tests.engines.test_laws import Keyed, expected
from model_tests.seeded import cases


@covers(
    "MRG-19", "MRG-20", "MRG-21", "MRG-24", "MRG-4", "MRG-15", "DV-12", "DV-13", "DV-20", "DV-21", "DV-22"
)
@covers("DV-23", "RD-3", "RD-5", "RD-15", "CMP-13", "CMP-14")
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=cases(6))
@given(data=st.data())
def test_a_table_reads_as_plain_python_says_whatever_comes_late(
    case: Sequenced, vectors: bool, data: st.DataObject
) -> None:
    batches = data.draw(st.lists(case.records(keys=3, most=3), min_size=1, max_size=8))
    drawn = random.Random(data.draw(st.integers(0, 1 << 30)))
    options = {
        **case.options,
        "deletion-vectors.enabled": str(vectors).lower(),
        "num-sorted-run.compaction-trigger": str(drawn.choice([2, 3, 5])),
        "num-levels": str(drawn.choice([3, 5])),
        "write-only": "true",
        # So small that files are upgraded, where they may be, and outputs are cut.
        "target-file-size": drawn.choice(["1 b", "1 kb", "128 mb"]),
    }
    with tempfile.TemporaryDirectory() as directory:
        table = Table.create(directory + "/t", case.ddl, primary_key=["k"], options=options)
        written: list[Keyed] = []
        for batch in batches:
            table.write_changes(changes_of(case, batch), row_kind="op")
            written += batch
            wanted = expected(case, written)
            if drawn.random() < 0.6:
                table.compact(full=drawn.random() < 0.3)
                if vectors:
                    assert rows_of(table.to_arrow()) == wanted
                    assert table.count() == len(wanted)
            assert rows_of(table.to_arrow(fresh=True)) == wanted
            assert rows_of(table.to_arrow(columns=["k"], fresh=True)).keys() == wanted.keys()
            if not vectors:
                assert rows_of(table.to_arrow()) == wanted
                assert table.count() == len(wanted)
        table.compact(full=True)
        assert table.compact(full=True) is None
        assert rows_of(table.to_arrow()) == expected(case, written)
        assert not table.check().findings


def changes(*rows: tuple[Any, ...]) -> pa.Table:
    """Return changes of (kind, key, sequence, value)."""
    op, k, s, v = zip(*rows, strict=True)
    return pa.table({"op": op, "k": pa.array(k, pa.int32()), "s": pa.array(s, pa.int32()), "v": v})


def made(path: Path, options: Mapping[str, str]) -> Table:
    given = {"sequence.field": "s", **options}
    return Table.create(path / "t", "k INT, s INT, v STRING", primary_key="k", options=given)


def write(table: Table, *rows: tuple[Any, ...]) -> None:
    table.write_changes(changes(*rows), row_kind="op")


VECTORS = {"deletion-vectors.enabled": "true"}
SUMS = {
    "sequence.field": "s",
    "merge-engine": "aggregation",
    "fields.default-aggregate-function": "last_value",
}


@covers("MRG-21", "DV-21")
def test_a_late_row_does_not_bring_a_deleted_key_back(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    write(table, ("+I", 1, 100, "a"))
    write(table, ("-D", 1, 101, None))
    write(table, ("+U", 1, 50, "late"))
    assert table.to_arrow().num_rows == 0
    table.compact(full=True)
    write(table, ("+U", 1, 50, "late"))
    assert table.to_arrow().num_rows == 0
    write(table, ("+I", 1, 101, "tied"))
    assert table.to_arrow().column("v").to_pylist() == ["tied"]


@covers("MRG-21", "RD-5", "DV-15", "DV-21")
@pytest.mark.parametrize("full", [False, True])
def test_deletions_from_before_the_table_had_vectors_are_remembered(tmp_path: Path, full: bool) -> None:
    table = made(tmp_path, {"write-only": "true"})
    write(table, ("+I", 1, 5, "a"), ("+I", 2, 5, "b"), ("-D", 3, 5, None))
    write(table, ("-D", 1, 6, None))
    table.compact(full=True)
    schema = replace(table.schema, id=1, options={**table.schema.options, **VECTORS})
    (tmp_path / "t" / "schema" / "schema-1").write_bytes(encode_schema(schema))
    table = Table.open(table.path)
    assert table.to_arrow().column("v").to_pylist() == ["b"]
    write(table, ("+U", 1, 5, "late"), ("+U", 2, 4, "late"), ("+U", 3, 4, "late"))
    table.compact(full=full)
    assert table.to_arrow().column("v").to_pylist() == ["b"]
    write(table, ("+U", 1, 6, "tied"), ("+U", 3, 4, "late"))
    table.compact(full=full)
    assert table.to_arrow().sort_by("k").column("v").to_pylist() == ["tied", "b"]
    assert table.count() == 2
    assert not table.check().errors


@covers("MRG-22", "CMP-22", "DV-13")
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_full_compaction_forgets_deletions_if_the_table_says_so(tmp_path: Path, vectors: str) -> None:
    options = {"deletion-vectors.enabled": vectors, "num-sorted-run.compaction-trigger": "2"}
    options["sequence.field.retractions"] = "drop-in-full-compaction"
    table = made(tmp_path, options)
    write(table, ("+I", 1, 5, "a"), ("+I", 2, 5, "b"))
    write(table, ("-D", 1, 6, None))
    write(table, ("+U", 1, 4, "late"))
    assert table.to_arrow().column("v").to_pylist() == ["b"]
    table.compact(full=True)
    assert [(file["retraction_count"], file["deleted_row_count"]) for file in table.files().to_pylist()] == [
        (0, 0)
    ]
    assert table.compact(full=True) is None
    write(table, ("+U", 1, 4, "later"))
    assert table.to_arrow().sort_by("k").column("v").to_pylist() == ["later", "b"]


@covers("CMP-22", "DV-13", "DV-21", "MRG-21")
def test_a_full_compaction_leaves_alone_what_it_would_only_write_again(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    write(table, ("+I", 1, 5, "a"), ("-D", 2, 5, None))
    (file,) = table.files().to_pylist()
    assert (file["row_count"], file["retraction_count"], file["deleted_row_count"]) == (2, 1, 1)
    assert table.compact(full=True) is None
    assert table.count() == 1
    assert "filter by deletion vectors" in table.scan().explain()


@covers("MRG-23", "MRG-24", "MRG-11")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence.field": "x"}, "option sequence.field: column x does not exist; columns are k, s, v, n"),
        ({"sequence.field": "s,s"}, "option sequence.field: column s is named twice"),
        (
            {"sequence.field": "s,n"},
            "option sequence.field: column n is of type ARRAY<INT>; expected an atomic",
        ),
        (
            {"sequence.field": "s", "sequence.field.sort-order": "up"},
            "option sequence.field.sort-order='up' is not supported: expected ascending or descending",
        ),
        (
            {"sequence.field": "s", "sequence.field.retractions": "drop"},
            "option sequence.field.retractions='drop' is not supported: expected drop-in-full-compaction or keep",
        ),
        (
            {"sequence.field": "s", "merge-engine": "first-row"},
            "option merge-engine='first-row' is not supported: expected an engine that sequence.field works with",
        ),
        (
            {"sequence.field": "s", "merge-engine": "partial-update"},
            "option merge-engine='partial-update' is not supported: expected an engine that sequence.field works",
        ),
        (
            {"sequence.field": "s", "merge-engine": "aggregation"},
            "option fields.v.aggregate-function='last_non_null_value' is not supported: expected with sequence.fi",
        ),
        (
            {**SUMS, "fields.s.aggregate-function": "max"},
            "option fields.s.aggregate-function: expected not to be set together with sequence.field=s",
        ),
        (
            {**SUMS, "aggregation.remove-record-on-delete": "true"},
            "option aggregation.remove-record-on-delete='true' is not supported: expected sequence.field without",
        ),
    ],
)
def test_an_order_that_does_not_fit_is_refused_by_name(
    tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        Table.create(tmp_path / "t", "k INT, s INT, v INT, n ARRAY<INT>", primary_key="k", options=options)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert not any(one.is_file() for one in tmp_path.rglob("*"))


@covers("MRG-24")
def test_a_retraction_that_may_come_too_early_is_refused(tmp_path: Path) -> None:
    options = {**SUMS, "fields.v.aggregate-function": "max"}
    table = Table.create(tmp_path / "t", "k INT, s INT, v STRING", primary_key="k", options=options)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidRequestError, match=r"^option sequence\.field: .* set ignore-delete=true"):
        write(table, ("-D", 1, 5, None))
    assert sorted(tmp_path.rglob("*")) == before


@covers("MRG-25", "MRG-18", "STM-9")
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_statements_write_rows_that_are_the_newest(tmp_path: Path, vectors: str) -> None:
    table = made(tmp_path, {"deletion-vectors.enabled": vectors})
    table = Table.open(table.path)
    write(table, ("+I", 1, 5, "a"), ("+I", 2, 7, "b"), ("+I", 3, None, "c"))
    assert table.update({"v": "'new'"}, where="k <> 2") is not None
    assert table.delete(where="k = 2") is not None
    assert table.to_arrow().sort_by("k").column("v").to_pylist() == ["new", "new"]
    write(table, ("+U", 2, 6, "late"))
    assert table.count() == 2
    for refused, message in (
        (lambda: table.update({"s": 9}), "set: s is part of sequence.field"),
        (lambda: table.delete([{"k": 1}]), "a deletion by keys does not say how new it is"),
        (
            lambda: table.merge(changes(("+I", 1, 1, "x")), "k").when_matched_update_all(),
            "when_matched_update_all: s is part of sequence.field",
        ),
    ):
        with pytest.raises(InvalidRequestError, match=message):
            refused()
    assert table.count() == 2


@covers("DV-21")
def test_the_check_finds_a_retraction_that_readers_would_see(tmp_path: Path) -> None:
    table = made(tmp_path, VECTORS)
    write(table, ("+I", 1, 5, "a"), ("+I", 2, 5, "b"))
    assert not table.check().findings
    with mock.patch.object(KeptRetractions, "by_file", return_value=()):
        write(table, ("-D", 1, 6, None))
    (finding,) = table.check().findings
    assert (finding.clause, finding.what) == ("DV-21", "retractions")
    assert finding.expected == "1 deleted by the vector of the file"


@pytest.mark.spark
@covers("DV-21", "DV-22", "RD-1", "RD-3")
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_spark_sees_no_deletion_that_is_remembered(tmp_path: Path, vectors: str) -> None:
    made(tmp_path, {"deletion-vectors.enabled": vectors})
    table = Table.open(tmp_path / "t", spark=spark_session())
    write(table, ("+I", 1, 5, "a"), ("+I", 2, 5, "b"), ("-D", 3, 5, None))
    write(table, ("-D", 1, 6, None))
    late = changes(("+U", 1, 5, "late"), ("+I", 3, 4, "late"))
    staged = table.stage_write(late, ChangeKind(column="op"), write_only=True)
    assert staged is not None
    staged.commit(CommitId("late"))
    for fresh in (False, True):
        found = table.to_arrow(runner="spark", fresh=fresh)
        assert found.column("v").to_pylist() == ["b"]
    table.compact()
    assert table.to_arrow(runner="spark").column("v").to_pylist() == ["b"]
    assert table.count() == 1
