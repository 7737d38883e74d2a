"""All that is held against TLC, as steps that report and return counts.

`model_tests.tlc.__main__` prints them; another command can run them by `run`, or one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Final, TypeAlias

from pktable_spec.errors import InvalidRequestError
from pktable_spec.model.mechanism import RECORD_SIZE, Mechanism
from pktable_spec.model.options import ModelOptions

from model_tests.tlc import counterexamples, coverage, record, state_graph, wrong_types
from model_tests.tlc.checker import FLAGS, Outcome, Source, check, of_entry, printed_for, run_models
from model_tests.tlc.counterexamples import is_kept, path_of
from model_tests.tlc.models import PASSES, Model, load, modules_of
from model_tests.tlc.traces import Trace, accepts, walk

Say: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Result:
    """One line of the summary: how much was checked, and what was not as expected.

    ``run``: by TLC now; ``machine``, ``repository``: by whose record.
    """

    what: str
    models: int = 0
    states: int = 0
    edges: int = 0
    traces: int = 0
    problems: tuple[str, ...] = ()
    run: int = 0
    machine: int = 0
    repository: int = 0


def run(say: Say = lambda line: None, *, write: bool = False) -> list[Result]:
    """Check everything. Raises InvalidRequestError where TLC cannot be run or a model is malformed.

    ``write``: whether to write the repository's record of what is as expected.
    """
    if write and record.used() == "repository":  # it does not hold what a run printed
        raise InvalidRequestError(
            f"the repository's record is made from whole runs: expected {record.VARIABLE} to be none or machine"
        )
    models = load()
    results = [check_coverage(models), *check_models(models, say, write=write)]
    if write or record.used() != "machine":  # the tests take them from the repository's record
        results.append(check_types(say, write=write))
    return [*results, check_graphs(say, write=write), check_traces(say)]


def step_count() -> int:
    """Return how many lines `run` says."""
    types = len(wrong_types.ALL) if record.used() != "machine" else 0
    return len(load()) + types + len(state_graph.SCOPES) + 1


def check_models(
    models: Sequence[Model],
    say: Say = lambda line: None,
    *,
    all_of_them: bool = True,
    write: bool = False,
) -> list[Result]:
    """Run models: those that must hold, and those that must fail. Of some only, tell the steps too.

    ``write``: whether to write the repository's record of them.
    """
    done = 0

    def progress(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        mark = "FAILED" if outcome.problem else "ok"
        took = f"{outcome.seconds:>5.1f} s" if outcome.source == "run" else "on record"
        say(
            f"{done:>3}/{len(models)} {mark:<6} {outcome.model.name:<44} {outcome.violated:<32} "
            f"{outcome.states:>7,} states {took}"
        )
        if outcome.trace and not all_of_them and is_kept(outcome.model):
            say(counterexamples.as_text(counterexamples.history(outcome)))

    keys = {model.name: key_of(model) for model in models} if write else {}  # of the files as they are now
    probes = coverage.probes(coverage.roots_of(models)) if all_of_them else None
    modules = probes.modules if probes else {}
    outcomes = run_models(models, progress, checked=lambda model: checked(model, modules))
    sound = [one for one in outcomes if one.model.expected.violated == PASSES]
    faulty = [one for one in outcomes if one.model.expected.violated != PASSES]
    kept = [one for one in faulty if is_kept(one.model)]
    wrong = tuple(counterexamples.problems(outcomes, all_of_them=all_of_them))
    results = [
        _result("models that hold", sound),
        _result("models that must fail", faulty),
        Result("stored counterexamples", models=len(kept), problems=wrong),
    ]
    if not probes:
        return results
    results.append(check_reached(probes, outcomes))
    if write and not any(one.problems for one in results):
        record.store({**record.stored(), "models": entries(outcomes, probes, keys)})
    return results


def checked(model: Model, modules: Mapping[str, str]) -> Outcome:
    """Take what is on record of a model, or run it; on ``modules`` with probes, if it asks for that."""
    found = record.entry("models", model.name, key_of(model))
    if found and (not is_kept(model) or found["history"] == counterexamples.digest(path_of(model))):
        return of_entry(model, found)
    return check(model, modules if model.probed else {}, again=record.is_due("models", model.name))


def key_of(model: Model) -> str:
    """Return the key of a model in the repository's record: to know it asks for no run of SANY."""
    root = model.extends.split(",")[0].strip()
    return record.key_of(model.files(), *FLAGS, *([_key_of_probes(root)] if model.probed else []))


@cache
def _key_of_probes(root: str) -> str:
    groups = coverage.groups_of(modules_of(coverage.roots_of(load())))
    return coverage.key_of(next(group for group in groups if root in group))


def entries(
    outcomes: Sequence[Outcome], probes: coverage.Probes, keys: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return what the repository keeps of outcomes, by the name of the model.

    ``reached``: the numbers of the probes that a model reached and none before it.
    """
    found, before = {}, dict[int, set[int]]()
    for one in outcomes:
        entry: dict[str, Any] = {"violated": one.violated, "states": one.states}
        if is_kept(one.model):
            entry["history"] = counterexamples.digest(path_of(one.model))
        if one.model.probed:
            numbers = coverage.numbers_in(one.printed)
            known = before.setdefault(probes.first_of(one.model), set())
            entry["reached"] = as_ranges(numbers - known)
            known |= numbers
        found[one.model.name] = {"key": keys[one.model.name], **entry}
    return found


def as_ranges(numbers: Iterable[int]) -> str:
    """Return numbers as ``"1-3 7"``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def in_ranges(text: str) -> set[int]:
    """Return the numbers that `as_ranges` has written."""
    ranges = (one.partition("-") for one in text.split())
    return {number for first, _, last in ranges for number in range(int(first), int(last or first) + 1)}


def check_reached(probes: coverage.Probes, outcomes: Sequence[Outcome]) -> Result:
    """Every branch is evaluated, and every condition comes out true and false, in some model with probes."""
    probed = [one for one in outcomes if one.model.probed]
    numbers = {
        probes.first_of(one.model) + number
        for one in probed
        for number in (in_ranges(one.entry["reached"]) if one.entry else coverage.numbers_in(one.printed))
    }
    found = coverage.problems(probes.unreached(numbers))
    return Result(f"{len(probes.points)} branches and conditions", models=len(probed), problems=tuple(found))


def _result(what: str, outcomes: Sequence[Outcome]) -> Result:
    problems = tuple(one.problem for one in outcomes if one.problem)
    states = sum(one.states for one in outcomes)
    return Result(what, len(outcomes), states, problems=problems, **_by_source(outcomes))


def _by_source(found: Iterable[Outcome | state_graph.Comparison]) -> dict[str, int]:
    return Counter[str](one.source for one in found)


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


def check_types(say: Say = lambda line: None, *, write: bool = False) -> Result:
    """Have TLC refuse wrong constants, and wrong values of variables."""

    def found(name: str) -> tuple[str, dict[str, Any], Source]:
        wrong = wrong_types.ALL[name]
        key = record.key_of(wrong.files, *FLAGS, *wrong.flags)
        if entry := record.entry("types", name, key):
            return key, entry["found"], "repository"
        printed = printed_for(wrong.files, *wrong.flags, again=record.is_due("types", name))
        return key, wrong.read(printed.text), printed.source

    problems, sources, kept = [], Counter[str](), {}
    with ThreadPoolExecutor(2) as pool:
        for name, (key, what, source) in zip(wrong_types.ALL, pool.map(found, wrong_types.ALL), strict=True):
            problem = wrong_types.ALL[name].problem(what)
            say(f"types   {name:<44} {problem or 'refused'}")
            problems += [f"types: {name}: {problem}"] if problem else []
            sources[source] += 1
            kept[name] = {"key": key, "found": what}
    if write and not problems:
        record.store({**record.stored(), "types": kept})
    return Result("wrong constants and values", len(kept), problems=tuple(problems), **sources)


def check_graphs(say: Say = lambda line: None, *, write: bool = False) -> Result:
    """Compare the state graph of the oracle with TLC's in every scope."""
    found = {}
    with ThreadPoolExecutor(2) as pool:
        for name, one in zip(
            state_graph.SCOPES, pool.map(state_graph.compare, state_graph.SCOPES), strict=True
        ):
            say(f"graph   {name:<44} {one.states:>7,} states {one.edges:>7,} edges {one.problem or 'equal'}")
            found[name] = one
    problems = tuple(f"graph {name}: {one.problem}" for name, one in found.items() if one.problem)
    if write and not problems:
        record.store({**record.stored(), "graphs": {name: state_graph.entry(name) for name in found}})
    return Result(
        "state graphs, oracle and TLC",
        len(found),
        sum(one.states for one in found.values()),
        sum(one.edges for one in found.values()),
        problems=problems,
        **_by_source(found.values()),
    )


WALKS: Final = 60
"""How many walks of the oracle; the rarest fault of `test_traces` shows in one of six that are shorter."""
MANY_WALKS: Final = 200
"""How many where nothing is taken from a record."""
WALK_LENGTH: Final = 60
WALKED: Final = ModelOptions(num_levels=4, trigger=3, target_file_size=2 * RECORD_SIZE)


def check_traces(say: Say = lambda line: None) -> Result:
    """Have TLC accept random walks of the oracle: 3 keys, 4 levels, a writer and two compactors."""
    walks = MANY_WALKS if record.used() == "none" else WALKS
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


HEADINGS: Final = ("models", "states", "edges", "traces", "run", "machine", "repository")


def table(results: Sequence[Result]) -> str:
    """Return the results as lines of text."""
    lines = [f"{'checked by TLC':<32}" + "".join(f"{one:>11}" for one in HEADINGS) + f"{'problems':>10}"]
    for result in results:
        counts = "".join(f"{getattr(result, one) or '':>11}" for one in HEADINGS)
        lines.append(f"{result.what:<32}{counts}{len(result.problems):>10}")
    return "\n".join(lines)
