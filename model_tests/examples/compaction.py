"""Examples of compactions and of deletion vectors, by the oracle: the table before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pktable_spec.interface import Scalar, Shape

from model_tests.examples.histories import SHAPE, Step, Tale, begin, commit, compact, write
from model_tests.examples.shown import Example, of_tale

OPTIONS: Final = {"bucket": "1", "num-levels": "3", "num-sorted-run.compaction-trigger": "5"}
VECTORS: Final = {**OPTIONS, "deletion-vectors.enabled": "true"}
MERGED: Final = {**OPTIONS, "deletion-vectors.enabled": "false"}
SMALL: Final = {"target-file-size": "4000"}
"""Files of four records. The oracle counts 1000 bytes for each record."""
SUMS: Final = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
NUMBERS: Final = Shape("t", (("k", "INT"), ("v", "INT")), ("k",))
TIMED: Final = Shape("t", (("k", "INT"), ("v", "STRING"), ("s", "INT")), ("k",))
ORDERED: Final = {**VECTORS, "sequence.field": "s"}
LEFT: Final = {**VECTORS, "compaction.delete-ratio-threshold": "0.4"}


def w(text: str) -> Step:
    """Return a write of changes such as ``+1a -2``: a sign, the key, and the value."""
    changes = [
        ("+I", int(one[1]), one[2:]) if one[0] == "+" else ("-D", int(one[1]), None) for one in text.split()
    ]
    return write(f"Write {text}", *changes)


def by(*changes: tuple[Scalar, ...]) -> Step:
    """Return a write of changes, each given as its kind and its values."""
    shown = ", ".join(" ".join("null" if value is None else str(value) for value in one) for one in changes)
    return write(f"Write {shown}", *changes)


FULL: Final = compact("A full compaction", full=True)
PICKED: Final = compact("A compaction of what the strategy picks")
EIGHT: Final = w("+1a +3a +5a +7a"), w("+2a +4a +6a +8a"), FULL
SIX: Final = w("+1a +2b +3c +4d +5e +6f")


DELETED: Final = (
    by(("+I", 1, "a", 5), ("+I", 2, "b", 5), ("+I", 3, "c", 5)),
    FULL,
    by(("-D", 1, None, 7)),
    PICKED,
)
MEETING: Final = (
    begin("A begins", "A"),
    begin("B begins", "B"),
    commit("A commits", "A"),
    commit("B commits", "B"),
)


def compactions() -> Iterator[Example]:
    """Yield the examples of compactions."""

    def one(title: str, what: str, options: Mapping[str, str], *steps: Step, clauses: str) -> Example:
        return of_tale(Tale(title, what, options, steps), *clauses.split())

    yield one(
        "Level 0 is picked whole, and goes to the level before the first run that is not taken",
        "Two writes wait at level 0 of a table with deletion vectors. No other rule picks anything.",
        VECTORS,
        SIX,
        FULL,
        w("+3C"),
        w("+4D"),
        PICKED,
        clauses="CMP-1 CMP-2 CMP-3 CMP-18 CMP-20 CMP-26",
    )
    yield one(
        "Size amplification takes all runs",
        "There are as many runs as the trigger, 3 here, and all but the oldest have 4000 bytes, more than 200 % of it.",
        {**MERGED, "num-sorted-run.compaction-trigger": "3"},
        w("+1a"),
        FULL,
        w("+1b +2b"),
        w("+1c +2c"),
        PICKED,
        clauses="CMP-4",
    )
    yield one(
        "The size ratio adds a run of about the same size",
        "The newest two runs have 1000 bytes each, and 1 % more than 1000 is not below 1000. Then 2000 are below 6000.",
        {**MERGED, "num-sorted-run.compaction-trigger": "3"},
        SIX,
        FULL,
        w("+1b"),
        w("+1c"),
        PICKED,
        clauses="CMP-5 CMP-27",
    )
    yield one(
        "Too many runs: the newest are taken",
        "There are 3 runs and the trigger is 2. So 3 - 2 + 1 = 2 are taken, though the sizes alone would take none.",
        {**MERGED, "num-sorted-run.compaction-trigger": "2", "num-levels": "4"},
        w("+1a +2a +3a +4a +5a +6a +7a +8a +9a"),
        FULL,
        w("+1b +2b +3b"),
        w("+1c"),
        PICKED,
        clauses="CMP-6",
    )
    yield one(
        "A run of level 1 goes along, whatever its size",
        "The run of level 1 is larger than level 0. It is taken because the pick has begun with level 0.",
        VECTORS,
        w("+1a +2a +3a +4a +5a +6a +7a +8a +9a"),
        FULL,
        w("+1b +2b +3b"),
        PICKED,
        w("+7c"),
        PICKED,
        clauses="CMP-21",
    )
    yield one(
        "A single file that is where it would go stays",
        "After a full compaction there is nothing to do, and no snapshot is made.",
        VECTORS,
        SIX,
        FULL,
        PICKED,
        clauses="CMP-8",
    )
    yield one(
        "A full compaction takes all runs to the greatest level",
        "The rows of all levels become one sorted run. No deletion vector is left.",
        VECTORS,
        SIX,
        FULL,
        w("+3C"),
        PICKED,
        w("-5"),
        FULL,
        clauses="CMP-7 CMP-12 CMP-14 DV-10 DV-13",
    )
    yield one(
        "A full compaction of the last run alone writes the files again that have a vector",
        "Files hold four records here. Only f3 has a deleted position.",
        {**VECTORS, **SMALL},
        *EIGHT,
        w("-2"),
        PICKED,
        FULL,
        clauses="CMP-22 DV-10 DV-13",
    )
    yield one(
        "Files with too many deleted rows are written again where they are",
        "The threshold is 40 %. Of the four records of f3 two are deleted, and its others keep their numbers.",
        {**LEFT, **SMALL},
        *EIGHT,
        w("-2 -3"),
        PICKED,
        PICKED,
        clauses="CMP-28 CMP-29",
    )
    yield one(
        "A file whose keys meet no others only changes its level",
        "f1 meets nothing and is large, so its records and its name stay. f2 is rewritten with f3, which overlaps it.",
        {**MERGED, **SMALL},
        w("+1a +2a +3a +4a"),
        w("+5a +6a +7a +8a"),
        w("+6b +7b"),
        FULL,
        clauses="CMP-9 CMP-10 CMP-23 CMP-24",
    )
    yield one(
        "A file with retractions is rewritten on its way out of level 0",
        "It overlaps nothing, and is large enough to be moved. Its retraction would stay for ever.",
        {**VECTORS, **SMALL},
        w("+1a +2a +3a +4a"),
        FULL,
        w("-5 +6b +7b +8b"),
        FULL,
        clauses="CMP-11",
    )
    yield one(
        "A full compaction writes a file with a vector again, large as it is",
        "f1 overlaps nothing and is large. Moved as it is, it would keep its vector.",
        {**VECTORS, **SMALL},
        w("+1a +2a +3a +4a"),
        FULL,
        w("-2"),
        PICKED,
        w("+5a +6a +7a +8a"),
        FULL,
        clauses="CMP-25",
    )
    yield one(
        "A retraction stays while something older of its key could come back",
        "There are no deletion vectors. The compaction takes the newest runs, and key 1 is in an older one.",
        {**MERGED, "num-sorted-run.compaction-trigger": "3"},
        SIX,
        FULL,
        w("-1"),
        w("+2B"),
        PICKED,
        clauses="CMP-13",
    )
    yield one(
        "A rewrite begins a new file at the target size",
        "Files hold four records here. The files of one rewrite are one sorted run.",
        {**MERGED, **SMALL},
        w("+1a +3a +5a +7a"),
        w("+2b +4b +6b +8b"),
        FULL,
        clauses="CMP-15 CMP-26",
    )
    yield of_tale(
        Tale(
            "A write that is write-only compacts nothing",
            "Its row is visible to a default read after the next compaction.",
            VECTORS, (SIX, FULL, w("+3C"), PICKED),
        ),
        "CMP-17", "RD-2", shown=2,
    )  # fmt: skip


def vectors() -> Iterator[Example]:
    """Yield the examples of deletion vectors."""

    def one(
        title: str, what: str, options: Mapping[str, str], *steps: Step, clauses: str, shape: Shape = SHAPE
    ) -> Example:
        return of_tale(Tale(title, what, options, steps, shape), *clauses.split())

    yield one(
        "The replaced record is deleted when the new one becomes visible",
        "Key 3 lies at level 2. The compaction of the upsert looks it up, and deletes its position in the same commit.",
        VECTORS,
        SIX,
        FULL,
        w("+3C"),
        PICKED,
        clauses="DV-1 DV-2 DV-3 DV-4 DV-5 DV-6 DV-12 DV-14 DV-16 DV-25",
    )
    yield one(
        "A record that the compaction takes in needs no lookup",
        "Key 3 is in f2 at level 1, which is an input. So its older record is merged away, and position 2 of f1 was "
        "deleted before.",
        VECTORS,
        SIX,
        FULL,
        w("+3C"),
        PICKED,
        w("+3D"),
        PICKED,
        clauses="DV-7 DV-8",
    )
    yield one(
        "A lookup passes over what is deleted",
        "Key 3 was deleted before. Nothing of it is live, so its new record deletes nothing.",
        VECTORS,
        SIX,
        FULL,
        w("-3"),
        PICKED,
        w("+3C"),
        PICKED,
        clauses="DV-9",
    )
    yield one(
        "A vector only grows",
        "A second delete adds a position to the vector of f1.",
        VECTORS,
        SIX,
        FULL,
        w("-3"),
        PICKED,
        w("-5"),
        PICKED,
        clauses="DV-11 DV-16",
    )
    yield one(
        "The vector of an upgraded file stays",
        "Files hold two records here. f5 overlaps nothing and is large, so it moves to level 3 as it is.",
        {**VECTORS, "target-file-size": "2000", "num-levels": "4", "num-sorted-run.compaction-trigger": "3"},
        w("+1a +3a"),
        w("+2a +4a"),
        FULL,
        w("+5b +6b"),
        PICKED,
        w("-6"),
        PICKED,
        w("+7c +8c"),
        PICKED,
        clauses="DV-17",
    )
    yield one(
        "A sum takes in the row that it looks up",
        "The merge engine is aggregation with a sum. The record at level 2 is merged, and its position deleted.",
        {**VECTORS, **SUMS},
        by(("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 30)),
        FULL,
        by(("+I", 1, 5)),
        PICKED,
        clauses="DV-20",
        shape=NUMBERS,
    )
    yield one(
        "A retraction is remembered, and hidden by the vector of its own file",
        "With `sequence.field` a late record may come after the deletion. So it stays, and no reader sees it.",
        ORDERED,
        *DELETED,
        clauses="DV-21 MRG-21",
        shape=TIMED,
    )
    yield one(
        "A late record meets the retraction that is remembered",
        "The record is of 6, the deletion of 7. The compaction reads the deleted retraction, and the record loses.",
        ORDERED,
        *DELETED,
        by(("+I", 1, "late", 6)),
        PICKED,
        clauses="DV-22 DV-23",
        shape=TIMED,
    )
    yield of_tale(
        Tale(
            "The second of two compactions is refused",
            "Both take f2. The second one was planned on a file and on vectors that have changed.",
            VECTORS, (SIX, FULL, w("+3C"), *MEETING),
        ),
        "CMT-7", "CMT-8", "CMT-14", shown=2,
    )  # fmt: skip
