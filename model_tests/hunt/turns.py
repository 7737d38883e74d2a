"""A turn: a kind of what is hunted, and a seed. What it comes to can be sent from one process to another."""

from __future__ import annotations

import contextlib
import io
import random
import re
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest import mock

from pktable_conform.judge.checks import message_of

from model_tests.seeded import made_small

TREE: Final = Path(__file__).parents[2]
LONGEST: Final = 20_000
"""Characters of a text that is kept."""


@dataclass(frozen=True)
class Kind:
    """A kind of turns. ``play``: plays the cases of a seed, returns their number, and raises at the first that fails.

    ``weight``: its share of the turns. ``seconds``: that a turn may take. ``alone``: whether two turns of such
    kinds are too much for a machine at a time.
    """

    name: str
    weight: float
    play: Callable[[int], int]
    seconds: float = 120
    alone: bool = False


@dataclass(frozen=True)
class Turn:
    """A kind and a seed, which say all that is drawn."""

    kind: Kind
    seed: int

    @property
    def name(self) -> str:
        return f"{self.kind.name}:{self.seed}"

    @property
    def command(self) -> str:
        """The command that plays it again."""
        return f"python -m model_tests.hunt --repeat {self.name}"


class FoundError(Exception):
    """A kind found something that is wrong. ``case``: the smallest; ``fault``: what is the same of the same fault."""

    def __init__(self, message: str, case: str = "", fault: str = "") -> None:
        super().__init__(message)
        self.case, self.fault = case, fault or message


@dataclass(frozen=True)
class Outcome:
    """The end of a turn: ``cases`` that went well, or what was wrong.

    ``fault``: what is the same when the same is found again, empty if nothing is wrong. ``text``: all that is known.
    """

    cases: int = 0
    fault: str = ""
    message: str = ""
    text: str = ""


def played(turn: Turn) -> Outcome:
    """Play a turn. The names of files follow from the seed, too: some faults depend on their order."""
    said, names = io.StringIO(), random.Random(turn.seed)

    def drawn_name() -> uuid.UUID:
        return uuid.UUID(int=names.getrandbits(128), version=4)

    drawn = mock.patch.object(uuid, "uuid4", drawn_name)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()), drawn:
            return Outcome(cases=turn.kind.play(turn.seed))
    except BaseException as error:  # some stand for a process that dies
        if isinstance(error, KeyboardInterrupt):
            raise
        return _failed(error, said.getvalue())


def made_smaller(turn: Turn) -> Outcome:
    """Play a turn that fails again, and look for the smallest case that does."""
    with made_small():
        return played(turn)


def _failed(error: BaseException, said: str) -> Outcome:
    message = str(error) if isinstance(error, FoundError) else message_of(error)
    case = error.case if isinstance(error, FoundError) else said
    notes = "\n".join(getattr(error, "__notes__", ()))  # Hypothesis tells there what it has drawn
    trace = "" if isinstance(error, FoundError) else "".join(traceback.format_exception(error))
    text = "\n\n".join(part[:LONGEST] for part in (message, case, notes, trace) if part)
    return Outcome(fault=_fault_of(error), message=message.partition("\n")[0][:300], text=text)


def _fault_of(error: BaseException) -> str:
    """Return what does not differ from seed to seed: the kind of error, and the function of ours that raised it."""
    if isinstance(error, FoundError):
        return re.sub(r"\d+", "#", error.fault.partition("\n")[0])
    frames = [
        one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).is_relative_to(TREE)
    ]
    place = f"{Path(frames[-1].filename).stem}.{frames[-1].name}" if frames else "?"
    check = getattr(error, "check", None)
    return f"{type(error).__name__} {check or place}"
