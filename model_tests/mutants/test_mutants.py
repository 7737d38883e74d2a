"""The histories that kill mutants go well without them, on the local runner and on Spark; a crash is no kill.

`make verify` puts in each mutant, and sees that the check meant for it finds it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pktable.lsm.plan import VectorMaintainer
from pktable_conform.judge.history import SHAPES, History, Operation
from pktable_spec.covers import covers
from pktable_spec.interface import Comparison, OpenTable, Query
from pktable_spec.trace import defined

from model_tests.backends.tables import local_backend, spark_backend
from model_tests.histories.session import replay
from model_tests.mutants import MUTANTS
from model_tests.mutants.measure import STORED, replayed, run_seed, stored_history, stored_path
from model_tests.mutants.registry import Mutant, instead, patched
from model_tests.mutants.shrink import shrunk

every_mutant = pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.id)
on_spark = pytest.mark.parametrize(
    "mutant", [one for one in MUTANTS.values() if one.local_only is None], ids=lambda mutant: mutant.id
)


@pytest.fixture(scope="module")
def local_tables() -> Iterator[OpenTable]:
    with local_backend() as open_table:
        yield open_table


@pytest.fixture(scope="module")
def spark_tables() -> Iterator[tuple[OpenTable, OpenTable]]:
    """Tables whose work Spark does, and tables whose small work this process does: a fault is in one of the two."""
    with spark_backend(["spark"]) as on_spark, spark_backend([None]) as by_size:
        yield on_spark, by_size


@covers("DV-6", "DV-9", "DV-10", "CMP-12", "CMP-13", "CMT-7", "CMT-8", "LSM-5", "MRG-1", "RD-7", "RD-9")
@every_mutant
def test_a_killing_history_is_green_without_its_mutant(mutant: Mutant, local_tables: OpenTable) -> None:
    assert replay(stored_history(mutant), local_tables, STORED).histories == 1


@pytest.mark.spark
@pytest.mark.deep("a fault of the executors' code that stored histories do not show on Spark")
@on_spark
def test_the_check_meant_for_a_mutant_finds_it_on_spark(
    mutant: Mutant, spark_tables: tuple[OpenTable, OpenTable]
) -> None:
    kills = []
    for open_table in spark_tables:
        kills.append(replayed(stored_history(mutant), open_table, mutant))
        if kills[-1] is not None and kills[-1].meant:
            return
    pytest.fail(f"not killed as meant: {kills}")


@pytest.mark.spark
@pytest.mark.deep("a stored history that Spark reads otherwise than the oracle")
@on_spark
def test_a_killing_history_is_green_on_spark_without_its_mutant(
    mutant: Mutant, spark_tables: tuple[OpenTable, OpenTable]
) -> None:
    profile = replace(STORED, twin=mutant.twin)
    for open_table in spark_tables:
        assert replay(stored_history(mutant), open_table, profile).histories == 1


@pytest.mark.parametrize("mutant", ["M03", "M09", "S1", "C12"])
def test_drawn_histories_find_the_common_ones(mutant: str) -> None:
    run = run_seed(mutant, seed=1)
    assert run.kill is not None, f"survived {run.steps} steps"
    assert run.kill.meant, run.kill
    assert run.history is not None


def test_a_crash_is_no_kill(local_tables: OpenTable) -> None:
    def crash(self: VectorMaintainer, file: str, positions: object) -> int:
        raise AssertionError("read of snapshot 1: a message that looks like a check's")

    of_the_reference = replace(MUTANTS["C12"], inject=patched((VectorMaintainer, "delete", instead(crash))))
    kill = replayed(stored_history(MUTANTS["C12"]), local_tables, of_the_reference)
    assert kill is not None
    assert (kill.check, kill.meant, kill.step) == (None, False, 2)


def test_another_check_is_no_kill(local_tables: OpenTable) -> None:
    kill = replayed(
        stored_history(MUTANTS["S1"]), local_tables, replace(MUTANTS["S1"], found_by="reads_agree")
    )
    assert kill is not None
    assert (kill.check, kill.meant) == ("stored_vectors", False)


def test_every_stored_history_is_that_of_a_mutant() -> None:
    stored = {path.name for path in stored_path(MUTANTS["M10"]).parent.glob("*")}
    assert stored == {stored_path(mutant).name for mutant in MUTANTS.values()}


def test_a_mutant_breaks_clauses_that_there_are() -> None:
    known = set(defined(Path(__file__).parents[2]).force)
    assert not [one.id for one in MUTANTS.values() if not one.clauses or not set(one.clauses) <= known]


def test_a_shrunk_history_has_no_part_that_is_not_needed() -> None:
    filtered = Query((Comparison("k", "=", 1), Comparison("v", "<>", "a")), ("v",), 2)
    noise = [
        Operation("write", changes=(("+I", (0, "bulk")),), write_only=True, query=filtered),
        Operation("compact", full=True),
        Operation("reopen", query=filtered),
    ]
    needed = Operation("write", changes=(("+I", (1, "bulk")), ("-D", (2, None))), query=filtered)
    history = History(SHAPES["int"], {"bucket": "2", "num-levels": "4"}, [*noise, needed, *noise])
    tried = itertools.count()

    def kills(one: History) -> bool:
        next(tried)
        changes = [change for operation in one.operations for change in operation.changes]
        return "bucket" in one.options and any(row[0] == 2 for _, row in changes)

    small = shrunk(history, kills)
    assert small.options == {"bucket": "2"}
    assert small.operations == [Operation("write", changes=(("-D", (2, None)),))]
    assert next(tried) < 60
