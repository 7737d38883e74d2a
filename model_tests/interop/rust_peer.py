"""pypaimon-rust, driven by commands: it reads every snapshot and writes level 0, in an environment of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pypaimon_rust.datafusion import PaimonCatalog, SQLContext, Table

from model_tests.interop.answering import METHODS, Rows, answer_commands, outcome, retained_snapshots
from model_tests.interop.plain import array_of, rows_of, table_of


def _table(path: str) -> Table:
    """Open a table by its path, which has the form WAREHOUSE/DATABASE.db/TABLE."""
    where = Path(path)
    catalog = PaimonCatalog({"warehouse": str(where.parents[1])})
    return catalog.get_table((where.parent.name.removesuffix(".db"), where.name))


def read(command: Mapping[str, Any]) -> dict[str, object]:
    table = _table(command["table"])
    return {
        str(id): outcome(partial(_rows, table, {"scan.snapshot-id": str(id)}, command.get("where")))
        for id in retained_snapshots(command["table"])
    }


def read_latest(command: Mapping[str, Any]) -> Rows:
    return _rows(_table(command["table"]), {}, None)


def read_tag(command: Mapping[str, Any]) -> Rows:
    return _rows(_table(command["table"]), {"scan.tag-name": command["name"]}, None)


def _rows(table: Table, travel: dict[str, str], where: list[list[str]] | None) -> Rows:
    builder = table.new_read_builder(travel)
    if where:
        parts = [
            {"method": METHODS[operator], "field": column, "literals": [_literal(table, column, literal)]}
            for column, operator, literal in where
        ]
        builder = builder.with_filter(parts[0] if len(parts) == 1 else {"method": "and", "children": parts})
    splits = builder.new_scan().plan().splits()
    if not splits:
        return []
    batches = builder.new_read().read(splits)
    return rows_of(pa.Table.from_batches(batches)) if batches else []


def _literal(table: Table, column: str, text: str) -> object:
    """Return a literal for the key columns that conditions are drawn for: integers and strings."""
    field = next(field for field in table.schema().fields() if field.name() == column)
    kind = (
        pa.string()
        if "CHAR" in field.field_type().upper() or "STRING" in field.field_type().upper()
        else pa.int64()
    )
    return array_of([text], kind)[0].as_py()


def write(command: Mapping[str, Any]) -> None:
    """Commit level-0 files. Raises ValueError for retractions, which `sql` is asked for instead."""
    kinds = {row[0] for row in command["rows"]}
    if not kinds <= {"+I", "+U"}:
        raise ValueError(f"pypaimon-rust writes inserts only, asked for {sorted(kinds)}")
    table = _table(command["table"])
    builder = table.new_batch_write_builder()
    table_write, table_commit = builder.new_write(), builder.new_commit()
    schema = _schema(table, bytes.fromhex(command["arrow_schema"]))
    for batch in table_of([row[1:] for row in command["rows"]], schema).combine_chunks().to_batches():
        table_write.write_arrow(batch)
    table_commit.commit(table_write.prepare_commit())


def _schema(table: Table, ours: bytes) -> pa.Schema:
    """Return the Arrow schema that the writer asks for: ours, but for timestamps of whole seconds."""
    types = {field.name(): field.field_type().upper() for field in table.schema().fields()}
    return pa.schema(
        [
            field.with_type(pa.timestamp("s", field.type.tz))
            if "TIMESTAMP(0)" in types[field.name]
            else field
            for field in pa.ipc.read_schema(pa.BufferReader(ours))
        ]
    )


def sql(command: Mapping[str, Any]) -> None:
    """Carry out one SQL statement; ``{table}`` in it stands for the table."""
    where = Path(command["table"])
    context = SQLContext()
    context.register_catalog("paimon", {"warehouse": str(where.parents[1])})
    name = f"paimon.{where.parent.name.removesuffix('.db')}.{where.name}"
    context.sql(command["statement"].format(table=name))


def compact(command: Mapping[str, Any]) -> None:
    """Call the procedure that compacts a table on other engines."""
    sql({**command, "statement": "CALL sys.compact(table => '{table}')"})


if __name__ == "__main__":
    answer_commands(
        {
            "hello": lambda _: None,
            "read": read,
            "read latest": read_latest,
            "read tag": read_tag,
            "write": write,
            "compact": compact,
            "sql": sql,
        }
    )
