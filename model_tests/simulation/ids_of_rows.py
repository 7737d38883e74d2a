"""Rows of an append table with row tracking keep their ids, whatever file they are written to."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping

import pyarrow.parquet as pq
from pktable.format.metadata.manifest import ADD
from pktable.format.metadata.snapshot import Snapshot
from pktable_spec.covers import covers
from pktable_spec.vocabulary import ROW_ID

from model_tests.simulation.needed import manifests
from model_tests.simulation.tables import ROOT, expect


@covers("APP-24", "APP-25", "APP-32", "APP-33")
def expect_ids_of_rows(files: Mapping[str, bytes], snapshots: Iterable[Snapshot]) -> None:
    """Expect each key to have one id in all files of some snapshots, those that were deleted included."""
    stored: dict[str, int | None] = {}
    for snapshot in snapshots:
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            for _, entries in manifests(files, name):
                for entry in entries:
                    path = f"{ROOT}/bucket-{entry.bucket}/{entry.file.file_name}"
                    if entry.kind == ADD and path in files:
                        stored[path] = entry.file.first_row_id
    ids: dict[int, set[int]] = {}
    for path, first in stored.items():
        rows = pq.read_table(io.BytesIO(files[path])).to_pydict()
        found = rows.get(ROW_ID) or range(first or 0, (first or 0) + len(rows["k"]))
        for key, one in zip(rows["k"], found, strict=True):
            ids.setdefault(key, set()).add(one)
    several = {key: found for key, found in ids.items() if len(found) > 1}
    expect(not several, f"rows with several ids, by key: {several}")
    expect(len(set().union(*ids.values())) == len(ids), f"an id of several rows: {ids}")
