"""One table's metadata: its schemas, snapshots, manifests and commits, put together.

A `Table` is a face over a `Catalog` and a runner. Tools and tests that look below that face find the parts here.

Clauses: RD-10, RD-14, TBL-38.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from pktable_spec.errors import (
    CommitConflictError,
    CorruptFileError,
    SnapshotNotFoundError,
)
from pktable_spec.options import parse_options

from pktable.catalog.alteration import Alteration, next_schema
from pktable.catalog.as_of import AsOf
from pktable.catalog.change_plan import change_range, expect_kept, plan_changes, snapshots_between
from pktable.catalog.commit import Committer
from pktable.catalog.manifests import Manifests
from pktable.catalog.retention import Expiry
from pktable.catalog.rollback import Rollback
from pktable.catalog.schemas import expect_latest_schema, expect_opened, put_schema
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.schema import TableSchema, encode_schema
from pktable.lsm.bucket import ChangeRead
from pktable.store.file_io import FileIO

Result = TypeVar("Result")


class Catalog:
    """The metadata of one table under its latest schema.

    ``clock``: milliseconds since the epoch. ``ignored``: the options that reads do not refuse. ``branch``: None for the
    main branch. Clauses: BRN-1, TBL-35.
    """

    def __init__(
        self,
        store: FileIO,
        root: str,
        schemas: Mapping[int, TableSchema],
        clock: Callable[[], int],
        ignored: Collection[str] = (),
        branch: str | None = None,
    ) -> None:
        schema = schemas[max(schemas)]
        options = parse_options(schema.options, ignored)
        self.ignored = ignored
        self.context = TableContext(store, root, schema, options, schemas, branch)
        store = self.context.store  # guarded
        self.manifests = Manifests(store, self.context.paths, schema, options)
        self.snapshots = SnapshotLog(
            store, self.context.paths, self.manifests.show_two_commits, clock, self.expect_opened
        )
        self.states = StateLoader(self.context, self.manifests)
        self.committer = Committer(self.context, self.snapshots, self.manifests, self.states, clock)
        self.expiry = Expiry(self.context, self.snapshots, self.manifests, self.states)
        self.committer.expire = lambda: self.expiry.after_commit(clock())
        self.rollback = Rollback(self.context, self.snapshots, self.states, self.committer, self.expiry)
        self._former: dict[tuple[int, bool], TableContext] = {}

    def __reduce__(self) -> tuple[object, ...]:
        context = self.context
        return Catalog, (
            *(context.store, context.root, dict(context.schemas), self.committer.clock),
            self.ignored,
            context.paths.branch,
        )

    def expect_writable(self) -> None:
        """Raise InvalidRequestError if an option forbids writing, or the schema has changed since opening.

        Whether the table is still the one that was opened shows when a state is read, see `StateLoader.opened`.
        Clauses: META-74, TBL-9, TBL-19, TBL-20.
        """
        from pktable.kinds import kind_of  # late: it brings what writes data files

        context = self.context
        kind_of(context.schema, context.root).require_writable(context.schema, context.options)
        expect_latest_schema(context)

    def expect_opened(self) -> None:
        """Raise InvalidRequestError if the table or branch was dropped or replaced since. Clauses: BRN-9, TBL-60."""
        expect_opened(self.context)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise what `expect_opened` raises instead of an error about files of the table. Clauses: TBL-60."""
        try:
            yield
        except (CorruptFileError, SnapshotNotFoundError):
            with suppress(CorruptFileError, OSError):
                self.expect_opened()
            raise

    def alter(self, change: Alteration) -> TableSchema:
        """Put the next schema of the table, and return it; the present one if nothing changes.

        Raises InvalidRequestError, also if the table is gone by then, CommitConflictError if another process
        has changed the schema, and CorruptFileError. Clauses: TBL-38, TBL-71.
        """
        context, state = self.context, self.committer.latest()
        after = next_schema(context, state, change, now_millis=self.committer.clock())
        if after.id == context.schema.id:
            return after
        if not put_schema(context.store, context.paths, after):
            raise CommitConflictError(
                f"{context.paths.schema(after.id)}: another process has changed the schema",
                state.id,
                "nothing was changed; open the table again, and look whether the change still fits",
            )
        # It may be the first schema of a dropped table, or a later one of another table.
        self.snapshots.fences.expect_opened_or_remove(context.paths.schema(after.id), encode_schema(after))
        return after

    def read_as_of(self, as_of: AsOf, work: Callable[[TableState, TableContext], Result]) -> Result:
        """Return what ``work`` makes of the state that ``as_of`` names, and of the table under the schema to read it.

        If a file is missing because the snapshot expired while ``work`` ran, a read of the latest snapshot is retried
        on the new latest one, and a read of a named snapshot raises SnapshotNotFoundError. Any other missing file is
        damage: CorruptFileError. Clauses: RD-10, RD-14, RD-18, RD-19, RD-22.
        """
        with self.reading():
            snapshot = as_of.find(self.snapshots)
            if snapshot is None:
                return self.committer.retry_on_latest_state(lambda state: work(state, self._of(state)))
            try:
                return work(self.states.opened(snapshot), self.under(snapshot.schema_id))
            except CorruptFileError:
                expired = self.snapshots.expired_error(snapshot, as_of.tag)
                if expired is None:
                    raise
            raise expired

    def read_changes(
        self,
        start: int | str,
        end: int | str | None,
        work: Callable[[list[ChangeRead], TableContext], Result],
    ) -> Result:
        """Return what ``work`` makes of the changes after ``start`` up to ``end``, and of the schema of ``end``.

        ``start``, ``end``: ids or names of tags; None is the latest snapshot. Raises InvalidRequestError, and
        SnapshotNotFoundError if a snapshot of the range has expired, or does while ``work`` runs.
        Clauses: CHG-11, CHG-12, CHG-13, RD-14.
        """
        with self.reading():
            wanted = change_range(self.snapshots, start, end)
            found = snapshots_between(self.context, self.snapshots, wanted)
            if found:
                self.expect_opened()
            context = self.under(found[-1].schema_id) if found else self.context
            try:
                return work(plan_changes(context, self.manifests, found, wanted), context)
            except CorruptFileError:
                expect_kept(self.context, self.snapshots, wanted, found)
                raise

    def state(self, snapshot: int | None = None) -> TableState:
        """Return the state at a snapshot, by default the latest. Raises SnapshotNotFoundError, CorruptFileError."""
        return self.read_as_of(AsOf(snapshot), lambda state, _: state)

    def under(self, schema_id: int, written: int | None = None) -> TableContext:
        """Return the table as it is read under a schema of some time. Clauses: RD-14, RD-22.

        ``written``: the schema of the snapshot that is read, which says whether there are deletion vectors; by default
        the same one.
        """
        vectors = self.context.has_vectors(schema_id if written is None else written)
        if (schema_id, vectors) == (self.context.schema.id, self.context.options.deletion_vectors_enabled):
            return self.context
        if (schema_id, vectors) not in self._former:
            schema = self.context.schema_of(schema_id)
            self._former[schema_id, vectors] = self.context.under(schema, vectors=vectors)
        return self._former[schema_id, vectors]

    def _of(self, latest: TableState) -> TableContext:
        """Return the table as its latest state is read. Clauses: RD-22."""
        return self.under(self.context.schema.id, latest.snapshot.schema_id if latest.snapshot else None)
