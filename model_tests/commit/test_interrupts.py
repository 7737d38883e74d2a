"""Commits that are interrupted, or refused by the store, after their snapshot file is there: nothing of them goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pktable import Table
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.errors import CommitUnknownError, OutsideTableError

from model_tests.commit.hooks import OPTIONS, Hooked, write
from model_tests.commit.test_races import expect_sound


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = Table.create(tmp_path / "t", "id BIGINT, v STRING", primary_key=["id"], options=OPTIONS)
    write(table, 1, 2)
    return tmp_path / "t"


@covers("CMT-12", "CMT-38")
@pytest.mark.parametrize("name", ["LATEST", "snapshot-3"])
def test_a_commit_that_is_interrupted_after_its_snapshot_is_there_keeps_its_files(
    path: Path, name: str
) -> None:
    def interrupted(operation: Callable[[], Any]) -> Any:
        operation()
        raise KeyboardInterrupt

    store = Hooked("write" if name == "LATEST" else "put_if_absent", f"/{name}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(Table.open(path, store=store), 100)
    expect_sound(path, 1, 2, 100)


@covers("CMT-38", "CMT-39")
def test_a_commit_that_is_interrupted_again_while_it_finds_out_its_outcome_keeps_its_files(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    def interrupted(put: Callable[[], Any]) -> Any:
        put()
        monkeypatch.setattr(store, "list_names", again)
        raise KeyboardInterrupt

    def again(directory: str) -> list[str]:
        monkeypatch.setattr(store, "list_names", lambda directory: LocalFileIO().list_names(directory))
        raise KeyboardInterrupt

    store = Hooked("put_if_absent", "/snapshot-3", interrupted)
    try:
        write(Table.open(path, store=store), 100)
        pytest.fail("it was interrupted")
    except KeyboardInterrupt:
        pytest.fail("a caller would take it for not committed")
    except CommitUnknownError:
        pass
    expect_sound(path, 1, 2, 100)


@covers("CMT-38", "CMT-39")
def test_a_commit_whose_fences_are_refused_after_its_put_keeps_its_files(
    monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    def refused(directory: str) -> list[str]:
        raise OutsideTableError(directory, "/elsewhere")

    def put_and_no_more(put: Callable[[], Any]) -> Any:
        monkeypatch.setattr(store, "list_names", refused)
        return put()

    store = Hooked("put_if_absent", "/snapshot-3", put_and_no_more)
    with pytest.raises(CommitUnknownError):
        write(Table.open(path, store=store), 100)
    expect_sound(path, 1, 2, 100)
