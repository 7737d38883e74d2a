"""TLC accepts what actors did on a simulated store, and refuses what they do with a fault of the protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from unittest import mock

from pktable.catalog import fences
from pktable_spec.covers import covers

from model_tests.mutants.protocol import PROTOCOL, jobs_of
from model_tests.simulation.explore import played
from model_tests.simulation.recording import Record
from model_tests.simulation.steps import StoreTrace, trace_of, traced_seed
from model_tests.simulation.tables import USUAL, Job
from model_tests.tlc.models import FOLDER
from model_tests.tlc.store_traces import accepts_stores, data_of

FAULTS: Final = {one.id: one for one in PROTOCOL}
PUT: Final = "put_if_absent snapshot-"
FENCED_BRANCH: Final = 1091
"""A seed: a branch gets fences of its own, which say nothing of the table."""
OVERTAKEN: Final = "a: write only; b: write only, write only, expire most"
STORIES: Final = {
    "overtaken": (OVERTAKEN, f"a to {PUT}; b; a"),
    "sent again": ("a: write only", f"a late {PUT}; a"),
    "dead, and late": ("a: write only", f"a late {PUT}; a crash before read snapshot-"),
    "not sent": ("a: write only", f"a fail {PUT}; a"),
    "another was faster": ("a: write only; b: write only", f"a to {PUT}; b; a"),
    "rolled back": ("a: rollback 2; b: write only", f"a past put_if_absent fence-; b past {PUT}; a; b"),
    "looked after others": (
        "a: write only; b: write only, write only, rollback 1",
        "a past write bucket-; b; a",
    ),
    "committed while it was rolled back": (
        "a: rollback 2; b: write only",
        "a past list_names tag; b; a",
    ),
    "expired before the answer": (OVERTAKEN, f"a lose {PUT}; b; a"),
}
REFUSED: Final = {
    "P01": "Tell",
    "P03": "Lose",
    "P06": "Remove",
    "P19": "Tell",
    "P20": "Remove",
    "P21": "Remove",
    "P22": "LookAfterwards",
    "P23": "LookAfterwards",
    "P29": "Remove",
    "P31": "Lose",
}
"""Faults of what the module is about, and the step that it does not have."""


def trace_of_text(jobs: str, script: str) -> StoreTrace:
    """Return the trace of a story: what each actor does, and how they take turns; see `mutants.protocol`."""
    return trace_of_script(jobs_of(jobs), script.split("; "))


def trace_of_script(jobs: Mapping[str, Job], script: Sequence[str]) -> StoreTrace:
    story: list[Record] = []
    played(dict(jobs), script, story=story)
    return trace_of(story, USUAL)


@covers("CMT-3", "CMT-19", "CMT-35", "CMT-36", "CMT-37", "CMT-38", "CMT-42", "CMT-43")
def test_what_actors_did_is_accepted_and_has_steps_of_every_kind() -> None:
    traces = [trace_of_text(*story) for story in STORIES.values()]
    with mock.patch.object(fences, "RECENT", 0):  # a write that takes long looks once more
        traces.append(trace_of_text(*STORIES["looked after others"]))
    traces += [trace for seed in (0, 1, 2, FENCED_BRANCH) if (trace := traced_seed(seed)[1])]
    text = (FOLDER / "StoreTraces.tla").read_text("utf-8")
    kinds = re.search(r"^Actions == \{(.*?)\}", text, re.M | re.S)
    assert kinds is not None
    assert {step["action"] for trace in traces for step in trace.steps} == set(
        re.findall(r'"(\w+)"', kinds[1])
    )
    found = accepts_stores(traces)
    assert [one.explained for one in found] == [len(trace.steps) for trace in traces]


@covers("CMT-35", "CMT-37", "CMT-38", "CMT-42", "CMT-43", "CMT-44")
def test_a_fault_of_the_protocol_is_a_step_that_the_module_does_not_have() -> None:
    traces = {}
    for id in REFUSED:
        with FAULTS[id].inject():
            traces[id] = trace_of_script(FAULTS[id].jobs, FAULTS[id].script)
    with FAULTS["P02"].inject():  # its own script ends before the names count
        traces["P02"] = trace_of_text(*STORIES["expired before the answer"])
    found = accepts_stores(list(traces.values()))
    steps = {
        id: None if one.accepted else trace.steps[one.explained]["action"]
        for (id, trace), one in zip(traces.items(), found, strict=True)
    }
    assert steps == {**REFUSED, "P02": "FenceExpiry"}


def test_a_step_that_was_seen_otherwise_is_refused() -> None:
    sound = trace_of_text(*STORIES["expired before the answer"])
    wrong: dict[str, object] = {"files": frozenset({1}), "base": 9, "epoch": 1, "id": 99, "saw": "other"}
    wrong |= {"answer": True, "names": frozenset()}
    traces = []
    for name, value in wrong.items():
        steps = [{**step, name: value} if name in step else step for step in sound.steps]
        traces.append(replace(sound, steps=steps))
    assert [one.accepted for one in accepts_stores([sound, *traces])] == [True] + [False] * len(wrong)


def test_no_traces_give_no_verdict_and_an_empty_one_is_accepted() -> None:
    assert accepts_stores([]) == []
    assert [one.accepted for one in accepts_stores([StoreTrace(1, 2, [])])] == [True]
    assert data_of([]) == "---- MODULE StoreTraceData ----\nTraces == <<>>\n====\n"
