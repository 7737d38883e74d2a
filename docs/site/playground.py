"""The playground: short histories on the oracle, drawn after each operation.

Everything in a frame is read from the oracle: files, levels, deleted positions, rows, and what has changed since the
frame before. The frames are there without JavaScript, too; `static/playground.js` shows one at a time.
"""

from __future__ import annotations

from typing import Final

from model_tests.examples.drawn import as_html
from model_tests.examples.histories import (
    WITH_VECTORS,
    WITHOUT,
    Tale,
    begin,
    commit,
    compact,
    frames,
    write,
)

PATH: Final = "playground.md"
INTRO: Final = """# Playground

Each history is done by the oracle, one operation after the other. A table is one bucket of three levels. A file shows
its records by position: sequence number, key and value. A struck record is deleted by the deletion vector of its file,
and a key with a minus is a retraction. A coloured edge shows a file or a record that the operation has changed.
"""


SIX: Final = tuple(("+I", key, value) for key, value in enumerate(("a", "b", "c", "d", "e", "f"), 1))
FIRST: Final = (
    write("Write six rows", *SIX, clauses=("LSM-5", "LSM-8")),
    compact("Compact them fully", "CMP-7", full=True),
)
TALES: Final = (
    Tale(
        "An upsert and a delete become deleted positions",
        "The rows that a write replaces stay where they are. A compaction of level 0 looks them up.",
        WITH_VECTORS,
        (
            *FIRST,
            write("Upsert key 3", ("+U", 3, "C")),
            compact("Compact: the strategy picks level 0", "CMP-20", "DV-6", "DV-14"),
            write("Delete key 5", ("-D", 5, None)),
            compact("Compact again", "CMP-13", "DV-6", "DV-11"),
            compact("Compact fully", "CMP-7", "CMP-12", "DV-13", full=True),
        ),
    ),
    Tale(
        "The same without deletion vectors",
        "Nothing is looked up, so every read merges all runs.",
        WITHOUT,
        (
            *FIRST,
            write("Upsert key 3", ("+U", 3, "C")),
            write("Delete key 5", ("-D", 5, None)),
            compact("Compact fully", "CMP-7", "CMP-13", "MRG-1", "MRG-3", full=True),
        ),
    ),
    Tale(
        "Two compactions meet",
        "Both were planned on the same snapshot. The second one would lose what the first one has deleted.",
        WITH_VECTORS,
        (
            *FIRST,
            write("Upsert key 2", ("+U", 2, "B")),
            begin("Compactor A begins", "A", "CMT-21", "DV-6"),
            begin("Compactor B begins, too", "B", "CMT-21"),
            commit("A commits", "A", "DV-14"),
            commit("B tries to commit", "B", "CMT-7", "CMT-14"),
            write("Delete key 2", ("-D", 2, None)),
            compact("Compact: B has planned again", "CMT-14", "DV-9"),
        ),
    ),
)


def page() -> str:
    """Return the page."""
    return INTRO + "".join(_tale(tale) for tale in TALES)


def _tale(tale: Tale) -> str:
    drawn = as_html(list(frames(tale)), "clauses/")
    return f"\n## {tale.title}\n\n{tale.what}\n\n```{{raw}} html\n{drawn}\n```\n"
