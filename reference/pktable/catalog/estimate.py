"""Estimate how many rows a read must decode: of a file that is sorted by key, only the pages that a condition leaves.

It is a guess, from which nothing follows but who reads. Keys are taken to be spread evenly between the smallest and the
greatest of a file.

Clauses: RD-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from pktable.bucket.read import BucketRead
from pktable.catalog.file_bounds import key_bounds
from pktable.context import TableContext
from pktable.datafile.readers import PAGE_ROWS
from pktable.format.metadata.manifest import DataFileMeta
from pktable.predicate import Bounds, Predicate, key_equalities, may_match

PIECES: Final = 64  # of the keys of a file, of which a condition may leave some


def rows_to_decode(context: TableContext, parts: Sequence[BucketRead], predicate: Predicate | None) -> int:
    """Return about how many rows of ``parts`` are decoded to find those of ``predicate``."""
    every = sum(file.row_count for part in parts for file in part.state.files)
    keys = context.schema.key_fields
    if predicate is None or not keys or keys[0].name not in predicate.columns():
        return every
    files = [
        file
        for part in parts
        if not part.merges
        for file in part.state.files
        if file.file_name.endswith(".parquet") and file.schema_id == context.schema.id
    ]
    if not files:
        return every
    counts = np.array([file.row_count for file in files], np.int64)
    values = key_equalities(predicate, [keys[0].name])
    if values is not None:
        needed = np.full(len(files), len(values) * PAGE_ROWS)
    else:
        needed = np.ceil(_shares(context, files, predicate) * counts).astype(np.int64) + PAGE_ROWS
    return every - int(counts.sum()) + int(np.minimum(needed, counts).sum())


def _shares(
    context: TableContext, files: Sequence[DataFileMeta], predicate: Predicate
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the share of the keys of each file that may satisfy ``predicate``; 1 where they are not integers."""
    name = context.schema.key_fields[0].name
    found = key_bounds(context, files, [name])[name]
    (first, _), (last, _) = found.low, found.high
    if first.dtype.kind != "i":
        return np.ones(len(files))
    edges = np.linspace(first.astype(float), last.astype(float) + 1, PIECES + 1)
    low = np.floor(edges[:-1]).ravel()
    high = np.maximum(np.ceil(edges[1:]).ravel() - 1, low)
    every = np.ones(len(low), bool)
    pieces = Bounds((low, every), (high, every), nullable=~every, present=every)
    may = may_match(predicate, {name: pieces}, len(low))
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = may.reshape(PIECES, len(files)).mean(axis=0)
    return shares
