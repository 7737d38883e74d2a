"""The playground: short histories on the oracle, drawn after each operation.

Everything in a frame is read from the oracle: files, levels, deleted positions, rows, and what has changed since the
frame before. The frames are there without JavaScript, too; `static/playground.js` shows one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from model_tests.examples.histories import (
    WITH_VECTORS,
    WITHOUT,
    File,
    Frame,
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
and a key with a minus is a retraction. A frame shows a file or a record that the operation has changed.
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
    drawn = list(frames(tale))
    before: Mapping[str, File] = {}
    parts = []
    for number, frame in enumerate(drawn, 1):
        parts.append(_frame(number, len(drawn), frame, before))
        before = frame.files
    content = "\n".join(parts)
    return (
        f"\n## {tale.title}\n\n{tale.what}\n\n"
        f'```{{raw}} html\n<div class="tale" tabindex="0">\n{content}\n</div>\n```\n'
    )


def _frame(number: int, count: int, frame: Frame, before: Mapping[str, File]) -> str:
    depth = max((file.level for file in frame.files.values()), default=0)
    clauses = " ".join(f'<a href="clauses/{id}.html">{id}</a>' for id in frame.clauses)
    levels = "".join(_level(level, frame.files, before) for level in range(max(depth, 2) + 1))
    changed = "".join(f"<li>{escape(one)}</li>" for one in frame.changed) or "<li>nothing</li>"
    return (
        f'<section class="frame"><h3>{number} of {count}: {escape(frame.title)}</h3>'
        f'<p class="by">{clauses}</p><div class="levels">{levels}</div>'
        f'<div class="seen"><div><h4>What has changed</h4><ul>{changed}</ul></div>'
        f"{_rows('Default read', frame.default)}{_rows('Fresh read', frame.fresh)}</div></section>"
    )


def _level(level: int, files: Mapping[str, File], before: Mapping[str, File]) -> str:
    boxes = "".join(
        _file(name, file, before.get(name)) for name, file in files.items() if file.level == level
    )
    return f'<div class="level"><span>level {level}</span><div>{boxes}</div></div>'


def _file(name: str, file: File, old: File | None) -> str:
    fresh = " changed" if old is None or old.level != file.level else ""
    records = "".join(
        f'<span class="record{" deleted" if gone else ""}'
        f'{" changed" if old and gone and not old.records[at][1] else ""}">{escape(text)}</span>'
        for at, (text, gone) in enumerate(file.records)
    )
    return f'<div class="file{fresh}"><b>{name}</b>{records}</div>'


def _rows(title: str, rows: Sequence[str]) -> str:
    cells = "".join(f'<span class="record">{escape(row)}</span>' for row in rows) or "no row"
    return f"<div><h4>{title}</h4><p>{cells}</p></div>"
