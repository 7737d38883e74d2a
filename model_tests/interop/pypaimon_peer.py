"""pypaimon, driven by commands: it reads every snapshot and writes level 0, in an environment of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from pypaimon import CatalogFactory
from pypaimon.common.predicate import Predicate
from pypaimon.common.predicate_builder import PredicateBuilder
from pypaimon.schema.data_types import PyarrowFieldParser
from pypaimon.table.file_store_table import FileStoreTable

from model_tests.interop.answering import Rows, answer_commands, outcome, retained_snapshots
from model_tests.interop.plain import array_of, rows_of, table_of

COMPARISONS = {
    "=": PredicateBuilder.equal,
    "<>": PredicateBuilder.not_equal,
    "<": PredicateBuilder.less_than,
    "<=": PredicateBuilder.less_or_equal,
    ">": PredicateBuilder.greater_than,
    ">=": PredicateBuilder.greater_or_equal,
}


def _table(path: str, branch: str | None = None) -> FileStoreTable:
    """Open a table by its path, which has the form WAREHOUSE/DATABASE.db/TABLE, or a branch of it."""
    where = Path(path + (f"$branch_{branch}" if branch else ""))
    catalog = CatalogFactory.create({"warehouse": str(where.parents[1])})
    return catalog.get_table(f"{where.parent.name.removesuffix('.db')}.{where.name}")


def read(command: Mapping[str, Any]) -> dict[str, object]:
    branch = command.get("on")
    table = _table(command["table"], branch)
    own = command["table"] + (f"/branch/branch-{branch}" if branch else "")
    return {
        str(id): outcome(partial(_rows, table.copy({"scan.snapshot-id": str(id)}), command.get("where")))
        for id in retained_snapshots(own)
    }


def read_latest(command: Mapping[str, Any]) -> Rows:
    """Return the rows of the table, or of its branch ``on``."""
    return _rows(_table(command["table"], command.get("on")), None)


def read_tag(command: Mapping[str, Any]) -> Rows:
    table = _table(command["table"], command.get("on"))
    return _rows(table.copy({"scan.tag-name": command["name"]}), None)


def _rows(table: FileStoreTable, where: list[list[str]] | None) -> Rows:
    builder = table.new_read_builder()
    if where:
        builder = builder.with_filter(_predicate(table, where))
    return rows_of(builder.new_read().to_arrow(builder.new_scan().plan().splits()))


def _predicate(table: FileStoreTable, where: list[list[str]]) -> Predicate:
    schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    builder = PredicateBuilder(table.fields)
    parts = [
        COMPARISONS[operator](builder, column, array_of([literal], schema.field(column).type)[0].as_py())
        for column, operator, literal in where
    ]
    return builder.and_predicates(parts)


def write(command: Mapping[str, Any]) -> None:
    """Commit level-0 files. Raises TypeError for retractions: there is no way to say what a row does."""
    table = _table(command["table"])
    schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    builder = table.new_batch_write_builder()
    table_write, table_commit = builder.new_write(), builder.new_commit()
    if any(row[0] in ("-U", "-D") for row in command["rows"]):
        parameters = list(signature(table_write.write_arrow).parameters)
        if parameters == ["data", "bucket"]:
            raise TypeError(f"write_arrow has no parameter for row kinds: {parameters}")
        raise NotImplementedError(f"write_arrow may take row kinds now: {parameters}")
    table_write.write_arrow(table_of([row[1:] for row in command["rows"]], schema))
    table_commit.commit(table_write.prepare_commit())
    table_write.close()
    table_commit.close()


def compact(command: Mapping[str, Any]) -> None:
    """Raise AttributeError: a table has nothing that compacts it."""
    table = _table(command["table"])
    for part in (table, table.new_batch_write_builder(), table.new_batch_write_builder().new_write()):
        found = [name for name in dir(part) if "compact" in name.lower()]
        if found:
            raise NotImplementedError(f"{type(part).__name__} may compact now: {found}")
    raise AttributeError("no method that compacts")


if __name__ == "__main__":
    answer_commands(
        {
            "hello": lambda _: None,
            "read": read,
            "read latest": read_latest,
            "read tag": read_tag,
            "write": write,
            "compact": compact,
        }
    )
