"""Make and remove branches.

Making a branch from a snapshot:

1. Put a tag of its own on the snapshot, in the branch that it is made from. From here on no expiry removes its files.
2. Create the file ``claim`` of the new branch if it is absent: nobody else makes a branch of the name.
3. Copy the tag that the caller named, the snapshot, and the schemas, `schema-0` last. With it the branch is there.
4. Remove the tag of step 1. The branch keeps the files now.

Removing a branch goes the same way back: `schema-0` first, ``claim`` last. So after an interruption the
branch is there or half there. Nobody reads a half branch, and it needs no files.

Clauses: BRN-1 to BRN-6, BRN-9, BRN-13.
"""

from __future__ import annotations

import contextlib
import uuid
from itertools import chain
from typing import Final

from pktable_spec.errors import CorruptFileError, InvalidRequestError, SnapshotNotFoundError

from pktable.catalog import holds
from pktable.catalog.branch_names import (
    branch_of_name,
    branches_there,
    gone,
    has_files,
    is_there,
    new_branch,
    no_such_branch,
    numbers_in,
)
from pktable.catalog.catalog import Catalog
from pktable.catalog.holds import Consumers
from pktable.catalog.schemas import load_schemas
from pktable.format.metadata.snapshot import CREATED, FENCE, RETAINED, Snapshot, decode_snapshot, with_fields
from pktable.format.paths import MAIN_BRANCH, SCHEMA, TablePaths
from pktable.store.file_io import FileIO, remove_empty_directory
from pktable.store.new_files import put_once, remove_quietly

FALLBACKS: Final = ("scan.fallback-branch", "scan.primary-branch")
HALF: Final = "delete_branch or `pktable check --repair` removes what is left of it"


class Branches:
    """The branches of one table. ``catalog``: of the branch from which others are made."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog, self._context = catalog, catalog.context
        self._store, self._paths = catalog.context.store, catalog.context.paths

    def latest(self) -> dict[str, Snapshot | None]:
        """Return the latest snapshot of each branch that is there, but for the main one, by name.

        Raises CorruptFileError. Clauses: BRN-2.
        """
        found = {}
        for name in branches_there(self._store, self._paths):
            with contextlib.suppress(_GoneError):
                found[name] = self._opened(name).snapshots.retry_on_latest(lambda latest: latest)
        return found

    def open(self, name: str) -> Catalog:
        """Return the metadata of a branch. Raises InvalidRequestError if it is not there. Clauses: BRN-1."""
        branch = branch_of_name(name)
        if branch is None:
            return self._opened(None)
        try:
            return self._opened(branch)
        except _GoneError:
            raise no_such_branch(self._store, self._paths.of_branch(branch)) from None

    def _opened(self, branch: str | None) -> Catalog:
        paths = self._paths.of_branch(branch)
        try:
            schemas = (
                load_schemas(self._store, paths) if branch is None or is_there(self._store, paths) else {}
            )
        except FileNotFoundError:  # removed concurrently
            schemas = {}
        if not schemas:
            raise _GoneError
        clock, ignored = self._catalog.committer.clock, self._catalog.ignored
        return Catalog(self._store, self._context.root, schemas, clock, ignored, branch)

    # ---------------------------------------------------------------- making

    def make_empty(self, name: str) -> None:
        """Make a branch without rows. Raises InvalidRequestError if the name is taken. Clauses: BRN-3, BRN-4."""
        paths = self._free(name)
        claim = self._claim(paths)
        self._copy_schemas(paths, None)
        self._finish(paths, claim)

    def make(self, name: str, *, tag: str | None = None, snapshot: int | None = None) -> None:
        """Make a branch from what a tag keeps, or from a retained snapshot.

        Raises InvalidRequestError if the name is taken, SnapshotNotFoundError. Clauses: BRN-3 to BRN-6.
        """
        paths, expiry = self._free(name), self._catalog.expiry
        hold = holds.new_hold(holds.BRANCH)
        if tag is not None:
            expiry.copy_tag(tag, self._catalog.snapshots.by_tag(tag), hold)
        else:
            assert snapshot is not None, "one of both is given"
            expiry.make_tag(hold, snapshot)
        try:
            source = self._paths
            if source.branch is not None and not holds.is_kept(self._store, source, [source.tag(hold)]):
                raise InvalidRequestError(
                    f"branch {source.branch!r}: another process removes it, so no branch can be made from it"
                )
            claim = self._claim(paths)
            kept = self._copy_snapshot(paths, hold, tag)
            self._copy_schemas(paths, self._latest_schema(paths, kept, hold) if tag is not None else None)
        except BaseException:
            with contextlib.suppress(SnapshotNotFoundError):  # removed with its branch
                expiry.drop_tag(hold)
            raise
        # An error leaves open whether the branch is there or will be: the tag stays, until a repair.
        self._finish(paths, claim, hold)
        remove_quietly(self._store, [self._paths.tag(hold)])

    def _free(self, name: str) -> TablePaths:
        """Return the paths of a branch to be made. Raises InvalidRequestError if there is something of the name."""
        paths = self._paths.of_branch(new_branch(name))
        if has_files(self._store, paths):
            raise self._taken(paths)
        return paths

    def _claim(self, paths: TablePaths) -> bytes:
        """Begin to make a branch; return its claim. Raises InvalidRequestError if another has. Clauses: BRN-4."""
        claim = str(uuid.uuid4()).encode()
        if not put_once(self._store, paths.claim, claim):
            raise self._taken(paths)
        _empty(self._store, paths)  # of what work on a branch that was removed has left
        return claim

    def _finish(self, paths: TablePaths, claim: bytes, hold: str | None = None) -> None:
        """Put the file with which a branch is there. ``hold``: the tag that has kept its files up to now.

        Raises InvalidRequestError if others have removed the branch since, the tag, or the table. Clauses: BRN-6.
        """
        try:
            first = self._store.read(self._paths.schema(0))
        except FileNotFoundError:
            raise gone(self._store, self._paths) from None
        self._put(paths, paths.schema(0), first)
        with contextlib.suppress(FileNotFoundError):
            if self._store.read(paths.claim) == claim and (
                hold is None or self._store.exists(self._paths.tag(hold))
            ):
                return
        remove_quietly(self._store, [paths.schema(0)])
        raise self._lost(paths)

    def _lost(self, paths: TablePaths) -> InvalidRequestError:
        return InvalidRequestError(
            f"branch {paths.branch!r}: another process removed it, or its tag, while it was made; {HALF}"
        )

    def _taken(self, paths: TablePaths) -> InvalidRequestError:
        if is_there(self._store, paths):
            return InvalidRequestError(
                f"branch {paths.branch!r} exists already; take another name, or delete it first"
            )
        return InvalidRequestError(
            f"branch {paths.branch!r}: another process is making or removing it; if that is dead, {HALF}"
        )

    def _copy_snapshot(self, paths: TablePaths, hold: str, tag: str | None) -> Snapshot:
        """Copy the snapshot that a tag of ours keeps, and the tag that the caller named.

        Raises InvalidRequestError if the tag is gone. Clauses: BRN-5.
        """
        at = self._paths.tag(hold)
        try:
            data = self._store.read(at)
        except FileNotFoundError:  # a repair took its maker for dead
            raise self._lost(paths) from None
        kept = decode_snapshot(data, at=at)
        if tag is not None:
            self._put(paths, paths.tag(tag), with_fields(data, {FENCE: None}))
        if self._catalog.snapshots.expired_error(kept) is None:
            with contextlib.suppress(FileNotFoundError):  # expired concurrently
                data = self._store.read(self._paths.snapshot(kept.id))
        self._put(
            paths, paths.snapshot(kept.id), with_fields(data, dict.fromkeys((FENCE, CREATED, RETAINED)))
        )
        return kept

    def _latest_schema(self, paths: TablePaths, kept: Snapshot, hold: str) -> int:
        """Return the latest schema that a snapshot or one of its files has: a commit may be of an older one.

        Raises InvalidRequestError if the tag that keeps the files is gone, CorruptFileError.
        """
        try:
            files = chain.from_iterable(self._catalog.states.at(kept).files.values())
        except CorruptFileError:
            if self._store.exists(self._paths.tag(hold)):
                raise
            raise self._lost(paths) from None
        return max([kept.schema_id, *(file.schema_id for file in files)])

    def _copy_schemas(self, paths: TablePaths, latest: int | None) -> None:
        """Copy the schemas up to ``latest``, or all, but for the first: with that the branch is there.

        They are listed, as others may have put some since the table was opened. Clauses: BRN-4.
        """
        numbers = numbers_in(self._store, self._paths.schemas, SCHEMA)
        for number in sorted(one for one in numbers if one > 0 and (latest is None or one <= latest)):
            self._put(paths, paths.schema(number), self._store.read(self._paths.schema(number)))

    def _put(self, paths: TablePaths, path: str, data: bytes) -> None:
        if not put_once(self._store, path, data):
            raise self._taken(paths)

    # ---------------------------------------------------------------- removing

    def remove(self, name: str) -> None:
        """Remove a branch, or what is left of it. Files that only it needs become orphans.

        Raises InvalidRequestError if it is not there, is the main one or that of this table, or is what another one
        reads. Clauses: BRN-9, BRN-13.
        """
        branch = branch_of_name(name)
        if branch is None or branch == self._paths.branch:
            which = MAIN_BRANCH if branch is None else "the one that is open"
            raise InvalidRequestError(f"branch {name!r}: cannot be deleted, as it is {which}")
        paths = self._paths.of_branch(branch)
        if not any(map(self._store.list_names, _directories(paths))) and not self._store.exists(paths.claim):
            raise no_such_branch(self._store, paths)
        readers = [one for one in FALLBACKS if self._context.schema.options.get(one) == branch]
        if readers:
            raise InvalidRequestError(
                f"branch {name!r}: option {readers[0]} names it; reset the option first"
            )
        mark = holds.new_hold(holds.REMOVAL)
        Consumers(self._store, paths).put(mark, 1)
        if holds.is_read(self._store, paths):
            remove_quietly(self._store, [paths.consumer(mark)])
            raise InvalidRequestError(
                f"branch {name!r}: a fast-forward or the maker of a branch reads it; delete it afterwards. If that is "
                "dead, `pktable check --repair` removes what is left of it"
            )
        remove_branch(self._store, paths)


class _GoneError(Exception):
    """A branch is not there, or not whole."""


def remove_branch(store: FileIO, paths: TablePaths) -> None:
    """Remove the files of a branch, `schema-0` first and the claim last. Clauses: BRN-4, BRN-9."""
    put_once(store, paths.claim, str(uuid.uuid4()).encode())
    _empty(store, paths)
    for directory in _directories(paths):
        remove_empty_directory(store, directory)
    main = paths.of_branch(None)
    if not store.list_names(main.snapshots):  # what remains in `manifest/` would show that it had some
        put_once(store, main.removed_branches, b"")
    store.delete(paths.claim)
    remove_empty_directory(store, paths.branch_root)


def _empty(store: FileIO, paths: TablePaths) -> None:
    for directory in _directories(paths):
        while names := store.list_names(directory):
            for name in sorted(names):
                store.delete(f"{directory}/{name}")


def _directories(paths: TablePaths) -> tuple[str, ...]:
    """Return the directories of a branch in the order in which they are emptied, with `schema-0` first."""
    return paths.schemas, paths.consumers, paths.tags, paths.changelogs, paths.snapshots, paths.fences
