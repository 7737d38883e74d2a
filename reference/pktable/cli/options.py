"""The command ``options``, which lists the table options."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import OPTIONS

from pktable.cli.app import Output, app
from pktable.cli.output import Format, print_rows

COLUMNS: Final = ("option", "default", "values", "effect", "description")


@app.command("options")
def list_options(
    part: Annotated[
        str,
        typer.Argument(metavar="PART", help="Only options whose names or descriptions contain this text."),
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """List the table options: defaults, values, and what is refused.

    Most options that are ignored are listed only if PART is in their names.
    """
    import pyarrow as pa  # not needed by other commands that only list or print help

    # Of the names that are only ignored a list without PART would hold hundreds, and their descriptions are of many.
    wanted = part.lower()
    chosen = [
        option
        for option in OPTIONS
        if (part and wanted in option.name)
        or (not option.is_one_of_many and wanted in f"{option.name} {option.description.lower()}")
    ]
    if not chosen:
        raise InvalidRequestError(
            f"no option has {part!r} in its name or description; without it, all options are listed"
        )
    rows = [
        (option.name, option.default or "", option.takes, option.effect.value, option.description)
        for option in chosen
    ]
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    print_rows(pa.Table.from_arrays(columns, names=list(COLUMNS)), output)
