"""Keys that move between partitions: each has one place, whoever writes it, and however many do at once."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pktable import CorruptFileError, InvalidRequestError, Table
from pktable.bucket.moving import MovingKeys
from pktable.bucket.read import read_bucket
from pktable.catalog import changes
from pktable.catalog.changes import CommitId
from pktable.catalog.read_plan import plan_read
from pktable.ingest.changes import KIND_COLUMN, ChangeKind
from pktable.store.file_io import LocalFileIO
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.interface import Change, Shape
from pktable_spec.model.buckets import binary_row, murmur
from pktable_spec.model.meaning import fold
from pktable_spec.model.merge import DEDUPLICATE
from pktable_spec.model.moving import placed
from pktable_spec.vocabulary import RowKind

from model_tests.append.paimon_tables import expected_of, expected_rows, rows_of
from model_tests.backends.as_planned import commit_as_planned
from model_tests.backends.spark_session import spark_session
from model_tests.buckets.tables import INITIAL, TARGET, real
from model_tests.buckets.test_index import between
from model_tests.commit.hooks import Hooked
from model_tests.real_data import needs_shared
from model_tests.seeded import cases

COLUMNS = "p STRING, k INT, v INT"
SHAPE = Shape("moving", (("p", "STRING"), ("k", "INT"), ("v", "INT")), ("k",), ("p",))
AGGREGATION = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
REMOVES = "aggregation.remove-record-on-delete"
PARTIAL = {"merge-engine": "partial-update"}
FIRST = {"merge-engine": "first-row", "deletion-vectors.enabled": "false"}

Rows = list[tuple[str | None, int, int | None]]


def new_table(path: Path, options: Mapping[str, str] = {}, *, room: int = 100) -> Table:
    given = {"bucket": "-1", TARGET: str(room), "deletion-vectors.enabled": "true", **options}
    return Table.create(path, COLUMNS, primary_key="k", partition_by="p", options=given)


def rows(found: Iterable[tuple[str | None, int, int | None]]) -> pa.Table:
    partitions, keys, values = zip(*found, strict=True)
    return pa.table(
        {
            "p": pa.array(partitions, pa.string()),
            "k": pa.array(keys, pa.int32()),
            "v": pa.array(values, pa.int32()),
        }
    )


def write_only(table: Table, found: Rows) -> None:
    staged = table.stage_write(rows(found), ChangeKind(RowKind.INSERT), write_only=True)
    assert staged is not None
    staged.commit(CommitId.new())


def content(table: Table, *, fresh: bool = True) -> Rows:
    return sorted((row["p"], row["k"], row["v"]) for row in table.to_arrow(fresh=fresh).to_pylist())


def records(table: Table) -> list[tuple[str, int, int, int]]:
    """Return partition, key, row kind and value of all records of level 0."""
    found = []
    for file in table.files().to_pylist():
        if file["level"] == 0:
            for row in table.inspect.records(file["file_name"]).to_pylist():
                found.append((file["partition"], row["k"], row["_VALUE_KIND"], row["v"]))
    return sorted(found, key=str)


def buckets(table: Table) -> set[tuple[str, int]]:
    return {(file["partition"], file["bucket"]) for file in table.files().to_pylist()}


@covers("BKT-21", "BKT-22", "TBL-10", "TBL-16")
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_key_that_moves_leaves_a_retraction_where_it_was(tmp_path: Path, vectors: str) -> None:
    table = new_table(tmp_path / "t", {"deletion-vectors.enabled": vectors})
    table.upsert(rows([("a", 1, 1), ("a", 2, 1), ("b", 3, 1)]))
    table.compact(full=True)
    late = Table.open(tmp_path / "t")
    write_only(late, [("b", 1, 2), ("b", 3, 2), ("c", 4, 2)])
    moved = ("p=a", 1, int(RowKind.DELETE), 2)
    assert moved in records(late)
    assert [one for one in records(late) if one[0] == "p=a"] == [moved]
    assert content(late) == [("a", 2, 1), ("b", 1, 2), ("b", 3, 2), ("c", 4, 2)]
    late.compact()
    assert content(late, fresh=False) == content(late)
    assert not late.catalog.state().hashes
    assert not check(tmp_path / "t").findings


@covers("BKT-22", "TBL-6")
def test_a_key_moves_as_often_as_its_rows_say(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows([("a", 1, 1), ("b", 1, 2), ("a", 1, 3), ("c", 1, 4), ("a", 1, 5), ("b", 2, 6)]))
    assert content(table) == [("a", 1, 5), ("b", 2, 6)]
    table.upsert(rows([("b", 1, 1), ("a", 1, 2)]))
    assert content(table) == [("a", 1, 2), ("b", 2, 6)]
    table.update({"p": "'z'"}, where="k = 1")
    merge = table.merge(rows([("y", 2, 7), ("y", 3, 7)]), on="k")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert content(table) == [("y", 2, 7), ("y", 3, 7), ("z", 1, 2)]
    table.upsert(rows([(None, 1, 3)]))
    assert {(row["p"], row["k"]) for row in table.to_arrow(fresh=True).to_pylist()} == {
        (None, 1),
        ("y", 2),
        ("y", 3),
    }
    assert not check(tmp_path / "t").findings


@covers("BKT-23", "MRG-9", "MRG-12", "MRG-13")
def test_engines_that_compute_rows_leave_them_where_they_are(tmp_path: Path) -> None:
    before, after = [("a", 1, 1), ("b", 2, 1)], [("b", 1, 5), ("b", 2, None), ("c", 3, 3), ("a", 3, 4)]
    expected = {
        "sum": (AGGREGATION, [("a", 1, 6), ("b", 2, 1), ("c", 3, 7)]),
        "partial": (PARTIAL, [("a", 1, 5), ("b", 2, 1), ("c", 3, 4)]),
        "first": (FIRST, [("a", 1, 1), ("b", 2, 1), ("c", 3, 3)]),
    }
    for name, (options, found) in expected.items():
        table = new_table(tmp_path / name, options)
        table.upsert(rows(before))
        table.upsert(rows(after))
        table.compact(full=True)
        assert content(table) == content(table, fresh=False) == found, name
    table = Table.open(tmp_path / "sum")
    table.write_changes(rows([("x", 1, 6)]).append_column("kind", pa.array(["-U"])), row_kind="kind")
    assert content(table)[0] == ("a", 1, 0), "the retraction takes nothing of the partition"


@covers("BKT-24")
def test_a_retraction_goes_to_where_its_key_is(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows([("a", 1, 1), ("a", 2, 1), ("b", 3, 1), ("b", 4, 1)]))
    changes = rows([("b", 1, 1), ("z", 9, 1), ("a", 2, 1), ("c", 2, 2)])
    table.write_changes(changes.append_column("kind", pa.array(["-D", "-D", "-U", "+U"])), row_kind="kind")
    assert content(table) == [("b", 3, 1), ("b", 4, 1), ("c", 2, 2)]
    last = table.snapshots()[-1].id
    assert table.delete(pa.table({"k": pa.array([3], pa.int32())})) is not None
    assert table.delete(pa.table({"k": pa.array([1, 77], pa.int32())})) is None, "neither has a row"
    table.delete(where="v = 2")
    assert content(table) == [("b", 4, 1)]
    assert table.snapshots()[-1].id > last
    assert all(one is not None for one in table.to_arrow().column("p").to_pylist())
    assert not any("DEFAULT" in partition for partition, _ in buckets(table))


@covers("BKT-25", "BKT-5", "BKT-7")
@pytest.mark.parametrize("assigners", [1, 2])
def test_a_key_gets_the_first_bucket_with_room(tmp_path: Path, assigners: int) -> None:
    for seed in range(cases(3)):
        drawn = random.Random(seed)
        room = drawn.randint(1, 4)
        table = new_table(tmp_path / f"{seed}", {INITIAL: str(assigners)}, room=room)
        known: dict[tuple[str, int], int] = {}
        for write in range(4):
            batch = [
                (drawn.choice("abc"), key, write) for key in drawn.sample(range(30), drawn.randint(1, 12))
            ]
            if write == 2:  # keys are in buckets that others now have
                table.alter(set_options={INITIAL: str(assigners + 1)})
            expected = with_room(known, batch, room, assigners + (write >= 2))
            opened = Table.open(tmp_path / f"{seed}") if write != 1 else table
            opened.upsert(rows(batch))
            known = places(opened)
            assert known == expected, f"seed {seed}, write {write}"
        assert not check(tmp_path / f"{seed}").findings


def with_room(
    known: Mapping[tuple[str, int], int], batch: Iterable[tuple[str, int, int]], room: int, assigners: int
) -> dict[tuple[str, int], int]:
    """Return the bucket of each row after a write, by partition and key, in the dumbest way."""
    found, at = dict(known), {key: (partition, bucket) for (partition, key), bucket in known.items()}
    held = Counter((partition, bucket) for (partition, _), bucket in known.items())
    for partition, key, _ in batch:
        before, old = at.get(key, (None, abs(murmur(binary_row([key])))))
        if before == partition:
            continue
        own = range(old % assigners, 100, assigners)
        taken = [bucket for bucket in own if (partition, bucket) in held]
        free = [bucket for bucket in own if (partition, bucket) not in held]
        bucket = next((one for one in taken if held[partition, one] < room), free[0])
        held[partition, bucket] += 1
        if before is not None:
            del found[before, key]
        found[partition, key] = bucket
    return found


def places(table: Table) -> dict[tuple[str, int], int]:
    """Return the bucket of each row, by partition and key."""
    context, states = table.catalog.context, table.catalog.states
    parts = plan_read(context, states, table.catalog.state(), fresh=True, predicate=None)
    return {
        (row["p"], row["k"]): part.state.place.bucket
        for part in parts
        for found in read_bucket(context, part, ["p", "k"], None)
        for row in found.to_pylist()
    }


ENGINES = pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "deduplicate", INITIAL: "2"},
        {"merge-engine": "partial-update", INITIAL: "2"},
        {"merge-engine": "partial-update", INITIAL: "2", "partial-update.remove-record-on-delete": "true"},
    ],
    ids=["deduplicate", "partial-update", "with removals"],
)


@covers("BKT-21", "BKT-22", "BKT-23", "BKT-24", "TBL-7")
@ENGINES
def test_drawn_writes_leave_the_rows_of_the_oracle(tmp_path: Path, options: dict[str, str]) -> None:
    engine, removes = options["merge-engine"], len(options) > 2
    for seed in range(cases(3)):
        drawn = random.Random(seed)
        table = new_table(tmp_path / f"{seed}", options, room=2)
        log: list[Change] = []
        for write in range(5):
            kinds = list(RowKind) if engine == "deduplicate" else [RowKind.INSERT, RowKind.UPDATE_AFTER]
            kinds += [RowKind.DELETE] if removes else []
            batch = [
                Change(drawn.choice(kinds), (drawn.choice("abc"), drawn.randint(0, 6), write))
                for _ in range(drawn.randint(1, 9))
            ]
            found = fold(log, lambda row: row[:2], DEDUPLICATE)
            log += placed(SHAPE, engine, batch, found.values(), removes=removes)
            opened = Table.open(tmp_path / f"{seed}") if write % 2 else table
            symbols = pa.array([kind.symbol for kind, _ in batch])
            opened.write_changes(
                rows(cast("Rows", [row for _, row in batch])).append_column("kind", symbols), row_kind="kind"
            )
            expected = sorted(fold(log, lambda row: row[:2], DEDUPLICATE).values(), key=str)
            assert sorted(content(opened), key=str) == expected, f"seed {seed}, write {write}"
        assert len({key for _, key, _ in content(table)}) == len(content(table))


@covers("BKT-22", "BKT-23", "BKT-25", "TBL-21")
@ENGINES
def test_rows_that_come_in_parts_are_placed_as_all_at_once(tmp_path: Path, options: dict[str, str]) -> None:
    for seed in range(cases(4)):
        drawn = random.Random(seed)
        table = new_table(tmp_path / f"{seed}", options, room=2)
        table.upsert(rows([(drawn.choice("ab"), key, 0) for key in drawn.sample(range(12), 6)]))
        context = table.catalog.context
        live = plan_read(context, table.catalog.states, table.catalog.state(), fresh=True, predicate=None)
        batch = rows([(drawn.choice("abc"), drawn.randint(0, 11), number) for number in range(20)])
        kinds = [int(drawn.choice((RowKind.INSERT, RowKind.INSERT, RowKind.DELETE))) for _ in range(20)]
        batch = batch.append_column(KIND_COLUMN, pa.array(kinds, pa.int8()))
        found = []
        for size in (20, 7, 1):
            assigner = MovingKeys(context, live)
            parts = [assigner.placed(batch.slice(at, size)) for at in range(0, 20, size)]
            found.append(
                [
                    (*row.values(), partitions.encoded[number], bucket)
                    for written, partitions, numbers in parts
                    for row, number, bucket in zip(
                        written.to_pylist(), partitions.numbers, numbers, strict=True
                    )
                ]
            )
        assert found[0] == found[1] == found[2], f"seed {seed}"


class AtOperation(LocalFileIO):
    """A store that lets others ``work`` before its n-th operation."""

    def __init__(self, number: int, work: Callable[[], Any]) -> None:
        self.count = 0

        def counted(name: str) -> Callable[..., Any]:
            def operation(*arguments: Any, **named: Any) -> Any:
                self.count += 1
                if self.count == number:
                    work()
                return getattr(LocalFileIO, name)(self, *arguments, **named)

            return operation

        for name in ("read", "exists", "list_names", "delete", "write", "create", "put_if_absent", "open"):
            setattr(self, name, counted(name))


OTHERS: Mapping[str, Callable[[Table], object]] = {
    "the same keys": lambda table: table.upsert(rows([("c", 1, 5), ("c", 4, 5), ("b", 2, 5)])),
    "a deletion": lambda table: table.delete(pa.table({"k": pa.array([1, 4], pa.int32())})),
    "an overwrite": lambda table: table.overwrite(rows([("a", 7, 5)]), where="p = 'a'"),
    "a compaction": lambda table: table.compact(full=True),
}


def work_on(path: Path, work: Callable[[Table], object]) -> None:
    work(Table.open(path))


@covers("BKT-26", "BKT-27", "TBL-10")
@pytest.mark.parametrize("others", OTHERS)
def test_two_writers_never_give_a_key_two_places_whenever_they_meet(tmp_path: Path, others: str) -> None:
    waits = ("a", 8, 0)
    prepared = new_table(tmp_path / "prepared", room=2)
    prepared.upsert(rows([("a", 1, 0), ("a", 2, 0), ("b", 3, 0)]))
    write_only(prepared, [waits])
    mine = [("b", 1, 9), ("b", 4, 9), ("a", 3, 9)]
    number, done = 0, False
    while not done:
        number += 1
        path = Path(shutil.copytree(tmp_path / "prepared", tmp_path / str(number)))
        store = AtOperation(number, partial(work_on, path, OTHERS[others]))
        table = Table.open(path, store=store)
        table.upsert(rows(mine))
        done = store.count < number
        found = content(Table.open(path))
        keys = [key for _, key, _ in found]
        assert len(set(keys)) == len(keys), f"operation {number}: {found}"
        # The row that waits is compacted only if its bucket is written.
        shown = content(Table.open(path), fresh=False)
        assert shown in (found, [row for row in found if row != waits]), f"operation {number}: {shown}"
        if others == "a compaction":
            assert set(mine) <= set(found), f"operation {number}: {found}"
        if number % 4 == 0:
            problems = [one for one in check(path).findings if one.severity == "error"]
            assert not problems, f"operation {number}: {problems}"
        shutil.rmtree(path)
    assert number > 20


@covers("BKT-26", "STM-6")
def test_a_statement_is_computed_again_where_its_keys_came_into_another_partition(tmp_path: Path) -> None:
    new_table(tmp_path / "t", {"write-only": "true"}).upsert(rows([("a", 1, 0)]))
    table = between(
        tmp_path / "t", lambda: Table.open(tmp_path / "t").upsert(rows([("b", 2, 5), ("b", 1, 5)]))
    )
    merge = table.merge(rows([("c", 2, 7), ("c", 1, 7)]), on="k").when_not_matched_insert_all()
    merge.when_matched_update({"v": "source.v + target.v"}).execute()
    assert content(table) == [("b", 1, 12), ("b", 2, 12)]
    assert not check(tmp_path / "t").findings


@covers("BKT-26")
def test_a_write_of_other_keys_need_not_be_placed_again(tmp_path: Path) -> None:
    new_table(tmp_path / "t", {"write-only": "true"}).upsert(rows([("a", 1, 0), ("b", 9, 0)]))
    table = between(tmp_path / "t", lambda: Table.open(tmp_path / "t").upsert(rows([("c", 1, 5)])))
    before = {path.name for path in (tmp_path / "t").rglob("data-*")}
    table.upsert(rows([("d", 9, 1)]))
    made = {path.name for path in (tmp_path / "t").rglob("data-*")} - before
    assert len(made) == 4, "two files of each writer"
    assert content(table) == [("c", 1, 5), ("d", 9, 1)]


@covers("BKT-27", "CMT-14")
@pytest.mark.parametrize(("step", "staged"), [(1, False), (2, False), (2, True)])
def test_a_compaction_becomes_visible_whole(tmp_path: Path, step: int, staged: bool) -> None:
    """Others compact one of the two buckets of a moved key, before its write or its compaction is committed.

    ``staged``: by a compaction that they have planned before the write.
    """
    table = new_table(tmp_path / "t")
    table.upsert(rows([("a", 1, 0), ("b", 2, 0), ("b", 9, 0)]))
    write_only(table, [("b", 9, 1)])
    planned = Table.open(tmp_path / "t").stage_compaction()

    def others(put: Callable[[], Any]) -> Any:
        if staged:
            assert not commit_as_planned(planned, CommitId.new())
        else:
            planned.discard()
            Table.open(tmp_path / "t").upsert(rows([("b", 9, 2)]))
        return put()

    last = len(table.snapshots())
    late = Table.open(tmp_path / "t", store=Hooked("put_if_absent", f"snapshot-{last + step}", others))
    late.upsert(rows([("b", 1, 1)]))
    late.upsert(rows([("a", 2, 2)]))
    for snapshot in table.snapshots():
        keys = late.to_arrow(snapshot=snapshot.id).column("k").to_pylist()
        assert sorted(keys) in ([], [1, 2, 9]), f"snapshot {snapshot.id}"
    assert content(late, fresh=False) == [("a", 2, 2), ("b", 1, 1), ("b", 9, 1 if staged else 2)]


@covers("BKT-28", "STM-7")
def test_an_overwrite_takes_no_key_out_of_a_partition_that_stays(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows([("a", 1, 0), ("a", 2, 0), ("b", 3, 0)]))
    last = len(table.snapshots())
    with pytest.raises(
        InvalidRequestError, match=r"overwrite: key {'k': 3} is in a partition that is not replaced"
    ):
        table.overwrite(rows([("a", 1, 1), ("a", 3, 1)]), where="p = 'a'")
    assert len(table.snapshots()) == last
    table.overwrite(rows([("a", 1, 1), ("a", 4, 1)]), where="p = 'a'")
    assert content(table) == [("a", 1, 1), ("a", 4, 1), ("b", 3, 0)]
    late = between(tmp_path / "t", lambda: Table.open(tmp_path / "t").upsert(rows([("b", 5, 2)])))
    with pytest.raises(InvalidRequestError, match=r"{'k': 5}"):
        late.overwrite(rows([("a", 5, 1)]), where="p = 'a'")
    table.overwrite(rows([("c", 3, 2), ("d", 3, 3)]))
    assert content(table) == [("d", 3, 3)]
    assert not check(tmp_path / "t").findings


@covers("BKT-29", "TBL-16")
def test_what_leaves_a_key_in_two_partitions_is_refused(tmp_path: Path) -> None:
    refused = {
        "bucket=3; only dynamic": {"bucket": "3"},
        "bucket=-2; only dynamic": {"bucket": "-2"},
        "sequence.field;": {"sequence.field": "v"},
        "ignore-delete;": {"ignore-delete": "true"},
    }
    for why, options in refused.items():
        with pytest.raises(InvalidRequestError, match=f"p is not one of the primary-key columns k.*{why}"):
            new_table(tmp_path / "t", options)
    new_table(tmp_path / "partial", {**PARTIAL, "ignore-delete": "true"})
    with pytest.raises(InvalidRequestError, match="all primary-key columns"):
        Table.create(
            tmp_path / "t", COLUMNS, primary_key="p", partition_by=["p", "v"], options={"bucket": "-1"}
        )


@covers("BKT-21")
def test_a_key_with_two_places_is_found_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_table(tmp_path / "t")
    table = between(
        tmp_path / "t", lambda: Table.open(tmp_path / "t").upsert(rows([("a", 1, 1), ("a", 2, 1)]))
    )
    with monkeypatch.context() as patch:
        patch.setattr(changes.Assignment, "conflicts", lambda *_: {})
        table.upsert(rows([("b", 1, 2), ("b", 3, 2)]))
    assert [row[1] for row in content(table)] == [1, 2, 1, 3]
    (finding,) = check(tmp_path / "t").findings
    assert (finding.clause, finding.severity) == ("BKT-21", "error")
    assert "1 key in two" in finding.found
    assert "p=a/bucket-0 and " in finding.found
    with pytest.raises(CorruptFileError, match=r"key {'k': 1}: expected a row in one partition"):
        Table.open(tmp_path / "t").upsert(rows([("c", 1, 3)]))
    table.upsert(rows([("c", 2, 3)]))


@covers("BKT-22", "BKT-23", "RD-1")
@needs_shared
def test_a_table_of_paimon_is_written_on(tmp_path: Path) -> None:
    table, truth = real("pk_crosspart", tmp_path), expected_of("pk_crosspart")
    last = max(truth["snapshots"], key=int)
    before = table.to_arrow(fresh=True)
    assert rows_of(before.to_pylist()) == expected_rows(truth["snapshots"][last]["rows"])
    expected = {row["id"]: row for row in before.to_pylist()}
    for number, (key, row) in enumerate(sorted(expected.items())):
        if number % 3 == 0:
            expected[key] = {**row, "p": "new" if number % 2 else "p2", "v": -number}
    moved = pa.Table.from_pylist(list(expected.values()), before.schema)
    table.upsert(moved)
    table.delete(where="id % 5 = 1")
    table.compact(full=True)
    kept = [row for key, row in expected.items() if key % 5 != 1]
    assert rows_of(Table.open(table.path).to_arrow().to_pylist()) == rows_of(kept)
    assert not [found for found in check(table.path).findings if found.severity == "error"]


@pytest.mark.spark
@covers("BKT-21", "BKT-22", "BKT-23", "BKT-24", "BKT-25", "TBL-21")
@pytest.mark.parametrize(
    "options", [{}, {**AGGREGATION, REMOVES: "true"}, {INITIAL: "2"}], ids=["moves", "stays", "assigners"]
)
def test_tasks_of_spark_move_keys_as_one_process_does(tmp_path: Path, options: Mapping[str, str]) -> None:
    drawn = random.Random(1)
    batches = [
        [(drawn.choice("abcd"), drawn.randint(0, 80), number) for _ in range(60)] for number in range(3)
    ]
    found = []
    for runner in ("local", "spark"):
        new_table(tmp_path / runner, options, room=7)
        table = Table.open(tmp_path / runner, spark=spark_session(), runner=runner)
        for batch in batches:
            table.upsert(rows(batch))
        table.delete(pa.table({"k": pa.array([1, 2, 99], pa.int32())}))
        assert not check(tmp_path / runner).findings
        found.append(content(Table.open(tmp_path / runner)))
    assert found[0] == found[1]
    if "merge-engine" not in options:
        table.update({"p": "'z'"}, where="k < 20")
        assert {row[0] for row in content(Table.open(tmp_path / "spark")) if row[1] < 20} == {"z"}


@covers("BKT-24")
@pytest.mark.parametrize("buffer", ["256 mb", "64 b"])
def test_a_key_that_is_deleted_twice_is_deleted_once(tmp_path: Path, buffer: str) -> None:
    table = new_table(tmp_path / "t", {"write-buffer-size": buffer})
    table.upsert(rows([("a", 1, 0), ("a", 2, 0)]))
    keys = pa.table({"k": pa.array([1, 9, 1, 1], pa.int32())})
    table.delete(pa.concat_tables([keys] * 3))
    assert content(table) == [("a", 2, 0)]
    partitions = {partition for partition, _ in table.catalog.state().files}
    assert len(partitions) == 1


@covers("BKT-28")
def test_an_overwrite_of_what_its_rows_reach_is_refused_by_name(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    table.upsert(rows([("a", 1, 0), ("b", 2, 0)]))
    with pytest.raises(
        InvalidRequestError, match="dynamic is not supported where a key may lie in any partition"
    ):
        table.overwrite(rows([("a", 1, 1)]), dynamic=True)
    assert content(table) == [("a", 1, 0), ("b", 2, 0)]
