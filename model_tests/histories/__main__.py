"""Histories against a backend, drawn or from a file.

``python -m model_tests.histories [BACKEND] [PROFILE]`` draws the histories of a profile, by default the quick one on
the model. It prints the seed of a seeded profile, then a line per second. A mismatch prints its smallest history as
the text of a corpus file, and keeps it if ``PKTABLE_FAILURES`` names a directory.

``python -m model_tests.histories --replay FILE [BACKEND]`` replays a kept history, or one of the corpus.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pktable_conform.judge.read_expectations import Stats

from model_tests.backends.tables import BACKENDS
from model_tests.histories.failures import kept, replayed
from model_tests.histories.profiles import PROFILES
from model_tests.histories.run import run_histories


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code: 0 fine, 1 a check failed, 2 the caller's mistake."""
    if arguments[:1] == ["--replay"]:
        return replay_file(arguments[1:])
    backend, profile_name = [*arguments, *("model", "quick")[len(arguments) :]][:2]
    if backend not in BACKENDS or (backend, profile_name) not in PROFILES:
        known = ", ".join(" ".join(key) for key in PROFILES)
        print(f"expected one of: {known}; found {' '.join(arguments)}", file=sys.stderr)
        return 2
    profile = PROFILES[backend, profile_name]
    print(f"{backend} {profile.name}: {profile.histories} histories, seed {profile.seed}")
    printed = time.monotonic()

    def progress(stats: Stats) -> None:
        nonlocal printed
        if time.monotonic() - printed > 1:
            printed = time.monotonic()
            print(f"  {stats}", flush=True)

    report = run_histories(backend, profile, progress)
    print(f"{backend}: {report.stats}, {report.mismatches} mismatches")
    if report.mismatches:
        print(report.message)
        if report.failure is not None:
            print(kept(report.failure))
    return 1 if report.mismatches else 0


def replay_file(arguments: Sequence[str]) -> int:
    """Replay the file that the arguments name, on the backend that they name; return the exit code."""
    if not 1 <= len(arguments) <= 2:
        print("expected --replay FILE [BACKEND]", file=sys.stderr)
        return 2
    try:
        done, message = replayed(Path(arguments[0]), *arguments[1:])
    except (OSError, ValueError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    print(done)
    print(message or "nothing failed")
    return 0 if message is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
