"""The table that is damaged, and ways to damage any file.

It has four writes of one bucket and seven snapshots. In snapshot 7 the greatest level holds ten keys with a vector of
two, level 4 holds what replaced one of them, and level 0 holds a write not yet compacted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import Table
from pktable.catalog.changes import CommitId
from pktable.format.binary_row import encode_row
from pktable.format.types import DataType
from pktable.ingest.changes import ChangeKind
from pktable_spec.vocabulary import RowKind

from model_tests.damage.table_damage import Surgeon

Damage = Callable[[Surgeon], Any]
Damages = dict[str, tuple[Damage, set[tuple[str, str]]]]
"""By what is wrong: how to make it so, and the clauses and things that are found."""
BIGINT = DataType("BIGINT")
LAST, LEVEL, DEEPEST = 7, 4, 5


def rows(keys: list[int], text: str) -> pa.Table:
    return pa.table(
        {
            "p": ["a"] * len(keys),
            "k": keys,
            "v": [f"{text}{key}" for key in keys],
            "d": [key / 2 for key in keys],
        }
    )


def make_table(path: Path, options: dict[str, str] | None = None) -> Table:
    """Make the table that is damaged."""
    table = Table.create(
        path,
        "p STRING, k BIGINT, v STRING, d DOUBLE",
        primary_key=["p", "k"],
        partition_by=["p"],
        options={"deletion-vectors.enabled": "true", "bucket": "1"} | (options or {}),
    )
    table.upsert(rows(list(range(10)), "x" * 30))
    table.upsert(rows([2, 12], "second "))
    table.delete(rows([5], "").select(["p", "k"]))
    prepared = table.stage_write(rows([7], "fresh "), ChangeKind(RowKind.INSERT), write_only=True)
    assert prepared is not None
    prepared.commit(CommitId("test"))
    return table


def levels(surgeon: Surgeon) -> dict[int, str]:
    return {entry.file.level: entry.file.file_name for entry in surgeon.live(LAST)}


def tag_of_an_expired_snapshot(surgeon: Surgeon) -> None:
    (surgeon.root / "tag").mkdir()
    (surgeon.root / "snapshot/snapshot-1").rename(surgeon.root / "tag/tag-a")


def key(key: int) -> bytes:
    return encode_row([key], [BIGINT])


def remove(pattern: str) -> Damage:
    return lambda s: next(s.root.glob(pattern)).unlink()


def flip(path: Callable[[Surgeon], Path], at: float = 0.5) -> Damage:
    def damage(surgeon: Surgeon) -> None:
        good = bytearray(path(surgeon).read_bytes())
        good[int(len(good) * at)] ^= 0x10
        path(surgeon).write_bytes(good)

    return damage


def steps(*damages: Damage) -> Damage:
    def damage(surgeon: Surgeon) -> None:
        for one in damages:
            one(surgeon)

    return damage


def stray(name: str, data: bytes = b"stray") -> Damage:
    def damage(surgeon: Surgeon) -> None:
        path = surgeon.root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(data)

    return damage


def cut(path: Callable[[Surgeon], Path]) -> Damage:
    return lambda s: path(s).write_bytes(path(s).read_bytes()[:-9])
