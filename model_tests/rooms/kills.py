"""Hold the table of rooms to the stored mutants: scripts and stored histories of a room find each mutant put into it.

A mutant is put into the code of some modules; its room is that of the first. The tests of a room without scripts and
stored histories are left out, and so are rooms of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from model_tests import corpus
from model_tests.backends.tables import local_backend
from model_tests.histories.profiles import Profile
from model_tests.histories.session import replay
from model_tests.mutants import MUTANTS
from model_tests.mutants.append_tables import APPEND_MUTANTS
from model_tests.mutants.registry import Mutant
from model_tests.rooms.table import ON_SPARK, ROOMS, STORED, room_of
from model_tests.store_work.play import store_work_is_as_recorded
from model_tests.store_work.scripts import SCRIPTS

OTHERWISE: Final = frozenset({"D1", "D2", "D4", "L2", "M08", "S3", *(f"B{i}" for i in range(1, 11))})
"""No script and no other history notices these mutants. `make verify` replays the history stored for each."""
ONE: Final = Profile("rooms", histories=1, steps=1, reread_limit=2)


def mutants_by_room() -> dict[str, list[Mutant]]:
    """Return the mutants of each room that has scripts and stored histories."""
    found: dict[str, list[Mutant]] = {}
    for mutant in (*MUTANTS.values(), *(one.mutant for one in APPEND_MUTANTS.values())):
        room = room_of(mutant.inject.modules[0])
        if room not in ON_SPARK and set(STORED) <= set(ROOMS[room]):
            found.setdefault(room, []).append(mutant)
    return found


def stored_tests() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield each script and each stored history, by name."""
    for name, script in SCRIPTS.items():
        yield f"script {name}", partial(store_work_is_as_recorded, name, script)
    for name in corpus.names():
        yield f"history {name}", partial(_replayed, name)


def _replayed(name: str) -> None:
    with local_backend() as open_table:
        replay(corpus.load(name), open_table, ONE)


def killer(mutant: Mutant) -> str | None:
    """Return the first script or stored history that fails with ``mutant``, None if none does."""
    for name, test in stored_tests():
        with mutant.inject():
            try:
                test()
            except Exception:  # whatever a table raises fails a test
                return name
    return None
