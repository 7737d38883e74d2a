"""Directories that are no table but hold tables: a database ``x.db``, or a warehouse of databases."""

from __future__ import annotations

from typing import Final

from pktable_spec.errors import InvalidRequestError, NotATableError

from pktable.format.paths import HUDI_PROPERTIES, SCHEMA, SNAPSHOT, TablePaths, numbered
from pktable.store.file_io import FileIO

DATABASE: Final = ".db"
DEFAULT: Final = "default"
"""The database of names without one."""
NAMES_SHOWN: Final = 10


def not_a_table(store: FileIO, root: str, location: str | None = None) -> NotATableError:
    """Return the error that ``root`` is no table; it names the tables that lie in ``root``.

    ``location``: how the caller named ``root``, by default ``root`` itself.
    """
    path = location or root
    if not store.exists(root) and not store.list_names(root):  # an object store has no directories
        return NotATableError(path, "nothing")
    if store.exists(f"{root}/{HUDI_PROPERTIES}"):
        return NotATableError(path, "a Hudi table; pktable.HudiTable opens it")
    names = tables_in(store, root)
    if not names:
        return NotATableError(
            path, "a directory without one" if store.list_names(root) else "an empty directory or a file"
        )
    shown = ", ".join(names[:NAMES_SHOWN])
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return NotATableError(path, f"a directory of tables: {shown}{more}")


def tables_in(store: FileIO, directory: str) -> list[str]:
    """Return the tables in a directory and in its databases, as paths relative to it, sorted by name.

    Directories that cannot be listed count as empty.
    """
    tables = []
    for name in _names(store, directory):
        path = f"{directory}/{name}"
        if _is_table(store, path):
            tables.append(name)
        elif name.endswith(DATABASE):
            tables += [f"{name}/{one}" for one in _names(store, path) if _is_table(store, f"{path}/{one}")]
    return tables


def is_table(store: FileIO, path: str) -> bool:
    """Return whether the directory ``path`` has the schema of a table. Raises OSError if it cannot be listed."""
    return any(numbered(name, SCHEMA) is not None for name in store.list_names(TablePaths(path).schemas))


def expect_no_remains(store: FileIO, root: str) -> None:
    """Raise InvalidRequestError if snapshots are at ``root``, which is no table, and nothing can read them.

    Clauses: WH-31.
    """
    paths = TablePaths(root)
    if any(numbered(name, SNAPSHOT) is not None for name in store.list_names(paths.snapshots)):
        raise InvalidRequestError(
            f"{root}: expected no table, or one with schema files, found snapshots without a schema: a table of which "
            f"{paths.schemas} is lost, or what came late to one that was dropped; put the schema files back, or move "
            "the directory elsewhere if nobody misses them"
        )


def _is_table(store: FileIO, path: str) -> bool:
    try:
        return is_table(store, path)
    except OSError:
        return False


def _names(store: FileIO, directory: str) -> list[str]:
    try:
        return sorted(store.list_names(directory))
    except OSError:
        return []
