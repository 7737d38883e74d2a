"""Short histories on the oracle, and the table after each operation, read from it: files, rows, what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pktable_spec.interface import Change, Row, Scalar, Shape
from pktable_spec.model.table import ModelTable
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, RowKind

SHAPE: Final = Shape("t", (("k", "INT"), ("v", "STRING")), ("k",))
OPTIONS: Final = {"bucket": "1", "num-levels": "3", "num-sorted-run.compaction-trigger": "5"}
WITH_VECTORS: Final = {**OPTIONS, "deletion-vectors.enabled": "true"}
WITHOUT: Final = {**OPTIONS, "deletion-vectors.enabled": "false"}

LONGEST: Final = 20
"""Characters of a value that are shown."""


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
    clauses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tale:
    """A history: its title, what it shows, the options of the table, its operations, and its columns."""

    title: str
    what: str
    options: Mapping[str, str]
    steps: tuple[Step, ...]
    shape: Shape = SHAPE


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


def write(title: str, *changes: tuple[Scalar, ...], clauses: tuple[str, ...] = ()) -> Step:
    """Write changes, each given as its kind and its values, and compact nothing."""

    def do(playing: Playing) -> str:
        given = [
            Change(RowKind(ROW_KIND_SYMBOLS.index(str(kind))), tuple(values)) for kind, *values in changes
        ]
        playing.table.write(given, write_only=True)
        return ""

    return Step(title, do, clauses)


def compact(title: str, *clauses: str, full: bool = False) -> Step:
    def do(playing: Playing) -> str:
        playing.table.compact(full=full)
        return ""

    return Step(title, do, clauses)


def begin(title: str, name: str, *clauses: str, full: bool = False) -> Step:
    """Let somebody, by ``name``, compact without a commit."""

    def do(playing: Playing) -> str:
        ticket = playing.table.begin_compaction(full=full)
        assert ticket is not None, f"{name} has something to compact"
        playing.staged[name] = ticket
        return f"{name} has written its files; nothing is visible yet"

    return Step(title, do, clauses)


def commit(title: str, name: str, *clauses: str) -> Step:
    """Let somebody commit what it has begun."""

    def do(playing: Playing) -> str:
        refused = playing.table.commit(playing.staged.pop(name))
        return f"the commit is refused by {refused}" if refused else "the commit is done"

    return Step(title, do, clauses)


def frames(tale: Tale) -> Iterator[Frame]:
    """Do a history on the oracle, and yield a frame for each of its steps."""
    playing, before = Playing(ModelTable(tale.shape, tale.options)), dict[str, File]()
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
            (f"{one.sequence}: {text_of(one.row, is_add=one.kind.is_add)}", at in gone)
            for at, one in enumerate(table.records(latest, file))
        )
        found[f"f{int(file.name.rpartition('-')[2]) + 1}"] = File(file.level, records)
    return dict(sorted(found.items()))


def text_of(row: Row, *, is_add: bool = True) -> str:
    """Return a row as text, one that only retracts its key with a minus."""
    values = " ".join(map(_short, row[1:]))
    if is_add:
        return f"{row[0]} {values}"
    return f"-{row[0]}" if not any(row[1:]) else f"-{row[0]} {values}"


def _short(value: Scalar) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def reads(table: ModelTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rows of a default and of a fresh read."""
    default, fresh = (
        tuple(map(text_of, sorted(table.read(fresh=fresh), key=lambda row: str(row[0]))))
        for fresh in (False, True)
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
        pairs = enumerate(zip(old.records, file.records, strict=True))
        if positions := [at for at, (was, now) in pairs if now[1] and not was[1]]:
            many = len(positions) > 1
            numbers = ", ".join(map(str, positions))
            yield f"{name}: position{'s' * many} {numbers} {'are' if many else 'is'} deleted"
