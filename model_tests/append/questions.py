"""Questions to an append table besides its rows: conditions on its partitions, and what its manifests say of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pktable import Table
from pktable.format.binary_row import decode_row
from pktable.format.types import parse_type
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers

Row = tuple[int, str | None, int | None]
CHOICES: Final[Mapping[str, Callable[[Row], bool]]] = {
    "p IS NULL": lambda row: row[2] is None,
    "p = 1": lambda row: row[2] == 1,
    "p IS NULL OR id IN (1, 2)": lambda row: row[2] is None or row[0] in (1, 2),
    "p < 1 AND v LIKE 'x%'": lambda row: row[2] == 0 and row[1] is not None and row[1].startswith("x"),
    "v IS NULL": lambda row: row[1] is None,
}
"""Conditions, and the rows that they choose."""


@check
@covers("RD-6", "RD-8", "APP-2")
def condition_agrees(table: Table, rows: Sequence[Row], number: int) -> None:
    """Compare the rows of a condition, mostly on the partition, with those of the latest snapshot that it chooses."""
    where = list(CHOICES)[number % len(CHOICES)]
    expected = Counter(row for row in rows if CHOICES[where](row))
    found = Counter(tuple(row.values()) for row in table.to_arrow(where=where).to_pylist())
    if found != expected:
        fail(f"{where}: expected {expected}, found {found}")


@check
@covers("META-12", "RD-8")
def partitions_are_counted(table: Table) -> None:
    """The statistics of a manifest count the entries whose partition is null."""
    state, manifests = table.catalog.state(), table.catalog.manifests
    if state.snapshot is None or not table.schema.partition_keys:
        return
    for meta in manifests.read_list(state.snapshot.delta_manifest_list):
        values = [decode_row(one.partition, [parse_type("INT")], at="")[0] for one in manifests.read(meta)]
        if meta.partition_stats.null_counts != (values.count(None),):
            fail(f"partitions {values}: {meta.partition_stats.null_counts} of them are counted as null")
