"""``python -m model_tests.unasked``: which `raise` of the sources no test executes.

It runs the tests of `make test` under coverage, and then lists each such statement by file and line. A refusal that no
test asks for is one that a change may lose. Some of the list are executed after all: by `make verify`, and by workers
of Spark and commands in processes of their own, which end too fast to say so. Options are given to pytest.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from coverage import Coverage

ROOT: Final = Path(__file__).parents[1]
SOURCES: Final = (ROOT / "reference", ROOT / "spec")
SETTINGS: Final = """
[run]
source = {sources}
data_file = {folder}/data
parallel = true
concurrency = thread,multiprocessing
sigterm = true
disable_warnings = no-data-collected
"""


def refusals(source: str, missing: Collection[int]) -> Iterator[tuple[int, str]]:
    """Yield line and text of each `raise` in ``missing`` lines, but what raises again and what cannot happen."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and node.exc is not None and node.lineno in missing:
            text = ast.unparse(node)
            if not text.startswith("raise AssertionError"):
                yield node.lineno, text


def main(options: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "settings"
        settings.write_text(SETTINGS.format(sources=",".join(map(str, SOURCES)), folder=folder))
        tests = [sys.executable, "-m", "model_tests.side_by_side", *options]
        code = subprocess.call(tests, env={**os.environ, "COVERAGE_PROCESS_START": str(settings)})
        executed = Coverage(config_file=str(settings))
        executed.combine()
        found = 0
        for path in sorted(path for source in SOURCES for path in source.rglob("*.py")):
            _, _, _, missing, _ = executed.analysis2(str(path))
            for line, text in sorted(refusals(path.read_text("utf-8"), set(missing))):
                found += 1
                print(f"{path.relative_to(ROOT)}:{line}  {text:.140}")
    print(f"\n{found} refusals that no test asks for")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
