"""Examples of clauses, and how one is written in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from model_tests.examples.histories import File, Frame, Tale, frames


@dataclass(frozen=True)
class Example:
    """An example: its title, the clauses that it shows, and its text in Markdown."""

    title: str
    clauses: tuple[str, ...]
    text: str


def of_tale(tale: Tale, *clauses: str, shown: int = 1) -> Example:
    """Return the last steps of a history as an example: the table before them, and after each; ``shown``: how many."""
    done = list(frames(tale))
    before = done[-shown - 1].files if len(done) > shown else {}
    parts = [tale.what]
    if len(done) > shown:
        parts.append(f"Before:\n\n{files_table(before)}")
    parts += [f"{frame.title}:\n\n{_after(frame)}" for frame in done[-shown:]]
    return Example(tale.title, clauses, "\n\n".join(parts))


def _after(frame: Frame) -> str:
    changed = "; ".join(frame.changed) or "nothing"
    reads = f"A default read has {_rows(frame.default)}"
    same = frame.default == frame.fresh
    reads += ", and so has a fresh one." if same else f", a fresh one {_rows(frame.fresh)}."
    return f"{files_table(frame.files)}\n\nChanged: {changed}. {reads}"


def _rows(rows: tuple[str, ...]) -> str:
    return ", ".join(f"`{row}`" for row in rows) or "no row"


def files_table(files: Mapping[str, File]) -> str:
    """Return files as a table, the newest runs first; deleted records are struck."""
    return table(("level", "file", "sequence number: row"), _lines(files))


def _lines(files: Mapping[str, File]) -> Iterator[tuple[str, ...]]:
    if not files:
        yield "", "", "no file"
    ordered = sorted(
        files.items(), key=lambda one: (one[1].level, -int(one[0][1:]) if not one[1].level else 0)
    )
    for name, file in ordered:
        records = (f"~~{text}~~" if gone else text for text, gone in file.records)
        yield str(file.level), name, ", ".join(records)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown, empty text if it has no rows. Bars in a cell are escaped."""
    lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), *lines])
