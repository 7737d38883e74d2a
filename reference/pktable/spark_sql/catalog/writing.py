"""What plain Spark writes to a table of ours: rows that are put, or that replace all rows or those of a partition.

Spark says which privileges a statement needs. Only inserts are let through; Spark then gives the rows with the columns
of the table, in its types, as a DataFrame.

Clauses: WH-39, WH-60.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, Final

from pktable_spec.errors import CommitUnknownError, InvalidRequestError
from pyspark.sql import DataFrame

from pktable.spark_sql.catalog.machine import CATALOG, SPARK, Machine, ThrownError
from pktable.spark_sql.rows import OVERWRITE_MODE, aligned
from pktable.sql.words import literal, quoted, text_literal
from pktable.table import Table

WRITE: Final = f"{SPARK}connector.write."
CAPABILITIES: Final = (
    *("V1_BATCH_WRITE", "BATCH_WRITE", "BATCH_READ"),
    *("TRUNCATE", "OVERWRITE_BY_FILTER", "OVERWRITE_DYNAMIC"),
)
SIGNS: Final = {"=": "=", "<=>": "<=>", "IS_NULL": "<=>"}
"""How a condition on a column and a value is written, by its name."""
COLUMN: Final = "FieldReference"
LITERALS: Final = ("LiteralValue", "AlwaysTrue", "AlwaysFalse")
"""What the classes of columns and of values are called."""
INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
EPOCH: Final = datetime.date(1970, 1, 1)
INSTEAD: Final = "use the sql of pktable.session: lake = pktable.session(…); lake.sql(…)"


def only_inserts(machine: Machine, name: str) -> ThrownError:
    """Return the error to raise for a statement that changes the table ``name`` otherwise. Clauses: WH-39."""
    return machine.refusal(
        f"{name}: plain spark.sql inserts rows, and does no DELETE, UPDATE or MERGE; {INSTEAD}"
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


class Unmeasured:
    """What has no metrics of its own to show in Spark."""

    _machine: Machine

    def supported_custom_metrics(self) -> Any:
        return self._machine.array(f"{SPARK}connector.metric.CustomMetric")

    def report_driver_metrics(self) -> Any:
        return self._machine.array(f"{SPARK}connector.metric.CustomTaskMetric")


class Write(Unmeasured):
    """One write of Spark's, in the making and made. ``name``: of the table, with the catalog.

    It puts its rows, unless they replace all rows, or those that satisfy a condition.
    """

    def __init__(self, machine: Machine, table: Table, name: str, of: WritableTable) -> None:
        self._machine, self._table, self._name, self._of = machine, table, name, of
        self._replaces = False
        self._where: str | None = None

    def __repr__(self) -> str:
        return f"write to {self._name}"

    def offered(self) -> Any:
        interfaces = (f"{WRITE}SupportsOverwriteV2", f"{WRITE}SupportsDynamicOverwrite", f"{WRITE}V1Write")
        return self._machine.offered(self, *interfaces, f"{SPARK}sources.InsertableRelation")

    def truncate(self) -> Any:
        self._replaces = True
        return self.offered()

    def can_overwrite(self, _: Any) -> bool:
        return True  # `overwrite` says what it cannot

    def overwrite(self, conditions: Any) -> Any:
        """Replace the rows that satisfy ``conditions``: columns that have values. Clauses: WH-60."""
        self._where = " AND ".join(self._condition(one) for one in conditions)
        return self.truncate()

    def _condition(self, one: Any) -> str:
        parts = list(one.children())
        sign = SIGNS.get(one.name())
        if sign is not None and _kind(parts[0]) == COLUMN and len(parts[0].fieldNames()) == 1:
            text = _literal(parts[1]) if len(parts) > 1 else "NULL"
            if text is not None:
                return f"{quoted(parts[0].fieldNames()[0])} {sign} {text}"
        raise self._machine.refusal(
            f"{self._name}: plain spark.sql replaces the rows with a value of a column, not {one.toString()}; {INSTEAD}"
        )

    def overwrite_dynamic_partitions(self) -> Any:
        raise self._machine.refusal(
            f"{self._name}: plain spark.sql replaces no partitions by those of the rows, as overwritePartitions() and "
            f"{OVERWRITE_MODE}=dynamic ask; {INSTEAD}"
        )

    def build(self) -> Any:
        return self.offered()

    def description(self) -> str:
        return repr(self)

    def to_insertable_relation(self) -> Any:
        return self.offered()

    def insert(self, rows: Any, overwrite: bool) -> None:
        """Write rows, a DataFrame of the JVM. Clauses: WH-39, WH-60."""
        assert not overwrite, "Spark asks the builder to overwrite"
        frame = aligned(DataFrame(rows, self._machine.spark), self._table.schema, None, {}, by_name=False)
        try:
            if self._replaces:
                self._table.overwrite(frame, where=self._where)
            else:
                self._table.put(frame)
        except CommitUnknownError:
            self._of.unknown()
            raise


def _kind(part: Any) -> str:
    return str(part.getClass().getSimpleName())


def _literal(found: Any) -> str | None:
    """Return the text of a value of Spark's in SQL, None if it is none, or has none here."""
    if _kind(found) not in LITERALS:
        return None
    kind, value = found.dataType().simpleString(), found.value()
    if value is None:
        return "NULL"
    if kind.partition("(")[0] in ("string", "char", "varchar"):
        return text_literal(value.toString())
    if kind == "date":
        return literal(EPOCH + datetime.timedelta(days=value))
    if kind == "boolean" or kind in INTEGERS or kind.startswith("decimal"):
        return f"CAST('{found.toString()}' AS {kind})"
    return None


class WritableTable(Unmeasured):
    """A table of Spark's that takes rows. ``shown``: its name in messages, with the catalog.

    ``described``: the same as it is read, whose columns and options it has.
    ``undo``: removes the table, of a CREATE TABLE … AS SELECT that fails (WH-51).
    """

    def __init__(
        self,
        machine: Machine,
        table: Table,
        shown: str,
        described: Any,
        undo: Callable[[], None] | None = None,
    ) -> None:
        self._machine, self._table, self._shown, self._described = machine, table, shown, described
        self._undo = undo

    def __repr__(self) -> str:
        return f"table {self._shown}"

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
        """Return what Spark asks before it asks for it: a MERGE asks for a scan, and is refused then.

        Spark asks for a plain batch only where it replaces the partitions of the rows, which is refused then.
        """
        found = self._machine.named(f"{CATALOG}TableCapability")
        return self._machine.java_set(getattr(found, one) for one in CAPABILITIES)

    # INSERT

    def new_write_builder(self, info: Any) -> Any:
        expect_no_options(info.options())
        return Write(self._machine, self._table, self._shown, self).offered()

    def unknown(self) -> None:
        """Note that a commit is unknown: the table may have its rows."""
        self._undo = None

    # MERGE, and reads of a subquery: Spark takes the target of an INSERT for them

    def new_scan_builder(self, _: Any) -> Any:
        raise self._machine.refusal(
            f"{self._shown}: plain spark.sql does no MERGE, and no subquery that reads what it inserts to; {INSTEAD}"
        )

    def new_row_level_operation_builder(self, _: Any) -> Any:
        raise only_inserts(self._machine, self._shown)

    # CREATE TABLE … AS SELECT

    def commit_staged_changes(self) -> None:
        return None

    def abort_staged_changes(self) -> None:
        if self._undo is not None:
            self._undo()
