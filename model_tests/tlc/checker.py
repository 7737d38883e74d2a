"""Run TLC on models and compare what it finds with what is expected.

TLC is run with one worker, so that the number of states until a violation is always the same, in a fresh
folder of its own. Models run side by side, two at a time.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from model_tests.tlc.jar import java, tlc_jar
from model_tests.tlc.models import FOLDER, PASSES, Model
from model_tests.tlc.values import Value, variables

HEAP: Final = "1g"
MESSAGE: Final = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@\n(.*?)\n?@!@!@ENDMSG \1 @!@!@", re.S)
STATE: Final = re.compile(r"(\d+): (?:<(\w+)[^>]*>|Initial predicate|.*)\n(.*)", re.S)


class Code:
    """Numbers of TLC's messages, as ``-tool`` prints them."""

    SUCCESS = 2193
    STATISTICS = 2199
    STATE = 2217
    BEHAVIOUR = 2121
    INVARIANT = (2110, 2107)
    ACTION_PROPERTY = (2112, 2108)
    TEMPORAL = 2116


class Message(NamedTuple):
    """One message of ``-tool``; severity 1 is an error."""

    code: int
    severity: int
    text: str


@dataclass(frozen=True)
class TraceStep:
    """A state of a counterexample, and the action that led to it ("" for the first)."""

    action: str
    state: dict[str, Value]


@dataclass(frozen=True)
class Outcome:
    """The result of TLC for one model."""

    model: Model
    violated: str  # a name, PASSES, or what went wrong
    states: int
    seconds: float
    trace: tuple[TraceStep, ...] = ()
    printed: str = ""

    @property
    def problem(self) -> str | None:
        """The difference from what is expected, None if there is none."""
        expected = self.model.expected
        if self.violated != expected.violated:
            return f"{self.model.name}: expected {expected.violated}, found {self.violated}"
        if self.states != expected.states:
            return f"{self.model.name}: expected {expected.states} states, found {self.states}"
        return None


def run_tlc(folder: Path, *arguments: str, seconds: float = 1_800) -> str:
    """Run TLC on Model.tla in ``folder`` and return what it prints. Raises InvalidRequestError."""
    command = [
        java(),
        *(f"-Xmx{HEAP}", "-Xss16m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *(f"-Djava.io.tmpdir={folder}", f"-DTLA-Library={FOLDER}", "-cp", str(tlc_jar()), "tlc2.TLC"),
        *(
            "-tool",
            "-deadlock",
            "-nowarning",
            "-lncheck",
            "final",
            "-workers",
            "1",
            "-metadir",
            str(folder / "states"),
        ),
        *("-config", "Model.cfg", *arguments, "Model.tla"),
    ]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, check=False
    )
    return done.stdout.decode("utf-8", "replace")


@contextmanager
def workplace() -> Iterator[Path]:
    """Give a folder for one run of TLC, and take it away again."""
    with tempfile.TemporaryDirectory(prefix="pktable-tlc-") as place:
        yield Path(place)


def check(model: Model, modules: Mapping[str, str] = MappingProxyType({})) -> Outcome:
    """Run one model. ``modules``: texts by file name, which take the place of those in spec/tla.

    Raises InvalidRequestError where TLC cannot be run at all.
    """
    started = time.monotonic()
    with workplace() as folder:
        model.write(folder)
        for name, text in modules.items():
            (folder / name).write_text(text, "utf-8")
        return outcome(model, run_tlc(folder), time.monotonic() - started)


def outcome(model: Model, output: str, seconds: float) -> Outcome:
    """Read what TLC printed."""
    messages = [Message(int(code), int(severity), text) for code, severity, text in MESSAGE.findall(output)]
    statistics = next((one.text for one in messages if one.code == Code.STATISTICS), "")
    found = re.search(r"([\d,]+) distinct states found", statistics)
    states = int(found[1].replace(",", "")) if found else 0
    return Outcome(
        model, _violated(model, messages, output), states, seconds, tuple(_trace(messages)), output
    )


def _violated(model: Model, messages: list[Message], output: str) -> str:
    for code, _, text in messages:
        if code in Code.INVARIANT and (name := re.search(r"Invariant (\w+) is violated", text)):
            return name[1]
        if code in (*Code.ACTION_PROPERTY, Code.TEMPORAL):
            # TLC names a line, or nothing: a model that must fail so checks one property only.
            return model.properties[0] if len(model.properties) == 1 else f"one of {model.properties}: {text}"
        if code == Code.SUCCESS:
            return PASSES
    errors = [text for _, severity, text in messages if severity == 1]
    return "TLC failed: " + " ".join((errors or [output[-500:]])[0].split())[:500]


def _trace(messages: list[Message]) -> Iterator[TraceStep]:
    for code, _, text in messages:
        if code == Code.STATE and (found := STATE.match(text)):
            yield TraceStep(found[2] or "", variables(found[3]))


def run_models(
    models: Sequence[Model],
    progress: Callable[[Outcome], None] = lambda outcome: None,
    side_by_side: int = 2,
    probed: Mapping[str, str] = MappingProxyType({}),
) -> list[Outcome]:
    """Run models, at most ``side_by_side`` at a time; tell each outcome as it comes, return all in order.

    ``probed``: the modules that those models run on that ask for it, see `coverage`.
    """
    java(), tlc_jar()  # a missing one is said once, before anything runs
    with ThreadPoolExecutor(side_by_side) as pool:
        running = {pool.submit(check, model, probed if model.probed else {}): model.name for model in models}
        found = {}
        for done in as_completed(running):
            found[running[done]] = done.result()
            progress(found[running[done]])
    return [found[model.name] for model in models]
