"""Tags that say for how long they are kept, and the expiry that deletes them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pktable import CorruptFileError, InvalidRequestError, Table
from pktable.catalog.holds import BRANCH, new_hold
from pktable.catalog.tag_times import TagTime, iso_text
from pktable_spec.covers import covers

from model_tests.commit.hooks import Hooked

HOUR = 3_600_000


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(tmp_path, "id INT", primary_key="id", options={"bucket": "1"})
    table.upsert([{"id": 1}])
    return table


@pytest.fixture(autouse=True)
def zone() -> Iterator[None]:
    yield
    time.tzset()


def stored(table: Table, tag: str) -> dict[str, Any]:
    return dict(json.loads(Path(table.path, "tag", f"tag-{tag}").read_text()))


def later(monkeypatch: pytest.MonkeyPatch, millis: int) -> None:
    now = time.time_ns() // 1_000_000 + millis
    monkeypatch.setattr("pktable.table_upkeep.now_millis", lambda: now)


@covers("CMT-32")
@pytest.mark.parametrize("given", ["90 min", timedelta(minutes=90)])
def test_a_tag_says_for_how_long_it_is_kept(table: Table, given: str | timedelta) -> None:
    before = datetime.now()
    table.create_tag("one", time_retained=given)
    table.rename_tag("one", "two")
    found = stored(table, "two")
    assert found.pop("pktable.crc32")
    time = TagTime.of(json.dumps(found).encode(), "tag")
    assert time.created is not None
    assert before <= time.created + timedelta(milliseconds=1)
    assert len(found.pop("tagCreateTime")) == 7
    assert found.pop("tagTimeRetained") == 5400.0
    snapshot = json.loads(Path(table.path, "snapshot", "snapshot-1").read_text())
    assert found == {name: value for name, value in snapshot.items() if name != "pktable.crc32"}
    assert table.metadata("tags")["time_retained"].to_pylist() == ["PT1H30M"]
    assert table.to_arrow(tag="two").num_rows == 1
    assert table.check().findings == []


@covers("CMT-70")
def test_a_tag_goes_when_its_time_is_over(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.create_tag("short", time_retained="1 h")
    table.create_tag("long", time_retained="1 d")
    table.create_tag("ever")
    table.upsert([{"id": 2}])
    table.expire_snapshots(retain_last=1)
    hold = new_hold(BRANCH)
    table.catalog.expiry.make_tag(hold, table.snapshots()[-1].id)
    assert table.expire_tags() == []
    later(monkeypatch, 2 * HOUR)
    assert table.expire_tags(dry_run=True) == ["short"]
    assert table.to_arrow(tag="short").num_rows == 1
    assert table.expire_tags() == ["short"]
    later(monkeypatch, 48 * HOUR)
    assert table.expire_tags() == ["long"]
    assert [*table.tags()] == [hold, "ever"]
    future = datetime.fromtimestamp(time.time() + 3600).astimezone()
    assert table.expire_tags(older_than=datetime(2020, 1, 1)) == []
    assert table.expire_tags(older_than=future) == ["ever"]
    assert [*table.tags()] == [hold]
    assert table.remove_orphans(older_than=time.time_ns() // 1_000_000 + HOUR) == []


@covers("CMT-70")
def test_a_tag_that_is_replaced_at_the_same_time_stays(table: Table) -> None:
    for name in ("a", "b"):
        table.create_tag(name, time_retained="1 ms")
    time.sleep(0.01)

    def meanwhile(delete: Callable[[], None]) -> None:
        table.replace_tag("b", time_retained="1 h")
        delete()

    assert Table.open(table.path, store=Hooked("delete", "/tag-a", meanwhile)).expire_tags() == ["a"]
    assert [*table.tags()] == ["b"]


@covers("CMT-70")
def test_a_tag_that_is_replaced_while_tags_are_looked_at_is_no_older_one(table: Table) -> None:
    for name in ("a", "b"):
        table.create_tag(name)
        os.utime(Path(table.path, "tag", f"tag-{name}"), (0, 0))

    def meanwhile(read: Callable[[], bytes]) -> bytes:
        table.replace_tag("b")
        return read()

    opened = Table.open(table.path, store=Hooked("read", "/tag-b", meanwhile))
    assert opened.expire_tags(older_than="2020-01-01") == ["a"]
    assert [*table.tags()] == ["b"]


@covers("CMT-70")
def test_a_tag_that_says_only_how_long_begins_with_its_file(table: Table) -> None:
    table.create_tag("one", time_retained="1 h")
    file = Path(table.path, "tag", "tag-one")
    fields = stored(table, "one")
    del fields["pktable.crc32"], fields["tagCreateTime"]
    file.write_text(json.dumps(fields))
    assert table.expire_tags() == []
    os.utime(file, (0, 0))
    assert table.expire_tags() == ["one"]


@covers("CMT-70")
@pytest.mark.parametrize(("made", "judged"), [("UTC+12", "UTC-12"), ("UTC-12", "UTC+12")])
def test_a_tag_of_another_zone_is_not_deleted_too_early(
    table: Table, monkeypatch: pytest.MonkeyPatch, made: str, judged: str
) -> None:
    monkeypatch.setenv("TZ", made)
    time.tzset()
    table.create_tag("one", time_retained="1 h")
    monkeypatch.setenv("TZ", judged)
    time.tzset()
    later(monkeypatch, HOUR // 2)
    assert table.expire_tags() == []
    later(monkeypatch, 26 * HOUR)
    assert table.expire_tags() == ["one"]


@covers("CMT-70")
def test_a_copy_of_an_old_file_keeps_its_tag_for_as_long_as_it_says(table: Table) -> None:
    table.create_tag("one", time_retained="1 h")
    file = Path(table.path, "tag", "tag-one")
    os.utime(file, (0, 0))
    assert table.expire_tags() == []
    fields = {**stored(table, "one"), "tagCreateTime": [2020, 1, 1, 0, 0]}
    del fields["pktable.crc32"]
    file.write_text(json.dumps(fields))
    assert table.expire_tags() == []
    os.utime(file, (0, 0))
    assert table.expire_tags() == ["one"]


def test_a_table_can_say_how_long_its_tags_are_kept(table: Table) -> None:
    table.alter(set_options={"tag.default-time-retained": "3 d"})
    table.create_tag("one")
    table.create_tag("two", time_retained="1 h")
    table.create_branch("b", tag="one")
    assert table.metadata("tags")["time_retained"].to_pylist() == ["PT72H", "PT1H"]
    with pytest.raises(
        InvalidRequestError, match=r"tag\.default-time-retained='soon': expected a time such as"
    ):
        table.alter(set_options={"tag.default-time-retained": "soon"})


@pytest.mark.parametrize(
    "given", ["", "1 x", "0 s", "-1 d", "9" * 30 + " d", 60, timedelta(0), timedelta(-1)]
)
def test_a_time_that_is_none_is_refused_before_anything_changes(table: Table, given: Any) -> None:
    table.create_tag("one")
    table.alter(set_options={"tag.default-time-retained": "3 d"})
    for work in (table.create_tag, table.replace_tag):
        with pytest.raises(
            InvalidRequestError, match="time_retained: expected a timedelta or a time such as '7 d'"
        ):
            work("one", time_retained=given)
    assert [*table.tags()] == ["one"]


@pytest.mark.parametrize(
    ("created", "retained", "text"),
    [
        ([2024, 2, 29, 23, 58], 90.5, "PT1M30.5S"),
        ("2024-02-29T23:58:00.123456789", "PT1H0.25S", "PT1H0.25S"),
        ([2024, 2, 29, 23, 58, 0, 5], 0, "PT0S"),
        ([2024, 2, 29, 23, 58, 0, 5], "PT49H", "PT49H"),
        ([2024, 2, 29, 23, 58], 3600, "PT1H"),
    ],
)
def test_times_are_read_as_others_write_them(created: object, retained: object, text: str) -> None:
    data = json.dumps({"tagCreateTime": created, "tagTimeRetained": retained}).encode()
    time = TagTime.of(data, "tag")
    assert time.retained is not None
    assert iso_text(time.retained) == text
    assert str(time.created).startswith("2024-02-29 23:58:00")
    assert TagTime.of(json.dumps(time.fields()).encode(), "tag") == time


@pytest.mark.parametrize(
    ("created", "retained"),
    [
        ([2024, 13, 1, 0, 0], 1),
        (5, 1),
        ("yesterday", 1),
        ([2024, 1, 1, 0, 0], "P1"),
        ([2024, 1, 1, 0, 0], 1e300),
    ],
)
def test_a_damaged_time_is_reported_and_nothing_is_deleted(table: Table, created: Any, retained: Any) -> None:
    table.create_tag("one", time_retained="1 ms")
    table.create_tag("two")
    file = Path(table.path, "tag", "tag-two")
    fields = {**stored(table, "two"), "tagCreateTime": created, "tagTimeRetained": retained}
    del fields["pktable.crc32"]
    file.write_text(json.dumps(fields))
    with pytest.raises(
        CorruptFileError, match=r"tagCreateTime: expected a date|tagTimeRetained: expected seconds"
    ):
        table.expire_tags()
    file.write_text("{")
    for work in (table.expire_tags, lambda: table.metadata("tags")):
        with pytest.raises(CorruptFileError, match="expected a JSON file"):
            work()
    assert sorted(one.name for one in file.parent.iterdir()) == ["tag-one", "tag-two"]
