"""``python -m model_tests.deep [--hunt MINUTES]``: everything there is to check, one stage after another; `make deep`.

A stage that fails does not keep the others from running. At the end a table says how long each took and how it ended.
Exit codes: 0 all passed, 1 a stage failed, 2 the caller's mistake.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


@dataclass(frozen=True)
class Stage:
    """A part of everything, and the command that does it in the root of the repository."""

    name: str
    command: tuple[str, ...]


def stages(hunt: float) -> Iterator[Stage]:
    """Yield the stages, what is most often wrong first. ``hunt``: minutes of the last one."""
    yield Stage("ruff and mypy", ("make", "lint"))
    pytest = (sys.executable, "-m", "pytest", "-q")
    yield Stage("tests without Spark", (*pytest, "-n", "logical", "-m", "not spark"))
    yield Stage("tests on Spark", (*pytest, "-m", "spark"))
    yield Stage("each minor of pyspark", ("make", "test-minors"))
    yield Stage("make verify, all models of TLC", ("make", "verify", "PROFILE=deep"))
    yield Stage("interop", ("make", "interop", "PROFILE=deep"))
    yield Stage(f"hunt of {hunt:g} minutes", ("make", "hunt", f"MINUTES={hunt:g}"))


def main(arguments: Sequence[str]) -> int:
    """Run all stages, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m model_tests.deep", description="Check everything there is."
    )
    parser.add_argument(
        "--hunt", type=float, default=60, metavar="MINUTES", help="how long to hunt (default: 60)"
    )
    hunt = parser.parse_args(arguments).hunt
    ended: list[tuple[str, float, int]] = []
    for stage in stages(hunt):
        print(f"\n=== {stage.name}", flush=True)
        started = time.monotonic()
        code = subprocess.run(
            stage.command, cwd=ROOT, env={**os.environ, "PKTABLE_TESTS": "deep"}, check=False
        ).returncode
        ended.append((stage.name, time.monotonic() - started, code))
    print("\n=== make deep")
    for name, seconds, code in ended:
        print(f"{name:<34} {seconds / 60:>6.1f} min  {'passed' if code == 0 else f'FAILED with {code}'}")
    return int(any(code for _, _, code in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
