"""Put the catalog of a warehouse among those of a classic session.

Spark itself makes a catalog from the name of a class, which would be one of a JAR. The one of Python is put among
those that Spark has made: into a private field, which all releases from 4.0 to 4.3 have under the same name.

Clauses: WH-37, WH-41.
"""

from __future__ import annotations

from typing import Final

import pyspark
from pktable_spec.errors import InvalidRequestError
from pyspark.sql import SparkSession

from pktable.spark_sql.queries import Queries

RELEASES: Final = "4.0 to 4.3"
CATALOGS: Final = "catalogs"
"""The field of Spark's catalog manager."""
OF_SPARK: Final = ("spark_catalog", "system", "session", "builtin", "global_temp")


def register(queries: Queries) -> None:
    """Let plain ``spark.sql`` of the session of ``queries`` know the warehouse by the name of its catalog.

    Raises InvalidRequestError for Spark Connect, for a release of Spark without what is needed, and for a name that
    another catalog has. Clauses: WH-37, WH-41.
    """
    spark, name = queries.spark, queries.names.catalog
    if not isinstance(spark, SparkSession):
        raise _impossible(name, "Spark Connect")
    from py4j.protocol import Py4JError  # late: a client of Spark Connect may lack it

    from pktable.spark_sql.catalog.catalog import Catalog

    try:
        manager = spark._jsparkSession.sessionState().catalogManager()
        field = manager.getClass().getDeclaredField(CATALOGS)
        field.setAccessible(True)
        catalogs = field.get(manager)
        there = catalogs.get(name)
        ours = f"catalog {name} of {queries.names.warehouse.path}"
        if not there.isEmpty() and (found := there.get().toString()) != ours:
            raise InvalidRequestError(f"catalog={name!r}: Spark has one of this name ({found}); give another")
        configured = spark.conf.get(f"spark.sql.catalog.{name}", None) is not None
        if there.isEmpty() and (configured or name.lower() in OF_SPARK):
            raise InvalidRequestError(f"catalog={name!r}: Spark has one of this name; give another")
        catalogs.put(name, Catalog(queries, ours).offered())
    except (Py4JError, TypeError, KeyError, ValueError) as error:  # something of Spark's is not there
        raise _impossible(name, f"pyspark {pyspark.__version__}") from error


def _impossible(name: str, where: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"catalog={name!r}: a classic session of pyspark {RELEASES} can be given a catalog, and {where} cannot; leave "
        "catalog out, and use lake.sql(…) of lake = pktable.session(…) instead of spark.sql(…)"
    )
