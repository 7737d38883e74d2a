"""Faults of dynamic buckets and of their hash index."""

from __future__ import annotations

from typing import Any

from pktable.bucket import dynamic, moving
from pktable.catalog import changes

from model_tests.mutants.registry import Mutant, instead, patched, reworded

IN_ANOTHER_BUCKET = "appended: a write goes to the buckets of its keys"


def _without_its_last(write_hashes: Any) -> Any:
    def written(context: Any, place: Any, hashes: Any, new: Any) -> Any:
        return write_hashes(context, place, hashes[:-1], new)

    return written


MUTANTS = (
    Mutant(
        "B1",
        "a write commits though others have given buckets to keys since it was assigned",
        patched((changes.Assignment, "conflicts", instead(lambda self, appends, state: {}))),
        IN_ANOTHER_BUCKET,
        ("BKT-8",),
    ),
    Mutant(
        "B2",
        "an overwrite keeps the hash index of what it replaces",
        reworded(changes, ("if self.replaces is None or not self.replaces(bucket_id[0])", "if True")),
        IN_ANOTHER_BUCKET,
        ("BKT-11",),
    ),
    Mutant(
        "B3",
        "a bucket gets one key more than it has room for",
        reworded(dynamic, ("target = options.keys_per_bucket", "target = options.keys_per_bucket + 1")),
        IN_ANOTHER_BUCKET,
        ("BKT-5",),
    ),
    Mutant(
        "B4",
        "a hash index file lacks a key of its bucket",
        patched((dynamic, "write_hashes", _without_its_last)),
        "is_sound: error BKT-3",
        ("BKT-3",),
    ),
    Mutant(
        "B5",
        "new keys get their buckets in the order of their hashes",
        reworded(dynamic, ("new[np.argsort(firsts[new])]", "new")),
        IN_ANOTHER_BUCKET,
        ("BKT-5",),
    ),
    Mutant(
        "B6",
        "assigners share their buckets with each other",
        reworded(dynamic, ("if bucket % self._groups == assigner}", "}")),
        IN_ANOTHER_BUCKET,
        ("BKT-7",),
    ),
    Mutant(
        "B7",
        "a key that moves leaves nothing where it was",
        reworded(
            moving, ("batch.adds & (before != NOWHERE) & (before != batch.partitions)", "batch.adds & False")
        ),
        IN_ANOTHER_BUCKET,
        ("BKT-22",),
    ),
    Mutant(
        "B8",
        "a retraction goes to the partition that its row names",
        reworded(moving, ("batch.adds | (before == NOWHERE)", "np.ones(len(keys), bool)")),
        IN_ANOTHER_BUCKET,
        ("BKT-24",),
    ),
    Mutant(
        "B9",
        "an engine that computes rows lets keys move",
        reworded(
            moving,
            ("self._moves_rows = context.merge_engine.name == Deduplicate.name", "self._moves_rows = True"),
        ),
        IN_ANOTHER_BUCKET,
        ("BKT-23",),
    ),
    Mutant(
        "B10",
        "a write commits though others have moved keys since it was placed",
        reworded(changes, ("return self.places.conflicts(appends, state)", "return {}")),
        IN_ANOTHER_BUCKET,
        ("BKT-26",),
    ),
)
