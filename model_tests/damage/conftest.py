"""A table that hostile changes are made to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from model_tests.damage.every_byte import make_table


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "table"
    make_table(path)
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "warehouse" / "table"))
