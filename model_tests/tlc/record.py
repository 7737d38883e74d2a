"""Results of TLC by content: a model is not run again while all that TLC reads is the same.

A record is found by the sha256 of the files that TLC reads, without their comments, its jar and its flags. There are
two:

* A machine's, under ``$XDG_CACHE_HOME/pktable/tlc`` or ``~/.cache/pktable/tlc``, holds what TLC printed, and each time
  it is read and judged again.
* The repository's, ``spec/tla/checked.json``, is written by ``make tla``. It holds results, and only CI may use it.
  CI repeats a tenth of them, another for each commit.

Neither holds a verdict: a result is compared with what is expected each time. ``PKTABLE_TLC_RECORD`` says what is
used: ``none``, ``machine`` or ``repository``, which is both.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from model_tests.caches import caches
from model_tests.tlc.jar import tlc_jar
from model_tests.tlc.models import FOLDER, code_of, modules_of

VERSION: Final = 1
VARIABLE: Final = "PKTABLE_TLC_RECORD"
CHECKED: Final = FOLDER / "checked.json"
ONE_IN: Final = 10
"""CI repeats one of so many."""
KEPT_DAYS: Final = 60

_said: set[str] = set()


def key_of(files: Mapping[str, str], *told: str) -> str:
    """Return the key of a run of TLC on Model.tla of ``files``; ``told``: its flags, and what else it depends on."""
    modules = modules_of(["Model"], files)
    parts = [str(VERSION), _jar_hash(tlc_jar()), *told]
    codes = {name: code_of(text) for name, text in modules.items()}
    parts += [
        f"{name}\n{text}" for name, text in sorted({**codes, "cfg": files.get("Model.cfg", "")}.items())
    ]
    return digest_of(parts)


def digest_of(parts: list[str]) -> str:
    return hashlib.sha256(
        "\0".join(hashlib.sha256(one.encode()).hexdigest() for one in parts).encode()
    ).hexdigest()


@cache
def _jar_hash(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def used() -> str:
    """Return which records are used."""
    return os.environ.get(VARIABLE) or ("repository" if os.environ.get("CI") == "true" else "machine")


@contextmanager
def using(which: str) -> Iterator[None]:
    """Use other records inside, in the processes that are started there too."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = which
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


# ------------------------------------------------------------------ of a machine


def recalled(key: str) -> dict[str, Any] | None:
    """Return what this machine has on record under ``key``, None if nothing is, or none may be used."""
    if used() == "none":
        return None
    path = _place() / f"{key}.json.gz"
    try:
        found = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _say_once(f"{path.parent}: no record of TLC is read: {error.strerror}")
        return None
    try:
        stored = json.loads(gzip.decompress(found))
        if stored["key"] != key or not isinstance(stored["value"], dict):
            raise ValueError("it is of another run")
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        _say_once(f"{path}: expected a record of TLC, found {error!r}; it is not used")
        return None
    with suppress(OSError):
        os.utime(path)  # what is used is kept
    return dict(stored["value"])


def remember(key: str, value: Mapping[str, Any]) -> None:
    """Put ``value`` on this machine's record, whole or not at all."""
    place = _place()
    try:
        place.mkdir(parents=True, exist_ok=True)
        _forget_old(place)
        with tempfile.NamedTemporaryFile(dir=place, delete=False) as file:
            file.write(gzip.compress(json.dumps({"key": key, "value": value}).encode(), mtime=0))
        Path(file.name).replace(place / f"{key}.json.gz")
    except OSError as error:
        _say_once(f"{place}: what TLC finds is not kept: {error.strerror}")


def _place() -> Path:
    return caches() / "tlc"


@cache
def _forget_old(place: Path) -> None:
    """Take away what was not used for long, once."""
    for path in place.iterdir():
        with suppress(OSError):  # another process takes it away, too
            if path.stat().st_mtime < time.time() - KEPT_DAYS * 86_400:
                path.unlink()


def _say_once(what: str) -> None:
    if what not in _said:
        _said.add(what)
        print(what, file=sys.stderr)


# ---------------------------------------------------------------- of the repository


def entry(kind: str, name: str, key: str) -> dict[str, Any] | None:
    """Return what the repository has on record of a model or a graph, None if it is not to be used."""
    if used() != "repository" or is_due(kind, name):
        return None
    return found_in(stored_once(), kind, name, key)


def found_in(record: Mapping[str, Any], kind: str, name: str, key: str) -> dict[str, Any] | None:
    """Return an entry of the repository's record if it is of this very input."""
    found = record.get(kind, {}).get(name)
    return found if found and found.get("key") == key else None


def is_due(kind: str, name: str) -> bool:
    """Whether CI runs a model or a graph now, whatever is on record."""
    return used() == "repository" and is_repeated(f"{kind} {name}", _commit())


def is_repeated(name: str, commit: str) -> bool:
    """Whether CI runs something although it is on record: one in ten, others for each commit."""
    return int(hashlib.sha256(f"{commit} {name}".encode()).hexdigest(), 16) % ONE_IN == 0


def stored(path: Path = CHECKED) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the repository's record, empty if there is none, which is said."""
    try:
        found = json.loads(path.read_text("utf-8"))
        if found.pop("version") != VERSION:
            raise ValueError("another version")
        if not all(isinstance(one, dict) for kind in found.values() for one in kind.values()):
            raise ValueError("entries that are none")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _say_once(f"{path}: expected a record of TLC, found {error!r}; it is not used")
        return {}
    return dict(found)


def store(record: Mapping[str, Mapping[str, Mapping[str, Any]]], path: Path = CHECKED) -> None:
    """Write the repository's record: an entry a line."""
    kinds = []
    for kind, entries in record.items():
        lines = (f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in entries.items())
        kinds.append(f" {json.dumps(kind)}: {{\n" + ",\n".join(lines) + "\n }")
    path.write_text(f'{{"version": {VERSION},\n' + ",\n".join(kinds) + "}\n", "utf-8")


@cache
def stored_once() -> dict[str, dict[str, dict[str, Any]]]:
    return stored()


@cache
def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=FOLDER, capture_output=True, check=False)
    return done.stdout.decode().strip()
