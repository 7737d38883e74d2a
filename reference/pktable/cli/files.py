"""Files of rows to write into a table: Parquet, CSV, JSON lines.

In CSV a field that is not there at all is null and ``""`` is the empty string. Values are spelled as in
`pktable.cli.values`; a column named by ``--row-kind`` holds +I, -U, +U, -D or 0..3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from pktable_spec.errors import InvalidRequestError
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS

from pktable.cli.values import as_column, from_json, from_text, load
from pktable.format.types import DataType, Field

ROW_KIND_ID: Final = -1  # of a column that is none of the table's
SYMBOL_OF_NUMBER: Final = {str(number): symbol for number, symbol in enumerate(ROW_KIND_SYMBOLS)}
BLOCK_BYTES: Final = 1 << 20  # that are parsed at once
MOST_BLOCK_BYTES: Final = (1 << 31) - 1
ROW_TOO_LONG: Final = "straddling object"  # how Arrow calls a row that ends in none of two blocks


def read_rows(path: Path, fields: Sequence[Field], row_kind: str | None) -> pa.Table:
    """Return the rows of a file, text converted to the types of ``fields``. Raises InvalidRequestError."""
    readers = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidRequestError(
            f"{path}: expected a file named {', '.join(readers)}, found {path.suffix or 'none'}"
        )
    known = {field.name: field for field in fields}
    if row_kind is not None:
        known[row_kind] = Field(ROW_KIND_ID, row_kind, DataType("STRING"))
    try:
        return reader(path, known)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"{path}: {error}") from None


def _parquet(path: Path, known: Mapping[str, Field]) -> pa.Table:
    return pq.read_table(path)


def _csv(path: Path, known: Mapping[str, Field]) -> pa.Table:
    table = _csv_texts(path)
    columns = {name: table.column(name).to_pylist() for name in _expected(path, table.column_names, known)}
    return pa.table({name: _column(values, known[name], from_text) for name, values in columns.items()})


def _csv_texts(path: Path, block_bytes: int = BLOCK_BYTES) -> pa.Table:
    """Return the fields of a CSV file as text. A row longer than a block makes the blocks longer."""
    blocks = pc.ReadOptions(block_size=block_bytes)
    parse = pc.ParseOptions(newlines_in_values=True)
    try:
        with path.open("rb") as file:
            names = pc.open_csv(file, read_options=blocks, parse_options=parse).schema.names
        convert = pc.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        # With one column an empty line is a row that holds null.
        parse.ignore_empty_lines = len(names) > 1
        return pc.read_csv(path, read_options=blocks, convert_options=convert, parse_options=parse)
    except pa.ArrowInvalid as error:
        longer = min(block_bytes * 8, MOST_BLOCK_BYTES)
        if ROW_TOO_LONG not in str(error) or block_bytes == longer or block_bytes > path.stat().st_size:
            raise
    return _csv_texts(path, longer)


def _jsonl(path: Path, known: Mapping[str, Field]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    with path.open(encoding="utf-8-sig") as file:  # with a byte order mark, as in CSV, or without
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = load(line)
            except ValueError as error:
                raise InvalidRequestError(f"{path}, line {number}: expected a JSON object: {error}") from None
            if not isinstance(row, dict):
                raise InvalidRequestError(
                    f"{path}, line {number}: expected a JSON object, found {line.strip()[:40]!r}"
                )
            rows.append(row)
    names = _expected(path, list(dict.fromkeys(name for row in rows for name in row)) or list(known), known)
    return pa.table(
        {name: _column([row.get(name) for row in rows], known[name], from_json) for name in names}
    )


def _column(values: list[Any], field: Field, convert: Callable[[Any, DataType], Any]) -> pa.Array:
    return as_column(list(map(_symbol, values)) if field.id == ROW_KIND_ID else values, field, convert)


def _symbol(value: Any) -> Any:
    """Return a row kind as its symbol; what is none as it is, for the table to refuse."""
    text = str(value) if type(value) is int else value
    return SYMBOL_OF_NUMBER.get(text, text) if isinstance(text, str) else text


def _expected(path: Path, names: Sequence[str], known: Mapping[str, Field]) -> Sequence[str]:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidRequestError(f"{path}: expected columns {', '.join(known)}, found {unknown[0]}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequestError(f"{path}: expected each column once, found {twice} twice")
    return names
