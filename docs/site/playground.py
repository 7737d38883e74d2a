"""The playground: short histories on the oracle, drawn after each operation.

Everything in a frame is read from the oracle: files, levels, deleted positions, rows, and what has changed since the
frame before. The frames are there without JavaScript, too; `static/playground.js` shows one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from pktable_spec.interface import Change, Shape
from pktable_spec.model.table import ModelTable
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, RowKind

PATH: Final = "playground.md"
SHAPE: Final = Shape("t", (("k", "INT"), ("v", "STRING")), ("k",))
OPTIONS: Final = {"bucket": "1", "num-levels": "3", "num-sorted-run.compaction-trigger": "5"}
WITH_VECTORS: Final = {**OPTIONS, "deletion-vectors.enabled": "true"}
WITHOUT: Final = {**OPTIONS, "deletion-vectors.enabled": "false"}
INTRO: Final = """# Playground

Each history is done by the oracle, one operation after the other. A table is one bucket of three levels. A file shows
its records by position: sequence number, key and value. A struck record is deleted by the deletion vector of its file,
and a key with a minus is a retraction. A frame shows a file or a record that the operation has changed.
"""


@dataclass
class Playing:
    """A history under way: the table, and the tickets of staged work by name."""

    table: ModelTable
    staged: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """An operation: what it is called, what it does, which returns what it answers, and the clauses that rule it."""

    title: str
    do: Callable[[Playing], str]
    clauses: tuple[str, ...]


@dataclass(frozen=True)
class Tale:
    """A history: its title, what it shows, the options of the table, and its operations."""

    title: str
    what: str
    options: Mapping[str, str]
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class File:
    """A live file: its level, and its records as texts, each with whether it is deleted."""

    level: int
    records: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class Frame:
    """The table after a step: its title, its clauses, what has changed, files by name, and the rows of reads."""

    title: str
    clauses: tuple[str, ...]
    changed: tuple[str, ...]
    files: Mapping[str, File]
    default: tuple[str, ...]
    fresh: tuple[str, ...]


def row_change(symbol: str, key: int, value: str | None = None) -> Change:
    return Change(RowKind(ROW_KIND_SYMBOLS.index(symbol)), (key, value))


def write(title: str, *changes: tuple[str, int, str | None], clauses: tuple[str, ...] = ()) -> Step:
    def do(playing: Playing) -> str:
        playing.table.write([row_change(*one) for one in changes], write_only=True)
        return ""

    return Step(title, do, ("LSM-5", "LSM-8", *clauses))


def compact(title: str, *clauses: str, full: bool = False) -> Step:
    def do(playing: Playing) -> str:
        playing.table.compact(full=full)
        return ""

    return Step(title, do, clauses)


def begin(title: str, name: str, *clauses: str, full: bool = False) -> Step:
    def do(playing: Playing) -> str:
        ticket = playing.table.begin_compaction(full=full)
        assert ticket is not None, f"{name} has something to compact"
        playing.staged[name] = ticket
        return f"{name} has written its files; nothing is visible yet"

    return Step(title, do, clauses)


def commit(title: str, name: str, *clauses: str) -> Step:
    def do(playing: Playing) -> str:
        refused = playing.table.commit(playing.staged.pop(name))
        return f"the commit is refused by {refused}" if refused else "the commit is done"

    return Step(title, do, clauses)


SIX: Final = tuple(("+I", key, value) for key, value in enumerate(("a", "b", "c", "d", "e", "f"), 1))
FIRST: Final = (
    write("Write six rows", *SIX),
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


def frames(tale: Tale) -> Iterator[Frame]:
    """Do a history on the oracle, and yield a frame for each of its steps."""
    playing, before = Playing(ModelTable(SHAPE, tale.options)), dict[str, File]()
    for step in tale.steps:
        answer = step.do(playing)
        files = seen(playing.table)
        changed = (*((answer,) if answer else ()), *differences(before, files))
        yield Frame(step.title, step.clauses, changed, files, *reads(playing.table))
        before = files


def seen(table: ModelTable) -> dict[str, File]:
    """Return the live files of the latest snapshot by name."""
    latest = len(table.snapshots())
    deleted = {one.data_file: one.positions for one in table.vectors(latest)}
    found = {}
    for file in table.files(latest):
        gone = deleted.get(file.name, frozenset())
        records = tuple(
            (
                f"{one.sequence}: {'' if one.kind.is_add else '-'}{one.key[0]} {one.row[1] or ''}".strip(),
                at in gone,
            )
            for at, one in enumerate(table.records(latest, file))
        )
        found[f"f{int(file.name.rpartition('-')[2]) + 1}"] = File(file.level, records)
    return dict(sorted(found.items()))


def reads(table: ModelTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rows of a default and of a fresh read."""
    default, fresh = (
        tuple(f"{key} {value}" for key, value in sorted(table.read(fresh=fresh))) for fresh in (False, True)
    )
    return default, fresh


def differences(before: Mapping[str, File], after: Mapping[str, File]) -> Iterator[str]:
    """Yield what has changed from some files to others."""
    for name in sorted(before.keys() - after.keys()):
        yield f"{name} is gone"
    for name, file in after.items():
        old = before.get(name)
        if old is None:
            yield f"{name} is new at level {file.level}"
            continue
        if old.level != file.level:
            yield f"{name} moves to level {file.level}"
        positions = [
            at
            for at, (was, now) in enumerate(zip(old.records, file.records, strict=True))
            if now[1] and not was[1]
        ]
        if positions:
            yield f"{name}: position {', '.join(map(str, positions))} is deleted"


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
