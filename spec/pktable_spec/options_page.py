"""The page of all options, ``spec/options.md``. ``python -m pktable_spec.options_page > spec/options.md``.

A section per effect, in the order of `SECTIONS`, and in it a line per option of `OPTIONS`. The names of
`HARMLESS_NAMES` are a paragraph per subject.

Clauses: TBL-9.
"""

from __future__ import annotations

import sys
import textwrap
from typing import Final

from pktable_spec.harmless_options import HARMLESS_NAMES
from pktable_spec.option_table import CHANGING_ROWS, OPTIONS
from pktable_spec.option_values import Effect, Option

WIDTH: Final = 120

OPENING: Final = f"""\
# Table options

Names and defaults are Apache Paimon's, of its releases from 0.9 to 2.1. An option is set when a table is created, and
is kept in its schema. An option or a value that is not implemented is refused by name (TBL-9), by whoever would have to
honour it: a table that cannot be written may still be read. `*` in a name stands for any text.

A name that is not on this page is refused by writers. A read warns of it once, and `check` notes it (TBL-33). Reads
refuse it, too, if it begins as options do that change rows (TBL-34):

{textwrap.fill(", ".join(f"`{one}`" for one in CHANGING_ROWS), WIDTH, break_on_hyphens=False)}.

A caller who knows that no row depends on a refused option reads the table with `ignore_options` of `Table.open`,
`--ignore-option` on the command line, or `ignoreOptions` of Spark's data source (TBL-35). Writes stay refused.

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
        "With any other value, reads of rows are refused: the option asks for other rows than those of the "
        "snapshot that is read. Writes and reads of changes do not depend on these options.",
    ),
    Effect.EVERYTHING: (
        "Of everything",
        "With any other value, reads and writes are refused: files hold rows in another way, or lie elsewhere.",
    ),
    Effect.HARMLESS: ("Ignored", "These options change no row that is written or read."),
}


def page() -> str:
    """Return the page as Markdown."""
    parts = [OPENING]
    for effect, (title, explanation) in SECTIONS.items():
        options = [option for option in OPTIONS if option.effect is effect]
        rows = _meanings(options) if effect is Effect.HARMLESS else _table(options)
        parts.append("\n".join([f"\n## {title}\n", f"{explanation}\n", *rows, ""]))
    return "".join(parts)


def _table(options: list[Option]) -> list[str]:
    rows = ["| option | default | values | meaning |", "| --- | --- | --- | --- |"]
    for option in options:
        default = f"`{option.default}`" if option.default else ""
        rows.append(f"| `{option.name}` | {default} | {option.takes} | {option.description} |")
    return rows


def _meanings(options: list[Option]) -> list[str]:
    rows = ["| option | meaning |", "| --- | --- |"]
    rows += [f"| `{option.name}` | {option.description} |" for option in options if not option.is_one_of_many]
    for subject, text in HARMLESS_NAMES.items():
        names = ", ".join(f"`{name}`" for name in text.split())
        rows.append("\n" + textwrap.fill(f"{subject} {names}.", WIDTH, break_on_hyphens=False))
    return rows


if __name__ == "__main__":
    sys.stdout.write(page())
