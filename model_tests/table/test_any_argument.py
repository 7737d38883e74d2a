"""Every public method, with any argument: the work is done, or refused by an error of this package."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import itertools
import math
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pktable import CommitId, HudiTable, PkTableError, Table
from pktable.change_scan import ChangeScan
from pktable.ingest.changes import ChangeKind
from pktable.merge_builder import MergeBuilder
from pktable.scan import Scan
from pktable.staged import StagedCompaction
from pktable.staged_write import StagedWrite
from pktable_hudi.scan import HudiScan

# fmt: off
NAMES = (
    "k", "v", "target.v", "source.v", "target.k", "", "a.b", "`", "\ud800", "x" * 400, "k\0", "+I", "tag", "..", "a/b",
    "latest", "2024-01-01",
)
CONDITIONS = (
    "k = 1", "v = 'a'", "target.k = source.k", "source.v > 'a'", "k = 1 OR v LIKE '%'", "TRUE", "NULL", "k", "1",
    "1 / 0 = 1", "k = 99999999999999999999999999999999999999999", "v = '\ud800'", "(", "k IN ()", "v IN ()", "--",
    "upper(v) = 'A'", "k + 2147483647 > 0", "v = '\0'", "k = 1; DROP TABLE t", "k = :x", "v = X'ff'", "k = v",
    "CASE WHEN k = 1 THEN TRUE END", "k BETWEEN v AND 1",
)
NUMBERS = (
    0, 1, -1, 2, 1 << 31, 1 << 63, 10**30, -(1 << 63), True, 1.5, math.nan, math.inf, Decimal("1e99"), np.int64(1),
)
TIMES = (
    datetime.datetime(2024, 1, 1), datetime.datetime.max, datetime.datetime.min, datetime.date(2024, 1, 1),
    datetime.timedelta(days=1), datetime.timedelta.max, "2024-13-01", "9999-12-31T23:59:59.999999+14:00",
)
ROWS: tuple[Any, ...] = (
    [], [{}], {}, [{"k": 1}], [{"k": 1, "v": "b"}], [{"k": 1, "v": "b"}, {"k": 1, "v": "c"}],
    [{"k": 1 << 40, "v": "b"}], [{"k": None, "v": None}],
    [{"k": 1, "v": "\ud800"}], [{"k": "x", "v": object()}], [{"v": "a"}], [[1, "a"]], [None],
    {"k": [1, 2], "v": ["a"]}, {"k": 1, "v": "a"}, pa.table({"k": pa.array([1], pa.int32()), "v": ["a"]}),
    pa.table({"k": [1], "v": [1]}), pa.table({"k": pa.nulls(1), "v": pa.nulls(1)}), pa.table({}), pa.array([1]),
    np.array([1, 2]), [{"k": math.nan, "v": "a"}], [{"k": True, "v": True}], [{1: 2}], [{"k": 1, "v": "x", "k\0": 1}],
    pa.table([pa.array([1], pa.int32()), pa.array([1], pa.int32())], names=["k", "k"]),
)
SETS: tuple[Any, ...] = (
    {"k": 1}, {"v": "'x'"}, {"v": None}, {"v": 5}, {"v": "source.v"}, {"k": "1"}, {5: "1"}, {"v": "\ud800"}, {},
    {"v": object()}, {"k": "source.k", "v": "source.v"},
)
OTHERS: tuple[Any, ...] = (
    None, b"k", object(), {"k"}, ("k",), ["k", "v"], ["k", "k"], [None], [[]], [1], CommitId("a", 1),
    CommitId("\ud800", 1), CommitId("a", 1 << 70), ChangeKind(), ChangeKind(column="v"), Path("k"), Exception("x"),
)
# fmt: on
LIKELY: dict[str, tuple[Any, ...]] = {
    "rows": ROWS,
    "source": ROWS,
    "where": CONDITIONS,
    "condition": CONDITIONS,
    "on": ("k", "v", ["k"], "target.k = source.k"),
    "set": SETS,
    "values": SETS,
    "snapshot": (1, 2, *NUMBERS),
    "columns": ("k", ["k", "v"], [], "k INT, v STRING", {"k": "INT", "v": "STRING"}, "k INT"),
    "limit": NUMBERS,
    "key": ("k", ["k", "v"]),
    "primary_key": ("k", ["k", "v"], None),
    "partition_by": ("v", ()),
    "options": (
        {"deletion-vectors.enabled": "true"},
        {"bucket": "2"},
        {"bucket": 2},
        {"merge-engine": "x"},
        {"x": object()},
    ),
    "change": (ChangeKind(), ChangeKind(column="v")),
}
ANYTHING = (*NAMES, *CONDITIONS, *NUMBERS, *TIMES, *ROWS, *SETS, *OTHERS)
DEEPEST = 3  # results of results
PARTS: set[str] = {"of", "change", "refuse", "plan_again", "as_one"}
INNER: dict[Any, set[str]] = {
    Table: set(),
    HudiTable: {"writer", "timeline"},
    MergeBuilder: {"of", "statement"},
    HudiScan: {"locate"},
    Scan: set(),
    ChangeScan: set(),
    StagedWrite: {*PARTS, "plan", "drop_stale", "commit_append"},
    StagedCompaction: PARTS,
}
"""Classes that have methods for users, and those of their methods that are not."""

NOT_DRAWN = {"store", "spark"}  # which do what they are asked for in their own way
Draw = Callable[[tuple[Any, ...]], Any]


def methods(thing: Any) -> list[str]:
    """The public methods of a table, and of what its methods return."""
    inner = INNER.get(type(thing))
    if inner is None:
        return []
    found = inspect.getmembers(type(thing), callable)
    return [name for name, _ in found if not name.startswith("_") and name not in inner]


def called(thing: Any, draw: Draw, depth: int = 0) -> None:
    """Call a drawn method of ``thing``, then one of its result, and so on; read some of what is lazy."""
    if isinstance(thing, Iterator):
        for _ in itertools.islice(thing, 5):
            pass
        return
    names = methods(thing)
    if depth > DEEPEST or not names:
        return
    call = getattr(thing, draw(tuple(names)))
    arguments = {}
    for name, parameter in inspect.signature(call).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in NOT_DRAWN:
            continue
        if name == "path":  # of `create` and `open`
            arguments[name] = draw((thing.path, f"{thing.path}-new", f"{thing.path}-new"))
        elif parameter.default is parameter.empty or draw((False, False, True)):
            likely = LIKELY.get(name, ANYTHING)
            arguments[name] = draw(draw((likely, likely, ANYTHING)))
    called(call(**arguments), draw, depth + 1)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arguments")
    rows = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
    for kind, key in (("keys", ["k"]), ("append", None)):
        table = Table.create(
            path / kind, "k INT, v STRING", primary_key=key, options={"deletion-vectors.enabled": "true"}
        )
        (table.upsert if key else table.append)(rows)
        table.create_tag("tag")
    HudiTable.create(path / "hudi", "k INT, v STRING", key="k").upsert(rows)
    return path


@settings(max_examples=150, phases=[Phase.generate], derandomize=True, deadline=None)
@given(kind=st.sampled_from(["keys", "keys", "append", "hudi"]), data=st.data())
def test_no_argument_leads_to_an_error_from_inside(
    templates: Path, tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    path = shutil.copytree(templates / kind, tmp_path_factory.mktemp("drawn") / "t")
    for _ in range(6):
        table: Any = (HudiTable if kind == "hudi" else Table).open(path)
        with contextlib.suppress(PkTableError):
            called(table, lambda choices: choices[data.draw(st.integers(0, len(choices) - 1))])
    assert not [str(one) for one in table.open(path).check().findings if one.severity == "error"]
