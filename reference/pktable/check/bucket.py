"""Check one bucket, in this process or on an executor.

1. `layout` checks the metadata of every version, and gives the key range of each file.
2. `vectors` reads the deletion vectors of every version and checks them.
3. `rows` reads each data file and each changelog file once and checks its rows. `omissions` notes what it lacks.
4. `keys` compares the records of each key, of those files whose rows step 3 found to be reliable. Rows that wait
   for a bucket are in no order, and rows of an append table have no key.
5. `check_retractions` compares the vectors with the retractions that a table with ``sequence.field`` keeps.
6. `hash_indexes` compares the hash index of a dynamic bucket with the keys of its files.

A damaged file does not stop the check: only steps 4 to 6 leave it out.

Clauses: BKT-3, CHG-3, CMT-15, DV-12, LSM-6, RD-11, TBL-20.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pktable_spec.errors import CorruptFileError
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import VALUE_KIND

from pktable.bucket.reader import DataReader
from pktable.check.findings import NOTE, Finding, Findings
from pktable.check.hash_indexes import check_hashes
from pktable.check.history import BucketHistory
from pktable.check.keys import check_keys
from pktable.check.layout import check_layouts
from pktable.check.omissions import Omissions
from pktable.check.rows import check_rows
from pktable.check.vectors import Vectors, check_vectors
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta, ManifestEntry
from pktable.format.vectors.deletion_vector import Positions
from pktable.kinds import kind_of
from pktable.kinds.primary_key import hides_retractions
from pktable.lsm.bucket import BucketPath
from pktable.merge.grouping import is_add


@dataclass(frozen=True, slots=True)
class BucketTask:
    """A bucket to check. ``max_level``: of the table. ``reads_rows``: False opens no data file."""

    bucket: BucketHistory
    max_level: int
    reads_rows: bool
    what: ClassVar[str] = "check"

    @property
    def file_count(self) -> int:
        return len(distinct_files(self.bucket)) + len(self.bucket.changelog)

    def run(self, context: TableContext) -> BucketReport:
        """Check the bucket."""
        return check_bucket(context, self)

    @property
    def input_bytes(self) -> int:
        entries = [*distinct_files(self.bucket), *(logged.entry for logged in self.bucket.changelog)]
        return sum(entry.file.file_size for entry in entries) if self.reads_rows else 0


@dataclass(frozen=True, slots=True)
class BucketReport:
    """The findings of a bucket, and how much was checked. ``rows``: of reliable files, deleted ones included."""

    findings: list[Finding]
    files: int = 0
    rows: int = 0


def check_bucket(
    context: TableContext, task: BucketTask, done: Callable[[], None] = lambda: None
) -> BucketReport:
    """Check a bucket in all its versions, and return its findings. ``done`` is called after each data file."""
    bucket = task.bucket
    findings = Findings(context.root, bucket.partition, bucket.place.bucket)
    omissions = Omissions(findings)
    ranges = check_layouts(context, bucket, task.max_level, findings)
    vectors = check_vectors(context, bucket, findings)
    reliable: set[str] = set()
    naming: dict[str, list[int]] = {}  # the snapshots of each file
    by_schema: dict[int, TableContext] = {context.schema.id: context}
    entries = distinct_files(bucket)
    for entry in entries:
        name = entry.file.file_name
        snapshots = naming[name] = [
            one
            for version in bucket.versions
            if any(other.file.file_name == name for other in version.entries)
            for one in version.snapshots
        ]
        if _check_file(context, task, entry, snapshots, findings, omissions, by_schema):
            reliable.add(name)
        done()
    for logged in bucket.changelog:
        snapshots = [logged.snapshot]
        _check_file(context, task, logged.entry, snapshots, findings, omissions, by_schema, changelog=True)
        done()
    omissions.report(bucket.place.directory)
    if bucket.place.bucket < 0:
        findings.add(
            "TBL-20",
            "not checked",
            bucket.place.directory,
            expected="records of one key to be compared",
            found="rows that wait for a bucket, which are in no order",
            severity=NOTE,
        )
    elif task.reads_rows and kind_of(context.schema, context.root).has_keys:
        with findings.guard("RD-11", file=bucket.place.directory):
            try:
                check_keys(context, bucket, vectors, ranges, reliable, findings)
                check_retractions(context, bucket, vectors, reliable, findings)
                if context.has_dynamic_buckets:
                    check_hashes(context, bucket, reliable, findings)
            except CorruptFileError as error:  # a file that was there when its rows were checked
                snapshots = naming.get(error.at.rpartition("/")[2], [])
                findings.damage(error, "RD-11", snapshots=snapshots, file=bucket.place.directory)
    rows = sum(entry.file.row_count for entry in entries if entry.file.file_name in reliable)
    return BucketReport(findings.all(), task.file_count, rows)


def _check_file(
    context: TableContext,
    task: BucketTask,
    entry: ManifestEntry,
    snapshots: Sequence[int],
    findings: Findings,
    omissions: Omissions,
    by_schema: dict[int, TableContext],
    *,
    changelog: bool = False,
) -> bool:
    """Check a data file or changelog file, and return whether its rows were read and are reliable."""
    place = task.bucket.place
    path = context.data_path(place, entry.file)
    with findings.guard("META-1", snapshots=snapshots, file=path):
        store, at = context.located(path)
        if not store.exists(at):
            raise CorruptFileError("data file", at=path, expected="a file", found="none")
        if task.reads_rows:
            under = _under_schema(context, entry, by_schema)
            return check_rows(under, place, entry, snapshots, findings, omissions, changelog=changelog)
    return False


def distinct_files(bucket: BucketHistory) -> list[ManifestEntry]:
    """Return one entry of each data file of a bucket, in the order in which the versions name them."""
    entries: dict[str, ManifestEntry] = {}
    for version in bucket.versions:
        for entry in version.entries:
            entries.setdefault(entry.file.file_name, entry)
    return list(entries.values())


def _under_schema(
    context: TableContext, entry: ManifestEntry, known: dict[int, TableContext]
) -> TableContext:
    """Return the table's context under the schema of a file. Raises CorruptFileError if there is no such schema."""
    number = entry.file.schema_id
    if number not in known:
        schema = context.schema_of(number)
        known[number] = TableContext(
            *(context.store, context.root, schema, parse_options(schema.options), context.schemas),
            context.paths.branch,
        )
    return known[number]


def check_retractions(
    context: TableContext,
    bucket: BucketHistory,
    vectors: Sequence[Vectors | None],
    reliable: Set[str],
    findings: Findings,
) -> None:
    """Expect the vector of each file above level 0 to delete its retractions, where the table hides them.

    ``vectors``: by version, None where they could not be read. ``reliable``: the files whose rows can be read.
    """
    kept: dict[str, Positions] = {}
    shown: dict[str, list[int]] = {}
    for version, known in zip(bucket.versions, vectors, strict=True):
        for entry in version.entries if known is not None else ():
            file = entry.file
            if not file.level or not file.delete_row_count or file.file_name not in reliable:
                continue
            if not hides_retractions(context, file):
                continue
            if file.file_name not in kept:
                kept[file.file_name] = _retractions(context, bucket.place, file)
            assert known is not None, "nothing is looked at otherwise"
            vector = known.get(file.file_name)
            positions = kept[file.file_name]
            if vector is None or not vector.mask(file.row_count, 0)[positions].all():
                shown.setdefault(file.file_name, []).extend(version.snapshots)
    for name, snapshots in shown.items():
        findings.add(
            "DV-21",
            "retractions",
            f"{bucket.place.directory}/{name}",
            expected=f"{len(kept[name])} deleted by the vector of the file",
            found="a vector without some of them, or none",
            snapshots=snapshots,
        )


def _retractions(context: TableContext, place: BucketPath, file: DataFileMeta) -> Positions:
    """Return the positions of the retractions of a file."""
    found = [
        np.flatnonzero(~is_add(table)) + position
        for position, table in DataReader(context, place, file).read([VALUE_KIND])
    ]
    return np.concatenate(found)
