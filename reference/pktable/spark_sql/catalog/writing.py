"""What plain Spark writes to a table of ours: the rows of an INSERT or of ``writeTo(…).append()``, by `Table.put`.

Spark says which privileges a statement needs. Only inserts are let through; Spark then gives the rows with the columns
of the table, in its types, as a DataFrame.

Clauses: WH-39.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pktable_spec.errors import CommitUnknownError, InvalidRequestError
from pyspark.sql import DataFrame

from pktable.spark_sql.catalog.machine import CATALOG, SPARK, Machine, ThrownError
from pktable.spark_sql.rows import aligned
from pktable.table import Table

WRITE: Final = f"{SPARK}connector.write."
INSTEAD: Final = "use the sql of pktable.session: lake = pktable.session(…); lake.sql(…)"


def only_inserts(machine: Machine, name: str) -> ThrownError:
    """Return the error to raise for a statement that changes the table ``name`` otherwise. Clauses: WH-39."""
    return machine.refusal(
        f"{name}: plain spark.sql inserts rows, and does no DELETE, UPDATE, MERGE or INSERT OVERWRITE; {INSTEAD}"
    )


def expect_no_options(given: Any, known: Sequence[str] = ()) -> None:
    """Raise InvalidRequestError for options of a read or a write but those that are ``known``. Clauses: WH-40."""
    if given.isEmpty():
        return
    others = [name for name in given.keySet() if name.lower() not in known]
    if others:
        raise InvalidRequestError(
            f"option {', '.join(others)}: a catalog takes none; use Table, format('pktable') or the sql of a session"
        )


class WritableTable:
    """A table of Spark's that takes rows. ``described``: the same as it is read, whose columns and options it has.

    ``undo``: removes the table, of a CREATE TABLE … AS SELECT that fails (WH-51).
    """

    def __init__(
        self, machine: Machine, table: Table, described: Any, undo: Callable[[], None] | None = None
    ) -> None:
        self._machine, self._table, self._described, self._undo = machine, table, described, undo

    def __repr__(self) -> str:
        return f"table {self.name()}"

    def offered(self) -> Any:
        interfaces = ("StagedTable", "SupportsWrite", "SupportsRead", "SupportsRowLevelOperations")
        return self._machine.offered(self, *(CATALOG + one for one in interfaces))

    # What it is

    def name(self) -> Any:
        return self._described.name()

    def schema(self) -> Any:
        return self._described.schema()

    def columns(self) -> Any:
        return self._described.columns()

    def partitioning(self) -> Any:
        return self._described.partitioning()

    def properties(self) -> Any:
        return self._described.properties()

    def id(self) -> None:
        return None

    def version(self) -> None:
        return None

    def constraints(self) -> Any:
        return self._machine.array(f"{CATALOG}constraints.Constraint")

    def capabilities(self) -> Any:
        """Return what Spark asks before it asks for it: a MERGE asks for a scan, and is refused then."""
        found = self._machine.named(f"{CATALOG}TableCapability")
        return self._machine.java_set([found.V1_BATCH_WRITE, found.BATCH_READ])

    # INSERT

    def new_write_builder(self, info: Any) -> Any:
        expect_no_options(info.options())
        return self._machine.offered(self, f"{WRITE}WriteBuilder")

    def build(self) -> Any:
        return self._machine.offered(self, f"{WRITE}V1Write")

    def description(self) -> str:
        return f"insert into {self._table.path}"

    def supported_custom_metrics(self) -> Any:
        return self._machine.array(f"{SPARK}connector.metric.CustomMetric")

    def report_driver_metrics(self) -> Any:
        return self._machine.array(f"{SPARK}connector.metric.CustomTaskMetric")

    def to_insertable_relation(self) -> Any:
        return self._machine.offered(self, f"{SPARK}sources.InsertableRelation")

    def insert(self, rows: Any, overwrite: bool) -> None:
        """Put rows, a DataFrame of the JVM. Clauses: WH-39."""
        assert not overwrite, "the capabilities have no overwrite"
        frame = DataFrame(rows, self._machine.spark)
        try:
            self._table.put(aligned(frame, self._table.schema, None, {}, by_name=False))
        except CommitUnknownError:  # it may have its rows
            self._undo = None
            raise

    # MERGE, and reads of a subquery: Spark takes the target of an INSERT for them

    def new_scan_builder(self, _: Any) -> Any:
        raise self._machine.refusal(
            f"{self.name()}: plain spark.sql does no MERGE, and no subquery that reads what it inserts to; {INSTEAD}"
        )

    def new_row_level_operation_builder(self, _: Any) -> Any:
        raise only_inserts(self._machine, self.name())

    # CREATE TABLE … AS SELECT

    def commit_staged_changes(self) -> None:
        return None

    def abort_staged_changes(self) -> None:
        if self._undo is not None:
            self._undo()
