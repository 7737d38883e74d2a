"""The tests, tested: the machine notices each fault, by the check that is meant for it."""

from __future__ import annotations

import re
from functools import partial

import pytest

from model_tests import faults
from model_tests.harness import run_histories
from model_tests.profiles import Profile
from pktable_spec.covers import covers
from pktable_spec.model.mechanism import Mechanism
from pktable_spec.model.table import ModelTable

THOROUGH = Profile("faults", histories=3_000, steps=20, seed=7)

NOTICED: dict[type[Mechanism], str] = {
    faults.ForgetsMarks: "read of snapshot|older run",
    faults.MarksNoDeletes: "read of snapshot",
    faults.DropsRetractionsEarly: "read of snapshot",
    faults.KeepsVectorsOfRewrittenFiles: "names a file that is not live",
    faults.DropsSiblingVectors: "lost marks",
    faults.MarksInputs: "names a file that is not live",
    faults.IgnoresVectorsOfInputs: "read of snapshot",
    faults.PicksSomeOfLevelZero: "inputs: expected",
    faults.OldestWins: "read of snapshot",
    faults.FirstOfABatchWins: "read of snapshot",
    faults.RestartsSequences: "sequence numbers start above",
    faults.NumbersWhenBegun: "sequence numbers start above",
    faults.CommitsBlindly: "committed, though|removes no file",
    faults.ChecksInputsOnly: "the vectors of .* had changed|names a file that is not live",
    faults.ChecksBaseVectorsOnly: "names a file that is not live",
    faults.UpgradesRetractions: "inputs|upgrades|retractions",
    faults.UpgradeLosesTheFile: "upgrades: expected",
    faults.AppendForgetsVectors: "a write changes no vector",
    faults.KeepsOneFilePerSequence: "a write goes to the buckets",
    faults.VectorsOneSnapshotEarly: "a write changes no vector",
    faults.PicksByCountOnly: "inputs: expected|output level|expected",
    faults.LimitBeforeVectors: "read of snapshot",
    faults.LevelZeroForgotten: "nothing was compacted|expected",
}


@covers("CMT-9", "CMT-8", "DV-4", "DV-6", "DV-10", "DV-11")
@pytest.mark.parametrize("fault", NOTICED, ids=lambda fault: fault.__name__)
def test_the_machine_notices(fault: type[Mechanism]) -> None:
    report = run_histories("model", THOROUGH, open_table=partial(ModelTable, mechanism=fault))
    assert report.mismatches == 1, f"{fault.__name__} was not noticed in {report.stats}"
    assert report.message is not None
    assert re.search(NOTICED[fault], report.message), report.message
