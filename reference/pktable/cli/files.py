"""Files of rows to write into a table: Parquet, CSV, JSON lines.

In CSV an empty field is NULL and ``""`` is the empty string. Values are spelled as in `pktable.cli.values`; a column
named by ``--row-kind`` holds +I, -U, +U, -D or 0..3. An error names the line where the row begins; the first is 1.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
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
STANDARD_INPUT: Final = "-"
END: Final = "\x1fend of file\x1f"  # a line after the last; an open quote takes it into its value
ROW_TOO_LONG: Final = "straddling object"  # how Arrow calls a row that ends in none of two blocks


@dataclass(frozen=True)
class RowFile:
    """A file of rows: where it is, and what messages call it."""

    path: Path
    name: str

    def __str__(self) -> str:
        return self.name


def read_rows(
    path: Path, fields: Sequence[Field], row_kind: str | None, written_as: str | None = None
) -> pa.Table:
    """Return the rows of a file, text converted to the types of ``fields``.

    ``path``: ``-`` is standard input. ``row_kind``: name of one more column, of row kinds. ``written_as``: parquet, csv
    or jsonl; by default the ending of the name. Raises InvalidRequestError, OSError.
    """
    readers = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}
    is_input = str(path) == STANDARD_INPUT
    if is_input and written_as is None:
        raise InvalidRequestError(
            "--input-format: expected parquet, csv or jsonl for standard input, found none"
        )
    suffix = path.suffix.lower() if written_as is None else f".{written_as}"
    reader = readers.get(suffix)
    if reader is None:
        raise InvalidRequestError(
            f"{path}: expected a file named {', '.join(readers)}, or --input-format, found {path.suffix or 'none'}"
        )
    known = {field.name: field for field in fields}
    if row_kind is not None:
        known[row_kind] = Field(ROW_KIND_ID, row_kind, DataType("STRING"))
    if not is_input:
        return reader(RowFile(path, str(path)), known)
    with NamedTemporaryFile(prefix="pktable-", suffix=suffix) as copy:  # a message reads it once more
        copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        return reader(RowFile(Path(copy.name), "standard input"), known)


def _parquet(file: RowFile, known: Mapping[str, Field]) -> pa.Table:
    try:
        return pq.read_table(file.path)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the file, not what is in it
            raise
        raise InvalidRequestError(f"{file}: expected a Parquet file, found other or damaged bytes") from None


# CSV


def _csv(file: RowFile, known: Mapping[str, Field]) -> pa.Table:
    try:
        table = _csv_texts(file)
        _expect_closed_quotes(file, table)
        names = _expected(file, table.column_names, known)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _csv_error(file, error) from None

    def place(row: int) -> str:
        line, _ = next(islice(_csv_records(file), row + 1, None), (0, 0))  # after the header
        return f"{file}: line {line}" if line else f"{file}: row {row + 1}"

    return pa.table(
        {name: _column(table.column(name).to_pylist(), known[name], from_text, place) for name in names}
    )


def _csv_texts(file: RowFile, block_bytes: int = BLOCK_BYTES) -> pa.Table:
    """Return the fields of a CSV file as text. A row longer than a block makes the blocks longer."""
    blocks = pc.ReadOptions(block_size=block_bytes)
    parse = pc.ParseOptions(newlines_in_values=True)
    try:
        with file.path.open("rb") as stream:
            names = pc.open_csv(stream, read_options=blocks, parse_options=parse).schema.names
        convert = pc.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        # With one column an empty line is a row that holds null.
        parse.ignore_empty_lines = len(names) > 1
        return pc.read_csv(file.path, read_options=blocks, convert_options=convert, parse_options=parse)
    except pa.ArrowInvalid as error:
        longer = min(block_bytes * 8, MOST_BLOCK_BYTES)
        if ROW_TOO_LONG not in str(error) or block_bytes == longer or block_bytes > file.path.stat().st_size:
            raise
    return _csv_texts(file, longer)


def _expect_closed_quotes(file: RowFile, table: pa.Table) -> None:
    """Raise InvalidRequestError if a quote is still open at the end of the file, which Arrow does not mind.

    The last value of such a file runs to its end. Only a file that looks like that is parsed once more.
    """
    for row in table.slice(max(0, table.num_rows - 1)).to_pylist():
        last = list(row.values())[-1]
        with file.path.open("rb") as stream:
            stream.seek(-1, 2)
            if last is None or (last and not last.encode().endswith(stream.read())):
                return
    for _ in _csv_records(file):
        pass


def _csv_error(file: RowFile, error: Exception) -> InvalidRequestError:
    """Return the error of a CSV file that Arrow has refused, with the line that it does not name."""
    _expect_utf8(file)
    records = _csv_records(file)
    _, columns = next(records, (0, 0))
    if not columns:
        return InvalidRequestError(f"{file}: expected a line of column names, found an empty file")
    for line, fields in records:
        if fields != columns:
            return InvalidRequestError(f"{file}: line {line}: expected {columns} columns, found {fields}")
    return InvalidRequestError(f"{file}: not readable as CSV: {error}")


def _csv_records(file: RowFile) -> Iterator[tuple[int, int]]:
    """Yield the first line and the number of fields of each record, that of the header first.

    It is slower than Arrow, and only for messages. Raises InvalidRequestError at the end if a quote is still open.
    """
    csv.field_size_limit(max(csv.field_size_limit(), file.path.stat().st_size + len(END)))
    columns = 0
    with file.path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(chain(stream, [END]))
        first = line = 1
        with suppress(csv.Error):  # what this parser refuses has no line
            for record in reader:
                if record == [END]:
                    return
                first = line
                columns = columns or len(record)
                if record or columns == 1:  # an empty line is a record only where there is one column
                    yield line, max(len(record), 1)
                line = reader.line_num + 1
            raise InvalidRequestError(f"{file}: line {first}: a quote is never closed")


def _expect_utf8(file: RowFile) -> None:
    """Raise InvalidRequestError with the first line of a file that is not UTF-8."""
    with file.path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                raise InvalidRequestError(f"{file}: line {number}: expected UTF-8 text") from None


# JSON lines


def _jsonl(file: RowFile, known: Mapping[str, Field]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    try:
        with file.path.open(encoding="utf-8-sig") as stream:  # a BOM is allowed, as in CSV
            for number, line in enumerate(stream, 1):
                if line.strip():
                    rows.append(_json_object(line, f"{file}: line {number}"))
                    lines.append(number)
    except UnicodeDecodeError:
        _expect_utf8(file)
        raise
    names = _expected(file, list(dict.fromkeys(name for row in rows for name in row)) or list(known), known)

    def place(row: int) -> str:
        return f"{file}: line {lines[row]}"

    return pa.table(
        {name: _column([row.get(name) for row in rows], known[name], from_json, place) for name in names}
    )


def _json_object(line: str, place: str) -> dict[str, Any]:
    try:
        row = load(line)
    except ValueError as error:
        raise InvalidRequestError(f"{place}: expected a JSON object: {error}") from None
    if not isinstance(row, dict):
        raise InvalidRequestError(f"{place}: expected a JSON object, found {line.strip()[:40]!r}")
    return row


# Columns


def _column(
    values: list[Any], field: Field, convert: Callable[[Any, DataType], Any], place: Callable[[int], str]
) -> pa.Array:
    found = list(map(_symbol, values)) if field.id == ROW_KIND_ID else values
    return as_column(found, field, convert, place)


def _symbol(value: Any) -> Any:
    """Return a row kind as its symbol; another value as it is, for the table to refuse."""
    text = str(value) if type(value) is int else value
    return SYMBOL_OF_NUMBER.get(text, text) if isinstance(text, str) else text


def _expected(file: RowFile, names: Sequence[str], known: Mapping[str, Field]) -> Sequence[str]:
    """Return ``names``. Raises InvalidRequestError unless each is a known column and none stands twice."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidRequestError(f"{file}: expected columns {', '.join(known)}, found {unknown[0]}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidRequestError(f"{file}: expected each column once, found {twice} twice")
    return names
