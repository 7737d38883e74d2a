"""An implementation needs eight methods to be tested; what it can do beyond that is drawn only where it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from pktable_conform.judge.history import SHAPES
from pktable_spec.covers import covers
from pktable_spec.interface import (
    BucketId,
    Change,
    CountsRows,
    ExecutesStatements,
    HasConcurrentWriters,
    HasHandles,
    KeepsSnapshots,
    Key,
    RacesStatements,
    ReadsTogether,
    RefusesRequests,
    RollsBack,
    Row,
    ShowsRecords,
    SnapshotInfo,
    StagesWork,
    StoredOnDisk,
    SuffersFaults,
    TableUnderTest,
    TellsItsPlans,
)
from pktable_spec.model.table import ModelTable
from pktable_spec.vocabulary import RowKind

from model_tests import corpus
from model_tests.backends.tables import local_backend
from model_tests.backends.toy import Bucket, File, ToyTable
from model_tests.histories.profiles import Profile
from model_tests.histories.run import run_histories
from model_tests.histories.session import NEEDS, replay

CAPABILITIES = (
    *(ReadsTogether, ShowsRecords, StagesWork, HasConcurrentWriters, StoredOnDisk, SuffersFaults),
    *(KeepsSnapshots, HasHandles, CountsRows, ExecutesStatements, RacesStatements),
    *(RefusesRequests, RollsBack, TellsItsPlans),
)
PROFILE = Profile("toy", histories=60, steps=12, seed=1)
Records = dict[Key, tuple[int, RowKind, Row]]


def capabilities(table: TableUnderTest) -> set[type]:
    return {capability for capability in CAPABILITIES if isinstance(table, capability)}


def test_the_toy_has_the_eight_methods_and_no_capability() -> None:
    needed = {name for name in vars(TableUnderTest) if not name.startswith("_")}
    assert len(needed) == 8
    assert needed <= {name for name in vars(ToyTable) if not name.startswith("_")}
    assert capabilities(ToyTable(SHAPES["int"], {})) == set()


def test_the_backends_have_the_capabilities_that_their_histories_need() -> None:
    assert set(NEEDS.values()) <= set(CAPABILITIES)
    with local_backend() as open_table:
        assert capabilities(open_table(SHAPES["int"], {})) == set(CAPABILITIES)
    in_memory = set(CAPABILITIES) - {
        StoredOnDisk,
        SuffersFaults,
        KeepsSnapshots,
        HasHandles,
        CountsRows,
        ExecutesStatements,
        RacesStatements,
        RefusesRequests,
        RollsBack,
        TellsItsPlans,
    }
    assert capabilities(ModelTable(SHAPES["int"], {})) == in_memory


@covers("RD-1", "RD-3", "MRG-1", "CMP-3")
def test_the_toy_agrees_with_the_oracle_on_what_it_can_do() -> None:
    report = run_histories("toy", PROFILE, open_table=ToyTable)
    assert report.message is None, f"{report.message}\n{report.falsifying_history}"
    assert report.stats.operations.keys() == {"write", "compact", "reopen"}
    assert report.stats.compactions > 40


def test_a_backend_with_capabilities_is_drawn_more() -> None:
    drawn = run_histories("model", replace(PROFILE, histories=80)).stats.operations.keys()
    assert drawn - {"write", "compact", "reopen"} == {
        *("begin write", "begin compaction", "commit", "abandon", "concurrent writes")
    }


@pytest.mark.parametrize("name", corpus.names())
def test_a_stored_history_holds_on_the_toy_without_what_it_cannot_do(name: str) -> None:
    history = corpus.load(name)
    if {"sequence.field", "ignore-delete"} & set(history.options):
        pytest.skip("of a key, the toy keeps the change with the greatest sequence number")
    assert replay(history, ToyTable, PROFILE).histories == 1


class OldestWins(ToyTable):
    def merged(self, files: Sequence[File]) -> Records:
        return super().merged(files[::-1])


class LosesDeletes(ToyTable):
    def merged(self, files: Sequence[File]) -> Records:
        return {key: record for key, record in super().merged(files).items() if record[1].is_add}


class NumbersFromZero(ToyTable):
    def highest(self, files: Bucket) -> int:
        return -1


class CompactsNothing(ToyTable):
    def compacted(self, bucket: BucketId, files: Bucket, *, full: bool) -> Bucket:
        return files


class ForgetsTheFirstSnapshot(ToyTable):
    def snapshots(self) -> Sequence[SnapshotInfo]:
        return super().snapshots()[len(self.history) > 2 :]


class ChangesAnOldSnapshot(ToyTable):
    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        super().write(changes, write_only=write_only)
        if len(self.history) > 3:
            self.history[1] = (self.history[1][0], self.history[0][1])


BROKEN: Mapping[type[ToyTable], str] = {
    OldestWins: "reads_agree",
    LosesDeletes: "reads_agree",
    NumbersFromZero: "appended",
    CompactsNothing: "compacted",
    ForgetsTheFirstSnapshot: "ids_are_dense",
    ChangesAnOldSnapshot: "reads_agree",
}


@covers("RD-3", "LSM-5", "CMP-3", "CMT-1", "CMT-15")
@pytest.mark.parametrize("table", BROKEN, ids=lambda table: table.__name__)
def test_a_broken_toy_is_found_by_the_check_of_what_it_breaks(table: type[ToyTable]) -> None:
    report = run_histories("toy", replace(PROFILE, shrinks=False), open_table=table)
    assert report.check == BROKEN[table], report.message
    assert report.clauses
    assert report.falsifying_history is not None
