"""The commands about a warehouse: what is in it, and SQL by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pktable_spec.errors import InvalidRequestError

from pktable.cli.app import (
    OnSpark,
    Output,
    Quiet,
    StorageOptions,
    app,
    external_roots,
    spark_session,
    storage_options,
)
from pktable.cli.output import Format, print_rows

if TYPE_CHECKING:
    from pktable.warehouse import Warehouse

WarehousePath = Annotated[str, typer.Argument(metavar="WAREHOUSE", help="Directory or URI of the warehouse.")]


@app.command()
def ls(
    warehouse: WarehousePath,
    database: Annotated[str | None, typer.Argument(metavar="[DB]", help="Only this database.")] = None,
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
) -> None:
    """List the databases and tables of a warehouse. A database without tables has one line, without a table."""
    import pyarrow as pa

    found = open_warehouse(warehouse, storage)
    wanted = found.databases() if database is None else [database]
    rows = [(name, table) for name in wanted for table in (found.tables(name) or (None,))]
    columns = {"database": [name for name, _ in rows], "table": [table for _, table in rows]}
    print_rows(pa.table({name: pa.array(texts, pa.string()) for name, texts in columns.items()}), output)


@app.command()
def sql(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="A statement in Spark's SQL.")],
    warehouse: Annotated[str, typer.Option(metavar="PATH", help="Directory or URI of the warehouse.")],
    database: Annotated[str, typer.Option(metavar="DB", help="Database of names without one.")] = "default",
    output: Output = Format.TABLE,
    storage: StorageOptions = None,
    quiet: Quiet = False,
    spark: OnSpark = False,
) -> None:
    """Carry out a statement about tables by name. Without --spark a query, computed by DuckDB.

    Tables are named database.table. `t$snapshots`, in backquotes, is a metadata table.
    """
    if not spark:
        from pktable.sql.local import NeedsSparkError

        try:
            print_rows(open_warehouse(warehouse, storage).query(statement, database=database), output)
        except NeedsSparkError as needs:
            raise InvalidRequestError(f"{needs.problem}; add --spark") from None
        return
    from pktable.spark_sql.session import carried_out
    from pktable.warehouse import Warehouse

    options, roots = storage_options(storage), external_roots()
    found = Warehouse(warehouse, storage_options=options, external_roots=roots, spark=spark_session())
    rows = carried_out(found, statement, database)
    if rows.num_columns:
        print_rows(rows, output)


def open_warehouse(path: str, storage: list[str] | None) -> Warehouse:
    """Open a warehouse that is there. Raises InvalidRequestError."""
    from pktable.store.directories import tables_in
    from pktable.warehouse import Warehouse

    found = Warehouse(path, storage_options=storage_options(storage), external_roots=external_roots())
    if not found.databases():
        tables = tables_in(found.store, found.path)
        inside = f"tables without a database: {', '.join(tables[:3])}" if tables else "none"
        raise InvalidRequestError(
            f"{path}: expected a warehouse, which is a directory of databases <name>.db, found {inside}"
        )
    return found
