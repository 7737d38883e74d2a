"""``python -m model_tests.histories [BACKEND] [PROFILE]``: histories against a backend, with progress.

Prints the seed of a seeded profile, then a line per second; a mismatch prints its smallest history, as
the text of a corpus file, and exits 1.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from model_tests.backends.tables import BACKENDS
from model_tests.histories.expectations import Stats
from model_tests.histories.profiles import PROFILES
from model_tests.histories.run import run_histories


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code: 0 fine, 1 a check failed, 2 the caller's mistake."""
    backend, profile_name = [*arguments, *("model", "quick")[len(arguments) :]][:2]
    if backend not in BACKENDS or (backend, profile_name) not in PROFILES:
        known = ", ".join(" ".join(key) for key in PROFILES)
        print(f"expected one of: {known}; found {' '.join(arguments)}", file=sys.stderr)
        return 2
    profile = PROFILES[backend, profile_name]
    print(f"{backend} {profile.name}: {profile.histories} histories, seed {profile.seed}")
    told = time.monotonic()

    def progress(stats: Stats) -> None:
        nonlocal told
        if time.monotonic() - told > 1:
            told = time.monotonic()
            print(f"  {stats}", flush=True)

    report = run_histories(backend, profile, progress)
    print(f"{backend}: {report.stats}, {report.mismatches} mismatches")
    if report.mismatches:
        print(report.message)
        print(report.falsifying_history)
    return 1 if report.mismatches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
