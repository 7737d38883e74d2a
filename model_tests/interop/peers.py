"""A peer as a process that lives on: commands go in a line at a time, answers come back.

`ask_all` sends first and then gathers, so that the peers work side by side. A peer that dies or does not
answer in time is an answer too, and is started again for the next command.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, TypeAlias

from pktable_spec.interface import Row

from model_tests.interop.environments import TREE, Start

TIMEOUT_SECONDS = 120
Outcome: TypeAlias = "list[Row] | PeerError"


class PeerError(Exception):
    """A peer answered with an error, died, or did not answer. `message` is what it said."""

    def __init__(self, peer: str, message: str) -> None:
        super().__init__(f"{peer}: {message}")
        self.peer, self.message = peer, message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PeerError) and (self.peer, self.message) == (other.peer, other.message)

    __hash__ = Exception.__hash__


class Peer:
    """One peer. Commands are those of its program: `Peer.java`, `pypaimon_peer`, `rust_peer`."""

    def __init__(self, name: str, start: Start) -> None:
        self.name, self._start = name, start
        self._process: subprocess.Popen[str] | None = None
        self._errors: IO[str] = tempfile.TemporaryFile("w+", prefix="pktable-peer-")  # noqa: SIM115
        self._answers: queue.Queue[str | None] = queue.Queue()

    def ask(self, do: str, **arguments: object) -> Any:
        """Carry out a command and return its value. Raises PeerError."""
        self.send(do, **arguments)
        return self.receive()

    def send(self, do: str, **arguments: object) -> None:
        """Send a command, and do not wait."""
        process = self._running()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `receive` tells of the death
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()

    def receive(self) -> Any:
        """Return the value of the command sent before. Raises PeerError."""
        try:
            line = self._answers.get(timeout=TIMEOUT_SECONDS)
        except queue.Empty:
            self.stop()
            raise PeerError(self.name, f"no answer within {TIMEOUT_SECONDS} s") from None
        if line is None:
            self.stop()
            self._errors.seek(0)
            raise PeerError(self.name, "died: " + self._errors.read()[-1000:])
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(self.name, answer["error"])
        return answer["ok"]

    def read(self, table: str, where: Sequence[Sequence[str]] = ()) -> dict[int, Outcome]:
        """Return the rows of every retained snapshot, in any order, or the error of reading it."""
        self.send("read", table=table, where=[list(one) for one in where])
        return self.received_snapshots()

    def received_snapshots(self) -> dict[int, Outcome]:
        """Return the answer of a ``read`` sent before."""
        return {
            int(id): PeerError(self.name, one["error"])
            if "error" in one
            else [tuple(row) for row in one["ok"]]
            for id, one in self.receive().items()
        }

    def stop(self) -> None:
        """End the process; the next command starts it again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._errors.seek(0)
            self._errors.truncate()
            self._answers = queue.Queue()
            self._process = subprocess.Popen(
                self._start.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                encoding="utf-8",
                env=dict(self._start.environment),
                cwd=TREE,
            )
            threading.Thread(target=_gather, args=(self._process, self._answers), daemon=True).start()
        return self._process


def _gather(process: subprocess.Popen[str], answers: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put(None)


@contextlib.contextmanager
def running(starts: Mapping[str, Start]) -> Iterator[dict[str, Peer]]:
    """Start the peers side by side, and stop them at the end. Raises PeerError if one does not answer."""
    peers = {name: Peer(name, start) for name, start in starts.items()}
    try:
        for peer in peers.values():
            peer.send("hello")
        for peer in peers.values():
            peer.receive()
        yield peers
    finally:
        for peer in peers.values():
            peer.stop()


def read_with_all(
    peers: Iterable[Peer], table: str, where: Sequence[Sequence[str]] = ()
) -> dict[str, dict[int, Outcome] | PeerError]:
    """Return what each peer reads of every snapshot, by its name."""
    asked = list(peers)
    for peer in asked:
        peer.send("read", table=table, where=[list(one) for one in where])
    found: dict[str, dict[int, Outcome] | PeerError] = {}
    for peer in asked:
        try:
            found[peer.name] = peer.received_snapshots()
        except PeerError as error:
            found[peer.name] = error
    return found
