"""A process of one contender: it reads a stage a line, does it, and prints what it cost and found.

The tables of each contender stay until all have read them. What a stage finds is the same for every contender.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from benchmarks.machine import cpu, greatest_memory
from benchmarks.paimon_spark.workload import LEAST, Query, Sizes, Step, queries, writes

CONTENTS = {
    "lineitem": "count(*), sum(l_orderkey), sum(l_extendedprice), sum(l_linenumber), max(l_comment), max(l_shipdate)",
    "orders": "count(*), sum(o_orderkey), sum(o_totalprice), max(o_comment)",
    "small": "count(*), sum(k), sum(a), max(b)",
    "many": "count(*), sum(k), sum(a)",
}


class Contender(Protocol):
    """What each of them can do. A table ``warm_NAME`` is like NAME."""

    def create(self, table: str) -> None: ...

    def upsert(self, table: str, name: str) -> None: ...

    def merge(self, table: str, name: str) -> None: ...

    def delete(self, table: str, where: str) -> None: ...

    def compact(self, table: str) -> None: ...

    def latest(self, home: Path, table: str) -> int: ...

    def answer(self, home: Path, query: Query, at: int) -> list[str]: ...

    def contents(self, table: str, aggregates: str) -> list[str]: ...

    def least(self, step: Step) -> Callable[[], object] | None: ...

    def close(self) -> None: ...


class Worker:
    """One contender and its tables. ``homes``: by contender, the folders of the tables that are read."""

    def __init__(self, contender: Contender, home: Path, homes: dict[str, Path], sizes: Sizes) -> None:
        self._contender, self._home, self._homes = contender, home, homes
        self._writes, self._queries = writes(sizes), queries(sizes)

    def warm_up(self) -> dict[str, Any]:
        """Do a little of everything, on tables that nothing else reads."""
        one = self._contender
        one.create("small_warm")
        for name in ("small-0", "small-1", "small-2"):
            one.upsert("small_warm", name)
        one.delete("small_warm", "a = 3")
        one.compact("small_warm")
        return {"found": one.contents("small_warm", CONTENTS["small"])}

    def write(self, stage: str) -> dict[str, Any]:
        """Do the steps of a stage, and after each its least work if that is known, whose cost is kept apart."""
        costs: list[dict[str, float]] = []
        least: list[dict[str, float]] = []
        for step in self._writes[stage]:
            method, *given = step
            costs.append(_cost_and_memory(partial(getattr(self._contender, method), *given)))
            if (work := self._contender.least(step)) is not None:
                least.append(_cost_and_memory(work))
        changed = sorted({table for _, table, *_ in self._writes[stage]})
        contents = {name: self._contender.contents(name, CONTENTS[name]) for name in changed}
        snapshot = self._contender.latest(self._home, changed[0])
        return {
            **_total(costs),
            LEAST: _total(least) if least else None,
            "found": contents,
            "snapshot": snapshot,
        }

    def read(self, name: str, owner: str, loaded: int) -> dict[str, Any]:
        """Answer a query, on the tables of ``owner``. ``loaded``: the snapshot that loaded its lineitem."""
        query, home = self._queries[name], self._homes[owner]
        found: list[list[str]] = []
        cost = _cost(lambda: found.append(self._contender.answer(home, query, loaded)))
        return {**cost, "found": found[0]}

    def least_of_read(self, name: str, owner: str, loaded: int) -> dict[str, Any]:
        """Say what the part of a query takes that no read on Spark can leave out."""
        contender: Any = self._contender  # that with the Spark of pktable
        return _cost(contender.least_of_read(self._homes[owner], self._queries[name], loaded))


def _cost(work: Callable[[], object]) -> dict[str, float]:
    began = time.perf_counter()
    used = cpu(work)
    return {"cpu": used, "wall": time.perf_counter() - began}


def _cost_and_memory(work: Callable[[], object]) -> dict[str, float]:
    with greatest_memory() as memory:
        cost = _cost(work)
    return {**cost, "memory": memory[0]}


def _total(costs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the cost of several pieces of work together."""
    return {
        **{name: sum(cost[name] for cost in costs) for name in ("cpu", "wall")},
        "memory": max(cost["memory"] for cost in costs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paimon_spark.worker")
    parser.add_argument("contender", choices=("paimon", "spark", "local"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("home", type=Path)
    parser.add_argument("homes", type=json.loads)
    parser.add_argument("sizes", type=json.loads)
    parser.add_argument("memory")
    given = parser.parse_args()
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    sizes = Sizes(**given.sizes)
    contender = _contender(given.contender, given.folder, given.home, given.memory)
    worker = Worker(contender, given.home, {name: Path(home) for name, home in given.homes.items()}, sizes)
    for line in sys.stdin:
        task = json.loads(line)
        method = getattr(worker, task.pop("do"))
        print(json.dumps(method(**task)), file=out, flush=True)
    contender.close()


def _contender(name: str, folder: Path, home: Path, memory: str) -> Contender:
    if name == "paimon":
        from benchmarks.paimon_spark.paimon import Paimon

        return Paimon(folder, home, memory)
    from benchmarks.paimon_spark.ours import Ours

    return Ours(folder, home, memory, spark=name == "spark")


if __name__ == "__main__":
    main()
