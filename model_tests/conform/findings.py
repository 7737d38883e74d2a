"""What the runs on record say of other implementations: each failure is one of a few findings, with a minimal case.

A finding is known by its cases, and by what the outcome says where one case shows several. A test holds that there is
one for each failure on record, and that each finding is still there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pktable_conform.report import ERROR, FAIL, Outcome

from model_tests.conform.record import Run


@dataclass(frozen=True)
class Finding:
    """A finding. ``cases``: those that show it, the minimal one first. ``says``: what its outcomes say, a pattern.

    A finding without cases is known by ``says`` alone.
    """

    title: str
    what: str
    cases: tuple[str, ...] = ()
    says: str = ""
    of: str = ""

    def is_of(self, run: Run, outcome: Outcome) -> bool:
        text = f"{outcome.check}: {outcome.message}"
        is_case = not self.cases or outcome.case in self.cases
        return is_case and bool(re.search(self.says, text)) and run.title.startswith(self.of)


OLDEST: Final = "paimon-jvm 0.9.0"
FINDINGS: Final = (
    # ------------------------------------------------------------ bytes
    Finding(
        "The CRC-32 of a deletion vector is not verified",
        "Java skips the four bytes. A flipped bit brings a deleted row back, or deletes another one.",
        ("vector-bit", "vector-crc", "vector-64-crc"),
    ),
    Finding(
        "The cardinality of a vector is not compared",
        "A vector with other positions than the index manifest says is taken.",
        ("vector-cardinality", "vector-64-cardinality"),
    ),
    Finding(
        "A DV index file is not looked at as a whole",
        "Its version, its size and bytes that no range covers play no part. A range alone is read.",
        ("index-version", "index-size", "index-longer"),
    ),
    Finding(
        "Of two vectors of one data file one is taken",
        "Which one is an accident, and so are the rows.",
        ("vector-twice", "index-twice"),
    ),
    Finding(
        "Versions and ids of metadata files are not compared",
        "A file of a later format is read as if it were one of today, and a file under another name as that.",
        (
            *("snapshot-version", "snapshot-id", "manifest-version", "manifest-list-version"),
            "index-manifest-version",
        ),
    ),
    Finding(
        "Fields that are not known are ignored, also where they have a value",
        "A later release may say by such a field that an entry means something else.",
        ("manifest-field", "index-manifest-field"),
    ),
    Finding(
        "An entry of an index manifest that takes a file away is read as one that adds it",
        "No release writes such an entry. The rows differ from reader to reader.",
        ("index-kind",),
    ),
    Finding(
        "Sizes and numbers of rows that metadata states are not compared",
        "A file that was cut, written over or mixed up with another one is not noticed by them.",
        ("data-rows", "data-size", "manifest-list-size"),
    ),
    Finding(
        "A file that is added twice, or taken away without being there, is no error",
        "Of a file that is added twice the rows come twice.",
        ("manifest-added-twice", "manifest-never-added"),
    ),
    Finding(
        "The checksums of pages are not verified",
        "The writers of this project and of Arrow store them; their readers have to be asked to look.",
        ("data-page",),
    ),
    Finding(
        "A column that a data file should have reads as null", "Damage becomes a value.", ("data-column",)
    ),
    Finding(
        "A missing index manifest is no error", "All deleted rows come back.", ("index-manifest-missing",)
    ),
    Finding(
        "A VARIANT that is stored in parts is read as if it were whole",
        "The part in `typed_value` is lost.",
        ("variant-in-parts",),
    ),
    # ---------------------------------------------------------- options
    Finding(
        "Options that change rows and are not known are ignored",
        "The rows are those of another table. Paimon 2.0 has such an option, `sequence.snapshot-ordering`.",
        ("option-of-merges", "option-of-rows", "option-unknown"),
    ),
    Finding(
        "A key column whose type has changed is read",
        "The files of before are ordered by the older type, and lie in buckets of it.",
        ("key-type",),
    ),
    Finding(
        "The options of 2.0 on reads are not known to 1.4.2",
        "`deletion-vectors.merge-on-read` is ignored, so that new rows are missing.",
        ("merged-on-read-later",),
    ),
    Finding(
        "0.9.0 does not know options of later releases",
        "Places of files, names of partitions and the order of a sequence field are other ones.",
        (
            *("data-elsewhere", "vectors-by-data", "partitions-of-newer-names", "waiting-rows"),
            "ordered-by-two-columns",
        ),
        of=OLDEST,
    ),
    Finding(
        "An older snapshot cannot be read after a column of an option was renamed",
        "The options of today are looked up among the columns of that time.",
        ("ordered-by-a-renamed-column",),
    ),
    Finding(
        "An older name of `ignore-delete` is not known",
        "Rows are deleted that the table keeps.",
        ("ignored-deletions",),
    ),
    # -------------------------------------------------------- snapshots
    Finding(
        "A snapshot from before the table had vectors reads as empty",
        "PIP-16 prohibits such a read; nobody refuses it.",
        ("switched-on",),
    ),
    Finding(
        "A hint of a snapshot that does not exist ends every read",
        "A hint is written over in place, so that a crash or a rollback leaves such a one.",
        ("hints-ahead",),
    ),
    Finding(
        "A tag of a branch is not found", "A read of it is refused, though its file is there.", ("branches",)
    ),
    Finding(
        "Changes over an overwrite are given as if there were none",
        "Nobody has recorded what it took away.",
        ("changes-of-an-overwrite",),
    ),
    Finding(
        "Manifests in ORC and Parquet are not read",
        "Java writes them if `manifest.format` says so.",
        ("manifests-in-parquet", "manifests-in-orc"),
    ),
    Finding(
        "A manifest of an older release is not read",
        "The field `_VALUE_STATS_COLS` is missing there, as in all tables of Paimon 0.9.",
        says="KeyError: '_VALUE_STATS_COLS'",
    ),
    Finding(
        "Vectors of 64 bits are not read",
        "The magic is looked for in the byte order of vectors of 32 bits.",
        says="Invalid magic number: 3520280932",
    ),
    # ------------------------------------------------------------ values
    Finding(
        "Times before 1970 with a fraction of a second are refused",
        "They are stored as INT96, whose nanoseconds have a sign.",
        ("times-before-1970",),
    ),
    Finding(
        "A row in an array whose fields are all null reads as null",
        "A struct in Parquet and its fields have a definition level each.",
        ("nested",),
    ),
    Finding(
        "Fields of rows that were renamed or added are not found",
        "Java 0.9.0 refuses the table; pypaimon gives nulls where a row has no field left.",
        ("nested-evolution",),
    ),
    Finding(
        "Avro files of nullable records are not read",
        "Paimon's writer makes such a record of a table, and the key comes back as null.",
        ("in-avro",),
    ),
    Finding(
        "A condition on a file of some columns fails",
        "The statistics are of the columns that were written. The reader takes them for those of all columns.",
        ("files-of-some-columns",),
    ),
    # ------------------------------------------------------------ merges
    Finding(
        "Of records with the same sequence number another one wins",
        "Two writers may give the same numbers. Files, kinds of row or the order of the read decide then.",
        ("equal-numbers",),
    ),
    Finding(
        "listagg treats blank strings in other ways",
        "Java 1.4.2 keeps one that comes first, 0.9.0 keeps all, and pypaimon drops the string of a single record.",
        ("functions-of-places",),
    ),
    Finding(
        "A retraction of a key without a row is subtracted from the next row",
        "Once a compaction has dropped the retraction it is not. So the result depends on compactions.",
        ("retractions-of-no-row",),
    ),
    Finding(
        "A row after its removal is late until a compaction has forgotten the removal",
        "So the result depends on compactions.",
        ("late-rows-after-a-removal",),
    ),
    Finding(
        "0.9.0 fails to take retractions back, or to remove a row",
        "It ends with a NullPointerException, or keeps columns of the removed row.",
        ("rows-that-deletions-remove", "rows-that-groups-remove", "functions-that-take-back"),
        of=OLDEST,
    ),
    Finding(
        "A null in a column of `sequence.field` does not replace a value",
        "0.9.0 gives the column the last value that is not null, though an older record has it.",
        ("sums-ordered-by-a-column",),
        of=OLDEST,
    ),
    Finding(
        "Maps are not aggregated",
        "A merge of a table with a MAP ends with an ArrowTypeError.",
        ("functions-of-nested-columns",),
    ),
    # ----------------------------------------------------------- writers
    Finding(
        "Values get into other rows in ORC where a ROW inside of a ROW is null",
        "pyarrow writes what lies under the null in the place of the next value. Rows that follow have wrong values, "
        "and some are lost, without an error.",
        ("types-orc",),
        of="pypaimon 2",
    ),
    Finding(
        "A null in an ARRAY is refused in Avro",
        "The schema that is made says that elements are never null.",
        ("types-avro",),
        of="pypaimon 2",
    ),
    Finding(
        "Bounds are stated of a column with a NaN",
        "Java states NaN as both bounds. paimon-rust states bounds of the other values; a NaN lies beyond them.",
        ("types-nan",),
        says="because a NaN is present",
    ),
    Finding(
        "0.9.0 fails to compact Parquet in which a ROW inside of a ROW is null",
        "Its reader ends with an ArrayIndexOutOfBoundsException, so that the table cannot be compacted any more.",
        ("types-parquet-compacted",),
        of=OLDEST,
    ),
    Finding(
        "A deleted row comes back by a late record",
        "A compaction has dropped the retraction that is newer by `sequence.field` (MRG-21).",
        ("a_late_row_meets_a_remembered_deletion",),
    ),
    Finding(
        "A full compaction leaves a vector of a file that is gone",
        "Readers pass it over. It stays in the index manifest.",
        says="^vectors_are_well_formed: a vector names a file that is not live",
    ),
    Finding(
        "A full compaction leaves a file with deleted rows as it is",
        "0.9.0 compacts nothing if one file is left, so that its deleted rows stay on disk.",
        says="^compacted: nothing was compacted",
        of=OLDEST,
    ),
    Finding(
        "A compaction takes other files than the clauses say",
        "A file with vectors at the greatest level stays where the rest is compacted, or a file is written again that "
        "could be moved. The rows are the same.",
        says="^compaction_took_the_pick",
    ),
    Finding(
        "A deletion that is ignored makes no snapshot",
        "Its write has no commit that a caller could wait for.",
        ("an_ignored_deletion_is_no_change",),
    ),
    Finding(
        "Null counts of statistics are -1 or missing",
        "0.9.0 keeps no number of nulls for columns of which Parquet has no statistics.",
        says="^audit: META-6: .*nulls: expected -1, found 0",
        of=OLDEST,
    ),
)


def failures(run: Run) -> Iterator[Outcome]:
    """Yield the outcomes of a run that failed."""
    yield from (one for one in run.outcomes.values() if one.status in (FAIL, ERROR))


def finding_of(run: Run, outcome: Outcome) -> Finding | None:
    """Return the finding that a failure is, None if it is none that is known."""
    return next((one for one in FINDINGS if one.is_of(run, outcome)), None)


def shown_by(finding: Finding, runs: Iterable[Run]) -> list[tuple[Run, Outcome]]:
    """Return the failures that are a finding, the minimal case first."""
    found = [(run, one) for run in runs for one in failures(run) if finding_of(run, one) is finding]
    order = {case: at for at, case in enumerate(finding.cases)}
    return sorted(found, key=lambda each: (order.get(each[1].case, len(order)), each[1].case))
