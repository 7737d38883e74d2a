"""Streams: where they begin, what they give, and when they are refused."""

from __future__ import annotations

import json
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, SnapshotNotFoundError, Table
from pktable.spark_source import pieces, stream_reader
from pktable_spec.covers import covers

from model_tests.changelog.tables import applied, changes, folded, new_table, put, rows, three_writes
from model_tests.source.driven import Row, Stream, source

CHANGES = {"read__changelog": "true"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return three_writes(tmp_path / "t")


@covers("CHG-26")
def test_a_stream_begins_with_the_rows_of_the_latest_snapshot(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    assert sorted(stream.rest()) == [("+I", 1, 5), ("+I", 3, 3)]
    assert stream.next() is None
    put(table, ("+I", 4, 4))
    put(table, ("+U", 4, 5))
    assert stream.next() == [("+I", 4, 4), ("-U", 4, 4), ("+U", 4, 5)]
    assert stream.next() is None


@covers("CHG-26")
def test_a_stream_of_what_is_new_misses_no_change_of_an_empty_table(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "lookup")
    stream = Stream(table.path, **CHANGES, scan__mode="latest")
    assert stream.rest() == []
    stream.restart()
    put(table, ("+I", 1, 1))
    put(table, ("+I", 2, 2))
    assert sorted(stream.rest()) == [("+I", 1, 1), ("+I", 2, 2)]
    assert stream.next() is None
    put(table, ("-D", 1, None))
    assert stream.next() == [("-D", 1, 1)]


@covers("CHG-29")
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"merge_engine": "partial-update"}, "merge-engine partial-update"),
        ({"merge_engine": "aggregation"}, "merge-engine aggregation"),
        ({"merge_engine": "first-row"}, "merge-engine first-row"),
        ({"sequence__field": "v"}, "a sequence.field"),
    ],
)
def test_a_stream_of_computed_rows_needs_a_producer(
    tmp_path: Path, options: dict[str, str], named: str
) -> None:
    table = new_table(tmp_path / "none", "none", deletion_vectors__enabled="false", **options)
    with pytest.raises(InvalidRequestError, match=f"has {named}; set lookup or full-compaction, or input"):
        Stream(table.path, **CHANGES)
    table = new_table(tmp_path / "lookup", "lookup", deletion_vectors__enabled="false", **options)
    put(table, ("+I", 1, 1))
    assert Stream(table.path, **CHANGES).rest() == [("+I", 1, 1)]


@covers("CHG-26")
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan__mode": "latest"}, []),
        ({"scan__mode": "latest-full"}, [("+I", 1, 5), ("+I", 3, 3)]),
        ({"scan__snapshot_id": 6}, [("-D", 2, 2)]),
        ({"scan__snapshot_id": 1}, ["all"]),
        ({"scan__snapshot_id": 7}, []),
        ({"scan__mode": "from-snapshot-full", "scan__snapshot_id": 4}, ["rows of 4", ("-D", 2, 2)]),
        ({"scan__timestamp_millis": 0}, ["all"]),
        ({"scan__timestamp_millis": "time of 4"}, [("-D", 2, 2)]),
    ],
)
def test_a_mode_says_where_a_stream_begins(
    table: Table, options: dict[str, Any], expected: list[Any]
) -> None:
    times = {one.id: one.time_millis for one in table.snapshots()}
    if options.get("scan__timestamp_millis") == "time of 4":
        if times[4] == times[5]:
            pytest.skip("both in one millisecond")
        options = {"scan__timestamp_millis": times[4]}
    found: list[Row] = []
    for one in expected:
        if one == "all":
            found += changes(table, 0)
        elif one == "rows of 4":
            found += [("+I", *row) for row in rows(table, snapshot=4)]
        else:
            found.append(one)
    stream = Stream(table.path, **CHANGES, **options)
    assert sorted(stream.rest()) == sorted(found)
    put(table, ("+I", 9, 9))
    assert stream.rest() == [("+I", 9, 9)]


def test_a_stream_waits_for_the_first_snapshot(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "none")
    streams = [Stream(table.path, **CHANGES), Stream(table.path, scan__snapshot_id=2, **CHANGES)]
    assert [stream.next() for stream in streams] == [None, None]
    put(table, ("+I", 1, 1), write_only=True)
    assert [stream.rest() for stream in streams] == [[("+I", 1, 1)], []]
    put(table, ("+I", 2, 2), write_only=True)
    assert [stream.rest() for stream in streams] == [[("+I", 2, 2)]] * 2


def test_a_stream_waits_for_its_time(table: Table) -> None:
    """Until then it is not known after which snapshot the changes are to be read."""
    stream = Stream(table.path, scan__timestamp_millis=table.snapshots()[-1].time_millis, **CHANGES)
    assert stream.next() is None
    time.sleep(0.002)
    put(table, ("+I", 7, 7))
    put(table, ("+I", 8, 8))
    stream.restart()
    assert stream.next() == stream.batch(0) == [("+I", 7, 7), ("+I", 8, 8)]


def test_a_stream_of_a_table_with_a_key_needs_the_row_kinds(table: Table, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r'readStream: .* set option\("read.changelog", "true"\)'):
        Stream(table.path)
    events = Table.create(tmp_path / "events", "id BIGINT", primary_key=None)
    events.append(pa.table({"id": [1, 1]}))
    stream = Stream(events.path)
    assert stream.rest() == [(1,), (1,)]
    events.append(pa.table({"id": [1, 2]}))
    assert stream.rest() == [(1,), (2,)]


def test_a_filter_is_about_each_change(table: Table) -> None:
    assert Stream(table.path, filter="v > 4", **CHANGES).rest() == [("+I", 1, 5)]
    assert Stream(table.path, filter="id = 2", scan__snapshot_id=1, **CHANGES).rest() == [
        ("+I", 2, 2),
        ("-D", 2, 2),
    ]


PRODUCERS = [
    ("none", {}),
    ("none", {"deletion_vectors__enabled": "false"}),
    ("input", {}),
    ("lookup", {}),
    ("lookup", {"deletion_vectors__enabled": "false"}),
    ("full-compaction", {"deletion_vectors__enabled": "false"}),
]


@covers("CHG-26", "CHG-28")
@pytest.mark.parametrize(("producer", "options"), PRODUCERS)
@pytest.mark.parametrize("seed", range(2))
def test_a_stream_folded_is_the_table_at_each_snapshot(
    tmp_path: Path, producer: str, options: dict[str, str], seed: int
) -> None:
    draw = random.Random(f"{producer} {options} {seed}")
    table = new_table(tmp_path / "t", producer, bucket="2", **options)
    limit = {} if seed % 2 else {"maxSnapshotsPerTrigger": draw.randint(1, 3)}
    streams: list[tuple[Stream, set[Row], list[list[Row]]]] = []
    exact = producer in ("lookup", "full-compaction")
    for step in range(12):
        if draw.random() < 0.3:
            table.compact(full=draw.random() < 0.5)
        else:
            keys = draw.sample(range(5), draw.randint(1, 3))
            made = [(draw.choice(["+I", "+U", "-D"]), key, step) for key in keys]
            put(table, *made, write_only=draw.random() < 0.4)
        if draw.random() < 0.4:
            streams.append((Stream(table.path, **CHANGES, **limit), set(), []))
        for stream, held, batches in streams:
            if draw.random() < 0.3:
                stream.restart()
            while draw.random() < 0.8 and (found := stream.next()) is not None:
                batches.append(found)
                after = applied(held, found) if exact else folded(held, found)
                held.clear()
                held |= after
                at = stream.read_up_to
                assert at is not None
                assert held == folded((), changes(table, 0, at))
                if not exact:
                    assert held == rows(table, snapshot=at, fresh=True)
                elif not options:
                    assert held == rows(table, snapshot=at)
            for number in range(len(batches)):
                assert stream.batch(number) == batches[number]
    assert sum(len(batches) for _, _, batches in streams) > 2


@covers("CHG-26")
def test_rows_whose_changes_are_not_recorded_yet_come_later(tmp_path: Path) -> None:
    options = {"deletion_vectors__enabled": "false", "num_sorted_run__compaction_trigger": "2"}
    table = new_table(tmp_path / "t", "full-compaction", **options)
    put(table, *(("+I", key, key) for key in range(2000)), write_only=True)
    table.compact(full=True)
    put(table, ("+U", 1, 7), ("+I", 5000, 1), write_only=True)
    put(table, ("+I", 5001, 1), write_only=True)
    table.compact()
    assert table.files().column("level").to_pylist() == [1, 2]  # the greatest level is 2
    stream = Stream(table.path, **CHANGES)
    held = applied((), stream.rest())
    assert held == {(key, key) for key in range(2000)}
    table.compact(full=True)
    assert applied(held, stream.rest()) == rows(table)


@covers("CHG-28")
def test_a_batch_has_no_more_snapshots_than_the_limit(table: Table) -> None:
    stream = Stream(table.path, scan__snapshot_id=1, maxSnapshotsPerTrigger=2, **CHANGES)
    assert [stream.next(), stream.next(), stream.next(), stream.next()] == [
        [("+I", 1, 1), ("+I", 2, 2)],
        [("-U", 1, 1), ("+U", 1, 5), ("+I", 3, 3)],
        [("-D", 2, 2)],
        None,
    ]


def test_available_now_ends_where_it_began(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream._reader.prepareForTriggerAvailableNow()
    put(table, ("+I", 9, 9))
    assert len(stream.rest()) == 2
    assert stream.read_up_to == 6
    stream.restart()
    assert stream.rest() == [("+I", 9, 9)]


def test_older_versions_of_pyspark_ask_without_a_start(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    found = source(table.path, **CHANGES)
    reader = found.streamReader(found.schema())
    assert reader.latestOffset() == reader.latestOffset(reader.initialOffset())
    monkeypatch.setattr(stream_reader, "HAS_LIMITS", False)
    with pytest.raises(InvalidRequestError, match=r"maxSnapshotsPerTrigger: expected pyspark 4\.2 or"):
        Stream(table.path, maxSnapshotsPerTrigger=1, **CHANGES)


@covers("CHG-27")
def test_a_rollback_below_the_offset_is_refused(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    table.rollback(snapshot=4)
    message = "readStream: snapshot 6, up to which the stream has read, was rolled back"
    _refused(stream, f"{message}; retained: 1 to 4; start the stream again")
    put(table, ("+I", 7, 7))
    put(table, ("+I", 8, 8))
    assert table.snapshots()[-1].id == 8
    _refused(stream, f"{message}; another has its id now")
    table.expire_snapshots(retain_last=1)  # so that the snapshot does not show it any more
    _refused(stream, f"{message}; retained: 8 to 8")


def _refused(stream: Stream, message: str) -> None:
    """Expect that the next batch is refused, and that no end of it goes into the checkpoint since Spark 4.2."""
    before = len(stream.ends)
    with pytest.raises(InvalidRequestError, match=message):
        stream.next()
    assert len(stream.ends) == before
    with pytest.raises(InvalidRequestError, match=message):
        stream.next(is_old=True)
    del stream.ends[before:]


@covers("CHG-27", "CHG-28")
def test_a_batch_whose_end_was_rolled_back_is_refused(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    put(table, ("+I", 7, 7))
    assert stream.next() == [("+I", 7, 7)]
    table.rollback(snapshot=6)
    with pytest.raises(SnapshotNotFoundError, match="changes after snapshot 6 up to 8: snapshot 7 does not"):
        stream.batch(-1)
    put(table, ("+I", 8, 8))
    with pytest.raises(InvalidRequestError, match=r"snapshot 8, up to which .* another has its id now"):
        stream.batch(-1)


@covers("CHG-27")
def test_a_rollback_above_the_offset_is_no_loss(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    put(table, ("+I", 7, 7))
    table.rollback(snapshot=6)
    assert stream.next() is None
    put(table, ("+I", 8, 8))
    table.expire_snapshots(retain_last=2)  # the snapshot that the stream has read up to is gone
    assert [one.id for one in table.snapshots()] == [7, 8]
    assert stream.rest() == [("+I", 8, 8)]


@covers("CHG-27")
def test_expired_changes_are_refused(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    put(table, ("+I", 7, 7))
    put(table, ("+I", 8, 8))
    table.expire_snapshots(retain_last=2)
    message = "changes after snapshot 6 up to 10: snapshot 7 does not exist or has expired; retained: 9 to 10"
    with pytest.raises(SnapshotNotFoundError, match=message):
        stream.next()
    limited = Stream(table.path, maxSnapshotsPerTrigger=1, **CHANGES)
    limited.ends = stream.ends[:1]
    with pytest.raises(SnapshotNotFoundError, match="changes after snapshot 6 up to 7: snapshot 7 does not"):
        limited.next()
    allowing = Stream(table.path, failOnDataLoss="false", maxSnapshotsPerTrigger=1, **CHANGES)
    allowing.ends = stream.ends[:1]
    assert allowing.rest() == [("+I", 8, 8)]


@covers("CHG-26", "CHG-27")
def test_a_time_before_all_that_is_retained_is_no_beginning(table: Table) -> None:
    before = table.snapshots()[0].time_millis - 1
    stream = Stream(table.path, scan__timestamp_millis=before, **CHANGES)
    assert sorted(stream.rest()) == sorted(changes(table, 0))
    table.expire_snapshots(retain_last=1)
    with pytest.raises(SnapshotNotFoundError, match="retained"):
        Stream(table.path, scan__timestamp_millis=before, **CHANGES).next()


@covers("CHG-26", "CHG-27")
def test_rows_that_expire_before_they_are_read_are_refused(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    put(table, ("+I", 7, 7))
    table.expire_snapshots(retain_last=1)
    with pytest.raises(
        SnapshotNotFoundError, match="snapshot 6 does not exist or has expired; retained: 8 to 8"
    ):
        stream.batch(0)


@covers("CHG-13", "CHG-27")
@pytest.mark.parametrize("retained", [1, 2])
@pytest.mark.parametrize("name", ["plan_changes", "read_changes"])
def test_changes_that_expire_before_they_are_read_are_left_out_if_a_loss_is_allowed(
    tmp_path: Path, name: str, retained: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table(tmp_path / "t", "input")
    put(table, ("+I", 1, 1), write_only=True)
    stream = Stream(table.path, failOnDataLoss="false", **CHANGES)
    stream.rest()
    for value in range(3):
        put(table, ("+I", 7, value), write_only=True)

    def expire(*arguments: Any) -> Any:
        monkeypatch.undo()
        table.compact(full=True)
        table.expire_snapshots(retain_last=retained)  # the compaction is one
        put(table, ("+I", 8, 8))
        return work(*arguments)

    work = getattr(pieces, name)
    monkeypatch.setattr(pieces, name, expire)
    assert stream.next() == [("+I", 7, 2)][: retained - 1]
    assert stream.next() == [("+I", 8, 8)]


@covers("CHG-18", "CHG-27")
def test_changes_that_outlive_their_snapshots_are_read(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", "lookup", changelog__num_retained__max="100")
    put(table, ("+I", 1, 1))
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    put(table, ("+U", 1, 2))
    put(table, ("-D", 1, None))
    table.expire_snapshots(retain_last=1)
    assert stream.rest() == [("-U", 1, 1), ("+U", 1, 2), ("-D", 1, 2)]


@covers("CHG-12", "CHG-27")
def test_an_overwrite_is_refused_or_left_out(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    table.overwrite(pa.table({"id": [1], "v": pa.array([1], pa.int32())}))
    put(table, ("+I", 7, 7))
    with pytest.raises(
        InvalidRequestError, match="snapshot 7 is an OVERWRITE, whose changes nobody recorded"
    ):
        stream.next()
    allowing = Stream(table.path, failOnDataLoss="false", **CHANGES)
    allowing.ends = stream.ends[:1]
    assert allowing.rest()[-1] == ("+I", 7, 7)


@covers("CHG-27")
def test_after_a_rollback_a_loss_can_be_allowed(table: Table) -> None:
    stream = Stream(table.path, failOnDataLoss="false", **CHANGES)
    stream.rest()
    table.rollback(snapshot=4)
    assert stream.rest() == []
    put(table, ("+I", 7, 7))
    assert stream.rest() == [("+I", 7, 7)]


@covers("CHG-27")
def test_another_table_at_the_path_is_refused(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    for file in sorted(Path(table.path).rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    other = new_table(Path(table.path), "lookup", bucket="2")
    stream.restart()
    for key in range(5):
        put(other, ("+I", key, key))
        if key == 4:  # the snapshot that the stream has read up to does not show it any more
            other.expire_snapshots(retain_last=len(other.snapshots()) - 6)
        _refused(stream, "another table has taken the place of the one that the")


@covers("CHG-27")
def test_a_stream_of_an_empty_table_that_was_made_again_is_refused(table: Table) -> None:
    path = Path(table.path)
    stream = Stream(_made_again(path).path, scan__mode="latest", **CHANGES)
    assert stream.next() == []
    other = _made_again(path)
    put(other, ("+I", 1, 1))
    stream.restart()
    _refused(stream, "another table has taken the place of the one that the")


def _made_again(path: Path) -> Table:
    before = Table.open(path).schema.time_millis
    shutil.rmtree(path)
    while True:  # until its time is another one
        table = new_table(path, "lookup", bucket="2")
        if table.schema.time_millis != before:
            return table
        shutil.rmtree(path)


@covers("CHG-27")
@pytest.mark.parametrize("limit", [{}, {"maxSnapshotsPerTrigger": 1}])
def test_a_stream_that_may_lose_changes_reads_those_after_a_rollback(
    table: Table, limit: dict[str, Any]
) -> None:
    stream = Stream(table.path, failOnDataLoss="false", **CHANGES, **limit)
    stream.rest()
    table.rollback(snapshot=2)
    put(table, ("+I", 7, 7))
    assert stream.rest() == [("+I", 7, 7)]  # its id is less than the one that was read
    for key in (8, 9):
        put(table, ("+I", key, key))
    table.rollback(snapshot=2)
    for key in (10, 11, 12):
        put(table, ("+I", key, key))
    assert sorted(stream.rest()) == [("+I", 10, 10), ("+I", 11, 11), ("+I", 12, 12)]
    table.rollback(snapshot=6)
    put(table, ("+I", 13, 13))
    stream.restart()
    assert stream.batch(-1) == []  # its end was rolled back, so the next one has it
    assert stream.rest() == [("+I", 13, 13)]
    other = _made_again(Path(table.path))
    put(other, ("+I", 1, 1))
    stream.restart()
    assert stream.rest() == [("+I", 1, 1)]


@covers("CHG-27")
@pytest.mark.parametrize("how", ["expired", "rolled back", "made again"])
def test_a_stream_that_may_lose_changes_begins_though_its_first_snapshot_is_lost(
    table: Table, how: str
) -> None:
    stream = Stream(table.path, failOnDataLoss="false", **CHANGES)
    stream.rest()  # the first batch, whose end Spark has kept, but which it has to ask for again
    if how == "expired":
        put(table, ("+I", 7, 7))
        table.expire_snapshots(retain_last=1)
    elif how == "rolled back":
        table.rollback(snapshot=4)
        put(table, ("+I", 7, 7))
    else:
        table = _made_again(Path(table.path))
        put(table, ("+I", 7, 7))
    stream.restart()
    first = stream.batch(0)
    assert folded([], first + stream.rest()) == rows(table)


def test_offsets_are_small_json(table: Table) -> None:
    stream = Stream(table.path, **CHANGES)
    stream.rest()
    latest = table.snapshots()[-1]
    assert json.loads(stream.ends[0]) == {
        "snapshot": 6,
        "manifests": latest.delta_manifest_list,
        "fence": latest.fence,
        "table": table.schema.time_millis,
    }
