"""Lookups of keys: drawn histories of a file group against an oracle, cases of RFC-06, and what a lookup reads."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pktable import HudiTable
from pktable.format.hudi.bloom import SimpleFilter, capacity
from pktable.format.hudi.delete_content import Delete
from pktable.format.hudi.key_summary import KeySummary
from pktable.format.hudi.log_block import LogBlock, encode_block
from pktable.format.hudi.log_index import LogIndex, Member, with_index
from pktable.hudi.index_writer import LIST, POINTER, IndexPolicy
from pktable.hudi.lookup import index_of_file
from pktable.store.file_io import LocalFileIO
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError

from model_tests.hudi.counted_reads import CountedStore
from model_tests.hudi.made_tables import MadeTable, instant, row

UNIVERSE = [*"abcdefgh", "\uff5e", "\U0001f600"]
SUBSETS = st.lists(st.sampled_from(UNIVERSE), min_size=1, max_size=4, unique=True)


def located(table: MadeTable, keys: list[str] | None = None) -> set[str]:
    return set(table.open().locate(keys or UNIVERSE).column("key").to_pylist())


class FileGroupMachine(RuleBasedStateMachine):
    """Writers with and without indexes, open commits that end in any order, torn files, compactions in between.

    ``base``: the keys of the base file. ``logs``: the keys of each commit. ``completed``: when commits were completed,
    those that are still open left out. ``compaction``: when a compaction was planned, and the keys it takes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(prefix="hudi-")
        self.number = 0
        self.base: set[str] = set()
        self.logs: dict[int, set[str]] = {}
        self.completed: dict[int, int] = {}
        self.compaction: tuple[int, set[str]] | None = None

    @property
    def open(self) -> list[int]:
        return [number for number in self.logs if number not in self.completed]

    @property
    def visible(self) -> set[str]:
        return self.base.union(*(self.logs[number] for number in self.completed))

    @initialize(
        policy=st.builds(
            IndexPolicy,
            false_positives=st.sampled_from([0.3, 0.01]),
            clique_keys=st.sampled_from([3, 8, 1000]),
            clique_files=st.sampled_from([None, 1, 3]),
            chain=st.sampled_from([POINTER, LIST]),
        ),
        has_base=st.booleans(),
    )
    def start(self, policy: IndexPolicy, has_base: bool) -> None:
        self.policy = policy
        self.table = MadeTable(Path(self.directory.name) / "t")
        if has_base:
            self.table.base(self._next(), [row("a", 0, 0)])
            self.table.commit(self.number)
            self.base = {"a"}

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _rows(self, number: int, keys: list[str], kind: str) -> LogBlock:
        rows = [
            row(key, number, number) for key in (sorted(keys, key=str.encode) if kind == "parquet" else keys)
        ]
        return self.table.parquet(number, rows) if kind == "parquet" else self.table.data(number, rows)

    @rule(
        keys=SUBSETS,
        has_index=st.booleans(),
        kind=st.sampled_from(["avro", "parquet"]),
        completes=st.booleans(),
    )
    def write(self, keys: list[str], has_index: bool, kind: str, completes: bool) -> None:
        number = self._next()
        block = self._rows(number, keys, kind)
        ordered = sorted(keys, key=str.encode) if kind == "parquet" else keys
        blocks = self.table.index(number, block, ordered, self.policy) if has_index else [block]
        self.table.log(number, *blocks)
        self.table.begin(number)
        self.logs[number] = set(keys)
        if completes:
            self._complete(number)

    @rule(keys=SUBSETS, has_index=st.booleans())
    def delete(self, keys: list[str], has_index: bool) -> None:
        number = self._next()
        block = self.table.deletes(number, *(Delete(key, None) for key in keys))
        self.table.log(number, *(self.table.index(number, block, [], self.policy) if has_index else [block]))
        self.table.commit(number)

    def _complete(self, number: int) -> None:
        self.completed[number] = self._next()
        self.table.commit(number, completed=self.number)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        self._complete(data.draw(st.sampled_from(self.open)))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.open))
        del self.logs[number]
        (self.table.root / f".g_{instant(number)}.log.1_0-0-0").unlink()
        (self.table.timeline / f"{instant(number)}.deltacommit.inflight").unlink()

    @rule(keys=SUBSETS)
    def tear(self, keys: list[str]) -> None:
        """A writer dies while it writes the file of a commit that never completes."""
        number = self._next()
        path = self.table.log(number, self.table.data(number, [row(key, 0, 0) for key in keys]))
        path.write_bytes(path.read_bytes()[:-5])
        self.table.begin(number)

    @rule(keys=SUBSETS, has_index=st.booleans())
    def tear_behind(self, keys: list[str], has_index: bool) -> None:
        """A complete file has a torn block behind its good one."""
        number = self._next()
        block = self._rows(number, keys, "avro")
        blocks = self.table.index(number, block, keys, self.policy) if has_index else [block]
        path = self.table.log(number, *blocks)
        path.write_bytes(path.read_bytes() + encode_block(block)[:20])
        self.logs[number] = set(keys)
        self._complete(number)

    @precondition(lambda self: self.compaction is None and self.completed)
    @rule()
    def plan_compaction(self) -> None:
        number = self._next()
        self.table.plan_compaction(number, ["g"])
        self.compaction = number, self.visible

    @precondition(lambda self: self.compaction is not None)
    @rule(cleans=st.booleans())
    def complete_compaction(self, cleans: bool) -> None:
        assert self.compaction is not None
        number, keys = self.compaction
        self.table.base(number, [row(key, 0, 0) for key in sorted(keys)])
        self.table.commit(number, action="commit", completed=self._next())
        self.base, self.compaction = keys, None
        for log in [one for one, completed in self.completed.items() if completed < number]:
            del self.logs[log], self.completed[log]
            if cleans:
                (self.table.root / f".g_{instant(log)}.log.1_0-0-0").unlink()

    @invariant()
    @covers("LOG-40", "LOG-41", "LOG-42", "LOG-45", "LOG-46", "LOG-47")
    def every_key_is_found_and_no_other(self) -> None:
        expected = self.visible
        if expected:
            assert located(self.table) == expected
            pruned = self.table.open().scan(where="_hoodie_record_key = 'a'").splits()
            assert pruned or "a" not in expected

    @invariant()
    @covers("LOG-48")
    def no_filter_has_more_keys_than_it_is_sized_for(self) -> None:
        if self.number:
            for path in self.table.root.glob(".g_*"):
                found = index_of_file(LocalFileIO(), str(path))
                if found is not None and found.index.all is not None and len(found.index.members) > 0:
                    sized = found.index.all.filter
                    assert isinstance(sized, SimpleFilter)
                    assert found.index.all_count <= capacity(sized, self.policy.false_positives)

    @invariant()
    def a_check_finds_nothing_but_torn_blocks(self) -> None:
        if self.visible:
            assert {one.clause for one in self.table.open().check().findings} <= {"LOG-2"}

    def teardown(self) -> None:
        self.directory.cleanup()


def test_lookups_of_drawn_histories_find_every_key_and_no_other() -> None:
    run_state_machine_as_test(
        FileGroupMachine, settings=settings(max_examples=40, stateful_step_count=20, deadline=None)
    )


# Fixed cases


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    found = MadeTable(tmp_path / "t")
    found.base(1, [row("base", 1, 1)])
    found.commit(1)
    return found


def add(
    table: MadeTable, number: int, *keys: str, policy: IndexPolicy | None = None, completes: bool = True
) -> Path:
    """Write a log file of a commit, with an index if a policy is given."""
    block = table.data(number, [row(key, number, number) for key in keys])
    blocks = [block] if policy is None else table.index(number, block, list(keys), policy)
    path = table.log(number, *blocks)
    table.begin(number)
    if completes:
        table.commit(number)
    return path


def index_of(path: Path) -> LogIndex:
    found = index_of_file(LocalFileIO(), str(path))
    assert found is not None
    return found.index


def names(members: tuple[Member, ...]) -> list[int]:
    """The numbers of the commits of log files."""
    return [int(one.name.split("_")[1].split(".")[0][-7:]) for one in members]


@covers("LOG-45")
def test_a_commit_that_completes_late_is_found_by_the_index_of_a_later_one(table: MadeTable) -> None:
    add(table, 2, "late", policy=IndexPolicy(), completes=False)
    path = add(table, 3, "early", policy=IndexPolicy())
    assert names(index_of(path).members) == [2]
    assert located(table, ["late", "early"]) == {"early"}
    table.commit(2, completed=4)
    assert located(table, ["late", "early"]) == {"early", "late"}


@covers("LOG-42")
def test_a_file_that_appears_after_an_index_was_made_is_looked_up_by_itself(table: MadeTable) -> None:
    block = table.data(3, [row("early", 3, 3)])
    blocks = table.index(3, block, ["early"])  # it does not know of the file of commit 2
    add(table, 2, "late")
    table.log(3, *blocks)
    table.commit(3)
    assert located(table, ["late", "early", "other"]) == {"late", "early"}


@covers("LOG-42")
def test_a_file_that_grew_is_looked_up_by_itself(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t", 6)
    table.base(1, [row("base", 1, 1)])
    for number in (1, 2, 3, 4):
        table.commit(number)
    first = table.log(2, table.data(2, [row("a", 2, 2)]), base=1)
    table.log(3, *table.index(3, table.data(3, [row("b", 3, 3)]), ["b"]), base=1, version=2)
    assert located(table, ["a", "b", "c"]) == {"a", "b"}
    first.write_bytes(first.read_bytes() + encode_block(table.data(4, [row("c", 4, 4)])))
    assert located(table, ["a", "b", "c"]) == {"a", "b", "c"}


@covers("LOG-26", "LOG-41")
@pytest.mark.parametrize("has_index", [True, False])
def test_rolled_back_keys_are_not_found_behind_an_index(tmp_path: Path, has_index: bool) -> None:
    table = MadeTable(tmp_path / "t", 6)
    table.base(10, [row("base", 1, 1)])
    table.commit(10)
    table.commit(40)
    gone = table.data(5, [row("gone", 2, 2)])  # an instant before the timeline, as after an archival
    table.log(5, *(table.index(5, gone, ["gone"]) if has_index else [gone]), base=10)
    assert located(table, ["gone"]) == {"gone"}
    table.log(5, table.rollback(30, 5), base=10, version=2)
    assert located(table, ["gone"]) == set()
    last = table.data(40, [row("last", 2, 2)])
    table.log(40, *(table.index(40, last, ["last"]) if has_index else [last]), base=10, version=3)
    assert located(table, ["gone", "last"]) == {"last"}


@covers("LOG-44")
@pytest.mark.parametrize("chain", [POINTER, LIST])
@pytest.mark.parametrize("files", [None, 1])
def test_a_missing_log_file_is_damage_and_not_the_end_of_a_chain(
    table: MadeTable, chain: str, files: int | None
) -> None:
    policy = IndexPolicy(clique_files=files, chain=chain)
    paths = [add(table, number, f"k{number}", policy=policy) for number in (2, 3)]
    assert located(table, ["k2"]) == {"k2"}
    paths[0].unlink()
    with pytest.raises(CorruptFileError, match=paths[0].name):
        located(table, ["k2"])
    (table.timeline / f"{instant(2)}_{instant(2)}.deltacommit").unlink()  # it was rolled back
    assert located(table, ["k2", "k3"]) == {"k3"}


@covers("LOG-44")
def test_files_that_a_compaction_took_and_a_cleaner_removed_are_not_missed(table: MadeTable) -> None:
    paths = [add(table, number, f"k{number}", policy=IndexPolicy()) for number in (2, 3)]
    table.plan_compaction(4, ["g"])
    during = add(table, 5, "k5", policy=IndexPolicy())
    assert index_of(during).pending
    assert names(index_of(during).members) == [3, 2]
    table.base(4, [row(key, 1, 1) for key in ("base", "k2", "k3")])
    table.commit(4, action="commit", completed=6)
    for path in paths:
        path.unlink()
    assert located(table, ["k2", "k5", "k6"]) == {"k2", "k5"}


@covers("LOG-46")
def test_the_next_index_after_a_compaction_is_exact(table: MadeTable) -> None:
    add(table, 2, "old", policy=IndexPolicy())
    table.plan_compaction(3, ["g"])
    during = add(table, 4, "during", policy=IndexPolicy())
    table.base(3, [row("base", 1, 1), row("old", 1, 1)])
    table.commit(3, action="commit", completed=5)
    after = add(table, 6, "after", policy=IndexPolicy())
    wide, exact = index_of(during), index_of(after)
    assert (wide.all_count, exact.all_count, names(exact.members), exact.pending) == (2, 2, [4], False)
    assert exact.all is not None
    assert (exact.all.low, exact.all.high) == ("after", "during")
    assert located(table, ["old", "during", "after", "other"]) == {"old", "during", "after"}


@covers("LOG-48")
@pytest.mark.parametrize("chain", [POINTER, LIST])
def test_cliques_of_ten_files_are_chained(table: MadeTable, chain: str) -> None:
    policy = IndexPolicy(clique_files=10, chain=chain)
    paths = [add(table, number, f"k{number:02}", policy=policy) for number in range(2, 32)]
    heads = [index_of(paths[i]) for i in (9, 19, 29)]
    assert [len(one.members) for one in heads] == [9, 9, 9]
    assert [names(one.chain) for one in heads] == [[], [11], [21] if chain == POINTER else [21, 11]]
    assert located(table, [f"k{number:02}" for number in range(40)]) == {f"k{n:02}" for n in range(2, 32)}


@covers("LOG-48")
def test_a_filter_that_was_made_for_fewer_keys_gets_no_more(table: MadeTable) -> None:
    add(table, 2, "a", "b", policy=IndexPolicy(clique_keys=3))
    index = index_of(add(table, 3, "c", "d", policy=IndexPolicy(clique_keys=1000)))
    assert (index.all_count, names(index.members), names(index.chain)) == (2, [], [2])


def test_a_table_without_a_base_file_is_looked_up_by_its_log(tmp_path: Path) -> None:
    table = MadeTable(tmp_path / "t")
    for number in (1, 2, 3):
        add(table, number, f"k{number}", policy=IndexPolicy())
    assert located(table, ["k1", "k2", "k3", "k4"]) == {"k1", "k2", "k3"}
    assert table.open().locate(["k1"]).to_pylist() == [{"key": "k1", "partition": "", "group": "g"}]
    with pytest.raises(InvalidRequestError, match="empty"):
        table.open().locate([""])


# What a lookup reads


def counted(table: MadeTable) -> tuple[HudiTable, CountedStore]:
    store = CountedStore()
    return table.open(store=store), store


@covers("LOG-43")
def test_a_miss_reads_the_end_of_one_log_file_and_a_hit_no_row(table: MadeTable) -> None:
    paths = [add(table, number, f"k{number}", f"l{number}", policy=IndexPolicy()) for number in range(2, 32)]
    opened, store = counted(table)
    assert opened.locate(["kx", "none"]).num_rows == 0
    assert store.reads.whole_logs == []
    assert [name for name, *_ in store.reads.log_parts] == [paths[-1].name]
    store.reads.clear()
    assert opened.locate(["k7"]).num_rows == 1
    assert store.reads.whole_logs == []
    read = {name: 0 for name, *_ in store.reads.log_parts}
    for name, _, size in store.reads.log_parts:
        read[name] += size
    assert sum(path.stat().st_size for path in paths) > 3 * sum(read.values())


@covers("LOG-40")
def test_the_cost_of_old_log_files_goes_when_an_index_covers_them(table: MadeTable) -> None:
    for number in range(2, 8):
        add(table, number, f"k{number}")
    opened, store = counted(table)
    assert opened.locate(["none"]).num_rows == 0
    assert len(store.reads.whole_logs) == 6
    add(table, 9, "k9", policy=IndexPolicy())
    opened, store = counted(table)
    assert opened.locate(["none"]).num_rows == 0
    assert store.reads.whole_logs == []


@covers("LOG-47")
def test_an_index_that_admits_everything_or_is_gone_changes_no_answer(table: MadeTable) -> None:
    def everything(summary: KeySummary | None) -> KeySummary | None:
        if summary is None:
            return None
        filter_ = replace(summary.filter, bits=np.full_like(summary.filter.bits, 255))  # type: ignore[type-var, union-attr]
        return replace(summary, low="", high="\U0010ffff", filter=filter_)

    for number in (2, 3, 4):
        block = table.data(number, [row(f"k{number}", 1, 1)])
        (made,) = table.index(number, block, [f"k{number}"])
        path = table.log(number, made)
        table.commit(number)
        index = index_of(path)
        if number == 3:
            wide = replace(index, own=everything(index.own), all=everything(index.all))
            table.log(number, *with_index(block, wide, [f"k{number}"]))
        elif number == 4:
            table.log(number, block)
    assert located(table, ["k1", "k2", "k3", "k4"]) == {"k2", "k3", "k4"}


@covers("LOG-47")
@pytest.mark.parametrize("part", ["own", "all", "keys"])
def test_an_index_that_admits_fewer_keys_is_found_by_a_check(table: MadeTable, part: str) -> None:
    add(table, 2, "a", policy=IndexPolicy())
    block = table.data(3, [row("b", 1, 1), row("c", 1, 1)])
    (narrow,) = table.index(3, block, ["b"])
    (whole,) = table.index(3, block, ["b", "c"])
    less = index_of(table.log(3, narrow))
    index = index_of(table.log(3, whole))
    table.commit(3)
    assert table.open().check().findings == []
    if part == "own":
        index = replace(index, own=less.own)
    elif part == "all":
        index = replace(index, all=less.all)
    table.log(3, *with_index(block, index, ["b", "x"] if part == "keys" else ["b", "c"]))
    findings = table.open().check().findings
    assert findings
    assert {one.clause for one in findings} <= {"LOG-47"}


@covers("LOG-14", "LOG-43")
def test_a_read_by_key_opens_the_slices_that_may_have_it_only(table: MadeTable) -> None:
    add(table, 2, "k2", policy=IndexPolicy())
    table.base(1, [row("other", 1, 7)], "h")
    table.commit(3)
    rows = table.open().to_arrow(where="_hoodie_record_key = 'k2'", columns="v")
    assert rows.column("v").to_pylist() == [2]
    assert table.open().scan(where="_hoodie_record_key = 'k2' and v > 5").to_arrow().num_rows == 0
