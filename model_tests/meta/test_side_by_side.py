"""Two commands side by side: both exit codes count, and an interrupt leaves none of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from model_tests.side_by_side import side_by_side

ROOT = Path(__file__).parents[2]


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


@pytest.mark.parametrize(("codes", "expected"), [((0, 0), 0), ((2, 0), 2), ((0, 3), 3), ((2, 3), 2)])
def test_a_failure_of_either_is_one_of_both(
    capfd: pytest.CaptureFixture[str], codes: tuple[int, int], expected: int
) -> None:
    first, second = (python(f"print({code}); raise SystemExit({code})") for code in codes)
    assert side_by_side(first, second) == expected
    assert capfd.readouterr().out.split() == [
        str(codes[0]),
        *["tests", "on", "Spark,", "which", "ran", "meanwhile:"],
        str(codes[1]),
    ]


def test_an_interrupt_ends_both() -> None:
    waiting = python("import os, time; os.write(1, b'x'); time.sleep(600)")
    text = (
        "import signal; from model_tests.side_by_side import side_by_side; "
        f"signal.signal(signal.SIGINT, signal.default_int_handler); side_by_side({waiting}, {waiting})"
    )
    process = subprocess.Popen(python(text), cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        os.killpg(process.pid, signal.SIGINT)
        process.stdout.read()  # ends when no process is left that could write
        assert process.wait() != 0
