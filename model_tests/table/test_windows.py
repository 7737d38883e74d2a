"""Compactions whose merge needs many windows: the deleted positions of one file come from several of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.bucket import compact, windows
from pktable.merge.grouping import Window
from pktable_spec.covers import covers

ROWS = 2_000
STEP = 5
FEW = 16
"""Rows of a run in one window."""


@pytest.fixture
def counted_windows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make windows small, and return the list of how many each merge of a compaction had."""
    counts: list[int] = []
    merge: Callable[..., Iterator[Window]] = windows.merge

    def counted(*arguments: Any, **named: Any) -> Iterator[Window]:
        counts.append(0)
        for window in merge(*arguments, **named, window_bytes=1):
            counts[-1] += 1
            yield window

    monkeypatch.setattr(windows, "FEWEST_ROWS", FEW)
    monkeypatch.setattr(compact, "merge", counted)
    return counts


def rows(keys: Sequence[int], text: str) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int32()), "v": [f"{text} {key}" for key in keys]})


@covers("DV-1", "DV-6", "DV-9", "DV-11", "DV-12", "CMP-12", "CMP-16")
@pytest.mark.parametrize("writes", [1, 2], ids=["a file that is moved", "files that are merged"])
def test_windows_of_one_compaction_add_to_the_deleted_positions_of_one_file(
    tmp_path: Path, counted_windows: list[int], writes: int
) -> None:
    table = Table.create(
        tmp_path / "t",
        "k INT, v STRING",
        primary_key=["k"],
        options={"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"},
    )
    table.upsert(rows(range(ROWS), "old"))
    table.compact(full=True)
    for number in range(writes):
        table.upsert(rows(range(0, ROWS, STEP), f"new {number}"))
    counted_windows.clear()
    table.compact()
    (count,) = counted_windows  # of one group: the older file is too large to be picked
    assert count >= ROWS // STEP // FEW
    (older,) = [file for file in table.files().to_pylist() if file["deleted_row_count"]]
    assert (older["row_count"], older["deleted_row_count"]) == (ROWS, ROWS // STEP)
    expected = {key: f"new {writes - 1} {key}" if key % STEP == 0 else f"old {key}" for key in range(ROWS)}
    found = table.to_arrow().to_pylist()
    assert len(found) == ROWS
    assert {row["k"]: row["v"] for row in found} == expected
