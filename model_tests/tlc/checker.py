"""Run TLC on models and compare what it finds with what is expected.

TLC is run with one worker, so that the number of states until a violation is always the same, in a fresh
folder of its own. Models run side by side, two at a time. An input that TLC has had before is not given to it
again, see `record`; the result is compared with what is expected each time.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from model_tests.tlc import record
from model_tests.tlc.jar import java, tlc_jar
from model_tests.tlc.jvm import Run, run_java
from model_tests.tlc.models import PASSES, Model
from model_tests.tlc.values import Value, variables

FLAGS: Final = ("-tool", "-deadlock", "-nowarning", "-lncheck", "final", "-workers", "1")
Source: TypeAlias = Literal["run", "machine", "repository"]
"""Where a result is from: TLC ran, or this machine or the repository had it on record."""
MESSAGE: Final = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@\n(.*?)\n?@!@!@ENDMSG \1 @!@!@", re.S)
STATE: Final = re.compile(r"(\d+): (?:<(\w+)[^>]*>|Initial predicate|.*)\n(.*)", re.S)


class Code:
    """Numbers of TLC's messages, as ``-tool`` prints them."""

    FINISHED = 2186
    SUCCESS = 2193
    STATISTICS = 2199
    STATE = 2217
    BEHAVIOUR = (2121, 2264)
    INVARIANT = (2110, 2107)
    ACTION_PROPERTY = (2112, 2108)
    TEMPORAL = 2116
    ASSUMPTION = (2104, 2105)


class Printed(NamedTuple):
    """All that TLC printed, how long it took, and where it is from."""

    text: str
    seconds: float
    source: Source = "run"


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
    """The result of TLC for one model.

    ``entry``: what the repository has on record, if TLC did not run.
    """

    model: Model
    violated: str  # a name, PASSES, or what went wrong
    states: int
    seconds: float
    trace: tuple[TraceStep, ...] = ()
    printed: str = ""
    source: Source = "run"
    entry: Mapping[str, Any] | None = None

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
    words = [*FLAGS, "-metadir", str(folder / "states"), "-config", "Model.cfg", *arguments, "Model.tla"]

    def work(run: Run) -> None:
        run.call("util.ToolIO", "setUserDir", None, f"{folder}/")
        tlc = run.new("tlc2.TLC")
        if run.call("tlc2.TLC", "handleParameters", tlc, run.words(words)):
            run.call("tlc2.TLC", "setResolver", tlc, run.new("util.SimpleFilenameToStream"))
            run.call("tlc2.TLC", "process", tlc)

    return run_java(work, folder, seconds)


def printed_for(files: Mapping[str, str], *arguments: str, again: bool = False) -> Printed:
    """Return what TLC prints of the files of a model; it runs if this machine has no record of that, or ``again``."""
    key = record.key_of(files, *FLAGS, *arguments)
    if not again and (known := record.recalled(key)):
        return Printed(str(known["printed"]), float(known["seconds"]), "machine")
    started = time.monotonic()
    with workplace() as folder:
        for name, text in files.items():
            (folder / name).write_text(text, "utf-8")
        found = Printed(run_tlc(folder, *arguments), time.monotonic() - started)
    if _is_whole(messages_in(found.text)):
        record.remember(key, {"printed": found.text, "seconds": round(found.seconds, 2)})
    return found


def _is_whole(messages: Sequence[Message]) -> bool:
    """Whether TLC came to an end that is the same each time: it went through, or a property or an assumption fails."""
    ends = (*Code.INVARIANT, *Code.ACTION_PROPERTY, Code.TEMPORAL, *Code.BEHAVIOUR, *Code.ASSUMPTION)
    return any(one.code == Code.FINISHED for one in messages) and not any(
        one.severity == 1 and (one.code not in ends or "java.lang" in one.text) for one in messages
    )


@contextmanager
def workplace() -> Iterator[Path]:
    """Give a folder for one run of TLC, and take it away again."""
    with tempfile.TemporaryDirectory(prefix="pktable-tlc-") as place:
        yield Path(place)


def check(model: Model, modules: Mapping[str, str] = MappingProxyType({}), *, again: bool = False) -> Outcome:
    """Run one model. ``modules``: texts by file name, which take the place of those in spec/tla.

    Raises InvalidRequestError where TLC cannot be run at all.
    """
    return outcome(model, printed_for({**model.files(), **modules}, again=again))


def of_entry(model: Model, entry: Mapping[str, Any]) -> Outcome:
    """Return the outcome that the repository has on record."""
    return Outcome(model, entry["violated"], entry["states"], 0.0, (), "", "repository", entry)


def outcome(model: Model, printed: Printed) -> Outcome:
    """Read what TLC printed."""
    text, seconds, source = printed
    messages = messages_in(text)
    statistics = next((one.text for one in messages if one.code == Code.STATISTICS), "")
    found = re.search(r"([\d,]+) distinct states found", statistics)
    states = int(found[1].replace(",", "")) if found else 0
    violated = _violated(model, messages, text)
    return Outcome(model, violated, states, seconds, tuple(_trace(messages)), text, source)


def messages_in(text: str) -> list[Message]:
    return [Message(int(code), int(severity), text) for code, severity, text in MESSAGE.findall(text)]


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
    checked: Callable[[Model], Outcome] = check,
) -> list[Outcome]:
    """Check models, at most ``side_by_side`` at a time; tell each outcome as it comes, return all in order."""
    java(), tlc_jar()  # a missing one is said once, before anything runs
    with ThreadPoolExecutor(side_by_side) as pool:
        running = {pool.submit(checked, model): model.name for model in models}
        found = {}
        for done in as_completed(running):
            found[running[done]] = done.result()
            progress(found[running[done]])
    return [found[model.name] for model in models]
