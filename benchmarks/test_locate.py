"""Looking keys up in a file of 5,000,000 rows, which is what a deletion vector costs: by type and number of keys.

``spread``: the keys lie all over the file. ``near``: in one of 120 parts of its key range, as those of one of many
level-0 files or of a recent day do.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from pktable import Table
from pktable.bucket.locate import Locator

ROWS = 5_000_000
SHARE_NEAR = 120
KEYS: dict[str, tuple[str, Callable[[npt.NDArray[np.int64]], dict[str, Any]]]] = {
    "int": ("k BIGINT", lambda n: {"k": n}),
    "composite": ("k BIGINT, l INT", lambda n: {"k": n // 4, "l": (n % 4).astype(np.int32)}),
    "string": ("k STRING", lambda n: {"k": np.char.mod("customer-%012d", n)}),
    "uuid": ("k STRING", lambda n: {"k": uuids(n)}),
}


def uuids(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.str_]:
    """Return a UUID for each number, ascending with it; the digits after the first eight look random."""
    first = numbers.astype(np.uint64) << np.uint64(8)
    rest = first * np.uint64(0x9E3779B97F4A7C15)
    text = np.char.mod("%08x-", first)
    for shift, width in ((0, "%04x-"), (16, "%04x-"), (32, "%04x-"), (16, "%012x")):
        text = np.char.add(text, np.char.mod(width, rest >> np.uint64(shift) & np.uint64(0xFFFF)))
    return text


def rows(kind: str, numbers: npt.NDArray[np.int64]) -> pa.Table:
    columns = KEYS[kind][1](numbers)
    return pa.table({**columns, "v": np.zeros(len(numbers), np.int32)})


@pytest.fixture(scope="module", params=KEYS)
def table(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Table]:
    ddl = KEYS[request.param][0]
    names = [column.split()[0] for column in ddl.split(", ")]
    made = Table.create(
        tmp_path_factory.mktemp(request.param),
        f"{ddl}, v INT",
        primary_key=names,
        options={"target-file-size": "1 gb", "deletion-vectors.enabled": "true", "write-only": "true"},
    )
    for part in np.array_split(np.arange(ROWS) * 2, 5):
        made.upsert(rows(request.param, part))
    made.compact(full=True)
    return request.param, made


@pytest.mark.parametrize("where", ["spread", "near"])
@pytest.mark.parametrize("count", [10_000, 100_000, 1_000_000])
def test_locate(benchmark: Any, table: tuple[str, Table], count: int, where: str, tmp_path: Path) -> None:
    """Half of the keys are there."""
    kind, made = table
    benchmark.group = f"locate {count:,} keys, {where}"
    state = made.catalog.state()
    (identity,) = state.files
    (file,) = state.files[identity]
    width = 2 * ROWS if where == "spread" else max(count, 2 * ROWS // SHARE_NEAR)
    start = 0 if where == "spread" else min(ROWS, 2 * ROWS - width)
    numbers = start + np.unique(np.linspace(0, width - 1, count).astype(np.int64))
    keys = rows(kind, numbers).drop_columns(["v"])
    keys = keys.rename_columns([f"_KEY_{name}" for name in keys.column_names])
    place = made.catalog.context.place(*identity)

    def locate() -> int:
        found = Locator(made.catalog.context, place, [file]).locate(keys)
        return sum(len(one.positions) for one in found)

    assert benchmark.pedantic(locate, rounds=5, warmup_rounds=1) == int((numbers % 2 == 0).sum())
    benchmark.extra_info.update(kind=kind, count=count, where=where)
