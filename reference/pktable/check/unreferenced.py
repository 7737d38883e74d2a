"""Find files in a table's directories that no snapshot, tag, branch or changelog refers to.

A running write has such files, and a write that was killed leaves them behind. They do not affect reads, so they are
notes and no errors. If some metadata cannot be read, nothing is reported: the files it refers to are not known.

Clauses: CMT-12, CMT-28, CMT-30, META-9, META-62.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pktable.catalog.kept_changelogs import changes_list, is_change
from pktable.check.findings import NOTE, Findings
from pktable.check.history import BucketHistory
from pktable.check.manifests import CheckedManifests
from pktable.check.readable_snapshots import ReadableSnapshots
from pktable.context import TableContext
from pktable.format.metadata.manifest import ManifestEntry, sidecars_of
from pktable.format.metadata.snapshot import Snapshot
from pktable.format.paths import (
    BUCKET,
    CHANGELOG,
    EARLIEST,
    FENCE,
    LATEST,
    MANIFEST_LIST,
    REMOVED,
    SCHEMA,
    SNAPSHOT,
    TAG,
    TEMPORARY_SUFFIX,
    TablePaths,
    escaped,
)
from pktable.store.file_io import FileIO

SIDECAR: Final = ".sidecar"


def unreferenced(
    context: TableContext,
    snapshots: ReadableSnapshots,
    buckets: Sequence[BucketHistory],
    manifests: CheckedManifests,
    index_files: Iterable[str],
) -> list[tuple[str, str]] | None:
    """Return the files that nothing refers to, each as what it is and its path; None if that is not known.

    ``index_files``: paths that the checked snapshots name.
    """
    data = {
        path
        for bucket in buckets
        for version in bucket.versions
        for entry in version.entries
        for path in _paths(context, entry)
    }
    indexes = set(index_files)
    quiet = CheckedManifests(context, Findings(context.root), manifests.requested)
    data |= {
        path for bucket in buckets for logged in bucket.changelog for path in _paths(context, logged.entry)
    }
    whole = CheckedManifests(context, quiet.findings, manifests.requested)
    for snapshot in snapshots.elsewhere:
        # A tag keeps rows, not changes.
        data |= _changelog_files(context, snapshot, quiet) | _live_files(context, snapshot, whole)
        indexes |= _indexes(context, snapshot, whole)
    for snapshot in snapshots.unchecked:
        data |= _changelog_files(context, snapshot, quiet) | _live_files(context, snapshot, quiet)
        indexes |= _indexes(context, snapshot, quiet)
    for one in snapshots.uncopied:
        data |= _changelog_files(context, one.snapshot, quiet)
    # Missing manifests of an unchecked snapshot do not count: a changelog outlives the lists of its snapshot.
    if manifests.missing or manifests.damaged or whole.missing or whole.damaged or quiet.damaged:
        return None
    found = []
    for path in _all_files(context):
        if path not in data and path not in indexes:
            found.append(("data file", path))
    spare = set(context.store.list_names(context.paths.manifests)) - manifests.requested
    if any(name.endswith(SIDECAR) for name in spare):
        spare -= _sidecars(context, manifests)
    found += [("manifest", manifests.path(name)) for name in sorted(spare)]
    for name in sorted(context.store.list_names(context.paths.indexes)):
        path = f"{context.paths.indexes}/{name}"
        if path not in indexes:
            found.append(("index file", path))
    for directory, prefixes in _own_files(context.paths).items():
        for name in sorted(context.store.list_names(directory)):
            if not name.startswith(prefixes) or name.endswith(TEMPORARY_SUFFIX):
                found.append(("file", f"{directory}/{name}"))
    return found


def directories(context: TableContext) -> list[str]:
    """Return all directories that hold files, those of other branches excepted."""
    paths = context.paths
    return [*_bucket_directories(context), paths.manifests, paths.indexes, *_own_files(paths)]


def _own_files(paths: TablePaths) -> dict[str, tuple[str, ...]]:
    """Return the directories whose files need no reference, and the prefixes of such files' names.

    Clauses: CMT-56.
    """
    return {
        paths.snapshots: (SNAPSHOT, LATEST, EARLIEST),
        paths.tags: (TAG,),
        paths.schemas: (SCHEMA,),
        paths.fences: (FENCE, REMOVED),
        paths.changelogs: (CHANGELOG, LATEST, EARLIEST),
        paths.staged: (),
    }


def note(findings: Findings, what: str, path: str) -> None:
    """Add the note that nothing refers to a file."""
    findings.add(
        "CMT-12",
        what,
        path,
        expected="a snapshot, tag, branch or changelog that refers to it",
        found="none (a write is running, or was killed)",
        severity=NOTE,
    )


def _paths(context: TableContext, entry: ManifestEntry) -> Iterator[str]:
    """Yield the paths of a data file and of its extra files."""
    place = context.place(entry.partition, entry.bucket)
    path = context.data_path(place, entry.file)
    yield path
    yield from (f"{path.rpartition('/')[0]}/{name}" for name in entry.file.extra_files)


def _changelog_files(context: TableContext, snapshot: Snapshot, manifests: CheckedManifests) -> set[str]:
    """Return the files that a read of the changes of a snapshot needs. Clauses: CHG-17."""
    name, _ = changes_list(context.options, snapshot)
    if name == snapshot.delta_manifest_list:
        manifests.list_of(snapshot, snapshot.base_manifest_list, None)  # Paimon 0.9 needs it
    metas = manifests.list_of(snapshot, name, None) if name is not None else None
    entries = (entry for meta in metas or () for entry in manifests.entries(snapshot, meta) or ())
    return {path for entry in entries if is_change(context.options, entry) for path in _paths(context, entry)}


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


def _sidecars(context: TableContext, manifests: CheckedManifests) -> set[str]:
    """Return the sidecars of manifests that the requested manifest lists name. Clauses: META-62."""
    found: set[str] = set()
    for name in manifests.requested:
        if name.startswith(MANIFEST_LIST):
            with contextlib.suppress(FileNotFoundError):  # removed since
                found |= sidecars_of(context.store.read(manifests.path(name)), manifests.path(name))
    return found


def _all_files(context: TableContext) -> Iterator[str]:
    """Yield the paths in every bucket directory."""
    for directory in _bucket_directories(context):
        yield from _inside(context.store, directory, "")


def _bucket_directories(context: TableContext) -> list[str]:
    directories = [context.root]
    for field in context.schema.partition_fields:
        directories = [
            path for at in directories for path in _inside(context.store, at, f"{escaped(field.name)}=")
        ]
    return [path for at in directories for path in _inside(context.store, at, BUCKET)]


def _inside(store: FileIO, directory: str, prefix: str) -> list[str]:
    return [f"{directory}/{name}" for name in sorted(store.list_names(directory)) if name.startswith(prefix)]
