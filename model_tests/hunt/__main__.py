"""``python -m model_tests.hunt [--minutes N] [--only NAME,...] [--seed N]``: hunt for faults; also ``make hunt``.

Plays turns of everything that draws, on all cores, until the time is over or an interrupt ends it. Ends with a table of
what was played and, for each fault, the seed, the smallest case that was found and the command that repeats it; keeps
these in the directory that ``PKTABLE_FAILURES`` names (failures).

``python -m model_tests.hunt --repeat KIND:SEED`` plays one turn again, and looks for the smallest case that fails.
Both exit with 1 if something failed.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console

from model_tests.hunt import report
from model_tests.hunt.hunt import Catch, Fault, Hunt
from model_tests.hunt.kinds import KINDS
from model_tests.hunt.turns import Kind, Turn, made_smaller, played

WIDTH: Final = 110
SECONDS_BETWEEN_LINES: Final = 15.0
NAMES: Final[Mapping[str, Kind]] = {kind.name: kind for kind in KINDS}


def main(arguments: Sequence[str], kinds: Mapping[str, Kind] = NAMES) -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_tests.hunt", epilog=f"kinds: {', '.join(kinds)}")
    parser.add_argument("--minutes", type=float, default=60, help="to hunt, also a fraction (60)")
    parser.add_argument("--only", default="", help="the kinds to play, separated by commas (all)")
    parser.add_argument("--seed", type=int, help="from which all seeds follow (a fresh one)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (one a core)")
    parser.add_argument("--repeat", metavar="KIND:SEED", help="play this turn alone")
    chosen = parser.parse_args(arguments)
    report.directory()
    if chosen.repeat:
        name, _, seed = chosen.repeat.partition(":")
        if name not in kinds or not seed.isdecimal():
            parser.error(f"expected KIND:SEED with one of {', '.join(kinds)}; found {chosen.repeat}")
        return repeat(Turn(kinds[name], int(seed)))
    names = [name for name in chosen.only.split(",") if name]
    if unknown := [name for name in names if name not in kinds]:
        parser.error(f"expected some of {', '.join(kinds)}; found {', '.join(unknown)}")
    seed = secrets.randbelow(1 << 31) if chosen.seed is None else chosen.seed
    some = [kind for name, kind in kinds.items() if not names or name in names]
    return hunt(some, chosen.minutes * 60, seed, chosen.workers)


def repeat(turn: Turn) -> int:
    """Play a turn here, and print what is wrong."""
    outcome = played(turn)
    if not outcome.fault:
        print(f"{turn.name}: {outcome.cases} cases, nothing failed")
        return 0
    print(f"FAILED {turn.name}: {outcome.text}\n\nlooking for a smaller case", flush=True)
    smaller = made_smaller(turn)
    print(smaller.text if smaller.fault else "found none")
    return 1


def hunt(kinds: Sequence[Kind], seconds: float, seed: int, workers: int) -> int:
    """Hunt, and print what came of it."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    print(f"hunting for {seconds / 60:g} minutes by seed {seed}, {workers} processes", flush=True)
    started = said = time.monotonic()

    def progress(catch: Catch) -> None:
        nonlocal said
        if time.monotonic() - said > SECONDS_BETWEEN_LINES:
            said = time.monotonic()
            print(report.progress(catch, said - started), flush=True)

    def found(fault: Fault) -> None:
        print(report.found(fault), flush=True)

    catch = Hunt(kinds, seed=seed, workers=workers, found=found, progress=progress).run(seconds)
    console.print(report.table_of(catch))
    for line in report.lines_of(catch):
        print(line)
    return 1 if catch.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
