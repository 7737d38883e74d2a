"""Names of files in Hudi tables: base files, log files and the instants of the timeline.

An **instant** is the time of an action as text: ``yyyyMMddHHmmss`` or ``yyyyMMddHHmmssSSS``. Instants compare as text,
as Hudi compares them.

* A base file is ``{group}_{token}_{instant}.parquet``.
* A log file is ``.{group}_{instant}.log.{version}_{token}``. Before table version 8 its instant is that of the base
  file it belongs to, and versions count up; from version 8 on it is the instant of the commit that wrote it.
* Up to layout 1 (table version 6 and before) a timeline file is ``{instant}.{action}[.requested|.inflight]``. From
  layout 2 on a completed one is ``{instant}_{completion}.{action}``.

Clauses: LOG-19, LOG-20.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pktable.format.paths import HUDI_PROPERTIES

DIRECTORY: Final = ".hoodie"
PROPERTIES: Final = HUDI_PROPERTIES
BASE_FILE: Final = re.compile(
    r"(?P<group>[^_./][^_/]*)_(?P<token>[^_/]*)_(?P<instant>[0-9]+)\.(?P<format>[a-z]+)"
)
LOG_FILE: Final = re.compile(
    r"\.(?P<group>[^_/]+)_(?P<instant>[0-9]+)\.log\.(?P<version>[0-9]{1,9})(?:_(?P<token>[0-9]+-[0-9]+-[0-9]+))?(?P<cdc>\.cdc)?"
)
TIMELINE_FILE: Final = re.compile(
    r"(?P<instant>[0-9]{14,17})(?:_(?P<completion>[0-9]{14,17}))?\.(?P<action>[a-z]+)(?:\.(?P<state>requested|inflight))?"
)
KEPT_NAMES: Final = 1 << 17  # directories are listed again and again
INFLIGHT_COMMIT: Final = re.compile(r"(?P<instant>[0-9]{14,17})\.inflight")


@dataclass(frozen=True, slots=True)
class BaseFileName:
    """The parts of a base file's name. ``format``: its ending, such as ``parquet``."""

    name: str
    group: str
    instant: str
    format: str


@dataclass(frozen=True, slots=True)
class LogFileName:
    """The parts of a log file's name. ``token``: of the task that wrote it, as three numbers."""

    name: str
    group: str
    instant: str
    version: int
    token: tuple[int, ...]

    @property
    def order(self) -> tuple[str, int, tuple[int, ...]]:
        """The key by which Hudi orders the log files of a file slice."""
        return self.instant, self.version, self.token


@dataclass(frozen=True, slots=True)
class InstantName:
    """The parts of a timeline file's name. ``completion``: None before layout 2 and for an action that is not complete.

    ``state``: ``requested``, ``inflight`` or, for a completed action, empty.
    """

    name: str
    instant: str
    action: str
    state: str
    completion: str | None


@lru_cache(KEPT_NAMES)
def base_file(name: str) -> BaseFileName | None:
    """Return the parts of a base file's name, None for any other name."""
    found = BASE_FILE.fullmatch(name)
    return None if found is None else BaseFileName(name, found["group"], found["instant"], found["format"])


@lru_cache(KEPT_NAMES)
def log_file(name: str) -> LogFileName | None:
    """Return the parts of a log file's name, None for any other name and for a log of changes (``.cdc``)."""
    found = LOG_FILE.fullmatch(name)
    if found is None or found["cdc"]:
        return None
    token = tuple(map(int, found["token"].split("-"))) if found["token"] else ()
    return LogFileName(name, found["group"], found["instant"], int(found["version"]), token)


@lru_cache(KEPT_NAMES)
def timeline_file(name: str) -> InstantName | None:
    """Return the parts of a timeline file's name, None for any other name."""
    if found := INFLIGHT_COMMIT.fullmatch(name):  # the one action that a name leaves out
        return InstantName(name, found["instant"], "commit", "inflight", None)
    found = TIMELINE_FILE.fullmatch(name)
    if found is None:
        return None
    return InstantName(name, found["instant"], found["action"], found["state"] or "", found["completion"])
