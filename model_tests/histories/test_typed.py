"""Tables whose columns are of every type, drawn."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pktable import CommitId, CorruptFileError, Table
from pktable.catalog import read_plan
from pktable.datafile.readers import AvroRows, OrcRows
from pktable.ingest.changes import ChangeKind
from pktable_conform.judge.checks import CheckFailed
from pktable_spec.vocabulary import RowKind

from model_tests.histories import typed, typed_conditions
from model_tests.predicate.conditions import Text


def test_tables_of_every_type_have_the_rows_of_a_dict() -> None:
    """A few; `make verify` draws many."""
    typed.draw(4, seed=1)


def test_a_handle_from_before_text_became_wider_reads_it_with_the_spaces_of_its_type(tmp_path: Path) -> None:
    kinds = {"a": "INT", "v": "CHAR(3)"}
    table = Table.create(tmp_path / "t", kinds, primary_key="a", options={"deletion-vectors.enabled": "true"})
    one = typed.TypedTable(table, kinds, ["a"], random.Random(1))
    rows = [{"a": key, "v": value} for key, value in enumerate(["a", "ab", "abc", None])]
    one.write(rows, deletes=False)
    one.change_schema(rows[1:])
    one.compare()


@pytest.mark.parametrize("form", [OrcRows, AvroRows])
def test_rows_that_a_file_of_another_format_loses_are_noticed(
    form: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "tables", lambda *_, **named: iter(()))
    with pytest.raises((CheckFailed, CorruptFileError), match="expected"):
        typed.draw(25, seed=1)


def test_a_row_that_is_not_expected_is_noticed(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", dict.fromkeys("abv", "INT"), primary_key="a")
    table.upsert(pa.table({name: [1] for name in "abv"}))
    typed.rows_agree(table, [{"a": 1, "b": 1, "v": 1}], list("abv"))
    with pytest.raises(CheckFailed, match="expected"):
        typed.rows_agree(table, [{"a": 1, "b": 1, "v": 2}], list("abv"))


KINDS = {"a": "INT", "v": "VARCHAR(20)"}
ROWS: list[dict[str, Any]] = [{"a": 1, "v": "x"}, {"a": 2, "v": None}, {"a": 3, "v": "y"}]


def drawn(form: int) -> typed_conditions.Drawn:
    return next(
        found
        for seed in range(10_000)
        if (
            found := typed_conditions.condition(KINDS, {"a": [1, 2, 3], "v": ["x", "y"]}, random.Random(seed))
        )
        and FORMS[form] in found.text.sql
    )


FORMS = ("LIKE", " IN (", "BETWEEN", "NOT (", "IS NULL", " OR ", " AND ", "<=>", ", NULL)")


@pytest.mark.parametrize("form", range(len(FORMS)), ids=FORMS)
def test_each_form_of_condition_is_drawn_and_a_missing_row_is_noticed(tmp_path: Path, form: int) -> None:
    table = Table.create(tmp_path / "t", KINDS, primary_key="a", options={"deletion-vectors.enabled": "true"})
    table.upsert(pa.Table.from_pylist(ROWS, schema=table.schema.arrow_schema))
    one = drawn(form)
    typed.condition_agrees(table, one, ROWS, ["a", "v"], fresh=False)
    more = [row for row in ROWS if one.text.of(row) is not True]
    wrong = typed_conditions.Drawn(Text(one.text.sql, lambda row: one.text.of(row) is not True))
    with pytest.raises(CheckFailed, match="expected"):
        typed.condition_agrees(table, wrong, [*ROWS, *more, {"a": 4, "v": "zzzz"}], ["a", "v"], fresh=True)


def test_a_file_that_is_opened_for_nothing_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(tmp_path / "t", KINDS, primary_key="a", options={"deletion-vectors.enabled": "true"})
    table.upsert(pa.Table.from_pylist(ROWS, schema=table.schema.arrow_schema))
    beyond = typed_conditions.Comparison("v", ">", "y")
    one = typed_conditions.Drawn(Text("v > 'y'", lambda row: None), beyond)
    typed.files_are_ruled_out(table, one, KINDS)
    monkeypatch.setattr(read_plan, "may_match", lambda _, table, places: np.ones(places, bool))
    with pytest.raises(CheckFailed, match="opens"):
        typed.files_are_ruled_out(table, one, KINDS)


def test_a_full_compaction_that_does_not_come_is_noticed(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", KINDS, primary_key="a", options={typed.DELTA_COMMITS: "2"})
    rows = pa.Table.from_pylist(ROWS, schema=table.schema.arrow_schema)
    for _ in range(3):
        table.upsert(rows)
        typed.full_compactions_come_in_time(table)
    change = ChangeKind(RowKind.INSERT)
    for _ in range(2):
        staged = table.stage_write(rows, change, write_only=True)
        assert staged is not None
        staged.commit(CommitId.new())
    with pytest.raises(CheckFailed, match="3 commits have followed"):
        typed.full_compactions_come_in_time(table)
