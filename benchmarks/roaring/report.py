"""Tables, plot and verdict of a run, all from its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(result: dict[str, Any], path: Path) -> None: ...


def write_report(result: dict[str, Any], path: Path) -> None:
    path.write_text("\n")
