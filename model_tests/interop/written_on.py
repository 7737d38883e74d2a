"""Tables that Paimon-Spark 1.4.2 wrote, written on by pktable, and by peers in between: then everyone reads the same.

They are those with dynamic, cross-partition, postpone and rescaled buckets, changed schemas, and a branch. A table is
copied and its steps are done; then all snapshots that came with them are read by pktable and by each peer.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table

from model_tests.interop.environments import NEWER_JVM, PYPAIMON
from model_tests.interop.peers import Peer, PeerError, read_with_all
from model_tests.interop.plain import rows_of
from model_tests.real_data import PAIMON

ROOT: Final = PAIMON / "spark-1.4.2" / "tables"
READERS: Final = (NEWER_JVM, PYPAIMON)
ABSENT: Final = "no real tables: set PKTABLE_SHARED to the directory that holds tables/"


@dataclass(frozen=True)
class OnTable:
    """A copy of a table at ``path``, and the peers that may write to it."""

    path: Path
    peers: Mapping[str, Peer]

    @property
    def table(self) -> Table:
        return Table.open(self.path)

    def peer_writes(self, name: str, *rows: Sequence[str | None]) -> None:
        """Let a peer insert rows, given as plain values."""
        self.peers[name].ask("write", table=str(self.path), rows=[["+I", *row] for row in rows])


Step = Callable[[OnTable], object]


@dataclass(frozen=True)
class WrittenOn:
    """A table of ``name`` and what is done to it.

    ``branch``: one that is written to. ``writers``: the peers that write, too. ``small``: whether the small profile has
    it.
    """

    name: str
    steps: tuple[Step, ...]
    branch: str | None = None
    writers: frozenset[str] = frozenset()
    small: bool = False


def with_values(rows: pa.Table, **columns: Callable[[dict[str, Any]], Any]) -> pa.Table:
    """Return rows with other values in some columns, each computed from the row."""
    made = [{**row, **{name: of(row) for name, of in columns.items()}} for row in rows.to_pylist()]
    return pa.Table.from_pylist(made, rows.schema)


def upsert(**columns: Callable[[dict[str, Any]], Any]) -> Step:
    """Return a step that writes all rows of a table again with other values."""
    return lambda on: on.table.upsert(with_values(on.table.to_arrow(fresh=True), **columns))


def delete(where: str) -> Step:
    return lambda on: on.table.delete(where=where)


def update(where: str, **values: str) -> Step:
    return lambda on: on.table.update(dict(values), where=where)


def compact(on: OnTable) -> None:
    on.table.compact()


def compact_fully(on: OnTable) -> None:
    on.table.compact(full=True)


def alter(**changes: Any) -> Step:
    return lambda on: on.table.alter(**changes)


def peer_writes(name: str, *rows: Sequence[str | None]) -> Step:
    return lambda on: on.peer_writes(name, *rows)


def next_to(**columns: Callable[[dict[str, Any]], Any]) -> Step:
    """Return a step that adds the rows of the table again, with ids that are 1000 more."""
    return upsert(id=lambda row: row["id"] + 1000, **columns)


CASES: Final = (
    WrittenOn(
        "pk_dynamic",
        (
            upsert(a=lambda row: row["id"]),
            next_to(),
            peer_writes(PYPAIMON, ("3", "5", "of a peer", None), ("5001", "5", "new", None)),
            update("id % 3 = 1", a="-7"),
            delete("id % 4 = 0"),
            upsert(b=lambda row: f"{row['id']} again"),
            compact_fully,
        ),
        writers=frozenset({PYPAIMON}),
        small=True,
    ),
    WrittenOn(
        "pk_crosspart",
        (
            upsert(p=lambda row: "p3" if row["id"] % 3 else row["p"], v=lambda row: -row["id"]),
            delete("id % 5 = 1"),
            next_to(p=lambda row: "p1"),
            update("id % 4 = 2", p="'other'"),
            compact_fully,
            upsert(p=lambda row: "p2"),
        ),
        small=True,
    ),
    WrittenOn(
        "pk_postpone",
        (
            compact,
            upsert(a=lambda row: row["id"]),
            compact,
            peer_writes(PYPAIMON, ("3", "5", "of a peer", None), ("5001", "5", "new", None)),
            next_to(),
            compact,
            delete("id % 4 = 0"),
            compact_fully,
        ),
        writers=frozenset({PYPAIMON}),
    ),
    WrittenOn(
        "pk_rescale",
        (
            upsert(a=lambda row: row["id"]),
            alter(set_options={"bucket": "2"}),
            lambda on: on.table.rescale(),
            next_to(),
            peer_writes(NEWER_JVM, ("3", "5", "of a peer", None), ("5001", "5", "new", None)),
            delete("id % 4 = 0"),
            compact_fully,
        ),
        writers=frozenset({NEWER_JVM}),
    ),
    WrittenOn(
        "pk_evolve",
        (
            alter(add={"w": "STRING"}, rename={"bb": "c"}, widen={"n1": "BIGINT"}),
            upsert(w=lambda row: f"w{row['id']}"),
            alter(drop=["d"], move={"w": "first"}),
            next_to(n1=lambda row: 1 << 40),
            delete("id % 4 = 0"),
            alter(rename={"c": "d"}),
            update("id % 3 = 0", d="'renamed again'"),
            compact_fully,
        ),
    ),
    WrittenOn(
        "ap_evolve_tags",
        (
            alter(add={"w": "STRING"}),
            lambda on: on.table.append(with_values(on.table.to_arrow(limit=5), w=lambda row: "new")),
            delete("id % 4 = 0"),
            alter(rename={"w": "x"}),
            update("id % 3 = 0", x="'renamed'"),
            compact_fully,
        ),
    ),
    WrittenOn(
        "pk_dv_switch",
        (upsert(a=lambda row: row["id"]), delete("id % 4 = 0"), compact_fully, next_to()),
    ),
    WrittenOn(
        "pk_tags",
        (
            lambda on: branch_of(on).upsert(
                with_values(branch_of(on).to_arrow(fresh=True), a=lambda row: row["id"])
            ),
            lambda on: branch_of(on).delete(where="id % 4 = 0"),
            lambda on: branch_of(on).compact(full=True),
            upsert(a=lambda row: -row["id"]),
        ),
        branch="br",
    ),
)
"""Each table of dynamic, cross-partition, postpone or rescaled buckets, of changed schemas, or with a branch."""


def branch_of(on: OnTable) -> Table:
    return Table.open(on.path, branch="br")


def differences(case: WrittenOn, peers: Mapping[str, Peer], folder: Path) -> Iterator[str]:
    """Write on a copy of a table in ``folder``, and yield what is wrong."""
    on = OnTable(copied(case.name, folder), peers)
    first = on.table.snapshots()[-1].id
    for number, step in enumerate(case.steps, 1):
        try:
            step(on)
        except PeerError as error:
            yield f"{case.name}, step {number}: {error}"
            return
    readers = [peers[name] for name in READERS if name in peers]
    found = read_with_all(readers, str(on.path))
    table = on.table
    for snapshot in table.snapshots():
        if snapshot.id <= first:
            continue
        expected = plain(rows_of(table.to_arrow(snapshot=snapshot.id)))
        for name, read in found.items():
            rows = read if isinstance(read, PeerError) else read.get(snapshot.id)
            if (plain(rows) if isinstance(rows, list) else rows) != expected:
                yield f"{case.name}, snapshot {snapshot.id}: {name} reads {shown(rows)}, expected {shown(expected)}"
    if case.branch is not None:
        expected = plain(rows_of(branch_of(on).to_arrow()))
        for reader in readers:
            latest = plain(reader.ask("read latest", table=str(on.path), on=case.branch))
            if latest != expected:
                yield f"{case.name}, branch: {reader.name} reads {shown(latest)}, expected {shown(expected)}"
    yield from (f"{case.name}: {one}" for one in table.check().findings if one.severity == "error")


def copied(name: str, folder: Path) -> Path:
    """Return a copy of a table that Paimon wrote, where a catalog of Paimon finds it."""
    path = Path(shutil.copytree(ROOT / name, folder / "w.db" / name, copy_function=shutil.copyfile))
    for one in (path, *(one for one in path.rglob("*") if one.is_dir())):
        one.chmod(0o755)
    return path


def plain(rows: Any) -> list[tuple[str | None, ...]]:
    return sorted(map(tuple, rows), key=str)


def shown(rows: Any) -> str:
    return f"{len(rows)} rows, {rows[:3]}..." if isinstance(rows, list) else str(rows)
