"""What took longest in a run of the tests, and which tests took more than the budget of their folder.

The budget counts seconds of computing, of the process that runs a test and of the programs that it waited for, since
those of the clock depend on what else the machine does. Spark's JVM is not among them.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import pytest

SECONDS: Final[Mapping[str, float]] = {
    "table": 230, "histories": 70, "hudi": 80, "format": 65, "engines": 50, "cli": 40, "mutants": 40, "simulation": 45,
    "tlc": 35, "append": 30, "damage": 30, "meta": 40, "oracle": 38, "processes": 25, "stores": 20, "changelog": 15,
    "commit": 15, "interop": 15, "predicate": 18, "rooms": 5, "check": 10, "hunt": 10, "seams": 15, "source": 10,
    "buckets": 15, "conform": 40, "examples": 5, "statements": 10, "store_work": 10, "refinement": 5, "replay": 5,
    "vectors": 5, "verify": 5, "warehouse": 20,
}  # fmt: skip
"""For each folder, the seconds that all of its tests take together in `make test`, those on Spark left out."""
OF_ONE_TEST: Final = 10.0
"""The seconds that one case of a test may take, in any folder."""
SHOWN: Final = 10
SPENT: Final = "seconds of computing"


def computed() -> float:
    """Return the seconds that this process has computed so far, with the programs that it waited for."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


class Budget:
    """A plugin of pytest that measures each test, and tells at the end of a run what took longest.

    ``judges``: whether the run is one of all tests of its folders, so that their sums mean something.
    """

    def __init__(self, judges: bool) -> None:
        self._judges = judges
        self._started = time.monotonic()
        self._spent: dict[str, float] = {}
        self._before = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Start to count at the set-up of a test."""
        self._before = computed()
        return (yield)  # what the other plugins answered

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Write into the report of each phase what was computed since the one before; a worker sends it on."""
        report = yield
        now = computed()
        report.user_properties = [(SPENT, now - self._before)]
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase to what its test took."""
        spent = sum(
            seconds
            for name, seconds in report.user_properties
            if name == SPENT and isinstance(seconds, float)
        )
        self._spent[report.nodeid] = self._spent.get(report.nodeid, 0.0) + spent

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell what took longest."""
        if not self._spent:
            return
        seconds = time.monotonic() - self._started
        terminalreporter.section(f"{sum(self._spent.values()):.0f} s of computing in {seconds:.0f} s")
        for line in told(self._spent):
            terminalreporter.write_line(line)
        for line in beyond(self._spent, folders=self._judges):
            terminalreporter.write_line(f"beyond the budget: {line}", yellow=True)


def told(spent: Mapping[str, float]) -> list[str]:
    """Return lines on the folders and on the functions that took longest, from the seconds of each case."""
    by_folder = _sums(spent, folder_of)
    by_function = _sums(spent, lambda case: case.partition("[")[0])
    counts = _sums(dict.fromkeys(spent, 1.0), lambda case: case.partition("[")[0])
    return [
        "  ".join(f"{folder} {seconds:.0f}" for folder, seconds in _longest(by_folder, len(by_folder))),
        *(
            f"{seconds:6.1f} s  {counts[function]:4.0f} cases  {function}"
            for function, seconds in _longest(by_function, SHOWN)
        ),
    ]


def beyond(spent: Mapping[str, float], *, folders: bool) -> list[str]:
    """Return what took more than it should: cases, and with ``folders`` also folders."""
    found = [
        f"{case}: {seconds:.1f} s of {OF_ONE_TEST:.0f}"
        for case, seconds in spent.items()
        if seconds > OF_ONE_TEST
    ]
    if folders:
        found += [
            f"{folder}: {seconds:.0f} s of {SECONDS.get(folder, 0):.0f}"
            for folder, seconds in _sums(spent, folder_of).items()
            if seconds > SECONDS.get(folder, 0)
        ]
    return found


def folder_of(case: str) -> str:
    """Return the folder of a case from its id: ``cli`` from ``model_tests/cli/test_cli.py::test``."""
    return case.removeprefix("model_tests/").partition("/")[0]


def _sums(spent: Mapping[str, float], of: Callable[[str], str]) -> dict[str, float]:
    sums: dict[str, float] = defaultdict(float)
    for case, seconds in spent.items():
        sums[of(case)] += seconds
    return dict(sums)


def _longest(sums: Mapping[str, float], count: int) -> list[tuple[str, float]]:
    return sorted(sums.items(), key=lambda one: -one[1])[:count]
