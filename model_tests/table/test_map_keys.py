"""A MAP that has a key twice is refused when it is added, and read where others have written it."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import HudiTable, InvalidRequestError, Table
from pktable.ingest import changes
from pktable_spec.covers import covers

GOOD: list[Any] = [[("a", 1), ("b", 2)], None, [], [("a", 2)]]
TWICE: dict[str, tuple[str, Any, Any, str]] = {
    "text": ("MAP<STRING, INT>", GOOD[0], [("a", 1), ("a", 2)], "'a'"),
    "integers apart": ("MAP<INT, INT>", [(1, 1), (2, 1)], [(3, 1), (1, 1), (3, 1)], "3"),
    "decimals": (
        "MAP<DECIMAL(9, 2), INT>", [(Decimal(1), 1)], [(Decimal(1), 1), (Decimal("1.00"), 1)], "Decimal('1.00')",
    ),
    "NaN": ("MAP<DOUBLE, INT>", [(1.0, 1)], [(float("nan"), 1), (float("nan"), 1)], "nan"),
    "zeros": ("MAP<DOUBLE, INT>", [(1.0, 1)], [(0.0, 1), (-0.0, 1)], "-?0.0"),
    "rows": ("MAP<ROW<x INT>, INT>", [({"x": 1}, 1), ({"x": 2}, 1)], [({"x": 1}, 1), ({"x": 1}, 2)], "{'x': 1}"),
    "in a list": ("ARRAY<MAP<INT, INT>>", [[(1, 1)], None, [(1, 1)]], [[(2, 1)], [(1, 1), (1, 2)]], "1"),
    "in a row": ("ROW<m MAP<INT, INT>>", {"m": [(1, 1)]}, {"m": [(1, 1), (1, 2)]}, "1"),
    "in a map": ("MAP<INT, MAP<INT, INT>>", [(1, [(1, 1)])], [(1, [(1, 1)]), (2, [(5, 1), (5, 2)])], "5"),
}  # fmt: skip


def message(key: str, row: int = 3) -> str:
    found = key if key == "-?0.0" else re.escape(key)
    return f"^column m, row {row}: expected a MAP that has each key once, found {found} twice$"


@covers("TBL-23")
@pytest.mark.parametrize("form", ["dicts", "arrow", "slices"])
@pytest.mark.parametrize("what", TWICE)
def test_a_map_that_has_a_key_twice_is_refused_with_its_row(tmp_path: Path, what: str, form: str) -> None:
    kind, good, wrong, key = TWICE[what]
    table = Table.create(tmp_path / "t", f"id INT, m {kind}", primary_key="id")
    maps = [good, None, good, wrong, good]
    rows: Any = [{"id": number, "m": value} for number, value in enumerate(maps)]
    if form != "dicts":
        rows = pa.table(
            {
                "id": pa.array(range(5), pa.int32()),
                "m": pa.array(maps, table.schema.arrow_schema.field("m").type),
            }
        )
    if form == "slices":
        rows = pa.concat_tables([rows.slice(0, 2), rows.slice(2)])
    with pytest.raises(InvalidRequestError, match=message(key)):
        table.upsert(rows)
    assert table.snapshots() == []
    table.upsert([{"id": number, "m": value} for number, value in enumerate(maps) if value is not wrong])
    assert table.count() == 4


@covers("TBL-23")
def test_append_tables_and_hudi_tables_refuse_a_key_that_is_there_twice(tmp_path: Path) -> None:
    twice = {"m": [("a", 1), ("a", 2)]}
    append = Table.create(tmp_path / "a", "id INT, m MAP<STRING, INT>", primary_key=None)
    hudi = HudiTable.create(tmp_path / "h", "id STRING, m MAP<STRING, INT>", key="id")
    append.append([{"id": 1, "m": GOOD[0]}])
    for call in (
        lambda: append.append([{"id": 1, **twice}]),
        lambda: append.merge([{"id": 7, **twice}], on="id").when_not_matched_insert_all().execute(),
        lambda: hudi.upsert([{"id": "1", **twice}]),
    ):
        with pytest.raises(InvalidRequestError, match=message("'a'", 0)):
            call()


@covers("TBL-23", "TBL-4")
def test_a_map_of_others_that_has_a_key_twice_is_read_compacted_and_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = [("a", 1), ("a", 2)]
    table = Table.create(tmp_path / "t", "id INT, m MAP<STRING, INT>", primary_key="id")
    with monkeypatch.context() as patched:
        patched.setattr(changes, "expect_distinct_keys", lambda *arguments: None)
        table.upsert([{"id": 1, "m": twice}, {"id": 2, "m": twice}])
    table.compact(full=True)
    assert table.to_arrow().column("m").to_pylist() == [twice, twice]
    table.write_changes([{"id": 1, "m": twice, "kind": "-D"}], row_kind="kind")
    table.merge([{"id": 2}], on="id").when_matched_delete().execute()
    assert table.count() == 0
