"""The command ``clause``: what a clause says, why, and where it is covered."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Annotated, Final

import typer
from pktable_conform.archive import Archive
from pktable_spec.clauses import Clause, clause

from pktable.cli.app import Output, app
from pktable.cli.output import Format, print_outcome

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
