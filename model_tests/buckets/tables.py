"""Small tables with dynamic buckets, and what tests look at in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pktable import Table

from model_tests.append.paimon_tables import path_of

TARGET = "dynamic-bucket.target-row-num"
MOST = "dynamic-bucket.max-buckets"
INITIAL = "dynamic-bucket.initial-buckets"


def new_table(path: Path, room: int = 4, **options: str) -> Table:
    """Create a table of keys in dynamic buckets of ``room`` keys. ``options``: with _ for - and __ for a dot."""
    given = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    return Table.create(
        path,
        "k INT, v INT",
        primary_key="k",
        options={"bucket": "-1", TARGET: str(room), "deletion-vectors.enabled": "true", **given},
    )


def partitioned(path: Path, room: int = 4) -> Table:
    """Create a table like `new_table`, with a partition key ``p``."""
    options = {"bucket": "-1", TARGET: str(room), "deletion-vectors.enabled": "true"}
    return Table.create(
        path, "p STRING, k INT, v INT", primary_key=["p", "k"], partition_by="p", options=options
    )


def rows(keys: Iterable[int], value: int = 0) -> pa.Table:
    numbers = list(keys)
    return pa.table({"k": pa.array(numbers, pa.int32()), "v": pa.array([value] * len(numbers), pa.int32())})


def rows_in(partition: str, keys: Iterable[int], value: int = 0) -> pa.Table:
    found = rows(keys, value)
    return found.add_column(0, "p", pa.array([partition] * found.num_rows))


def stored_hashes(table: Table) -> dict[int, list[int]]:
    """Return the hashes of each bucket as its hash index file has them, of a table without partitions."""
    state, context = table.catalog.state(), table.catalog.context
    return {
        bucket: np.fromfile(context.index_path(entry), ">i4").tolist()
        for (_, bucket), entry in sorted(state.hashes.items())
    }


def buckets_of_keys(table: Table) -> dict[Any, int]:
    """Return the bucket of each key that a record has, of a table without partitions."""
    found: dict[Any, int] = {}
    for file in table.files().to_pylist():
        for row in table.inspect.records(file["file_name"]).to_pylist():
            assert found.setdefault(row["k"], file["bucket"]) == file["bucket"], (
                f"key {row['k']} in two buckets"
            )
    return found


def values(table: Table) -> Mapping[int, int]:
    return {row["k"]: row["v"] for row in table.to_arrow(fresh=True).to_pylist()}


def real(name: str, tmp_path: Path) -> Table:
    """Return a copy of a table that Paimon wrote, to write on."""
    copied = Path(shutil.copytree(path_of(name), tmp_path / name, copy_function=shutil.copyfile))
    for folder in (copied, *(one for one in copied.rglob("*") if one.is_dir())):
        folder.chmod(0o755)
    return Table.open(copied)
