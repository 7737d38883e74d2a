"""Drawn histories of tables that change their shape: buckets of every kind, rescaled ones, other columns, and branches.

A table has fixed, dynamic or postponed buckets, or keys that move between partitions. Its engine is deduplicate, or
partial-update without deletions. It is written, changed by
statements, compacted and overwritten; columns come, go, get other names and wider types; a branch is made, written,
taken over and deleted; snapshots expire. After each step every snapshot of both lines must read as it did, with the
columns that it had.

The oracle is the fold of the changes (`pktable_spec.model.meaning`), placed where keys move (`model.moving`).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pktable import InvalidRequestError, Table
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.interface import Change, Shape
from pktable_spec.model.meaning import fold
from pktable_spec.model.moving import placed
from pktable_spec.vocabulary import RowKind

from model_tests.seeded import drawn_options, play_at_random

COLUMNS: Final = (("p", "STRING"), ("k", "INT"), ("v", "STRING"))
KINDS: Final[Mapping[str, Mapping[str, str]]] = {
    "fixed": {"bucket": "2"},
    "dynamic": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
    "postponed": {"bucket": "-2", "postpone.default-bucket-num": "2"},
    "moving": {"bucket": "-1", "dynamic-bucket.target-row-num": "2"},
}
OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "deletion-vectors.enabled": ("true", "true", "false"),
    "num-sorted-run.compaction-trigger": ("2", "3", "5"),
    "changelog-producer": ("none", "none", "lookup"),
    "dynamic-bucket.initial-buckets": ("", "2"),
    "merge-engine": ("", "", "partial-update"),
}
BRANCH: Final = "other"
STEPS: Final = 14

Values: TypeAlias = dict[int, Any]
"""A row by the ids of its columns."""
Shown: TypeAlias = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""The names of columns and the rows in them, in order."""


@dataclass
class Line:
    """The table or its branch: its rows now, the changes that wait for a bucket, and the rows of each snapshot.

    ``names``: of its columns, in order, with their ids; ``wide``: of those that were widened.
    """

    names: dict[str, int]
    rows: list[Values] = field(default_factory=list)
    waiting: list[tuple[RowKind, Values]] = field(default_factory=list)
    snapshots: dict[int, Shown] = field(default_factory=dict)
    wide: frozenset[int] = frozenset()

    def shown(self) -> list[tuple[Any, ...]]:
        """Return the rows with the columns there are now."""
        return sorted((tuple(row.get(id) for id in self.names.values()) for row in self.rows), key=str)

    def copy(self) -> Line:
        rows = [dict(row) for row in self.rows]
        return Line(dict(self.names), rows, list(self.waiting), dict(self.snapshots), self.wide)


def draw(number: int, seed: int) -> None:
    """Play some drawn histories. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def play(drawn: random.Random, **opened: Any) -> None:
    """Do one history on a new table. ``opened``: how it is opened, as by a runner of Spark."""
    with tempfile.TemporaryDirectory() as folder:
        kind = drawn.choice(list(KINDS))
        options = {**drawn_options(drawn, OPTIONS), **KINDS[kind]}
        if "merge-engine" in options:
            options["ignore-delete"] = "true"
        history = Reshaping(folder + "/t", kind, options, drawn, opened)
        for _ in range(drawn.randint(STEPS // 2, STEPS)):
            history.step()
        history.is_sound()


class Reshaping:
    """One history: the table, its branch if it has one, and what the oracle knows of both."""

    def __init__(
        self, path: str, kind: str, options: Mapping[str, str], drawn: random.Random, opened: dict[str, Any]
    ) -> None:
        self._path, self._kind, self._drawn, self._opened = path, kind, drawn, opened
        self._moves = kind == "moving"
        self._engine = options.get("merge-engine", "deduplicate")
        self._merges = self._engine != "deduplicate"
        keys = ("k",) if self._moves else ("p", "k")
        self._shape = Shape("reshaping", COLUMNS, keys, ("p",))
        text = ", ".join(f"{name} {type}" for name, type in COLUMNS)
        Table.create(path, text, primary_key=list(keys), partition_by="p", options=dict(options))
        self._lines: dict[str | None, Line] = {None: Line({name: id for id, (name, _) in enumerate(COLUMNS)})}
        self._count = len(COLUMNS)
        self._base = 0, 0
        self.done: list[str] = []

    def step(self) -> None:
        """Do one operation on the table or its branch, and compare all reads of both."""
        drawn = self._drawn
        ops = ["write"] * 6 + ["compact"] * 2 + ["update", "delete", "overwrite", "expire"]
        ops += [
            "add",
            "rename",
            "drop",
            "widen",
            "move",
            "rescale",
            "branch",
            "fast forward",
            "delete branch",
        ]
        do = drawn.choice(ops)
        on = drawn.choice(list(self._lines))
        self.done.append(f"{do} on {on or 'main'}")
        getattr(self, "_" + do.replace(" ", "_"))(on)
        for name in self._lines:
            self.agrees(name)

    def _table(self, on: str | None) -> Table:
        return Table.open(self._path, branch=on, **self._opened)

    # -------------------------------------------------------------- rows

    def _changes(self, line: Line, *, only: RowKind | None = None) -> list[tuple[RowKind, Values]]:
        drawn, found = self._drawn, []
        for _ in range(drawn.randint(1, 4)):
            self._count += 1
            numbers = {id: self._count for name, id in line.names.items() if name not in ("p", "k", "v")}
            row = {**numbers, 0: drawn.choice("ab"), 1: drawn.randint(0, 4), 2: f"{self._count}"}
            if self._merges:
                row |= {id: None for id in row if id > 1 and drawn.random() < 0.4}
            kind = only or drawn.choice([RowKind.INSERT] * 3 + [RowKind.UPDATE_AFTER, RowKind.DELETE])
            found.append((kind, row))
        return found

    def _arrow(self, line: Line, rows: Sequence[Values]) -> pa.Table:
        types = {"p": pa.string(), "k": pa.int32(), "v": pa.string()}
        return pa.table(
            {
                name: pa.array([row.get(id) for row in rows], types.get(name, pa.int32()))
                for name, id in line.names.items()
            }
        )

    def _apply(self, line: Line, changes: Sequence[tuple[RowKind, Values]]) -> None:
        """Fold changes into the rows. The oracle gets the place of a row in a list as its value."""
        of_change = [values for _, values in changes]
        before = [Change(RowKind.INSERT, (row[0], row[1], at)) for at, row in enumerate(line.rows)]
        new = [Change(kind, (row[0], row[1], len(before) + at)) for at, (kind, row) in enumerate(changes)]
        if self._moves:
            new = placed(self._shape, self._engine, new, [one.row for one in before])
        every = [*line.rows, *of_change]
        if self._merges:
            found = {(row[0], row[1]): row for row in line.rows}
            for kind, row in new:
                if kind.is_add:  # the others are ignored
                    values = every[int(str(row[2]))]
                    given = {id: value for id, value in values.items() if value is not None} | {0: row[0]}
                    found[row[0], row[1]] = found.get((row[0], row[1]), {}) | given
            line.rows = list(found.values())
            return
        rows = fold([*before, *new], lambda row: row[:2]).values()
        line.rows = [{**every[int(str(row[2]))], 0: row[0]} for row in rows]

    def _write(self, on: str | None) -> None:
        line = self._lines[on]
        changes = self._changes(line)
        kinds = pa.array([kind.symbol for kind, _ in changes])
        rows = self._arrow(line, [row for _, row in changes])
        self._table(on).write_changes(rows.append_column("kind", kinds), row_kind="kind")
        self._wrote(line, changes)

    def _wrote(self, line: Line, changes: Sequence[tuple[RowKind, Values]]) -> None:
        if self._kind == "postponed":
            line.waiting += changes
        else:
            self._apply(line, changes)

    def _compact(self, on: str | None) -> None:
        line = self._lines[on]
        self._table(on).compact(full=self._drawn.random() < 0.4)
        self._apply(line, line.waiting)
        line.waiting = []
        self.default_reads_agree(on)

    def _update(self, on: str | None) -> None:
        line, least = self._lines[on], self._drawn.randint(0, 4)
        if line.waiting or self._merges:
            self._is_refused(lambda: self._table(on).update({"v": "'x'"}, where=f"k >= {least}"))
            return
        to = self._drawn.choice("ab") if self._moves else None
        values = {"v": "'x'", **({"p": f"'{to}'"} if to else {})}
        self._table(on).update(values, where=f"k >= {least}")
        new = {2: "x", **({0: to} if to else {})}
        self._wrote(line, [(RowKind.UPDATE_AFTER, row | new) for row in line.rows if row[1] >= least])

    def _delete(self, on: str | None) -> None:
        line, least = self._lines[on], self._drawn.randint(0, 4)
        if line.waiting or self._merges:
            self._is_refused(lambda: self._table(on).delete(where=f"k >= {least}"))
            return
        self._table(on).delete(where=f"k >= {least}")
        self._wrote(line, [(RowKind.DELETE, row) for row in line.rows if row[1] >= least])

    def _overwrite(self, on: str | None) -> None:
        line = self._lines[on]
        if self._kind == "postponed":  # its rows wait, and the rows of the partition are gone
            return
        partition = self._drawn.choice("ab")
        found = [{**row, 0: partition} for _, row in self._changes(line, only=RowKind.INSERT)]
        rows = list({row[1]: row for row in found}.values())
        overwrite = partial(self._table(on).overwrite, self._arrow(line, rows), where=f"p = '{partition}'")
        elsewhere = {row[1] for row in line.rows if row[0] != partition}
        if self._moves and not elsewhere.isdisjoint(row[1] for row in rows):
            self._is_refused(overwrite)
            return
        overwrite()
        line.rows = [*(row for row in line.rows if row[0] != partition), *rows]

    def _expire(self, on: str | None) -> None:
        line, kept = self._lines[on], self._drawn.randint(1, 3)
        self._table(on).expire_snapshots(retain_last=kept)
        line.snapshots = {one: line.snapshots[one] for one in sorted(line.snapshots)[-kept:]}

    # -------------------------------------------------------------- columns and buckets

    def _numbers(self, line: Line) -> list[str]:
        return [name for name in line.names if name not in ("p", "k", "v")]

    def _add(self, on: str | None) -> None:
        self._count += 1
        self._table(on).alter(add=f"n{self._count} INT")
        self._lines[on].names[f"n{self._count}"] = self._count

    def _rename(self, on: str | None) -> None:
        line = self._lines[on]
        for name in self._numbers(line)[:1]:
            self._count += 1
            self._table(on).alter(rename={name: f"m{self._count}"})
            line.names = {(f"m{self._count}" if one == name else one): id for one, id in line.names.items()}

    def _drop(self, on: str | None) -> None:
        line = self._lines[on]
        for name in self._numbers(line)[-1:]:
            self._table(on).alter(drop=name)
            del line.names[name]

    def _widen(self, on: str | None) -> None:
        line = self._lines[on]
        for name in self._numbers(line)[:1]:
            if line.names[name] not in line.wide:
                self._table(on).alter(widen={name: "BIGINT"})
                line.wide |= {line.names[name]}

    def _move(self, on: str | None) -> None:
        line = self._lines[on]
        name = self._drawn.choice(list(line.names))
        self._table(on).alter(move={name: "FIRST"})
        line.names = {name: line.names[name], **line.names}

    def _rescale(self, on: str | None) -> None:
        if self._kind == "fixed":
            table = self._table(on)
            table.alter(set_options={"bucket": self._drawn.choice("123")})
            table.rescale()

    # -------------------------------------------------------------- branches

    def _branch(self, on: str | None) -> None:
        main = self._lines[None]
        if BRANCH not in self._lines:
            self._table(None).create_branch(BRANCH, empty=not main.snapshots)
            self._lines[BRANCH] = line = main.copy()
            line.snapshots = {one.id: main.snapshots[one.id] for one in self._table(BRANCH).snapshots()}
            self._base = self._state_of_main()

    def _state_of_main(self) -> tuple[int, int]:
        """Return the latest snapshot and the latest schema of the table."""
        return max(self._lines[None].snapshots, default=0), self._table(None).schema.id

    def _fast_forward(self, on: str | None) -> None:
        """Take the branch over, or see that it is refused because the table has gone on."""
        if BRANCH not in self._lines:
            return
        main, branch = self._lines[None], self._lines[BRANCH]
        (snapshot, schema), (base, _) = self._state_of_main(), self._base
        begins, head = min(branch.snapshots, default=0), max(branch.snapshots, default=0)
        follows = head and schema == self._base[1] and begins <= max(snapshot, 1)
        has_gone_on = snapshot != base
        if has_gone_on:  # it has all that the branch has, or lacks what would be lost
            altered = self._table(BRANCH).schema.id != schema
            follows = follows and head == base and base in main.snapshots and not altered
        if not follows:
            self._is_refused(lambda: self._table(None).fast_forward(BRANCH))
            return
        self._table(None).fast_forward(BRANCH)
        if has_gone_on:
            return
        self._lines[None] = new = branch.copy()
        new.snapshots = main.snapshots | {
            one: shown for one, shown in branch.snapshots.items() if one > snapshot
        }
        self._base = self._state_of_main()

    def _delete_branch(self, on: str | None) -> None:
        if BRANCH in self._lines:
            self._table(None).delete_branch(BRANCH)
            del self._lines[BRANCH]

    # -------------------------------------------------------------- checks

    @check
    @covers("BKT-17", "BKT-28", "BRN-11")
    def _is_refused(self, work: Callable[[], object]) -> None:
        try:
            work()
        except InvalidRequestError:
            return
        fail(f"not refused: {self.done}")

    @check
    @covers("BKT-14", "BKT-18", "BKT-22", "BRN-2", "BRN-10", "RD-14", "RD-22", "TBL-39", "TBL-40", "TBL-41")
    def agrees(self, on: str | None) -> None:
        """Compare the snapshots there are, and the rows and columns of each, with the oracle's."""
        table, line = self._table(on), self._lines[on]
        ids = [one.id for one in table.snapshots()]
        last = max(line.snapshots, default=0)
        for one in ids:
            if one > last:
                line.snapshots[one] = tuple(line.names), line.shown()
        if ids != sorted(line.snapshots):
            fail(f"{on}: expected the snapshots {sorted(line.snapshots)}, found {ids}: {self.done}")
        for one, expected in line.snapshots.items():
            self._same(table.to_arrow(snapshot=one, fresh=True), expected, f"{on}, snapshot {one}")
        self._same(table.to_arrow(fresh=True), (tuple(line.names), line.shown()), f"{on}")

    @check
    @covers("RD-2", "BKT-27")
    def default_reads_agree(self, on: str | None) -> None:
        """A default read after a compaction finds all rows."""
        line = self._lines[on]
        self._same(self._table(on).to_arrow(), (tuple(line.names), line.shown()), f"{on}, default read")

    def _same(self, found: pa.Table, expected: Shown, what: str) -> None:
        rows = sorted((tuple(row.values()) for row in found.to_pylist()), key=str)
        if (tuple(found.column_names), rows) != expected:
            fail(f"{what}: expected {expected}, found {found.column_names} {rows}: {self.done}")

    @check
    @covers("BKT-3", "BKT-19", "BKT-21", "TBL-38")
    def is_sound(self) -> None:
        """A check finds no error in the table and its branch."""
        for on in self._lines:
            findings = [str(one) for one in self._table(on).check().findings if one.severity == "error"]
            if findings:
                fail(f"{on}: {'; '.join(findings)}: {self.done}")
