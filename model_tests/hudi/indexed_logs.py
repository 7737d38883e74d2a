"""Log files of a made table with an index, and what lookups find in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pktable.store.file_io import LocalFileIO
from pktable_hudi.format.log_index import LogIndex, Member
from pktable_hudi.index_writer import DEFAULT, IndexPolicy
from pktable_hudi.lookup import index_of_file

from model_tests.hudi.made_tables import MadeTable, row


def based(root: Path, version: int = 8) -> MadeTable:
    """A table with one file group, whose base file has the key ``base``."""
    table = MadeTable(root, version)
    table.base(1, [row("base", 1, 1)])
    table.commit(1)
    return table


def add(
    table: MadeTable, number: int, *keys: str, policy: IndexPolicy | None = DEFAULT, completes: bool = True
) -> Path:
    """Write a log file of a commit. ``policy``: None for one without an index."""
    block = table.data(number, [row(key, number, number) for key in keys])
    blocks = [block] if policy is None else table.index(number, block, list(keys), policy)
    path = table.log(number, *blocks)
    table.begin(number)
    if completes:
        table.commit(number)
    return path


def index_of(path: Path) -> LogIndex:
    found = index_of_file(LocalFileIO(), str(path))
    assert found is not None
    return found.index


def names(members: Sequence[Member]) -> list[int]:
    """The numbers of the commits of log files."""
    return [int(one.name.split("_")[1].split(".")[0][-7:]) for one in members]


def located(table: MadeTable, keys: Sequence[str]) -> set[str]:
    return set(table.open().locate(list(keys)).column("key").to_pylist())
