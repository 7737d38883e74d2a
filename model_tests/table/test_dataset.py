"""A read as an Arrow dataset gives what Arrow makes of all rows, and reads no more than the filter asks for."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import InvalidRequestError, Table
from pktable.bucket import read
from pktable.bucket.reader import DataReader
from pktable.predicate import from_arrow
from pktable_spec.covers import covers

from model_tests.seams.memory_store import MemoryFileIO

UTC = datetime.timezone.utc
VALUES: dict[str, list[Any]] = {
    "k": [1, 2, 3, 4, 5, 6],
    "i": [1, -5, None, 2**31 - 1, 0, 7],
    "v": ["a", "", None, "o'x", "ä\\", "b"],
    "f": [0.5, -0.0, None, float("nan"), float("inf"), 1e300],
    "b": [True, False, None, True, False, None],
    "d": [datetime.date(2020, 1, day) for day in (1, 2, 3, 4, 5)] + [None],
    "t": [datetime.datetime(2020, 1, day, 3, 4, 5, 6) for day in (1, 2, 3, 4, 5)] + [None],
    "z": [datetime.datetime(2020, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4, 5)] + [None],
    "m": [Decimal("1.50"), Decimal("-2.25"), None, Decimal("0.00"), Decimal("99.99"), Decimal("1.51")],
    "by": [b"a", b"", None, b"\xff", b"b", b"c"],
}
COLUMNS = (
    "k INT, i INT, v STRING, f DOUBLE, b BOOLEAN, d DATE, t TIMESTAMP_NTZ(6), z TIMESTAMP_LTZ(6), "
    "m DECIMAL(10,2), by BYTES"
)
COMPARE: list[Callable[[Any, Any], pc.Expression]] = [
    lambda left, right: left == right,
    lambda left, right: left != right,
    lambda left, right: left < right,
    lambda left, right: left <= right,
    lambda left, right: left > right,
    lambda left, right: left >= right,
]


def made(options: dict[str, str]) -> Table:
    """Return a table whose rows lie in two files, some of them deleted."""
    table = Table.create("t", COLUMNS, primary_key="k", options=options, store=MemoryFileIO())
    rows = pa.table(VALUES, table.schema.arrow_schema)
    table.upsert(
        pa.concat_tables([rows.slice(3), rows.slice(3).set_column(0, rows.schema[0], rows["k"][:3])])
    )
    table.upsert(rows.slice(0, 3))
    return table


@pytest.fixture(scope="module", params=[{"deletion-vectors.enabled": "true"}, {}], ids=["vectors", "merged"])
def table(request: pytest.FixtureRequest) -> Table:
    return made(request.param)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> pc.Expression:
    """Draw a filter as engines make them."""
    name = draw(st.sampled_from(sorted(VALUES)))
    field, value = pc.field(name), st.sampled_from([one for one in VALUES[name] if one is not None])
    kinds = ["compare", "mirrored", "in", "null", "valid", "other"] + ["both", "either", "not"] * (depth > 0)
    match draw(st.sampled_from(kinds)):
        case "compare":
            return draw(st.sampled_from(COMPARE))(field, draw(value))
        case "mirrored":
            return draw(st.sampled_from(COMPARE))(pc.scalar(draw(value)), field)
        case "in":
            type_ = pa.table(VALUES)[name].type
            return field.isin(pa.array(draw(st.lists(st.sampled_from(VALUES[name]), max_size=3)), type_))
        case "null":
            return field.is_null(nan_is_null=draw(st.booleans()))
        case "valid":
            return field.is_valid()
        case "other":
            return pc.greater(pc.add(pc.field("k"), pc.field("i").cast("int64")), 3)
        case "both":
            return draw(expressions(depth - 1)) & draw(expressions(depth - 1))
        case "either":
            return draw(expressions(depth - 1)) | draw(expressions(depth - 1))
        case _:
            return ~draw(expressions(depth - 1))


@covers("RD-6", "RD-8", "RD-16")
@settings(max_examples=60)
@given(expressions(), st.lists(st.sampled_from(sorted(VALUES)), unique=True, min_size=1))
def test_a_dataset_gives_what_arrow_makes_of_all_rows(
    table: Table, wanted: pc.Expression, columns: list[str]
) -> None:
    rows = pa.table(VALUES, table.schema.arrow_schema)
    found = table.to_dataset().to_table(columns=columns, filter=wanted)
    expected = ds.dataset(rows).to_table(columns=columns, filter=wanted)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert table.to_dataset().count_rows(wanted) == expected.num_rows


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (pc.field("k") > 5, "`k` > 5"),
        (pc.scalar(5) > pc.field("k"), "`k` < 5"),
        ((pc.field("v") == "o'x") & (pc.field("v") != "y"), "(`v` = 'o''x')"),
        ((pc.field("k") == 1) | (pc.field("v") != "y"), None),
        ((pc.field("k") == 1) | (pc.field("v") == "y"), "(`k` = 1 OR `v` = 'y')"),
        (pc.field("k").isin([1]), "(`k` IS NOT NULL AND `k` IN (1))"),
        (pc.field("k").isin([1, None]), "(`k` IN (1) OR `k` IS NULL)"),
        (~pc.field("d").is_null(), "`d` IS NOT NULL"),
        (~(pc.field("k") == 1), None),
        (pc.field("f").is_null(nan_is_null=True), None),
        (pc.field("f") > 1.5, "`f` > 1.5D"),
        (pc.field("f") > float("nan"), None),
        (pc.field("v") == "\\", None),
        (pc.field("d") == datetime.date(2020, 1, 2), "`d` = DATE '2020-01-02'"),
        (pc.field("t") < VALUES["t"][0], "`t` < TIMESTAMP_NTZ '2020-01-01 03:04:05.000006'"),
        (pc.field("z") < VALUES["z"][0], "`z` < TIMESTAMP '2020-01-01 00:00:00Z'"),
        (pc.field("m") >= Decimal("1.50"), "`m` >= 1.50"),
        (pc.field("b"), "`b` = TRUE"),
        (pc.field("k", "x") == 1, None),
        (pc.field("k").cast("int64") == 1, None),
    ],
    ids=str,
)
def test_what_a_filter_asks_for_is_said_as_a_condition(asked: pc.Expression, said: str | None) -> None:
    assert from_arrow.necessary(from_arrow.parts_of(asked), ()) == said
    if said and "k`" not in said:
        made({}).scan(where=said).count()  # it is one that is understood


@covers("RD-8")
def test_a_filter_opens_only_the_files_that_may_have_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(tmp_path / "t", "k INT, v INT", primary_key=None)
    for start in (0, 100, 200):
        table.append([{"k": start + at, "v": at} for at in range(10)])
    opened: list[str] = []
    reader = DataReader

    def observed(context: Any, place: Any, meta: Any) -> DataReader:
        opened.append(meta.file_name)
        return reader(context, place, meta)

    monkeypatch.setattr(read, "DataReader", observed)
    queries: list[Callable[[Any], list[Any]]] = [
        lambda rows: pytest.importorskip("duckdb").sql("SELECT v FROM rows WHERE k = 105").fetchall(),
        lambda rows: pytest.importorskip("polars").scan_pyarrow_dataset(rows).filter(k=105).collect().rows(),
        lambda rows: rows.to_table(filter=pc.field("k") == 105).to_pylist(),
    ]
    for query in queries:
        opened.clear()
        assert len(query(table.to_dataset())) == 1
        assert len(set(opened)) == 1


def test_a_dataset_pickles_counts_and_knows_its_limit(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", "k INT, v STRING", primary_key="k")
    table.upsert([{"k": at, "v": str(at)} for at in range(10)])
    rows = pickle.loads(pickle.dumps(table.to_dataset(where="k > 3", columns=["v"])))
    assert rows.schema.names == ["v"]
    assert rows.count_rows() == 6
    assert rows.head(2).num_rows == 2
    assert rows.to_table(columns={"n": pc.utf8_length(pc.field("v"))})["n"].to_pylist() == [1] * 6
    few = table.to_dataset(limit=3)
    assert few.count_rows(pc.field("k") >= 0) == 3
    assert few.to_table(filter=pc.field("k") == 9).num_rows == 0


def test_what_a_dataset_of_files_has_is_refused(tmp_path: Path) -> None:
    rows = Table.create(tmp_path / "t", "k INT", primary_key="k").to_dataset()
    with pytest.raises(InvalidRequestError, match="no fragments"):
        rows.get_fragments()
    with pytest.raises(InvalidRequestError, match="columns: expected some of k, found x"):
        rows.to_table(columns=["x"])
