"""Directories that take long to make, kept where caches go, for every checkout.

One is named after what decides its contents, so that other contents are another directory. It is made aside, under a
lock, and takes its name when it is complete. So one of two processes that want it waits for the other. A process that
is killed leaves an unfinished directory, which is never taken for it; the next process removes that.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from model_tests.caches import caches

ROOT: Final = "PKTABLE_INTEROP"
"""The environment variable that names another directory to keep them in."""

MAKES_NONE: Final = "PKTABLE_INTEROP_MAKES_NONE"
"""The environment variable that, set to anything, has none made: what is not there is an error."""


def root() -> Path:
    """Return the directory that they are in: what the environment names, else a part of the user's caches."""
    if named := os.environ.get(ROOT):
        return Path(named).absolute()
    return caches() / "interop"


def kept(name: str, made_of: Sequence[str], make: Callable[[Path], object]) -> Path:
    """Return the directory of ``name`` that is made of ``made_of``. Where there is none, ``make`` fills a new one.

    The directory that ``make`` gets has another name, until it is complete. Raises what ``make`` raises,
    and FileNotFoundError where `MAKES_NONE` is set.
    """
    digest = hashlib.sha256(json.dumps([name, *made_of]).encode()).hexdigest()[:16]
    place = root() / f"{name}-{digest}"
    if place.is_dir():
        return place
    if os.environ.get(MAKES_NONE):
        raise FileNotFoundError(f"{place.name} is not kept here; make interop makes it")
    place.parent.mkdir(parents=True, exist_ok=True)
    with _locked(place.with_name(f".{place.name}.lock")):
        if place.is_dir():
            return place
        for left in place.parent.glob(f".{place.name}.*.part"):
            shutil.rmtree(left, ignore_errors=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent))
        try:
            make(aside)
            aside.rename(place)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return place


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with the process."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
