"""The queries, told once for every reader: what is read, which rows, and what is made of them.

Nothing here needs Spark or pktable, because other readers run in environments of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Answer = tuple[str, ...]
Condition = tuple[str, str, int]
"""A column, a comparison, a literal."""


@dataclass(frozen=True)
class Query:
    """``goal``: how many times the floor the DV read may take. ``aggregates``: (function, column)."""

    name: str
    what: str
    goal: float
    aggregates: Sequence[tuple[str, str]]
    conditions: Sequence[Condition] = ()

    @property
    def columns(self) -> list[str]:
        named = [column for _, column in self.aggregates] + [column for column, _, _ in self.conditions]
        return list(dict.fromkeys(named))

    @property
    def where(self) -> str | None:
        return " AND ".join(f"{column} {sign} {value}" for column, sign, value in self.conditions) or None


COUNT: Final = Query("count", "rows of the table", 1.0, [("count", "l_orderkey")])
OF_SOME: Final = [("count", "l_orderkey"), ("sum", "l_extendedprice"), ("max", "l_comment")]


def queries(rows: int) -> list[Query]:
    """Return the queries for a lineitem of so many rows: order keys go up to as much, 30 rows name one part."""
    keys, parts = rows, rows // 30
    return [
        Query(
            "full aggregate",
            "seven columns, every row",
            1.1,
            [
                *(("sum", name) for name in ("l_quantity", "l_extendedprice", "l_discount", "l_tax")),
                ("sum", "l_partkey"),
                ("max", "l_shipdate"),
                ("length", "l_comment"),
            ],
        ),
        Query("narrow aggregate", "one column, every row", 1.1, [("sum", "l_partkey")]),
        Query(
            "value filter",
            "1 % of the rows, anywhere in the files",
            1.25,
            OF_SOME,
            [("l_partkey", ">=", parts // 2), ("l_partkey", "<", parts // 2 + parts // 100)],
        ),
        Query(
            "key range",
            "1 % of the rows, next to each other in every file",
            1.25,
            OF_SOME,
            [("l_orderkey", ">=", keys // 2), ("l_orderkey", "<", keys // 2 + keys // 100)],
        ),
    ]


IN_ARROW: Final[Mapping[str, Callable[[Any], Any]]] = {
    "sum": pc.sum,
    "max": pc.max,
    "count": lambda column: pa.scalar(len(column)),
    "length": lambda column: pc.sum(pc.utf8_length(column)),
}
COMPARISONS: Final = {">=": pc.greater_equal, "<": pc.less}


def selected(table: pa.Table, query: Query) -> pa.Table:
    """Return the rows that satisfy the conditions."""
    for column, sign, value in query.conditions:
        table = table.filter(COMPARISONS[sign](table.column(column), value))
    return table


def answered(table: pa.Table, query: Query) -> Answer:
    """Return the aggregates of ``table``, which has the rows of the query already."""
    return tuple(str(IN_ARROW[how](table.column(name)).as_py()) for how, name in query.aggregates)


def answered_by_spark(frame: Any, query: Query) -> Answer:
    """Return the aggregates of a DataFrame with the rows of the query."""
    from pyspark.sql import functions as F

    in_spark = {
        "sum": F.sum,
        "max": F.max,
        "count": F.count,
        "length": lambda name: F.sum(F.length(name)),
    }
    (row,) = frame.agg(*(in_spark[how](name) for how, name in query.aggregates)).collect()
    return tuple(map(str, row))
