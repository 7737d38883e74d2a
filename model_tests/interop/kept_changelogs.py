"""Changelogs that outlive their snapshots: Paimon reads and expires those that pktable keeps, and pktable Paimon's.

pktable expires snapshots and keeps their changelogs; Paimon reads these as a stream, then expires some of them; pktable
writes on and expires the rest. After each step everyone who reads must find the same changes, and `pktable check` and
the search for orphans nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table

from model_tests.interop.environments import LEFT_OUT
from model_tests.interop.peers import Peer

PRODUCERS: Final = ("none", "input", "lookup")
KEPT: Final = 14
"""More than Paimon keeps snapshots by default: else its readers look at snapshots alone."""


def differences(peer: Peer, folder: Path) -> Iterator[str]:
    """Yield what is wrong, for a table of each producer in ``folder``."""
    for producer in PRODUCERS:
        table = _new_table(folder / f"kept_{producer}", producer)
        at = f"{peer.name}, changelog-producer={producer}"
        _write(table, 8)
        expected = _ours(table, 1, 16)
        table.expire_snapshots(retain_last=3)
        yield from _wrong(f"{at}, after our expiry", table, peer, expected, first=3)
        peer.ask("expire", table=table.path, retain=2, changelogs=10)
        table = Table.open(table.path)
        yield from _wrong(f"{at}, after its expiry", table, peer, expected, first=7)
        _write(table, 3)
        expected |= _ours(table, 17, 22)
        table.expire_snapshots(retain_last=1)
        yield from _wrong(f"{at}, after both", table, peer, expected, first=9)


def _new_table(path: Path, producer: str) -> Table:
    options = {
        "deletion-vectors.enabled": "true",
        "changelog-producer": producer,
        "changelog.num-retained.min": str(KEPT),
        "changelog.num-retained.max": str(KEPT),
    }
    return Table.create(path, "id BIGINT, v INT", primary_key=["id"], options=options)


def _write(table: Table, count: int) -> None:
    for value in range(count):
        rows = {"id": [1, 2, 3], "v": pa.array([value, value, None], pa.int32()), "op": ["+I", "+I", "-D"]}
        table.write_changes(pa.table(rows), row_kind="op")


def _ours(table: Table, first: int, last: int) -> dict[int, list[tuple[str, ...]]]:
    """Return the changes of each snapshot from ``first`` to ``last``."""
    return {id: _plain(table.changes(id - 1, id).to_pylist()) for id in range(first, last + 1)}


def _plain(rows: Any) -> list[tuple[str, ...]]:
    values = (row.values() if isinstance(row, dict) else row for row in rows)
    return sorted(tuple(map(str, row)) for row in values)


def _wrong(at: str, table: Table, peer: Peer, expected: dict[int, Any], *, first: int) -> Iterator[str]:
    last = max(expected)
    peer.send("changes", table=table.path, first=first)
    theirs = {id: _plain(rows) for id, rows in peer.received_snapshots().items()}
    for who, found in ((peer.name, theirs), ("pktable", _ours(table, first, last))):
        for id in range(first, last + 1):
            if found.get(id) != expected[id]:
                yield f"{at}: {who}, changes of snapshot {id}: expected {expected[id]}, found {found.get(id)}"
    yield from (f"{at}: {one}" for one in table.check().findings if one.clause not in LEFT_OUT)
    yield from (f"{at}: orphan {one.path}" for one in table.remove_orphans(older_than=1 << 50, dry_run=True))
