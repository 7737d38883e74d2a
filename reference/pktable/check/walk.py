"""Check a whole table.

1. This process reads the schemas and the snapshots, and folds the manifests into the versions of each bucket.
2. It reports the files that nothing refers to.
3. The runner checks the buckets, here or on a cluster.
4. This process compares the row ids of all buckets, in a table with row tracking, and the hash indexes of those of a
   partition, in one with dynamic buckets. Where keys move between partitions, it looks for keys that lie in two.
   Memory then holds the keys of the newest snapshot, in all of its buckets.
5. The findings of all steps become one `Report`.

Clauses: BKT-3, BKT-21, RD-11.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import TableOptions, parse_options

from pktable.bucket.moving import AT_BUCKET, AT_PARTITION, encoded_keys, known_places
from pktable.bucket.read import BucketRead
from pktable.catalog.arguments import expect_callable, expect_flag
from pktable.catalog.as_of import AsOf
from pktable.catalog.kept_changelogs import keeps_changelogs
from pktable.catalog.manifests import Manifests
from pktable.check.bucket import BucketReport, BucketTask, check_bucket
from pktable.check.findings import ERROR, NOTE, Finding, Findings, counted
from pktable.check.hash_indexes import check_partitions
from pktable.check.history import BucketHistory, History
from pktable.check.manifests import CheckedManifests
from pktable.check.readable_snapshots import ReadableSnapshots, read_schemas, read_snapshots
from pktable.check.row_ids import check_row_ids
from pktable.check.unreferenced import note, unreferenced
from pktable.context import TableContext
from pktable.format.paths import TablePaths
from pktable.kinds import kind_of
from pktable.lsm.bucket import BucketState
from pktable.store.file_io import FileIO
from pktable.store.guard import guarded
from pktable.watching import Progress
from pktable.watching import report as to_watcher


class CheckRunner(Protocol):
    """A runner that checks buckets, in this process or on a cluster."""

    def check(
        self, context: TableContext, tasks: Sequence[BucketTask], progress: Progress
    ) -> Iterator[BucketReport]:
        """Yield the report of each bucket, in any order. ``progress`` is called with the files done and in total."""
        ...


@dataclass(slots=True)
class Report:
    """The findings of a check, errors first, and how much was checked.

    ``snapshots``: how many, tags of expired ones included. ``rows``: of the data files that could be read, each
    counted once, deleted ones included.
    """

    findings: list[Finding] = field(default_factory=list)
    snapshots: int = 0
    buckets: int = 0
    files: int = 0
    rows: int = 0

    def __str__(self) -> str:
        """Return a line per finding, and the summary."""
        return "\n".join([*map(str, self.findings), self.summary(self.findings)])

    @property
    def errors(self) -> int:
        return _errors(self.findings)

    def summary(self, shown: Sequence[Finding]) -> str:
        """Return in one line how many findings are ``shown`` and how much was checked."""
        errors = _errors(shown)
        result = f"errors: {errors}, notes: {len(shown) - errors}" if shown else "clean"
        return (
            f"{result}; checked: {counted(self.snapshots, 'snapshot')}, {counted(self.buckets, 'bucket')}, "
            f"{counted(self.files, 'data file')}, {counted(self.rows, 'row')}"
        )


def _errors(findings: Sequence[Finding]) -> int:
    return sum(finding.severity == ERROR for finding in findings)


def check_table(
    store: FileIO,
    root: str,
    runner: CheckRunner,
    *,
    snapshot: int | None = None,
    reads_rows: bool = True,
    branch: str | None = None,
    progress: Progress = to_watcher,
) -> Report:
    """Check the table at ``root`` and report every violated clause. Damage raises nothing.

    ``snapshot``: only this one; by default all retained ones, the tags, and files that nothing refers to.
    ``reads_rows``: False opens no data file. ``branch``: the branch to check, by default the main one.

    Raises:
        NotATableError: there is no schema file; the error names the tables in ``root``, if it has any.
        SnapshotNotFoundError: ``snapshot`` does not exist.
        InvalidRequestError: the value of a table option is malformed, or an argument is of a wrong kind.
    """
    expect_flag("reads_rows", reads_rows)
    expect_callable("progress", progress)
    snapshot = AsOf.given(snapshot).snapshot
    store = guarded(store, root)
    findings = Findings(root)
    found = read_metadata(store, TablePaths(root, branch), findings, snapshot=snapshot, progress=progress)
    if found is None:
        return Report(findings.all())
    context, snapshots, buckets = found.context, found.snapshots, found.buckets
    _note_options(context, findings)
    if context.options.data_evolution and found.history.index_files:
        findings.add(
            "APP-23",
            "deletion vectors",
            context.root,
            expected="a table with data evolution and no deletion vectors",
            found="some, because of which reads are refused",
            severity=NOTE,
        )
    if snapshot is None:
        with findings.guard("META-9"):
            for what, path in found.unreferenced() or ():
                note(findings, what, path)
    max_level = max(one.max_level for one in found.options.values())
    tasks = [BucketTask(bucket, max_level, reads_rows) for bucket in buckets]
    report = Report(snapshots=len(snapshots.checked), buckets=len(buckets))
    for part in runner.check(context, tasks, progress):
        report.files += part.files
        report.rows += part.rows
        for finding in part.findings:
            findings.include(finding)
    if context.has_dynamic_buckets:
        check_partitions(context, buckets, findings)
    if context.moves_keys and reads_rows:
        check_places(context, buckets, findings)
    if found.rows_have_ids:
        check_row_ids(context, buckets, findings, reads_rows=reads_rows)
    report.findings = findings.all()
    if report.errors:  # other processes may have ended snapshots, and removed their files
        left = found.read_snapshots_again(snapshot)
        report.findings = about(left, report.findings)
    return report


def about(snapshots: Collection[int], findings: Iterable[Finding]) -> list[Finding]:
    """Return findings without those that are about other snapshots alone. Clauses: CMT-15."""
    kept = []
    for one in findings:
        left = tuple(id for id in one.snapshots if id in snapshots)
        if left or not one.snapshots:
            kept.append(replace(one, snapshots=left))
    return kept


def _note_options(context: TableContext, findings: Findings) -> None:
    """Note the options that nobody knows, and those because of which reads are refused. Clauses: TBL-33."""
    options, at = context.options, context.paths.schema(context.schema.id)
    for name in options.unknown:
        found = f"{context.schema.options[name]!r}, which is ignored"
        expected = "an option of a release that is known"
        findings.add("TBL-33", f"option {name}", at, expected=expected, found=found, severity=NOTE)
    for error in (*options.unusable, *options.unreadable, *options.unmergeable):
        found = f"{error.value!r}, because of which reads are refused"
        findings.add(
            "TBL-30", f"option {error.option}", at, expected=error.expected, found=found, severity=NOTE
        )


@dataclass(frozen=True)
class TableMetadata:
    """All that the snapshots and tags of a table refer to."""

    context: TableContext
    options: Mapping[int, TableOptions]
    snapshots: ReadableSnapshots
    manifests: CheckedManifests
    history: History
    buckets: Sequence[BucketHistory]

    def read_snapshots_again(self, only: int | None) -> set[int]:
        """Return the ids of the snapshots that are there now, by a snapshot file or a tag, or whose changelogs are.

        Raises SnapshotNotFoundError if ``only`` has expired.
        """
        context = self.context
        found = read_snapshots(
            context.store,
            context.paths,
            Findings(context.root),
            only=only,
            keeps_changelogs=keeps_changelogs(context.options),
        )
        return {one.id for one in (*found.checked, *found.copies, *found.uncopied)}

    @property
    def rows_have_ids(self) -> bool:
        """Whether no two live rows may have the same id; with data evolution, files of the same rows do."""
        evolves = any(one.data_evolution for one in self.options.values())
        return not evolves and any(one.row_tracking for one in self.options.values())

    def unreferenced(self) -> list[tuple[str, str]] | None:
        """Return the files that nothing refers to, each as what it is and its path; None if that is not known."""
        if not self.snapshots.complete:
            return None
        return unreferenced(
            self.context, self.snapshots, self.buckets, self.manifests, self.history.index_files
        )


def read_metadata(
    store: FileIO,
    paths: TablePaths,
    findings: Findings,
    *,
    snapshot: int | None = None,
    progress: Progress = to_watcher,
) -> TableMetadata | None:
    """Read the metadata of a branch of a table, or of one snapshot. Raises as `check_table` does.

    Returns None, with findings, if there is no schema, or if the table is of a kind that is not supported.
    """
    root = paths.root
    schemas = read_schemas(store, paths, findings)
    if not schemas or not _lies_in_itself(store, paths, findings):
        return None
    latest = max(schemas)
    options = {number: parse_options(one.options) for number, one in schemas.items()}
    context = TableContext(store, root, schemas[latest], options[latest], schemas, paths.branch)
    stored = Manifests(store, context.paths, context.schema, context.options)
    snapshots = read_snapshots(
        store,
        paths,
        findings,
        only=snapshot,
        keeps_changelogs=keeps_changelogs(options[latest]),
        two_commits=stored.show_two_commits,
    )
    try:
        kind_of(schemas[latest], root)
    except InvalidRequestError as error:
        findings.add(
            "TBL-9", "not checked", root, expected="a supported kind of table", found=error, severity=NOTE
        )
        return None
    manifests = CheckedManifests(context, findings)
    history = History(context, options, manifests, findings)
    for done, one in enumerate(snapshots.checked, 1):
        history.follow(one)
        progress("snapshots", done, len(snapshots.checked))
    for copy in (*snapshots.copies, *snapshots.uncopied):
        history.follow_changelog(copy)
    return TableMetadata(context, options, snapshots, manifests, history, history.buckets())


def _lies_in_itself(store: FileIO, paths: TablePaths, findings: Findings) -> bool:
    """Return whether no directory of metadata is a link that leads out of the table. Clauses: SAFE-2."""
    directories = (
        *(paths.snapshots, paths.tags, paths.changelogs, paths.manifests, paths.indexes, paths.branches),
        paths.consumers,
    )
    return None not in [findings.attempt("CMT-1", partial(store.list_names, one)) for one in directories]


def check_here(
    context: TableContext, tasks: Sequence[BucketTask], progress: Progress
) -> Iterator[BucketReport]:
    """Check buckets in this process, one after the other; yield the report of each."""
    total = sum(task.file_count for task in tasks)
    count = 0

    def done() -> None:
        nonlocal count
        count += 1
        progress("data files", count, total)

    for task in tasks:
        yield check_bucket(context, task, done)


def check_places(context: TableContext, buckets: Sequence[BucketHistory], findings: Findings) -> None:
    """Expect every key in one bucket of one partition, in the newest snapshot. Clauses: BKT-21."""
    newest = max(
        (one for bucket in buckets for last in bucket.versions[-1:] for one in last.snapshots), default=0
    )
    with findings.guard("RD-11", snapshots=[newest]):
        tables = [
            table for part in _parts(context, buckets, newest) for table in known_places(context, part, None)
        ]
        if not tables:
            return
        keys = pa.concat_tables(tables)
        (encoded,) = encoded_keys(context, [keys])
        order = np.argsort(encoded, kind="stable")
        (twice,) = np.nonzero(encoded[order][1:] == encoded[order][:-1])
        if len(twice):
            at = order[twice[0] : twice[0] + 2]
            places = [
                context.place(row[AT_PARTITION], row[AT_BUCKET]).directory
                for row in keys.take(pa.array(at)).to_pylist()
            ]
            findings.add(
                "BKT-21",
                "keys",
                context.root,
                expected="in one bucket of one partition; delete them and write the right row",
                found=f"{counted(len(twice), 'key')} in two, one of them in {' and '.join(places)}",
                snapshots=[newest],
            )


def _parts(context: TableContext, buckets: Iterable[BucketHistory], snapshot: int) -> Iterator[BucketRead]:
    """Yield what a fresh read of a snapshot takes of each bucket."""
    kind = kind_of(context.schema, context.root)
    for bucket in buckets:
        for version in bucket.versions[-1:]:
            if snapshot in version.snapshots and version.entries:
                live = tuple(entry.file for entry in version.entries)
                wanted, merges = kind.files_to_read(context, live, fresh=True)
                yield BucketRead(BucketState(bucket.place, tuple(wanted), version.indexes), merges)
