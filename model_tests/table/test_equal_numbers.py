"""Tables in which writes have equal sequence numbers, as concurrent writers of Paimon leave them.

Our own commits renumber a write that another one overtook, so here the level-0 files of several writes are written
again as if all had begun on one snapshot. The winner of a key is stated record by record, without runs and merges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pktable import Table
from pktable.format.metadata.manifest import DataFileMeta
from pktable_spec.covers import covers
from pktable_spec.vocabulary import SEQUENCE_NUMBER

from model_tests.table.foreign_tables import Replacement, at, read_parquet, rewritten

Batch: TypeAlias = list[tuple[str, int]]
"""Changes of one write: a row kind and a key; the value of a row names its write."""

KINDS: Final = ("+I", "-D", "+U")
BATCHES: Final = st.lists(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 1)), min_size=1, max_size=3),
    min_size=2,
    max_size=4,
)


class Found(NamedTuple):
    """A record of a level-0 file. ``order``: of its file, ascending from the newest."""

    sequence: int
    add: bool
    order: int
    value: str | None


def winners(files: Sequence[DataFileMeta], records: Sequence[list[dict[str, Any]]]) -> dict[int, str]:
    """Return the rows that records of these files leave. Clauses: MRG-1, MRG-2, MRG-3, MRG-6, LSM-4."""
    newest_first = sorted(
        range(len(files)),
        key=lambda i: (
            -files[i].max_sequence_number,
            -files[i].min_sequence_number,
            files[i].creation_time or 0,
            files[i].file_name,
        ),
    )
    of_key: dict[int, list[Found]] = {}
    for order, i in enumerate(newest_first):
        for record in records[i]:
            add = record["_VALUE_KIND"] % 2 == 0
            found = Found(record[SEQUENCE_NUMBER], add, order, record["v"])
            of_key.setdefault(record["k"], []).append(found)

    def hides(one: Found, other: Found) -> bool:
        if one.sequence != other.sequence:
            return one.sequence > other.sequence
        if one.add != other.add:
            return one.add
        return one.order < other.order

    best = {
        key: one
        for key, several in of_key.items()
        for one in several
        if not any(hides(other, one) for other in several if other is not one)
    }
    return {key: str(one.value) for key, one in best.items() if one.add}


def numbered_from_zero(batches: Sequence[Batch]) -> Replacement:
    """Return what writes each file again, as if its write had been given the numbers from 0 on."""
    ends = list(accumulate(len(batch) for batch in batches))
    first_of = {end - 1: end - len(batch) for end, batch in zip(ends, batches, strict=True)}

    def renumber(file: DataFileMeta, path: Path) -> DataFileMeta:
        table = read_parquet(path)
        first = first_of[file.max_sequence_number]
        position = table.column_names.index(SEQUENCE_NUMBER)
        numbers = [number - first for number in table.column(position).to_pylist()]
        column = pa.array(numbers, pa.int64())
        target = path.with_name("renumbered-" + path.name)
        pq.write_table(table.set_column(position, table.schema.field(position), column), target)
        return replace(at(file, target), min_sequence_number=min(numbers), max_sequence_number=max(numbers))

    return renumber


@covers("MRG-2", "MRG-6", "MRG-4", "LSM-4", "LSM-8", "CMP-14")
@settings(max_examples=40, deadline=None)
@given(BATCHES)
@example([[("-D", 0)], [("+I", 0)]])
@example([[("+I", 0)], [("-D", 0)]])
@example([[("+I", 0)], [("+U", 0)]])
@example([[("-D", 0)], [("+I", 0)], [("-D", 0)]])
@example([[("+I", 1), ("+I", 0)], [("-D", 0), ("+I", 0)]])
def test_of_equal_numbers_an_add_wins_and_then_the_newer_run_before_and_after_a_compaction(
    batches: list[Batch],
) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "t"
        table = Table.create(
            path,
            "k INT NOT NULL, v STRING",
            primary_key=["k"],
            options={"bucket": "1", "deletion-vectors.enabled": "true", "write-only": "true"},
        )
        for number, batch in enumerate(batches):
            rows = [{"k": key, "v": f"write {number}", "kind": kind} for kind, key in batch]
            table.write_changes(pa.Table.from_pylist(rows), row_kind="kind")
        rewritten(path, numbered_from_zero(batches))
        table = Table.open(path)
        state = table.catalog.state()
        (files,) = state.files.values()
        records = [read_parquet(path / "bucket-0" / file.file_name).to_pylist() for file in files]
        expected = winners(files, records)
        assert rows_of(table.to_arrow(fresh=True)) == expected
        table.compact()
        assert rows_of(Table.open(path).to_arrow()) == expected
        assert rows_of(Table.open(path).to_arrow(fresh=True)) == expected


def rows_of(table: pa.Table) -> dict[int, str]:
    rows = {row["k"]: row["v"] for row in table.to_pylist()}
    assert len(rows) == table.num_rows
    return rows
