"""``python -m model_tests.verify [quick|deep]``: run the whole verification suite; also ``make verify``.

Exit codes: 0 all checks passed, 1 a check failed or the summary could not be printed, 2 the caller's mistake.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pktable.run.spark.session import require_java
from pktable_spec.errors import InvalidRequestError

from model_tests.tlc import record
from model_tests.verify import suite


def main(arguments: Sequence[str]) -> int:
    """Run the suite with the profile that ``arguments`` name, quick by default, and return the exit code."""
    profile = arguments[0] if arguments else "quick"
    if profile not in suite.PROFILE_NAMES or len(arguments) > 1:
        print(f"verify: the profile is quick or deep, not {' '.join(arguments)}", file=sys.stderr)
        return 2
    try:
        require_java()  # before anything has begun
        with record.using("none" if profile == "deep" else record.used()):
            return suite.main(profile)
    except InvalidRequestError as error:
        print(f"verify: {error}", file=sys.stderr)
        return 2
    except (BrokenPipeError, SystemExit):  # rich exits like this when nobody reads its output
        return 1  # a suite that did not finish has verified nothing


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
