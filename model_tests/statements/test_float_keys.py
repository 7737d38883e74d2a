"""Statements on keys of floats: SQL finds the zeros equal and keys do not, as all NaN are one key."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.statements.plan import MOST_VALUES
from pktable_spec.covers import covers

from model_tests.backends.spark_session import spark_session

HERE_AND_ON_SPARK = pytest.mark.parametrize(
    "spark", [pytest.param(True, marks=pytest.mark.spark), False], ids=["spark", "here"]
)
COLUMNS, KEY = "k DOUBLE, j FLOAT, v INT", ["k", "j"]
SCHEMA = pa.schema({"k": pa.float64(), "j": pa.float32(), "v": pa.int32()})
ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, -0.0, math.nan]), st.sampled_from([-0.0, -math.nan]), st.integers(0, 2)),
    max_size=3,
)


def rows_of(*rows: tuple[float, float, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def by_key(table: pa.Table) -> dict[tuple[str, ...], int]:
    """The values by key; as text the zeros differ, and every NaN is one."""
    return {(str(row["k"]), str(row["j"])): row["v"] for row in table.to_pylist()}


def table_of(path: Path, rows: pa.Table, *, spark: bool) -> Table:
    session: Any = spark_session() if spark else None
    table = Table.create(
        path, COLUMNS, primary_key=KEY, options={"deletion-vectors.enabled": "true"}, spark=session
    )
    table.upsert(rows)
    return Table.open(path, spark=session, runner="spark" if spark else "local")


@covers("STM-5")
def test_a_merge_finds_a_nan_among_very_many_values(tmp_path: Path) -> None:
    table = Table.create(tmp_path, "f DOUBLE, v INT", primary_key=None)
    table.append([{"f": math.nan, "v": 0}])
    source = pa.table({"f": [*map(float, range(MOST_VALUES)), math.nan]})
    table.merge(source, on="f").when_matched_update({"v": "1"}).execute()
    assert table.to_arrow()["v"].to_pylist() == [1]


@covers("STM-10", "MRG-7")
@settings(max_examples=40)
@given(ROWS, ROWS)
def test_an_overwrite_leaves_what_does_not_satisfy_it_and_what_is_given(
    tmp_path_factory: pytest.TempPathFactory,
    stored: list[tuple[float, float, int]],
    given_rows: list[tuple[float, float, int]],
) -> None:
    old, new = rows_of(*stored), rows_of(*(row for row in given_rows if row[2] < 2))
    table = table_of(tmp_path_factory.mktemp("floats") / "t", old, spark=False)
    before = by_key(old)
    if len(by_key(new)) < new.num_rows:
        with pytest.raises(InvalidRequestError, match="several source rows change the row with k = "):
            table.overwrite(new, where="v < 2")
        assert by_key(table.to_arrow(fresh=True)) == before
        return
    table.overwrite(new, where="v < 2")
    found = table.to_arrow(fresh=True)
    assert by_key(found) == {**{key: v for key, v in before.items() if v >= 2}, **by_key(new)}
    assert found.num_rows == len(by_key(found))


@covers("STM-10", "STM-3", "MRG-7")
@HERE_AND_ON_SPARK
def test_an_overwrite_tells_the_zeros_apart(tmp_path: Path, spark: bool) -> None:
    kept = (0.0, 1.0, 9)
    table = table_of(
        tmp_path / "t", rows_of((0.0, 0.0, 1), (-0.0, math.nan, 1), (math.nan, 2.0, 1), kept), spark=spark
    )
    new = [(-0.0, 0.0, 5), (0.0, math.nan, 5), (-math.nan, 2.0, 5), (-0.0, -0.0, 6)]
    table.overwrite(rows_of(*new), where="v < 9")
    found = table.to_arrow(fresh=True)
    assert found.num_rows == len(new) + 1
    assert by_key(found) == by_key(rows_of(*new, kept))
    with pytest.raises(InvalidRequestError, match="several source rows change the row with k = "):
        table.overwrite(rows_of((math.nan, 3.0, 1), (-math.nan, 3.0, 1)), where="v < 9")


@covers("STM-12", "STM-3", "STM-8", "MRG-7")
@HERE_AND_ON_SPARK
@pytest.mark.parametrize("on", [["k"], "source.k = target.k"], ids=["names", "condition"])
def test_a_join_compares_as_sql_and_the_keys_that_come_of_it_do_not(
    tmp_path: Path, spark: bool, on: Any
) -> None:
    table = table_of(tmp_path / "t", rows_of((0.0, 1.0, 1), (-0.0, 1.0, 2), (math.nan, 1.0, 3)), spark=spark)
    source = pa.table({"k": [-0.0, -math.nan], "w": pa.array([7, 8], pa.int32())})
    table.merge(source, on=on).when_matched_update({"v": "source.w"}).execute()
    assert by_key(table.to_arrow()) == by_key(rows_of((0.0, 1.0, 7), (-0.0, 1.0, 7), (math.nan, 1.0, 8)))
    builder = table.merge(rows_of((0.0, 0.0, 1), (-0.0, 0.0, 2)), on="j").when_not_matched_insert_all()
    builder.when_not_matched_by_source_delete("v = 8").execute()
    assert by_key(table.to_arrow()) == by_key(
        rows_of((0.0, 1.0, 7), (-0.0, 1.0, 7), (0.0, 0.0, 1), (-0.0, 0.0, 2))
    )
