"""The results of commands on standard output: a table for people, JSON lines and CSV for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pktable_spec.errors import InvalidRequestError

from pktable.cli.progress import CONTROLS, printable

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

BATCH_ROWS: Final = 4096
MOST_ROWS: Final = 1000  # of a table for people
MOST_CHARACTERS: Final = 1000  # of a value in it; to fold a longer one takes time that grows with its square


class Format(str, Enum):
    """How a result is printed."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, in the plural if need be."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class ReaderGoneError(Exception):
    """Nobody reads standard output any more. Not a BrokenPipeError, of which typer makes exit code 1."""


def print_outcome(sentence: str, fields: Mapping[str, Any], output: Format) -> None:
    """Print what a command did: the sentence for people, one object of ``fields`` for programs.

    ``fields``: text, numbers, booleans, None and lists; a command's names never change.
    Raises ReaderGoneError.
    """
    _print(lambda: print("\n".join(_outcome(sentence, fields, output))))


def _outcome(sentence: str, fields: Mapping[str, Any], output: Format) -> list[str]:
    if output is Format.TABLE:
        return [printable(sentence)]
    if output is Format.JSONL:
        return [json_text(fields)]
    from pktable.cli.values import to_text

    return [",".join(map(to_text, values)) for values in (fields.keys(), fields.values())]


def print_change(
    done: str,
    would: str,
    commit: int | str | None,
    dry_run: bool,
    output: Format,
    *,
    commit_name: str = "snapshot",
    **fields: Any,
) -> None:
    """Print what a write, a delete or a compaction did, or would do. ``commit``: None if it made none."""
    made = "nothing to do" if commit is None else f"{done}, {commit_name} {commit}"
    outcome = {**fields, commit_name: commit, "dry_run": dry_run}
    print_outcome(would if dry_run else made, outcome, output)


def printed(lines: Iterable[str]) -> None:
    """Print lines, now. Raises ReaderGoneError."""
    _print(lambda: print("\n".join(lines)))


def print_rows(rows: pa.Table, output: Format) -> None:
    """Print ``rows``. Raises ReaderGoneError."""
    _print(lambda: PRINTERS[output](rows))


def _print(printer: Callable[[], None]) -> None:
    if sys.stdout is None:  # as it is where the process was given none
        return
    try:
        printer()
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGoneError from None


def json_rows(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield each row as values that `json` writes."""
    from pktable.cli.values import to_json
    from pktable.format.types import from_arrow, values_of

    kinds = [from_arrow(field.type) for field in rows.schema]
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        columns = [
            [to_json(value, kind) for value in values_of(column, kind)]
            for column, kind in zip(batch.columns, kinds, strict=True)
        ]
        yield from zip(*columns, strict=True)


def json_text(value: object) -> str:
    """Return ``value`` as JSON in which no character is one that a terminal obeys. Clauses: SAFE-4."""
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _print_jsonl(rows: pa.Table) -> None:
    names = rows.column_names
    if same := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise InvalidRequestError(
            f"--format jsonl: {names.count(same[0])} columns are named {same[0]}; name them apart by AS, or write csv"
        )
    for values in json_rows(rows):
        row = dict(zip(rows.column_names, values, strict=True))
        sys.stdout.write(json_text(row) + "\n")


def _print_csv(rows: pa.Table) -> None:
    from pktable.cli.values import to_text

    for values in chain([rows.column_names], json_rows(rows)):
        sys.stdout.write(",".join(map(to_text, values)) + "\n")


def _print_table(rows: pa.Table) -> None:
    import pyarrow.types as pt
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 10_000)
    table = Table()
    for field in rows.schema:
        numeric = pt.is_integer(field.type) or pt.is_decimal(field.type) or pt.is_floating(field.type)
        table.add_column(_cell(field.name), justify="right" if numeric else "left", overflow="fold")
    cut = 0
    for values in json_rows(rows.slice(0, MOST_ROWS)):
        texts = [_shown(value) for value in values]
        cut += sum(text is not None and len(text) > MOST_CHARACTERS for text in texts)
        table.add_row(*map(_cell, texts))
    console.print(table)
    if cut:
        longer = f"{counted(cut, 'value')} of more than {MOST_CHARACTERS} characters"
        console.print(f"{longer} cut at …; jsonl and csv print all of them")
    if rows.num_rows > MOST_ROWS:
        console.print(f"{MOST_ROWS} of {rows.num_rows} rows; jsonl and csv print them all")


def _shown(value: Any) -> str | None:
    """Return a value as text, None for null."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(text: str | None) -> Text:
    from rich.text import Text

    if text is None:
        return Text("NULL", "dim")
    return Text(printable(text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"))


PRINTERS: Final = {Format.TABLE: _print_table, Format.JSONL: _print_jsonl, Format.CSV: _print_csv}
