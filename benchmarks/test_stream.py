"""A real stream of changes: the history of a git repository, its files as rows under their paths.

The larger stored history where there is one, else that of this checkout. Written in 300 batches, with vectors and
without, and read at its end, by position and merged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pktable import Table
from pktable.replay import COLUMNS, OPTIONS, GitHistory, StoredStream, write

from model_tests.real_data import ROOT

BATCHES = 300
STREAM = ROOT / "data" / "paimon-git-history.parquet"


def history() -> Any:
    return StoredStream(STREAM) if STREAM.is_file() else GitHistory(Path(__file__).parents[1])


def new_table(path: Path, vectors: bool) -> Table:
    options = {**OPTIONS, "deletion-vectors.enabled": str(vectors).lower()}
    return Table.create(path, COLUMNS, primary_key=["path"], options=options)


@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "no vectors"])
def test_write_stream(benchmark: Any, tmp_path: Path, vectors: bool) -> None:
    """All changes, with the compactions they cause."""
    benchmark.group = "git stream, written"
    stream, paths = history(), iter(range(100))
    tables: list[Table] = []

    def fresh() -> tuple[tuple[Any, Table, int], dict[str, Any]]:
        tables.append(new_table(tmp_path / str(next(paths)), vectors))
        return (stream, tables[-1], BATCHES), {}

    _, changes = benchmark.pedantic(write, setup=fresh, rounds=1)
    benchmark.extra_info["changes a second"] = round(changes / benchmark.stats.stats.min)
    assert tables[-1].count(fresh=True) == len(stream.tree(last_commit(stream)))


@pytest.fixture(scope="module", params=[True, False], ids=["by position", "merged"])
def written(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, int]:
    table = new_table(tmp_path_factory.mktemp("stream") / "table", request.param)
    stream = history()
    write(stream, table, BATCHES)
    return table, len(stream.tree(last_commit(stream)))


def test_read_stream(benchmark: Any, written: tuple[Table, int]) -> None:
    """The newest state."""
    benchmark.group = "git stream, read"
    table, rows = written
    assert benchmark.pedantic(lambda: table.to_arrow().num_rows, rounds=15, warmup_rounds=1) == rows


def last_commit(stream: Any) -> str:
    *_, last = stream.commits()
    return str(last.name)
