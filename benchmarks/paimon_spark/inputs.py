"""Make the rows that the contenders write, once, as Parquet files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data import kept, tpch
from benchmarks.paimon_spark.workload import NEW_KEY, Sizes, source


def inputs(scale: float, sizes: Sizes) -> Path:
    """Return the folder of the inputs, made unless it is there. ``scale``: the scale factor of TPC-H."""

    def make(folder: Path) -> None:
        draw = np.random.default_rng(1)
        lineitem, orders = tpch("lineitem", scale), tpch("orders", scale)
        for name, rows in (("lineitem", lineitem), ("orders", orders)):
            _write(folder, name, rows.take(draw.permutation(rows.num_rows)))
        _write(folder, "upsert", _repriced(lineitem, draw.choice(lineitem.num_rows, lineitem.num_rows // 5)))
        twentieth = _repriced(lineitem, draw.choice(lineitem.num_rows, lineitem.num_rows // 20))
        half = twentieth.num_rows // 2
        new = _moved(twentieth.slice(half), "l_orderkey", 2 * NEW_KEY)
        _write(folder, "merge", pa.concat_tables([twentieth.slice(0, half), new]))
        for pair in range(sizes.refreshes):
            first, last = (bound + sizes.greatest_key // 2 for bound in sizes.removed(pair))
            for name, rows, key in (
                ("lineitem", lineitem, "l_orderkey"),
                ("orders", orders, "o_orderkey"),
            ):
                held = pc.and_(pc.greater_equal(rows[key], first), pc.less_equal(rows[key], last))
                _write(folder, f"rf1-{name}-{pair}", _moved(rows.filter(held), key, NEW_KEY))
        _write(folder, "many", _many(sizes.files * 50))
        for commit in range(sizes.commits):
            _write(folder, f"small-{commit}", _small(draw))

    return kept(f"paimon-spark-{scale:g}-{sizes.files}", f"4 {scale} {sizes}", make)


def _write(folder: Path, name: str, rows: pa.Table) -> None:
    pq.write_table(rows, source(folder, name), row_group_size=max(rows.num_rows // 8, 1000))


def _repriced(rows: pa.Table, chosen: np.ndarray) -> pa.Table:
    """Return the chosen rows, each once and in the order drawn, with a higher price."""
    _, first = np.unique(chosen, return_index=True)
    found = rows.take(chosen[np.sort(first)])
    at = found.column_names.index("l_extendedprice")
    field = found.schema.field(at)
    return found.set_column(
        at, field, pc.add(found["l_extendedprice"], pa.scalar(1, pa.int8())).cast(field.type)
    )


def _moved(rows: pa.Table, key: str, by: int) -> pa.Table:
    at = rows.column_names.index(key)
    return rows.set_column(at, rows.schema.field(at), pc.add(rows[key], by))


def _many(rows: int) -> pa.Table:
    keys = np.arange(rows)
    return pa.table({"k": keys, "a": (keys % 7).astype(np.int32)})


def _small(draw: np.random.Generator) -> pa.Table:
    keys = draw.choice(5000, 100, replace=False)
    return pa.table(
        {
            "k": keys,
            "a": (keys % 10).astype(np.int32),
            "b": [f"text {number}" for number in draw.integers(0, 999, 100)],
        }
    )
