"""Frames of a history as HTML: what `histories` has seen, drawn with the classes of `docs/site/static/site.css`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from model_tests.examples.histories import File, Frame


def as_html(frames: Sequence[Frame], pages: str = "") -> str:
    """Return frames, one after the other. ``pages``: the folder with the pages of clauses, empty for no links."""
    before: Mapping[str, File] = {}
    parts = []
    for number, frame in enumerate(frames, 1):
        parts.append(_frame(f"{number} of {len(frames)}: {frame.title}", frame, before, pages))
        before = frame.files
    content = "\n".join(parts)
    return f'<div class="tale" tabindex="0">\n{content}\n</div>'


def _frame(title: str, frame: Frame, before: Mapping[str, File], pages: str) -> str:
    depth = max((file.level for file in frame.files.values()), default=0)
    clauses = " ".join(f'<a href="{pages}{id}.html">{id}</a>' if pages else id for id in frame.clauses)
    levels = "".join(_level(level, frame.files, before) for level in range(max(depth, 2) + 1))
    changed = "".join(f"<li>{escape(one)}</li>" for one in frame.changed) or "<li>nothing</li>"
    return (
        f'<section class="frame"><h3>{escape(title)}</h3>'
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
