"""The metadata of a table, opened to look at it: snapshots, manifests, indexes, and no way to its rows.

It loads faster than a `Table`, which brings all that reads and writes rows.

Clauses: RD-10, RD-14.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pktable_spec.errors import CorruptFileError
from pktable_spec.options import parse_options

from pktable.catalog.manifests import Manifests
from pktable.catalog.schemas import find_schemas
from pktable.catalog.snapshots import SnapshotLog
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.format.metadata.snapshot import Snapshot

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The metadata of one table."""

    context: TableContext
    snapshots: SnapshotLog
    states: StateLoader

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> TableMetadata:
        """Open the metadata of an existing table. Raises NotATableError, CorruptFileError."""
        store, root, schemas = find_schemas(path)
        schema = schemas[max(schemas)]
        options = parse_options(schema.options)
        context = TableContext(store, root, schema, options, schemas)
        states = StateLoader(context, Manifests(store, context.paths, schema, options))
        return cls(context, SnapshotLog(store, context.paths), states)

    def at(self, snapshot: int | None, work: Callable[[TableContext, TableState], Result]) -> Result:
        """Return the result of ``work`` on the state at ``snapshot``, None for the latest.

        ``work`` also gets the table under the snapshot's schema. If the latest snapshot expires while ``work``
        runs, ``work`` is retried on the new latest. Raises SnapshotNotFoundError, CorruptFileError.
        Clauses: RD-10, RD-14.
        """
        if snapshot is None:
            return self.snapshots.retry_on_latest(lambda latest: work(self.context, self._state(latest)))
        found = self.snapshots.read(snapshot)
        try:
            under = self.context.under(self.context.schema_of(found.schema_id))
            return work(under, self.states.at(found))
        except CorruptFileError:
            lost = self.snapshots.expired_error(found)
            if lost is None:
                raise
        raise lost

    def _state(self, snapshot: Snapshot | None) -> TableState:
        return self.states.at(snapshot) if snapshot else TableState()
