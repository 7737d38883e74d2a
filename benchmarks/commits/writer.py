"""One writer of a table, run by path: `writer.py TABLE NUMBER GO SECONDS` or `TABLE NUMBER GO COMMITS count`.

It imports nothing of this repository but pktable, and so measures the version that PYTHONPATH names. When there is a
file GO, it upserts one row again and again, and prints one JSON object: the milliseconds of each commit, and how often
a commit lost a race. With ``count`` it prints the operations on the store per commit instead.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pktable import Table
from pktable.store.file_io import LocalFileIO

OPERATIONS = ("read", "create", "write", "put_if_absent", "list_names", "list_files", "exists", "delete")


class Counting(LocalFileIO):
    """A store that counts its operations, by name and directory."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in OPERATIONS:
            return found

        def counted(path: str, *rest: Any) -> Any:
            if not path.endswith(".tmp"):  # which belongs to a put
                self.counts[f"{name} {_place(name, path)}"] += 1
            return found(path, *rest)

        return counted


def _place(name: str, path: str) -> str:
    """Return the directory of the table that an operation is about."""
    directory, last = os.path.split(path)
    if name.startswith("list"):
        return f"{last}/"
    place = os.path.basename(directory)
    return place + (f"/{last}" if last in ("LATEST", "EARLIEST") else "/")


def upsert(table: Table, drawn: random.Random) -> None:
    table.upsert(pa.table({"k": [drawn.randrange(1 << 40)], "v": [0]}))


def timed(path: str, number: int, go: str, seconds: float) -> dict[str, Any]:
    """Write for so many seconds."""
    table, drawn, lost = Table.open(path), random.Random(number), 0
    committer = table.catalog.committer

    def lose(wait: float) -> None:
        nonlocal lost
        lost += 1
        time.sleep(wait)

    committer.policy = replace(committer.policy, sleep=lose)
    print("ready", flush=True)
    while not os.path.exists(go):
        time.sleep(0.005)
    until, milliseconds = time.monotonic() + seconds, []
    while (began := time.monotonic()) < until:
        upsert(table, drawn)
        milliseconds.append((time.monotonic() - began) * 1000)
    return {"milliseconds": milliseconds, "lost": lost}


def counted(path: str, number: int, commits: int) -> dict[str, Any]:
    """Count the operations of so many commits, after some that fill the caches."""
    store, drawn = Counting(), random.Random(number)
    table = Table.open(path, store=store)
    for _ in range(3):
        upsert(table, drawn)
    store.counts.clear()
    for _ in range(commits):
        upsert(table, drawn)
    return {name: count / commits for name, count in sorted(store.counts.items())}


if __name__ == "__main__":
    where, which, start, much = sys.argv[1:5]
    if sys.argv[5:] == ["count"]:
        print(json.dumps(counted(where, int(which), int(much))))
    else:
        print(json.dumps(timed(where, int(which), start, float(much))))
