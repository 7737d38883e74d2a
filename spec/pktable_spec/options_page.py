"""The page of all options, ``spec/options.md``. ``python -m pktable_spec.options_page > spec/options.md``.

A section per effect, in the order of `SECTIONS`, and in it a line per option of `OPTIONS`.

Clauses: TBL-9.
"""

from __future__ import annotations

import sys
from typing import Final

from pktable_spec.option_table import OPTIONS, Effect, Option

OPENING: Final = """\
# Table options

Names and defaults are Apache Paimon's. An option is set when a table is created, and is kept in its schema. An
option or a value that is not implemented is refused by name (TBL-9), by whoever would have to honour it: a table
that cannot be written may still be read. A name that is not on this page is refused by writers.

This page is generated from `pktable_spec/option_table.py` by `python -m pktable_spec.options_page`.
"""

SECTIONS: Final = {
    Effect.IMPLEMENTED: ("Implemented", "These options do what they say, with any of the values."),
    Effect.MERGING: (
        "Of merging",
        "With any other value, writes, compactions and those reads that have to merge are refused.",
    ),
    Effect.WRITING: (
        "Of writing",
        "With any other value, writes and compactions are refused. Reads do not depend on these options.",
    ),
    Effect.READING: (
        "Of reading",
        "With any other value, reads and writes are refused: the option asks for other rows than those of the "
        "snapshot that is read.",
    ),
    Effect.HARMLESS: ("Ignored", "These options change nothing that is written or read."),
    Effect.REFUSED: ("Refused", "Writes and compactions are refused, whatever the value. `*` is any ending."),
}


def page() -> str:
    """Return the page as Markdown."""
    parts = [OPENING]
    for effect, (title, explanation) in SECTIONS.items():
        options = [option for option in OPTIONS if option.effect is effect]
        rows = _table(options)
        if effect in (Effect.HARMLESS, Effect.REFUSED):
            rows = _reasons(options, "meaning" if effect is Effect.HARMLESS else "reason")
        parts.append("\n".join([f"\n## {title}\n", f"{explanation}\n", *rows, ""]))
    return "".join(parts)


def _table(options: list[Option]) -> list[str]:
    rows = ["| option | default | values | meaning |", "| --- | --- | --- | --- |"]
    for option in options:
        default = f"`{option.default}`" if option.default else ""
        rows.append(f"| `{option.name}` | {default} | {option.takes} | {option.description} |")
    return rows


def _reasons(options: list[Option], heading: str) -> list[str]:
    rows = [f"| option | {heading} |", "| --- | --- |"]
    return rows + [f"| `{option.name}` | {option.description} |" for option in options]


if __name__ == "__main__":
    sys.stdout.write(page())
