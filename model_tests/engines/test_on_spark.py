"""Tables of the merge engines on Spark: writes, compactions, reads and statements equal those in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.run.runner import Runner
from pktable_spec.covers import covers
from pktable_spec.vocabulary import RowKind

from model_tests.backends.spark_session import spark_session
from model_tests.engines.cases import CASES, Case
from model_tests.engines.schedules import changes_of, rows_of
from model_tests.engines.test_laws import Keyed, expected
from model_tests.histories.run import INDEPENDENT

pytestmark = pytest.mark.spark

KEYS = 3
NAMES = (
    "retractions",
    "removals",
    "partial-update with removals",
    "sequence groups",
    "sequence groups with removals",
    "first-row ignoring deletions",
    "deduplicate ignoring deletions",
)
ON_SPARK = [case for case in CASES if case.name in NAMES]
OPTIONS = {"num-sorted-run.compaction-trigger": "3", "bucket": "2"}


def spark_runner() -> Runner:
    from pktable.run.spark.runner import SparkRunner

    return SparkRunner(spark_session())


def frame(rows: pa.Table) -> Any:
    return spark_session().createDataFrame(rows)


class Both:
    """A table that Spark works on and its twin here, given the same changes. ``written``: by both, oldest first."""

    def __init__(self, path: Path, case: Case) -> None:
        options = {**case.options, **OPTIONS, "deletion-vectors.enabled": str(case.vectors).lower()}
        self.case, self.written = case, list[Keyed]()
        self.tables = [
            Table.create(path / name, case.ddl, primary_key=["k"], options=options, runner=runner)
            for name, runner in (("spark", spark_runner()), ("local", None))
        ]
        self.spark, self.local = self.tables

    def write(self, batch: list[Keyed]) -> None:
        rows = changes_of(self.case, batch)
        self.spark.write_changes(frame(rows), row_kind="op")
        self.local.write_changes(rows, row_kind="op")
        self.written += batch

    def agree(self) -> None:
        """Compare all reads of both with the meaning of what was written."""
        means = expected(self.case, self.written)
        for fresh in (False, True):
            found = [rows_of(table.to_arrow(fresh=fresh)) for table in self.tables]
            assert found == [means, means]
        column = next(iter(self.case.columns))
        some = [rows_of(table.to_arrow(columns=["k", column], where="k > 0")) for table in self.tables]
        assert some == [{key: {column: row[column]} for key, row in means.items() if key > 0}] * 2
        assert [table.count() for table in self.tables] == [len(means)] * 2

    def attempt(self, statement: Callable[[Table, bool], object], changes: list[Keyed]) -> None:
        """Execute a statement on both; ``changes`` are its effect unless both refuse it alike."""
        refused = []
        for table in self.tables:
            try:
                statement(table, table is self.spark)
            except InvalidRequestError as error:
                refused.append(str(error).partition(": ")[2])
        assert len(refused) in (0, 2)
        assert len(set(refused)) <= 1
        if not refused:
            self.written += changes


@covers("MRG-8", "MRG-9", "MRG-12", "MRG-13", "MRG-14", "MRG-17", "MRG-18", "DV-20", "RD-1", "RD-4")
@pytest.mark.parametrize("case", ON_SPARK, ids=str)
@settings(
    backend=INDEPENDENT,  # Hypothesis's own begins with the smallest records
    max_examples=1,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_an_engine_on_spark_does_what_it_does_here(
    case: Case, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    both = Both(tmp_path_factory.mktemp("t"), case)
    for number in range(3):
        both.write(data.draw(case.records(keys=KEYS, most=8), label="batch"))
        if number == 1:
            for table in both.tables:
                table.compact(full=True)
    both.agree()
    column = next(iter(case.columns))
    means = expected(case, both.written)
    both.attempt(
        lambda table, spark: table.update({column: "NULL"}, where="k = 1"),
        [(1, RowKind.UPDATE_AFTER, {**means[1], column: None})] if 1 in means else [],
    )
    keys = pa.table({"k": pa.array([0], pa.int32())})
    gone = dict.fromkeys(case.columns)
    both.attempt(
        lambda table, spark: table.delete(frame(keys) if spark else keys), [(0, RowKind.DELETE, gone)]
    )
    new = changes_of(case, data.draw(case.records(keys=1, most=1).map(lambda drawn: [(9, *drawn[0][1:])])))
    row = {name: new.column(name).to_pylist()[0] for name in case.columns}
    both.attempt(
        lambda table, spark: (
            table.merge(frame(new.drop_columns("op")) if spark else new.drop_columns("op"), on="k")
            .when_not_matched_insert_all()
            .execute()
        ),
        [(9, RowKind.INSERT, row)],
    )
    both.agree()
