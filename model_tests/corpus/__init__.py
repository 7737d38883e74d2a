"""Minimal histories, each of which shows a bug that some implementation had; they replay on any backend.

A file holds a table and its operations (see `pktable_conform.judge.history`). The rows that reads must return are not
stored: the oracle gives them. ``of`` cites the catalogue of historic bugs (M..) and of consistency counterexamples
(C..).
"""

from __future__ import annotations

import json
from pathlib import Path

from pktable_conform.judge.history import History

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the stored histories, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(name: str) -> History:
    """Return a stored history by name."""
    return History.from_json(json.loads((FOLDER / f"{name}.json").read_text("utf-8")))
