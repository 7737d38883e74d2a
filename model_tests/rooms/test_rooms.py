"""The rooms are the folders of the reference, and their tests kill the mutants in them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from model_tests.rooms.__main__ import main
from model_tests.rooms.kills import mutants_by_room, stored
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


def test_a_room_that_there_is_not_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["attic"]) == 2
    assert capsys.readouterr().err.startswith(
        "room: expected a room, found 'attic'; the rooms: pktable, bucket, "
    )


def test_a_test_of_its_room_is_on_record_for_each_mutant() -> None:
    kills = stored()
    assert {room: set(tests) for room, tests in kills.items()} == {
        room: set(mutants) for room, mutants in mutants_by_room().items()
    }
    strangers = [
        test
        for room, tests in kills.items()
        for test in tests.values()
        if not test.startswith(tuple(paths_of(room)))
    ]
    assert strangers == []


@pytest.mark.deep("the tests of a room no longer find a stored mutant of it")
def test_the_tests_on_record_kill_each_mutant() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "model_tests.rooms.kills", "--check"],
        cwd=ROOT, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3_000:]
