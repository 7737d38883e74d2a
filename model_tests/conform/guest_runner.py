"""Another implementation as a runner: ``python -m model_tests.conform.guest_runner "paimon-jvm 1.4.2"``.

It translates between the protocol of the kit and that of the peers of `model_tests.interop`, whose programs read every
snapshot at once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

from pktable_conform.runner import PROTOCOL

from model_tests.conform.pktable_runner import answer_requests
from model_tests.interop.answering import retained_snapshots
from model_tests.interop.environments import JVM, JVMS, NEWER_JVM, PYPAIMON, RUST, set_up
from model_tests.interop.peers import Peer, PeerError

OF_ALL: Final = (
    *(
        "keys",
        "merge on read",
        "append",
        "first-row",
        "partial-update",
        "aggregation",
        "sequence fields",
        "evolution",
        "nested",
        "orc",
        "avro",
        "manifest formats",
        "files of some columns",
    ),
    *("snapshots", "tags", "where"),
)
OF_BRANCHES: Final = (JVM, NEWER_JVM, PYPAIMON)
"""Those whose peers open a branch."""
OF_CHANGES: Final = JVMS
"""Those whose peers read changes."""
FOR_ENGINES: Final = ("sequence groups", "engine retractions")
"""What pypaimon refuses by name as not implemented."""
OF_EVOLUTION: Final = (NEWER_JVM, PYPAIMON, RUST)
"""Those that know data evolution."""
OF_VARIANTS: Final = (PYPAIMON, RUST)
"""Those whose peers give the binaries of a VARIANT."""
OLDEST: Final = "paimon-jvm 0.9.0"
"""It came before vectors of 64 bits."""


class Program:
    """A peer, and the directory of the table that is open."""

    def __init__(self, name: str, peer: Peer) -> None:
        self._name, self._peer, self._table = name, peer, ""

    def supports(self, request: Mapping[str, Any]) -> object:
        features = list(OF_ALL)
        features += ["vectors of 64 bits"] * (self._name != OLDEST)
        features += FOR_ENGINES if self._name != PYPAIMON else ()
        features += ["branches"] * (self._name in OF_BRANCHES) + ["changes"] * (self._name in OF_CHANGES)
        features += ["data evolution"] * (self._name in OF_EVOLUTION)
        features += ["variant"] * (self._name in OF_VARIANTS)
        return {"protocol": PROTOCOL, "name": self._name, "commands": ["open", "read"], "features": features}

    def open(self, request: Mapping[str, Any]) -> None:
        self._table = request["table"]

    def read(self, request: Mapping[str, Any]) -> object:
        asked: dict[str, Any] = {"table": self._table}
        if "branch" in request:
            asked["on"] = request["branch"]
        if "changes" in request:
            after, last = request["changes"]
            found = self._peer.ask("changes", first=after + 1, **asked)
            return {"rows": [row for number in range(after + 1, last + 1) for row in self._of(found, number)]}
        if "tag" in request:
            return {"rows": self._peer.ask("read tag", name=request["tag"], **asked)}
        if "snapshot" not in request and "where" not in request:
            return {"rows": self._peer.ask("read latest", **asked)}
        where = request.get("where", [])
        number = request.get("snapshot", max(retained_snapshots(self._table), default=0))
        return {"rows": self._of(self._peer.ask("read", where=where, **asked), number)}

    def _of(self, answers: Mapping[str, Any], number: int) -> Any:
        """Return the rows of a snapshot. Raises PeerError with what the peer says of it, if there are none."""
        answer = answers.get(str(number), {"error": f"there is no snapshot {number}"})
        if "error" in answer:
            raise PeerError(self._name, answer["error"])
        return answer["ok"]

    def answer(self, request: Mapping[str, Any]) -> dict[str, object]:
        """Return the answer to a request. Whatever a peer complains of is a refusal, unless it has died."""
        try:
            return {"ok": getattr(self, request["do"])(request)}
        except PeerError as error:
            died = error.message.startswith(("died", "no answer"))
            return {"error" if died else "refused": error.message[:500]}


class Answering(Protocol):
    """Whoever answers requests."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, object]: ...


def served(name: str, program: Callable[[Peer], Answering]) -> int:
    """Let a program answer the requests on standard input; return the exit code, 1 if its peer is not set up."""
    starts, missing = set_up([name])
    for reason in missing.values():
        print(reason, file=sys.stderr)
        return 1
    peer = Peer(name, starts[name])
    answer_requests(program(peer).answer)
    peer.stop()
    return 0


if __name__ == "__main__":
    sys.exit(served(sys.argv[1], partial(Program, sys.argv[1])))
