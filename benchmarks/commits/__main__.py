"""``python -m benchmarks.commits [--base DIR]``: latency and throughput of commits, and what the protocol costs.

Writers are processes that upsert one row at a time into a table that nobody compacts (`write-only`), 1, 2, 4 and 8 of
them, on one bucket and on eight. With ``--base`` a checkout of an older version takes turns with this one: in each
round both do the same, one after the other, and the next round in the opposite order. Quote the ratios of that run.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import describe, hardware

TREE: Final = Path(__file__).parents[2]
RESULTS: Final = TREE / "benchmarks" / "results"
WRITERS: Final = (1, 2, 4, 8)
BUCKETS: Final = (1, 8)
COUNTED: Final = 50
CREATE: Final = (
    "import sys; from pktable import Table; "
    "Table.create(sys.argv[1], 'k BIGINT, v BIGINT', primary_key='k', "
    "options={'deletion-vectors.enabled': 'true', 'write-only': 'true', 'bucket': sys.argv[2]})"
)


@dataclass(frozen=True)
class Measured:
    """One run. ``median``, ``slowest_tenth`` in milliseconds a commit, ``rate`` in commits a second of all writers."""

    median: float
    slowest_tenth: float
    rate: float
    commits: int
    lost: int


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.commits")
    parser.add_argument("--seconds", type=float, default=4, help="of each run (4)")
    parser.add_argument("--rounds", type=int, default=3, help="of everything (3)")
    parser.add_argument("--base", type=Path, help="a checkout of the version to compare with")
    parser.add_argument("--writers", type=int, nargs="+", default=WRITERS)
    parser.add_argument("--out", type=Path, default=RESULTS / "commits.md", help="the page to write")
    chosen = parser.parse_args(arguments)
    about = describe()
    trees = {"now": TREE} | ({"before": chosen.base.resolve()} if chosen.base else {})
    runs: dict[tuple[int, int], dict[str, list[Measured]]] = {}
    for turn in range(chosen.rounds):
        for buckets in BUCKETS:
            for writers in chosen.writers:
                found = runs.setdefault((buckets, writers), {name: [] for name in trees})
                for name in list(trees)[:: -1 if turn % 2 else 1]:
                    found[name].append(measure(trees[name], buckets, writers, chosen.seconds))
        print(f"round {turn + 1} of {chosen.rounds}", file=sys.stderr)
    operations = {name: count_operations(tree) for name, tree in trees.items()}
    command = shlex.join(["python", "-m", "benchmarks.commits", *_without_base(arguments)])
    text = "\n".join(report(about, command, runs, operations)) + "\n"
    chosen.out.write_text(text, "utf-8")
    print(text)


def _without_base(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments without the folder of the older version."""
    for before, one in zip(["", *arguments], arguments, strict=False):
        yield "DIR" if before == "--base" else one


def environment(tree: Path) -> dict[str, str]:
    """Return an environment in which Python imports what a tree has."""
    return {**os.environ, "PYTHONPATH": f"{tree / 'spec'}{os.pathsep}{tree / 'reference'}"}


def create(tree: Path, path: Path, buckets: int) -> None:
    subprocess.run([sys.executable, "-c", CREATE, path, str(buckets)], check=True, env=environment(tree))


def measure(tree: Path, buckets: int, writers: int, seconds: float) -> Measured:
    """Let so many writers write."""
    with tempfile.TemporaryDirectory(prefix="pktable-commits-") as folder:
        path, go = Path(folder) / "table", Path(folder) / "go"
        create(tree, path, buckets)
        command = [sys.executable, str(Path(__file__).with_name("writer.py")), str(path)]
        processes = [
            subprocess.Popen(
                [*command, str(number), str(go), str(seconds)],
                stdout=subprocess.PIPE,
                text=True,
                env=environment(tree),
            )
            for number in range(writers)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        go.touch()
        found = [json.loads(process.communicate()[0]) for process in processes]
    times = sorted(one for result in found for one in result["milliseconds"])
    return Measured(
        statistics.median(times),
        times[len(times) * 9 // 10],
        len(times) / seconds,
        len(times),
        sum(result["lost"] for result in found),
    )


def count_operations(tree: Path) -> dict[str, float]:
    """Return the operations on the store of one commit."""
    with tempfile.TemporaryDirectory(prefix="pktable-commits-") as folder:
        path = Path(folder) / "table"
        create(tree, path, 1)
        command = [sys.executable, str(Path(__file__).with_name("writer.py")), str(path), "0", ""]
        done = subprocess.run(
            [*command, str(COUNTED), "count"],
            check=True,
            capture_output=True,
            text=True,
            env=environment(tree),
        )
        counts: dict[str, float] = json.loads(done.stdout)
        return counts


def report(
    about: Mapping[str, Any],
    command: str,
    runs: Mapping[tuple[int, int], Mapping[str, Sequence[Measured]]],
    operations: Mapping[str, Mapping[str, float]],
) -> Iterator[str]:
    """Yield the lines of the page."""
    yield "# Commits"
    yield ""
    yield f"{hardware(about)}, Python {about['python']}; load before: {about['load_before'][0]}. `{command}`."
    yield "Upserts of one row on a local disk; the median of the rounds of each figure."
    yield ""
    yield "| buckets | writers | ms a commit, median | slowest tenth from | commits a second | lost races a commit |"
    yield "| ---: | ---: | ---: | ---: | ---: | ---: |"
    for (buckets, writers), found in runs.items():
        now = found["now"]
        cells = [_middle([one.median for one in now]), _middle([one.slowest_tenth for one in now])]
        cells += [_middle([one.rate for one in now]), _middle([one.lost / one.commits for one in now])]
        yield f"| {buckets} | {writers} | {' | '.join(f'{cell:,.2f}' for cell in cells)} |"
    if "before" in operations:
        yield from _compared(runs)
    yield from _operations(operations)


def _compared(runs: Mapping[tuple[int, int], Mapping[str, Sequence[Measured]]]) -> Iterator[str]:
    yield ""
    yield "## Against the version before fences"
    yield ""
    yield "Time of a commit now over that before (median of the ratios of the rounds, least to greatest)."
    yield ""
    yield "| buckets | writers | ratio of medians | rounds | commits a second, ratio |"
    yield "| ---: | ---: | ---: | ---: | ---: |"
    for (buckets, writers), found in runs.items():
        pairs = list(zip(found["now"], found["before"], strict=True))
        ratios = sorted(now.median / before.median for now, before in pairs)
        rates = [now.rate / before.rate for now, before in pairs]
        span = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        yield f"| {buckets} | {writers} | {_middle(ratios):.2f} | {span} | {_middle(rates):.2f} |"


def _operations(operations: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    yield ""
    yield "## Operations on the store of one commit"
    yield ""
    yield f"Of one writer, an average of {COUNTED} commits."
    yield ""
    yield f"| operation | {' | '.join(operations)} |"
    yield f"| --- |{' ---: |' * len(operations)}"
    names = sorted({name for counts in operations.values() for name in counts})
    for name in names:
        yield f"| {name} | {' | '.join(f'{counts.get(name, 0):.2f}' for counts in operations.values())} |"
    yield f"| all | {' | '.join(f'{sum(counts.values()):.2f}' for counts in operations.values())} |"


def _middle(values: Sequence[float]) -> float:
    return statistics.median(values)


if __name__ == "__main__":
    main(sys.argv[1:])
