"""Reads of lineitem with 5, 20 and 50 % of its rows marked, against everything else that could be read instead.

In each round every variant takes its turn; what pytest-benchmark tells is the DV read, the others and the
ratios are in ``extra_info`` and in results/reads.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pktable import Table

from benchmarks.data import KEPT
from benchmarks.reads.measure import Variant
from benchmarks.reads.queries import COUNT, Query, queries
from benchmarks.reads.report import Results
from benchmarks.reads.tables import tables
from benchmarks.reads.variants import (
    READ,
    Peers,
    start_peers,
    with_spark,
    without_spark,
)

SCALE = float(os.environ.get("PKTABLE_BENCH_SCALE", "1"))
ROUNDS = int(os.environ.get("PKTABLE_BENCH_ROUNDS", "5"))
SLOW_ROUNDS = max(1, ROUNDS // 2)
"""Of merge-on-read and of other readers."""
HERE = Path(__file__).parent
RESULTS = Path(
    os.environ.get("PKTABLE_BENCH_RESULTS")
    or (HERE / "results" if SCALE == 1 else KEPT / f"results-{SCALE:g}")
)
"""A small run, which tries the benchmark out, does not take the place of what is kept."""
PERCENTS = (5, 20, 50)
QUERIES = [*queries(round(6_000_000 * SCALE)), COUNT]
of_percent = pytest.mark.parametrize("percent", PERCENTS)
of_query = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name.replace(" ", "-"))


@pytest.fixture(scope="module")
def session() -> Any:
    from pktable.run.spark.session import local_session

    return local_session(memory="4g")


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    found = start_peers()
    yield found
    for peer in found.values():
        if not isinstance(peer, str):
            peer.stop()


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    found = Results(SCALE, ROUNDS, SLOW_ROUNDS)
    yield found
    found.write(RESULTS)


@of_percent
@of_query
def test_with_spark(benchmark: Any, session: Any, results: Results, percent: int, query: Query) -> None:
    variants = with_spark(session, tables(SCALE, percent), query, SLOW_ROUNDS)
    measure(benchmark, variants)
    results.add("Spark", percent, query, variants, benchmark.extra_info)


@of_percent
@of_query
def test_without_spark(benchmark: Any, peers: Peers, results: Results, percent: int, query: Query) -> None:
    variants = without_spark(tables(SCALE, percent), query, peers, SLOW_ROUNDS)
    measure(benchmark, variants)
    results.add("local", percent, query, variants, benchmark.extra_info)


@of_percent
def test_count_starts_no_job(benchmark: Any, session: Any, percent: int) -> None:
    context = session.sparkContext
    context.setJobGroup(f"count {percent}", "the rows of a table")
    table = Table.open(tables(SCALE, percent).vectors, spark=session)
    assert benchmark.pedantic(table.count, rounds=ROUNDS) > 0
    assert not context.statusTracker().getJobIdsForGroup(f"count {percent}")


def measure(benchmark: Any, variants: list[Variant]) -> None:
    """Let all take turns, the DV read last, because pytest-benchmark takes its time; each answer is checked."""
    (ours,) = (variant for variant in variants if variant.name == READ)
    others = [variant for variant in variants if variant is not ours]
    expected = ours.take_turn(None)
    for variant in others:
        variant.take_turn(expected)
    for variant in variants:
        variant.forget()

    def others_first() -> None:
        for variant in others:
            variant.take_turn(expected)

    benchmark.pedantic(lambda: ours.take_turn(expected), setup=others_first, rounds=ROUNDS)
