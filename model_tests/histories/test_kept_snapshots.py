"""Histories find a table that loses, leaves or mixes up what expiry, tags, counts and several handles depend on."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.judge.history import BULK, SHAPES, History, Operation
from pktable_spec.covers import covers
from pktable_spec.interface import EVERYTHING, Query, Row, Shape

from model_tests.backends.tables import PaimonTable, local_backend
from model_tests.histories.profiles import Profile
from model_tests.histories.session import replay

PROFILE = Profile("kept", histories=1, steps=1)


def insert(*keys: int, **fields: Any) -> Operation:
    return Operation("write", changes=tuple(("+I", (key, "a")) for key in keys), **fields)


HISTORY = History(
    SHAPES["int"],
    {"bucket": "1"},
    [
        insert(0, 1),
        Operation("tag", tag="spring"),
        insert(1, 2, handle=1),
        Operation("expire", number=1, handle=2),
        insert(3),
        Operation("tag", tag="autumn", number=1, handle=1),
        insert(-1, handle=2, write_only=True),
        Operation("compact", full=True, handle=1),
        Operation("expire", number=2),
        Operation("delete tag", tag="spring", handle=2),
        Operation("delete tag", tag="autumn"),
        Operation("reopen", handle=1),
    ],
)


class LeavesFiles(PaimonTable):
    def expire(self, retain_last: int) -> None:
        for snapshot in self.snapshots()[:-retain_last]:
            (self.directory / "snapshot" / f"snapshot-{snapshot.id}").unlink()


class LosesAManifest(PaimonTable):
    def expire(self, retain_last: int) -> None:
        super().expire(retain_last)
        (self.directory / "manifest" / str(self.table.snapshots()[-1].base_manifest_list)).unlink()


class LosesWhatATagKeeps(PaimonTable):
    """The files go with the snapshot, as where an expiry does not look at tags."""

    def expire(self, retain_last: int) -> None:
        tags = list((self.directory / "tag").glob("*"))
        held = [tag.read_bytes() for tag in tags]
        for tag in tags:
            self.table.delete_tag(tag.name.removeprefix("tag-"))
        super().expire(retain_last)
        for tag, data in zip(tags, held, strict=True):
            tag.write_bytes(data)


class ExpiresTooFew(PaimonTable):
    def expire(self, retain_last: int) -> None:
        super().expire(retain_last + 1)


class ExpiresTooMany(PaimonTable):
    def expire(self, retain_last: int) -> None:
        super().expire(1)


class ReadsTheLatestByTag(PaimonTable):
    def read_tag(self, tag: str, *, fresh: bool = False) -> list[Row]:
        return self.read(fresh=fresh)


class CountsLevelZero(PaimonTable):
    def count(self, *, snapshot: int | None = None, fresh: bool = False) -> int:
        return super().count(snapshot=snapshot, fresh=True)


class ReadsWhatItsHandleSawFirst(PaimonTable):
    def read(
        self, *, snapshot: int | None = None, fresh: bool = False, query: Query = EVERYTHING
    ) -> list[Row]:
        seen: dict[int, int] = self.__dict__.setdefault("seen", {})
        retained = [one.id for one in self.table.snapshots()]
        latest = max(retained[0], seen.setdefault(id(self.table), retained[-1]))
        return super().read(snapshot=snapshot or latest, fresh=fresh, query=query)


class NeverBeginsAnotherFile(PaimonTable):
    def __init__(self, shape: Shape, options: Mapping[str, str], path: Path, spark: Any = None) -> None:
        super().__init__(shape, {**options, "target-file-size": "128 mb"}, path, spark)


BROKEN: Mapping[type[PaimonTable], str] = {
    LeavesFiles: "exactly_what_is_unnamed_was_removed",
    LosesAManifest: "exactly_what_is_unnamed_was_removed",
    LosesWhatATagKeeps: "exactly_what_is_unnamed_was_removed",
    ExpiresTooFew: "ids_are_dense",
    ExpiresTooMany: "ids_are_dense",
    ReadsTheLatestByTag: "tag_agrees",
    CountsLevelZero: "count_agrees",
    ReadsWhatItsHandleSawFirst: "reads_agree",
}


def replay_on(table: type[PaimonTable], history: History, path: Path) -> None:
    numbers = itertools.count()

    def open_table(shape: Shape, options: Mapping[str, str]) -> PaimonTable:
        return table(shape, options, path / str(next(numbers)))

    replay(history, open_table, PROFILE)


@covers("CMT-16", "CMT-17", "CMT-31", "RD-4")
@pytest.mark.parametrize("table", BROKEN, ids=lambda table: table.__name__)
def test_a_broken_table_is_found_by_the_check_of_what_it_breaks(
    table: type[PaimonTable], tmp_path: Path
) -> None:
    with pytest.raises(CheckFailed) as found:
        replay_on(table, HISTORY, tmp_path)
    assert found.value.check == BROKEN[table], found.value


def test_the_history_is_green_on_the_table_itself(tmp_path: Path) -> None:
    replay_on(PaimonTable, HISTORY, tmp_path)


@covers("CMP-15")
def test_a_file_that_grows_beyond_its_target_size_is_found(tmp_path: Path) -> None:
    everything = tuple(("+I", (key, BULK)) for key in (-1, 0, 1, 2))
    options = {"target-file-size": "2 kb", "parquet.block.row.count.limit": "2"}
    history = History(SHAPES["int"], options, [Operation("write", changes=everything, write_only=True)])
    with pytest.raises(CheckFailed, match="files_are_closed_in_time"):
        replay_on(NeverBeginsAnotherFile, history, tmp_path)
    replay_on(PaimonTable, history, tmp_path / "right")


def test_handles_have_caches_of_their_own_and_one_is_a_copy() -> None:
    with local_backend() as open_table:
        table = open_table(SHAPES["int"], {})
        assert isinstance(table, PaimonTable)
        handles = []
        for number in range(3):
            table.use(number)
            handles.append(table.table)
        assert len({id(one) for one in handles}) == 3
        assert len({id(one.catalog.snapshots) for one in handles}) == 3
        table.use(1)
        assert table.table is handles[1]
        table.reopen()
        assert table.table is not handles[1]
