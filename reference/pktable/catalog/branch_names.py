"""Names of branches, and which of them are there.

A branch that we make or remove has a file ``claim`` for as long as any other file of it is there. It is there itself if
its ``schema-0`` is, which is put last and removed first. A branch without a claim was made by Paimon; it is there if it
has any schema.

Clauses: BRN-1, BRN-2, BRN-3, BRN-4.
"""

from __future__ import annotations

import re
from typing import Final

from pktable_spec.errors import InvalidRequestError, NotATableError

from pktable.format.paths import BRANCH, MAIN_BRANCH, SCHEMA, SNAPSHOT, TAG, TablePaths, numbered
from pktable.store.file_io import FileIO

NEW: Final = re.compile(r"(?!\d+$)(?!\.)[\w.-]{1,200}", re.ASCII)
OURS_OR_PAIMONS: Final = re.compile(r"(?!\s*$)(?!\.{1,2}$)[^/\\\0\ud800-\udfff]+")


def branch_of_name(name: str) -> str | None:
    """Return the branch that a name stands for, None for the main one, which is ``main`` in any case of letters.

    Raises InvalidRequestError for a name that no branch has. Clauses: BRN-3.
    """
    if not isinstance(name, str) or not OURS_OR_PAIMONS.fullmatch(name):
        raise InvalidRequestError(
            f"branch {name!r}: not the name of a branch, which is not blank and has no slash"
        )
    return None if name.lower() == MAIN_BRANCH else name


def new_branch(name: str) -> str:
    """Return the name of a branch to be made. Raises InvalidRequestError if it cannot be one. Clauses: BRN-3."""
    if branch_of_name(name) is None or not NEW.fullmatch(name):
        raise InvalidRequestError(
            f"branch {name!r}: not the name of a new branch, which has at most 200 letters, digits and ._-, "
            f"not digits alone, does not begin with a dot, and is not {MAIN_BRANCH}"
        )
    return name


def is_there(store: FileIO, paths: TablePaths) -> bool:
    """Return whether a table or branch is there: it has a schema, and is not half there. Clauses: BRN-2."""
    schemas = numbers_in(store, paths.schemas, SCHEMA)
    return 0 in schemas or (bool(schemas) and not is_half(store, paths))


def is_half(store: FileIO, paths: TablePaths) -> bool:
    """Return whether a branch is half made or half removed by us. Clauses: BRN-4."""
    return not store.exists(paths.schema(0)) and store.exists(paths.claim)


def halves(store: FileIO, paths: TablePaths) -> list[TablePaths]:
    """Return the paths of the branches that are half made or half removed by us. Clauses: BRN-4."""
    branches = (paths.of_branch(name) for name in listed_branches(store, paths))
    return [one for one in branches if is_half(store, one)]


def is_gone(store: FileIO, paths: TablePaths) -> bool:
    """Return whether a branch is half there, or nothing of it is left but a claim."""
    return is_half(store, paths) or not has_files(store, paths)


def has_files(store: FileIO, paths: TablePaths) -> bool:
    """Return whether there are schemas, snapshots or tags of a branch. Work that came late may leave anything else."""
    return bool(
        numbers_in(store, paths.schemas, SCHEMA)
        or numbers_in(store, paths.snapshots, SNAPSHOT)
        or [name for name in store.list_names(paths.tags) if name.startswith(TAG)]
    )


def numbers_in(store: FileIO, directory: str, prefix: str) -> list[int]:
    """Return the numbers of the files of a directory that have a name of ``prefix`` and a number."""
    return [number for name in store.list_names(directory) if (number := numbered(name, prefix)) is not None]


def other_branches(store: FileIO, paths: TablePaths) -> list[TablePaths]:
    """Return the paths of all branches but that of ``paths`` and half ones, the main one last. Clauses: BRN-4, BRN-7.

    One that Paimon is making has tags and snapshots before its schemas, and counts.
    """
    others = [paths.of_branch(name) for name in listed_branches(store, paths) if name != paths.branch]
    found = [one for one in others if not is_half(store, one)]
    return found if paths.branch is None else [*found, paths.of_branch(None)]


def listed_branches(store: FileIO, paths: TablePaths) -> list[str]:
    """Return the names of all branches but the main one, sorted, half ones included."""
    names = store.list_names(paths.branches)
    return sorted(name.removeprefix(BRANCH) for name in names if name.startswith(BRANCH) and name != BRANCH)


def branches_there(store: FileIO, paths: TablePaths) -> list[str]:
    """Return the names of the branches that are there, but for the main one, sorted. Clauses: BRN-2."""
    return [one for one in listed_branches(store, paths) if is_there(store, paths.of_branch(one))]


def gone(store: FileIO, paths: TablePaths) -> InvalidRequestError:
    """Return the error that a table or branch which was opened is no longer there. Clauses: BRN-9, TBL-60."""
    if paths.branch is not None:
        return no_such_branch(store, paths)
    return NotATableError(paths.root, "none; the table was dropped or renamed after it was opened")


def no_such_branch(store: FileIO, paths: TablePaths) -> InvalidRequestError:
    """Return the error that there is no branch of ``paths``; it lists others, or says that this one is half there."""
    if store.exists(paths.claim):
        return InvalidRequestError(
            f"branch {paths.branch!r} of {paths.root}: half made or half removed; if no process is at it, "
            "delete_branch or `pktable check --repair` removes the rest"
        )
    others = ", ".join(branches_there(store, paths))
    return InvalidRequestError(
        f"branch {paths.branch!r} of {paths.root}: not found; "
        + (f"there are {others}" if others else "the table has no branches")
    )
