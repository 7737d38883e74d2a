"""Lookups in drawn histories of a file group, against an oracle."""

from __future__ import annotations

import tempfile
from pathlib import Path

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
from pktable.store.file_io import LocalFileIO
from pktable_hudi.format.bloom import SimpleFilter, capacity
from pktable_hudi.format.delete_content import Delete
from pktable_hudi.format.log_block import LogBlock, encode_block
from pktable_hudi.index_writer import LIST, POINTER, IndexPolicy
from pktable_hudi.lookup import index_of_file
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.hudi.indexed_logs import located
from model_tests.hudi.made_tables import MadeTable, instant, row
from model_tests.seeded import cases

UNIVERSE = [*"abcdefgh", "\uff5e", "\U0001f600"]
SUBSETS = st.lists(st.sampled_from(UNIVERSE), min_size=1, max_size=4, unique=True)


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
            first_keys=st.sampled_from([1, 4, 1000]),
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

    @precondition(lambda self: self.visible)
    @rule(data=st.data())
    @covers("LOG-44")
    def lose_a_file_that_the_newest_index_names(self, data: st.DataObject) -> None:
        """A lookup says so; afterwards the file is there again."""
        files = self.table.open().files().to_pylist()
        logs = [one["file"] for one in files if one["kind"] == "log"]
        found = index_of_file(LocalFileIO(), str(self.table.root / logs[-1])) if logs else None
        index = found.index if found is not None else None
        named = [one.name for one in (*index.members, *index.chain) if one.name in logs] if index else []
        if named:
            path = self.table.root / data.draw(st.sampled_from(named))
            content = path.read_bytes()
            path.unlink()
            with pytest.raises(CorruptFileError, match="log file: expected a file, found none"):
                located(self.table, ["absent"])
            path.write_bytes(content)

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
            assert located(self.table, UNIVERSE) == expected
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
        FileGroupMachine,
        settings=settings(max_examples=cases(30), stateful_step_count=20, deadline=None),
    )
