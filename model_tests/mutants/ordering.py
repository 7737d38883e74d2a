"""Faults of tables with ``sequence.field``: late records, and deletions that are remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pktable.bucket import compact
from pktable.bucket.kept_retractions import KeptRetractions
from pktable.bucket.locate import Located
from pktable.bucket.reader import DataReader
from pktable.merge.grouping import is_add
from pktable.merge.user_order import UserOrder

from model_tests.mutants.registry import READ, Mutant, instead, patched


def _deletions_forgotten(plan: Any) -> Any:
    """Drop retractions with deletion vectors, as if what is deeper were always older."""

    def planned(chosen: Any, files: Any, options: Any, order: Any, **named: Any) -> Any:
        made = plan(chosen, files, options, order, **named)
        return replace(made, drop_deletes=True) if options.deletion_vectors_enabled else made

    return planned


def _live_rows_compared(late_keys: Any) -> Any:
    """Compare with live rows only: those that remember a deletion are deleted."""

    def late(context: Any, newest: pa.Table, found: Sequence[Located], rows: Sequence[pa.Table]) -> Any:
        live, kept = [], []
        for one, records in zip(found, rows, strict=True):
            adds = is_add(records)
            live.append(Located(one.file, one.positions[adds], one.keys[adds]))
            kept.append(records.filter(pa.array(adds)))
        return late_keys(context, newest, live, kept)

    return late


def _ascending(ranks: Any) -> Any:
    return lambda self, records: ranks(replace(self, descending=False), records)


MUTANTS = (
    Mutant(
        "S5",
        "a retraction is dropped with its sequence, and an older row wins",
        patched((compact, "plan", _deletions_forgotten)),
        READ,
        ("MRG-21",),
        bugs=("paimon#5387",),
    ),
    Mutant(
        "S6",
        "a late record replaces the newer row that it looked up",
        patched(
            (compact, "late_keys", instead(lambda context, newest, found, rows: np.zeros(len(newest), bool)))
        ),
        READ,
        ("DV-23", "MRG-19"),
        bugs=("paimon#3286", "paimon#4075"),
    ),
    Mutant(
        "S7",
        "a lookup compares no deleted rows",
        patched((compact, "late_keys", _live_rows_compared)),
        READ,
        ("DV-23",),
    ),
    Mutant(
        "S8",
        "the order of records is ascending, whatever the table says",
        patched((UserOrder, "ranks", _ascending)),
        READ,
        ("MRG-19",),
        bugs=("paimon#7684",),
    ),
    Mutant(
        "S9",
        "a retraction that is kept is not deleted by its vector",
        patched((KeptRetractions, "by_file", instead(lambda self, files: iter(())))),
        READ,
        ("DV-21",),
    ),
    Mutant(
        "S10",
        "a merge reads no retraction that a vector deletes",
        patched((DataReader, "remembered", instead(DataReader.live))),
        READ,
        ("DV-22",),
    ),
)
