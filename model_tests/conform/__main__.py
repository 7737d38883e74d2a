"""``python -m model_tests.conform [NAME ...]``: give the fixtures to every implementation that is there.

`make conform` does this. pktable reads and writes, and so do other implementations that `make interop` has set up. The
plain reader and the reader for Node read. It exits with 1 if one of these three fails. What another implementation
fails is a finding, and printed as one. `record` keeps the outcomes, from which the scoreboard of the site is made.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

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

Asking: TypeAlias = "tuple[str, tuple[str, ...]]"
"""The command line of a runner, and the modes in which it is asked."""

PYTHON: Final = shlex.quote(sys.executable)
OURS: Final[Mapping[str, Asking]] = {
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


def ours(names: Sequence[str]) -> dict[str, tuple[Asking, ...]]:
    """Return how runners of this repository are asked; the one for Node may be missing."""
    found: dict[str, tuple[Asking, ...]] = {name: (OURS[name],) for name in names if name in OURS}
    if NODE in names:
        try:
            found[NODE] = ((node_reader(), (READER,)),)
        except SetupError as reason:
            print(f"{NODE}: left out: {reason}")
    return found


def guests(names: Sequence[str]) -> dict[str, tuple[Asking, ...]]:
    """Return how guests that are set up are asked; those that are not are named."""
    os.environ[MAKES_NONE] = "1"
    _, missing = set_up(list(names)) if names else ({}, {})
    for name, reason in missing.items():
        print(f"{name}: left out: {reason}")
    return {
        name: tuple(
            (f"{PYTHON} -m model_tests.conform.{module} {shlex.quote(name)}", (mode,))
            for module, mode in (("guest_runner", READER), ("guest_writer", WRITER))
        )
        for name in names
        if name not in missing
    }


def judged(name: str, asked: Sequence[Asking]) -> Report:
    """Return the outcomes of a runner in all of its modes."""
    reports = []
    for command, modes in asked:
        runner, archive = Runner(command), Archive()
        try:
            wanted = Asked(modes, keep=KEEP / name.replace(" ", "-"), auditor=OnDisk())
            reports.append(conform(runner, archive, wanted))
        finally:
            runner.end()
            archive.close()
    return replace(reports[0], outcomes=tuple(one for report in reports for one in report.outcomes))


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
    for name, asked in {**runners, **guests([n for n in chosen if n in GUESTS])}.items():
        report = judged(name, asked)
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
