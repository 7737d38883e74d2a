"""Rows on standard output: a table for people, JSON lines and CSV for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pktable.cli.values import to_json, to_text
from pktable.format.types import from_arrow, values_of

BATCH_ROWS: Final = 4096
MOST_ROWS: Final = 1000  # of a table for people


class Format(str, Enum):
    """How rows are printed."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


def print_rows(rows: pa.Table, output: Format) -> None:
    """Print ``rows``. Raises BrokenPipeError when nobody reads any more."""
    if output is Format.TABLE:
        _print_table(rows)
        return
    names = rows.column_names
    if output is Format.CSV:
        sys.stdout.write(",".join(map(to_text, names)) + "\n")
    for values in json_rows(rows):
        if output is Format.CSV:
            # A row that is nothing but one null would be an empty line, which is no row.
            line = ",".join(map(to_text, values)) or ("," if len(names) > 1 else "")
        else:
            line = json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)
        sys.stdout.write(line + "\n")


def json_rows(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield each row as values that `json` writes."""
    kinds = [from_arrow(field.type) for field in rows.schema]
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        columns = [
            [to_json(value, kind) for value in values_of(column, kind)]
            for column, kind in zip(batch.columns, kinds, strict=True)
        ]
        yield from zip(*columns, strict=True)


def _print_table(rows: pa.Table) -> None:
    console = Console(width=None if sys.stdout.isatty() else 10_000)
    table = Table()
    for field in rows.schema:
        numeric = (
            pa.types.is_integer(field.type)
            or pa.types.is_decimal(field.type)
            or pa.types.is_floating(field.type)
        )
        table.add_column(Text(field.name), justify="right" if numeric else "left", overflow="fold")
    for values in json_rows(rows.slice(0, MOST_ROWS)):
        table.add_row(
            *(
                Text("NULL", "dim") if v is None else Text(v if isinstance(v, str) else json.dumps(v))
                for v in values
            )
        )
    console.print(table)
    if rows.num_rows > MOST_ROWS:
        console.print(f"{MOST_ROWS} of {rows.num_rows} rows; jsonl and csv print them all")
