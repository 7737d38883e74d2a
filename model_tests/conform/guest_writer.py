"""Another implementation as a writer: ``python -m model_tests.conform.guest_writer "paimon-jvm 1.4.2"``.

The peer makes the table, writes and compacts. It is judged by what then lies in the directory, which pktable reads:
the peer is judged as a reader by itself (`guest_runner`). Tables of a peer that makes none are made by pktable, and
those with nested columns for all: Java's `create` takes types that hold no others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from pktable import Table
from pktable_conform.runner import COMMANDS, FORMATS, PROTOCOL, TYPES
from pktable_spec.interface import Change, Shape

from model_tests.backends.asked_table import AskedTable
from model_tests.backends.definitions import defined
from model_tests.conform.guest_runner import served
from model_tests.conform.pktable_runner import Program
from model_tests.interop.environments import JVMS, PYPAIMON, RUST
from model_tests.interop.peers import Peer, PeerError

READS: Final = ("keys", "merge on read", "snapshots", "fresh", "columns", "where", "limit")
"""Features of the reads of a history, which pktable does."""

LACKED: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    PYPAIMON: {"orc": ("TIME",), "avro": ("MAP",)},
    RUST: {"orc": TYPES},  # of its compression
}
"""The types that a peer refuses to write in a format by name."""


class PeerTable(AskedTable):
    """A new table that a peer writes, at ``path``."""

    def __init__(self, peer: Peer, shape: Shape, options: Mapping[str, str], path: Path) -> None:
        super().__init__(shape, str(path))
        self._peer, self._place = peer, str(path)
        keys = shape.primary_key
        if peer.name not in JVMS or any("<" in type for _, type in shape.columns):
            columns = defined(shape, options)
            Table.create(
                path, columns, primary_key=keys, partition_by=shape.partition_keys, options=dict(options)
            )
            return
        peer.ask(
            "create",
            table=str(path),
            columns=[[name, f"{type} NOT NULL" if name in keys else type] for name, type in shape.columns],
            primary_key=list(keys),
            partition_by=list(shape.partition_keys),
            options=dict(options),
        )

    @property
    def table(self) -> Table:
        return Table.open(self._place)

    def _stored_vectors(self, bucket: Any) -> dict[str, frozenset[int]]:
        """Return the vectors of a bucket as pktable reads them: an older peer gives no cardinality."""
        found = self.table.catalog.context.vectors(bucket)
        return {name: frozenset(map(int, vector.positions())) for name, vector in found.items()}

    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        rows = [[kind.symbol, *(None if one is None else str(one) for one in row)] for kind, row in changes]
        schema = self.table.schema.arrow_schema.serialize().to_pybytes().hex()
        self._peer.ask("write", table=self._place, rows=rows, write_only=write_only, arrow_schema=schema)

    def compact(self, *, full: bool = False) -> None:
        self._peer.ask("compact", table=self._place, full=full)

    def reopen(self) -> None:
        """Do nothing: a peer opens the table for every command."""


class Writer(Program):
    """A peer and the table that it writes."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(partial(PeerTable, peer))
        self._peer = peer

    def supports(self, request: Mapping[str, Any]) -> object:
        compacts = self._peer.name in JVMS
        commands = [one for one in COMMANDS if compacts or one != "compact"]
        features = [*READS, *(["retractions"] if compacts else [])]
        about = {"protocol": PROTOCOL, "name": self._peer.name, "commands": commands, "features": features}
        lacked = LACKED.get(self._peer.name, {})
        writes = {one: [type for type in TYPES if type not in lacked.get(one, ())] for one in FORMATS}
        return {**about, "writes": {one: types for one, types in writes.items() if types}}

    def answer(self, request: Mapping[str, Any]) -> dict[str, object]:
        try:
            return super().answer(request)
        except PeerError as error:
            died = error.message.startswith(("died", "no answer"))
            return {"error" if died else "refused": error.message[:500]}


if __name__ == "__main__":
    sys.exit(served(sys.argv[1], Writer))
