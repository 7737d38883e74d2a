"""Hold the table of rooms to the stored mutants: the tests of a room find each mutant that is put into it.

``python -m model_tests.rooms.kills`` looks for a test of the room that fails with each mutant, and writes it into
``kills.json``. With ``--check`` it runs these tests again, each with its mutants only; a test does that in `make deep`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

from model_tests.mutants import MUTANTS
from model_tests.mutants.append_tables import APPEND_MUTANTS
from model_tests.mutants.registry import Mutant
from model_tests.rooms.table import ON_SPARK, paths_of, room_of

KILLS: Final = Path(__file__).parent / "kills.json"
"""The test that kills each mutant, by room and by the id of the mutant."""
Kills = Mapping[str, Mapping[str, str]]
OPTIONS: Final = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not spark and not deep")


def mutants_by_room() -> dict[str, dict[str, Mutant]]:
    """Return the mutants of each room without Spark, by id. One in code of several rooms is in the first."""
    found: dict[str, dict[str, Mutant]] = {}
    for mutant in (*MUTANTS.values(), *(one.mutant for one in APPEND_MUTANTS.values())):
        room = room_of(mutant.inject.modules[0])
        if room not in ON_SPARK:
            found.setdefault(room, {})[mutant.id] = mutant
    return found


def stored() -> dict[str, dict[str, str]]:
    """Return the tests on record."""
    found: dict[str, dict[str, str]] = json.loads(KILLS.read_text("utf-8"))
    return found


class Injecting:
    """A plugin of pytest that runs each test with some mutants put in, one after another.

    ``wanted``: the mutants for each test, by its id; None puts ``mutants`` into every test, until one fails.
    """

    def __init__(
        self, mutants: Mapping[str, Mutant], wanted: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._mutants, self._wanted = dict(mutants), wanted
        self.killed: dict[str, str] = {}

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool:
        """Run a test once with each mutant that it is to kill."""
        for id in list(self._mutants) if self._wanted is None else self._wanted.get(item.nodeid, ()):
            if id in self.killed:
                continue
            item._initrequest()
            with self._mutants[id].inject():
                reports = runtestprotocol(item, log=False, nextitem=nextitem)
            if any(report.failed for report in reports):
                self.killed[id] = item.nodeid
        return True


def found_in(room: str, mutants: Mapping[str, Mutant]) -> dict[str, str]:
    """Return the first test of a room that fails with each of some mutants, by the id of the mutant."""
    plugin = Injecting(mutants)
    pytest.main([*OPTIONS, *paths_of(room)], plugins=[plugin])
    return plugin.killed


def surviving(kills: Kills) -> list[str]:
    """Return the mutants, with their rooms, that the tests on record no longer kill."""
    mutants = {id: one for room in mutants_by_room().values() for id, one in room.items()}
    found = []
    for room, tests in kills.items():
        wanted: dict[str, list[str]] = {}
        for id, test in tests.items():
            wanted.setdefault(test, []).append(id)
        plugin = Injecting({id: mutants[id] for id in tests}, wanted)
        pytest.main([*OPTIONS, *wanted], plugins=[plugin])
        found += [f"{id} in {room}" for id in tests if id not in plugin.killed]
    return found


def main(arguments: Sequence[str]) -> int:
    """Look for the tests that kill each mutant and write them down, or with ``--check`` run those on record."""
    if arguments == ["--check"]:
        found = surviving(stored())
        print("\n".join(f"survived: {one}" for one in found) or "the tests on record kill each mutant")
        return 1 if found else 0
    kills = {room: found_in(room, mutants) for room, mutants in mutants_by_room().items()}
    KILLS.write_text(json.dumps(kills, indent=1, sort_keys=True) + "\n", "utf-8")
    missed = [
        f"{id} in {room}" for room, some in mutants_by_room().items() for id in some.keys() - kills[room]
    ]
    print(
        "\n".join(f"no test of the room kills {one}" for one in missed)
        or "each mutant is killed in its rooms"
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
