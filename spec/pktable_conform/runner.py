"""A runner: the process of an implementation, which answers commands, a JSON object a line.

Every request has a number that its answer repeats. So an answer that comes late, twice or to another request is told
from the one that was asked for. Whatever a runner does wrong is a `RunnerError`, and ends its process; the next case is
given to a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final

from pktable_spec.errors import InvalidRequestError

PROTOCOL: Final = 1
OUTCOMES: Final = frozenset(("ok", "refused", "unsupported", "error"))
COMMANDS: Final = (
    *("open", "read"),
    *("create", "write", "compact", "reopen", "snapshots", "files", "vectors"),
)
"""The commands besides ``supports``: those of a reader, and those that a writer has in addition."""
MAY_BE_DECLINED: Final = "create"
"""The command that a runner may answer by unsupported: no feature says of an option whether it is written."""
FEATURES: Final[Mapping[str, str]] = {
    "keys": "tables with a primary key and deletion vectors",
    "merge on read": "tables with a primary key and without deletion vectors",
    "append": "tables without a primary key",
    "vectors of 64 bits": "deletion vectors of 64 bits",
    "first-row": "tables of the merge engine first-row",
    "partial-update": "tables of the merge engine partial-update",
    "sequence groups": "tables of partial-update with sequence groups",
    "aggregation": "tables of the merge engine aggregation",
    "engine retractions": "retractions in tables of partial-update and aggregation",
    "bitmaps": "tables with the aggregate functions rbm32 and rbm64",
    "sketches": "tables with the aggregate function theta_sketch",
    "sequence fields": "tables whose records are ordered by the option sequence.field",
    "evolution": "columns that were added, dropped, renamed or given another type",
    "nested": "columns of ARRAY, MAP and ROW",
    "variant": "columns of VARIANT",
    "files of some columns": "data files of append tables that hold some of the columns",
    "data evolution": "tables whose rows have columns in several files",
    "orc": "data files in ORC",
    "avro": "data files in Avro",
    "manifest formats": "manifests in Parquet, and with the feature orc in ORC",
    "snapshots": "reads of a snapshot that is named",
    "tags": "reads of a tag",
    "times": "reads of the snapshot of a time",
    "branches": "reads of a branch",
    "changes": "reads of the changes between two snapshots",
    "fresh": "fresh reads of tables with deletion vectors",
    "columns": "reads of some columns",
    "where": "reads with conditions",
    "limit": "reads of a limited number of rows",
    "retractions": "writes of changes that take rows away",
}
"""What a runner may support, by the name that it gives it."""
TYPES: Final = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
    *("CHAR", "VARCHAR", "STRING", "BINARY", "VARBINARY", "BYTES"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "ARRAY", "MAP", "ROW"),
)
"""The types that a runner may write, without their lengths and parts."""
PLAIN_TYPES: Final = frozenset(("INT", "STRING"))
"""Those that every writer writes."""
FORMATS: Final = ("parquet", "orc", "avro")
"""The formats of data files that a runner may write. Every writer writes the first."""
LONGEST_ANSWER: Final = 64 << 20  # bytes of a line
SHOWN: Final = 300  # characters of what a runner said
ZONE: Final = "Asia/Tokyo"
"""The time zone of a runner. In UTC a value that is shifted to the zone of the machine would be right."""


class RunnerError(Exception):
    """A runner did not answer as the protocol says. The message says what it did."""


class Refused(Exception):  # noqa: N818 -- an answer, not an error of the program
    """The runner has refused the table or the request, and says why."""


class Unsupported(Exception):  # noqa: N818
    """The runner cannot do this, and has said so: before, or of a table that it is to create."""


@dataclass(frozen=True)
class Supports:
    """What a runner says of itself: its name, and the commands and features that it supports.

    ``writes``: of each of `FORMATS` that it writes the types, of `TYPES`.
    """

    name: str
    commands: frozenset[str]
    features: frozenset[str]
    writes: Mapping[str, frozenset[str]] = field(default_factory=lambda: {FORMATS[0]: PLAIN_TYPES})


class Runner:
    """A process that answers commands, started at the first one. ``timeout``: seconds for each answer."""

    def __init__(self, command: str, *, timeout: float = 60.0) -> None:
        self._arguments, self._timeout = _arguments(command), timeout
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._number = 0
        self._opened = contextlib.ExitStack()
        self._supports: Supports | None = None

    def supports(self) -> Supports:
        """Return what the runner says that it supports. Raises RunnerError, InvalidRequestError."""
        if self._supports is None:
            self._supports = _supports(self.ask("supports", protocol=PROTOCOL))
        return self._supports

    def ask(self, do: str, **fields: object) -> Any:
        """Send a command, and return what its answer holds in ``ok``.

        Raises Refused for an answer with ``refused``, Unsupported for a ``create`` that is answered so, RunnerError for
        every answer that the protocol does not know.
        """
        if self._process is None:
            self._start()
        self._number += 1
        request = json.dumps({"id": self._number, "do": do, **fields}, ensure_ascii=False) + "\n"
        try:
            self._expect_silence(do)
            answer = self._parsed(do, self._exchanged(do, request.encode()))
        except RunnerError:
            self.end()
            raise
        if "ok" in answer:
            return answer["ok"]
        if "refused" in answer:
            raise Refused(str(answer["refused"]))
        if "unsupported" in answer and do == MAY_BE_DECLINED:
            raise Unsupported(f"{do}: {answer['unsupported']}")
        if "unsupported" in answer:
            raise RunnerError(
                f"says that it supports {self._claimed(do)}, and answered unsupported: {answer['unsupported']}"
            )
        raise RunnerError(f"failed to {do}: {answer.get('error')}")

    def _expect_silence(self, do: str) -> None:
        """Raise RunnerError if the runner has written a line that nobody has asked for."""
        if self._answers.empty():
            return
        line = self._answers.get()
        if not line:
            raise self._gone(do)
        raise self._ended(
            f"wrote {_shown(line)} before it was asked to {do}; an answer to a request is one line"
        )

    def _claimed(self, do: str) -> str:
        return f"the command {do}" if self._supports is None or do in self._supports.commands else do

    def _parsed(self, do: str, line: bytes) -> dict[str, Any]:
        """Return an answer. Raises RunnerError if it is none, or one to another request."""
        try:
            answer = json.loads(line)
        except ValueError:
            raise self._ended(f"answered {do} by {_shown(line)}; expected a JSON object in a line") from None
        if not isinstance(answer, dict) or len(answer.keys() & OUTCOMES) != 1:
            raise self._ended(
                f"answered {do} by {_shown(line)}; "
                "expected an object with id, and one of ok, refused, unsupported and error"
            )
        if answer.get("id") != self._number:
            raise self._ended(
                f"answered {do}, request {self._number}, by an answer to request {answer.get('id')}; "
                "answers come in the order of the requests, one each"
            )
        return answer

    def _exchanged(self, do: str, request: bytes) -> bytes:
        """Send a request and return the line that comes back. Raises RunnerError if none does in time."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        # A runner that does not read would block this process: the pipe is as long as its buffer.
        sender = threading.Thread(target=_send, args=(process.stdin, request), daemon=True)
        sender.start()
        try:
            line = self._answers.get(timeout=self._timeout)
        except queue.Empty:
            raise self._ended(f"did not answer {do} within {self._timeout:g} s") from None
        if not line:
            raise self._gone(do)
        if len(line) > LONGEST_ANSWER:
            raise self._ended(f"answered {do} by a line of more than {LONGEST_ANSWER} bytes: {_shown(line)}")
        return line

    def _start(self) -> None:
        self._errors = self._opened.enter_context(_unnamed_file())
        self._answers = queue.SimpleQueue()
        try:
            self._process = subprocess.Popen(
                self._arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "TZ": ZONE},
                start_new_session=True,  # so that what it starts ends with it
            )
        except OSError as error:
            raise InvalidRequestError(
                f"--runner: {shlex.join(self._arguments)} cannot be started: {error.strerror}"
            ) from None
        threading.Thread(target=_receive, args=(self._process.stdout, self._answers), daemon=True).start()

    def _gone(self, do: str) -> RunnerError:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may have closed its output only
            self._process.wait(1.0)
        return self._ended(
            f"ended, exit code {self._process.poll()}, instead of answering {do}{self._said()}"
        )

    def _said(self) -> str:
        """Return the end of what the process wrote to standard error."""
        self._errors.seek(0)
        text = " ".join(self._errors.read().decode(errors="replace").split())
        return f"; it wrote …{text[-SHOWN:]}" if text else ""

    def _ended(self, what: str) -> RunnerError:
        self.end()
        return RunnerError(what)

    def end(self) -> None:
        """End the process, and what it has started. The next command starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            if process.stdin is not None and process.poll() is None:
                process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self._opened.close()


@contextlib.contextmanager
def _unnamed_file() -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        yield file


def _arguments(command: str) -> list[str]:
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise InvalidRequestError(f"--runner: {command!r} is no command line: {error}") from None
    if not arguments:
        raise InvalidRequestError("--runner: expected a command line, found none")
    return arguments


def _supports(found: Any) -> Supports:
    """Return what an answer to ``supports`` says. Raises RunnerError if it names what the protocol does not know."""
    if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
        raise RunnerError(
            f"supports: expected an object with protocol {PROTOCOL}, found {found!r:.{SHOWN}}; "
            "take the kit of the version that the runner was written for, or adapt the runner"
        )
    writes = found.get("writes", {})
    if not isinstance(writes, dict) or not writes.keys() <= set(FORMATS):
        raise RunnerError(f"supports: writes: expected an object of {', '.join(FORMATS)}, found {writes!r}")
    of_writes = ((f"writes: {format}", TYPES, names) for format, names in writes.items())
    for what, known, names in (
        ("commands", COMMANDS, found.get("commands")),
        ("features", tuple(FEATURES), found.get("features")),
        *of_writes,
    ):
        if not isinstance(names, list) or not set(map(str, names)) <= set(known):
            raise RunnerError(f"supports: {what}: expected a list of {', '.join(known)}, found {names!r}")
    return Supports(
        str(found.get("name", "unnamed")),
        frozenset(found["commands"]),
        frozenset(found["features"]),
        {format: PLAIN_TYPES.union(names) for format, names in {FORMATS[0]: (), **writes}.items()},
    )


def _send(pipe: Any, request: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # the process has ended, as its missing answer will show
        pipe.write(request)
        pipe.flush()


def _receive(pipe: Any, answers: queue.SimpleQueue[bytes]) -> None:
    """Pass lines on until the pipe ends; then an empty one."""
    line = b"\n"
    while line:
        try:
            line = pipe.readline(LONGEST_ANSWER + 1)
        except (OSError, ValueError):
            line = b""
        answers.put(line)


def _shown(line: bytes) -> str:
    text = line[: SHOWN * 4].decode(errors="replace").strip()
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…") if text else "the end of its output"


def features(names: Sequence[str], supported: frozenset[str]) -> None:
    """Raise Unsupported, naming those of ``names`` that are not ``supported``."""
    missing = [name for name in names if name not in supported]
    if missing:
        raise Unsupported(", ".join(missing))
