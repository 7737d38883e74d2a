"""All that is held against TLC, as steps that report and return counts.

`model_tests.tlc.__main__` prints them; another command can run them by `run`, or one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from pktable_spec.model.mechanism import RECORD_SIZE, Mechanism
from pktable_spec.model.options import ModelOptions

from model_tests.tlc import counterexamples, coverage, state_graph
from model_tests.tlc.checker import Outcome, run_models
from model_tests.tlc.counterexamples import is_kept
from model_tests.tlc.models import PASSES, Model, load
from model_tests.tlc.traces import Trace, accepts, walk

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """One line of the summary: how much was checked, and what was not as expected."""

    what: str
    models: int = 0
    states: int = 0
    edges: int = 0
    traces: int = 0
    problems: tuple[str, ...] = ()


def run(say: Say = lambda line: None) -> list[Result]:
    """Check everything. Raises InvalidRequestError where TLC cannot be run or a model is malformed."""
    models = load()
    return [check_coverage(models), *check_models(models, say), check_graphs(say), check_traces(say)]


def step_count() -> int:
    """Return how many lines `run` says."""
    return len(load()) + len(state_graph.SCOPES) + 1


def check_models(
    models: Sequence[Model], say: Say = lambda line: None, *, all_of_them: bool = True
) -> list[Result]:
    """Run models: those that must hold, and those that must fail. Of some only, tell the steps too."""
    done = 0

    def progress(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        mark = "FAILED" if outcome.problem else "ok"
        say(
            f"{done:>3}/{len(models)} {mark:<6} {outcome.model.name:<44} {outcome.violated:<32} "
            f"{outcome.states:>7,} states {outcome.seconds:>5.1f} s"
        )
        if outcome.trace and not all_of_them and is_kept(outcome.model):
            say(counterexamples.as_text(counterexamples.history(outcome)))

    probes = coverage.probes(coverage.roots_of(models)) if all_of_them else None
    outcomes = run_models(models, progress, probed=probes.modules if probes else {})
    sound = [one for one in outcomes if one.model.expected.violated == PASSES]
    faulty = [one for one in outcomes if one.model.expected.violated != PASSES]
    kept = [one for one in faulty if is_kept(one.model)]
    wrong = tuple(counterexamples.problems(outcomes, all_of_them=all_of_them))
    results = [
        _result("models that hold", sound),
        _result("models that must fail", faulty),
        Result("stored counterexamples", models=len(kept), problems=wrong),
    ]
    return [*results, check_reached(probes, outcomes)] if probes else results


def check_reached(probes: coverage.Probes, outcomes: Sequence[Outcome]) -> Result:
    """Every branch is evaluated, and every condition comes out true and false, in some model with probes."""
    probed = [one for one in outcomes if one.model.probed]
    numbers = {number for one in probed for number in coverage.numbers_in(one.printed)}
    found = coverage.problems(probes.unreached(numbers))
    return Result(f"{len(probes.points)} branches and conditions", models=len(probed), problems=tuple(found))


def _result(what: str, outcomes: Sequence[Outcome]) -> Result:
    problems = tuple(one.problem for one in outcomes if one.problem)
    return Result(what, len(outcomes), sum(one.states for one in outcomes), problems=problems)


def check_coverage(models: Sequence[Model]) -> Result:
    """Every property that a model says to hold is one that another model sees violated."""
    held = {
        one
        for model in models
        if model.expected.violated == PASSES
        for one in (*model.invariants, *model.properties)
    }
    seen = {model.expected.violated for model in models}
    problems = tuple(f"{one}: no model violates it" for one in sorted(held - seen))
    return Result("properties that can fail", models=len(held & seen), problems=problems)


def check_graphs(say: Say = lambda line: None) -> Result:
    """Compare the state graph of the oracle with TLC's in every scope."""
    states = edges = 0
    problems = []
    with ThreadPoolExecutor(2) as pool:
        for name, found in zip(
            state_graph.SCOPES, pool.map(state_graph.compare, state_graph.SCOPES), strict=True
        ):
            verdict = found.problem or "equal"
            say(f"graph   {name:<44} {found.states:>7,} states {found.edges:>7,} edges {verdict}")
            states, edges = states + found.states, edges + found.edges
            if found.problem:
                problems.append(f"graph {name}: {found.problem}")
    return Result(
        "state graphs, oracle and TLC", len(state_graph.SCOPES), states, edges, problems=tuple(problems)
    )


WALKS: Final = 200
WALK_LENGTH: Final = 60
WALKED: Final = ModelOptions(num_levels=4, trigger=3, target_file_size=2 * RECORD_SIZE)


def check_traces(say: Say = lambda line: None, walks: int = WALKS) -> Result:
    """Have TLC accept random walks of the oracle: 3 keys, 4 levels, a writer and two compactors."""
    traces = [walk(Mechanism(WALKED), Random(seed), WALK_LENGTH) for seed in range(walks)]
    return accepted("traces of the oracle", traces, say)


def accepted(what: str, traces: Sequence[Trace], say: Say = lambda line: None) -> Result:
    """Have TLC accept ``traces``, which were made with the seeds 0, 1, …"""
    verdicts = accepts(traces)
    problems = tuple(
        f"seed {seed}: event {one.explained + 1} of {one.events} is no step of the specification"
        for seed, one in enumerate(verdicts)
        if not one.accepted
    )
    steps = sum(one.explained for one in verdicts)
    say(f"traces  {what}: {len(traces)}, {steps:,} events explained, {len(problems)} refused")
    return Result(what, states=steps, traces=len(traces), problems=problems)


HEADINGS: Final = ("models", "states", "edges", "traces")


def table(results: Sequence[Result]) -> str:
    """Return the results as lines of text."""
    lines = [f"{'checked by TLC':<32}" + "".join(f"{one:>10}" for one in HEADINGS) + f"{'problems':>10}"]
    for result in results:
        counts = "".join(f"{getattr(result, one) or '':>10}" for one in HEADINGS)
        lines.append(f"{result.what:<32}{counts}{len(result.problems):>10}")
    return "\n".join(lines)
