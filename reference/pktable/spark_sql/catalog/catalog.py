"""A catalog of Spark's: the databases and tables of a warehouse by the names that plain ``spark.sql`` gives.

Methods are those of Spark's ``StagingTableCatalog`` and ``SupportsNamespaces`` as Python writes them, some lines each
over `Warehouse` and `Table`. A name without a database is in ``default``.

Spark itself makes a catalog from the name of a class, which would be one of a JAR. `register` puts the one of Python
among those that Spark has made: into a private field, which all releases from 4.0 to 4.3 have under the same name.

Clauses: WH-37 to WH-42.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import pyspark
from pktable_spec.errors import InvalidRequestError, PkTableError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pktable.run.spark.types import spark_schema
from pktable.spark_source.options import KNOWN
from pktable.spark_sql.catalog.machine import CATALOG, SPARK, Machine, alter
from pktable.spark_sql.catalog.reading import Views
from pktable.spark_sql.catalog.writing import INSTEAD, WritableTable, expect_no_options, only_inserts
from pktable.spark_sql.definitions import KEY, PROVIDERS, define, plain, undo
from pktable.spark_sql.queries import Queries, version
from pktable.sql.names import Found
from pktable.store.directories import DEFAULT
from pktable.table import Table

RELEASES: Final = "4.0 to 4.3"
CATALOGS: Final = "catalogs"
"""The field of Spark's catalog manager."""
NAMES_OF_SPARK: Final = ("spark_catalog", "system", "session", "builtin", "global_temp")


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
        if there.isEmpty() and (configured or name.lower() in NAMES_OF_SPARK):
            raise InvalidRequestError(f"catalog={name!r}: Spark has one of this name; give another")
        catalogs.put(name, Catalog(queries, ours).offered())
    except (Py4JError, TypeError, KeyError, ValueError) as error:  # something of Spark's is not there
        raise _impossible(name, f"pyspark {pyspark.__version__}") from error


def _impossible(name: str, where: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"catalog={name!r}: a classic session of pyspark {RELEASES} can be given a catalog, and {where} cannot; leave "
        "catalog out, and use lake.sql(…) of lake = pktable.session(…) instead of spark.sql(…)"
    )


INTERFACES: Final = ("StagingTableCatalog", "SupportsNamespaces")
ANALYSIS: Final = f"{SPARK}catalyst.analysis."
GIVEN_BY_SPARK: Final = ("owner", "is_managed_location")
"""Properties that Spark gives to each table."""
OPTIONS_OF_READING: Final = ("versionasof", "timestampasof")
"""Those that Spark itself understands."""
MICROS_OF_MILLI: Final = 1000


class Catalog:
    """The catalog of one session. ``queries``: those of the session, which say what names mean. ``shown``: its text."""

    def __init__(self, queries: Queries, shown: str) -> None:
        self._shown = shown
        self._queries, self._warehouse = queries, queries.names.warehouse
        self._name = queries.names.catalog
        self._machine = Machine(queries.spark, self._lacking)
        self._views = Views(self._machine, self._name)

    def __repr__(self) -> str:
        return self._shown

    def offered(self) -> Any:
        return self._machine.offered(self, *(CATALOG + one for one in INTERFACES))

    def _lacking(self, method: str) -> str:
        return f"{self._name}: plain spark.sql cannot do this with its tables ({method}); {INSTEAD}"

    # The catalog

    def name(self) -> str:
        return self._name

    def default_namespace(self) -> Any:
        return self._machine.strings([DEFAULT])

    def capabilities(self) -> Any:
        return self._machine.java_set()

    def table_state_option_keys(self) -> Any:
        """Return the options that Spark gives to `load_table`: those that a read must not ignore."""
        return self._machine.java_set(KNOWN)

    def use_nullable_query_schema(self) -> bool:
        return True

    def supported_custom_metrics(self) -> Any:
        return self._machine.array(f"{SPARK}connector.metric.CustomMetric")

    # Databases

    def list_namespaces(self, parent: Any = None) -> Any:
        found = self._warehouse.databases()
        if parent is not None and len(parent):
            self._expect_database(parent)
            found = []
        elif DEFAULT not in found:
            found = sorted([*found, DEFAULT])  # it is made when it is needed
        paths = self._machine.gateway.new_array(self._machine.jvm.java.lang.String, len(found), 1)
        for i, name in enumerate(found):
            paths[i][0] = name
        return paths

    def namespace_exists(self, namespace: Any) -> bool:
        return len(namespace) == 1 and namespace[0] in (DEFAULT, *self._warehouse.databases())

    def load_namespace_metadata(self, namespace: Any) -> Any:
        self._expect_database(namespace)
        return self._machine.java_map({"location": f"{self._warehouse.path}/{namespace[0]}.db"})

    def create_namespace(self, namespace: Any, properties: Any) -> None:
        others = [name for name in properties if name not in GIVEN_BY_SPARK]
        if others or len(namespace) != 1:
            raise InvalidRequestError(
                f"CREATE DATABASE {'.'.join(namespace)}: expected one name without {', '.join(others) or 'a dot'}"
            )
        if namespace[0] in self._warehouse.databases():
            raise self._machine.error(f"{ANALYSIS}NamespaceAlreadyExistsException", namespace)
        self._warehouse.create_database(namespace[0])

    def drop_namespace(self, namespace: Any, cascade: bool) -> bool:
        self._expect_database(namespace)
        self._warehouse.drop_database(namespace[0], cascade=cascade)
        return True

    def _expect_database(self, namespace: Any) -> None:
        if not self.namespace_exists(namespace):
            raise self._machine.error(f"{ANALYSIS}NoSuchNamespaceException", namespace)

    # Tables

    def list_tables(self, namespace: Any) -> Any:
        """Return the tables of a database; those of the catalog itself are those of ``default``. Clauses: WH-37."""
        namespace = namespace if len(namespace) else self.default_namespace()
        self._expect_database(namespace)
        there = namespace[0] in self._warehouse.databases()
        names = self._warehouse.tables(namespace[0]) if there else []
        identifier = self._machine.named(f"{CATALOG}Identifier")
        return self._machine.array(f"{CATALOG}Identifier", (identifier.of(namespace, name) for name in names))

    def list_table_summaries(self, namespace: Any) -> Any:
        summary = self._machine.named(f"{CATALOG}TableSummary")
        found = (summary.of(one, "MANAGED") for one in self.list_tables(namespace))
        return self._machine.array(f"{CATALOG}TableSummary", found)

    def table_exists(self, identifier: Any) -> bool:
        found = self._place(identifier)
        return found is not None and self._warehouse.has_table(found.name)

    def invalidate_table(self, identifier: Any) -> None:
        return None  # nothing of a table is kept

    def load_table(self, identifier: Any, *how: Any) -> Any:
        """Return a table as Spark reads it, or as it writes to it. ``how``: a version, or what the statement does.

        Clauses: WH-37, WH-38, WH-39.
        """
        as_of, privileges = self._asked(how)
        found = self._found(identifier)
        if not privileges:
            return self._read(found, as_of)
        shown = self._full(found)
        if privileges not in ({"INSERT"}, {"INSERT", "DELETE"}):
            raise only_inserts(self._machine, shown)
        if found.metadata is not None:
            raise InvalidRequestError(f"{shown}${found.metadata}: a metadata table cannot be changed")
        return self._writable(found, self._queries.names.open(found))

    def _asked(self, how: Any) -> tuple[str | int | None, set[str]]:
        """Return the version that is asked for, a text or microseconds, and the privileges that are needed."""
        if not how:
            return None, set()
        if isinstance(how[0], (str, int)):
            return how[0], set()
        privileges = how[0]
        if len(how) > 1:  # a context and options, since Spark 4.3
            expect_no_options(how[1], OPTIONS_OF_READING)
            privileges = how[0].writePrivileges()
            travel = how[0].timeTravel()
            if travel.isPresent():
                return self._travel(travel.get()), set()
        # As text: to iterate over a set of the JVM takes as long as to plan the query.
        return None, set(re.findall(r"\w+", privileges.toString()))

    def _travel(self, travel: Any) -> str | int:
        by_version = travel.getClass().getSimpleName() == "AsOfVersion"
        found: str | int = travel.version() if by_version else travel.micros()
        return found

    def _read(self, found: Found, as_of: str | int | None) -> Any:
        names, queries = self._queries.names, self._queries
        table = names.open(found)
        if as_of is None and found.metadata is None:
            return self._view(found, table, _as_read(table), table.read)
        if isinstance(as_of, str):
            asked = version(table, as_of)
        else:
            asked = {} if as_of is None else {"timestamp": as_of // MICROS_OF_MILLI}
        frame = queries.rows_of(found, asked)
        return self._view(found, table, frame.schema, lambda: frame)

    def _view(self, found: Found, table: Table, schema: StructType, find: Any) -> Any:
        comments = {one.name: one.description for one in table.schema.fields if one.description}
        for one in schema:
            if found.metadata is None and one.name in comments:
                one.metadata = {"comment": comments[one.name]}
        keys = table.schema.primary_keys
        options = {**table.options, **({KEY: ",".join(keys)} if keys else {})}
        name = "$".join(
            filter(None, (found.table, found.branch and f"branch_{found.branch}", found.metadata))
        )
        return self._views.table(
            (self._name, found.database, name),
            schema,
            find,
            partition_by=table.schema.partition_keys if found.metadata is None else (),
            properties=dict(sorted(options.items())) if found.metadata is None else {},
            comment=table.schema.comment,
        )

    def _writable(self, found: Found, table: Table, undo: Any = None) -> Any:
        described = self._view(found, table, spark_schema(table.schema.fields), table.read)
        return WritableTable(self._machine, table, self._full(found), described, undo).offered()

    def _full(self, found: Found) -> str:
        return f"{self._name}.{found.name}"

    def _place(self, identifier: Any) -> Found | None:
        namespace = list(identifier.namespace()) or [DEFAULT]
        return self._queries.names.place((self._name, *namespace, identifier.name()))

    def _found(self, identifier: Any) -> Found:
        """Return a table of ours that is there, and otherwise raise what Spark takes for "not found"."""
        found = self._place(identifier)
        if found is None or not self._warehouse.has_table(found.name):
            raise self._machine.error(f"{ANALYSIS}NoSuchTableException", identifier)
        return found

    # Definitions

    def create_table(self, identifier: Any, *definition: Any) -> Any:
        """Make a table, and return it. ``definition``: columns, partitioning and properties, or an object of them.

        Clauses: WH-42.
        """
        found = self._place(identifier)
        if found is None or found.metadata is not None or found.branch is not None:
            raise InvalidRequestError(f"CREATE TABLE {identifier.toString()}: expected database.table")
        if not self.namespace_exists([found.database]):
            raise self._machine.error(
                f"{ANALYSIS}NoSuchNamespaceException", self._machine.strings([found.database])
            )
        if len(definition) == 1:
            info = definition[0]
            definition = (info.columns(), info.partitions(), info.properties())
        columns, partitioning, properties = definition
        try:
            table = define(
                self._warehouse,
                found.name,
                self._columns(columns),
                _options(properties),
                [_partition_column(one) for one in partitioning],
                properties.get("comment") or "",
            )
        except InvalidRequestError:
            if self._warehouse.has_table(found.name):  # another was faster
                raise self._machine.error(f"{ANALYSIS}TableAlreadyExistsException", identifier) from None
            raise
        return self._writable(found, table, undo=lambda: undo(self._warehouse, found.name, table))

    def _columns(self, columns: Any) -> StructType:
        struct = self._machine.single(f"{CATALOG}CatalogV2Util").v2ColumnsToStructType(columns)
        return plain(StructType.fromJson(json.loads(struct.json())))

    def stage_create(self, identifier: Any, *definition: Any) -> Any:
        return self.create_table(identifier, *definition)

    def stage_replace(self, identifier: Any, *definition: Any) -> Any:
        raise InvalidRequestError("REPLACE TABLE: not supported; DROP the table, and CREATE it")

    def stage_create_or_replace(self, identifier: Any, *definition: Any) -> Any:
        return self.stage_replace(identifier)

    def alter_table(self, identifier: Any, changes: Any) -> Any:
        """Change the schema or the options of a table. Clauses: WH-42."""
        try:
            found = self._of_warehouse(identifier, "ALTER")
            table = self._queries.names.open(found)
            alter(table, changes)
        except PkTableError as error:  # Spark wraps what the JVM calls an illegal argument here
            raise self._machine.refusal(str(error)) from error
        return self._view(found, table, _as_read(table), table.read)

    def drop_table(self, identifier: Any) -> bool:
        if not self.table_exists(identifier):
            return False
        self._warehouse.drop_table(self._of_warehouse(identifier, "DROP").name)
        return True

    def purge_table(self, identifier: Any) -> bool:
        return self.drop_table(identifier)

    def rename_table(self, old: Any, new: Any) -> None:
        """Give a table another name, as Spark does in its database unless a database is given.

        The new name has the catalog before it, too, if the statement has. Clauses: WH-42.
        """
        parts = (*new.namespace(), new.name())
        found = self._of_warehouse(old, "RENAME")
        target = self._place(new) if len(parts) < 3 else self._queries.names.place(parts)
        if target is None or target.metadata is not None or target.branch is not None:
            raise InvalidRequestError(f"RENAME TO {new.toString()}: expected a name such as database.table")
        database = target.database if len(parts) > 1 else found.database
        self._warehouse.rename_table(found.name, f"{database}.{target.table}")

    def _of_warehouse(self, identifier: Any, what: str) -> Found:
        found = self._found(identifier)
        if found.metadata is not None or (found.branch is not None and what != "ALTER"):
            raise InvalidRequestError(f"{what} TABLE {identifier.toString()}: expected database.table")
        return found


def _as_read(table: Table) -> StructType:
    """Return the columns of a read: what is NOT NULL inside of a column may be null there. Clauses: WH-50."""
    known = spark_schema(table.schema.fields)
    found: StructType = known.toNullable()
    for one, before in zip(found, known, strict=True):
        one.nullable = before.nullable
    return found


def _options(properties: Any) -> Mapping[str, str]:
    """Return the options among the properties of a CREATE TABLE. Raises InvalidRequestError."""
    given = {name: properties[name] for name in properties}
    provider = given.pop("provider", PROVIDERS[0])
    if provider.lower() not in PROVIDERS:
        raise InvalidRequestError(
            f"CREATE TABLE USING {provider}: expected none, or {' or '.join(PROVIDERS)}"
        )
    for name in ("location", "external"):
        if name in given:
            raise InvalidRequestError(f"CREATE TABLE: {name} is not supported; a table lies in its warehouse")
    # OPTIONS (…) come twice, once with a prefix.
    others = (*GIVEN_BY_SPARK, "comment")
    return {
        name: value for name, value in given.items() if name not in others and not name.startswith("option.")
    }


def _partition_column(transform: Any) -> str:
    """Return the column of PARTITIONED BY. Raises InvalidRequestError for a transform of one."""
    parts = list(transform.references()[0].fieldNames()) if transform.name() == "identity" else []
    if len(parts) != 1:
        raise InvalidRequestError(
            f"PARTITIONED BY {transform.toString()}: expected the name of a column of the table"
        )
    return str(parts[0])
