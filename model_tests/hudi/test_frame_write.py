"""The tasks that write a DataFrame, run one by one: a task that runs again leaves one file and loses no row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pktable import HudiTable
from pktable.format.types import parse_columns
from pktable_hudi.actions import Actions
from pktable_hudi.format.timeline_writing import encode_commit
from pktable_hudi.frame_write import NEW, ORDER, FrameForm, Placing, Tagging, Writing
from pktable_hudi.group_write import GroupWrite, schema_with_own_columns, written_files
from pktable_hudi.incoming import RowForm
from pktable_hudi.slices import file_groups, writing_slice
from pktable_spec.covers import covers
from pktable_spec.model.log_index import Row

from model_tests.hudi.written_tables import COLUMNS, new_table, rows_of, upsert


def form_of(table: HudiTable) -> FrameForm:
    return FrameForm(
        RowForm(parse_columns(COLUMNS), table.settings, hive_style=True, named=False, deletes=False),
        ("k", "ts", "v"),
    )


def batch(rows: list[tuple[str, int, int]]) -> pa.Table:
    """Rows as they come to a task: columns without names, and their numbers."""
    columns = [pa.array(list(column)) for column in zip(*rows, strict=True)]
    return pa.table([*columns, pa.array(range(len(rows)))], names=["c0", "c1", "c2", ORDER])


@covers("LOG-54", "LOG-59")
def test_a_task_keeps_the_row_that_wins_whatever_order_the_rows_come_in(tmp_path: Path) -> None:
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(1, 1)})
    form = form_of(table)
    rows = form.prepared(batch([("a", 1, 10), ("b", 2, 20), ("a", 1, 11), ("b", 1, 21), ("c", 0, 0)]))
    tagging = Tagging(form, table.scan().lookups())
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]):
        (found,) = tagging(rows.take(order))
        assert sorted(zip(*(found.column(i).to_pylist() for i in (0, 2, -1)), strict=True)) == [
            ("a", 11, 0),
            ("b", 20, NEW),
            ("c", 0, NEW),
        ]


@covers("LOG-55")
def test_new_keys_are_divided_by_their_hashes_as_their_groups_have_room() -> None:
    keys = [f"key-{i}" for i in range(4000)]
    placing = Placing(np.array([5, NEW]), {"": [(0, 3000), (1, 1000)]})
    rows = {"__pktable_key": keys, "__pktable_partition": [""] * 4000}
    slices = pa.array([0] * 4 + [NEW] * 3996, pa.int64())
    targets = [
        placing(pa.table({**{name: column[::step] for name, column in given.items()}}))
        for step in (1, -1)
        for given in [{**rows, "__pktable_slice": slices.to_pylist()}]
    ]
    found = [one["__pktable_target"].to_pylist() for one in targets]
    assert found[0] == found[1][::-1]
    assert found[0][:4] == [5] * 4
    assert 2850 < found[0].count(0) < 3150
    assert found[0].count(0) + found[0].count(1) == 3996


@covers("LOG-57", "LOG-73")
@pytest.mark.parametrize("appends", [True, False])
def test_a_task_that_runs_again_leaves_one_file(tmp_path: Path, appends: bool) -> None:
    table = new_table(tmp_path / "t")
    upsert(table, {"a": Row(1, 1)})
    at = Path(table.path) / ".hoodie" / "timeline"
    actions = Actions(table.store, table.path, str(at), str(at / "history"), True, lambda: 0)
    instant, timeline = actions.begin(), table.timeline()
    (group,) = file_groups(table.store, table.path)
    slice_ = writing_slice(group, timeline, table.settings, instant) if appends else None
    schema = timeline.schema_text()[0]
    own = schema_with_own_columns(schema)
    name = group.id if appends else "new-0"
    write = GroupWrite(
        table.store, table.path, instant, own, "", name, 0, None, pa.array([], pa.string()), 0, slice_, False
    )
    rows = form_of(table).prepared(batch([("a", 2, 2), ("b", 1, 1)] if appends else [("b", 1, 1)]))
    tagged = rows.append_column("__pktable_slice", pa.array([0, NEW][-rows.num_rows :]))
    tagged = tagged.append_column("__pktable_target", pa.array([0] * rows.num_rows))
    writing = Writing(form_of(table), [write])
    dies: Any = replace(writing, writes=[replace(write, store=table.store)])
    list(dies(tagged))  # its result is lost
    (found,) = writing(tagged)
    (file,) = written_files(found)
    assert file.size == (tmp_path / "t" / file.path).stat().st_size
    actions.complete(instant, encode_commit([file], schema=schema, operation="UPSERT"))
    assert rows_of(table) == {"a": Row(2, 2) if appends else Row(1, 1), "b": Row(1, 1)}
    assert len([path for path in (tmp_path / "t").iterdir() if instant in path.name]) == 1
    assert table.check().findings == []
