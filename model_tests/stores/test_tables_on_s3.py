"""A table on an object store is a table like any other: its life, its histories, its races, its failures."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pktable import CorruptFileError, InvalidRequestError, NotATableError, Table
from pktable.cli import run
from pktable.table import check
from pktable_spec.covers import covers

from model_tests import corpus
from model_tests.histories.profiles import Profile
from model_tests.histories.session import replay
from model_tests.seeded import cases
from model_tests.stores.s3_server import BUCKET, Request, Server
from model_tests.stores.s3_tables import tables_on

VECTORS = {"deletion-vectors.enabled": "true"}

HISTORIES = (
    "a_crash_changes_nothing",
    "an_old_snapshot_read_by_new_options",
    "partitions_keep_apart",
    "two_commits_meet",
    "a_later_commit_is_newer",
    "a_write_between_plan_and_commit",
    "marks_lost_to_a_rewrite",
    "vectors_switched_on_late",
)

EVERY_STEP = Profile("corpus", histories=1, steps=1, reread_limit=0, twin=False, refines=False)


def made(root: str, options: Mapping[str, str], **table_options: str) -> Table:
    return Table.create(
        root,
        "id BIGINT, city STRING, region STRING",
        primary_key=["id", "region"],
        partition_by="region",
        options={**VECTORS, **table_options},
        storage_options=options,
    )


def rows(ids: range, city: str) -> pa.Table:
    return pa.table(
        {"id": list(ids), "city": [city] * len(ids), "region": ["a/b" if i % 2 else "é %" for i in ids]}
    )


def content(table: Table, **how: Any) -> dict[int, str]:
    found = table.to_arrow(**how).to_pylist()
    cities = {row["id"]: row["city"] for row in found}
    assert len(cities) == len(found), "two rows of one key"
    return cities


@covers("CMT-1", "CMT-17", "CMT-26", "CMT-47", "RD-1")
def test_a_table_lives_its_life_on_an_object_store(server: Server, root: str, tmp_path: Path) -> None:
    table = made(root, server.options)
    local = Table.create(
        tmp_path / "table",
        "id BIGINT, city STRING, region STRING",
        primary_key=["id", "region"],
        partition_by="region",
        options=VECTORS,
    )
    for one in (table, local):
        one.upsert(rows(range(60), "Rome"))
        one.upsert(rows(range(20), "Oslo"))
        one.delete(where="id >= 50")
        one.create_tag("kept", snapshot=2)
    assert table.path == root
    assert content(table) == content(local) == {i: "Oslo" if i < 20 else "Rome" for i in range(50)}
    assert content(table, snapshot=2) == content(local, snapshot=2)
    assert content(table, where="id = 7") == {7: "Oslo"}
    assert table.count() == local.count() == 50
    for one in (table, local):
        one.compact(full=True)
        one.expire_snapshots(retain_last=1)
    again = Table.open(f"{root}/", storage_options=server.options)
    assert content(again) == content(local)
    assert content(again, tag="kept") == content(local, tag="kept") == dict.fromkeys(range(60), "Rome")
    report = check(root, storage_options=server.options)
    assert report.findings == []
    assert report.rows == local.check().rows
    assert directories(server.keys(key(root)), key(root)) == directories(
        [str(path) for path in (tmp_path / "table").rglob("*") if path.is_file()], str(tmp_path / "table")
    )
    for one in (again, local):
        one.rollback(tag="kept")
    assert content(again) == content(local) == dict.fromkeys(range(60), "Rome")
    assert check(root, storage_options=server.options).findings == []


def key(root: str) -> str:
    return root.removeprefix(f"s3://{BUCKET}/")


def directories(files: list[str], root: str) -> dict[str, int]:
    """Return the number of files in each directory below ``root``."""
    inside = [path.removeprefix(f"{root}/").rpartition("/")[0] for path in files]
    return {directory: inside.count(directory) for directory in inside}


@pytest.mark.parametrize("name", HISTORIES[: cases(4)])
def test_a_stored_history_holds_on_an_object_store(name: str, server: Server, root: str) -> None:
    assert replay(corpus.load(name), tables_on(server, root), EVERY_STEP).histories == 1


@covers("CMT-19", "CMT-1", "CMT-3")
def test_of_two_writers_that_race_for_a_snapshot_one_wins_and_no_row_is_lost(
    server: Server, root: str
) -> None:
    made(root, server.options, **{"write-only": "true"})
    rounds, writers = 6, 2
    together = Barrier(writers)
    won: list[int] = []

    def write(writer: int) -> None:
        table = Table.open(root, storage_options=server.options)
        for number in range(rounds):
            together.wait()
            snapshot = table.upsert(
                rows(range(100 * writer + number, 100 * writer + number + 1), f"w{writer}")
            )
            assert snapshot is not None
            won.append(snapshot)

    start = len(server.requests)
    with ThreadPoolExecutor(writers) as threads:
        for one in [threads.submit(write, writer) for writer in range(writers)]:
            one.result()
    puts = [
        one.path
        for one in server.requests[start:]
        if one.condition == "*" and "/snapshot/snapshot-" in one.path
    ]
    assert len(puts) > len(set(puts)), "no two writers asked for one snapshot id"
    assert sorted(won) == list(range(1, rounds * writers + 1)), "two writers were given one snapshot"
    table = Table.open(root, storage_options=server.options)
    expected = {100 * writer + number: f"w{writer}" for writer in range(writers) for number in range(rounds)}
    assert content(table, fresh=True) == expected
    assert [one.id for one in table.snapshots()] == sorted(won)


@covers("CMT-19")
def test_a_table_is_not_created_on_a_store_that_ignores_conditions(server: Server, root: str) -> None:
    server.ignores_conditions = True
    with pytest.raises(InvalidRequestError, match="ignores the condition of a put"):
        made(root, {**server.options, "timeout": "35s"})
    assert server.keys(key(root)) == []


def test_a_commit_whose_answer_was_lost_has_happened_once(server: Server, root: str) -> None:
    table = made(root, server.options)
    table.upsert(rows(range(3), "Rome"))
    lost = iter([500])

    def fault(request: Request) -> int | None:
        return next(lost, None) if request.condition and "/snapshot/snapshot-" in request.path else None

    with server.faulty(fault, before=False):
        table.upsert(rows(range(3, 5), "Oslo"))
    assert content(table) == content(Table.open(root, storage_options=server.options))
    assert content(table, fresh=True) == {0: "Rome", 1: "Rome", 2: "Rome", 3: "Oslo", 4: "Oslo"}
    assert [one.id for one in table.snapshots()] == list(range(1, len(table.snapshots()) + 1))
    assert [one for one in table.check().findings if one.severity == "error"] == []


def test_a_table_on_an_object_store_pickles(server: Server, root: str) -> None:
    table = made(root, server.options)
    table.upsert(rows(range(5), "Rome"))
    copy = pickle.loads(pickle.dumps(table))
    copy.upsert(rows(range(5, 6), "Oslo"))
    assert content(table) == content(copy) == {**dict.fromkeys(range(5), "Rome"), 5: "Oslo"}


def count_in_a_fork(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match=r"get_context\('spawn'\)"):
        table.count()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there are no forks here")
def test_a_fork_of_a_process_that_used_the_store_is_refused_and_does_not_wait(
    server: Server, root: str
) -> None:
    table = Table.create(root, "id INT", primary_key="id", storage_options=server.options)
    child = multiprocessing.get_context("fork").Process(target=count_in_a_fork, args=(table,))
    child.start()
    child.join(20)
    child.kill()
    assert child.exitcode == 0


def test_a_large_file_is_written_in_parts_and_read_whole(server: Server, root: str) -> None:
    table = Table.create(root, "id BIGINT, x DOUBLE", primary_key="id", storage_options=server.options)
    count = 1_500_000
    ids = pa.array(range(count))
    values = pa.array(np.random.default_rng(1).random(count))
    with server.counted() as counts:
        table.upsert(pa.table({"id": ids, "x": values}))
    assert counts["MULTIPART"] >= 2
    assert table.to_arrow().sort_by("id").column("x").combine_chunks() == values
    assert table.to_arrow(where="id = 1234567").num_rows == 1


@covers("CMT-12")
def test_a_write_that_fails_never_shows_a_part_of_its_file(
    server: Server, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(root, server.options)

    def failing(*arguments: Any, **more: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pktable.bucket.run_writer.collect_stats", failing)
    start = len(server.requests)
    with pytest.raises(ZeroDivisionError):
        table.upsert(rows(range(1000), "Rome"))
    assert [one for one in server.requests[start:] if one.what == "PUT"] == []
    assert [one for one in server.keys(key(root)) if one.endswith(".parquet")] == []


def test_few_requests_write_read_and_look_up(server: Server, root: str) -> None:
    table = Table.create(
        root, "id BIGINT, v STRING", primary_key="id", options=VECTORS, storage_options=server.options
    )
    table.upsert(pa.table({"id": range(1000), "v": ["a"] * 1000}))
    table.upsert(pa.table({"id": [1, 2], "v": ["b"] * 2}))
    with server.counted() as write:
        table.upsert(pa.table({"id": [1, 2], "v": ["c"] * 2}))
    with server.counted() as read:
        table.to_arrow()
    with server.counted() as lookup:
        table.to_arrow(where="id = 900")
    print(f"upsert {dict(write)}, read {dict(read)}, lookup {dict(lookup)}")
    assert write.total() <= 35
    assert read.total() <= 10
    assert lookup.total() <= 10
    assert max(read["LIST"], lookup["LIST"]) <= 1  # a listing costs as much as a put


# What a user is told


def test_what_is_wrong_with_a_store_is_said_in_a_line(server: Server, root: str) -> None:
    table = made(root, server.options)
    table.upsert(rows(range(3), "Rome"))
    with pytest.raises(OSError, match=r"access denied.*InvalidAccessKeyId"):
        Table.open(root, storage_options={**server.options, "aws_access_key_id": "NOBODY"})
    with pytest.raises(InvalidRequestError, match="s3://no-such-bucket: the bucket does not exist"):
        Table.open("s3://no-such-bucket/table", storage_options=server.options)
    with pytest.raises(NotATableError, match="found nothing"):
        Table.open(f"{root}-another", storage_options=server.options)
    with pytest.raises(NotATableError, match="a directory of tables: table"):
        Table.open(root.rpartition("/")[0], storage_options=server.options)
    with pytest.raises(InvalidRequestError, match=r"either store=… or storage_options=…"):
        Table.open(root, store=table.catalog.context.store, storage_options=server.options)
    (data, *_) = [one for one in server.keys(key(root)) if one.endswith(".parquet")]
    server.client().delete_object(Bucket=BUCKET, Key=data)
    with pytest.raises(
        CorruptFileError, match=f"s3://{BUCKET}/{data}: data file: expected a file, found none"
    ):
        Table.open(root, storage_options=server.options).to_arrow()


@covers("RD-11")
def test_a_store_that_fails_is_not_taken_for_damage(server: Server, root: str) -> None:
    table = Table.create(root, "id BIGINT, x STRING", primary_key="id", storage_options=server.options)
    table.upsert(pa.table({"id": range(100_000), "x": [str(i * 7919) for i in range(100_000)]}))
    Table.open(root, storage_options=server.options)

    def fault(request: Request) -> int | None:
        # The end of the file was read, and then access is revoked.
        seen.extend([request] if request.path.endswith(".parquet") else [])
        return 403 if len(seen) > 1 else None

    seen: list[Request] = []
    with server.faulty(fault), pytest.raises(OSError, match="access denied") as denied:
        Table.open(root, storage_options=server.options).to_arrow()
    assert denied.value.filename.endswith(".parquet")


@covers("RD-11", "RD-19")
def test_a_data_file_that_goes_while_it_is_read_is_damage_and_named(server: Server, root: str) -> None:
    table = Table.create(root, "id BIGINT, x STRING", primary_key="id", storage_options=server.options)
    table.upsert(pa.table({"id": range(100_000), "x": [str(i * 7919) for i in range(100_000)]}))

    def fault(request: Request) -> int | None:
        seen.extend([request] if request.path.endswith(".parquet") else [])
        return 404 if request in seen[1:] else None

    seen: list[Request] = []
    with (
        server.faulty(fault),
        pytest.raises(CorruptFileError, match=r"\.parquet: data file: expected a file, found none"),
    ):
        Table.open(root, storage_options=server.options).to_arrow()


def test_the_command_line_reaches_an_object_store(
    server: Server, root: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = [word for one in server.options.items() for word in ("--storage-option", "=".join(one))]
    file = tmp_path / "rows.csv"
    file.write_text("id,city\n1,Rome\n2,Oslo\n")

    def output(*arguments: str) -> str:
        assert run(arguments) == 0
        return capsys.readouterr().out

    def refusal(*arguments: str) -> str:
        assert run(arguments) > 1, "neither fine nor damaged"
        return capsys.readouterr().err

    output(
        "create", root, "--columns", "id BIGINT, city STRING", "--primary-key", "id", "-o",
        "deletion-vectors.enabled=true", *storage,
    )  # fmt: skip
    output("write", root, str(file), *storage)
    assert json.loads(output("read", root, "--where", "id = 2", "--format", "jsonl", *storage)) == {
        "id": 2,
        "city": "Oslo",
    }
    output("delete", root, "--where", "id = 2", *storage)
    assert output("count", root, "--format", "jsonl", *storage).strip() == '{"rows": 1}'
    for command in (
        ["history"],
        ["files"],
        ["compact", "--full"],
        ["tag"],
        ["expire", "--retain-last", "1"],
        ["check"],
    ):
        output(command[0], root, *command[1:], *storage)
    assert "expected KEY=VALUE" in refusal("count", root, "--storage-option", "region")
    denied = refusal("count", root, *storage, "--storage-option", "aws_access_key_id=NOBODY")
    assert denied.startswith(f"pktable: {root}")
    assert "access denied (403" in denied
    assert denied.count("\n") == 1
    assert "storage options are for object stores" in refusal("count", str(tmp_path), *storage)


@pytest.mark.versions
@covers("RD-12")
@pytest.mark.spark
def test_executors_read_and_write_through_the_pickled_store(server: Server, root: str) -> None:
    from pktable.run.spark.runner import SparkRunner

    from model_tests.backends.spark_session import spark_session

    spark = spark_session()
    Table.create(
        root, "id BIGINT, city STRING", primary_key="id", options=VECTORS, storage_options=server.options
    )
    table = Table.open(root, storage_options=server.options, runner=SparkRunner(spark))
    first = pa.table({"id": range(40), "city": ["Rome"] * 40})
    table.upsert(spark.createDataFrame(first))
    table.delete(where="id >= 30")
    assert {row.id: row.city for row in table.read(where="id > 20").collect()} == dict.fromkeys(
        range(21, 30), "Rome"
    )
    table.compact(full=True)
    lazy = Table.open(root, storage_options=server.options, spark=spark)
    assert (
        content(lazy)
        == content(Table.open(root, storage_options=server.options))
        == dict.fromkeys(range(30), "Rome")
    )
    assert lazy.check().findings == []
