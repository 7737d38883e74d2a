"""``python -m benchmarks.requests``: the requests that each operation makes on an object store, and how they wait.

The store is moto's S3 server in this process, with a delay before each answer. *In a row* is the length of
the longest chain of requests. In a chain each request begins after the one before it has ended.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable.store.object_store import ObjectStoreIO

from benchmarks.machine import describe, hardware
from model_tests.stores.s3_server import BUCKET, Server, running_server

RESULTS: Final = Path(__file__).parent / "results"
KINDS: Final = ("GET", "HEAD", "LIST", "PUT", "DELETE")
SCHEMA: Final = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
NO_KEYS: Final = "append table: "


@dataclass(frozen=True)
class Measured:
    """``requests``: by what they ask for; ``fences``: listings of ``fence/``; ``seconds``: of the clock."""

    operation: str
    requests: Counter[str]
    fences: int
    in_a_row: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.requests", description=__doc__)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds before each answer (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory of the results")
    options = parser.parse_args()
    with running_server() as server:
        measured = [*with_keys(server, options.delay), *appends(server, options.delay)]
    text = "\n".join(report(measured, options.delay)) + "\n"
    (options.out / "requests.md").write_text(text)
    print(text)


def with_keys(server: Server, delay: float) -> list[Measured]:
    """Measure the operations of a table with a key and deletion vectors."""
    path, options = f"s3://{BUCKET}/keys", {"deletion-vectors.enabled": "true", "bucket": "1"}
    store = ObjectStoreIO(path, server.options)

    def fresh() -> Table:
        return Table.open(path, store=store)

    # The first conditional put of a process probes the store.
    Table.create(f"{path}-probe", SCHEMA, primary_key="k", options=options, store=store)
    kept = Table.create(path, SCHEMA, primary_key="k", options=options, store=store)
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("open", fresh),
        ("the first upsert", lambda: kept.upsert(rows(0, 100))),
        ("an upsert", lambda: kept.upsert(rows(50, 150))),
        ("the next upsert", lambda: kept.upsert(rows(60, 70))),
        ("open, and upsert", lambda: fresh().upsert(rows(65, 75))),
        ("delete by key", lambda: kept.delete(pa.table({"k": [1, 2]}))),
        ("read", lambda: kept.read()),
        ("open, and read", lambda: fresh().read()),
        ("update where", lambda: kept.update({"v": "'x'"}, where="k < 10")),
        ("tag", lambda: kept.create_tag("t")),
        ("full compaction", lambda: kept.compact(full=True)),
        ("expire all but one", lambda: kept.expire_snapshots(retain_last=1)),
    ]
    return [observed(server, delay, name, step) for name, step in steps]


def appends(server: Server, delay: float) -> list[Measured]:
    """Measure the operations of a table without a key."""
    path = f"s3://{BUCKET}/appends"
    store = ObjectStoreIO(path, server.options)
    kept = Table.create(
        path, SCHEMA, primary_key=None, options={"deletion-vectors.enabled": "true"}, store=store
    )
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("the first append", lambda: kept.append(rows(0, 100))),
        ("an append", lambda: kept.append(rows(50, 150))),
        ("delete where", lambda: kept.delete(where="k < 10")),
        ("open, and read", lambda: Table.open(path, store=store).read()),
    ]
    return [observed(server, delay, NO_KEYS + name, step) for name, step in steps]


def rows(start: int, end: int) -> pa.Table:
    ids = range(start, end)
    return pa.table({"k": list(ids), "v": [f"value {one}" for one in ids]}, SCHEMA)


def observed(server: Server, delay: float, name: str, step: Callable[[], Any]) -> Measured:
    """Run one operation while the server is slow."""
    server.requests.clear()
    server.spans.clear()
    server.delay, began = delay, time.monotonic()
    try:
        step()
    finally:
        server.delay = 0.0
    took = time.monotonic() - began
    lists = [one for one in server.requests if one.what == "LIST" and "fence" in one.query]
    return Measured(
        name, Counter(one.what for one in server.requests), len(lists), in_a_row(server.spans), took
    )


def in_a_row(spans: Sequence[tuple[float, float]]) -> int:
    """Return the length of the longest chain of ``spans`` that do not overlap."""
    count, end = 0, 0.0
    for began, ended in sorted(spans, key=lambda span: span[1]):
        if began >= end:
            count, end = count + 1, ended
    return count


def report(measured: Sequence[Measured], delay: float) -> list[str]:
    lines = [
        "# Requests to an object store",
        "",
        (__doc__ or "").partition("\n\n")[2].strip(),
        "",
        f"A delay of {delay * 1000:.0f} ms. {hardware(describe())}.",
        "",
        f"| operation | requests | {' | '.join(KINDS)} | listings of `fence/` | in a row | seconds |",
        f"| --- | ---: | {'---: | ' * len(KINDS)}---: | ---: | ---: |",
    ]
    for one in measured:
        counts = " | ".join(str(one.requests[kind]) for kind in KINDS)
        lines.append(
            f"| {one.operation} | {one.requests.total()} | {counts} | {one.fences} | {one.in_a_row} | "
            f"{one.seconds:.2f} |"
        )
    return lines


if __name__ == "__main__":
    main()
