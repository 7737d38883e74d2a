"""The commands ``clause`` (what a clause says, why, and where it is covered) and ``options`` (the table options)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Annotated, Final

import typer
from pktable_conform.archive import Archive
from pktable_spec.clauses import Clause, clause
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import OPTIONS

from pktable.cli.app import Output, app
from pktable.cli.output import Format, print_outcome, print_rows

COLUMNS: Final = ("option", "default", "values", "effect", "description")


@app.command("options")
def list_options(
    part: Annotated[
        str,
        typer.Argument(metavar="PART", help="Only options whose names or descriptions contain this text."),
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """List the table options, defaults, and what is refused.

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


WIDTH: Final = 100
KINDS: Final = {
    "tests": "tests",
    "fixtures": "fixtures",
    "tla": "TLA+",
    "model": "oracle",
    "reference": "code",
}


@app.command("clause")
def clause_command(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids such as DV-6.")],
    output: Output = Format.TABLE,
) -> None:
    """Print clauses of the specification: the requirement, why it is there, and where it is covered.

    Result: id, force, topic, sentence, why, and lists of tests, fixtures, tla, model and reference.
    """
    found = [clause(id) for id in ids]
    archive = Archive()
    for one in found:
        fixtures = [case.name for case in archive.cases if one.id in case.clauses]
        places = {**dict.fromkeys(KINDS, ()), **one.places, "fixtures": tuple(fixtures)}
        fields = {
            "id": one.id,
            "force": one.force,
            "topic": one.topic,
            "sentence": one.sentence,
            "why": one.why,
        }
        lists = {kind: list(places[kind]) for kind in KINDS}
        print_outcome("\n".join(_lines(one, lists)), {**fields, **lists}, output)


def _lines(one: Clause, places: dict[str, list[str]]) -> Iterator[str]:
    yield f"{one.id} ({one.force}), {one.topic}"
    yield from _wrapped(one.sentence)
    for part in one.why.split("\n\n"):
        yield from _wrapped(part) if not part.startswith("|") else part.splitlines()
    for kind, name in KINDS.items():
        if places[kind]:
            yield from textwrap.wrap(
                ", ".join(places[kind]), WIDTH, initial_indent=f"  {name}: ", subsequent_indent="    "
            )
    yield ""


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
