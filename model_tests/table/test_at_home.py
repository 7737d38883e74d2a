"""People of pandas, polars and pyarrow find head, len, a column by its name, and conditions of pyarrow."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError, Table
from pktable_spec.covers import covers

ROWS = [
    {"id": 1, "city": "Rome", "n": 1.5, "day": dt.date(2024, 1, 1)},
    {"id": 2, "city": None, "n": None, "day": None},
    {"id": 3, "city": "O'Fallon", "n": -2.0, "day": dt.date(2024, 3, 1)},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    found = Table.create(
        tmp_path_factory.mktemp("at-home"),
        "id BIGINT COMMENT 'the key', city STRING, n DOUBLE, day DATE",
        primary_key="id",
        options={"bucket": "2"},
        comment="cities",
    )
    found.upsert(ROWS)
    return found


@covers("RD-1")
def test_head_len_and_columns(table: Table, tmp_path: Path) -> None:
    assert table.head(2).num_rows == 2
    assert table.head().num_rows == len(table) == 3
    assert sorted(table["id"].to_pylist()) == [1, 2, 3]
    assert table[["city", "id"]].column_names == ["city", "id"]
    with pytest.raises(InvalidRequestError, match="nosuch"):
        table["nosuch"]
    with pytest.raises(TypeError):
        table[0]  # type: ignore[index]
    empty = Table.create(tmp_path, "id BIGINT", primary_key="id")
    assert len(empty) == 0
    assert empty


@covers("WH-24")
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (pc.field("id") > 1, [2, 3]),
        (pc.scalar(2) >= pc.field("id"), [1, 2]),
        (pc.field("city") == "O'Fallon", [3]),
        (pc.field("id").isin([1, 3]) & ~(pc.field("id") == 3), [1]),
        (pc.field("city").is_null() | (pc.field("n") < 0), [2, 3]),
        (pc.field("city").is_valid(), [1, 3]),
        (pc.field("day") != dt.date(2024, 1, 1), [3]),
        (~pc.field("n").isin([1.5]), [2, 3]),
    ],
)
def test_a_condition_of_pyarrow_means_what_it_says(
    table: Table, condition: pc.Expression, expected: list[int]
) -> None:
    assert sorted(table.to_arrow(where=condition)["id"].to_pylist()) == expected
    assert table.count(where=condition) == len(expected)


@covers("WH-24")
@pytest.mark.parametrize(
    "condition",
    [
        pc.field("id") > pc.field("n"),
        (pc.field("id") > 1) & (pc.utf8_upper(pc.field("city")) == "ROME"),
        pc.field("n") > float("nan"),
        pc.is_nan(pc.field("n")),
    ],
)
def test_an_expression_that_has_no_text_is_refused_whole(table: Table, condition: pc.Expression) -> None:
    with pytest.raises(InvalidRequestError, match="has no text here"):
        table.to_arrow(where=condition)


def of_polars() -> list[Any]:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    column, zone = polars.col, dt.timezone.utc
    return [
        column("id") > 1,
        polars.lit(2) >= column("id"),
        (column("s") == "O'Fallon") | ~(column("x") <= 2.5),
        column("s").is_null() & column("id").is_not_null(),
        column("s").eq_missing("a"),
        column("s").ne_missing("a"),
        column("id").is_in([1, 3]),
        ~column("s").is_in(["a", "b"]),
        *(column("id").is_between(1, 3, closed=closed) for closed in ("both", "left", "right", "none")),
        column("day") > dt.date(2024, 1, 1),
        column("at") >= dt.datetime(2024, 1, 1, 2),
        column("point") < dt.datetime(2024, 1, 1, 2, tzinfo=zone),
        column("m") == Decimal("1.50"),
        column("m") > Decimal("0.00"),
        column("b"),
        ~column("b"),
        column("x") > column("id"),
        column("s").str.starts_with("a"),
        column("s").str.ends_with("'Fallon"),
    ]


@covers("WH-24")
def test_a_condition_of_polars_keeps_the_rows_that_polars_keeps(tmp_path: Path) -> None:
    conditions = of_polars()
    import polars

    columns = "id BIGINT, s STRING, x DOUBLE, m DECIMAL(10, 2), b BOOLEAN, day DATE, at TIMESTAMP, point TIMESTAMP_LTZ"
    made = Table.create(tmp_path, columns, primary_key="id")
    zone, nan = dt.timezone.utc, float("nan")
    days = [dt.datetime(2024, 1, day, 2) for day in (1, 2, 3)]
    values = [
        (1, "a", 0.5, Decimal("1.50"), True, dt.date(2024, 1, 1), days[0], days[0].replace(tzinfo=zone)),
        (
            2,
            "O'Fallon",
            2.5,
            Decimal("0.00"),
            False,
            dt.date(2024, 1, 2),
            days[1],
            days[1].replace(tzinfo=zone),
        ),
        (3, None, nan, None, None, None, None, None),
        (
            4,
            "ab",
            9.0,
            Decimal("-1.00"),
            True,
            dt.date(2023, 1, 2),
            days[2],
            dt.datetime(2023, 1, 1, tzinfo=zone),
        ),
    ]
    made.upsert([dict(zip(made.columns, one, strict=True)) for one in values])
    frame = polars.from_arrow(made.to_arrow())
    assert isinstance(frame, polars.DataFrame)
    for one in conditions:
        assert sorted(made.to_arrow(where=one)["id"].to_pylist()) == sorted(
            frame.filter(one)["id"].to_list()
        ), one


@covers("WH-24")
def test_an_expression_of_polars_that_has_no_text_is_refused_whole(table: Table) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    column = polars.col
    refused = [
        (column("id") > 1) & (column("city").str.to_uppercase() == "ROME"),
        column("id") + 1 > 2,
        column("n") > float("nan"),
        column("id").is_in([1, None]),
        column("id").is_in([]),
        column("id") == polars.lit(None),
        polars.col("id", "n") > 1,
        column("id").cast(polars.String) == "1",
        column("id").rolling_sum(2) > 1,
    ]
    for one in refused:
        with pytest.raises(InvalidRequestError, match="has no text here"):
            table.to_arrow(where=one)
    with pytest.raises(InvalidRequestError, match="found a Series of polars"):
        table.to_arrow(where=polars.Series([True]))


def test_statements_take_a_condition_of_pyarrow(tmp_path: Path) -> None:
    changed = Table.create(tmp_path, "id BIGINT, n INT", primary_key="id")
    changed.upsert([{"id": i, "n": i} for i in range(4)])
    changed.update({"n": "0"}, where=pc.field("id") == 1)
    changed.delete(where=pc.field("id") > 2)
    changed.overwrite([{"id": 2, "n": 7}], where=pc.field("id") >= 2)
    assert sorted(map(_values, changed.to_arrow().to_pylist())) == [(0, 0), (1, 0), (2, 7)]


def _values(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def test_a_schema_is_shown_as_a_person_reads_it(table: Table) -> None:
    assert repr(table.schema).splitlines() == [
        "schema 0: cities",
        "  id BIGINT NOT NULL  -- the key",
        "  city STRING",
        "  n DOUBLE",
        "  day DATE",
        "primary key id",
        "bucket = 2",
    ]


@covers("WH-12")
def test_a_snapshot_that_never_was_has_no_effect_to_tell(table: Table) -> None:
    latest = table.snapshots()[-1].id
    assert table.effect(latest) is not None
    for never in (0, -1, latest + 1):
        with pytest.raises(SnapshotNotFoundError, match=str(never)):
            table.effect(never)


def test_a_table_says_how_its_rows_are_read(table: Table) -> None:
    with pytest.raises(TypeError, match=r"read it with to_arrow\(\), to_batches\(\), or scan"):
        list(table)


def test_a_scan_of_changes_shows_what_it_asks_for(table: Table) -> None:
    scan = table.changes(1, where="id > 1", columns=["id"])
    assert repr(scan) == f"<ChangeScan of {table.path}: start=1, where='id > 1', columns=['id']>"


@pytest.mark.parametrize(("bucket", "way"), [("-2", "get buckets by compact"), ("-1", "grow by themselves")])
def test_rescale_says_how_other_buckets_come(tmp_path: Path, bucket: str, way: str) -> None:
    made = Table.create(tmp_path, "id BIGINT", primary_key="id", options={"bucket": bucket})
    with pytest.raises(InvalidRequestError, match=f"bucket={bucket}; .*{way}"):
        made.rescale()


@covers("WH-61")
def test_an_expression_is_about_the_types_of_the_snapshot_that_is_read(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    made = Table.create(tmp_path, "id BIGINT, x FLOAT, n INT", primary_key="id", options={"bucket": "1"})
    made.upsert([{"id": 1, "x": 2.0**24, "n": 5}])
    old = made.snapshots()[-1].id
    made.alter(widen={"x": "DOUBLE"}, rename={"n": "was"}, add="n STRING")
    made.compact(full=True)
    condition = polars.col("x") == 2.0**24 + 1  # which a FLOAT cannot be
    ways: list[dict[str, Any]] = [{}, {"snapshot": old}]
    for how in ways:
        scan = made.scan(**how)
        theirs = scan.to_polars().filter(condition)["id"].to_list()
        assert made.to_arrow(where=condition, **how)["id"].to_pylist() == theirs == [1] * bool(how)
    earlier = made.scan(snapshot=old, where=polars.col("x") > 1)
    assert earlier.to_dataset().to_table(filter=pc.field("n") == 5)["id"].to_pylist() == [1]
    assert earlier.to_dataset().to_table(filter=pc.field("n") == 6).num_rows == 0
    assert made.count(snapshot=old, where=pc.field("n") == 5) == 1
    with pytest.raises(InvalidRequestError, match="expected text, found int"):
        made.scan(where=5)
    with pytest.raises(InvalidRequestError, match="expected text, found int"):
        made.changes(1, where=5)
