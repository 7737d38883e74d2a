"""The work that is compared: TPC-H tables, the rows that change them, and the queries.

* ``lineitem`` and ``orders`` are loaded in an order that is not that of their keys.
* ``upsert`` gives a fifth of the rows of lineitem new values; ``merge`` is a twentieth, half of it new keys.
* RF1 and RF2 are the refresh functions of TPC-H: each pair adds a thousandth of the orders with their lineitems, and
  removes as many others by a range of order keys. The new keys are those that dbgen leaves free for them: of each 32
  numbers it uses the first 8.

Nothing here needs pktable, because the other contender runs in an environment of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KEYS: Final = {
    "lineitem": ("l_orderkey", "l_linenumber"),
    "orders": ("o_orderkey",),
    "many": ("k",),
    "small": ("k",),
}
COLUMNS: Final = {
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2), "
    "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, "
    "l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, "
    "l_shipmode STRING, l_comment STRING",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), "
    "o_orderdate DATE, o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING",
    "many": "k BIGINT, a INT",
    "small": "k BIGINT, a INT, b STRING",
}
OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "lineitem": {"bucket": "4"},
    "orders": {"bucket": "4"},
    "many": {"bucket": "100", "target-file-size": "1 b", "parquet.block.row.count.limit": "50"},
    "small": {"bucket": "1"},
}
VECTORS: Final = {"deletion-vectors.enabled": "true"}
POINTS: Final = 20
LEAST: Final = "least"
"""The cost of that part of a stage that pktable on Spark cannot leave out."""
NEW_KEY: Final = 8


@dataclass(frozen=True)
class Sizes:
    """How much work there is. ``orders``: in the initial load. ``files``: of the table of many files."""

    orders: int
    files: int
    refreshes: int
    commits: int

    @property
    def greatest_key(self) -> int:
        """The greatest order key of the initial load."""
        return self.orders * 4

    def removed(self, pair: int) -> tuple[int, int]:
        """Return the first and the last order key that RF2 removes in this pair."""
        width = self.greatest_key // 1000
        return pair * width + 1, (pair + 1) * width

    @property
    def deleted(self) -> str:
        """A condition that a hundredth of the rows of lineitem satisfies."""
        parts = self.orders * 4 // 30
        return f"l_partkey BETWEEN {parts // 2} AND {parts // 2 + parts // 100}"


@dataclass(frozen=True)
class Query:
    """``aggregates``: Spark SQL over the rows of ``table`` where ``where`` holds. ``columns``: that must be read.

    Without aggregates, the few rows of a condition are collected; without a condition, all rows are produced and thrown
    away. ``at_load``: the table as it was loaded.
    """

    table: str
    columns: tuple[str, ...]
    aggregates: str | None
    where: tuple[str | None, ...] = (None,)
    at_load: bool = False

    @property
    def finds_few(self) -> bool:
        """Whether rows are collected."""
        return self.aggregates is None and None not in self.where

    @property
    def counts(self) -> bool:
        """Whether metadata have the answer."""
        return not self.columns


def queries(sizes: Sizes) -> dict[str, Query]:
    """Return the queries by name. One with several conditions is asked once for each."""
    step = sizes.greatest_key // POINTS
    some = [32 * (i * step // 32) + 1 + i % 8 for i in range(POINTS)]
    middle, width = sizes.greatest_key // 2, sizes.greatest_key // 1000
    five = ("l_orderkey", "l_quantity", "l_extendedprice", "l_shipdate", "l_shipmode")
    rows_of_many = sizes.files * 50
    return {
        "full, 5 columns": Query("lineitem", five, None),
        "narrow sum": Query("lineitem", ("l_quantity",), "sum(l_quantity)"),
        "value filter": Query(
            "lineitem",
            ("l_extendedprice", "l_shipdate"),
            "sum(l_extendedprice), count(*)",
            ("l_shipdate >= DATE '1995-03-01' AND l_shipdate < DATE '1995-04-01'",),
        ),
        "key range": Query(
            "lineitem",
            ("l_orderkey", "l_extendedprice", "l_comment"),
            "sum(l_extendedprice), max(l_comment), count(*)",
            (f"l_orderkey BETWEEN {middle} AND {middle + width}",),
        ),
        f"{POINTS} points": Query(
            "lineitem",
            ("l_orderkey", "l_linenumber", "l_comment"),
            None,
            tuple(f"l_orderkey = {key}" for key in some),
        ),
        "count": Query("lineitem", (), "count(*)"),
        "narrow sum of the first snapshot": Query(
            "lineitem", ("l_quantity",), "sum(l_quantity)", at_load=True
        ),
        "many files: narrow sum": Query("many", ("a",), "sum(a)"),
        "many files: 5 points": Query(
            "many",
            ("k", "a"),
            None,
            tuple(f"k = {rows_of_many * i // 5 + 3}" for i in range(5)),
        ),
    }


Step = tuple[str, ...]
"""A method of a contender and what it is called with."""


def writes(sizes: Sizes) -> dict[str, list[Step]]:
    """Return the steps of each stage that writes. All but the last come before the queries."""
    refresh: list[Step] = []
    for pair in range(sizes.refreshes):
        first, last = sizes.removed(pair)
        for table, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
            refresh.append(("upsert", table, f"rf1-{table}-{pair}"))
            refresh.append(("delete", table, f"{key} BETWEEN {first} AND {last}"))
    return {
        "load": [("create", "lineitem"), ("upsert", "lineitem", "lineitem")],
        "load of orders": [("create", "orders"), ("upsert", "orders", "orders")],
        "upsert of a fifth": [("upsert", "lineitem", "upsert")],
        "MERGE of a twentieth": [("merge", "lineitem", "merge")],
        "DELETE of a hundredth": [("delete", "lineitem", sizes.deleted)],
        f"{sizes.refreshes} x RF1 and RF2": refresh,
        f"{sizes.commits} small commits": [
            ("create", "small"),
            *(("upsert", "small", f"small-{i}") for i in range(sizes.commits)),
        ],
        "load of many files": [("create", "many"), ("upsert", "many", "many")],
        "full compaction": [("compact", "lineitem")],
    }


def source(folder: Path, name: str) -> str:
    """Return the path of the Parquet file ``name`` of the inputs."""
    return str(folder / f"{name}.parquet")
