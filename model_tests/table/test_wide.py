"""The work on a table grows with the number of its columns, not with its square."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pktable import Table

FEW, MANY = 50, 200
ENGINES: Mapping[str, Callable[[int], dict[str, str]]] = {
    "deduplicate": lambda _: {"bucket": "-1", "changelog-producer": "lookup"},
    "partial-update": lambda count: {
        "merge-engine": "partial-update",
        **{f"fields.c{i}.sequence-group": f"c{i + 1}" for i in range(0, count, 2)},
    },
    "aggregation": lambda count: {
        "merge-engine": "aggregation",
        **{f"fields.c{i}.aggregate-function": ("sum", "max", "last_value")[i % 3] for i in range(count)},
    },
}


def calls_of(work: Callable[[], Any]) -> int:
    """Return how many functions were called in ``work``."""
    profile = cProfile.Profile()
    profile.runcall(work)
    return sum(calls for calls, *_ in pstats.Stats(profile).stats.values())  # type: ignore[attr-defined]


def calls_by_work(path: Path, engine: str, count: int) -> dict[str, int]:
    """Return the calls by what is done with a table of so many columns."""
    names = [f"c{i}" for i in range(count)]
    columns = ", ".join(["id BIGINT", *(f"{name} BIGINT" for name in names)])
    options = {"deletion-vectors.enabled": "true", **ENGINES[engine](count)}
    found: list[Table] = []
    works: dict[str, Callable[[], Any]] = {
        "create": lambda: found.append(Table.create(path, columns, primary_key="id", options=options))
    }
    rows = pa.table({"id": [1, 2, 3], **{name: [1, 2, None] for name in names}})
    condition = " OR ".join(f"{name} = 7" for name in names)
    works |= {
        "write": lambda: found[0].upsert(rows),
        "write again": lambda: found[0].upsert(rows),
        "write few columns": lambda: found[0].upsert(rows.select(["id", *names[:4]])),
        "read": lambda: found[0].to_arrow(where=condition),
        "list": lambda: [found[0].columns[name] for name in names],
        "check": lambda: found[0].check(),
        "alter": lambda: found[0].alter(add={f"x{i}": "INT" for i in range(count)}),
    }
    if engine != "partial-update":  # which alone may leave out columns
        del works["write few columns"]
    if engine == "deduplicate":
        works["update"] = lambda: found[0].update({name: f"{name} + 1" for name in names}, where="id = 1")
        works["delete"] = lambda: found[0].delete(where=condition)
    return {name: calls_of(work) for name, work in works.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_work_grows_with_the_number_of_columns_and_not_with_its_square(tmp_path: Path, engine: str) -> None:
    calls_by_work(tmp_path / "first", engine, 4)  # what is imported and cached once
    few, many = (calls_by_work(tmp_path / str(count), engine, count) for count in (FEW, MANY))
    grown = {name: (few[name], many[name]) for name in few if many[name] > 1.2 * MANY / FEW * few[name]}
    assert grown == {}
