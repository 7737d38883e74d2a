"""Drawn histories of append tables, done on a table and on the oracle.

A history adds rows, executes statements, compacts, stages deletes and compactions that are committed later, whatever
was committed in between, and expires snapshots. After each step every retained snapshot and tag is compared with the
oracle's rows, in tables with row tracking with their ids, and every new snapshot must be a step of its mechanism.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import hypothesis
import pyarrow as pa
from hypothesis import strategies as st
from pktable import CommitId, Table
from pktable.catalog.read_plan import plan_read
from pktable.catalog.state import TableState
from pktable.format.metadata.snapshot import Snapshot
from pktable.predicate import parse
from pktable.run.runner import Query, RowChange, found_rows
from pktable.staged import StagedCompaction, StagedRows
from pktable.table import check as findings_of
from pktable_conform.judge.checks import check, fail
from pktable_spec.covers import covers
from pktable_spec.model.append import Content, problem_of_step
from pktable_spec.model.row_ids import Identified, IdentifiedRows

from model_tests.append.questions import condition_agrees, partitions_are_counted
from model_tests.histories.run import INDEPENDENT

VECTORS: Final = {"deletion-vectors.enabled": "true"}
BUCKETS: Final = {"bucket": "2", "bucket-key": "id"}
TRACKED: Final = {"row-tracking.enabled": "true"}
SMALL: Final = {"compaction.min.file-num": "2", "deletion-vector.index-file.target-size": "50 b"}
TABLES: Final[Mapping[str, dict[str, str]]] = {
    "vectors": {**VECTORS, **SMALL},
    "vectors in buckets": {**VECTORS, **BUCKETS, **SMALL},
    "vectors of 64 bits": {**VECTORS, **SMALL, "deletion-vectors.bitmap64": "true"},
    "files written again": SMALL,
    "files of buckets written again": {**BUCKETS, **SMALL},
    "row ids and vectors": {**TRACKED, **VECTORS, **SMALL},
    "row ids and files written again": {**TRACKED, **SMALL},
}
"""The options of append tables, by the kind of table."""

Row = tuple[int, str | None, int | None]
Step = tuple[str, Any]
Rows = Counter[Row]


@dataclass(frozen=True)
class AppendHistory:
    """``first``: what is added at first, ids and values. ``steps``: methods of `AppendRun`, and their arguments."""

    partitioned: bool
    first: list[list[tuple[int, str | None]]]
    steps: list[Step]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> AppendHistory:
        return AppendHistory(stored["partitioned"], stored["first"], stored["steps"])


IDS = st.integers(0, 3)
NEW = st.lists(st.tuples(IDS, st.sampled_from(["x", "y", None])), min_size=1, max_size=4)
SOURCE = st.lists(st.tuples(IDS, st.sampled_from(["x", "y", None])), max_size=3, unique_by=lambda row: row[0])
CONDITIONS = st.tuples(st.sampled_from(["id", "id", "least", "null", "all"]), IDS)
STATEMENTS = st.one_of(
    st.tuples(st.just("append"), NEW),
    st.tuples(st.just("delete"), CONDITIONS),
    st.tuples(st.just("update"), CONDITIONS),
    st.tuples(st.just("merge"), SOURCE),
    st.tuples(st.sampled_from(["overwrite", "append"]), NEW),
    st.tuples(st.just("compact"), st.booleans()),
)
STAGED = st.one_of(
    st.tuples(st.just("stage_delete"), CONDITIONS),
    st.tuples(st.just("stage_compaction"), st.booleans()),
)
COMMITS = st.tuples(st.just("commit"), st.integers(0, 3))
OTHERS = st.one_of(
    st.tuples(st.sampled_from(["truncate", "reopen", "reopen"]), st.none()),
    st.tuples(st.just("tag_and_expire"), st.none()),
)
RACES = st.tuples(STAGED, st.one_of(STATEMENTS, STAGED), COMMITS)
"""What is staged, something that may come between, and a commit."""
PARTS = st.one_of(
    st.tuples(STATEMENTS),
    st.tuples(STATEMENTS),
    st.tuples(STAGED),
    st.tuples(COMMITS),
    st.tuples(OTHERS),
    RACES,
)
HISTORIES = st.builds(
    AppendHistory,
    st.booleans(),
    st.lists(NEW, min_size=2, max_size=3),
    st.lists(PARTS, min_size=6, max_size=9).map(lambda parts: [step for part in parts for step in part]),
)


def play(history: AppendHistory, options: Mapping[str, str]) -> int:
    """Do a history on a new table with all checks; return the number of its steps. Raises CheckFailed."""
    with tempfile.TemporaryDirectory(prefix="append-") as folder:
        run = AppendRun(Path(folder), options, partitioned=history.partitioned)
        for rows in history.first:
            run.append(rows)
            run.compare()
        for name, argument in history.steps:
            getattr(run, name)(argument)
            run.compare()
    return len(history.steps)


def draw(options: Mapping[str, str], number: int, seed: int) -> None:
    """Do some drawn histories. Raises CheckFailed, or what a table raises, at the first that fails."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        backend=INDEPENDENT,
        max_examples=number,
        deadline=None,
        database=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
    )
    @hypothesis.given(HISTORIES)
    def agree(history: AppendHistory) -> None:
        play(history, options)

    agree()


class OvertakenError(Exception):
    """Others have changed what a delete is about."""


class AppendRun:
    """One history being done. Its methods are its steps."""

    def __init__(self, folder: Path, options: Mapping[str, str], *, partitioned: bool) -> None:
        self.table = Table.create(
            folder / "t",
            "id BIGINT, v STRING, p INT",
            primary_key=None,
            partition_by="p" if partitioned else (),
            options=dict(options),
        )
        self.oracle = IdentifiedRows()
        self.seen: dict[int, Content] = {0: Content()}
        self.tags: dict[str, Rows] = {}
        self.staged: list[tuple[StagedRows | StagedCompaction, list[int]]] = []

    # ---------------------------------------------------------------- steps

    def append(self, rows: list[tuple[int, str | None]]) -> None:
        new = _with_partition(rows)
        self.table.append(_arrow(new))
        self._committed(inserted=new)

    def delete(self, condition: tuple[str, int]) -> None:
        gone = self._ids_of(condition)
        self.table.delete(where=_sql(condition))
        self._committed(gone=gone)

    def update(self, condition: tuple[str, int]) -> None:
        old = {row_id: self.oracle.latest[row_id][0] for row_id in self._ids_of(condition)}
        self.table.update({"v": "concat(coalesce(v, ''), 'u')"}, where=_sql(condition))
        self._committed(updated={row_id: (i, (v or "") + "u", p) for row_id, (i, v, p) in old.items()})

    def merge(self, source: list[tuple[int, str | None]]) -> None:
        """Delete what a source row without a value matches, update what another matches, insert the others."""
        values = dict(source)
        there = {row_id: row for row_id, (row, _) in self.oracle.latest.items()}
        matched = {row_id: row for row_id, row in there.items() if row[0] in values}
        gone = [row_id for row_id, row in matched.items() if values[row[0]] is None]
        updated = {j: (i, values[i], p) for j, (i, _, p) in matched.items() if values[i] is not None}
        present = {row[0] for row in there.values()}
        inserted = [row for row in _with_partition(source) if row[0] not in present]
        merge = self.table.merge(_arrow(_with_partition(source)), on="id").when_matched_delete(
            "source.v IS NULL"
        )
        merge.when_matched_update({"v": "source.v"}).when_not_matched_insert_all().execute()
        self._committed(gone=gone, updated=updated, inserted=inserted)

    def overwrite(self, rows: list[tuple[int, str | None]]) -> None:
        new = _with_partition(rows)
        self.table.overwrite(_arrow(new))
        self._committed(gone=list(self.oracle.latest), inserted=new)

    def truncate(self, nothing: None) -> None:
        before = self.last
        if self.table.truncate() is not None or self.last != before:
            self.oracle.commit(self.last, gone=list(self.oracle.latest))

    def compact(self, full: bool) -> None:
        before = self.last
        self.table.compact(full=full)
        for snapshot in range(before + 1, self.last + 1):
            self.oracle.commit(snapshot)

    def stage_delete(self, condition: tuple[str, int]) -> None:
        gone = self._ids_of(condition)
        if gone:
            state, context = self.table.catalog.state(), self.table.catalog.context
            predicate = parse(_sql(condition), self.table.schema.fields)
            parts = plan_read(context, self.table.catalog.states, state, fresh=True, predicate=predicate)
            found = found_rows(self.table.runner, context, Query(parts, (), predicate))

            def work(on: TableState) -> RowChange:
                if on is not state:
                    raise OvertakenError
                return RowChange(found)

            self.staged.append((StagedRows.of(self.table.stager, state, work), gone))

    def stage_compaction(self, full: bool) -> None:
        self.staged.append((self.table.stage_compaction(full=full), []))

    def reopen(self, nothing: None) -> None:
        self.table = Table.open(self.table.path)

    def commit(self, number: int) -> None:
        if not self.staged:
            return
        change, gone = self.staged.pop(number % len(self.staged))
        before = self.last
        if isinstance(change, StagedCompaction):
            change.commit(CommitId.new())
            for snapshot in range(before + 1, self.last + 1):
                self.oracle.commit(snapshot)
            return
        try:
            change.commit(CommitId.new())
        except OvertakenError:
            return
        self.only_live_rows_go(gone)
        self.oracle.commit(self.last, gone=gone)

    def tag_and_expire(self, nothing: None) -> None:
        if self.last and f"t{self.last}" not in self.tags:
            self.table.create_tag(f"t{self.last}")
            self.tags[f"t{self.last}"] = self.oracle.rows(self.last)
            self.table.expire_snapshots(retain_last=2)

    # ---------------------------------------------------------------- checks

    def compare(self) -> None:
        """Compare every retained snapshot and tag with the oracle, and check the table."""
        table = Table.open(self.table.path)
        for snapshot in table.snapshots():
            self.reads_agree(table, snapshot.id)
            if snapshot.id not in self.seen:
                if table.catalog.context.options.row_tracking:
                    self.ids_agree(table, snapshot)
                self.step_is_the_oracles(table, snapshot.id, snapshot.commit_kind)
        condition_agrees(table, [row for row, _ in self.oracle.latest.values()], self.last)
        partitions_are_counted(table)
        self.tags_agree(table)
        self.table_is_sound(table)

    @check
    @covers("APP-1", "APP-12", "APP-13", "APP-31", "STM-1", "STM-7")
    def reads_agree(self, table: Table, snapshot: int) -> None:
        """Every read of a snapshot returns the oracle's rows, and its count their number."""
        expected, found = self.oracle.rows(snapshot), _rows(table.to_arrow(snapshot=snapshot))
        if found != expected:
            fail(f"snapshot {snapshot}: missing {expected - found}, too many {found - expected}")
        count = table.count(snapshot=snapshot)
        if count != expected.total():
            fail(f"snapshot {snapshot}: counted {count}, expected {expected.total()}")

    @check
    @covers("APP-24", "APP-25", "APP-32")
    def ids_agree(self, table: Table, snapshot: Snapshot) -> None:
        """Rows of a new snapshot have the ids and numbers of the oracle, which leaves the order of new ids open."""
        problem = self.oracle.choose(snapshot.id, _identified(table, snapshot.id))
        if problem is not None:
            fail(f"snapshot {snapshot.id}: {problem}")
        if snapshot.next_row_id != self.oracle.next_id[snapshot.id]:
            fail(f"snapshot {snapshot.id}: the next row id is {snapshot.next_row_id}")

    @check
    @covers("APP-13", "APP-15", "APP-16", "APP-21", "APP-34", "DV-4", "DV-11")
    def step_is_the_oracles(self, table: Table, snapshot: int, kind: str) -> None:
        """A new snapshot is a step of the mechanism from the one before it."""
        content = _content_of(table, snapshot)
        before, self.seen[snapshot] = self.seen.get(snapshot - 1), content
        problem = problem_of_step(before, content, kind) if before is not None else None
        if problem is not None:
            fail(f"snapshot {snapshot}: {problem}")

    @check
    @covers("CMT-17")
    def tags_agree(self, table: Table) -> None:
        """A tag reads as its snapshot did."""
        for tag, expected in self.tags.items():
            found = _rows(table.to_arrow(tag=tag))
            if found != expected:
                fail(f"tag {tag}: missing {expected - found}, too many {found - expected}")

    @check
    @covers("DV-5")
    def table_is_sound(self, table: Table) -> None:
        """The checker finds no error."""
        errors = [str(one) for one in findings_of(table.path).findings if one.severity == "error"]
        if errors:
            fail(errors[0])

    @check
    @covers("APP-17", "APP-18")
    def only_live_rows_go(self, gone: list[int]) -> None:
        """A delete that is committed late deletes rows that nobody has deleted in between."""
        twice = gone - self.oracle.latest.keys()
        if twice:
            fail(f"rows were deleted again: {twice}")

    @check
    @covers("CMT-2", "APP-12")
    def one_snapshot_was_made(self, before: int, changes: bool) -> None:
        """A statement makes one snapshot, and none if nothing changes."""
        if self.last != before + changes:
            fail(f"expected {int(changes)} snapshots, found {self.last - before}")

    def _committed(
        self,
        *,
        gone: Sequence[int] = (),
        updated: Mapping[int, Row] | None = None,
        inserted: Sequence[Row] = (),
    ) -> None:
        changes = bool(gone or updated or inserted)
        self.one_snapshot_was_made(self.oracle.last, changes)
        if changes:
            self.oracle.commit(self.last, gone=gone, updated=updated, inserted=inserted)

    @property
    def last(self) -> int:
        return self.table.catalog.state().id

    def _ids_of(self, condition: tuple[str, int]) -> list[int]:
        return [i for i, ((number, v, _), _) in self.oracle.latest.items() if _matches(condition, number, v)]


def _matches(condition: tuple[str, int], row_number: int, value: str | None) -> bool:
    kind, number = condition
    matches = {"id": row_number == number, "least": row_number >= number, "null": value is None, "all": True}
    return matches[kind]


def _sql(condition: tuple[str, int]) -> str:
    kind, number = condition
    return {"id": f"id = {number}", "least": f"id >= {number}", "null": "v IS NULL", "all": "TRUE"}[kind]


def _with_partition(rows: list[tuple[int, str | None]]) -> list[Row]:
    return [(i, v, None if i == 0 else i % 2) for i, v in rows]


def _arrow(new: list[Row]) -> pa.Table:
    columns = list(zip(*new, strict=True)) if new else [(), (), ()]
    types = (pa.int64(), pa.string(), pa.int32())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=["id", "v", "p"])


def _rows(table: pa.Table) -> Rows:
    return Counter(tuple(row.values()) for row in table.select(["id", "v", "p"]).to_pylist())


def _identified(table: Table, snapshot: int) -> Identified:
    """Return the live rows of a snapshot by their ids, as its files store them."""
    found: Identified = {}
    for name in table.inspect.files(snapshot).column("file_name").to_pylist():
        for row in table.inspect.records(name, snapshot).to_pylist():
            if not row["deleted"]:
                if row["_ROW_ID"] in found:
                    fail(f"snapshot {snapshot}: two rows have the id {row['_ROW_ID']}")
                found[row["_ROW_ID"]] = (row["id"], row["v"], row["p"]), row["_SEQUENCE_NUMBER"]
    return found


def _content_of(table: Table, snapshot: int) -> Content:
    """Return a snapshot as it is on disk: the records of each file, and the positions of each vector."""
    files, deleted = {}, {}
    for file in table.inspect.files(snapshot).to_pylist():
        records = table.inspect.records(file["file_name"], snapshot)
        files[file["file_name"]] = tuple(
            tuple(row.values()) for row in records.select(["id", "v", "p"]).to_pylist()
        )
    for vector in table.inspect.vectors(snapshot).to_pylist():
        deleted[vector["file_name"]] = frozenset(vector["positions"])
    return Content(files, deleted)
