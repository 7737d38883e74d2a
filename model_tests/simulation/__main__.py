"""``python -m model_tests.simulation [SEEDS] [--from SEED] [--preemptions N]``: also ``make simulate``.

Runs the seeds (300 by default), every pair of operations with at most N preemptions (1 by default), every kind of work
that sleeps while others put more fences than count, and the sweep: each operation on the store of each kind of work
failing in each way. Three preemptions take hours. Prints the shortest run that goes wrong as code, and exits with 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Final

from model_tests.simulation.explore import BadRun, by_seed, shortest, sweep
from model_tests.simulation.preemptions import with_preemptions
from model_tests.simulation.scheduler import Run
from model_tests.simulation.tables import FEW, KINDS, SMALL, TABLES, Job, Setting

RACING: Final = ("write only", "expire most", "rollback 1")
"""What three actors do, who race for the same snapshots."""
OF_APPENDS: Final = ("write", "delete", "update", "compact", "expire most", "rollback 1")
"""What actors do to append tables; the rest is as with keys."""
APPENDS: Final = [replace(SMALL, kind=kind) for kind in TABLES if kind != "keys"]
TWO_AFTER_ANOTHER: Final = (
    *(("full", "expire"), ("write", "expire most"), ("tag", "rollback 2"), ("rollback 2", "untag")),
    *(("rollback 2", "clean"), ("write", "rollback to tag")),
)
"""Pairs of operations that one actor does while another pauses, which may be preempted once."""


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_tests.simulation")
    parser.add_argument("seeds", nargs="?", type=int, default=300, help="how many seeds (300)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed (0)")
    parser.add_argument(
        "--preemptions", type=int, default=1, help="of every pair of operations (1); 0 for none"
    )
    chosen = parser.parse_args(arguments)
    searches = {
        f"{chosen.seeds} seeds from {chosen.first}": map(
            by_seed, range(chosen.first, chosen.first + chosen.seeds)
        ),
        f"pairs, {chosen.preemptions} preemptions": pairs(chosen.preemptions),
        f"sleeps over {FEW + 1} fences": sleeps(),
        "sweep": sweeps(),
    }
    bad = False
    for name, runs in searches.items():
        bad = not search(name, runs) or bad
    return int(bad)


def pairs(preemptions: int) -> Iterator[Run | BadRun]:
    """Yield the runs of every pair of operations, and of some three."""
    if not preemptions:
        return
    for setting in APPENDS:
        for one, other in combinations_with_replacement(OF_APPENDS, 2):
            yield from with_preemptions({"a": Job((one,)), "b": Job((other,))}, preemptions, setting)
    for one, other in combinations_with_replacement(KINDS, 2):
        yield from with_preemptions({"a": Job((one,)), "b": Job((other,))}, preemptions, SMALL)
    jobs = {name: Job((kind,)) for name, kind in zip("abc", RACING, strict=True)}
    yield from with_preemptions(jobs, preemptions, SMALL)
    for two in TWO_AFTER_ANOTHER:
        yield from with_preemptions({"a": Job(("rollback 2",)), "b": Job(two)}, 1)
        yield from with_preemptions({"a": Job(("write only",)), "b": Job(two)}, 1)


def sleeps() -> Iterator[Run | BadRun]:
    """Yield the runs in which one actor sleeps, before any operation, while another puts more fences than count."""
    fencing = Job(("expire one",) * (FEW + 1))
    for kind in KINDS:
        yield from with_preemptions({"a": Job((kind,)), "b": fencing}, 1, Setting(kept=FEW))


def sweeps() -> Iterator[Run | BadRun]:
    """Yield the runs of every operation in which the store fails once."""
    for kind in KINDS:
        yield from sweep(kind)
    for setting in APPENDS:
        for kind in OF_APPENDS:
            yield from sweep(kind, setting)


def search(name: str, runs: Iterator[Run | BadRun]) -> bool:
    """Do the runs up to the first that goes wrong; print how many there were; return whether all went well."""
    started = said = time.monotonic()
    done = steps = 0
    for found in runs:
        done += 1
        if isinstance(found, BadRun):
            print(f"{name}: run {done} went wrong: {found.error}")
            least = shortest(found)
            print(f"the shortest run like it: {least.error}\n\n{least.as_code()}\n")
            return False
        steps += found.steps
        if time.monotonic() - said > 5:
            said = time.monotonic()
            print(f"  {name}: {done:,} runs, {steps:,} operations", flush=True)
    seconds = time.monotonic() - started
    print(
        f"{name}: {done:,} runs, {steps:,} operations, {steps / max(seconds, 1e-9):,.0f} a second, none went wrong"
    )
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
