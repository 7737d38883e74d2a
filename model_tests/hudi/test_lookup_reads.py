"""A lookup reads little where there is an index. An index that is gone or admits more changes that, and no answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pktable import HudiTable
from pktable_hudi.format.key_summary import KeySummary
from pktable_hudi.format.log_index import with_index
from pktable_spec.covers import covers

from model_tests.hudi.counted_reads import CountedStore
from model_tests.hudi.indexed_logs import add, based, index_of, located
from model_tests.hudi.made_tables import MadeTable, row


@pytest.fixture
def table(tmp_path: Path) -> MadeTable:
    return based(tmp_path / "t")


def counted(table: MadeTable) -> tuple[HudiTable, CountedStore]:
    store = CountedStore()
    return table.open(store=store), store


@covers("LOG-43")
def test_a_miss_reads_the_end_of_one_log_file_and_a_hit_no_row(table: MadeTable) -> None:
    paths = [add(table, number, f"k{number}", f"l{number}") for number in range(2, 32)]
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


@covers("LOG-43")
def test_keys_that_the_base_file_shows_are_not_read_from_log_files_as_well(table: MadeTable) -> None:
    keys = ["k1", "k2", "k3"]
    table.base(1, [row(key, 1, 1) for key in keys])
    log = add(table, 2, "k1", "k4")
    end = [(log.name, 0, log.stat().st_size)]  # the index, and as the file is small all the rest
    opened, store = counted(table)
    assert opened.locate(keys).num_rows == 3
    assert store.reads.log_parts == end
    store.reads.clear()
    assert opened.locate(["k1"]).num_rows == 1  # a log file may have all: the base file is not read
    assert [name for name, *_ in store.reads.parts] == [log.name, log.name]


@covers("LOG-40")
def test_the_cost_of_old_log_files_goes_when_an_index_covers_them(table: MadeTable) -> None:
    for number in range(2, 8):
        add(table, number, f"k{number}", policy=None)
    opened, store = counted(table)
    assert opened.locate(["none"]).num_rows == 0
    assert len(store.reads.whole_logs) == 6
    add(table, 9, "k9")
    opened, store = counted(table)
    assert opened.locate(["none"]).num_rows == 0
    assert store.reads.whole_logs == []


@covers("LOG-14", "LOG-43")
def test_a_read_by_key_opens_the_slices_that_may_have_it_only(table: MadeTable) -> None:
    add(table, 2, "k2")
    table.base(1, [row("other", 1, 7)], "h")
    table.commit(3)
    rows = table.open().to_arrow(where="_hoodie_record_key = 'k2'", columns="v")
    assert rows.column("v").to_pylist() == [2]
    assert table.open().scan(where="_hoodie_record_key = 'k2' and v > 5").to_arrow().num_rows == 0


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
    add(table, 2, "a")
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
