"""Find the schemas, snapshots and tags of a table that can be read.

1. `read_schemas` decodes the schema files.
2. `read_snapshots` decodes the snapshot files and the tags, and the snapshots of other branches and of changelogs.

A file that does not decode becomes a finding, and the others are still read.

Clauses: BRN-7, CMT-1, CMT-32, CMT-36, CMT-40, CMT-51, META-1, META-2, META-52.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from itertools import count, pairwise
from typing import TypeVar

from pktable_spec.errors import CorruptFileError, SnapshotNotFoundError

from pktable.catalog.branch_names import (
    halves,
    is_there,
    no_such_branch,
    other_branches,
)
from pktable.catalog.fences import FenceLog
from pktable.catalog.holds import Consumers
from pktable.catalog.snapshots import SnapshotLog
from pktable.check.findings import NOTE, Findings
from pktable.format.metadata.schema import TableSchema, decode_schema
from pktable.format.metadata.snapshot import Fence, Snapshot, decode_snapshot
from pktable.format.paths import CHANGELOG, SCHEMA, SNAPSHOT, TAG, TablePaths, numbered
from pktable.store.directories import not_a_table
from pktable.store.file_io import FileIO

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ReadableSnapshot:
    """A snapshot that was decoded. ``path``: of its snapshot file, or of the tag that is a copy of it.

    ``apart``: a tag keeps it, and no other snapshot was made from it or goes before it: it was rolled back, or its tag
    is no copy of the snapshot. ``begins_branch``: a branch begins with it, perhaps from a tag, which keeps no changes.
    """

    path: str
    snapshot: Snapshot
    apart: bool = False
    begins_branch: bool = False

    @property
    def id(self) -> int:
        return self.snapshot.id


@dataclass(frozen=True, slots=True)
class ReadableSnapshots:
    """The snapshots from which files are referenced.

    ``checked``: retained snapshots, and the tags of expired ones, ascending by snapshot id; after them the tags of
    snapshots that stand apart. ``copies``: of expired snapshots, for their changelogs. ``unchecked``: these copies,
    others, what a branch begins with, and snapshots of other branches. ``elsewhere``: snapshots and tags of other
    branches. ``uncopied``: expired snapshots whose changelogs are kept, perhaps without a copy yet. ``complete``: False
    if one of them is missing or damaged, so that it is not known which files it refers to.
    """

    checked: tuple[ReadableSnapshot, ...]
    copies: tuple[ReadableSnapshot, ...]
    uncopied: tuple[ReadableSnapshot, ...]
    unchecked: tuple[Snapshot, ...]
    elsewhere: tuple[Snapshot, ...]
    complete: bool


def read_schemas(store: FileIO, paths: TablePaths, findings: Findings) -> dict[int, TableSchema]:
    """Return the schemas that decode, by id. Raises NotATableError if there is no schema file.

    Clauses: META-1.
    """
    files = _numbered(store, paths.schemas, SCHEMA)
    if paths.branch is not None and not is_there(store, paths):
        raise no_such_branch(store, paths)
    if not files:
        raise not_a_table(store, paths.root)
    schemas = {}
    for number, path in files:
        schema = _decoded(store, path, decode_schema, "META-1", findings)
        if schema is None:
            continue
        if schema.id != number:
            findings.add("META-1", "schema id", path, expected=number, found=schema.id)
        schemas[number] = schema
    return schemas


def read_snapshots(
    store: FileIO,
    paths: TablePaths,
    findings: Findings,
    *,
    only: int | None = None,
    keeps_changelogs: bool = False,
    two_commits: Callable[[], bool] = lambda: False,
) -> ReadableSnapshots:
    """Return the snapshots that decode. ``only``: this snapshot and no tag, branch or changelog.

    ``keeps_changelogs``: whether changelogs outlive snapshots. ``two_commits``: as of `SnapshotLog`, for a table
    without snapshots.
    Raises SnapshotNotFoundError if there is no file of the snapshot ``only``. Clauses: CMT-1, CMT-51, META-2, META-58.
    """
    log = SnapshotLog(store, paths, two_commits)
    fences = log.fences
    fence = findings.attempt("META-52", fences.newest) or Fence()
    # Before the copies of expired snapshots are looked for: these are put before the files are removed.
    expired = list(log.left_expired(fence)) if keeps_changelogs and only is None else []
    listed = _numbered(store, paths.snapshots, SNAPSHOT)
    retained = _without_ended(store, paths, listed, fences, fence, findings)
    ids = [number for number, _ in retained]
    if only is not None and only not in ids:
        raise SnapshotNotFoundError(f"snapshot {only}", f"{ids[0]} to {ids[-1]}" if ids else "none")
    complete = only is not None or _are_dense(paths, ids, findings)
    if not ids:
        complete = findings.attempt("CMT-51", log.ids, file=paths.snapshots) is not None
    if only is None:
        consumers = Consumers(store, paths)
        findings.attempt("META-58", consumers.all, file=paths.consumers)
    files: list[tuple[int | None, str]] = [
        (number, path) for number, path in retained if only in (None, number)
    ]
    files += [(None, path) for path in _named(store, paths.tags, TAG) if only is None]
    checked: list[ReadableSnapshot] = []
    contents: dict[int, list[Snapshot]] = {}
    for number, path in files:
        snapshot = _decoded(store, path, decode_snapshot, "META-2", findings)
        if snapshot is not None and number not in (None, snapshot.id):
            findings.add("META-2", "snapshot id", path, expected=number, found=snapshot.id)
            snapshot = None
        if snapshot is None:
            complete = False
        elif snapshot not in contents.setdefault(snapshot.id, []):  # tags are copies, and come last
            contents[snapshot.id].append(snapshot)
            apart = number is None and fences.is_rolled_back(fence, snapshot)
            if number is None and not apart and snapshot.id in ids:
                other = f"the contents of {SNAPSHOT}{snapshot.id}"
                findings.add("CMT-32", "tag", path, expected=other, found="others", snapshots=(snapshot.id,))
                apart = True
            begins = paths.branch is not None and number == ids[0] and snapshot.fence is None
            checked.append(ReadableSnapshot(path, snapshot, apart, begins))
    others = {
        path: _decoded(store, path, decode_snapshot, "META-2", findings)
        for path in (_changelogs(store, paths, fence, findings) if only is None else ())
    }
    known = {path for _, path in (*listed, *files)}
    elsewhere = list(_elsewhere(store, paths, known, findings).values()) if only is None else []
    copies = [
        ReadableSnapshot(path, found)
        for path, found in others.items()
        if found is not None and path == paths.changelog(found.id) and found.id < min(ids, default=0)
    ]
    return ReadableSnapshots(
        tuple(sorted(checked, key=lambda one: (one.apart, one.id))),
        tuple(copies),
        tuple(ReadableSnapshot(paths.snapshot(one.id), one) for one in expired),
        (
            *(one for one in (*others.values(), *(one for one, whole in elsewhere if not whole)) if one),
            *(one.snapshot for one in checked if one.begins_branch),
        ),
        tuple(one for one, whole in elsewhere if whole and one),
        complete and None not in (*others.values(), *(one for one, _ in elsewhere)),
    )


def _without_ended(
    store: FileIO,
    paths: TablePaths,
    files: Sequence[tuple[int, str]],
    fences: FenceLog,
    fence: Fence,
    findings: Findings,
) -> list[tuple[int, str]]:
    """Return the id and path of each snapshot file whose id has not ended. Clauses: CMT-36, CMT-40."""
    retained = []
    for number, path in files:
        ended = number <= fence.expired
        if not ended and fence.rollbacks:
            snapshot = _decoded(store, path, decode_snapshot, "META-2", Findings(paths.root))
            ended = snapshot is not None and fences.is_rolled_back(fence, snapshot)
        if ended:
            found = f"none (fence {fence.number} says that it has ended; `pktable check --repair` removes the file)"
            findings.add("CMT-40", "snapshot file", path, expected="a snapshot", found=found, severity=NOTE)
        else:
            retained.append((number, path))
    return retained


def _are_dense(paths: TablePaths, ids: Sequence[int], findings: Findings) -> bool:
    """Return whether no snapshot is missing between two retained ones. Clauses: CMT-1."""
    for before, after in pairwise(ids):
        if after != before + 1:
            missing = f"{SNAPSHOT}{before + 1}" + (f" to {after - 1}" if after > before + 2 else "")
            findings.add(
                "CMT-1",
                "snapshots",
                paths.snapshots,
                expected=missing,
                found="none",
                snapshots=(after,),
            )
    return not ids or ids[-1] - ids[0] + 1 == len(ids)


def _changelogs(store: FileIO, paths: TablePaths, fence: Fence, findings: Findings) -> Iterator[str]:
    """Yield the paths of retained changelogs. Clauses: CMT-61."""
    for number, path in _numbered(store, paths.changelogs, CHANGELOG):
        if number > fence.changelogs:
            yield path
        else:
            found = f"none (fence {fence.number} says that it is kept no more; an expiry removes the file)"
            findings.add("CMT-61", "changelog", path, expected="a changelog", found=found, severity=NOTE)


def _elsewhere(
    store: FileIO, paths: TablePaths, known: Set[str], findings: Findings
) -> dict[str, tuple[Snapshot | None, bool]]:
    """Return the snapshots, tags and changelogs of other branches by path; None for one that does not decode.

    With each: whether all its files must be there. The branches are listed until a listing shows nothing new, see
    `catalog.retention`. So is the branch of ``paths``, without the files ``known``: a fast-forward may have copied what
    another branch had, which was then removed. Clauses: BRN-7, BRN-8, CMT-34.
    """
    found: dict[str, tuple[Snapshot | None, bool]] = {}
    seen = set(known)
    for half in halves(store, paths):
        what = "half of one (if no process is making or removing it, `pktable check --repair` removes it)"
        findings.add("BRN-4", "branch", half.branch_root, expected="a branch", found=what, severity=NOTE)
    for look in count():
        before, others = len(found), other_branches(store, paths)
        for branch in (*others, paths):
            fences, is_whole = FenceLog(store, branch), is_there(store, branch)
            fence = findings.attempt("META-52", fences.newest) or Fence()
            snapshots = [path for _, path in _numbered(store, branch.snapshots, SNAPSHOT)]
            tags = _named(store, branch.tags, TAG)
            copies = [path for _, path in _numbered(store, branch.changelogs, CHANGELOG) if branch != paths]
            for path in (one for one in (*snapshots, *tags, *copies) if one not in seen):
                quiet = Findings(paths.root)
                snapshot = _decoded(store, path, decode_snapshot, "META-2", quiet)
                if snapshot is None and not store.exists(path):
                    continue  # removed since the listing
                for finding in quiet.all():
                    findings.include(finding)
                ended = path in snapshots and snapshot is not None and fences.hides(fence, snapshot)
                found[path] = snapshot, is_whole and path not in copies and not ended
                seen.add(path)
        if not others or (look and len(found) == before):
            break
    return found


def _named(store: FileIO, directory: str, prefix: str) -> list[str]:
    return [f"{directory}/{name}" for name in sorted(store.list_names(directory)) if name.startswith(prefix)]


def _numbered(store: FileIO, directory: str, prefix: str) -> list[tuple[int, str]]:
    """Return the number and the path of each file named by prefix and number, ascending."""
    paths = ((numbered(path.rpartition("/")[2], prefix), path) for path in _named(store, directory, prefix))
    return sorted((number, path) for number, path in paths if number is not None)


def _decoded(
    store: FileIO, path: str, decode: Callable[..., Value], clause: str, findings: Findings
) -> Value | None:
    """Return the value that a file holds; None, and a finding, if it cannot be read."""

    def read() -> Value:
        try:
            return decode(store.read(path), at=path)
        except FileNotFoundError:
            raise CorruptFileError("file", at=path, expected="a file", found="none") from None

    return findings.attempt(clause, read, file=path)
