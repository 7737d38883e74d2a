"""Another implementation as a runner: ``python -m model_tests.conform.guest_runner "paimon-jvm 1.4.2"``.

It translates between the protocol of the kit and that of the peers of `model_tests.interop`, whose programs read every
snapshot at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from pktable_conform.runner import PROTOCOL

from model_tests.interop.answering import retained_snapshots
from model_tests.interop.environments import JVMS, set_up
from model_tests.interop.peers import Peer, PeerError

OF_ALL: Final = ("keys", "merge on read", "append", "merge engines", "sequence fields", "snapshots", "tags")
OF_JVMS: Final = ("evolution",)
"""What is only asked of those that read by the latest schema, too."""
OLDEST: Final = "paimon-jvm 0.9.0"
"""It came before vectors of 64 bits."""


class Program:
    """A peer, and the directory of the table that is open."""

    def __init__(self, name: str, peer: Peer) -> None:
        self._name, self._peer, self._table = name, peer, ""

    def supports(self, request: Mapping[str, Any]) -> object:
        features = [*OF_ALL, *(OF_JVMS if self._name in JVMS else ())]
        if self._name != OLDEST:
            features.append("vectors of 64 bits")
        return {"protocol": PROTOCOL, "name": self._name, "commands": ["open", "read"], "features": features}

    def open(self, request: Mapping[str, Any]) -> None:
        self._table = request["table"]

    def read(self, request: Mapping[str, Any]) -> object:
        if "tag" in request:
            return {"rows": self._peer.ask("read tag", table=self._table, name=request["tag"])}
        if "snapshot" not in request and self._name in JVMS:
            return {"rows": self._peer.ask("read latest", table=self._table)}
        number = request.get("snapshot", max(retained_snapshots(self._table), default=0))
        answer = self._peer.ask("read", table=self._table)[str(number)]
        if "error" in answer:
            raise PeerError(self._name, answer["error"])
        return {"rows": answer["ok"]}

    def answer(self, request: Mapping[str, Any]) -> dict[str, object]:
        """Return the answer to a request. Whatever a peer complains of is a refusal, unless it has died."""
        try:
            return {"ok": getattr(self, request["do"])(request)}
        except PeerError as error:
            died = error.message.startswith(("died", "no answer"))
            return {"error" if died else "refused": error.message[:500]}


def main(name: str) -> int:
    starts, missing = set_up([name])
    for reason in missing.values():
        print(reason, file=sys.stderr)
        return 1
    peer = Peer(name, starts[name])
    program = Program(name, peer)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps({"id": request["id"], **program.answer(request)}), flush=True)
    peer.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
