"""``python -m model_tests.processes [--seconds N] [--workers K] [--kill] [--buckets 1 8]``: also ``make hammer``.

Lets K processes work on one table for N seconds, for each number of buckets, and prints what they did as a table of
Markdown. Exits with 1 if something was lost, was there twice, or failed that must not.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from benchmarks.machine import describe, hardware
from model_tests.processes.judge import Verdict
from model_tests.processes.run import Hammer

SHOWN: Final = {
    "snapshots": "snapshots",
    "committed": "writes acknowledged",
    "committed without an answer": "writes committed by a process that was killed before it said so",
    "lost": "commits that lost a race and were tried or planned again",
    "refused": "writes refused",
    "compacted": "calls of compact",
    "compaction refused": "compactions given up",
    "expired snapshots": "snapshots expired",
    "kills": "processes killed",
    "pauses": "processes stopped for a while",
    "reads compared": "reads compared",
    "error": "errors",
}
PROBLEMS: Final = 10


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m model_tests.processes")
    parser.add_argument("--seconds", type=float, default=60, help="for each number of buckets (60)")
    parser.add_argument("--workers", type=int, default=8, help="processes at once (8)")
    parser.add_argument("--kill", action="store_true", help="kill and stop one every second or so")
    parser.add_argument("--buckets", type=int, nargs="+", default=[1, 8], help="of the tables (1 8)")
    parser.add_argument("--seed", type=int, default=0, help="of what is killed when (0)")
    parser.add_argument("--out", type=Path, help="write the figures there, too")
    chosen = parser.parse_args(arguments)
    about = describe()
    found = {}
    for buckets in chosen.buckets:
        with tempfile.TemporaryDirectory(prefix="pktable-hammer-") as folder:
            hammer = Hammer(
                Path(folder), chosen.seconds, chosen.workers, buckets, kills=chosen.kill, seed=chosen.seed
            )
            found[buckets] = hammer.run()
        for problem in found[buckets].problems[:PROBLEMS]:
            print(f"{buckets} buckets: {problem}", file=sys.stderr)
    command = shlex.join(["python", "-m", "model_tests.processes", *arguments])
    text = "\n".join(
        [
            "# Many processes on one table",
            "",
            f"{hardware(about)}, Python {about['python']}; load before: {about['load_before'][0]}. `{command}`.",
            "",
            *report(found),
            "",
        ]
    )
    print(text, end="")
    if chosen.out:
        chosen.out.write_text(text, "utf-8")
    return int(any(verdict.problems for verdict in found.values()))


def _buckets(number: int) -> str:
    return "1 bucket" if number == 1 else f"{number} buckets"


def report(found: dict[int, Verdict]) -> Iterator[str]:
    """Yield the lines of a table of the figures."""
    yield f"| | {' | '.join(_buckets(buckets) for buckets in found)} |"
    yield f"| --- |{' ---: |' * len(found)}"
    for name, shown in SHOWN.items():
        yield f"| {shown} | {' | '.join(f'{verdict.counts[name]:,}' for verdict in found.values())} |"
    yield f"| problems | {' | '.join(str(len(verdict.problems)) for verdict in found.values())} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
