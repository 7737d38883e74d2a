"""The tables that reads are compared on: lineitem, some of whose rows have been written again.

All three hold the same rows. `vectors` has deletion vectors that mark the older versions in its top-level
files; `compacted` is the same after a full compaction; `twin` has no vectors and merges when it is read.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pktable import Table

from benchmarks.data import kept, tpch

KEY = ["l_orderkey", "l_linenumber"]
BUCKETS = "4"
WITH_VECTORS = {"bucket": BUCKETS, "deletion-vectors.enabled": "true"}
MERGED_BY_READS = {"bucket": BUCKETS, "write-only": "true"}
LAYOUT = "2"
"""To be raised when what is below changes: kept tables are then made anew."""


@dataclass(frozen=True)
class Tables:
    """Paths of the tables of one share of marked rows, each WAREHOUSE/DATABASE.db/TABLE as Paimon wants it."""

    percent: int
    vectors: Path
    compacted: Path
    twin: Path


def tables(scale: float, percent: int) -> Tables:
    """Return the tables with ``percent`` of the top-level rows marked, made if need be (a minute each)."""

    def make(folder: Path) -> None:
        found = _named(folder, percent)
        upserts = rewritten(tpch("lineitem", scale), percent)
        base = _base(scale)
        shutil.copytree(base / "vectors", found.vectors)
        Table.open(found.vectors).upsert(upserts)
        shutil.copytree(found.vectors, found.compacted)
        Table.open(found.compacted).compact(full=True)
        shutil.copytree(base / "twin", found.twin)
        Table.open(found.twin).upsert(upserts)
        _expect_marked(found)

    return _named(kept(f"reads-{scale:g}-{percent}", LAYOUT, make), percent)


def rewritten(rows: pa.Table, percent: int) -> pa.Table:
    """Return ``percent`` of ``rows``, chosen at random, with new values under the same keys."""
    random = np.random.default_rng(percent)
    some = rows.take(np.flatnonzero(random.random(rows.num_rows) * 100 < percent))
    parts = random.permutation(some.column("l_partkey").to_numpy())
    changed = {
        "l_partkey": pa.array(parts),
        "l_quantity": pc.add(some["l_quantity"], pa.scalar(Decimal("1.00"))),
        "l_returnflag": pa.array(["X"] * some.num_rows),
    }
    for name, column in changed.items():
        at = some.schema.get_field_index(name)
        some = some.set_column(at, some.schema.field(at), column.cast(some.schema.field(at).type))
    return some


def _base(scale: float) -> Path:
    def make(folder: Path) -> None:
        rows = tpch("lineitem", scale)
        for name, options in (("vectors", WITH_VECTORS), ("twin", MERGED_BY_READS)):
            table = Table.create(folder / name, rows.schema, primary_key=KEY, options=options)
            table.upsert(rows)
            table.compact(full=True)

    return kept(f"reads-{scale:g}-base", LAYOUT, make)


def _named(folder: Path, percent: int) -> Tables:
    database = folder / "warehouse" / "reads.db"
    return Tables(percent, *(database / name for name in ("vectors", "compacted", "twin")))


def _expect_marked(found: Tables) -> None:
    """Check that the tables are what they are measured as."""
    files = Table.open(found.vectors).files()
    top = files.filter(pc.equal(files["level"], pc.max(files["level"])))
    share = 100 * pc.sum(files["deleted_row_count"]).as_py() / pc.sum(top["row_count"]).as_py()
    assert abs(share - found.percent) < 0.5, f"expected {found.percent} % marked, found {share:.2f} %"
    assert pc.sum(top["deleted_row_count"]).equals(pc.sum(files["deleted_row_count"]))
    assert not pc.any(pc.greater(Table.open(found.compacted).files()["deleted_row_count"], 0)).as_py()
    assert 0 in Table.open(found.twin).files()["level"].to_pylist()
