"""``python -m model_tests.tlc [--keep DIR] [MODEL...]``: check the TLA+ modules; also ``make tla``.

Without names everything is checked. It is run again whatever is on record, unless ``PKTABLE_TLC_RECORD`` says
otherwise; if all is as expected, the record of the repository is written (`record`). With names, or parts of them,
those models are checked, and a violation prints its steps. ``--keep`` leaves the files TLC read, to run it by hand.
Exits 1 if something is not as expected, 2 where nothing could be checked.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pktable_spec.errors import InvalidRequestError

from model_tests.tlc import record, suite
from model_tests.tlc.models import FOLDER, Model, load


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code."""
    started = time.monotonic()
    try:
        keep, names = _parsed(list(arguments))
        if keep is not None:
            return _kept(_chosen(names), keep)
        with record.using(os.environ.get(record.VARIABLE) or "none"):
            if names:
                results = suite.check_models(_chosen(names), _say, all_of_them=False)
            else:
                results = suite.run(_say, write=True)
    except InvalidRequestError as error:
        print(error, file=sys.stderr)
        return 2
    print(suite.table(results))
    problems = [problem for result in results for problem in result.problems]
    print("\n".join(f"FAILED {one}" for one in problems) or "all as expected", end="")
    print(f", {time.monotonic() - started:.0f} s")
    return 1 if problems else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _parsed(arguments: list[str]) -> tuple[Path | None, list[str]]:
    if arguments[:1] != ["--keep"]:
        if unknown := [one for one in arguments if one.startswith("-")]:
            raise InvalidRequestError(f"expected --keep DIR or names of models, found {unknown[0]}")
        return None, arguments
    if len(arguments) < 3:
        raise InvalidRequestError("--keep: expected a folder and the name of a model")
    return Path(arguments[1]), arguments[2:]


def _chosen(names: Sequence[str]) -> list[Model]:
    models = load()
    chosen = [model for model in models if any(name in model.name for name in names)]
    if not chosen:
        raise InvalidRequestError(
            f"expected a model named like {' or '.join(names)}, found none of {len(models)}"
        )
    return chosen


def _kept(models: Sequence[Model], keep: Path) -> int:
    for model in models:
        folder = keep / model.name
        folder.mkdir(parents=True, exist_ok=True)
        model.write(folder)
        print(
            f"{folder}: java -DTLA-Library={FOLDER} -cp tla2tools.jar tlc2.TLC -deadlock -config Model.cfg Model.tla"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
