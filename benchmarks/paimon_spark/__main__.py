"""``make bench-paimon``: the same work on Paimon's Spark connector and on pktable, with Spark and without.

Each round starts a process of each contender. They do every stage in turn, so that all see the same machine, and what
a stage finds must be the same for all. The figures are processor seconds of the process with all its descendants.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.machine import describe
from benchmarks.paimon_spark.inputs import inputs
from benchmarks.paimon_spark.report import draw, report
from benchmarks.paimon_spark.workload import LEAST, Sizes, queries, writes
from model_tests.interop.environments import SPARK_JARS, SetupError, Start, paimon_spark

RESULTS = Path(__file__).parents[1] / "results"
TREE = Path(__file__).parents[2]
CONTENDERS = ("paimon", "spark", "local")
TURNS, TURNS_OF_POINTS = (6, 5), (2, 5)
"""How often a query is asked to warm up caches and compilers, and then to measure it."""
ROWS_OF_AN_ORDER = 4
ORDERS_OF_SCALE_1 = 1_500_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paimon_spark", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of lineitem, about (%(default)s)")
    parser.add_argument("--files", type=int, default=200, help="of the table of many files (%(default)s)")
    parser.add_argument("--refreshes", type=int, default=3, help="pairs of RF1 and RF2 (%(default)s)")
    parser.add_argument("--commits", type=int, default=50, help="of a hundred rows (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--memory", default="3g", help="of each JVM (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    about = describe()
    orders = given.rows // ROWS_OF_AN_ORDER
    sizes = Sizes(orders, given.files, given.refreshes, given.commits)
    try:
        peer, about["paimon"] = paimon_spark(os.environ.get(SPARK_JARS))
    except SetupError as error:
        sys.exit(f"bench-paimon: {error}; or name the jars of a connector for Spark 3.5 in {SPARK_JARS}")
    folder = inputs(orders / ORDERS_OF_SCALE_1, sizes)
    rounds = []
    for number in range(given.rounds):
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr)
        rounds.append(one_round(peer, folder, sizes, given.memory, number))
    result = {"about": about, "sizes": asdict(sizes), "memory": given.memory, "rounds": rounds}
    (given.out / "paimon-spark.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report(result)
    (given.out / "paimon-spark.md").write_text(text)
    draw(result, given.out / "paimon-spark.svg")
    print(text)


def one_round(peer: Start, folder: Path, sizes: Sizes, memory: str, number: int) -> dict[str, Any]:
    """Return the costs of each stage by contender, which take turns by ``number`` at being the first."""
    found: dict[str, Any] = {}
    order = CONTENDERS[number % 3 :] + CONTENDERS[: number % 3]
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pktable-paimon-")))
        homes = {name: str(home / name) for name in CONTENDERS}
        workers = {
            name: stack.enter_context(_worker(name, peer, folder, homes, sizes, memory)) for name in order
        }

        def stage(what: str, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
            print(f"  {what}", file=sys.stderr)
            costs = {name: _ask(workers[name], task) for name, task in tasks.items()}
            answers = {json.dumps(cost.pop("found")) for cost in costs.values()}
            assert len(answers) == 1, (what, answers)
            return costs

        def write(what: str) -> None:
            costs = stage(what, {name: {"do": "write", "stage": what} for name in order})
            for least in [cost.pop(LEAST) for cost in costs.values()]:
                if least is not None:
                    costs[LEAST] = least
            found[what] = costs

        stage("warm up", {name: {"do": "warm_up"} for name in order})
        *before, last = writes(sizes)
        for what in before:
            write(what)
        for name, query in queries(sizes).items():
            warm_up, turns = TURNS_OF_POINTS if query.finds_few else TURNS
            for owner in ("spark", "paimon"):
                loaded = found["load"][owner]["snapshot"]
                what = f"{name}, {'our' if owner == 'spark' else 'its'} table"
                task = {"do": "read", "name": name, "owner": owner, "loaded": loaded}
                costs = []
                for _ in range(warm_up + turns):
                    costs.append(stage(what, dict.fromkeys(order, task)))
                    if not query.counts:
                        costs[-1][LEAST] = _ask(workers["spark"], {**task, "do": "least_of_read"})
                found[what] = _medians(costs[warm_up:])
        write(last)
    return found


def _medians(turns: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """Return the median costs of each contender."""
    return {
        name: {what: median(turn[name][what] for turn in turns) for what in ("cpu", "wall")}
        for name in turns[0]
    }


@contextmanager
def _worker(
    name: str, peer: Start, folder: Path, homes: Mapping[str, str], sizes: Sizes, memory: str
) -> Iterator[subprocess.Popen[str]]:
    start = peer if name == "paimon" else Start((sys.executable,), {**os.environ, "PYTHONPATH": _our_path()})
    command = [*start.command, "-m", "benchmarks.paimon_spark.worker", name, str(folder), homes[name]]
    command += [json.dumps(homes), json.dumps(asdict(sizes)), memory]
    process = subprocess.Popen(
        command,
        env=dict(start.environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TREE,
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _our_path() -> str:
    return os.pathsep.join(str(TREE / part) for part in ("spec", "reference", "."))


def _ask(worker: subprocess.Popen[str], task: Mapping[str, Any]) -> dict[str, Any]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(json.dumps(task) + "\n")
    worker.stdin.flush()
    answer: dict[str, Any] = json.loads(worker.stdout.readline() or "{}")
    assert answer, f"the worker failed at {task}"
    return answer


if __name__ == "__main__":
    main()
