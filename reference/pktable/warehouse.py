"""A warehouse: databases of tables by name, in Paimon's layout.

A warehouse is a directory. A database is a directory ``<name>.db`` in it, and a table a directory in that. There is no
other record of either, so a warehouse that Paimon's file-system catalog made is one of ours, and ours is one of
Paimon's.

    warehouse = Warehouse("lake")
    warehouse.create_table("shop.orders", "id BIGINT, city STRING", primary_key="id")
    warehouse.table("shop.orders").upsert(rows)

Clauses: WH-1 to WH-7, WH-31.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from pktable_spec.errors import InvalidRequestError

from pktable.catalog.arguments import expect_location
from pktable.format.bounds import is_file_name
from pktable.run.runner import Runner
from pktable.store.directories import (
    DATABASE,
    DEFAULT,
    MARKER,
    expect_no_remains,
    is_table,
    make_directory,
    move_directory,
    remove_directory,
    remove_empty_directory,
)
from pktable.store.file_io import FileIO, open_store
from pktable.store.guard import ExternalRoots, NamedFailures
from pktable.store.object_store import ObjectStoreIO, is_object_uri
from pktable.table import Table, runner_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

NEW_NAME: Final = re.compile(r"\w[\w-]*")
NAMES_SHOWN: Final = 10
SERVERS: Final = ("http", "https", "rest", "thrift", "jdbc")
"""The beginnings of addresses of catalogs that are servers."""


class Warehouse:
    """The databases and tables below one directory.

    * ``path``: a local path or a URI; with ``store``, the directory as that store spells it. It need not be there yet.
    * ``store``, ``storage_options``, ``spark``, ``runner``, ``external_roots``: for all tables, as in `Table.open`.

    Tables are named ``database.table``; without a database they are in ``default``.
    Raises InvalidRequestError for a path or an option that no store has, and for a server. Clauses: WH-1, WH-27.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        store: FileIO | None = None,
        storage_options: Mapping[str, str] | None = None,
        spark: SparkSession | None = None,
        runner: Runner | str | None = None,
        external_roots: ExternalRoots = (),
    ) -> None:
        expect_location(path, "warehouse")
        scheme = os.fspath(path).partition(":")[0].lower()
        if store is None and scheme in SERVERS:
            raise InvalidRequestError(
                f"path: expected a directory, found {os.fspath(path)!r}: catalogs of servers (REST, Hive, JDBC) are "
                "not supported; give the directory of the warehouse itself"
            )
        if store is not None and storage_options:
            raise InvalidRequestError(
                "give either store=… or storage_options=…: a store has its options already"
            )
        runner_of(spark, runner)  # refused here, not at the first table
        found = open_store(path, storage_options) if store is None else (store, os.fspath(path))
        self.store, self.path = found[0], found[1].rstrip("/")
        self._settings: dict[str, Any] = {"spark": spark, "runner": runner, "external_roots": external_roots}

    def __repr__(self) -> str:
        return f"<Warehouse {self.path}>"

    # Databases

    def databases(self) -> list[str]:
        """Return the names of the databases, sorted. Clauses: WH-1."""
        return [
            name.removesuffix(DATABASE)
            for name in self._names(self.path)
            if name.endswith(DATABASE) and name != DATABASE
        ]

    def create_database(self, name: str, *, if_not_exists: bool = False) -> None:
        """Make an empty database. Raises InvalidRequestError if it is there, unless ``if_not_exists``.

        Clauses: WH-3, WH-7.
        """
        _expect_new_name("database", name)
        if name not in self.databases():
            place = self._database(name)
            with NamedFailures("make", place):
                make_directory(self.store, place)
        elif not if_not_exists:
            raise InvalidRequestError(f"database {name}: it is there already")

    def drop_database(self, name: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Remove a database. ``cascade``: with its tables, otherwise it must be empty.

        Raises InvalidRequestError, and then removes nothing, if it is not there, unless ``if_exists``, if it has
        tables, or if anything lies in it that is no table. Clauses: WH-5.
        """
        if if_exists and name not in self.databases():
            return
        self._expect_database(name)
        tables, place = self._tables_of(name), self._database(name)
        others = set(self._names(place)) - {MARKER, *tables}
        if others:
            raise InvalidRequestError(
                f"database {name}: it cannot be dropped, because {place}/{min(others)} is no table; move it elsewhere"
            )
        if tables and not cascade:
            raise InvalidRequestError(
                f"database {name}: it has tables ({_some(tables)}); drop them first, or with cascade"
            )
        for table in tables:
            self.drop_table(f"{name}.{table}")
        with NamedFailures("remove", place):
            remove_empty_directory(self.store, place)

    # Tables

    def tables(self, database: str | None = None) -> list[str]:
        """Return the names of the tables of ``database``; without it all, each as ``database.table``. Sorted.

        Raises InvalidRequestError if the database is not there. Clauses: WH-1.
        """
        if database is not None:
            self._expect_database(database)
            return self._tables_of(database)
        return [f"{one}.{table}" for one in self.databases() for table in self._tables_of(one)]

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of this name. Clauses: WH-1."""
        path = self.path_of(name)
        with NamedFailures("list", path):
            return is_table(self.store, path)

    def table(
        self, name: str, *, ignore_options: str | Sequence[str] = (), branch: str | None = None
    ) -> Table:
        """Open a table. ``ignore_options``, ``branch``: as in `Table.open`.

        Raises InvalidRequestError, with names that are like it, if it is not there, and as `Table.open` does.
        Clauses: WH-1, WH-2.
        """
        self._expect_table(name)
        return Table.open(
            self.path_of(name),
            store=self.store,
            ignore_options=ignore_options,
            branch=branch,
            **self._settings,
        )

    def at(self, path: str, *, branch: str | None = None) -> Table:
        """Open a table that is anywhere, with the settings of this warehouse but its store. Raises as `Table.open`."""
        return Table.open(path, storage_options=self._storage_options(path), branch=branch, **self._settings)

    def query(self, text: str, *, database: str = DEFAULT) -> pa.Table:
        """Return the rows of a query in Spark's SQL, computed by DuckDB. ``database``: of names without one.

        Raises InvalidRequestError for other statements and for what DuckDB cannot compute, SnapshotNotFoundError and
        CorruptFileError. `pktable.session` carries out everything. Clauses: WH-16.
        """
        from pktable.sql.local import query  # late: it brings sqlglot

        return query(self, text, database=database)

    def create_table(
        self,
        name: str,
        columns: Any,
        *,
        primary_key: str | Sequence[str] | None,
        partition_by: str | Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        comment: str = "",
        if_not_exists: bool = False,
    ) -> Table:
        """Create an empty table and open it. Arguments: as in `Table.create`.

        ``if_not_exists``: open the table that is there, whatever its columns.
        Raises InvalidRequestError if the database or the table is wrong, or not there, or there. Clauses: WH-2, WH-3.
        """
        database, table = _parts(name)
        _expect_new_name("table", table)
        if database == DEFAULT:
            self.create_database(DEFAULT, if_not_exists=True)
        self._expect_database(database)
        if self.has_table(name):
            if if_not_exists:
                return self.table(name)
            raise InvalidRequestError(f"table {database}.{table}: it is there already")
        Table.create(
            self.path_of(name),
            columns,
            primary_key=primary_key,
            partition_by=partition_by,
            options=options,
            comment=comment,
            store=self.store,
        )
        return self.table(name)

    def drop_table(self, name: str, *, if_exists: bool = False) -> None:
        """Remove a table and all that its directory holds. Files at external paths stay.

        An object store removes file after file: let nobody make a table of that name before this has ended.
        Raises InvalidRequestError if it is not there, unless ``if_exists``; and, whatever that says, if its directory
        has snapshots without a schema, which stay. Clauses: WH-4, WH-31.
        """
        path = self.path_of(name)
        if if_exists and not self.has_table(name):
            self._expect_no_remains(path)
            return
        try:
            self._expect_table(name)
            with NamedFailures("remove", path):
                remove_directory(self.store, path, aside=self.path, last="schema")
        except InvalidRequestError:
            if not if_exists or self.has_table(name):  # else another process was faster
                raise
            self._expect_no_remains(path)

    def rename_table(self, name: str, to: str) -> None:
        """Give a table another name; ``to`` without a database stays in the same one. Stop its writers before.

        Raises InvalidRequestError if it is not there, the new name is taken or not allowed, or the store moves no
        directory in one step, as object stores. Clauses: WH-3, WH-6.
        """
        self._expect_table(name)
        database, _ = _parts(name)
        target, table = _parts(to if "." in to else f"{database}.{to}")
        _expect_new_name("table", table)
        self._expect_database(target)
        if self.has_table(f"{target}.{table}"):
            raise InvalidRequestError(f"table {target}.{table}: it is there already")
        self._expect_no_remains(self.path_of(f"{target}.{table}"))
        path = self.path_of(name)
        with NamedFailures("rename", path):
            move_directory(self.store, path, self.path_of(f"{target}.{table}"))

    def path_of(self, name: str) -> str:
        """Return the directory of a table, whether it is there or not. Raises InvalidRequestError for no name.

        Clauses: WH-1.
        """
        database, table = _parts(name)
        return f"{self._database(database)}/{table}"

    def _storage_options(self, path: str) -> dict[str, str] | None:
        if not isinstance(self.store, ObjectStoreIO) or not is_object_uri(path):
            return None
        return dict(self.store.storage_options)

    @property
    def spark(self) -> SparkSession | None:
        """The session that tables are opened with."""
        session: SparkSession | None = self._settings["spark"]
        return session

    def hint(self, name: str) -> str:
        """Return words about the tables that are like ``name``, or those there are. Clauses: WH-2."""
        database, table = _parts(name)
        return _hint(table, self._tables_of(database))

    def _database(self, name: str) -> str:
        return f"{self.path}/{name}{DATABASE}"

    def _tables_of(self, database: str) -> list[str]:
        place = self._database(database)
        names = [name for name in self._names(place) if not name.startswith(".")]
        with NamedFailures("list", place):
            return [name for name in names if is_table(self.store, f"{place}/{name}")]

    def _names(self, directory: str) -> list[str]:
        with NamedFailures("list", directory):
            return sorted(self.store.list_names(directory))

    def _expect_database(self, name: str) -> None:
        found = self.databases()
        if name not in found:
            raise InvalidRequestError(f"database {name!r}: not in {self.path}; {_hint(name, found)}")

    def _expect_no_remains(self, path: str) -> None:
        with NamedFailures("list", path):
            expect_no_remains(self.store, path)

    def _expect_table(self, name: str) -> None:
        """Raise InvalidRequestError unless the table is there. Its database is looked for only if it is not."""
        if not self.has_table(name):
            database, table = _parts(name)
            self._expect_database(database)
            self._expect_no_remains(self.path_of(name))
            raise InvalidRequestError(
                f"table {database}.{table}: not in {self.path}; {_hint(table, self._tables_of(database))}"
            )


def _parts(name: str) -> tuple[str, str]:
    """Return the names of the database and the table. Raises InvalidRequestError if either cannot be one."""
    if not isinstance(name, str):
        raise InvalidRequestError(f"table: expected a name such as database.table, found {name!r}")
    database, _, table = name.rpartition(".") if name.count(".") < 2 else name.partition(".")
    database = database or DEFAULT
    if not all(part == part.strip() and is_file_name(part) for part in (database + DATABASE, table)):
        raise InvalidRequestError(f"table {name!r}: expected a name such as database.table")
    return database, table


def _expect_new_name(what: str, name: str) -> None:
    """Raise InvalidRequestError unless a database or table may be called so. Clauses: WH-3."""
    if not isinstance(name, str) or not NEW_NAME.fullmatch(name) or not is_file_name(name + DATABASE):
        raise InvalidRequestError(
            f"{what} {name!r}: expected a name of letters, digits, _ and - that begins with none of -"
        )


def _hint(name: str, found: Sequence[str]) -> str:
    close = get_close_matches(name, found, n=1)
    if close:
        return f"did you mean {close[0]}?"
    return f"there are {_some(found)}" if found else "there are none"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


__all__ = ["Warehouse"]
