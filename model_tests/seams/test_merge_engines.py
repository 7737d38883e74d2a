"""Merge engines: the laws that each must obey, and a table that merges by an engine of the tests."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pktable import Table, UnsupportedOptionError
from pktable.merge.engine import ENGINES, Deduplicate, MergeEngine
from pktable.merge.grouping import grouped
from pktable_conform.judge.history import History
from pktable_spec.covers import covers
from pktable_spec.option_table import MERGE_ENGINES
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind

from model_tests.backends.tables import local_backend
from model_tests.histories.failures import EVERYTHING
from model_tests.histories.profiles import Profile
from model_tests.histories.run import Report, run_histories
from model_tests.histories.session import replay
from model_tests.oracle.max_engine import NAME, registered
from model_tests.oracle.max_engine import MaxOfColumn as OraclesMaxOfColumn
from model_tests.seams.max_engine import Maxima, MaxOfColumn
from model_tests.seeded import cases, seed_for

Record = tuple[int, int, int, str | None]
"""Key, sequence number, row kind, value."""

RECORDS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 3), st.sampled_from(["a", "b", "c", None])), max_size=7
).map(lambda drawn: [(key, number, kind, value) for number, (key, kind, value) in enumerate(drawn)])


def folded(engine: MergeEngine, records: Sequence[Record]) -> list[Record]:
    """Return what an engine makes of records of some keys, oldest first."""
    keys, numbers, kinds, values = zip(*records, strict=True) if records else ((), (), (), ())
    table = pa.table(
        {
            KEY_PREFIX + "k": pa.array(keys, pa.int64()),
            SEQUENCE_NUMBER: pa.array(numbers, pa.int64()),
            VALUE_KIND: pa.array(kinds, pa.int8()),
            "v": pa.array(values, pa.string()),
        }
    )
    window = grouped(table, np.array(keys, np.int64), np.zeros(len(records), np.int32), single=False)
    result = engine.fold(window)
    assert [kind in (0, 2) for _, _, kind, _ in rows(result.rows())] == result.adds().tolist()
    assert rows(result.rows(result.adds())) == [one for one in rows(result.rows()) if one[2] in (0, 2)]
    return rows(result.rows())


def rows(table: pa.Table) -> list[Record]:
    return list(zip(*table.to_pydict().values(), strict=True))


class ForgetsDeletions(MaxOfColumn):
    """Broken: a retraction and a later insert become the insert alone, so that older rows count again."""

    def fold(self, window: Any) -> Maxima:
        found = super().fold(window)
        return Maxima(window, found.chosen, np.where(found.kinds == 2, 0, found.kinds).astype(np.int8))


def breaks_a_law(engine: MergeEngine, records: Sequence[Record], cuts: Sequence[int]) -> str | None:
    """Return the law that some records break, None if they break none."""
    whole = folded(engine, records)
    for one in records:
        if folded(engine, [one]) != [one]:
            return "idempotent"
    bounds = sorted({0, len(records), *(cut % (len(records) + 1) for cut in cuts)})
    parts = [one for start, end in pairwise(bounds) for one in folded(engine, records[start:end])]
    return None if folded(engine, parts) == whole else "associative"


@covers("MRG-1", "MRG-2", "MRG-3")
@pytest.mark.parametrize("engine", [Deduplicate(), MaxOfColumn("v")])
@given(records=RECORDS, cuts=st.lists(st.integers(0, 7), max_size=3))
def test_an_engine_obeys_the_laws(engine: MergeEngine, records: list[Record], cuts: list[int]) -> None:
    assert breaks_a_law(engine, records, cuts) is None


def test_an_engine_that_forgets_deletions_is_noticed() -> None:
    records: list[Record] = [(0, 0, 0, "c"), (0, 1, 3, None), (0, 2, 0, "a")]
    assert breaks_a_law(ForgetsDeletions("v"), records, [1]) == "associative"
    assert breaks_a_law(MaxOfColumn("v"), records, [1]) is None


@pytest.fixture
def max_of_v(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(ENGINES, NAME, lambda options: MaxOfColumn("v"))
    MERGE_ENGINES.add(NAME)
    yield
    MERGE_ENGINES.discard(NAME)


def meaning(log: Sequence[tuple[int, RowKind, str | None]]) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for key, kind, value in log:
        if not kind.is_add:
            found.pop(key, None)
        elif kind is RowKind.UPDATE_AFTER or key not in found or (value or "") >= (found[key] or ""):
            found[key] = value
    return found


@pytest.mark.usefixtures("max_of_v")
@pytest.mark.parametrize("seed", range(8))
def test_a_table_merges_by_its_engine_whatever_is_compacted_when(tmp_path: Path, seed: int) -> None:
    drawn, log = random.Random(seed), []
    options = {"merge-engine": NAME, "write-only": "true", "num-sorted-run.compaction-trigger": "3"}
    table = Table.create(tmp_path, "k INT, v STRING, w INT", primary_key=["k"], options=options)
    for _ in range(15):
        batch = [
            (drawn.randrange(4), drawn.choice(list(RowKind)), drawn.choice("abc"))
            for _ in range(drawn.randrange(1, 4))
        ]
        log += batch
        keys, kinds, values = zip(*batch, strict=True)
        rows = {"k": keys, "v": values, "w": [7] * len(batch), "op": [kind.symbol for kind in kinds]}
        table.write_changes(pa.table(rows), row_kind="op")
        if drawn.random() < 0.4:
            table.compact(full=drawn.random() < 0.3)
        expected = meaning(log)
        read = table.to_arrow(columns=["k", "v"])
        assert dict(zip(*read.to_pydict().values(), strict=True)) == expected
        # The deciding column need not be read.
        assert sorted(table.to_arrow(columns=["k"]).column("k").to_pylist()) == sorted(expected)


def machine_run(engine: MergeEngine, monkeypatch: pytest.MonkeyPatch, vectors: str) -> Report:
    """Run drawn histories on tables of ``engine``, checked by the oracle's own telling of the maximum of ``v``."""
    monkeypatch.setitem(ENGINES, NAME, lambda options: engine)
    options = {"merge-engine": NAME, "deletion-vectors.enabled": vectors}
    seed = seed_for(8)
    print(f"seed {seed}")
    profile = Profile("max", cases(6), steps=15, reread_limit=1, twin=False, seed=seed, shrinks=False)
    with registered(OraclesMaxOfColumn(-2)):
        return run_histories("local", profile, options=options)


@pytest.mark.usefixtures("max_of_v")
@pytest.mark.parametrize("vectors", ["false", "true"])
def test_the_machine_finds_the_tests_engine_right_and_a_broken_one_wrong(
    monkeypatch: pytest.MonkeyPatch, vectors: str
) -> None:
    report = machine_run(MaxOfColumn("v"), monkeypatch, vectors)
    assert (report.mismatches, report.message) == (0, None)
    assert report.stats.compactions > 10
    assert machine_run(ForgetsDeletions("v"), monkeypatch, vectors).mismatches == 1


@pytest.mark.usefixtures("max_of_v")
@covers("CMP-23", "MRG-1")
def test_a_row_in_a_deeper_file_keeps_its_kind_where_updates_replace_rows() -> None:
    changes = [[["+I", [0, "a"]], ["+U", [-1, "b"]]], [["+I", [-1, "a"]]]]
    history = History.from_json(
        {
            "table": "int",
            "options": {
                "merge-engine": NAME,
                "deletion-vectors.enabled": "true",
                "num-sorted-run.compaction-trigger": "2",
                "num-levels": "4",
            },
            "operations": [{"do": "write", "changes": one} for one in changes],
        }
    )
    with registered(OraclesMaxOfColumn(-2)), local_backend() as open_table:
        replay(history, open_table, EVERYTHING)


def test_an_unknown_engine_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOptionError, match="merge-engine='newest'"):
        Table.create(tmp_path, "k INT", primary_key=["k"], options={"merge-engine": "newest"})
