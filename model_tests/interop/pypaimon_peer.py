"""pypaimon, driven by commands: it reads every snapshot and writes level 0, in an environment of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pypaimon import CatalogFactory
from pypaimon.common.predicate import Predicate
from pypaimon.common.predicate_builder import PredicateBuilder
from pypaimon.schema.data_types import PyarrowFieldParser
from pypaimon.table.file_store_table import FileStoreTable

from model_tests.interop.answering import METHODS, Rows, answer_commands, outcome, retained_snapshots
from model_tests.interop.plain import array_of, rows_of, table_of


def _table(path: str) -> FileStoreTable:
    """Open a table by its path, which has the form WAREHOUSE/DATABASE.db/TABLE."""
    where = Path(path)
    catalog = CatalogFactory.create({"warehouse": str(where.parents[1])})
    return catalog.get_table(f"{where.parent.name.removesuffix('.db')}.{where.name}")


def read(command: Mapping[str, Any]) -> dict[str, object]:
    table = _table(command["table"])
    return {
        str(id): outcome(partial(_rows, table.copy({"scan.snapshot-id": str(id)}), command.get("where")))
        for id in retained_snapshots(command["table"])
    }


def read_tag(command: Mapping[str, Any]) -> Rows:
    return _rows(_table(command["table"]).copy({"scan.tag-name": command["name"]}), None)


def _rows(table: FileStoreTable, where: list[list[str]] | None) -> Rows:
    builder = table.new_read_builder()
    if where:
        builder = builder.with_filter(_predicate(table, where))
    return rows_of(builder.new_read().to_arrow(builder.new_scan().plan().splits()))


def _predicate(table: FileStoreTable, where: list[list[str]]) -> Predicate:
    schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    builder = PredicateBuilder(table.fields)
    parts = [
        builder._build_predicate(
            METHODS[operator], column, [array_of([literal], schema.field(column).type)[0].as_py()]
        )
        for column, operator, literal in where
    ]
    return builder.and_predicates(parts)


def write(command: Mapping[str, Any]) -> None:
    """Commit level-0 files. pypaimon has no way to write a retraction of a table without `rowkind.field`."""
    table = _table(command["table"])
    kinds = {row[0] for row in command["rows"]}
    if not kinds <= {"+I", "+U"}:
        raise ValueError(f"pypaimon writes inserts only, asked for {sorted(kinds)}")
    schema = PyarrowFieldParser.from_paimon_schema(table.fields)
    builder = table.new_batch_write_builder()
    table_write, table_commit = builder.new_write(), builder.new_commit()
    table_write.write_arrow(table_of([row[1:] for row in command["rows"]], schema))
    table_commit.commit(table_write.prepare_commit())
    table_write.close()
    table_commit.close()


if __name__ == "__main__":
    answer_commands({"hello": lambda _: None, "read": read, "read tag": read_tag, "write": write})
