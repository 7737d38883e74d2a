"""Tables with branches: made, written, looked at, and their upkeep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import (
    Table,
)

COLUMNS = "id BIGINT, v STRING"
KINDS = {
    "keys": {"deletion-vectors.enabled": "true", "num-sorted-run.compaction-trigger": "3"},
    "append": {"deletion-vectors.enabled": "true", "compaction.min.file-num": "2"},
}
FOR_EVER = 1 << 60
"""A limit that makes every file old."""

Work = Callable[[Table], object]


def write(table: Table, *ids: int) -> None:
    put = table.upsert if table.schema.primary_keys else table.append
    for one in ids:
        put(pa.table({"id": pa.array([one], pa.int64()), "v": [f"v{one}"]}))


def ids(table: Table, **arguments: Any) -> list[int]:
    return sorted(table.to_arrow(fresh=True, **arguments)["id"].to_pylist())


def snapshots(table: Table) -> list[int]:
    return [one.id for one in table.snapshots()]


def files(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


def made(path: Path, kind: str, *written: int) -> Table:
    table = Table.create(
        path,
        COLUMNS,
        primary_key="id" if kind == "keys" else None,
        options={**KINDS[kind], "write-only": "true"},
    )
    write(table, *written)
    return table


def expect_sound(path: str | Path, *, checked: bool = True) -> None:
    """Each snapshot and tag of each branch can be read, and its check finds no error."""
    main = Table.open(path)
    for table in (main, *map(main.branch, main.branches())):
        for one in snapshots(table):
            ids(table, snapshot=one)
        for tag in table.tags():
            ids(table, tag=tag)
        found = table.check().findings if checked else ()
        assert not [str(one) for one in found if one.severity == "error"]


def expire(table: Table) -> None:
    table.expire_snapshots(retain_last=1)


def clean(table: Table) -> None:
    table.remove_orphans(older_than=FOR_EVER)
