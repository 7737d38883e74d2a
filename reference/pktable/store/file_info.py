"""The facts that a store lists about a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file of a directory. ``modified_millis``: since the epoch, by the clock of the store."""

    name: str
    size: int
    modified_millis: int
