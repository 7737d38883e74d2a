"""Check a whole table: walk its metadata here, let the runner check its buckets, gather what was found.

Clauses: RD-11.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pktable_spec.options import parse_options

from pktable.check.bucket import BucketReport, BucketTask, check_bucket
from pktable.check.findings import ERROR, Finding, Findings, Progress
from pktable.check.heads import read_heads, read_schemas
from pktable.check.history import History
from pktable.check.manifests import CheckedManifests
from pktable.check.unreferenced import report_unreferenced
from pktable.context import TableContext
from pktable.store.file_io import FileIO


class CheckRunner(Protocol):
    """Who checks the buckets: this process or a cluster."""

    def check(
        self, context: TableContext, tasks: Sequence[BucketTask], progress: Progress
    ) -> Iterator[BucketReport]: ...


@dataclass(slots=True)
class Report:
    """What a check found, errors first, and how much it looked at.

    ``snapshots``: readable ones, tags of expired ones included. ``rows``: read from data files, each once,
    deleted ones included.
    """

    findings: list[Finding] = field(default_factory=list)
    snapshots: int = 0
    buckets: int = 0
    files: int = 0
    rows: int = 0

    @property
    def errors(self) -> int:
        return sum(finding.severity == ERROR for finding in self.findings)


def check_table(
    store: FileIO,
    root: str,
    runner: CheckRunner,
    *,
    snapshot: int | None = None,
    reads_rows: bool = True,
    progress: Progress = lambda what, done, total: None,
) -> Report:
    """Check the table at ``root`` and report every violated clause; damage raises nothing.

    ``snapshot``: only this one; otherwise all retained ones, the tags, and files that nothing refers to.
    ``reads_rows``: False opens no data file. Raises NotATableError, SnapshotNotFoundError, and
    InvalidRequestError for an option whose value is malformed.
    """
    found = Findings(root)
    schemas = read_schemas(store, root, found)
    if not schemas:
        return Report(found.all())
    latest = max(schemas)
    options = {number: parse_options(one.options) for number, one in schemas.items()}
    context = TableContext(store, root, schemas[latest], options[latest], schemas)
    heads = read_heads(store, root, found, only=snapshot)
    manifests = CheckedManifests(context, found)
    history = History(context, options, manifests, found)
    for done, head in enumerate(heads.readable, 1):
        history.follow(head)
        progress("snapshots", done, len(heads.readable))
    buckets = history.buckets()
    if snapshot is None and heads.whole:
        report_unreferenced(context, heads, buckets, manifests, history.index_files, found)
    max_level = max(one.max_level for one in options.values())
    tasks = [BucketTask(bucket, max_level, reads_rows) for bucket in buckets]
    report = Report(snapshots=len(heads.readable), buckets=len(buckets))
    for part in runner.check(context, tasks, progress):
        report.files += part.files
        report.rows += part.rows
        for finding in part.findings:
            found.include(finding)
    report.findings = found.all()
    return report


def check_here(
    context: TableContext, tasks: Sequence[BucketTask], progress: Progress
) -> Iterator[BucketReport]:
    """Check buckets in this process, one after the other."""
    total = sum(task.file_count for task in tasks)
    count = 0

    def done() -> None:
        nonlocal count
        count += 1
        progress("data files", count, total)

    for task in tasks:
        yield check_bucket(context, task, done)
