"""Where the real tables lie that tests compare with: written by Paimon and Iceberg, not by us."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("PKTABLE_SHARED") or Path(__file__).resolve().parents[2] / "shared")
PAIMON = ROOT / "tables" / "paimon"

needs_shared = pytest.mark.skipif(
    not PAIMON.is_dir(), reason="no real tables: set PKTABLE_SHARED to the directory that holds tables/"
)


def paimon_tables() -> list[Path]:
    """Return the directories of all real tables; none where they are absent."""
    schemas = [*PAIMON.glob("cpp/*/*/*/schema"), *PAIMON.glob("jvm-0.9/c.db/*/schema")]
    return sorted(schema.parent for schema in schemas)


def each_paimon_table() -> pytest.MarkDecorator:
    """Run a test once per real table, as the argument ``table``; skip it where there are none."""
    tables = paimon_tables()
    absent = [pytest.param(None, marks=needs_shared)]
    return pytest.mark.parametrize(
        "table", tables or absent, ids=lambda table: "-".join(table.parts[-3::2]) if table else "absent"
    )
