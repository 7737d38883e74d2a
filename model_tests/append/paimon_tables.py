"""Tables that Paimon-Spark 1.4.2 wrote, with the rows it read at every snapshot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pktable_spec.vocabulary import RowKind

from model_tests.real_data import PAIMON

ROOT = PAIMON / "spark-1.4.2"
APPEND = (
    "ap_dataevo", "ap_dv", "ap_dv64", "ap_evolve_tags", "ap_fixed", "ap_nodv", "ap_orc", "ap_part", "ap_ratio",
    "ap_rowtrack", "ap_rowtrack_nodv",
)  # fmt: skip

Rows = list[tuple[str, ...]]


def path_of(name: str) -> Path:
    return ROOT / "tables" / name


def expected_of(name: str) -> dict[str, Any]:
    """Return what Paimon read: see the README beside the tables."""
    found: dict[str, Any] = json.loads((ROOT / "expected" / f"{name}.json").read_text())
    return found


def expected_rows(rows: list[list[Any]]) -> Rows:
    """Return Paimon's rows in a comparable form, in order."""
    assert {row[0] for row in rows} <= {f"+{RowKind.INSERT.name[0]}"}
    return sorted(tuple(map(str, row[1:])) for row in rows)


def rows_of(found: list[dict[str, Any]]) -> Rows:
    """Return rows of ours in that form."""
    return sorted(tuple(str(value) for value in row.values()) for row in found)
