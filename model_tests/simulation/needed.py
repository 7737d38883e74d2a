"""Which files of a table without partitions something needs, by the names in the files; it knows nothing of the code.

Metadata that is gone names nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pktable.format.metadata.manifest import (
    ADD,
    ManifestEntry,
    decode_index_manifest,
    decode_manifest,
    decode_manifest_list,
)
from pktable.format.metadata.snapshot import Snapshot, decode_snapshot
from pktable.format.paths import CHANGELOG, FENCE, SNAPSHOT, TAG, id_of_removal

from model_tests.simulation.store import BRANCHES

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Kept:
    """What decides on what is needed, besides the tags, branches and copies that are there.

    ``retained``: snapshots; ``expired``: the greatest id that has expired; ``ended``: snapshots that have expired, and
    whose files are there and count as copies. ``producer``: of the changelog.
    """

    retained: Sequence[Snapshot]
    expired: int
    ended: Sequence[Snapshot] = ()
    producer: str = "none"


def left_over(files: Files, kept: Kept) -> set[str]:
    """Return the files that neither snapshots nor tags, branches, consumers or kept changelogs need.

    Fences stay, and so do the files that say who removes a snapshot that was rolled back, until its id has expired.
    """
    root, needed = _root(files), set[str]()
    branches = list(snapshots_in(files, BRANCHES))
    closed, copies = changelogs_closed(files), copies_in(files, kept)
    # A copy keeps also what is left of its rows, but see `rows_of_copies`.
    for snapshot in (*kept.retained, *branches, *copies, *snapshots_in(files, f"{root}/tag/{TAG}")):
        needed.update(named_by(files, snapshot, live=True))
    for snapshot in (*kept.retained, *branches):  # a tag keeps rows, not changes
        needed.update(changelog_of(files, snapshot))
    for snapshot in (*copies, *(one for one in kept.ended if one.id > closed)):
        needed.update(changes_of(files, snapshot, kept.producer))
    needed |= {f"{root}/snapshot/{name}" for name in ("LATEST", "EARLIEST")}
    needed |= {f"{root}/snapshot/{SNAPSHOT}{one.id}" for one in kept.retained}
    for path in files:
        directory, name = path.split("/")[-2:]
        if directory == "fence" and (name.startswith(FENCE) or (id_of_removal(name) or 0) > kept.expired):
            needed.add(path)
        if directory in ("schema", "tag", "consumer") or BRANCHES in path:
            needed.add(path)
        if directory == "changelog" and not 0 < int(name.partition("-")[2] or 0) <= closed:  # not a hint
            needed.add(path)
    return set(files) - needed


def copies_in(files: Files, kept: Kept) -> list[Snapshot]:
    """Return the copies of expired snapshots whose changelogs are kept."""
    closed, earliest = changelogs_closed(files), min((one.id for one in kept.retained), default=0)
    found = snapshots_in(files, f"{_root(files)}/changelog/{CHANGELOG}")
    return [one for one in found if closed < one.id < earliest]


def rows_of_copies(files: Files, kept: Kept) -> set[str]:
    """Return the files that the rows of copies have: one may go where other metadata of its copy has gone."""
    copies = copies_in(files, kept)
    return {path for one in copies for path in named_by(files, one, live=True) if "/bucket-" in path}


def changelogs_closed(files: Files) -> int:
    """Return the greatest id whose changelog is kept no more, as the newest fence says. Clauses: CMT-61."""
    fences = {int(path.rpartition("-")[2]): path for path in files if f"/fence/{FENCE}" in path}
    return json.loads(files[fences[max(fences)]]).get("changelogs", 0) if fences else 0


def snapshots_in(files: Files, part: str) -> Iterator[Snapshot]:
    """Yield the snapshots of files, such as tags, whose paths contain a text."""
    for path, data in files.items():
        directory, name = path.split("/")[-2:]
        if part in path and directory in ("snapshot", "tag", "changelog") and "-" in name:
            yield decode_snapshot(data, at=path)


def changelog_of(files: Files, snapshot: Snapshot) -> Iterator[str]:
    """Yield the paths of the files of a snapshot's changelog."""
    if snapshot.changelog_manifest_list is not None:
        yield from _added(files, snapshot.changelog_manifest_list)


def changes_of(files: Files, snapshot: Snapshot, producer: str) -> Iterator[str]:
    """Yield the paths of the files that a read of the changes of an expired snapshot needs. Clauses: CHG-17."""
    if producer != "none":
        yield from changelog_of(files, snapshot)
        return
    yield f"{_root(files)}/manifest/{snapshot.base_manifest_list}"
    yield from _added(files, snapshot.delta_manifest_list, level=0)


def named_by(files: Files, snapshot: Snapshot, *, live: bool = False) -> Iterator[str]:
    """Yield the paths of the files that a snapshot names; with ``live`` only its metadata and live files.

    ``live`` leaves the changelog out, see `changelog_of`.
    """
    root = _root(files)
    found: dict[tuple[str, int], str] = {}
    gone = set()
    for list_name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
        for path, entries in manifests(files, list_name):
            yield path
            for entry in entries:
                file = entry.file
                if entry.kind == ADD or not live:
                    found[file.file_name, file.level] = _data(root, entry)
                else:
                    gone.add((file.file_name, file.level))
    if not live:
        yield from changelog_of(files, snapshot)
    yield from (path for identity, path in found.items() if identity not in gone)
    if snapshot.index_manifest:
        path = f"{root}/manifest/{snapshot.index_manifest}"
        yield path
        for index in decode_index_manifest(files[path], path) if path in files else ():
            yield f"{root}/index/{index.file_name}"


def manifests(files: Files, list_name: str) -> Iterator[tuple[str, Sequence[ManifestEntry]]]:
    """Yield a manifest list and its manifests: the path of each, and its entries."""
    path = f"{_root(files)}/manifest/{list_name}"
    yield path, ()
    for meta in decode_manifest_list(files[path], path) if path in files else ():
        of_one = f"{path.rpartition('/')[0]}/{meta.file_name}"
        yield of_one, decode_manifest(files[of_one], of_one) if of_one in files else ()


def _added(files: Files, list_name: str, level: int | None = None) -> Iterator[str]:
    """Yield the paths of a manifest list, of its manifests, and of the files that they add (at ``level``)."""
    for path, entries in manifests(files, list_name):
        yield path
        for entry in entries:
            if entry.kind == ADD and level in (None, entry.file.level):
                yield _data(_root(files), entry)


def _data(root: str, entry: ManifestEntry) -> str:
    return f"{root}/bucket-{entry.bucket}/{entry.file.file_name}"


def _root(files: Iterable[str]) -> str:
    return next(iter(files)).partition("/")[0]
