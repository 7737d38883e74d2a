"""Where the real tables lie that tests compare with: written by Paimon, Iceberg and Hudi, not by us.

Some are shipped, in ``model_tests/vectors``; others are shared by those who work on the project.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(os.environ.get("PKTABLE_SHARED") or Path(__file__).resolve().parents[2] / "shared")
PAIMON = ROOT / "tables" / "paimon"
HUDI = ROOT / "tables" / "hudi"
VECTORS = Path(__file__).parent / "vectors"

needs_shared = pytest.mark.skipif(
    not PAIMON.is_dir(), reason="no real tables: set PKTABLE_SHARED to the directory that holds tables/"
)


needs_hudi = pytest.mark.skipif(
    not HUDI.is_dir(), reason="no real Hudi tables: set PKTABLE_SHARED to the directory that holds tables/"
)


def hudi_archives() -> list[Path]:
    """Return the zipped Hudi tables; none where they are absent."""
    return sorted(HUDI.glob("**/*.zip"))


def paimon_tables() -> list[Path]:
    """Return the directories of all real tables; none where they are absent."""
    schemas = [*PAIMON.glob("cpp/*/*/*/schema"), *PAIMON.glob("jvm-0.9/c.db/*/schema")]
    return sorted(schema.parent for schema in schemas)


def shipped_tables() -> list[Path]:
    """Return the directories of the tables in ``model_tests/vectors``."""
    return sorted(VECTORS.glob("*/table"))


def each_paimon_table(*, shipped: bool = False) -> pytest.MarkDecorator:
    """Run a test once per shared table, as the argument ``table``, or skip it where there are none.

    ``shipped``: also once per table that is shipped.
    """
    tables: list[Any] = [*paimon_tables()] or [pytest.param(None, marks=needs_shared)]
    return pytest.mark.parametrize("table", [*tables, *(shipped_tables() if shipped else ())], ids=_name)


def _name(table: Path | None) -> str:
    if table is None:
        return "absent"
    return table.parent.name if VECTORS in table.parents else "-".join(table.parts[-3::2])
