"""Statements beside other commits: none undoes what was committed after it had read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import CommitConflictError, Table
from pktable.retry import RetryPolicy
from pktable_spec.covers import covers

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "1"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    table = Table.create(tmp_path / "t", "id INT, n INT", primary_key="id", options=OPTIONS)
    table.upsert([{"id": i, "n": i} for i in range(10)])
    return table


def meanwhile(table: Table, work: Callable[[Table], Any], *, times: int = 1) -> list[int]:
    """Let another do ``work`` after a statement has read and before it commits; return how often it was computed."""
    computed: list[int] = []
    runner, other = table.runner, Table.open(table.path)
    original = runner.write

    def write(*arguments: Any) -> Any:
        computed.append(len(computed) + 1)
        found = original(*arguments)
        if len(computed) <= times:
            work(other)
        return found

    runner.write = write  # type: ignore[assignment,method-assign]
    return computed


def rows(table: Table) -> dict[int, int]:
    found = table.to_arrow()
    assert found.sort_by("id").equals(table.to_arrow(fresh=True).sort_by("id"))
    assert not [one for one in table.check().findings if one.severity == "error"]
    return dict(zip(found.column("id").to_pylist(), found.column("n").to_pylist(), strict=True))


@covers("STM-6")
def test_an_update_of_a_row_that_another_updates_adds_to_it(table: Table) -> None:
    computed = meanwhile(table, lambda other: other.update({"n": "n + 100"}, where="id = 3"))
    table.update({"n": "n + 1000"}, where="id = 3")
    assert computed == [1, 2]
    assert rows(table)[3] == 1103


@covers("STM-6")
def test_a_row_that_another_deletes_and_compacts_away_does_not_come_back(table: Table) -> None:
    def delete(other: Table) -> None:
        other.delete(where="id = 3")
        other.compact(full=True)  # no file tells of the delete any more

    computed = meanwhile(table, delete)
    table.update({"n": "n + 1000"}, where="id >= 3 AND id < 5")
    assert computed == [1, 2]
    assert 3 not in rows(table)


@covers("STM-6")
def test_a_delete_by_condition_leaves_a_row_that_satisfies_it_no_longer(table: Table) -> None:
    computed = meanwhile(table, lambda other: other.upsert([{"id": 3, "n": -1}]))
    assert table.delete(where="n = 3") is None  # the second time there is none
    assert computed == [1, 2]
    assert rows(table)[3] == -1


@covers("STM-6")
def test_a_merge_updates_the_row_that_another_inserts(table: Table) -> None:
    meanwhile(table, lambda other: other.upsert([{"id": 77, "n": 1}]))
    builder = table.merge([{"id": 77, "n": 5}], on="id").when_matched_update({"n": "target.n + source.n"})
    builder.when_not_matched_insert_all().execute()
    assert rows(table)[77] == 6


@covers("STM-6")
@pytest.mark.parametrize(
    "work",
    [
        lambda other: other.upsert([{"id": 9, "n": 9}]),
        lambda other: other.compact(full=True),
        lambda other: other.expire_snapshots(retain_last=1),
    ],
)
def test_other_keys_and_compactions_are_no_reason_to_compute_again(table: Table, work: Any) -> None:
    computed = meanwhile(table, work)
    table.update({"n": "n + 1000"}, where="id = 3")
    assert computed == [1]
    assert rows(table)[3] == 1003


@covers("STM-6", "STM-7")
@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda other: other.truncate(), {}),
        (lambda other: other.overwrite([{"id": 3, "n": 1}]), {3: 1001}),
        (
            lambda other: (other.update({"n": 1}), other.expire_snapshots(retain_last=1)),
            dict.fromkeys(range(10), 1),
        ),
        (lambda other: (other.rollback(snapshot=1), other.upsert([{"id": 3, "n": 2}])), None),
    ],
)
def test_what_replaces_rows_or_history_makes_it_compute_again(
    table: Table, work: Any, expected: dict[int, int] | None
) -> None:
    computed = meanwhile(table, work)
    table.update({"n": "n + 1000"}, where="id = 3")
    assert computed == [1, 2]
    if expected is None:
        assert rows(table)[3] == 1002
    else:
        assert rows(table) == (
            {**expected, 3: expected[3] + (0 if expected[3] > 1000 else 1000)} if expected else {}
        )


@covers("STM-6")
def test_a_statement_gives_up_after_many_tries_and_leaves_nothing(table: Table) -> None:
    table.catalog.committer.policy = RetryPolicy(attempts=3, sleep=lambda _: None)
    computed = meanwhile(table, lambda other: other.update({"n": "n + 1"}, where="id = 3"), times=99)
    with pytest.raises(CommitConflictError, match="in all 3 attempts other writers changed the rows it read"):
        table.update({"n": "n + 1000"}, where="id = 3")
    assert computed == [1, 2, 3]
    assert rows(table)[3] == 6
    assert not table.remove_orphans(older_than="2100-01-01", dry_run=True)


def test_the_rows_of_a_source_that_can_be_read_once_survive_a_second_try(table: Table) -> None:
    meanwhile(table, lambda other: other.upsert([{"id": 3, "n": 50}]))
    batches = pa.table({"id": pa.array([3], pa.int32()), "n": pa.array([7], pa.int32())}).to_reader()
    table.merge(batches, on="id").when_matched_update({"n": "target.n + source.n"}).execute()
    assert rows(table)[3] == 57
