"""Statements of SQL from the command line that Spark carries out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pyspark.errors import PySparkException

from pktable.ingest.sources import as_arrow
from pktable.run.spark.errors import raised_here
from pktable.spark_sql.session import session
from pktable.sql.words import quoted
from pktable.store.directories import DEFAULT

if TYPE_CHECKING:
    from pktable.warehouse import Warehouse


def carried_out(warehouse: Warehouse, statement: str, database: str) -> pa.Table:
    """Return the rows of a statement; ``database``: of names without one. Spark's errors are the caller's, in a line.

    Raises InvalidRequestError.
    """
    assert warehouse.spark is not None, "it is given one"
    lake = session(warehouse.spark, warehouse)
    try:
        if database != DEFAULT:
            lake.sql(f"USE {quoted(database)}")
        with raised_here():
            return as_arrow(lake.sql(statement))
    except PySparkException as error:
        first = str(error).strip().partition("\n")[0].rstrip(";")
        raise InvalidRequestError(f"Spark: {first}") from None
