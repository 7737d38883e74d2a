"""Check one bucket: the kernel that this process or an executor runs.

A damaged file keeps nothing else from being checked; only what needs its rows is left out.

Clauses: CMT-15, DV-12, LSM-6, RD-11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pktable_spec.errors import CorruptFileError
from pktable_spec.options import parse_options

from pktable.check.findings import Finding, Findings
from pktable.check.history import BucketHistory
from pktable.check.keys import check_keys
from pktable.check.layout import check_layouts
from pktable.check.rows import check_rows
from pktable.check.vectors import check_vectors
from pktable.context import TableContext
from pktable.format.metadata.manifest import ManifestEntry


@dataclass(frozen=True, slots=True)
class BucketTask:
    """A bucket to check. ``max_level``: of the table; ``reads_rows``: False leaves data files unopened."""

    bucket: BucketHistory
    max_level: int
    reads_rows: bool

    @property
    def file_count(self) -> int:
        return len(distinct_files(self.bucket))

    @property
    def input_bytes(self) -> int:
        return sum(entry.file.file_size for entry in distinct_files(self.bucket)) if self.reads_rows else 0


@dataclass(frozen=True, slots=True)
class BucketReport:
    """What a bucket's check found, and how much it looked at. ``rows``: read, deleted ones included."""

    findings: list[Finding]
    files: int = 0
    rows: int = 0


def check_bucket(
    context: TableContext, task: BucketTask, done: Callable[[], None] = lambda: None
) -> BucketReport:
    """Check a bucket in all its versions. ``done`` is called after each data file."""
    bucket = task.bucket
    found = Findings(context.root, bucket.partition, bucket.place.bucket)
    ranges = check_layouts(context, bucket, task.max_level, found)
    vectors = check_vectors(context, bucket, found)
    reliable: set[str] = set()
    by_schema: dict[int, TableContext] = {context.schema.id: context}
    entries = distinct_files(bucket)
    for entry in entries:
        name = entry.file.file_name
        snapshots = [
            one
            for version in bucket.versions
            if any(other.file.file_name == name for other in version.entries)
            for one in version.snapshots
        ]
        path = context.data_path(bucket.place, entry.file)
        with found.guard("META-1", snapshots=snapshots, file=path):
            if not context.store.exists(path):
                raise CorruptFileError("data file", at=path, expected="a file", found="none")
            if task.reads_rows:
                under = _under_schema(context, entry, by_schema)
                if check_rows(under, bucket.place, entry, snapshots, found):
                    reliable.add(name)
        done()
    if task.reads_rows:
        with found.guard("RD-11", file=bucket.place.directory):
            check_keys(context, bucket, vectors, ranges, reliable, found)
    rows = sum(entry.file.row_count for entry in entries if entry.file.file_name in reliable)
    return BucketReport(found.all(), len(entries), rows)


def distinct_files(bucket: BucketHistory) -> list[ManifestEntry]:
    """Return one entry of each data file of a bucket, in order of appearance."""
    found: dict[str, ManifestEntry] = {}
    for version in bucket.versions:
        for entry in version.entries:
            found.setdefault(entry.file.file_name, entry)
    return list(found.values())


def _under_schema(
    context: TableContext, entry: ManifestEntry, known: dict[int, TableContext]
) -> TableContext:
    """Return the table's files under the schema that a file was written under. Raises CorruptFileError."""
    number = entry.file.schema_id
    if number not in known:
        schema = context.schema_of(number)
        known[number] = TableContext(
            context.store, context.root, schema, parse_options(schema.options), context.schemas
        )
    return known[number]
