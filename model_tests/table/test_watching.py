"""Work that is watched reports how far it has come, and what it took."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pktable
import pytest
from pktable import InvalidRequestError, Measured, Table
from pktable.run.together import together
from pktable_spec.covers import covers

ROWS = [{"id": i, "n": i} for i in range(9)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    options = {"bucket": "3", "deletion-vectors.enabled": "true"}
    return Table.create(tmp_path / "t", "id BIGINT, n INT", primary_key="id", options=options)


def data_files(table: Table) -> set[Path]:
    return set(Path(table.path).rglob("data-*"))


@covers("WH-29")
def test_each_piece_is_reported_when_it_has_ended(table: Table) -> None:
    seen: list[tuple[str, int, int]] = []
    with pktable.watch(progress=lambda *given: seen.append(given)):
        table.upsert(iter(ROWS))
        table.compact(full=True)
        table.check()
    assert ("write rows", 9, 9) in seen
    assert [one for one in seen if one[0] == "compact"][-3:] == [("compact", i, 3) for i in (1, 2, 3)]
    assert ("data files", 3, 3) in seen
    before = len(seen)
    table.compact(full=True)
    assert len(seen) == before, "the block has ended"


@covers("WH-29")
@pytest.mark.parametrize("threads", [1, 2])
def test_pieces_on_threads_are_counted_in_the_thread_of_the_caller(threads: int) -> None:
    seen: list[tuple[Any, ...]] = []

    def progress(*given: Any) -> None:
        seen.append((threading.current_thread(), *given))

    with pktable.watch(progress=progress):
        assert together(str, [1, 2, 3], lambda _: None, threads=threads, what="work") == ["1", "2", "3"]
    assert seen == [(threading.current_thread(), "work", i, 3) for i in (1, 2, 3)]


@covers("WH-29")
@pytest.mark.parametrize("what", ["write rows", "compact"])
def test_a_watcher_that_raises_ends_the_work_without_a_trace(table: Table, what: str) -> None:
    table.alter(set_options={"write-only": "true"})
    for _ in range(2):
        table.upsert(ROWS)
    before, snapshot = data_files(table), table.snapshots()[-1].id

    def stop(found: str, done: int, total: int) -> None:
        if found == what:
            raise KeyboardInterrupt

    work = partial(table.compact, full=True) if what == "compact" else partial(table.upsert, ROWS[:1])
    with pktable.watch(progress=stop), pytest.raises(KeyboardInterrupt):
        work()
    assert data_files(table) == before
    assert table.snapshots()[-1].id == snapshot


@covers("WH-30")
def test_an_operation_is_measured_once_with_its_result_or_error(table: Table) -> None:
    found: list[Measured] = []
    with pktable.watch(metrics=found.append):
        table.upsert(ROWS)
        table.merge([{"id": 1, "n": 5}], on="id").when_matched_update_all().execute()
        table.truncate()
        table.to_arrow()
        assert table.count() == 0
        with pytest.raises(InvalidRequestError):
            table.delete(where="nosuch")
    names = [one.operation for one in found]
    assert names == ["upsert", "merge", "truncate", "read", "count", "delete"]
    assert {one.table for one in found} == {table.path}
    assert all(one.seconds >= 0 for one in found)
    assert found[1].result.effect.updated == 1
    assert isinstance(found[-1].error, InvalidRequestError)
    assert found[-1].result is None


@covers("WH-30")
def test_metrics_that_fail_change_no_result(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    def fail(found: Measured) -> None:
        raise RuntimeError(found.operation)

    with pktable.watch(metrics=fail):
        assert table.upsert(ROWS) is not None
    assert table.count() == 9
    assert "what was to record upsert has failed" in caplog.text


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="metrics: expected a function, found int"):
        pktable.watch(metrics=5).__enter__()  # type: ignore[arg-type]
