"""Partitions whose values say a time that is long ago, and their expiry."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.catalog.partition_times import PartitionTimes
from pktable_spec.covers import covers

from model_tests.commit.hooks import Hooked

OLD, NEW = "2024-02-28", "2999-01-01"


def made(path: Path, *, keyed: bool = True, kind: str = "STRING", **options: str) -> Table:
    return Table.create(
        path,
        f"id INT, day {kind}, hour STRING",
        primary_key=["id", "day", "hour"] if keyed else None,
        partition_by=["day", "hour"],
        options=options,
    )


def rows(*given: tuple[Any, str | None]) -> list[dict[str, Any]]:
    return [{"id": at, "day": day, "hour": hour} for at, (day, hour) in enumerate(given)]


def days(table: Table) -> list[Any]:
    return sorted(table.to_arrow()["day"].to_pylist(), key=str)


@covers("STM-17")
@pytest.mark.parametrize("keyed", [True, False])
def test_partitions_go_when_their_time_is_long_ago(tmp_path: Path, keyed: bool) -> None:
    table = made(tmp_path, keyed=keyed)
    put: Callable[[Any], Any] = table.upsert if keyed else table.append
    put(rows((OLD, "1"), (OLD, "2"), (NEW, "1"), ("soon", "1"), ("2024-02-30", "1")))
    expected = [{"day": OLD, "hour": "1"}, {"day": OLD, "hour": "2"}]
    assert table.expire_partitions("7 d", dry_run=True) == expected
    assert table.expire_partitions("99999 d") == table.expire_partitions(timedelta.max) == []
    assert len(days(table)) == 5
    before = len(table.snapshots())
    assert table.expire_partitions("7 d", max_expires=1) == expected[:1]
    assert [one.commit_kind for one in table.snapshots()[before:]] == ["OVERWRITE"]
    assert table.expire_partitions(timedelta(days=7)) == expected[1:]
    assert table.expire_partitions("7 d") == []
    assert len(table.snapshots()) == before + 2
    assert days(table) == ["2024-02-30", NEW, "soon"]
    assert table.check().errors == 0


@covers("STM-17")
def test_options_of_the_table_say_what_the_arguments_leave_out(tmp_path: Path) -> None:
    options = {
        "partition.expiration-time": "7 d",
        "partition.timestamp-pattern": "$day $hour",
        "partition.timestamp-formatter": "yyyyMMdd H",
        "partition.expiration-max-num": "2",
    }
    table = made(tmp_path, keyed=False, **options)
    table.append(rows(("20240228", "1"), ("20240228", "12"), ("20240229", "3"), ("20240228", None)))
    assert [one["hour"] for one in table.expire_partitions()] == ["1", "12"]
    assert table.expire_partitions(timestamp_pattern="$day", timestamp_formatter="yyyyMMdd") == [
        {"day": "20240228", "hour": "null"},
        {"day": "20240229", "hour": "3"},
    ]
    assert table.count() == 0


@covers("STM-17")
@pytest.mark.parametrize(
    ("kind", "old"),
    [
        ("DATE", date(2024, 2, 28)),
        ("TIMESTAMP(3)", datetime(2024, 2, 28, 12)),
        ("TIMESTAMP_LTZ(6)", datetime(2024, 2, 28, 12, tzinfo=timezone.utc)),
        ("TIMESTAMP_LTZ(9)", datetime(2024, 2, 28, 12, tzinfo=timezone.utc)),
    ],
)
def test_columns_of_times_say_them_as_they_are(tmp_path: Path, kind: str, old: Any) -> None:
    table = made(tmp_path, keyed=False, kind=kind, **{"partition.timestamp-formatter": "yyyyMMdd"})
    table.append(rows((old, "1"), (old.replace(year=2200), "1"), (None, "1")))
    is_point = isinstance(old, datetime) and old.tzinfo is not None
    local = old.astimezone().replace(tzinfo=None) if is_point else old
    assert table.expire_partitions("7 d") == [{"day": str(local), "hour": "1"}]
    assert len(days(table)) == 2


@covers("STM-17")
def test_a_date_beyond_those_of_python_keeps_its_partition(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=False, kind="DATE")
    late = pa.array([5_000_000], pa.int32()).cast(pa.date32())
    table.append(pa.table({"id": pa.array([1], pa.int32()), "day": late, "hour": ["1"]}))
    table.append(rows((date(2024, 2, 28), "1")))
    assert len(table.expire_partitions("7 d")) == table.count() == 1


@covers("STM-17")
def test_the_oldest_go_first_whatever_their_text(tmp_path: Path) -> None:
    table = made(tmp_path, keyed=False)
    table.append(rows(("2024-10-1", "1"), ("2024-9-1", "1"), ("2024-11-1", "1")))
    assert [one["day"] for one in table.expire_partitions("7 d", max_expires=2)] == ["2024-9-1", "2024-10-1"]


@covers("STM-17")
def test_what_others_write_meanwhile_is_looked_at_again(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.upsert(rows((OLD, "1"), (NEW, "1")))

    def meanwhile(put: Callable[[], bool]) -> bool:
        Table.open(tmp_path).upsert(rows((OLD, "1"), (OLD, "3"), (NEW, "2")))
        return put()

    expiring = Table.open(tmp_path, store=Hooked("put_if_absent", "/snapshot-2", meanwhile))
    assert expiring.expire_partitions("7 d") == [{"day": OLD, "hour": "1"}, {"day": OLD, "hour": "3"}]
    assert days(table) == [NEW, NEW]


@covers("STM-17")
@pytest.mark.parametrize(
    ("formatter", "text", "expected"),
    [
        (None, "2024-2-3", datetime(2024, 2, 3)),
        (None, "2024-02-03 4:05:06.123456789", datetime(2024, 2, 3, 4, 5, 6, 123456)),
        (None, "2024-02-03T04:05:06", None),
        (None, "2024-02-03 04", None),
        (None, "0000-02-03", None),
        ("yyyyMMddHH", "2024020304", datetime(2024, 2, 3, 4)),
        ("uuuu/M/d", "2024/12/3", datetime(2024, 12, 3)),
        ("'dt='yyyy''MM.dd", "dt=2024'02.03", datetime(2024, 2, 3)),
        ("yyyy.MM.dd HH:mm:ss.SSS", "2024.02.03 04:05:06.078", datetime(2024, 2, 3, 4, 5, 6, 78000)),
        ("yyyy.MM.dd", "2024x02x03", None),
    ],
)
def test_a_formatter_is_read_as_java_reads_it(
    tmp_path: Path, formatter: str | None, text: str, expected: datetime | None
) -> None:
    times = PartitionTimes.of(made(tmp_path).schema, None, formatter)
    assert times.time({"day": text, "hour": "1"}) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "expected expiration_time, or the option partition.expiration-time; found neither"),
        ({"expiration_time": "soon"}, "expiration_time: expected a timedelta or a time"),
        (
            {"expiration_time": "1 d", "expire_strategy": "update-time"},
            "='update-time': expected values-time",
        ),
        ({"expiration_time": "1 d", "max_expires": 0}, "max_expires: expected 1 or more, found 0"),
        ({"expiration_time": "1 d", "dry_run": "no"}, "dry_run: expected True or False"),
        ({"expiration_time": "1 d", "timestamp_formatter": "yyyyMM"}, "expected a year, a month and a day"),
        ({"expiration_time": "1 d", "timestamp_formatter": "yyyy-MMM-dd"}, "'MMM' is not supported"),
        ({"expiration_time": "1 d", "timestamp_formatter": "yyyyMMddTHH"}, "'T' is not supported"),
        ({"expiration_time": "1 d", "timestamp_formatter": "yyyyMMddyyyy"}, "'yyyy' is not supported"),
        ({"expiration_time": "1 d", "timestamp_formatter": "yyyy-MM-dd[ HH]"}, r"'\[' is not supported"),
        ({"expiration_time": "1 d", "timestamp_formatter": "yyyy-MM-dd'T"}, '"\'" is not supported'),
        (
            {"expiration_time": "1 d", "timestamp_formatter": 8},
            "timestamp-formatter: expected a text, found 8",
        ),
        (
            {"expiration_time": "1 d", "timestamp_pattern": "$dya"},
            r"\$dya is no partition column; those are day, hour",
        ),
    ],
)
def test_arguments_that_say_no_time_are_refused(
    tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    table = made(tmp_path)
    table.upsert(rows((OLD, "1")))
    with pytest.raises(InvalidRequestError, match=message):
        table.expire_partitions(**arguments)
    assert days(table) == [OLD]


def test_a_pattern_names_columns_of_any_name(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int32()), ("event-day", pa.string())])
    table = Table.create(tmp_path, columns, primary_key=None, partition_by="event-day")
    table.append([{"id": 1, "event-day": OLD}])
    assert table.expire_partitions("7 d", timestamp_pattern="$event-day 00:00:00") == [{"event-day": OLD}]


def test_a_table_without_partitions_has_none_to_expire(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "plain", "id INT", primary_key="id")
    with pytest.raises(InvalidRequestError, match="the table has no partitions"):
        table.expire_partitions("1 d")
    parted = made(tmp_path / "parts")
    parted.alter(set_options={"partition.expiration-max-num": "many"})
    with pytest.raises(InvalidRequestError, match="max-num='many': expected an integer from 1"):
        parted.expire_partitions("1 d")
