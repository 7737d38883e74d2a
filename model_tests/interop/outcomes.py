"""Play a history, and compare what everyone reads of every snapshot with what the table must mean.

Its meaning is the oracle's own fold of the changes (`pktable_spec.model.meaning`): of those that are compacted for a
default read, of all of them for a fresh read. `pktable` says which level-0 files a snapshot has, and in which bucket a
key lives; a wrong answer shows as a difference between it and the peers.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pktable import Table
from pktable.bucket.assign import assigner_of
from pktable.bucket.write import split_by_bucket
from pktable.catalog.changes import CommitId
from pktable.format.types import parse_type
from pktable.ingest.changes import ChangeKind
from pktable_conform.judge.history import row_kind
from pktable_spec.interface import Change, Key, Row
from pktable_spec.model.meaning import Meaning
from pktable_spec.model.merge import UserOrder

from model_tests.interop import retracting
from model_tests.interop.environments import JVMS
from model_tests.interop.histories import (
    SEQUENCE_FIELD,
    Condition,
    Definition,
    History,
    PlainChange,
    Step,
    numbered,
)
from model_tests.interop.limits import Limit, Snapshot
from model_tests.interop.peers import Outcome, Peer, PeerError, read_with_all
from model_tests.interop.plain import rows_of, table_of

OURS = "pktable"
BucketName = tuple[bytes, int]


@dataclass
class Tally:
    """Counts of what was compared so far.

    ``with_vectors``: snapshots that have some. ``limits``: how often a peer failed as its limit says. ``changes``:
    how many were compared with those that a peer read.
    """

    histories: int = 0
    snapshots: int = 0
    with_vectors: int = 0
    reads: dict[str, int] = field(default_factory=dict)
    limits: dict[Limit, int] = field(default_factory=dict)
    vector_kinds: set[str] = field(default_factory=set)
    changes: int = 0

    def add(self, other: Tally) -> None:
        """Count in what another one counts."""
        self.histories += other.histories
        self.snapshots += other.snapshots
        self.with_vectors += other.with_vectors
        self.vector_kinds |= other.vector_kinds
        self.changes += other.changes
        for name, count in other.reads.items():
            self.reads[name] = self.reads.get(name, 0) + count
        for limit, count in other.limits.items():
            self.limits[limit] = self.limits.get(limit, 0) + count


class Played:
    """A history being played in the directory ``path`` (WAREHOUSE/DATABASE.db/TABLE)."""

    def __init__(self, history: History, path: Path, peers: Mapping[str, Peer]) -> None:
        self.history, self.path, self._peers = history, path, peers
        keys = history.definition.primary_key
        self._key_at = [at for at, (name, _) in enumerate(history.definition.columns) if name in keys]
        self._create()
        self._meaning = self._new_meaning()
        self._buckets: dict[Key, BucketName] = {}

    def play(self) -> None:
        """Do every step. Raises PeerError, or whatever pktable raises."""
        changes = numbered(self.history.steps)
        for step, of_step in zip(self.history.steps, changes, strict=True):
            before = self._snapshot_ids()
            self._do(step, of_step)
            new = [one for one in self.table.snapshots() if one.id not in before]
            if of_step:
                assert new, f"{step.by} wrote and made no snapshot"
                assert new[0].commit_kind == "APPEND", (
                    f"{step.by} wrote, and {new[0].id} is {new[0].commit_kind}"
                )
                self._remember_buckets(of_step)
                self._meaning.commit(new[0].id, [Change(row_kind(kind), row) for kind, row in of_step])

    @property
    def table(self) -> Table:
        """The table as pktable opens it now."""
        return Table.open(self.path)

    def expected(self) -> dict[int, list[Row]]:
        """Return the rows that a read of each snapshot must give. Clauses: RD-2, RD-4, RD-15."""
        table = self.table
        if not self.history.definition.has_vectors:
            return {snapshot.id: self.all_rows(snapshot.id) for snapshot in table.snapshots()}
        born: dict[str, int] = {}
        found = {}
        for snapshot in table.snapshots():
            first: dict[Any, int] = {}
            state = table.catalog.state(snapshot.id)
            for bucket, files in state.files.items():
                for file in files:
                    if file.level == 0:
                        since = born.setdefault(file.file_name, snapshot.id)
                        first[bucket] = min(since, first.get(bucket, since))
            found[snapshot.id] = self._meaning.absorbed_rows(snapshot.id, first)
        return found

    def all_rows(self, snapshot: int) -> list[Row]:
        """Return the rows that a fresh read must give, or any read without vectors. Clauses: RD-3, RD-4."""
        return self._meaning.rows(snapshot)

    # ------------------------------------------------------------------ steps

    def _create(self) -> None:
        definition = self.history.definition
        if self.history.created_by == OURS:
            Table.create(
                self.path,
                ", ".join(f"{name} {type}" for name, type in definition.columns),
                primary_key=list(definition.primary_key) or None,
                partition_by=list(definition.partition_by),
                options=dict(definition.options),
            )
            return
        keys = definition.primary_key
        self._peers[self.history.created_by].ask(
            "create",
            table=str(self.path),
            columns=[
                [name, f"{type} NOT NULL" if name in keys else parse_type(type).to_json()]
                for name, type in definition.columns
            ],
            primary_key=list(keys),
            partition_by=list(definition.partition_by),
            options=dict(definition.options),
        )

    def _do(self, step: Step, changes: Sequence[PlainChange]) -> None:
        if step.by != OURS:
            request: dict[str, object] = {"table": str(self.path)}
            if step.do == "write":
                request |= {"rows": [[kind, *row] for kind, row in changes], "write_only": step.write_only}
                request["arrow_schema"] = self.table.schema.arrow_schema.serialize().to_pybytes().hex()
            else:
                request["full"] = step.full
            self._peers[step.by].ask(step.do, **request)
        elif step.do == "compact":
            self.table.compact(full=step.full)
        else:
            prepared = self.table.stage_write(
                self._arrow(changes), ChangeKind(column="op"), write_only=step.write_only
            )
            assert prepared is not None
            prepared.commit(CommitId("interop"))

    def _arrow(self, changes: Sequence[PlainChange]) -> pa.Table:
        rows = table_of([row for _, row in changes], self.table.schema.arrow_schema)
        return rows.append_column("op", pa.array([kind for kind, _ in changes]))

    def _snapshot_ids(self) -> set[int]:
        return {one.id for one in self.table.snapshots()}

    # ------------------------------------------------------------------ meaning

    def _new_meaning(self) -> Meaning | retracting.Meaning:
        definition = self.history.definition
        if definition.case:
            return retracting.Meaning(definition, self._key_of, self._bucket_of)
        return Meaning(self._key_of, self._bucket_of, definition.merge_engine, self._order())

    def _order(self) -> UserOrder | None:
        options = self.history.definition.options
        if SEQUENCE_FIELD not in options:
            return None
        names = [name for name, _ in self.history.definition.columns]
        descending = options[f"{SEQUENCE_FIELD}.sort-order"] == "descending"
        return UserOrder((names.index(options[SEQUENCE_FIELD]),), descending)

    def _key_of(self, row: Row) -> Key:
        return tuple([row[at] for at in self._key_at])

    def _bucket_of(self, row: Row) -> Any:
        return self._buckets[self._key_of(row)]

    def _remember_buckets(self, changes: Sequence[PlainChange]) -> None:
        new = {self._key_of(row): row for _, row in changes}
        rows = [row for key, row in new.items() if key not in self._buckets]
        if not rows:
            return
        table = self.table
        arrow = table_of(rows, table.schema.arrow_schema)
        numbers = pa.array(range(len(rows)), pa.int64())
        for partition, bucket, part in split_by_bucket(
            table.catalog.context, arrow.append_column("#", numbers), assigner_of(table.catalog.context, {})
        ):
            for number in part.column("#").to_pylist():
                self._buckets[self._key_of(rows[number])] = (partition, bucket)


# ------------------------------------------------------------------------------ comparing


def compare(played: Played, readers: Iterable[Peer], limits: Sequence[Limit], tally: Tally) -> None:
    """Compare every snapshot as everyone reads it. Raises AssertionError naming readers, snapshots and rows."""
    comparison = _Comparison(played, list(readers), limits, tally)
    wrong = comparison.of_fresh_reads() + comparison.of_changes()
    for condition in (None, *played.history.conditions):
        wrong += comparison.of_reads(condition)
    assert not wrong, "\n".join(wrong[:6])
    tally.histories += 1
    tally.snapshots += len(comparison.snapshots)
    tally.with_vectors += sum(bool(snapshot.vectors) for snapshot in comparison.snapshots.values())


class _Comparison:
    """The snapshots of a history that has been played, and what a read of each must give."""

    def __init__(self, played: Played, readers: list[Peer], limits: Sequence[Limit], tally: Tally) -> None:
        self._played, self._readers, self._limits, self._tally = played, readers, limits, tally
        self._table = played.table
        self.expected = played.expected()
        self.snapshots = {id: Snapshot(played.path, id, self._table) for id in self.expected}

    def of_fresh_reads(self) -> list[str]:
        wrong = []
        for id, snapshot in self.snapshots.items():
            fresh = _our_read(self._table, id, fresh=True)
            expected = self._played.all_rows(id)
            wrong += self._wrong_rows(f"{OURS}, fresh read, snapshot {id}", fresh, expected)
            self._tally.vector_kinds |= snapshot.container_kinds
        return wrong

    def of_changes(self) -> list[str]:
        """Compare the changes of each snapshot, in any order, as pktable reads them with those that the JVMs read.

        Not of tables to which others write: the JVMs do not read all level-0 files of theirs, which are changes, too.
        Nor of append tables, whose statements record no changes.
        """
        wrong: list[str] = []
        known = {step.by for step in self._played.history.steps} <= {OURS, *JVMS}
        if not known or not self._table.schema.primary_keys:
            return wrong
        ours = {id: _our_changes(self._table, id) for id in self.expected}
        for peer in self._readers:
            if peer.name not in JVMS:
                continue
            peer.send("changes", table=str(self._played.path))
            for id, outcome in peer.received_snapshots().items():
                wrong += _wrong_rows(f"{peer.name}, changes of snapshot {id}", outcome, ours[id])
            self._tally.changes += sum(map(len, ours.values()))
        return wrong

    def of_reads(self, condition: Condition | None) -> list[str]:
        wrong = []
        under = "" if condition is None else f", where {' '.join(condition)}"
        found: dict[str, Any] = {OURS: {id: _our_read(self._table, id, condition) for id in self.expected}}
        found |= read_with_all(self._readers, str(self._played.path), [condition] if condition else [])
        for reader, outcomes in found.items():
            if isinstance(outcomes, PeerError) or set(outcomes) != set(self.expected):
                wrong.append(f"{reader}{under}: expected snapshots {sorted(self.expected)}, found {outcomes}")
                continue
            for id, outcome in outcomes.items():
                wrong += self._of_outcome(reader, id, outcome, condition, f"{reader}{under}, snapshot {id}")
            self._tally.reads[reader] = self._tally.reads.get(reader, 0) + len(outcomes)
        return wrong

    def _of_outcome(
        self, reader: str, id: int, outcome: Outcome, condition: Condition | None, at: str
    ) -> list[str]:
        limits = [
            limit
            for limit in self._limits
            if limit.peer == reader and (condition is not None or not limit.filtered)
            if limit.applies(self.snapshots[id])
        ]
        rows = self.expected[id]
        if condition is not None:
            holds = keeps(self._played.history.definition, condition)
            rows = [row for row in rows if holds(row)]
        wrong = self._wrong_rows(at, outcome, rows)
        met = [limit for limit in limits if limit.is_met(wrong)]
        for limit in met:
            self._tally.limits[limit] = self._tally.limits.get(limit, 0) + 1
        if met:
            return []
        certain = [limit for limit in limits if limit.always]
        # Under a condition a peer may never look at what it cannot read.
        if certain and condition is None:
            return [f"{at}: reading {certain[0].what} should fail with {certain[0].error!r}: {outcome}"]
        return wrong

    def _wrong_rows(self, at: str, outcome: Outcome, expected: Sequence[Row]) -> list[str]:
        definition = self._played.history.definition
        if not isinstance(outcome, PeerError):
            outcome = retracting.in_any_order(definition, outcome)
        return _wrong_rows(at, outcome, retracting.in_any_order(definition, expected))


def _wrong_rows(at: str, outcome: Outcome, expected: Sequence[Row]) -> list[str]:
    if isinstance(outcome, PeerError):
        return [f"{at}: {outcome.message}"]
    missing, extra = _difference(expected, outcome), _difference(outcome, expected)
    if not missing and not extra:
        return []
    counts = f"{len(missing)} rows missing, {len(extra)} too many"
    return [f"{at}: {counts}; missing {_brief(missing)}, too many {_brief(extra)}"]


def _brief(rows: Sequence[Row]) -> str:
    """Return a few of the rows, long values cut."""
    short = [
        tuple(v[:40] + "…" if isinstance(v, str) and len(v) > 40 else v for v in row) for row in rows[:3]
    ]
    return str(short)


def _difference(left: Sequence[Row], right: Sequence[Row]) -> list[Row]:
    return list((Counter(left) - Counter(right)).elements())


def _our_read(
    table: Table, snapshot: int, condition: Condition | None = None, *, fresh: bool = False
) -> list[Row]:
    where = None if condition is None else sql_of(table, condition)
    return [tuple(row) for row in rows_of(table.to_arrow(snapshot=snapshot, fresh=fresh, where=where))]


def sql_of(table: Table, condition: Condition) -> str:
    """Return a condition as pktable reads it."""
    column, symbol, literal = condition
    number = _is_number(str(table.schema.field(column).type))
    return f"{column} {symbol} {literal if number else _quoted(literal)}"


def _our_changes(table: Table, snapshot: int) -> list[Row]:
    changes = table.changes(snapshot - 1, snapshot).to_arrow()
    return [tuple(row) for row in rows_of(changes)]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _is_number(type: str) -> bool:
    return type.split(" ")[0] in ("INT", "BIGINT")


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def keeps(definition: Definition, condition: Condition) -> Callable[[Row], bool]:
    """Return whether a row satisfies a condition on a column without nulls: integers by value, strings by UTF-8."""
    column, symbol, literal = condition
    at = [name for name, _ in definition.columns].index(column)
    order: Callable[[Any], Any] = int if _is_number(definition.type_of(column)) else str.encode
    holds, against = _OPERATORS[symbol], order(literal)
    return lambda row: holds(order(row[at]), against)
