"""Tables with ``sequence.field``: whatever comes late and is compacted when, they read as plain Python says."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pktable import Table
from pktable_spec.covers import covers

from model_tests.engines.sequences import CASES, Sequenced
from model_tests.engines.test_laws import Keyed, expected
from model_tests.engines.test_schedules import changes_of, rows_of


@covers(
    "MRG-19", "MRG-20", "MRG-21", "MRG-24", "MRG-4", "MRG-15", "DV-12", "DV-13", "DV-20", "DV-21", "DV-22"
)
@covers("DV-23", "RD-3", "RD-5", "RD-15", "CMP-13", "CMP-14")
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_table_reads_as_plain_python_says_whatever_comes_late(
    case: Sequenced, vectors: bool, data: st.DataObject
) -> None:
    batches = data.draw(st.lists(case.records(keys=3, most=3), min_size=1, max_size=8))
    drawn = random.Random(data.draw(st.integers(0, 1 << 30)))
    options = {
        **case.options,
        "deletion-vectors.enabled": str(vectors).lower(),
        "num-sorted-run.compaction-trigger": str(drawn.choice([2, 3, 5])),
        "num-levels": str(drawn.choice([3, 5])),
        "write-only": "true",
        # So small that files are upgraded, where they may be, and outputs are cut.
        "target-file-size": drawn.choice(["1 b", "1 kb", "128 mb"]),
    }
    with tempfile.TemporaryDirectory() as directory:
        table = Table.create(directory + "/t", case.ddl, primary_key=["k"], options=options)
        written: list[Keyed] = []
        for batch in batches:
            table.write_changes(changes_of(case, batch), row_kind="op")
            written += batch
            wanted = expected(case, written)
            if drawn.random() < 0.6:
                table.compact(full=drawn.random() < 0.3)
                if vectors:
                    assert rows_of(table.to_arrow()) == wanted
                    assert table.count() == len(wanted)
            assert rows_of(table.to_arrow(fresh=True)) == wanted
            assert rows_of(table.to_arrow(columns=["k"], fresh=True)).keys() == wanted.keys()
            if not vectors:
                assert rows_of(table.to_arrow()) == wanted
                assert table.count() == len(wanted)
        table.compact(full=True)
        assert table.compact(full=True) is None
        assert rows_of(table.to_arrow()) == expected(case, written)
        assert not table.check().findings


def changes(*rows: tuple[Any, ...]) -> pa.Table:
    """Return changes of (kind, key, sequence, value)."""
    op, k, s, v = zip(*rows, strict=True)
    return pa.table({"op": op, "k": pa.array(k, pa.int32()), "s": pa.array(s, pa.int32()), "v": v})


def made(path: Path, **options: str) -> Table:
    given = {"sequence.field": "s", **{name.replace("_", "-"): value for name, value in options.items()}}
    return Table.create(path / "t", "k INT, s INT, v STRING", primary_key="k", options=given)


def write(table: Table, *rows: tuple[Any, ...]) -> None:
    table.write_changes(changes(*rows), row_kind="op")


VECTORS = {"deletion-vectors.enabled": "true"}


@covers("MRG-21", "DV-21")
def test_a_late_row_does_not_bring_a_deleted_key_back(tmp_path: Path) -> None:
    table = made(tmp_path, **VECTORS)
    write(table, ("+I", 1, 100, "a"))
    write(table, ("-D", 1, 101, None))
    write(table, ("+U", 1, 50, "late"))
    assert table.to_arrow().num_rows == 0
    table.compact(full=True)
    write(table, ("+U", 1, 50, "late"))
    assert table.to_arrow().num_rows == 0
    write(table, ("+I", 1, 101, "tied"))
    assert table.to_arrow().column("v").to_pylist() == ["tied"]
