"""Real Hudi tables, unpacked once per process, and the rows that Hudi reads of them."""

from __future__ import annotations

import json
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from model_tests.real_data import HUDI, hudi_archives, needs_hudi

_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def each_hudi_table() -> pytest.MarkDecorator:
    """Run a test once per shared Hudi table, as the argument ``archive``, or skip it where there are none."""
    archives: list[Any] = [*hudi_archives()] or [pytest.param(None, marks=needs_hudi)]
    return pytest.mark.parametrize("archive", archives, ids=lambda one: one.stem if one else "absent")


@cache
def unpacked(archive: Path) -> Path:
    """Return the directory of the table in ``archive``, which lives as long as this process. Do not change it."""
    directory = tempfile.TemporaryDirectory(prefix="hudi-")
    _KEPT.append(directory)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(directory.name)
    return Path(directory.name) / archive.stem


def table_named(name: str) -> Path:
    """Return the directory of the shared table ``name``."""
    return unpacked(next(one for one in hudi_archives() if one.stem == name))


def expected(archive: Path) -> Any:
    """Return what the README of the shared tables says about the table in ``archive``."""
    return json.loads((archive.parent / "expected" / f"{archive.stem}.json").read_text("utf-8"))


def log_files() -> list[Path]:
    """Return all log files of the shared tables, those of their metadata tables included, and the single ones."""
    inside = [path for one in hudi_archives() for path in unpacked(one).rglob(".*.log.*")]
    return sorted([*inside, *(HUDI / "logs").glob("*")])


def base_files() -> list[Path]:
    """Return all Parquet files of the shared tables outside of their metadata tables."""
    found = [path for one in hudi_archives() for path in unpacked(one).rglob("*.parquet")]
    return sorted(path for path in found if ".hoodie" not in path.parts)
