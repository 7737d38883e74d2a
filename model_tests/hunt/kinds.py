"""The kinds of turns: each plays a few cases that a seed draws, in some seconds, and raises at the first that fails."""

from __future__ import annotations

import contextlib
import io
import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from pktable.predicate import parse

from model_tests import seeded
from model_tests.append import evolved, machine, packing
from model_tests.backends.spark_session import spark_session
from model_tests.changelog import schedules as changelogs
from model_tests.conform import second_reader
from model_tests.damage import fuzz
from model_tests.engines import alike, schedules, stacks
from model_tests.histories import (
    contests,
    every_option,
    late_options,
    reshaping,
    typed,
    upkeep,
    work,
    wrong_values,
)
from model_tests.histories.failures import kept
from model_tests.histories.profiles import Profile
from model_tests.histories.run import run_histories
from model_tests.hudi.test_lookup_histories import FileGroupMachine
from model_tests.hudi.test_write import WriterMachine
from model_tests.hunt import hudi_writers
from model_tests.hunt.turns import FoundError, Kind
from model_tests.predicate.conditions import CONDITIONS, FIELDS, ROWS, ids, table_of
from model_tests.processes.run import Hammer
from model_tests.simulation.explore import BadRun, by_seed, shortest


def histories(backend: str, number: int, steps: int, seed: int) -> int:
    """Play histories of tables of every merge engine and order."""
    profile = Profile(
        "hunt", number, steps, 4, engines=True, orders=True, seed=seed, shrinks=seeded.shrinks()
    )
    report = run_histories(backend, profile)
    if report.failure is not None:
        raise FoundError(report.message or "", kept(report.failure), report.check or "")
    if report.mismatches:
        raise FoundError(report.message or "")
    return report.stats.histories


def drawn(draw: Callable[[int, int], object], number: int, seed: int) -> int:
    """Play schedules that a module draws."""
    draw(number, seed)
    return number


def drawn_once(draw: Callable[[int], object], seed: int) -> int:
    """Play the schedules that a module draws at a time."""
    draw(seed)
    return 1


def append_tables(number: int, seed: int) -> int:
    """Play histories of a kind of append tables."""
    options = random.Random(seed).choice(list(machine.TABLES.values()))
    seeded.play_drawn(number, seed, lambda data: machine.play(data.draw(machine.HISTORIES), options))
    return number


def merge_engines(number: int, seed: int) -> int:
    """Play schedules of a merge engine."""
    case, vectors = random.Random(seed).choice(schedules.WITH_VECTORS)
    schedules.draw(case, number, seed, vectors=vectors)
    return number


def stacks_of_runs(number: int, seed: int) -> int:
    """Play stacks of runs of a merge engine."""
    case, vectors, forgets = random.Random(seed).choice(stacks.WAYS)
    stacks.draw(case, number, seed, vectors=vectors, forgets=forgets)
    return number


def changelog(number: int, seed: int) -> int:
    """Play schedules of a table that records its changes."""
    changelogs.draw(*random.Random(seed).choice(changelogs.CASES), number, seed)
    return number


def simulated(number: int, seed: int) -> int:
    """Run seeds of the simulation."""
    for one in range(seed, seed + number):
        found = by_seed(one)
        if isinstance(found, BadRun):
            least = shortest(found) if seeded.shrinks() else found
            raise FoundError(f"simulation seed {one}: {least.error}", least.as_code(), found.error)
    return number


def processes(seconds: float, workers: int, seed: int) -> int:
    """Let processes work on a table, and kill some: who is when is not drawn by the seed."""
    with tempfile.TemporaryDirectory(prefix="pktable-hunt-") as folder:
        buckets = random.Random(seed).choice((1, 8))
        verdict = Hammer(Path(folder), seconds, workers, buckets, kills=True, seed=seed).run()
    if verdict.problems:
        raise FoundError("\n".join(verdict.problems[:10]))
    return 1


def decoders(seconds: int, seed: int) -> int:
    """Fuzz the decoders."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = fuzz.main([str(seconds), f"-seed={seed}"])
    if code:
        raise FoundError(f"a decoder fails otherwise than it should\n{said.getvalue()}")
    runs = [
        int(line.split()[-1]) for line in said.getvalue().splitlines() if "number_of_executed_units" in line
    ]
    return sum(runs)


def state_machine(kind: type[RuleBasedStateMachine], number: int, steps: int, seed: int) -> int:
    """Run a machine of Hypothesis."""

    class Machine(kind):  # type: ignore[valid-type, misc]
        """The machine, with the seed of the turn."""

    Machine._hypothesis_internal_use_seed = seed
    phases = (Phase.generate, Phase.shrink) if seeded.shrinks() else (Phase.generate,)
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=number,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            phases=phases,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
    return number


def conditions(number: int, seed: int) -> int:
    """Compare conditions in Arrow with plain Python."""

    def agree(data: Any) -> None:
        condition, rows = data.draw(CONDITIONS), data.draw(ROWS)
        found = ids(parse(condition.sql, FIELDS).filter(table_of(rows)))
        expected = [row["id"] for row in rows if condition.of(row) is True]
        assert found == expected, f"{condition.sql} of {rows}: Arrow {found}, Python {expected}"

    seeded.play_drawn(number, seed, agree)
    return number


def conditions_on_spark(number: int, at_once: int, seed: int) -> int:
    """Compare conditions in Arrow with Spark, which gets the text as it is and as it is written for Spark."""

    def agree(data: Any) -> None:
        texts = [data.draw(CONDITIONS).sql for _ in range(at_once)]
        table = table_of(data.draw(ROWS.filter(bool)))
        predicates = [parse(text, FIELDS) for text in texts]
        asked = [f"({text})" for one in predicates for text in (one.source, one.text)]
        answers = spark_session().createDataFrame(table).selectExpr(*asked).collect()
        for at, predicate in enumerate(predicates):
            ours = ids(predicate.filter(table))
            for way in (0, 1):
                spark = [number for number, row in enumerate(answers) if row[2 * at + way]]
                assert spark == ours, (
                    f"{asked[2 * at + way]} of {table.to_pylist()}: Arrow {ours}, Spark {spark}"
                )

    seeded.play_drawn(number, seed, agree)
    return number * at_once


KINDS: Final = (
    Kind("histories-model", 3, partial(histories, "model", 40, 20)),
    Kind("histories-local", 6, partial(histories, "local", 6, 16)),
    Kind("histories-spark", 2, partial(histories, "spark", 1, 10), seconds=300, alone=True),
    Kind("typed", 3, partial(drawn, typed.draw, 6)),
    Kind("engines", 3, partial(merge_engines, 8)),
    Kind("stacks", 2, partial(stacks_of_runs, 3)),
    Kind("alike", 1, partial(drawn, alike.draw, 2)),
    Kind("contests", 3, partial(drawn, contests.draw, 10)),
    Kind("full-disks", 1, partial(drawn_once, contests.fill_disks)),
    Kind("upkeep", 3, partial(drawn, upkeep.draw, 6)),
    Kind("reshaping", 2, partial(drawn, reshaping.draw, 6)),
    Kind("late-options", 1, partial(drawn_once, late_options.draw)),
    Kind("every-option", 3, partial(drawn, every_option.draw, 6)),
    Kind("wrong-values", 1, partial(drawn_once, wrong_values.draw)),
    Kind("work", 2, partial(drawn, work.draw, 6)),
    Kind("append", 3, partial(append_tables, 3)),
    Kind("packing", 1, partial(drawn, packing.draw, 10)),
    Kind("evolved", 1, partial(drawn, evolved.draw, 10)),
    Kind("changelog", 2, partial(changelog, 8)),
    Kind("simulation", 6, partial(simulated, 60)),
    Kind("processes", 2, partial(processes, 5, 4), seconds=300, alone=True),
    *([Kind("decoders", 2, partial(decoders, 10), seconds=120)] if fuzz.HAS_ATHERIS else []),
    *([Kind("second-reader", 2, partial(drawn, second_reader.draw, 8))] if second_reader.is_set_up() else []),
    Kind("hudi-writes", 3, partial(state_machine, WriterMachine, 4, 12)),
    Kind("hudi-writers", 2, partial(drawn, hudi_writers.draw, 8)),
    Kind("hudi-lookups", 2, partial(state_machine, FileGroupMachine, 6, 20)),
    Kind("conditions", 2, partial(conditions, 300)),
    Kind("conditions-on-spark", 1, partial(conditions_on_spark, 4, 25), seconds=300, alone=True),
)
