"""What of a table can be read from: its schemas, its retained snapshots, its tags, its branches.

Whatever does not decode becomes a finding, and the rest is found all the same.

Clauses: CMT-1, META-1, META-2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from pktable_spec.errors import CorruptFileError, NotATableError, SnapshotNotFoundError

from pktable.check.findings import Findings
from pktable.format.metadata.schema import TableSchema, decode_schema
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot
from pktable.format.paths import BRANCH, CHANGELOG, SCHEMA, SNAPSHOT, TAG, TablePaths, numbered
from pktable.store.file_io import FileIO

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Head:
    """A snapshot file, or a tag's copy of one. ``path``: of the file."""

    path: str
    snapshot: Snapshot

    @property
    def id(self) -> int:
        return self.snapshot.id


@dataclass(frozen=True, slots=True)
class Heads:
    """All that can be read from. ``readable``: by snapshot id, a tag only where it is no copy of a retained one.

    ``elsewhere``: snapshots of branches and retained changelogs, which are not checked and whose files are
    referenced all the same. ``whole``: whether none of these is missing or damaged.
    """

    readable: tuple[Head, ...]
    elsewhere: tuple[Snapshot, ...]
    whole: bool


def read_schemas(store: FileIO, root: str, found: Findings) -> dict[int, TableSchema]:
    """Return the schemas that decode, by id. Raises NotATableError if there is no file of one.

    Clauses: META-1.
    """
    names = _numbered(store, TablePaths(root).schemas, SCHEMA)
    if not names:
        raise NotATableError(root, "a directory without one" if store.exists(root) else "nothing")
    schemas = {}
    for number, path in names:
        schema = _decoded(store, path, decode_schema, "META-1", found)
        if schema is None:
            continue
        if schema.id != number:
            found.add("META-1", "schema id", path, expected=number, found=schema.id)
        schemas[number] = schema
    return schemas


def read_heads(store: FileIO, root: str, found: Findings, *, only: int | None = None) -> Heads:
    """Return what can be read from; ``only``: nothing but this snapshot.

    Raises SnapshotNotFoundError if there is no file of it. Clauses: CMT-1, META-2.
    """
    numbered = _numbered(store, TablePaths(root).snapshots, SNAPSHOT)
    ids = [number for number, _ in numbered]
    if only is not None and only not in ids:
        raise SnapshotNotFoundError(f"snapshot {only}", f"{ids[0]} to {ids[-1]}" if ids else "none")
    whole = only is not None or _are_dense(root, ids, found)
    files: list[tuple[int | None, str]] = [(n, path) for n, path in numbered if only in (None, n)]
    files += [(None, path) for path in _named(store, TablePaths(root).tags, TAG) if only is None]
    heads: dict[tuple[str, str], Head] = {}
    for number, path in files:
        snapshot = _decoded(store, path, decode_snapshot, "META-2", found)
        if snapshot is not None and number not in (None, snapshot.id):
            found.add("META-2", "snapshot id", path, expected=number, found=snapshot.id)
            snapshot = None
        if snapshot is None:
            whole = False
        else:  # a tag is most often a copy of a snapshot that is there
            lists = snapshot.base_manifest_list, snapshot.delta_manifest_list
            heads.setdefault(lists, Head(path, snapshot))
    others = [
        _decoded(store, path, decode_snapshot, "META-2", found)
        for path in (_elsewhere(store, root) if only is None else ())
    ]
    return Heads(
        tuple(sorted(heads.values(), key=lambda head: head.id)),
        tuple(snapshot for snapshot in others if snapshot is not None),
        whole and None not in others,
    )


def _are_dense(root: str, ids: Sequence[int], found: Findings) -> bool:
    """Return whether no snapshot is missing between others. Clauses: CMT-1."""
    for before, after in pairwise(ids):
        if after != before + 1:
            missing = f"{SNAPSHOT}{before + 1}" + (f" to {after - 1}" if after > before + 2 else "")
            found.add(
                "CMT-1",
                "snapshots",
                TablePaths(root).snapshots,
                expected=missing,
                found="none",
                snapshots=(after,),
            )
    return not ids or ids[-1] - ids[0] + 1 == len(ids)


def _elsewhere(store: FileIO, root: str) -> Iterator[str]:
    """Yield the paths of changelogs that outlive their snapshots, and of the snapshots and tags of branches."""
    main = TablePaths(root)
    yield from (path for _, path in _numbered(store, main.changelogs, CHANGELOG))
    for directory in _named(store, main.branches, BRANCH):
        branch = main.of_branch(directory.rpartition("/")[2].removeprefix(BRANCH))
        yield from (path for _, path in _numbered(store, branch.snapshots, SNAPSHOT))
        yield from _named(store, branch.tags, TAG)


def _named(store: FileIO, directory: str, prefix: str) -> list[str]:
    return [f"{directory}/{name}" for name in sorted(store.list_names(directory)) if name.startswith(prefix)]


def _numbered(store: FileIO, directory: str, prefix: str) -> list[tuple[int, str]]:
    """Return the files named by prefix and number, ascending by number."""
    paths = ((numbered(path.rpartition("/")[2], prefix), path) for path in _named(store, directory, prefix))
    return sorted((number, path) for number, path in paths if number is not None)


def _decoded(
    store: FileIO, path: str, decode: Callable[..., Value], clause: str, found: Findings
) -> Value | None:
    """Return the value that a file holds, or None and a finding."""

    def read() -> Value:
        try:
            return decode(store.read(path), at=path)
        except FileNotFoundError:
            raise CorruptFileError("file", at=path, expected="a file", found="none") from None

    return found.attempt(clause, read, file=path)
