"""Wall times and points in time, as Java's clocks (and so Spark) and Python's `zoneinfo` have them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pktable import InvalidRequestError
from pktable.format.types import Field, parse_type, to_arrow
from pktable.spark_source.writer import with_times_of
from pktable_spec.covers import covers

ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC")
NEAR_CHANGES = [
    datetime(2024, 3, 10, 2),
    datetime(2024, 11, 3, 1),
    datetime(2024, 3, 31, 2),
    datetime(2024, 4, 7, 1),
    datetime(1969, 12, 31, 23),
]
MOMENTS = [
    near + timedelta(minutes=minutes, microseconds=1)
    for near in NEAR_CHANGES
    for minutes in range(-120, 241, 15)
]


def cast(moment: datetime | None, root: str, zone: str | None) -> datetime | None:
    kind = pa.timestamp("us", "UTC" if moment is not None and moment.tzinfo else None)
    rows = pa.table({"at": pa.array([moment, None], kind)})
    found = with_times_of(rows, [Field(0, "at", parse_type(root))], zone).column("at")
    assert found[1].as_py() is None
    value: datetime | None = found[0].as_py()
    return value


@covers("TBL-11")
@pytest.mark.parametrize("zone", ZONES)
def test_a_wall_time_is_a_point_in_the_zone(zone: str) -> None:
    for moment in MOMENTS:
        expected = moment.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)  # fold=0: before the change
        assert cast(moment, "TIMESTAMP_LTZ(6)", zone) == expected
        assert cast(expected, "TIMESTAMP(6)", zone) == expected.astimezone(ZoneInfo(zone)).replace(
            tzinfo=None
        )


def test_times_of_the_right_kind_stay_as_they_are() -> None:
    moment = datetime(2024, 3, 10, 2, 30)
    assert cast(moment, "TIMESTAMP(6)", None) == moment


def test_a_zone_is_needed() -> None:
    with pytest.raises(
        InvalidRequestError, match=r"column at: expected TIMESTAMP_LTZ, .* spark.sql.session.timeZone"
    ):
        cast(datetime(2024, 1, 1), "TIMESTAMP_LTZ(6)", None)
    with pytest.raises(InvalidRequestError, match=r"column at: .*Nowhere.*; cast the column"):
        cast(datetime(2024, 1, 1), "TIMESTAMP_LTZ(6)", "Nowhere/Else")


@pytest.mark.parametrize("wanted", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"])
@pytest.mark.parametrize("around", ["ARRAY<{}>", "MAP<{}, INT>", "MAP<INT, {}>", "ROW<x INT, a ARRAY<{}>>"])
def test_a_time_of_the_other_kind_in_a_nested_column_is_refused(around: str, wanted: str) -> None:
    """Its values would be those of UTC, where `Table.upsert` has those of the session's zone."""
    other = "TIMESTAMP(6)" if wanted == "TIMESTAMP_LTZ(6)" else "TIMESTAMP_LTZ(6)"
    types = {kind: parse_type(around.format(kind)) for kind in (wanted, other)}
    given = {kind: pa.table({"n": pa.array([], to_arrow(of))}) for kind, of in types.items()}
    column = Field(0, "n", types[wanted])
    assert with_times_of(given[wanted], [column], "Asia/Tokyo") is given[wanted]
    with pytest.raises(
        InvalidRequestError, match=r"column n: expected .* found the other kind of time in it"
    ):
        with_times_of(given[other], [column], "Asia/Tokyo")
