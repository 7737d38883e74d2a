"""Module Traces accepts what tables do, the oracle and the local runner, and refuses what they do with a fault.

`make verify` has TLC explain many more walks of the oracle, and tables of the local runner and Spark.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from pktable_spec.covers import covers
from pktable_spec.model.mechanism import RECORD_SIZE, Mechanism
from pktable_spec.model.options import ModelOptions
from pktable_spec.model.table import ModelTable

from model_tests.oracle import mechanism_faults as faults
from model_tests.tlc.table_traces import SHAPE, TABLE_OPTIONS, traces_of, worked_on
from model_tests.tlc.traces import Event, Trace, accepts, data_of, walk

OPTIONS = ModelOptions(num_levels=4, trigger=3, target_file_size=2 * RECORD_SIZE)
PLAIN = replace(OPTIONS, deletion_vectors=False)


# Not LevelZeroForgotten: a table that never compacts level 0 is slow, and no step of it is wrong.
FAULTS = (
    faults.ForgetsMarks,
    faults.MarksNoDeletes,
    faults.KeepsVectorsOfRewrittenFiles,
    faults.DropsSiblingVectors,
    faults.IgnoresVectorsOfInputs,
    faults.CommitsBlindly,
    faults.NumbersWhenBegun,
    faults.UpgradeLosesTheFile,
    faults.AppendForgetsVectors,
    faults.VectorsOneSnapshotEarly,
    faults.LimitBeforeVectors,
)


WALKS = 3
WALKS_OF_RARE = {
    faults.DropsSiblingVectors: 6,
    faults.LimitBeforeVectors: 6,
}  # that many walks do not come to


@covers("CMP-12", "DV-4", "DV-9", "DV-10", "DV-17", "DV-14", "CMT-6", "CMT-10")
@covers("CMP-1", "CMP-9", "CMP-15", "DV-6", "CMT-7", "LSM-5", "LSM-10", "RD-1")
def test_walks_of_a_faulty_oracle_are_rejected_and_sound_ones_accepted() -> None:
    sound = [walk(Mechanism(options), Random(seed), 30) for options in (OPTIONS, PLAIN) for seed in range(2)]
    walked = [fault for fault in FAULTS for _ in range(WALKS_OF_RARE.get(fault, WALKS))]
    faulty = [walk(fault(OPTIONS), Random(walked[:at].count(fault)), 30) for at, fault in enumerate(walked)]
    verdicts = [one.accepted for one in accepts([*sound, *faulty])]
    assert verdicts[: len(sound)] == [True] * len(sound)
    noticed = {fault for fault, one in zip(walked, verdicts[len(sound) :], strict=True) if not one}
    assert noticed == set(FAULTS)


def test_a_verdict_tells_how_far_a_trace_was_explained() -> None:
    sound = walk(Mechanism(OPTIONS), Random(1), 20)
    last = max(at for at, event in enumerate(sound.events) if event.action == "Write" and event.after.rows)
    event = sound.events[last]
    wrong = (
        replace(event.after, snapshot=event.after.snapshot + 1),
        replace(event.after, files=event.after.files[1:]),
        replace(event.after, rows=(*event.after.rows, ((9,), (9,)))),
        replace(event.after, rows=event.after.rows * 2),
        replace(event.after, vectors=event.after.vectors | {("nobody", 0)}),
    )
    before, later = sound.events[:last], sound.events[last + 1 :]
    traces = [replace(sound, events=(*before, replace(event, after=after), *later)) for after in wrong]
    assert [(one.accepted, one.explained) for one in accepts(traces)] == [(False, last)] * len(wrong)


def test_an_empty_trace_is_accepted_and_no_traces_give_no_verdict() -> None:
    assert [one.accepted for one in accepts([Trace((), 4, 3)])] == [True]
    assert accepts([]) == []
    assert data_of([]) == "---- MODULE TraceData ----\nTraces == <<>>\n====\n"


@covers("CMT-20", "CMT-25", "CMT-2", "CMT-7", "CMP-3", "DV-14")
@pytest.mark.parametrize("backend", ["model", "local"])
def test_what_a_table_did_is_accepted(backend: str) -> None:
    traces = traces_of(backend, 2, 40)
    assert {event.action for trace in traces for event in trace.events} >= {
        *("Write", "BeginWrite", "CommitWrite", "PlanCompaction", "CommitCompaction", "Crash")
    }
    assert [(one.explained, one.accepted) for one in accepts(traces)] == [
        (len(t.events), True) for t in traces
    ]


def test_one_of_two_buckets_is_accepted_by_itself() -> None:
    options = {**TABLE_OPTIONS, "bucket": "2"}
    traces = []
    for seed in range(2):
        recorder = worked_on(ModelTable(SHAPE, options), Random(seed), 40, bucket_count=2)
        traces.append(recorder.trace(options))
    assert [one.accepted for one in accepts(traces)] == [True] * 2


def test_what_a_faulty_table_did_is_rejected() -> None:
    culprits = (faults.ForgetsMarks, faults.MarksNoDeletes, faults.CommitsBlindly, faults.LimitBeforeVectors)
    tables = [(ModelTable(SHAPE, TABLE_OPTIONS, fault), seed) for fault in culprits for seed in (0, 2)]
    verdicts = accepts([worked_on(table, Random(seed), 40).trace(TABLE_OPTIONS) for table, seed in tables])
    noticed = {
        type(table.mechanism) for (table, _), one in zip(tables, verdicts, strict=True) if not one.accepted
    }
    assert noticed == set(culprits)


def test_events_are_plain_values_that_compare_equal() -> None:
    one, other = (walk(Mechanism(OPTIONS), Random(3), 10) for _ in range(2))
    assert one == other
    assert isinstance(one.events[0], Event)
