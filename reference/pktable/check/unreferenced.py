"""Files in a table's directories that no snapshot, tag, branch or changelog refers to.

A write that is under way has such files, and one that was killed leaves them behind: they harm no read, and
are notes. Where some metadata could not be read nothing is said, because what it refers to is not known.

Clauses: CMT-12, META-9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pktable.check.findings import NOTE, Findings
from pktable.check.heads import Heads
from pktable.check.history import BucketHistory
from pktable.check.manifests import CheckedManifests
from pktable.context import TableContext
from pktable.format.metadata.manifest import ManifestEntry
from pktable.format.metadata.snapshot import Snapshot
from pktable.format.partition_path import escaped
from pktable.format.paths import (
    BUCKET,
    EARLIEST,
    LATEST,
    SCHEMA,
    SNAPSHOT,
    TAG,
    TEMPORARY_SUFFIX,
    TablePaths,
)
from pktable.store.file_io import FileIO


def report_unreferenced(
    context: TableContext,
    heads: Heads,
    buckets: Sequence[BucketHistory],
    manifests: CheckedManifests,
    index_files: Iterable[str],
    found: Findings,
) -> None:
    """Add a note for each file that nothing refers to."""
    data = {
        path
        for bucket in buckets
        for version in bucket.versions
        for entry in version.entries
        for path in _paths(context, entry)
    }
    indexes = set(index_files)
    quiet = CheckedManifests(context, Findings(context.root), manifests.met)
    for head in heads.readable:
        data |= _changelog_files(context, head.snapshot, manifests)
    for snapshot in heads.elsewhere:
        data |= _changelog_files(context, snapshot, quiet) | _live_files(context, snapshot, quiet)
        indexes |= _indexes(context, snapshot, quiet)
    # A changelog outlives its snapshot, whose lists may be gone.
    if manifests.missing or manifests.damaged or quiet.damaged:
        return
    for path in _all_files(context):
        if path not in data and path not in indexes:
            _note(found, "data file", path)
    for name in sorted(context.store.list_names(context.paths.manifests)):
        if name not in manifests.met:
            _note(found, "manifest", manifests.path(name))
    for name in sorted(context.store.list_names(context.paths.indexes)):
        path = f"{context.paths.indexes}/{name}"
        if path not in indexes:
            _note(found, "index file", path)
    for directory, prefixes in _own_files(context.paths).items():
        for name in sorted(context.store.list_names(directory)):
            if not name.startswith(prefixes) or name.endswith(TEMPORARY_SUFFIX):
                _note(found, "file", f"{directory}/{name}")


def _own_files(paths: TablePaths) -> dict[str, tuple[str, ...]]:
    """Return the directories of files that nothing needs to refer to, and what their names begin with."""
    return {paths.snapshots: (SNAPSHOT, LATEST, EARLIEST), paths.tags: (TAG,), paths.schemas: (SCHEMA,)}


def _note(found: Findings, what: str, path: str) -> None:
    found.add(
        "CMT-12",
        what,
        path,
        expected="something that refers to it",
        found="nothing (a write under way, or what one left behind)",
        severity=NOTE,
    )


def _paths(context: TableContext, entry: ManifestEntry) -> Iterator[str]:
    """Yield the paths of a data file and of the files that go with it."""
    place = context.place(entry.partition, entry.bucket)
    path = context.data_path(place, entry.file)
    yield path
    yield from (f"{path.rpartition('/')[0]}/{name}" for name in entry.file.extra_files)


def _changelog_files(context: TableContext, snapshot: Snapshot, manifests: CheckedManifests) -> set[str]:
    name = snapshot.changelog_manifest_list
    metas = manifests.list_of(snapshot, name, None) if name is not None else None
    entries = (entry for meta in metas or () for entry in manifests.entries(snapshot, meta) or ())
    return {path for entry in entries for path in _paths(context, entry)}


def _live_files(context: TableContext, snapshot: Snapshot, manifests: CheckedManifests) -> set[str]:
    lists = [
        manifests.list_of(snapshot, name, None)
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    ]
    folded = manifests.fold(snapshot, [meta for metas in lists for meta in metas or ()])
    return {path for entry in (folded[0].values() if folded else ()) for path in _paths(context, entry)}


def _indexes(context: TableContext, snapshot: Snapshot, manifests: CheckedManifests) -> set[str]:
    name = snapshot.index_manifest
    entries = manifests.index(snapshot, name) if name is not None else None
    return {context.index_path(entry) for entry in entries or ()}


def _all_files(context: TableContext) -> Iterator[str]:
    """Yield the paths in every bucket directory."""
    directories = [context.root]
    for field in context.schema.partition_fields:
        directories = [
            path for at in directories for path in _inside(context.store, at, f"{escaped(field.name)}=")
        ]
    for directory in (path for at in directories for path in _inside(context.store, at, BUCKET)):
        yield from _inside(context.store, directory, "")


def _inside(store: FileIO, directory: str, prefix: str) -> list[str]:
    return [f"{directory}/{name}" for name in sorted(store.list_names(directory)) if name.startswith(prefix)]
