"""``python -m model_tests.rooms ROOM``: run the tests that guard a folder of the reference; also `make room ROOM=lsm`.

Exit codes: those of pytest, and 2 for a room that there is not.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

from pktable_spec.errors import InvalidRequestError

from model_tests.rooms.table import ON_SPARK, ROOT, paths_of, room_named

MINUTE: Final = 60


def main(arguments: Sequence[str]) -> int:
    """Run the tests of the room that ``arguments`` name, and return the exit code."""
    try:
        room = room_named(" ".join(arguments))
    except InvalidRequestError as error:
        print(f"room: {error}", file=sys.stderr)
        return 2
    started = time.monotonic()
    code = _tests(room, "not spark and not deep", "-n", "logical")
    if code == 0 and room in ON_SPARK:
        code = _tests(room, "spark and not deep")
    seconds = time.monotonic() - started
    more = f", more than {MINUTE}: give the room fewer tests, or faster ones" if seconds > MINUTE else ""
    print(f"room {room}: {seconds:.0f} s{more}")
    return code


def _tests(room: str, marked: str, *options: str) -> int:
    """Run the tests of a room with some marks, and return pytest's exit code; a room may have none of them."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", marked, *options, *paths_of(room)]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    return 0 if code == 5 else code  # no test was selected


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
