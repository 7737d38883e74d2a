"""A hunt with kinds that fail, die and hang on purpose; and each real kind for one turn."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import strategies as st

from model_tests import seeded
from model_tests.hunt import __main__ as command
from model_tests.hunt.fakes import FAKES, fine
from model_tests.hunt.hunt import Catch, Count, Hunt, Turns
from model_tests.hunt.kinds import KINDS
from model_tests.hunt.report import lines_of, table_of, total_of
from model_tests.hunt.turns import Kind, Outcome, Turn, made_smaller, played


def has_a_large_case(seed: int) -> int:
    def is_small(data: st.DataObject) -> None:
        assert data.draw(st.integers(0, 1 << 30)) < 1_000

    seeded.play_drawn(50, seed, is_small)
    return 50


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PKTABLE_FAILURES", str(tmp_path / "kept"))
    return tmp_path / "kept"


def test_what_fails_dies_or_hangs_is_told_apart_and_ends_nothing_else(kept: Path) -> None:
    told: list[str] = []

    def end_when_all_were_played(catch: Catch) -> None:
        if all(count.turns for count in catch.counts.values()):
            raise KeyboardInterrupt

    hunt = Hunt(
        list(FAKES.values()),
        seed=1,
        workers=2,
        found=lambda fault: told.append(fault.turn.kind.name),
        progress=end_when_all_were_played,
    )
    catch = hunt.run(300)
    assert catch.interrupted
    assert sorted(told) == ["dies", "fails"]
    assert {turn.kind.name for turn, _ in catch.late} == {"hangs"}
    assert "in hangs" in catch.late[0][1]
    counts = catch.counts
    assert counts["fine"].cases == 3 * counts["fine"].turns > 0
    assert [counts[name].failed for name in ("fine", "hangs")] == [0, 0]
    for name in ("fails", "dies"):
        assert counts[name].failed == counts[name].turns > 0
        assert [fault.times for (kind, _), fault in catch.faults.items() if kind == name] == [
            counts[name].failed
        ]
    assert counts["hangs"].late == counts["hangs"].turns == len(catch.late)
    lines = "\n".join(lines_of(catch))
    (seed,) = re.findall(r"to repeat it: python -m model_tests.hunt --repeat fails:(\d+)", lines)
    assert f"the case of {seed}" in (kept / f"hunt-fails-{seed}.txt").read_text()


def test_the_command_that_is_told_repeats_the_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--repeat", "fails:17"], FAKES) == 1
    assert "row 17 is missing" in capsys.readouterr().out
    assert command.main(["--repeat", "fine:17"], FAKES) == 0
    assert "3 cases, nothing failed" in capsys.readouterr().out


def test_a_hunt_ends_with_counts_and_1_if_something_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--minutes", "0.02", "--only", "fails", "--workers", "1"], FAKES) == 1
    assert "--repeat fails:" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--only", "fine,none"], ["--repeat", "none:1"], ["--repeat", "fine:x"]])
def test_a_kind_that_there_is_not_is_the_callers_mistake(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(wrong, FAKES)
    assert "fine, fails, dies, hangs; found" in capsys.readouterr().err


def test_turns_are_as_many_as_weights_say_and_their_seeds_follow_from_one() -> None:
    turns = Turns(list(FAKES.values()), 5)
    drawn = [turns.next(alone=True) for _ in range(80)]
    assert Counter(turn.kind.name for turn in drawn if turn) == {
        "fine": 40,
        "fails": 20,
        "dies": 10,
        "hangs": 10,
    }
    again = Turns(list(FAKES.values()), 5)
    assert [again.next(alone=True) for _ in range(80)] == drawn
    assert len({turn.seed for turn in drawn if turn}) == 80


def test_of_kinds_that_are_played_alone_other_workers_get_none() -> None:
    turns = Turns([Kind("heavy", 9, fine, alone=True), FAKES["fine"]], 1)
    assert {turn.kind.name for turn in (turns.next(alone=False) for _ in range(5)) if turn} == {"fine"}
    assert (first := turns.next(alone=True)) is not None
    assert first.kind.name == "heavy"
    assert Turns([Kind("heavy", 9, fine, alone=True)], 1).next(alone=False) is None


def test_counts_add_up() -> None:
    catch = Catch({name: Count() for name in FAKES})
    catch.add(Turn(FAKES["fine"], 1), Outcome(cases=5), 2)
    assert catch.add(Turn(FAKES["fails"], 2), Outcome(fault="a", message="m"), 1) is not None
    assert catch.add(Turn(FAKES["fails"], 3), Outcome(fault="a", message="n"), 1) is None
    assert catch.add(Turn(FAKES["fails"], 4), Outcome(fault="b", message="o"), 1) is not None
    catch.add_late(Turn(FAKES["hangs"], 5), "somewhere", 7)
    assert vars(total_of(catch)) == {"turns": 5, "cases": 5, "seconds": 12, "failed": 3, "late": 1}
    assert [fault.times for fault in catch.faults.values()] == [2, 1]
    assert table_of(catch).row_count == len(FAKES)


def test_a_failure_is_made_small_and_is_the_same_fault_whatever_the_seed() -> None:
    found = [played(Turn(Kind("large", 1, has_a_large_case), seed)) for seed in (1, 2)]
    assert found[0].fault == found[1].fault == "AssertionError test_hunt.is_small"
    assert "assert 1000 < 1000" in made_smaller(Turn(Kind("large", 1, has_a_large_case), 1)).text


def test_an_interrupt_ends_a_hunt_with_its_counts() -> None:
    program = (
        "import signal, sys; from model_tests.hunt import __main__ as command, fakes\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background ignores\n"
        "sys.exit(command.main(['--only', 'fine', '--workers', '1'], fakes.FAKES))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("hunting for 60 minutes by seed")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert "What was hunted" in process.stdout.read()
    assert process.returncode == 0


@pytest.mark.deep("a kind of the hunt that cannot be played at all")
@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_each_kind_plays_a_turn(kind: Kind) -> None:
    outcome = played(Turn(kind, seeded.seed_for(1)))
    assert not outcome.fault, outcome.text
    assert outcome.cases > 0
