"""Drawn histories of tables that change their shape: buckets of every kind, rescaled ones, other columns, and branches.

A table has fixed, dynamic or postponed buckets, or keys that move between partitions, and any merge engine, with
``sequence.field`` and retractions where they fit. It is written, changed by statements, compacted and overwritten;
columns come, go, get other names and wider types; a branch is made, written, taken over and deleted; snapshots expire.
After each step every snapshot of both lines must read as it did, with the columns that it had, whole and by conditions.

The oracle is the fold of the records of each key in plain Python (`lines`), placed where keys move (`model.moving`).
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, takewhile
from typing import Any, Final

import pyarrow as pa
from pktable import InvalidRequestError, Table
from pktable.format.metadata.snapshot import Snapshot
from pktable.format.types import array_of
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.interface import Shape
from pktable_spec.vocabulary import RowKind

from model_tests.changelog.schedules import comes_next
from model_tests.changelog.tables import KIND, applied
from model_tests.engines import naive
from model_tests.engines.cases import ADDS, Case
from model_tests.engines.sequences import Sequenced
from model_tests.histories.lines import KEYS, Line, Shown, Values
from model_tests.histories.shapes import POOLS, drawn_shape
from model_tests.seeded import play_at_random

BRANCH: Final = "other"
STEPS: Final = 14


def draw(number: int, seed: int) -> None:
    """Play some drawn histories. Raises CheckFailed, or what a table raises, at the first that fails."""
    play_at_random(number, seed, play)


def play(drawn: random.Random, **opened: Any) -> None:
    """Do one history on a new table. ``opened``: how it is opened, as by a runner of Spark."""
    with tempfile.TemporaryDirectory() as folder:
        kind, case, options = drawn_shape(drawn)
        history = Reshaping(folder + "/t", kind, case, options, drawn, opened)
        for _ in range(drawn.randint(STEPS // 2, STEPS)):
            history.step()
        history.is_sound()


class Reshaping:
    """One history: the table, its branch if it has one, and what the oracle knows of both."""

    def __init__(
        self,
        path: str,
        kind: str,
        case: Case,
        options: Mapping[str, str],
        drawn: random.Random,
        opened: dict[str, Any],
    ) -> None:
        self._path, self._kind, self._case, self._drawn, self._opened = path, kind, case, drawn, opened
        self._moves = kind == "moving"
        self._replaces = case.options.get("merge-engine", "deduplicate") == "deduplicate"
        self._deletes = RowKind.DELETE in case.kinds and (
            (self._replaces and "ignore-delete" not in case.options) or case.removes
        )
        keys = ("k",) if self._moves else KEYS
        self._shape = Shape("reshaping", (("pt", "STRING"), ("k", "INT"), ("at", "INT")), keys, ("pt",))
        columns = {"pt": "STRING", "k": "INT", **case.columns}
        text = ", ".join(f"{name} {type}" for name, type in columns.items())
        Table.create(path, text, primary_key=list(keys), partition_by="pt", options=dict(options))
        self._lines: dict[str | None, Line] = {None: Line(case, {name: name for name in columns})}
        self._count = 0
        self._base = 0, 0
        self.done: list[str] = [f"{kind}, {case}"]

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

    def _changes(self, line: Line, kinds: Sequence[RowKind]) -> list[tuple[RowKind, Values]]:
        drawn, found = self._drawn, []
        for _ in range(drawn.randint(1, 4)):
            row: Values = {"pt": drawn.choice("ab"), "k": drawn.randint(0, 4)}
            row |= {name: drawn.choice(POOLS[type]) for name, type in self._case.columns.items()}
            row |= {line.names[name]: drawn.choice(POOLS["INT"]) for name in line.added}
            found.append((drawn.choice(kinds), row))
        return found

    def _arrow(self, table: Table, line: Line, rows: Sequence[Values]) -> pa.Table:
        """Return rows with the columns of the table; values of columns that came later are integers of 32 bits."""
        columns: dict[str, Any] = {}
        for one in table.schema.fields:
            values = [row[line.names[one.name]] for row in rows]
            is_new = one.name in line.added
            columns[one.name] = pa.array(values, pa.int32()) if is_new else array_of(values, one.type)
        return pa.table(columns)

    def _write(self, on: str | None) -> None:
        line, table = self._lines[on], self._table(on)
        changes = self._changes(line, [*ADDS, *self._case.kinds])
        kinds = pa.array([kind.symbol for kind, _ in changes])
        rows = self._arrow(table, line, [row for _, row in changes])
        table.write_changes(rows.append_column("kind", kinds), row_kind="kind")
        self._wrote(line, changes)

    def _wrote(self, line: Line, changes: Sequence[tuple[RowKind, Values]]) -> None:
        if self._kind == "postponed":
            line.waiting += changes
        else:
            self._apply(line, changes)

    def _apply(self, line: Line, changes: Sequence[tuple[RowKind, Values]]) -> None:
        if self._moves:
            line.add_moving(changes, self._shape)
        else:
            line.add(changes)

    def _compact(self, on: str | None) -> None:
        line = self._lines[on]
        self._table(on).compact(full=self._drawn.random() < 0.4)
        self._apply(line, line.waiting)
        line.waiting = []
        self.default_reads_agree(on)

    def _update(self, on: str | None) -> None:
        """Set a column to null, or the partition if keys move. The order of records stays."""
        line, least = self._lines[on], self._drawn.randint(0, 4)
        by = self._case.by if isinstance(self._case, Sequenced) else ()
        free = [name for name in self._case.columns if name not in by]
        if not free:
            return
        new: Values = {self._drawn.choice(free): None}
        if self._moves:
            new["pt"] = self._drawn.choice("ab")
        texts = {name: "NULL" if value is None else f"'{value}'" for name, value in new.items()}
        update = partial(self._table(on).update, texts, where=f"k >= {least}")
        if line.waiting or not self._replaces:
            self._is_refused(update)
            return
        update()
        self._wrote(line, [(RowKind.UPDATE_AFTER, row | new) for row in line.rows() if row["k"] >= least])

    def _delete(self, on: str | None) -> None:
        line, least = self._lines[on], self._drawn.randint(0, 4)
        delete = partial(self._table(on).delete, where=f"k >= {least}")
        if line.waiting or not self._deletes:
            self._is_refused(delete)
            return
        delete()
        self._wrote(line, [(RowKind.DELETE, row) for row in line.rows() if row["k"] >= least])

    def _overwrite(self, on: str | None) -> None:
        line, table = self._lines[on], self._table(on)
        if self._kind == "postponed":  # its rows wait, and the rows of the partition are gone
            return
        partition = self._drawn.choice("ab")
        changes = [(kind, row | {"pt": partition}) for kind, row in self._changes(line, [RowKind.INSERT])]
        rows = self._arrow(table, line, [row for _, row in changes])
        overwrite = partial(table.overwrite, rows, where=f"pt = '{partition}'")
        elsewhere = {row["k"] for row in line.rows() if row["pt"] != partition}
        if self._moves and not elsewhere.isdisjoint(row["k"] for _, row in changes):
            self._is_refused(overwrite)
            return
        before, last = line.shown(), max(line.snapshots, default=0)
        overwrite()
        new = [one for one in table.snapshots() if one.id > last]
        compactions = takewhile(lambda one: one.commit_kind != "OVERWRITE", new)  # they come before (BKT-27)
        line.snapshots |= {one.id: before for one in compactions}
        line.remove(partition)
        line.add(changes)

    def _expire(self, on: str | None) -> None:
        line, kept = self._lines[on], self._drawn.randint(1, 3)
        self._table(on).expire_snapshots(retain_last=kept)
        line.snapshots = {one: line.snapshots[one] for one in sorted(line.snapshots)[-kept:]}

    # -------------------------------------------------------------- columns and buckets

    def _add(self, on: str | None) -> None:
        self._count += 1
        name = f"n{self._count}"
        self._table(on).alter(add=f"{name} INT")
        self._lines[on].names[name] = name

    def _rename(self, on: str | None) -> None:
        line = self._lines[on]
        for name in line.added[:1]:
            self._count += 1
            new = f"m{self._count}"
            self._table(on).alter(rename={name: new})
            line.names = {(new if now == name else now): first for now, first in line.names.items()}

    def _drop(self, on: str | None) -> None:
        line = self._lines[on]
        for name in line.added[-1:]:
            self._table(on).alter(drop=name)
            del line.names[name]

    def _widen(self, on: str | None) -> None:
        line = self._lines[on]
        for name in line.added[:1]:
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
            if table.rescale() is not None:
                self._lines[on].forget_retractions()

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
        snapshots = table.snapshots()
        ids = [one.id for one in snapshots]
        last = max(line.snapshots, default=0)
        line.snapshots |= {one: line.shown() for one in ids if one > last}
        if ids != sorted(line.snapshots):
            fail(f"{on}: expected the snapshots {sorted(line.snapshots)}, found {ids}: {self.done}")
        for one, expected in line.snapshots.items():
            self._same(table.to_arrow(snapshot=one, fresh=True), expected, f"{on}, snapshot {one}")
        self._same(table.to_arrow(fresh=True), line.shown(), f"{on}")
        self.conditions_agree(table, line)
        for before, after in pairwise([one for one in snapshots if one.id >= last]):
            self.changes_agree(table, before, after)

    @check
    @covers("CHG-7", "CHG-9", "CHG-10", "CHG-40")
    def changes_agree(self, table: Table, before: Snapshot, after: Snapshot) -> None:
        """The changes that a snapshot records, applied to the rows before it, give its rows."""
        options = table.catalog.context.options
        producer, vectors = options.changelog_producer, str(options.deletion_vectors_enabled).lower()
        if producer == "none" or after.commit_kind == "OVERWRITE":
            return
        for one in (before, after):
            if one.schema_id != table.schema.id or not comes_next(table, one.id, producer, vectors):
                return
        held, expected = (self._by_key(table.to_arrow(snapshot=one.id)) for one in (before, after))
        found = applied(held, self._by_key(table.changes(before.id, after.id).to_arrow()))
        if found != set(expected):
            fail(f"changes of {after.id}: expected {expected}, found {found}: {self.done}")

    def _by_key(self, found: pa.Table) -> list[tuple[Any, ...]]:
        """Return rows or changes as: the row kind if there is one, the key, and all values as text."""
        rows = []
        for row in found.to_pylist():
            kind = [row.pop(KIND)] if KIND in row else []
            key = tuple(row[name] for name in self._shape.primary_key)
            rows.append((*kind, key, repr(sorted(naive.with_maps_in_order(row).items()))))
        return rows

    @check
    @covers("RD-5", "RD-6")
    def conditions_agree(self, table: Table, line: Line) -> None:
        """Compare some columns of the rows with a null, a number or a string, now or in a snapshot."""
        drawn = self._drawn
        at = drawn.choice([None, *line.snapshots])
        names, rows = line.snapshots[at] if at else line.shown()
        name, values = drawn.choice(names), drawn.sample(names, drawn.randint(1, len(names)))
        place = names.index(name)
        held = [row[place] for row in rows if isinstance(row[place], int | str)]
        if held and drawn.random() < 0.7:
            value = drawn.choice(held)
            where = f"{name} >= {value!r}"
            rows = [row for row in rows if row[place] is not None and row[place] >= value]
        else:
            where = f"{name} IS NULL"
            rows = [row for row in rows if row[place] is None]
        part = [tuple(row[names.index(one)] for one in values) for row in rows]
        found = table.to_arrow(snapshot=at, fresh=True, where=where, columns=values)
        self._same(found, (tuple(values), sorted(part, key=str)), f"snapshot {at}, {where}")

    @check
    @covers("RD-2", "BKT-27")
    def default_reads_agree(self, on: str | None) -> None:
        """A default read after a compaction finds all rows."""
        line = self._lines[on]
        self._same(self._table(on).to_arrow(), line.shown(), f"{on}, default read")

    def _same(self, found: pa.Table, expected: Shown, what: str) -> None:
        rows = sorted((tuple(naive.with_maps_in_order(row).values()) for row in found.to_pylist()), key=str)
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
