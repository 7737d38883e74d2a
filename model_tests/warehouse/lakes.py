"""Small tables of the same rows for tests of SQL, and what a statement gives as plain values."""

from __future__ import annotations

from typing import Any

ROWS = [(1, "Rome", 10, "eu"), (2, "Oslo", 20, "eu"), (3, "Lima", 30, "sa"), (4, None, 40, "sa")]
NEW = [(3, "LIMA", 33, "sa"), (5, "Kobe", 50, "as")]
DV = {"deletion-vectors.enabled": "true"}
COLUMNS = "id BIGINT, city STRING, n INT, region STRING"
KINDS = ("keyed", "plain")
"""Tables of the same rows: with a key, and without; "parted" is one with a key and partitions."""


def dicts(rows: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(("id", "city", "n", "region"), row, strict=True)) for row in rows]


def made(lake: Any, name: str, kind: str = "keyed") -> Any:
    key = {"keyed": ["id"], "parted": ["id", "region"], "plain": []}[kind]
    lake.warehouse.drop_table(f"db.{name}", if_exists=True)
    partition = ["region"] if kind == "parted" else []
    table = lake.warehouse.create_table(
        f"db.{name}", COLUMNS, primary_key=key, partition_by=partition, options=DV
    )
    (table.upsert if key else table.append)(dicts(ROWS))
    return table


def in_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((value is None, value) for value in row)


def rows(lake: Any, query: str, **args: Any) -> list[tuple[Any, ...]]:
    found = [tuple(row) for row in lake.sql(query, args or None).collect()]
    return sorted(found, key=in_order)


def changed(lake: Any, statement: str) -> dict[str, Any]:
    (row,) = lake.sql(statement).collect()
    return dict(row.asDict())
