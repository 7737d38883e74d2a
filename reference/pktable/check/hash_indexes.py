"""Check the hash index files of dynamic buckets: against the rows of their bucket, and against each other.

1. `check_hashes` expects each hash index file of a bucket to have the keys of the data files that are live with it.
2. `check_partitions` expects no hash in two buckets of a partition. It needs no data file.

Memory holds the hashes of a bucket, or of the buckets of a partition, four bytes each.

Clauses: BKT-2, BKT-3, BKT-10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set

import numpy as np

from pktable.bucket.hash_index import Hashes, hashes_of_files, read_hashes
from pktable.check.findings import NOTE, Finding, Findings, counted
from pktable.check.history import BucketHistory, Version
from pktable.context import TableContext
from pktable.format.metadata.manifest import IndexManifestEntry


def check_hashes(
    context: TableContext, bucket: BucketHistory, reliable: Set[str], findings: Findings
) -> None:
    """Compare the hash index files of a bucket with the files named in ``reliable``. Clauses: BKT-3, BKT-9."""
    known: dict[str, Hashes] = {}
    for hashes, versions in _by_index(bucket.versions):
        snapshots = [one for version in versions for one in version.snapshots]
        if hashes is None:
            if any(version.entries for version in versions):
                findings.add(
                    "BKT-9",
                    "hash index",
                    bucket.place.directory,
                    expected="a hash index file; the next write makes one",
                    found="none",
                    snapshots=snapshots,
                    severity=NOTE,
                )
            continue
        path = context.index_path(hashes)
        with findings.guard("BKT-2", snapshots=snapshots, file=path):
            indexed = np.unique(read_hashes(context, hashes))
            if len(indexed) < hashes.row_count:
                found = f"{counted(hashes.row_count - len(indexed), 'hash', 'hashes')} again"
                findings.add("BKT-2", "hashes", path, expected="each once", found=found, snapshots=snapshots)
            for file in {
                entry.file.file_name: entry.file for one in versions for entry in one.entries
            }.values():
                name = file.file_name
                if name not in reliable:
                    continue
                if name not in known:
                    known[name] = hashes_of_files(context, bucket.place, [file])
                missing = len(np.setdiff1d(known[name], indexed, assume_unique=True))
                if missing:
                    findings.add(
                        "BKT-3",
                        f"hashes of the keys of {name}",
                        path,
                        expected="all of them",
                        found=f"{counted(missing, 'hash', 'hashes')} missing",
                        snapshots=snapshots,
                    )


def _by_index(versions: Sequence[Version]) -> Iterator[tuple[IndexManifestEntry | None, list[Version]]]:
    """Yield each hash index file with the versions that have it."""
    found: dict[str | None, tuple[IndexManifestEntry | None, list[Version]]] = {}
    for version in versions:
        name = version.hashes.file_name if version.hashes else None
        found.setdefault(name, (version.hashes, []))[1].append(version)
    yield from found.values()


def check_partitions(context: TableContext, buckets: Iterable[BucketHistory], findings: Findings) -> None:
    """Expect every hash in one bucket of its partition, in each snapshot. Clauses: BKT-3, BKT-10."""
    # Null and blank values of a partition have one directory (META-31), but are several partitions.
    by_partition: dict[tuple[bytes, str], dict[int, list[IndexManifestEntry]]] = {}
    for bucket in buckets:
        for version in bucket.versions:
            for snapshot in version.snapshots if version.hashes else ():
                assert version.hashes is not None
                of_partition = by_partition.setdefault((version.hashes.partition, bucket.partition), {})
                of_partition.setdefault(snapshot, []).append(version.hashes)
    for (_, partition), snapshots in by_partition.items():
        seen: dict[frozenset[str], list[int]] = {}
        for snapshot, indexes in snapshots.items():
            seen.setdefault(frozenset(one.file_name for one in indexes), []).append(snapshot)
        for ids in seen.values():
            for found in _in_two_buckets(context, partition, snapshots[ids[0]], ids):
                findings.include(found)


def _in_two_buckets(
    context: TableContext, partition: str, indexes: Sequence[IndexManifestEntry], snapshots: Sequence[int]
) -> Iterator[Finding]:
    """Yield a finding for each bucket that has hashes of others before it."""
    taken = np.empty(0, np.int32)
    for index in indexes if len(indexes) > 1 else ():
        path, findings = context.index_path(index), Findings(context.root, partition, index.bucket)
        with findings.guard("BKT-2", snapshots=snapshots, file=path):
            hashes = np.unique(read_hashes(context, index))
            twice = len(np.intersect1d(taken, hashes, assume_unique=True))
            taken = np.union1d(taken, hashes)
            if twice:
                findings.add(
                    "BKT-3",
                    f"hashes of bucket {index.bucket}",
                    path,
                    expected="in no other bucket of the partition",
                    found=f"{counted(twice, 'hash', 'hashes')} in another one, so that keys may be live twice",
                    snapshots=snapshots,
                )
        yield from findings.all()
