"""``python -m model_tests.conform [NAME ...]``: give the fixtures to every implementation that is there.

`make conform` does this. pktable reads and writes. The plain reader, the reader for Node and the other implementations
that `make interop` has set up read. It exits with 1 if one of the first three fails. What another implementation fails
is a finding, and printed as one. `record` keeps the outcomes, from which the scoreboard of the site is made.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pktable import __version__
from pktable.cli.conform import OnDisk
from pktable_conform.archive import Archive
from pktable_conform.report import ERROR, FAIL, Report, lines_of, summary
from pktable_conform.run import READER, WRITER, Asked, conform
from pktable_conform.runner import Runner

from model_tests.conform import record
from model_tests.conform.reader_faults import SOURCE
from model_tests.interop.environments import (
    JVM,
    NEWER_JVM,
    PYPAIMON,
    RUST,
    SetupError,
    node_program,
    set_up,
)
from model_tests.interop.kept import MAKES_NONE

PYTHON: Final = shlex.quote(sys.executable)
OURS: Final = {
    "pktable": (f"{PYTHON} -m model_tests.conform.pktable_runner", (READER, WRITER)),
    "plain reader": (f"{PYTHON} {shlex.quote(str(SOURCE))}", (READER,)),
}
NODE: Final = "node reader"
NODE_SOURCE: Final = Path(__file__).parent / "runners" / "node"
GUESTS: Final = (JVM, NEWER_JVM, PYPAIMON, RUST)
KEEP: Final = Path("conform-failures")


def node_reader() -> str:
    """Return the command line of the reader for Node. Raises SetupError where it cannot be set up."""
    return shlex.join(node_program(NODE_SOURCE).command)


def ours(names: Sequence[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the command lines and modes of runners of this repository; the one for Node may be missing."""
    found = {name: OURS[name] for name in names if name in OURS}
    if NODE in names:
        try:
            found[NODE] = (node_reader(), (READER,))
        except SetupError as reason:
            print(f"{NODE}: left out: {reason}")
    return found


def guests(names: Sequence[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the command lines of the guests that are set up; those that are not are named."""
    os.environ[MAKES_NONE] = "1"
    _, missing = set_up(list(names)) if names else ({}, {})
    for name, reason in missing.items():
        print(f"{name}: left out: {reason}")
    module = "model_tests.conform.guest_runner"
    return {
        name: (f"{PYTHON} -m {module} {shlex.quote(name)}", (READER,))
        for name in names
        if name not in missing
    }


def judged(name: str, command: str, modes: tuple[str, ...]) -> Report:
    runner, archive = Runner(command), Archive()
    try:
        return conform(runner, archive, Asked(modes, keep=KEEP / name.replace(" ", "-"), auditor=OnDisk()))
    finally:
        runner.end()
        archive.close()


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code: 0 fine, 1 one of ours fails, 2 the caller's mistake."""
    names = (*OURS, NODE, *GUESTS)
    unknown = set(arguments) - {*names}
    if unknown:
        print(f"expected some of {', '.join(names)}; found {', '.join(sorted(unknown))}")
        return 2
    chosen = [name for name in names if not arguments or name in arguments]
    runners = ours(chosen)
    failed, kept = 0, []
    for name, (command, modes) in {**runners, **guests([n for n in chosen if n in GUESTS])}.items():
        report = judged(name, command, modes)
        print(summary(report), flush=True)
        product, version = name.rsplit(maxsplit=1) if name in GUESTS else (name, __version__)
        kept.append(record.recorded(product, version, report))
        for outcome in report.outcomes:
            if outcome.status in (FAIL, ERROR):
                print("\n".join(f"  {line}" for line in lines_of(outcome)), flush=True)
        failed += name in runners and report.failed
    record.write(kept)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
