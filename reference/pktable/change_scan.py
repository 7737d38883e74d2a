"""A read of changes as a value: planned when it is asked for, as a `Scan` is.

It gives the changes of a range of snapshots as Arrow (at once, or batch by batch), pandas, polars or a Spark
DataFrame. The column ``_row_kind`` comes first. Changes come by snapshot, and those of one key in their order.

Clauses: CHG-11, CHG-12, CHG-13.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from pktable.bucket.changelog import ROW_KIND, change_schema, read_changes
from pktable.catalog.catalog import Catalog
from pktable.context import TableContext
from pktable.lsm.bucket import ChangeRead
from pktable.predicate import expect_condition
from pktable.run.runner import ChangeQuery, Runner
from pktable.scan import ArrowRows, chosen_columns


@dataclass(frozen=True)
class ChangeScan(ArrowRows):
    """Which changes to read. Made by `Table.changes`; nothing is read or planned before changes are asked for."""

    catalog: Catalog
    runner: Runner
    start: int | str
    end: int | str | None = None
    where: Any = None
    columns: tuple[str, ...] | None = None
    commits: bool = False

    def __post_init__(self) -> None:
        expect_condition(self.where)

    def __repr__(self) -> str:
        asked = {
            "end": self.end,
            "where": self.where,
            "columns": self.columns and list(self.columns),
            "commits": self.commits or None,
        }
        given = "".join(f", {name}={value!r}" for name, value in asked.items() if value is not None)
        return f"<ChangeScan of {self.catalog.context.root}: start={self.start!r}{given}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns and types of the changes. Raises SnapshotNotFoundError, InvalidRequestError."""
        return self._planned(_schema)

    def read(self) -> Any:
        """Return the changes: a lazy DataFrame with Spark, a pyarrow.Table without."""
        return self._planned(self.runner.read_changes)

    def to_arrow(self) -> pa.Table:
        """Return the changes as a pyarrow.Table, all in memory."""

        def work(context: TableContext, query: ChangeQuery) -> pa.Table:
            return pa.Table.from_batches(self._batches(context, query), _schema(context, query))

        return self._planned(work)

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the changes batch by batch, read in this process as they are asked for."""

        def work(context: TableContext, query: ChangeQuery) -> pa.RecordBatchReader:
            batches = self._batches(context, query)
            return pa.RecordBatchReader.from_batches(_schema(context, query), batches)

        return self._planned(work)

    def _batches(self, context: TableContext, query: ChangeQuery) -> Iterator[pa.RecordBatch]:
        try:
            for part in query.parts:
                found = read_changes(context, part, query.columns, query.predicate, commits=query.commits)
                for table in found:
                    yield from table.to_batches()
        except CorruptFileError:
            self._planned(lambda context, query: None)  # which says so if a snapshot of the range has expired
            raise

    def _planned(self, work: Any) -> Any:
        def planned(parts: list[ChangeRead], context: TableContext) -> Any:
            names = chosen_columns(self.columns, context.schema)
            if ROW_KIND in context.schema.value_names:
                raise InvalidRequestError(f"changes: the table has a column {ROW_KIND} of its own")
            predicate = context.predicate(self.where)
            return work(context, ChangeQuery(parts, names, predicate, self.commits))

        return self.catalog.read_changes(self.start, self.end, planned)


def _schema(context: TableContext, query: ChangeQuery) -> pa.Schema:
    return change_schema(context, query.columns, commits=query.commits)
