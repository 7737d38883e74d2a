"""Dynamic buckets: a key stays where it is, and a new one goes where there is room."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.bucket import dynamic
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.interface import Shape
from pktable_spec.model.buckets import DynamicBuckets, binary_row, murmur

from model_tests.append.paimon_tables import expected_of, expected_rows, path_of, rows_of
from model_tests.backends.spark_session import spark_session
from model_tests.buckets.tables import (
    INITIAL,
    MOST,
    TARGET,
    buckets_of_keys,
    new_table,
    partitioned,
    real,
    rows,
    rows_in,
    stored_hashes,
    values,
)
from model_tests.real_data import needs_shared
from model_tests.seeded import cases

SHAPE = Shape("dynamic", (("k", "INT"), ("v", "INT")), ("k",))


@covers("BKT-1", "TBL-9")
def test_dynamic_buckets_are_made_for_who_asks_for_them(tmp_path: Path) -> None:
    table = new_table(tmp_path / "asked")
    table.upsert(rows([1]))
    manifests = table.catalog.manifests
    entries = [entry for meta in table.catalog.state().manifests for entry in manifests.read(meta)]
    assert {(entry.bucket, entry.total_buckets) for entry in entries} == {(0, -1)}
    assert Table.create(tmp_path / "plain", "k INT", primary_key="k").options["bucket"] == "1"
    with pytest.raises(InvalidRequestError, match=r"bucket-key='k' is not supported: .* where bucket is -1"):
        new_table(tmp_path / "keyed", bucket_key="k")


@covers("BKT-2", "BKT-3")
def test_an_index_file_has_the_hash_of_each_key_of_its_bucket(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", room=3)
    table.upsert(rows(range(8)))
    table.delete(rows([0, 5]).select(["k"]))
    expected: dict[int, set[int]] = {}
    for key, bucket in buckets_of_keys(Table.open(tmp_path / "t")).items():
        expected.setdefault(bucket, set()).add(murmur(binary_row([key])))
    found = stored_hashes(table)
    assert [len(hashes) for hashes in found.values()] == [3, 3, 2]
    assert {hash for hashes in found.values() for hash in hashes} == {
        murmur(binary_row([k])) for k in range(8)
    }
    assert all(set(found[bucket]) >= hashes for bucket, hashes in expected.items())
    for entry in table.catalog.state().hashes.values():
        assert (entry.index_type, entry.file_size, entry.ranges) == ("HASH", 4 * entry.row_count, None)


@covers("BKT-4", "BKT-5", "BKT-7")
@pytest.mark.parametrize("assigners", [1, 3])
def test_keys_get_the_buckets_of_the_oracle(tmp_path: Path, assigners: int) -> None:
    for seed in range(cases(3)):
        drawn = random.Random(seed)
        room = drawn.randint(1, 6)
        table = new_table(tmp_path / f"{seed}", room, **{INITIAL.replace(".", "__"): str(assigners)})
        oracle, keys = DynamicBuckets(SHAPE, room, assigners), list[int]()
        for write in range(4):
            batch = [drawn.randint(-60, 60) for _ in range(drawn.randint(1, 30))]
            keys += batch
            opened = Table.open(tmp_path / f"{seed}") if write % 2 else table
            opened.write_changes(
                rows(batch, write).append_column(
                    "kind", pa.array([drawn.choice(["+I", "-D"]) for _ in batch])
                ),
                row_kind="kind",
            )
            expected = {key: oracle.bucket_of((key, 0))[1] for key in batch}
            found = buckets_of_keys(Table.open(tmp_path / f"{seed}"))
            assert {key: found[key] for key in batch if key in found} == {
                key: bucket for key, bucket in expected.items() if key in found
            }, f"seed {seed}"
        by_hash = {hash: bucket for bucket, hashes in stored_hashes(table).items() for hash in hashes}
        assert by_hash == oracle.partitions[()], f"seed {seed}"


@covers("BKT-5", "TBL-3")
def test_each_partition_has_buckets_of_its_own(tmp_path: Path) -> None:
    table = partitioned(tmp_path / "t", room=2)
    table.upsert(pa.concat_tables([rows_in("a", range(5)), rows_in("b", range(3))]))
    table.upsert(rows_in("b", range(3, 6)))
    counts = {
        (table.catalog.context.partition_path(partition), bucket): entry.row_count
        for (partition, bucket), entry in table.catalog.state().hashes.items()
    }
    assert counts == {
        ("p=a", 0): 2,
        ("p=a", 1): 2,
        ("p=a", 2): 1,
        ("p=b", 0): 2,
        ("p=b", 1): 2,
        ("p=b", 2): 2,
    }
    assert not check(tmp_path / "t").findings


@covers("BKT-6")
def test_new_keys_share_the_buckets_when_there_may_be_no_more(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t", room=2, **{MOST.replace(".", "__"): "3"})
    for start in (0, 5, 40):
        table.upsert(rows(range(start, start + 30)))
    counts = {bucket: len(hashes) for bucket, hashes in stored_hashes(table).items()}
    assert set(counts) == {0, 1, 2}
    assert min(counts.values()) >= 15  # of 65
    assert not check(tmp_path / "t").findings


@covers("BKT-6")
def test_a_write_that_needs_too_many_buckets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic, "MOST_BUCKETS", 3)
    table = new_table(tmp_path / "t", room=2)
    table.upsert(rows(range(6)))
    with pytest.raises(
        InvalidRequestError, match=rf"{TARGET}=2: expected that 3 buckets .*, found 2 keys more"
    ):
        table.upsert(rows(range(8)))
    assert set(values(table)) == set(range(6))


@covers("BKT-7")
def test_assigners_are_no_more_than_options_allow(tmp_path: Path) -> None:
    def first_buckets(**options: str) -> set[int]:
        table = new_table(tmp_path / str(len(list(tmp_path.iterdir()))), room=100, **options)
        table.upsert(rows(range(40)))
        return set(stored_hashes(table))

    initial, most = INITIAL.replace(".", "__"), MOST.replace(".", "__")
    assert first_buckets() == {0}
    assert first_buckets(**{initial: "4"}) == {0, 1, 2, 3}
    assert first_buckets(**{initial: "4", most: "2"}) == {0, 1}
    assert first_buckets(dynamic_bucket__assigner_parallelism="3") == {0, 1, 2}
    assert first_buckets(dynamic_bucket__assigner_parallelism="2", **{initial: "4"}) == {0, 1}


@covers("BKT-4", "BKT-10", "MRG-1")
@needs_shared
def test_a_table_of_paimon_is_written_on(tmp_path: Path) -> None:
    table, truth = real("pk_dynamic", tmp_path), expected_of("pk_dynamic")
    last = max(truth["snapshots"], key=int)
    before = table.to_arrow()
    assert rows_of(before.to_pylist()) == expected_rows(truth["snapshots"][last]["rows"])
    hashes = stored_hashes(table)
    table.upsert(before)
    assert stored_hashes(table) == hashes, "every key of Paimon's is found under the hash that Paimon gave it"
    new = before.set_column(
        0, before.schema.field(0), pa.array(range(1000, 1000 + before.num_rows), pa.int64())
    )
    table.upsert(new)
    table.delete(where="id < 20")
    table.compact(full=True)
    expected = [row for row in [*before.to_pylist(), *new.to_pylist()] if row["id"] >= 20]
    assert rows_of(Table.open(table.path).to_arrow().to_pylist()) == rows_of(expected)
    counts = [len(hashes) for hashes in stored_hashes(table).values()]
    assert sum(counts) == sum(map(len, hashes.values())) + before.num_rows
    assert max(counts) == 20
    assert not [found for found in check(table.path).findings if found.severity == "error"]
    for snapshot, expected_at in truth["snapshots"].items():
        assert rows_of(table.to_arrow(snapshot=int(snapshot)).to_pylist()) == expected_rows(
            expected_at["rows"]
        )
    assert path_of("pk_dynamic").is_dir()


@pytest.mark.spark
@covers("BKT-4", "BKT-5", "BKT-7", "TBL-21")
def test_tasks_of_spark_assign_as_one_process_does(tmp_path: Path) -> None:
    initial = {INITIAL.replace(".", "__"): "3"}
    batches = [list(range(60)), list(range(30, 120)), list(range(100, 20, -1))]
    made = []
    for runner in ("local", "spark"):
        new_table(tmp_path / runner, room=7, **initial)
        table = Table.open(tmp_path / runner, spark=spark_session(), runner=runner)
        for number, batch in enumerate(batches):
            table.upsert(rows(batch, number))
        assert not check(tmp_path / runner).findings
        made.append({bucket: sorted(hashes) for bucket, hashes in stored_hashes(table).items()})
    assert made[0] == made[1]
    # By default as many tasks assign as there are, whatever a process alone has done before.
    new_table(tmp_path / "mixed", room=7)
    local, spark = (
        Table.open(tmp_path / "mixed"),
        Table.open(tmp_path / "mixed", spark=spark_session(), runner="spark"),
    )
    for number, batch in enumerate(batches):
        (local, spark, local)[number].upsert(rows(batch, number))
    assert values(local) == values(Table.open(tmp_path / "local"))
    assert not check(tmp_path / "mixed").findings
