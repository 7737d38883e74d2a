"""Kinds of table and bucket assigners: a second one of each, owned by the tests, goes through the same code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pktable import InvalidRequestError, Table
from pktable.bucket import assign
from pktable.bucket.assign import HashFiles
from pktable.bucket.partitions import Partitions
from pktable.context import TableContext
from pktable.format.metadata.manifest import IndexManifestEntry
from pktable.kinds import KINDS
from pktable.kinds.primary_key import PrimaryKeyTables
from pktable.lsm.bucket import BucketState
from pktable.lsm.universal import Pick
from pktable.store.new_files import NewFiles
from pktable_spec.covers import covers


class NeverCompacted(PrimaryKeyTables):
    """Tables that say so in their comment are never compacted, and every read of them merges all files."""

    name = "table that is never compacted"  # type: ignore[misc]

    def claims(self, schema: Any) -> bool:
        return bool(schema.comment == "never compacted")

    def files_to_read(
        self, context: TableContext, live: Sequence[Any], *, fresh: bool
    ) -> tuple[Sequence[Any], bool]:
        return live, True

    def choose_compaction(self, context: TableContext, state: BucketState, *, full: bool) -> list[Pick]:
        return []


def test_a_second_kind_of_table_decides_what_is_compacted_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pktable.kinds.KINDS", [NeverCompacted(), *KINDS])
    table = Table.create(
        tmp_path,
        "k INT, v STRING",
        primary_key=["k"],
        comment="never compacted",
        options={"deletion-vectors.enabled": "true"},
    )
    for value in "abc":
        table.upsert(pa.table({"k": [1, 2], "v": [value] * 2}))
    assert table.compact(full=True) is None
    assert [one.commit_kind for one in table.snapshots()] == ["APPEND"] * 3
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": "c"}, {"k": 2, "v": "c"}]
    assert table.count() == 2


def test_a_table_of_no_known_kind_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Table.create(tmp_path, "k INT", primary_key=["k"])
    monkeypatch.setattr("pktable.kinds.KINDS", [NeverCompacted()])
    with pytest.raises(InvalidRequestError, match="tables of this kind are not supported"):
        Table.open(tmp_path)


class LastBucket:
    """Assigns every row to the last bucket."""

    columns = ("k",)

    def __init__(self, context: TableContext, known: HashFiles) -> None:
        self.last = context.options.bucket - 1

    def hash_files(self, new: NewFiles) -> Sequence[IndexManifestEntry]:
        return ()

    def of_rows(self, rows: pa.Table, partitions: Partitions) -> Any:
        return np.full(rows.num_rows, self.last, dtype=np.int32)

    def of_values(self, names: Sequence[str], tuples: Sequence[tuple[Any, ...]]) -> set[int] | None:
        return {self.last} if tuples else set()


@covers("TBL-5")
def test_a_second_bucket_assigner_decides_where_rows_go_and_which_buckets_a_read_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assign, "ASSIGNERS", [(lambda context: True, LastBucket), *assign.ASSIGNERS])
    table = Table.create(
        tmp_path,
        "k INT, p STRING",
        primary_key=["k", "p"],
        partition_by=["p"],
        options={"bucket": "4", "deletion-vectors.enabled": "true"},
    )
    table.upsert(pa.table({"k": range(9), "p": ["x", "y", "z"] * 3}))
    assert set(table.files().column("bucket").to_pylist()) == {3}
    scan = table.scan(where="k = 4")
    assert {split.bucket for split in scan.splits()} == {3}
    assert scan.to_pylist() == [{"k": 4, "p": "y"}]
