"""``python -m model_tests.verify [quick|deep] [--report DIR]``: run the verification suite; also ``make verify``.

``--report``: write what was checked and found as HTML, JSON and JUnit's XML into a folder.

Exit codes: 0 all checks passed, 1 a check failed or the summary could not be printed, 2 the caller's mistake.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from pktable.run.spark.session import require_java
from pktable_spec.errors import InvalidRequestError

from model_tests.tlc import record
from model_tests.verify import suite


def main(arguments: Sequence[str]) -> int:
    """Run the suite with the profile that ``arguments`` name, quick by default, and return the exit code."""
    parser = ArgumentParser(prog="verify", add_help=False)
    parser.add_argument("profile", nargs="?", default="quick", choices=suite.PROFILE_NAMES)
    parser.add_argument("--report", type=Path, default=None)
    try:
        given = parser.parse_args(list(arguments))
    except SystemExit:  # argparse has said why
        return 2
    profile: str = given.profile
    try:
        require_java()  # before anything has begun
        with record.using("none" if profile == "deep" else record.used()):
            return suite.main(profile, given.report)
    except InvalidRequestError as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2
    except (BrokenPipeError, SystemExit):  # rich exits like this when nobody reads its output
        return 1  # a suite that did not finish has verified nothing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
