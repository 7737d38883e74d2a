"""The rows that a read must decode are guessed from the keys of files; only who reads follows from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table
from pktable.catalog import file_bounds
from pktable.catalog.read_plan import plan_read
from pktable.predicate import parse
from pktable_spec.covers import covers

OPTIONS = {"deletion-vectors.enabled": "true", "bucket": "1"}


def guessed(table: Table, where: str | None, **changed: Any) -> int:
    """Return the guess. ``changed``: what is different about the files than their manifests say."""
    catalog = table.catalog
    predicate = None if where is None else parse(where, catalog.context.schema.fields)
    planned = plan_read(catalog.context, catalog.states, catalog.state(), fresh=False, predicate=predicate)
    parts = []
    for part in planned:
        files = tuple(replace(file, **changed) for file in part.state.files)
        parts.append(replace(part, state=replace(part.state, files=files)))
    return file_bounds.rows_to_decode(catalog.context, parts, predicate)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(file_bounds, "PAGE_ROWS", 10)
    table = Table.create(tmp_path, "k INT, n BIGINT", primary_key=["k"], options=OPTIONS)
    table.upsert(pa.table({"k": pa.array(range(640), pa.int32()), "n": range(640)}))
    return table


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (None, 640),
        ("n = 3", 640),
        ("k = 3", 10),
        ("k IN (3, 500, 600) AND n > 5", 30),
        ("k BETWEEN 100 AND 104 OR k = 630", 10 + 20),
        ("k < 320", 10 + 320),
        ("k >= 0", 640),
        ("k = 700", 0),
    ],
)
@covers("RD-16")
def test_a_condition_on_the_key_leaves_some_pages(table: Table, where: str | None, rows: int) -> None:
    assert guessed(table, where) == rows


def test_files_that_are_merged_are_decoded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_bounds, "PAGE_ROWS", 10)
    table = Table.create(tmp_path, "k INT", primary_key=["k"], options={"write-only": "true", "bucket": "1"})
    for _ in range(2):
        table.upsert(pa.table({"k": pa.array(range(50), pa.int32())}))
    assert guessed(table, "k = 3") == guessed(table, "k < 3") == 100


def test_keys_that_are_no_integers_are_not_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_bounds, "PAGE_ROWS", 10)
    table = Table.create(tmp_path, "k STRING, n BIGINT", primary_key=["k"], options=OPTIONS)
    table.upsert(pa.table({"k": [f"{i:03}" for i in range(640)], "n": range(640)}))
    assert guessed(table, "k = '003'") == 10
    assert guessed(table, "k < '003'") == 640


@pytest.mark.parametrize("changed", [{"file_name": "data.orc"}, {"schema_id": 1}])
def test_only_parquet_files_of_this_schema_are_read_by_pages(table: Table, changed: dict[str, Any]) -> None:
    assert guessed(table, "k = 3") == 10
    assert guessed(table, "k = 3", **changed) == 640
