"""The ways to answer a query that are compared: with Spark, without, and by other readers of the format."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pktable import Table

from benchmarks.reads.measure import Variant
from benchmarks.reads.queries import COUNT, Answer, Query, answered, answered_by_spark
from benchmarks.reads.tables import Tables
from model_tests.interop.environments import PYPAIMON, RUST, Start, set_up
from model_tests.interop.peers import Peer

FLOOR, READ, COMPACTED, MERGED = "floor", "DV read", "compacted", "merge-on-read"
POSITIONS = "floor with positions"
"""The floor, and Spark made to tell the position of each row: what any filter by position pays."""
FRAME = "DV read, DataFrame"
Peers = dict[str, "Peer | str"]
"""By name: a peer that runs, or why there is none."""


def physical_files(table: Path) -> list[str]:
    """Return the paths of the data files that a read of ``table`` looks at."""
    names = Table.open(table).files()["file_name"].to_pylist()
    return [str(path) for name in names for path in table.glob(f"bucket-*/{name}")]


def with_spark(session: Any, tables: Tables, query: Query, slow_rounds: int) -> list[Variant]:
    def scan(paths: list[str], *, positions: bool = False) -> Answer:
        frame = session.read.parquet(*paths)
        if query is COUNT:
            return (str(frame.count()),)
        if positions:
            frame = frame.where("_metadata.row_index >= 0")
        return answered_by_spark(frame.where(query.where) if query.where else frame, query)

    def read(table: Table, **how: Any) -> Answer:
        frame = table.read(columns=query.columns, where=query.where, **how)
        return answered_by_spark(frame, query)

    def count(table: Table) -> Answer:
        return (str(table.count()),)

    vectors, compacted, twin = (
        Table.open(path, spark=session) for path in (tables.vectors, tables.compacted, tables.twin)
    )
    ours = count if query is COUNT else read
    paths = physical_files(tables.vectors)
    found = [
        Variant(FLOOR, partial(scan, paths), is_checked=False),
        Variant(READ, partial(ours, vectors)),
        Variant(COMPACTED, partial(ours, compacted)),
        Variant(MERGED, partial(read, twin, fresh=True), rounds=slow_rounds),
    ]
    if query is COUNT:
        return [*found, Variant(FRAME, partial(read, vectors))]
    return [*found, Variant(POSITIONS, partial(scan, paths, positions=True), is_checked=False)]


def without_spark(tables: Tables, query: Query, peers: Peers, slow_rounds: int) -> list[Variant]:
    def scan(paths: list[str]) -> Answer:
        # As pyarrow reads best: all cores, no page checksums, conditions pushed down.
        conditions = None
        for column, sign, value in query.conditions:
            one = ds.field(column) >= value if sign == ">=" else ds.field(column) < value
            conditions = one if conditions is None else conditions & one
        return answered(ds.dataset(paths).to_table(columns=query.columns, filter=conditions), query)

    def read(table: Table, **how: Any) -> Answer:
        if query is COUNT and not how:
            return (str(table.count()),)
        return answered(table.to_arrow(columns=query.columns, where=query.where, **how), query)

    found = [
        Variant(FLOOR, partial(scan, physical_files(tables.vectors)), is_checked=False),
        Variant(READ, partial(read, Table.open(tables.vectors))),
        Variant(COMPACTED, partial(read, Table.open(tables.compacted))),
        Variant(MERGED, partial(read, Table.open(tables.twin), fresh=True), rounds=slow_rounds),
    ]
    for name, peer in peers.items():
        asked = partial(_ask, peer, tables.vectors, query)
        found.append(Variant(name, asked, rounds=slow_rounds, may_fail=True))
    return found


def start_peers() -> Peers:
    """Return the other readers, set up where caches go if need be (a minute the first time)."""
    starts, missing = set_up([PYPAIMON, RUST])
    found: Peers = dict(missing)
    for name, start in starts.items():
        command = (start.command[0], "-m", "benchmarks.reads.peer", name.split()[0])
        found[name] = Peer(name, Start(command, start.environment))
    return dict(sorted(found.items()))


def _ask(peer: Peer | str, table: Path, query: Query) -> tuple[Answer, float, float]:
    if isinstance(peer, str):
        raise RuntimeError(f"absent: {peer}")
    found = peer.ask("query", table=str(table), query=asdict(query))
    return tuple(found["answer"]), found["seconds"], found["processor"]
