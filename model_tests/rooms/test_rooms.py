"""The rooms are the folders of the reference, and their tests kill the mutants in them."""

from __future__ import annotations

import pytest

from model_tests.rooms.__main__ import main
from model_tests.rooms.kills import OTHERWISE, killer, mutants_by_room
from model_tests.rooms.table import ROOMS, ROOT, paths_of, room_named, room_of


def test_each_folder_of_the_reference_is_a_room_whose_tests_there_are() -> None:
    reference = ROOT / "reference"
    assert {path.parent.relative_to(reference).as_posix() for path in reference.rglob("*.py")} == set(ROOMS)
    for room in ROOMS:
        assert all((ROOT / path).exists() for path in paths_of(room)), room


def test_a_room_is_named_by_its_folder_or_one_of_its_modules() -> None:
    assert room_named("lsm") == room_named("reference/pktable/lsm/") == "pktable/lsm"
    assert room_of("pktable.lsm.universal") == "pktable/lsm"
    assert room_of("pktable.table") == "pktable"
    assert room_named("hudi/format") == room_of("pktable_hudi.format.bloom") == "pktable_hudi/format"


def test_a_room_that_there_is_not_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attic"]) == 2
    assert capsys.readouterr().err.startswith(
        "room: expected a room, found 'attic'; the rooms: pktable, bucket, "
    )


@pytest.mark.deep("a stored mutant of a room that no script and no stored history of the room notices")
@pytest.mark.parametrize("room", mutants_by_room())
def test_the_tests_of_a_room_kill_its_mutants(room: str) -> None:
    survived = {mutant.id for mutant in mutants_by_room()[room] if killer(mutant) is None}
    assert survived <= OTHERWISE
