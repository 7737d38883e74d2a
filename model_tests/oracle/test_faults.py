"""The machine notices each fault of the oracle, by the check that is meant for it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial

import pytest
from pktable_conform.judge.checks import CheckFailed
from pktable_conform.judge.history import History
from pktable_spec.covers import covers
from pktable_spec.model.graph import Scope, explore
from pktable_spec.model.invariants import broken
from pktable_spec.model.levels import KeyedChange
from pktable_spec.model.mechanism import Mechanism
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.table import ModelTable
from pktable_spec.vocabulary import RowKind

from model_tests import corpus
from model_tests.histories.profiles import Profile
from model_tests.histories.run import run_histories
from model_tests.histories.session import replay
from model_tests.oracle import mechanism_faults as faults

EVERY_STEP = Profile("faults", histories=1, steps=1)
RANDOM = Profile("faults", histories=1_500, steps=20, reread_limit=2, seed=7, shrinks=False)

NOTICED: dict[type[Mechanism], str] = {
    faults.ForgetsMarks: "reads_agree: |newer_runs_hold_newer_records: ",
    faults.MarksNoDeletes: "reads_agree: ",
    faults.DropsRetractionsEarly: "reads_agree: ",
    faults.KeepsVectorsOfRewrittenFiles: "vectors_are_well_formed: a vector names a file that is not live",
    faults.DropsSiblingVectors: "vectors_only_grow: ",
    faults.MarksInputs: "vectors_are_well_formed: a vector names a file that is not live",
    faults.IgnoresVectorsOfInputs: "reads_agree: ",
    faults.PicksSomeOfLevelZero: "compaction_took_the_pick: inputs|level_zero_is_compacted: ",
    faults.OldestWins: "reads_agree: ",
    faults.FirstOfABatchWins: "reads_agree: ",
    faults.RestartsSequences: "appended: sequence numbers start above",
    faults.NumbersWhenBegun: "appended: sequence numbers start above",
    faults.KeepsPlansUnlessRenumbered: "newer_runs_hold_newer_records: ",
    faults.ComparesWhatIsLeft: (
        "level_zero_is_compacted: |reads_agree: |newer_runs_hold_newer_records: |changes_agree: "
    ),
    faults.LooksBehindAtLevelZero: (
        "refusal_agrees: refused by CMT-18|reads_agree: |newer_runs_hold_newer_records: |changes_agree: "
    ),
    faults.CommitsBlindly: "refusal_agrees: committed, though it breaks",
    faults.ChecksInputsOnly: "refusal_agrees: committed, though it breaks CMT-8",
    faults.ChecksBaseVectorsOnly: "refusal_agrees: committed, though it breaks CMT-9",
    faults.UpgradesRetractions: "compaction_took_the_pick: (inputs|upgrades)|metadata_is_true: retractions",
    faults.UpgradeLosesTheFile: "compaction_took_the_pick: upgrades",
    faults.AppendForgetsVectors: "appended: a write changes no vector",
    faults.KeepsOneFilePerSequence: "appended: a write goes to the buckets",
    faults.VectorsOneSnapshotEarly: "appended: a write changes no vector",
    faults.PicksByCountOnly: "compaction_took_the_pick: (inputs|output level)|compacted: |compaction_begins: ",
    faults.LimitBeforeVectors: "reads_agree: ",
    faults.ComparesDeletedRows: "changes_agree: ",
    faults.LevelZeroForgotten: "compacted: |compaction_begins: ",
    faults.ForgetsDeletions: "reads_agree: ",
    faults.TakesDeeperForOlder: "reads_agree: ",
    faults.ComparesLiveRows: "reads_agree: ",
}
"""The check, and the start of its message, by which each fault is noticed."""


ORDERED = {faults.ForgetsDeletions, faults.TakesDeeperForOlder, faults.ComparesLiveRows}
"""Those that only tables with ``sequence.field`` show."""

RARE = {
    # Each needs a schedule of seven steps or more: histories of the corpus, and the graph, hold one.
    faults.DropsRetractionsEarly,
    faults.ChecksInputsOnly,
    faults.ChecksBaseVectorsOnly,
    faults.CommitsBlindly,
    faults.KeepsPlansUnlessRenumbered,
    faults.LooksBehindAtLevelZero,
}


@covers(
    "CMT-7",
    "CMT-8",
    "CMT-9",
    "CMT-18",
    "CMT-33",
    "CMT-54",
    "CMP-13",
    "DV-4",
    "DV-6",
    "DV-9",
    "DV-10",
    "DV-11",
)
@pytest.mark.parametrize("fault", NOTICED, ids=lambda fault: fault.__name__)
def test_a_stored_history_notices(fault: type[Mechanism]) -> None:
    messages = []
    for name in corpus.names():
        messages.append(mismatch(name, fault))
        if messages[-1] and re.match(NOTICED[fault], messages[-1]):
            return
    raise AssertionError(messages)


@pytest.mark.parametrize(
    "fault", [one for one in NOTICED if one not in RARE], ids=lambda fault: fault.__name__
)
def test_the_machine_notices(fault: type[Mechanism]) -> None:
    profile = replace(RANDOM, orders=fault in ORDERED)
    report = run_histories("model", profile, open_table=partial(ModelTable, mechanism=fault))
    assert report.message is not None, f"{fault.__name__} was not noticed in {report.stats}"
    assert re.match(NOTICED[fault], report.message), report.message
    assert report.falsifying_history is not None


def test_a_falsifying_history_replays_to_the_same_mismatch() -> None:
    open_table = partial(ModelTable, mechanism=faults.OldestWins)
    report = run_histories("model", RANDOM, open_table=open_table)
    assert report.falsifying_history is not None
    history = History.from_json(json.loads(report.falsifying_history))
    with pytest.raises(CheckFailed) as found:
        replay(history, open_table, EVERY_STEP)
    assert report.message == str(found.value)


PUTS = tuple((KeyedChange((key,), RowKind.INSERT, (key,)),) for key in (1, 2))
DELETES = ((KeyedChange((1,), RowKind.DELETE, (1,)),),)
SMALL = Scope(PUTS[:1] + DELETES, write_limit=3, compaction_limit=3, crashes=False)
OWN = Scope((*PUTS[:1], DELETES[0] * 2), ("w1", "w2"), ("w1", "w2"), crashes=False)
SCOPES: dict[type[Mechanism], Scope] = {
    faults.ForgetsMarks: SMALL,
    faults.MarksNoDeletes: SMALL,
    faults.IgnoresVectorsOfInputs: SMALL,
    faults.DropsSiblingVectors: SMALL,
    faults.ChecksInputsOnly: Scope(
        PUTS[:1], ("c1", "c2"), (), write_limit=3, compaction_limit=4, crashes=False
    ),
    # Without a second key the file that is gone is never one that had no vector: 4 compactions do not do it.
    faults.ChecksBaseVectorsOnly: Scope(
        PUTS, ("c1", "c2"), (), write_limit=3, compaction_limit=4, crashes=False
    ),
    faults.IgnoresChangedVectors: Scope(
        PUTS, ("c1", "c2"), (), write_limit=3, compaction_limit=4, crashes=False
    ),
    faults.ComparesWhatIsLeft: OWN,
    faults.LooksBehindAtLevelZero: OWN,
}


@covers("CMT-8", "CMT-9", "CMT-18", "CMT-33", "DV-12")
@pytest.mark.parametrize("fault", SCOPES, ids=lambda fault: fault.__name__)
def test_an_invariant_notices_in_a_small_scope(fault: type[Mechanism]) -> None:
    mechanism = fault(ModelOptions(num_levels=4, trigger=9))
    assert any(broken(mechanism, state) for state in explore(mechanism, SCOPES[fault]))


def mismatch(name: str, fault: type[Mechanism]) -> str | None:
    """Return the message by which a stored history notices a fault, None if it does not."""
    try:
        replay(corpus.load(name), partial(ModelTable, mechanism=fault), EVERY_STEP)
    except CheckFailed as failure:
        return str(failure)
    except AssertionError as failure:  # of the faulty oracle itself
        return f"accident: {failure}"
    return None
