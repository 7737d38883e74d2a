"""The table that is damaged, a copy for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from model_tests.check.sample import (
    make_table,
)
from model_tests.damage.table_damage import Surgeon


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("checked") / "table"
    make_table(path)
    return path


@pytest.fixture
def surgeon(original: Path, tmp_path: Path) -> Surgeon:
    return Surgeon(Path(shutil.copytree(original, tmp_path / "table")))
