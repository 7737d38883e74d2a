"""Keeps on disk which lines each part of some work executes, so that it is found out once for each state of the code.

A record lies in `FOLDER`, by a hash of the Python version and of all files that what is recorded may depend on, and by
the name of the work. Those of another state are removed when one is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from model_tests.mutants.executed import Clean

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".mutants"
_PARTS: Final = ("spec", "reference", "model_tests")
_WITHOUT: Final = ("*.md", "*.egg-info", ".*", "__pycache__", "failures", "equivalents.json")
"""Names of files and folders that no work depends on."""


class Records:
    """The records of one state of the tree at ``root``, in ``folder``."""

    def __init__(self, folder: Path = FOLDER, root: Path = ROOT) -> None:
        self._folder = folder
        self._state = folder / state(root)

    def load(self, name: str) -> Clean | None:
        """Return the record of the work ``name``, None if there is none of this state."""
        path = self._path(name)
        return Clean(**json.loads(path.read_text("utf-8"))) if path.exists() else None

    def store(self, name: str, clean: Clean) -> None:
        """Keep a record, and remove those of other states. Another process may do the same at once."""
        for other in self._folder.glob("*"):
            if other != self._state:
                shutil.rmtree(other, ignore_errors=True)
        self._state.mkdir(parents=True, exist_ok=True)
        path = self._path(name)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps(asdict(clean)), "utf-8")
        unfinished.replace(path)

    def _path(self, name: str) -> Path:
        return self._state / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.json"


def state(root: Path) -> str:
    """Return a hash of the Python version and of the files of the repository at ``root`` that work depends on."""
    found = hashlib.sha256(platform.python_version().encode())
    for path in sorted(_files(root)):
        found.update(f"\n{path.relative_to(root).as_posix()}\n".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def _files(root: Path) -> Iterator[Path]:
    for part in _PARTS:
        for path in (root / part).rglob("*"):
            names = path.relative_to(root).parts
            if path.is_file() and not any(fnmatch(name, one) for name in names for one in _WITHOUT):
                yield path
