"""What plain Spark reads of a table of ours: Spark's own plan of `Table.read`, of the newest snapshot at each analysis.

A catalog gives Spark the definition of a view, as it knows views itself. Its text calls a table function of this
session with a number, and the function gives the plan of the rows that were found under that number. So a query that
names a table twice reads one snapshot of it, and what only describes a table plans no read.

Rows that were found are forgotten some time after the JVM has forgotten the view.

Clauses: WH-37, WH-38, WH-50.
"""

from __future__ import annotations

import itertools
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pktable.spark_sql.catalog.machine import CATALOG, SPARK, Machine

WHOLE_NAME: Final = "multipartIdentifier"
"""With it, since Spark 4.2, a column may be named with the catalog."""
TIMES: Final = "view.sqlConfig.spark.sql.timeType.enabled"
"""The property of a view by which what is in it may have a TIME."""
TIME: Final = '"time('
"""How the type begins in the text of a schema."""
FORGOTTEN_KEPT: Final = 16
"""How many more views are found before the rows of one that the JVM has forgotten are."""


@dataclass
class Rows:
    """The rows that a view gives. ``find``: plans them, once. ``view``: a weak reference of the JVM."""

    find: Callable[[], DataFrame]
    view: Any = None
    frame: DataFrame | None = field(default=None, repr=False)

    def plan(self) -> Any:
        """Return Spark's analyzed plan."""
        if self.frame is None:
            self.frame = self.find()
        return self.frame._jdf.queryExecution().analyzed()


class Views:
    """The views of a catalog that give the rows of tables. ``function``: the name of their table function."""

    made = itertools.count()

    def __init__(self, machine: Machine, catalog: str) -> None:
        # The next catalog of this name gets another function: queries in other threads may need this one. Spark reads
        # the name without quotes, as it may not read that of the catalog.
        self.function = f"pktable_rows_{next(self.made)}"
        self._machine = machine
        self._numbers = itertools.count()
        self._rows: dict[int, Rows] = {}
        self._by_view: dict[int, int] = {}
        self._forgotten: deque[int] = deque()
        self._queue = machine.jvm.java.lang.ref.ReferenceQueue()
        some = _any_definition(machine)
        (self._constructor,) = some.getClass().getConstructors()
        count = some.productArity()
        self._places = {some.productElementName(i): i for i in range(count)}
        self._values = machine.array("java.lang.Object", map(some.productElement, range(count)))
        registry = machine.spark._jsparkSession.sessionState().tableFunctionRegistry()
        registry.createOrReplaceTempFunction(
            self.function, machine.offered(self, "scala.Function1"), "scala_udf"
        )
        self.table(
            (catalog, "", ""), StructType(), lambda: machine.spark.range(0)
        )  # says what a release lacks

    def __len__(self) -> int:
        """How many views have rows now."""
        return len(self._rows)

    def apply(self, arguments: Any) -> Any:
        """Return the plan of a call of the table function. ``arguments``: expressions of Spark."""
        number = arguments.head().value() if arguments.size() == 1 else None
        rows = self._rows.get(number) if isinstance(number, int) else None
        if rows is None:
            raise InvalidRequestError(
                f"{self.function}: expected a number that a catalog gave, found {number}"
            )
        return rows.plan()

    def table(
        self,
        name: Sequence[str],
        schema: StructType,
        find: Callable[[], DataFrame],
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str = "",
    ) -> Any:
        """Return a table of Spark's by a ``name`` of three parts, whose rows are those of ``find``.

        Clauses: WH-37, WH-50.
        """
        machine = self._machine
        self._forget()
        number = next(self._numbers)
        catalog, database, table = name
        identifier = machine.named(f"{SPARK}catalyst.TableIdentifier")(
            table, machine.option(database), machine.option(catalog)
        )
        text = machine.option(f"SELECT * FROM {self.function}({number})")
        # What is in a view is analyzed by Spark's defaults, by which it has no TIME, and the settings of the view.
        settings = {TIMES: "true"} if TIME in schema.json() else {}
        values = {
            "identifier": identifier,
            "schema": machine.java_schema(schema),
            "partitionColumnNames": machine.sequence(partition_by),
            "properties": machine.scala_map({**(properties or {}), **settings}),
            "viewText": text,
            "viewOriginalText": text,
            "comment": machine.option(comment or None),
        }
        if WHOLE_NAME in self._places:
            values[WHOLE_NAME] = machine.option(machine.sequence(name))
        definition = self._defined(values)
        view = machine.named("java.lang.ref.WeakReference")(definition, self._queue)
        self._rows[number] = Rows(find, view)
        self._by_view[view.hashCode()] = number
        return machine.named(f"{CATALOG}V1Table")(definition)

    def _defined(self, values: Mapping[str, Any]) -> Any:
        """Return the definition of a view with some ``values``. Which others there are differs between releases."""
        given = self._machine.named("java.util.Arrays#copyOf")(self._values, len(self._places))
        for name, value in values.items():
            given[self._places[name]] = value
        return self._constructor.newInstance(given)

    def _forget(self) -> None:
        """Forget the rows of views that the JVM has forgotten, but for the last ones."""
        while (view := self._queue.poll()) is not None:
            number = self._by_view.pop(view.hashCode(), None)
            if number is not None:
                self._forgotten.append(number)
        while len(self._forgotten) > FORGOTTEN_KEPT:
            self._rows.pop(self._forgotten.popleft(), None)


def _any_definition(machine: Machine) -> Any:
    """Return the definition of some view as this release of Spark makes it."""
    name = f"pktable_{uuid.uuid4().hex}"
    machine.spark.range(0).createTempView(name)
    try:
        plan = machine.spark.table(name)._jdf.queryExecution().analyzed()
    finally:
        machine.spark.catalog.dropTempView(name)
    while plan.getClass().getSimpleName() != "View":
        plan = plan.child()
    return plan.desc()
