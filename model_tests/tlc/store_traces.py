"""Runs of the simulation, which TLC checks against module StoreTraces: is each a behaviour of StoreOperations?"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, Final

from model_tests.simulation.steps import StoreTrace
from model_tests.tlc.models import PASSES, Expected, Model
from model_tests.tlc.traces import UNBOUNDED, Verdict, explained
from model_tests.tlc.values import spelled

FIXED: Final[dict[str, Any]] = {
    "Batches": [],
    "BucketCount": 1,
    "Vectors": True,
    "MaxLevel": 1,
    "Trigger": 3,
    "Compactors": "{}",
    "Readers": "{}",
    "PutIfAbsent": True,
    "Lock": False,
    "Crashes": True,
    "AnswersLost": True,
    "Expiry": True,
    "CompactionLimit": 0,
    "TagLimit": 0,
    "WriteLimit": UNBOUNDED,
    "RollbackLimit": UNBOUNDED,
}


def accepts_stores(traces: Sequence[StoreTrace], batch: int = 50, side_by_side: int = 2) -> list[Verdict]:
    """Return how far each trace is a behaviour of StoreOperations.

    At most ``batch`` traces share a run of TLC. Raises InvalidRequestError where TLC fails.
    """
    parts = [traces[start : start + batch] for start in range(0, len(traces), batch)]
    with ThreadPoolExecutor(side_by_side) as pool:
        return list(chain.from_iterable(pool.map(_run, parts)))


def _run(traces: Sequence[StoreTrace]) -> list[Verdict]:
    reached = explained(model_of(traces), "StoreTraceData", data_of(traces), len(traces))
    return [Verdict(one, len(trace.steps)) for one, trace in zip(reached, traces, strict=True)]


def data_of(traces: Sequence[StoreTrace]) -> str:
    """Return the module StoreTraceData that holds ``traces``."""
    values = [{"expired": one.expired, "latest": one.latest, "events": one.steps} for one in traces]
    return f"---- MODULE StoreTraceData ----\nTraces == {spelled(values)}\n====\n"


def model_of(traces: Sequence[StoreTrace]) -> Model:
    """Return the model that reads traces. The first letter of a job says whether it commits, expires or rolls back."""
    names = {str(step["job"]) for trace in traces for step in trace.steps} | {"j1"}
    jobs = {kind: frozenset(name for name in names if name.startswith(kind)) for kind in "jer"}
    return Model(
        "traces of stores",
        "",
        "StoreTraces",
        {
            **FIXED,
            "Writers": spelled(jobs["j"]),
            "Expirers": spelled(jobs["e"]),
            "Rollers": spelled(jobs["r"]),
        },
        Expected(PASSES, 0),
        "TraceSpec",
        invariants=("StoreTraceTypeOK",),
    )
