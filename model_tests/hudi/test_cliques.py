"""Cliques of log files, their chains, and what a compaction leaves of them: also the two histories of RFC-06."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pktable import HudiTable
from pktable_hudi.format.log_block import encode_block
from pktable_hudi.index_writer import LIST, POINTER, IndexPolicy
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError

from model_tests.hudi.counted_reads import CountedStore
from model_tests.hudi.indexed_logs import add, based, index_of, located, names
from model_tests.hudi.made_tables import MadeTable, instant, row


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    return based(tmp_path / "t")


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
def test_the_first_log_file_of_a_group_without_a_base_file_is_missed(tmp_path: Path) -> None:
    """The commit of that file began the slice: without it the slice seems to begin later."""
    table = MadeTable(tmp_path / "t")
    first = add(table, 1, "k1")
    add(table, 3, "k3")
    first.unlink()
    with pytest.raises(CorruptFileError, match=first.name):
        located(table, ["k1"])


@covers("LOG-44")
def test_the_first_log_file_of_a_group_is_not_missed_after_its_commit_was_rolled_back(tmp_path: Path) -> None:
    """The index of the second file names it, because it was there. No base file says when the slice began."""
    table = MadeTable(tmp_path / "t")
    first = add(table, 1, "k1", completes=False)
    assert names(index_of(add(table, 2, "k2")).members) == [1]
    first.unlink()
    (table.timeline / f"{instant(1)}.deltacommit.inflight").unlink()
    assert located(table, ["k1", "k2"]) == {"k2"}


@covers("LOG-44")
def test_files_that_a_compaction_took_and_a_cleaner_removed_are_not_missed(table: MadeTable) -> None:
    paths = [add(table, number, f"k{number}") for number in (2, 3)]
    table.plan_compaction(4, ["g"])
    during = add(table, 5, "k5")
    assert index_of(during).pending
    assert names(index_of(during).members) == [3, 2]
    table.base(4, [row(key, 1, 1) for key in ("base", "k2", "k3")])
    table.commit(4, action="commit", completed=6)
    for path in paths:
        path.unlink()
    assert located(table, ["k2", "k5", "k6"]) == {"k2", "k5"}


@covers("LOG-46")
def test_the_next_index_after_a_compaction_is_exact(table: MadeTable) -> None:
    add(table, 2, "old")
    table.plan_compaction(3, ["g"])
    during = add(table, 4, "during")
    table.base(3, [row("base", 1, 1), row("old", 1, 1)])
    table.commit(3, action="commit", completed=5)
    after = add(table, 6, "after")
    wide, exact = index_of(during), index_of(after)
    assert (wide.all_count, exact.all_count, names(exact.members), exact.pending) == (2, 2, [4], False)
    assert exact.all is not None
    assert (exact.all.low, exact.all.high) == ("after", "during")
    assert located(table, ["old", "during", "after", "other"]) == {"old", "during", "after"}


@covers("LOG-48", "LOG-79")
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
    grown = add(table, 3, "c", "d", policy=IndexPolicy(clique_keys=5))
    assert (index_of(grown).all_count, names(index_of(grown).members)) == (4, [2])
    assert located(table, [*"abcdef"]) == {*"abcd"}
    index = index_of(add(table, 4, "e", "f", policy=IndexPolicy(clique_keys=5)))
    assert (index.all_count, names(index.members), names(index.chain)) == (2, [], [3])


@covers("LOG-48")
def test_a_filter_is_made_anew_only_of_files_that_are_as_the_index_says(table: MadeTable) -> None:
    small, large = (IndexPolicy(clique_keys=keys) for keys in (2, 1000))
    first = add(table, 2, "a", policy=small)
    add(table, 3, "b", policy=small)
    first.write_bytes(first.read_bytes() + encode_block(table.data(4, [row("c", 1, 1)])))
    table.commit(4)
    index = index_of(add(table, 5, "d", policy=large))
    assert (names(index.members), names(index.chain)) == ([2], [3])
    assert located(table, [*"abcde"]) == {*"abcd"}


@covers("LOG-38", "LOG-48")
def test_small_writes_have_small_indexes_and_a_miss_reads_one_of_them(table: MadeTable) -> None:
    store = CountedStore()
    sizes = []
    for number in range(2, 151):
        with_index = add(table, number, f"k{number:03}").stat().st_size
        members = 60 * (number - 2)  # their names
        sizes.append(
            with_index - len(encode_block(table.data(number, [row(f"k{number:03}", 1, 1)]))) - members
        )
    assert max(sizes[:64]) < 900
    assert max(sizes) < 1600
    assert table.open(store=store).locate(["none"]).num_rows == 0
    assert len(store.reads.log_parts) == 1
    assert located(table, [f"k{number:03}" for number in range(160)]) == {f"k{n:03}" for n in range(2, 151)}


# The histories that a comment on RFC-06 gives, as `LogChain.tla` has them


def keys_of(*numbers: int) -> set[str]:
    return {f"k{number:02}" for number in numbers}


def complete(table: MadeTable, plan: int, completed: int, *compacted: int) -> None:
    """Complete a compaction that takes the log files of so many commits."""
    table.base(plan, [row(key, 1, 1) for key in ("base", *sorted(keys_of(*compacted)))])
    table.commit(plan, action="commit", completed=completed)


@covers("LOG-24", "LOG-45", "LOG-46")
def test_the_range_narrows_after_each_compaction_though_files_are_written_meanwhile(table: MadeTable) -> None:
    everything: set[str] = set()

    def write(number: int) -> tuple[str, str, list[int]]:
        (key,) = keys_of(number)
        index = index_of(add(table, number, key))
        everything.add(key)
        assert located(table, [*everything, "none"]) == everything
        assert index.all is not None
        return index.all.low, index.all.high, names(index.members)

    for number in (11, 12, 13, 14):  # files 1 to 4
        write(number)
    table.plan_compaction(20, ["g"])
    assert write(21) == ("k11", "k21", [14, 13, 12, 11])  # file 5
    complete(table, 20, 22, 11, 12, 13, 14)
    assert write(31) == ("k21", "k31", [21])
    assert write(32) == ("k21", "k32", [31, 21])
    table.plan_compaction(40, ["g"])  # of files 5 to 7
    assert write(41) == ("k21", "k41", [32, 31, 21])  # file 8
    complete(table, 40, 42, 11, 12, 13, 14, 21, 31, 32)
    assert write(51) == ("k41", "k51", [41])


@covers("LOG-44", "LOG-46", "LOG-48", "LOG-79")
def test_a_chain_of_thirty_files_is_shorter_when_the_first_fifteen_are_compacted(table: MadeTable) -> None:
    policy = IndexPolicy(clique_files=10)
    first = {number: add(table, number, *keys_of(number), policy=policy) for number in range(11, 26)}
    table.plan_compaction(30, ["g"])
    rest = {number: add(table, number, *keys_of(number), policy=policy) for number in range(31, 46)}
    head, middle = index_of(rest[45]), index_of(rest[35])
    assert (names(head.chain), names(middle.chain)) == ([35], [20])
    everything = keys_of(*first, *rest)
    assert located(table, [*everything, "none"]) == everything
    complete(table, 30, 50, *first)
    for path in first.values():  # a cleaner removes them, and the middle clique still has the keys of five
        path.unlink()
    assert located(table, [*everything, "none"]) == everything
    last = index_of(add(table, 51, "k51", policy=policy))
    assert (sorted(names(last.members)), last.chain, last.all_count) == (sorted(rest), (), 16)
    rest[33].unlink()
    with pytest.raises(CorruptFileError, match=rest[33].name):
        located(table, ["k51"])


@covers("LOG-38", "LOG-41")
def test_a_key_is_read_whichever_clique_has_it(tmp_path: Path) -> None:
    table = HudiTable.create(tmp_path / "t", "id STRING, v INT", key="id")
    table.index_policy = IndexPolicy(clique_files=3)
    for number in range(8):
        table.upsert(pa.table({"id": [f"k{number}"], "v": pa.array([number], pa.int32())}))
    for number in range(8):
        found = table.to_arrow(where=f"_hoodie_record_key = 'k{number}'", columns="v")
        assert found.column("v").to_pylist() == [number]
    assert table.locate([f"k{number}" for number in range(9)]).num_rows == 8
