"""Stacks of many runs, in files of every format, drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pktable import CorruptFileError
from pktable.datafile.readers import AvroRows, OrcRows
from pktable_conform.judge.checks import CheckFailed
from pktable_spec.options import TableOptions

from model_tests.engines import stacks
from model_tests.engines.cases import Case

every_way = pytest.mark.parametrize(
    ("case", "vectors", "forgets"), stacks.WAYS, ids=lambda one: str(one).replace(" ", "_")
)


@every_way
def test_a_stack_of_runs_reads_as_plain_python_says(case: Case, vectors: bool, forgets: bool) -> None:
    stacks.draw(case, 1, 1, vectors=vectors, forgets=forgets)


def first_row_only(original: Callable[..., Iterator[tuple[int, pa.Table]]]) -> Callable[..., Any]:
    def tables(*arguments: Any, **named: Any) -> Iterator[tuple[int, pa.Table]]:
        for position, table in original(*arguments, **named):
            yield position, table.slice(0, 1)

    return tables


@pytest.mark.parametrize("form", [OrcRows, AvroRows])
def test_a_row_that_a_file_of_another_format_loses_is_noticed(
    form: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "tables", first_row_only(form.tables))
    case, vectors, forgets = stacks.WAYS[0]
    with pytest.raises((CheckFailed, CorruptFileError), match="expected"):
        stacks.draw(case, 1, 1, vectors=vectors, forgets=forgets)


def test_a_full_compaction_that_remembers_deletions_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableOptions, "full_compaction_forgets_deletions", property(lambda self: False))
    noticed = []
    for case, vectors, forgets in stacks.WAYS:
        if forgets:
            try:
                stacks.draw(case, 2, 1, vectors=vectors, forgets=True)
            except CheckFailed as error:
                noticed.append(error.check)
    assert "agrees" in noticed
