"""The pages of examples, and the clauses without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from model_tests.examples import compaction, merging, of_bytes, on_tables
from model_tests.examples.shown import Example

FOLDER: Final = Path(__file__).parents[2] / "spec/examples"
FAMILIES: Final = ("MRG", "CMP", "DV", "DVF", "META")
INTRO: Final = """
`python -m model_tests.examples` makes this page, and a test holds it.
"""
PAGES: Final[Mapping[str, tuple[str, Sequence[Callable[[], Iterator[Example]]]]]] = {
    "bytes.md": ("Bytes, in hexadecimal", (of_bytes.of_vectors, of_bytes.of_rows, of_bytes.of_metadata)),
    "merging.md": ("Merging", (merging.merges, on_tables.removals, on_tables.functions)),
    "compaction.md": ("Compactions: the table before and after", (compaction.compactions,)),
    "deletion-vectors.md": ("Deletion vectors: the table before and after", (compaction.vectors,)),
    "refusals.md": ("Refusals", (on_tables.refusals,)),
}
"""The pages by their names: a title, and what yields its examples."""


WITHOUT: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("META-13", "META-34", "META-17", "META-44", "META-23", "META-22", "META-60"),
        "a rule on all files of a kind: the tests of `model_tests/format` decode them",
    ),
    **dict.fromkeys(
        ("META-15", "META-16", "META-39", "META-40", "META-41", "META-42", "META-43", "META-79"),
        "a rule on schemas that change: the fixture `changed-schema`",
    ),
    **dict.fromkeys(("META-46", "META-47"), "INT96: the fixture `times-before-1970`"),
    **dict.fromkeys(
        ("META-10", "META-33"), "checksums in the headers of Parquet pages, which the library reads"
    ),
    **dict.fromkeys(("META-18", "META-49"), "a place outside of the table"),
    **dict.fromkeys(("META-72", "META-73"), "files of ORC and Avro: the fixtures `in-orc` and `in-avro`"),
    **dict.fromkeys(("META-75", "META-76"), "a rule on writes of ORC and Avro"),
    "META-70": "columns of TIME: the fixture `times-of-day`",
    "META-77": "a file with a part of the columns: `append/test_part_columns.py`",
    "META-78": "columns of VARIANT: `table/test_variants.py`",
    "META-83": "records of Avro: the fixture `in-avro`",
    "META-28": "statistics that Paimon 0.9 makes",
    "META-30": "a data file without key columns: the fixture `thin-files`",
    "META-54": "more than a hundred fences",
    "META-55": "an optional field, counted as CMP-30 says",
    **dict.fromkeys(
        ("MRG-32", "MRG-33", "MRG-34", "MRG-35"), "functions of arrays: `engines/test_arrays_and_bitmaps.py`"
    ),
    "META-62": "a rule on clean-ups: `commit/test_orphans`",
    "META-61": "a file of ORC that its library reads wrongly",
    "META-57": "the greatest number of 64 bits",
    "MRG-7": "the order of keys: the fixtures `keys-of-…`",
    "CMP-16": "memory",
    "CMP-19": "a rule for other strategies: CMP-21 has taken all runs of level 0 and 1 before",
    "CMP-30": "a count of commits",
    "CMP-32": "bytes that must not be in a file",
    "DV-15": "deletion vectors switched on late: the fixture `switched-on`",
    "DV-18": "deletion vectors switched on late: the fixture `switched-on`",
    "DV-19": "vectors that Paimon 1.x leaves: the fixture `dangling-vector`",
}
"""Clauses of `FAMILIES` without an example, and why they have none."""


@cache
def examples() -> Mapping[str, tuple[Example, ...]]:
    """Return the examples of each page."""
    return {
        name: tuple(one for source in sources for one in source()) for name, (_, sources) in PAGES.items()
    }


def texts() -> dict[str, str]:
    """Return the text of each page by its name."""
    return {name: _page(PAGES[name][0], found) for name, found in examples().items()}


def _page(title: str, found: Sequence[Example]) -> str:
    parts = [f"# {title}\n{INTRO}"]
    parts += [f"## {one.title}\n\nClauses: {', '.join(one.clauses)}.\n\n{one.text}\n" for one in found]
    return "\n".join(parts)


def of_clauses() -> dict[str, list[Example]]:
    """Return the examples of each clause that has some."""
    found: dict[str, list[Example]] = {}
    for page in examples().values():
        for one in page:
            for clause in one.clauses:
                found.setdefault(clause, []).append(one)
    return found
