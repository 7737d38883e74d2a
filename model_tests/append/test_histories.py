"""Drawn histories of append tables: every snapshot means what the oracle says, and every step is one of its steps."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pktable import CommitId, Table
from pktable.bucket import append_vectors
from pktable.catalog import rules
from pktable.file_changes import RowChange, StagedFileChange, StagedRewrite, StaleChangeError
from pktable.table import check
from pktable_spec.covers import covers
from pktable_spec.errors import PkTableError
from pktable_spec.model.append import Content, Meaning, problem_of_step

from model_tests.append.test_deleting import DV, found_rows
from model_tests.append.test_writing import FIXED

SMALL = {"compaction.min.file-num": "2", "deletion-vector.index-file.target-size": "50 b"}
TABLES: dict[str, dict[str, str]] = {
    "vectors": {**DV, **SMALL},
    "vectors in buckets": {**DV, **FIXED, **SMALL, "bucket": "2"},
    "vectors of 64 bits": {**DV, **SMALL, "deletion-vectors.bitmap64": "true"},
    "files written again": SMALL,
    "files of buckets written again": {**FIXED, **SMALL, "bucket": "2"},
}
QUICK = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
IDS = st.integers(0, 3)
NEW = st.lists(st.tuples(IDS, st.sampled_from(["x", "y", None])), min_size=1, max_size=4)

Row = tuple[int, str | None, int | None]


def matches(condition: tuple[str, int], row: Row) -> bool:
    kind, number = condition
    return {"id": row[0] == number, "least": row[0] >= number, "null": row[1] is None, "all": True}[kind]


def sql(condition: tuple[str, int]) -> str:
    kind, number = condition
    return {"id": f"id = {number}", "least": f"id >= {number}", "null": "v IS NULL", "all": "TRUE"}[kind]


CONDITIONS = st.tuples(st.sampled_from(["id", "id", "least", "null", "all"]), IDS)


Step = tuple[str, Any]
STEPS = st.one_of(
    st.tuples(st.just("append"), NEW),
    st.tuples(st.just("delete"), CONDITIONS),
    st.tuples(st.just("update"), CONDITIONS),
    st.tuples(st.just("compact"), st.booleans()),
    st.tuples(st.just("stage_delete"), CONDITIONS),
    st.tuples(st.just("stage_compaction"), st.booleans()),
    st.tuples(st.just("commit"), st.integers(0, 3)),
    st.tuples(st.just("commit"), st.integers(0, 3)),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("tag_and_expire"), st.none()),
)
HISTORIES = st.tuples(
    st.booleans(), st.lists(NEW, min_size=2, max_size=3), st.lists(STEPS, min_size=8, max_size=14)
)
"""Whether the table is partitioned, what is added at first, and what happens then."""

History = tuple[bool, list[list[tuple[int, "str | None"]]], list[Step]]


class Run:
    """One history on one table: appends, deletes, updates and compactions, at once or committed later."""

    def __init__(self, folder: Path, options: dict[str, str], partitioned: bool) -> None:
        self.table = Table.create(
            folder / "t",
            "id BIGINT, v STRING, p INT",
            primary_key=None,
            partition_by="p" if partitioned else (),
            options=options,
        )
        self.meaning = Meaning()
        self.seen: dict[int, Content] = {0: Content()}
        self.tags: dict[str, Counter[Row]] = {}
        self.staged: list[tuple[StagedFileChange | StagedRewrite, Counter[Row]]] = []

    # ---------------------------------------------------------------- steps

    def append(self, rows: list[tuple[int, str | None]]) -> None:
        new = [(i, v, None if i == 0 else i % 2) for i, v in rows]
        expected = self.last + 1
        assert self.table.append(arrow(new)) == expected
        self.meaning.commit(expected, come=Counter(new))

    def delete(self, condition: tuple[str, int]) -> None:
        gone = self.rows_of(condition)
        found = self.table.delete(where=sql(condition))
        assert (found is None) == (not gone)
        if gone:
            self.meaning.commit(self.last, gone=gone)

    def update(self, condition: tuple[str, int]) -> None:
        gone = self.rows_of(condition)
        come: Counter[Row] = Counter()
        for (i, _, p), n in gone.items():
            come[i, "new", p] += n

        def work(state: Any) -> RowChange:
            return RowChange(found_rows(self.table, sql(condition), state), arrow(list(come.elements())))

        if gone:
            assert self.table.stager.change_rows(work, CommitId.new()) is not None
            self.meaning.commit(self.last, gone=gone, come=come)

    def compact(self, full: bool) -> None:
        if self.table.compact(full=full) is not None:
            self.meaning.commit(self.last)

    def stage_delete(self, condition: tuple[str, int]) -> None:
        gone = self.rows_of(condition)
        if not gone:
            return
        state = self.table.catalog.state()
        change = self.table.stager.changer.delete_rows(state, found_rows(self.table, sql(condition), state))
        self.staged.append((change, gone))

    def stage_compaction(self, full: bool) -> None:
        self.staged.append((self.table.stage_rewrite(full=full), Counter()))

    def reopen(self, nothing: None) -> None:
        self.table = Table.open(self.table.path)

    def commit(self, number: int) -> None:
        if not self.staged:
            return
        change, gone = self.staged.pop(number % len(self.staged))
        before = self.last
        if isinstance(change, StagedRewrite):
            change.commit(CommitId.new())
            for snapshot in range(before + 1, self.last + 1):
                self.meaning.commit(snapshot)
            return
        try:
            change.commit(CommitId.new())
        except StaleChangeError:
            change.discard()
            return
        self.meaning.commit(self.last, gone=gone)

    def tag_and_expire(self, nothing: None) -> None:
        if self.last and f"t{self.last}" not in self.tags:
            self.table.create_tag(f"t{self.last}")
            self.tags[f"t{self.last}"] = self.meaning.latest
            self.table.expire_snapshots(retain_last=2)

    # ---------------------------------------------------------------- checks

    def compare(self) -> None:
        """Compare every retained snapshot and tag with the oracle, and check the table."""
        table = Table.open(self.table.path)
        for snapshot in table.snapshots():
            expected = self.meaning.at[snapshot.id]
            assert rows(table.to_arrow(snapshot=snapshot.id)) == expected, snapshot.id
            assert table.count(snapshot=snapshot.id) == expected.total()
            if snapshot.id not in self.seen:
                content = content_of(table, snapshot.id)
                assert content.meaning() == expected
                if snapshot.id - 1 in self.seen:
                    before = self.seen[snapshot.id - 1]
                    assert problem_of_step(before, content, snapshot.commit_kind) is None
                self.seen[snapshot.id] = content
        for tag, expected in self.tags.items():
            assert rows(table.to_arrow(tag=tag)) == expected
        errors = [str(one) for one in check(table.path).findings if one.severity == "error"]
        assert errors == []

    @property
    def last(self) -> int:
        return self.table.catalog.state().id

    def rows_of(self, condition: tuple[str, int]) -> Counter[Row]:
        return Counter({row: n for row, n in self.meaning.latest.items() if matches(condition, row)})


def arrow(new: list[Row]) -> pa.Table:
    columns = list(zip(*new, strict=True)) if new else [(), (), ()]
    types = (pa.int64(), pa.string(), pa.int32())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=["id", "v", "p"])


def rows(table: pa.Table) -> Counter[Row]:
    return Counter(tuple(row.values()) for row in table.select(["id", "v", "p"]).to_pylist())


def content_of(table: Table, snapshot: int) -> Content:
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


def histories_agree(options: dict[str, str], how: settings = QUICK) -> None:
    """Do drawn histories on tables with ``options``; raises what a disagreement raises."""

    @how
    @given(HISTORIES)
    def agree(history: History) -> None:
        partitioned, first, steps = history
        with tempfile.TemporaryDirectory(prefix="append-") as folder:
            run = Run(Path(folder), options, partitioned)
            for rows in first:
                run.append(rows)
            for name, argument in steps:
                getattr(run, name)(argument)
                run.compare()

    agree()


@covers(
    "APP-1", "APP-12", "APP-13", "APP-15", "APP-16", "APP-17", "APP-18", "APP-21", "DV-4", "DV-5", "DV-11"
)
@pytest.mark.parametrize("options", TABLES.values(), ids=TABLES)
def test_drawn_histories_are_those_of_the_oracle(options: dict[str, str]) -> None:
    histories_agree(options)


def _last_wins(before: Any, deleted: Any, bits: int) -> Any:
    return deleted


def without(*clauses: str) -> Callable[[pytest.MonkeyPatch], None]:
    """Return what leaves out the rules of some clauses."""

    def leave_out(patch: pytest.MonkeyPatch) -> None:
        for name in ("FILE_RULES", "INDEXED_RULES"):
            kept = tuple((clause, rule) for clause, rule in getattr(rules, name) if clause not in clauses)
            patch.setattr(rules, name, kept)

    return leave_out


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "vectors are replaced": lambda patch: patch.setattr(append_vectors, "merged", _last_wins),
    "removed files need not be live": without("APP-15", "DV-4"),
    "deleted rows come again": without("APP-16"),
    "deleted rows are deleted again": without("APP-17", "DV-4"),
    "vectors of others are not looked at": without("APP-18"),
}


@pytest.mark.slow
@covers("APP-13", "APP-15", "APP-16", "APP-17", "APP-18")
@pytest.mark.parametrize(
    "options", [TABLES["vectors"], TABLES["vectors in buckets"]], ids=["no buckets", "buckets"]
)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_histories_notice_a_rule_that_is_left_out(
    fault: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    FAULTS[fault](monkeypatch)
    with pytest.raises((AssertionError, PkTableError)):
        histories_agree(options, settings(QUICK, max_examples=80, phases=[Phase.generate]))
