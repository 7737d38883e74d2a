"""Small file groups, each of which shows one way in which the index of log files can go wrong.

`model_tests.mutants.log_index` has the ways. A case makes a table in a directory and checks what a lookup finds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pktable import HudiTable
from pktable_conform.judge.checks import check, fail
from pktable_hudi.format.bloom import HashedKeys, SimpleFilter, capacity, filter_of_shape
from pktable_hudi.format.delete_content import Delete
from pktable_hudi.format.key_summary import summary_of_footer
from pktable_hudi.format.log_block import LogBlock, encode_block
from pktable_hudi.index_writer import LIST, IndexPolicy
from pktable_spec.covers import covers
from pktable_spec.errors import CorruptFileError, InvalidRequestError
from pktable_spec.model.log_index import Row

from model_tests.hudi.hadoop_bloom import bits_of
from model_tests.hudi.indexed_logs import add, based, index_of
from model_tests.hudi.made_tables import MadeTable, row
from model_tests.hudi.written_tables import new_table, upsert

Case = Callable[[Path], None]

ALONE: Final = IndexPolicy(clique_files=1)
BIT_COUNT, HASH_COUNT = 1001, 3
LEAST_HASH: Final = "a9cnrK0q"
"""A key whose first hash is the least 32-bit integer, which has no absolute value of 32 bits."""


@check
@covers("LOG-41")
def keys_are_found(table: HudiTable, expected: str | Sequence[str], *others: str) -> None:
    """A lookup finds the keys that are expected, and none of ``others``."""
    asked = list(dict.fromkeys((*expected, *others)))
    try:
        found = table.locate(asked)["key"].to_pylist()
    except CorruptFileError as error:
        fail(f"refused: {error}")
    if missed := sorted(set(expected) - set(found)):
        fail(f"missed {missed}")
    if more := sorted(set(found) - set(expected)):
        fail(f"found {more}")


@check
@covers("LOG-44")
def a_missing_file_is_damage(table: MadeTable, path: Path) -> None:
    path.unlink()
    try:
        table.open().locate(["a"])
    except CorruptFileError as error:
        if path.name not in str(error):
            fail(f"another file is damaged: {error}")
        return
    fail(f"{path.name} is not missed")


@check
@covers("LOG-48")
def chain_is(path: Path, expected: Sequence[Path]) -> None:
    found = [member.name for member in index_of(path).chain]
    if found != [one.name for one in expected]:
        fail(f"the chain of {path.name} is {found}")


@check
@covers("LOG-48")
def filter_is_not_overfull(path: Path, policy: IndexPolicy) -> None:
    index = index_of(path)
    assert index.all is not None
    assert isinstance(index.all.filter, SimpleFilter)
    most = capacity(index.all.filter, policy.false_positives)
    if index.all_count > most:
        fail(f"{index.all_count} keys in a filter for {most}")


@check
@covers("LOG-13")
def filters_are_hadoops(*keys: str) -> None:
    stored = [key.encode() for key in keys]
    found = filter_of_shape(HashedKeys(stored), BIT_COUNT, HASH_COUNT).bits.tobytes()
    if found != bits_of(stored, BIT_COUNT, HASH_COUNT):
        fail("other bits")


@check
@covers("LOG-13", "LOG-16")
def base_file_is_summed_up(path: Path) -> None:
    if summary_of_footer(pq.read_metadata(path).metadata, at=path.name) is None:
        fail("no key range in its footer")


@check
@covers("LOG-2", "LOG-15", "LOG-47")
def nothing_is_damaged(table: MadeTable) -> None:
    findings = table.open().check().findings
    if findings:
        fail(f"{findings[0].clause}: {findings[0]}")


@check
@covers("LOG-13")
def an_empty_key_is_refused(table: MadeTable) -> None:
    try:
        add(table, 2, "a", "")
    except InvalidRequestError:
        return
    fail("it is in an index")


def _add_6(table: MadeTable, number: int, block: LogBlock, *keys: str, completed: bool = True) -> None:
    """Write the next log file of a table of version 6."""
    blocks = table.index(number, block, list(keys))
    version = 1 + len(list(table.root.glob(".g_*")))
    table.log(number, *blocks, base=1, version=version)
    (table.commit if completed else table.begin)(number)


def an_open_commit_is_completed_later(root: Path) -> None:
    table = based(root)
    add(table, 2, "a", policy=None, completes=False)
    add(table, 3, "b")
    table.commit(2, completed=4)
    keys_are_found(table.open(), ["base", "a", "b"], "c")


def a_delete_comes_last(root: Path) -> None:
    table = based(root)
    add(table, 2, "a")
    table.log(3, *table.index(3, table.deletes(3, Delete("b", None)), []))
    table.commit(3)
    keys_are_found(table.open(), ["base", "a"], "b")


def a_file_without_an_index(root: Path) -> None:
    table = based(root)
    add(table, 2, "a")
    add(table, 3, "b", policy=None)
    keys_are_found(table.open(), ["base", "a", "b"], "c")


def an_index_behind_a_file_without_one(root: Path) -> None:
    table = based(root)
    add(table, 2, "a", policy=None)
    add(table, 3, "b")
    keys_are_found(table.open(), ["base", "a", "b"], "c")


def keys_whose_order_is_not_that_of_java(root: Path) -> None:
    table = based(root)
    add(table, 2, "\uff5e", "\U0001f600")
    keys_are_found(table.open(), ["base", "\uff5e", "\U0001f600"], "a")


def a_clique_of_each_file(root: Path) -> None:
    table = based(root)
    for number, key in enumerate("abc", 2):
        add(table, number, key, policy=ALONE)
    for key in "abc":
        keys_are_found(table.open(), key)


def a_file_of_an_earlier_clique_is_missing(root: Path) -> None:
    table = based(root)
    first, _ = (add(table, number, key, policy=ALONE) for number, key in enumerate("ab", 2))
    keys_are_found(table.open(), ["base", "a", "b"])
    a_missing_file_is_damage(table, first)


def a_list_of_cliques(root: Path) -> None:
    table = based(root)
    policy = IndexPolicy(clique_files=1, chain=LIST)
    paths = [add(table, number, key, policy=policy) for number, key in enumerate("abcd", 2)]
    chain_is(paths[-1], paths[-2::-1])


def a_compaction_is_planned(root: Path) -> None:
    table = based(root)
    add(table, 2, "a")
    table.plan_compaction(3, ["g"])
    add(table, 4, "b")
    keys_are_found(table.open(), ["base", "a", "b"], "c")


def keys_out_of_order(root: Path) -> None:
    table = based(root)
    add(table, 2, "b", "a")
    nothing_is_damaged(table)


def a_block_behind_a_torn_one(root: Path) -> None:
    table = based(root)
    block = table.data(2, [row("a", 2, 2)])
    path = table.log(2, block)
    path.write_bytes(encode_block(block)[:-5] + path.read_bytes())
    table.commit(2)
    keys_are_found(table.open(), ["base", "a"], "b")


def a_rollback_in_the_log(root: Path) -> None:
    table = based(root, 6)
    _add_6(table, 2, table.data(2, [row("a", 2, 2)]), "a")
    _add_6(table, 3, table.data(3, [row("b", 3, 3)]), "b", completed=False)
    table.log(4, table.rollback(4, 3), base=1, version=3)
    _add_6(table, 5, table.data(5, [row("c", 5, 5)]), "c")
    keys_are_found(table.open(), ["base", "a", "c"], "b")


def a_block_of_an_open_commit(root: Path) -> None:
    table = based(root, 6)
    _add_6(table, 2, table.data(2, [row("a", 2, 2)]), "a", completed=False)
    _add_6(table, 3, table.data(3, [row("b", 3, 3)]), "b")
    keys_are_found(table.open(), ["base", "b"], "a")


def a_base_file_of_ours(root: Path) -> None:
    table = new_table(root)
    upsert(table, {"a": Row(1, 1), "b": Row(1, 1)})
    (path,) = root.glob("*.parquet")
    base_file_is_summed_up(path)
    keys_are_found(table, ["a", "b"], "c")


def more_keys_than_a_filter_is_sized_for(root: Path) -> None:
    table = based(root)
    policy = IndexPolicy(first_keys=3)
    paths = [add(table, number, key, key + key, policy=policy) for number, key in enumerate("abc", 2)]
    filter_is_not_overfull(paths[-1], policy)


def a_row_that_deletes(root: Path) -> None:
    table = MadeTable(root, columns=("k", "ts", "v", "_hoodie_is_deleted"))
    table.base(1, [row("base", 1, 1)])
    table.commit(1)
    table.log(2, table.data(2, [row("a", 2, 2, _hoodie_is_deleted=True), row("b", 2, 2)]))
    table.commit(2)
    keys_are_found(table.open(), ["base", "a", "b"], "c")


def keys_beyond_ascii(root: Path) -> None:
    filters_are_hadoops("é", "aéb")


def a_key_of_the_least_hash(root: Path) -> None:
    filters_are_hadoops(LEAST_HASH)


def an_empty_key(root: Path) -> None:
    an_empty_key_is_refused(based(root))
