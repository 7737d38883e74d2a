"""Examples of merging, by the oracle: the records of a key and the row that they become."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pktable_spec.interface import Change, Scalar, Shape, StoredRecord
from pktable_spec.model.levels import merge
from pktable_spec.model.table import ModelTable
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, RowKind

from model_tests.examples.compaction import TIMED, by
from model_tests.examples.histories import Tale, compact, text_of
from model_tests.examples.shown import Example, of_tale, table

TWO: Final = Shape("t", (("k", "INT"), ("a", "INT"), ("b", "INT")), ("k",))
PLAIN: Final = {"bucket": "1", "deletion-vectors.enabled": "false"}
AGGREGATION: Final = {**PLAIN, "merge-engine": "aggregation"}
SUM: Final = {
    **AGGREGATION,
    "ignore-delete": "true",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "max",
}
SUMS: Final = {**AGGREGATION, **{f"fields.{column}.aggregate-function": "sum" for column in "ab"}}
PARTIAL: Final = {**PLAIN, "merge-engine": "partial-update", "ignore-delete": "true"}
FIRST: Final = {**PLAIN, "merge-engine": "first-row", "ignore-delete": "true"}

Changes: TypeAlias = Sequence[tuple[Scalar, ...]]
"""A write: the kind and the values of each change."""
Given: TypeAlias = tuple[int, int, str, "str | None"]
"""A record: its key, sequence number, kind and value."""


def merges() -> Iterator[Example]:
    """Yield the examples of merges by the oracle."""
    yield _of_runs(
        "The greatest sequence number wins", "MRG-1 MRG-3 MRG-4 MRG-5 LSM-6",
        "Records of two runs, the newer one first. Key 1 gets its newest value, and key 3 has no row.",
        [[(1, 5, "+U", "new"), (3, 6, "-D", None)], [(1, 1, "+I", "old"), (2, 2, "+I", "two"), (3, 3, "+I", "three")]],
    )  # fmt: skip
    yield _of_runs(
        "An add wins over a retraction with the same number", "MRG-2 LSM-4",
        "Two writers have given the same numbers. The add wins, whichever run has it.",
        [[(1, 4, "-D", None)], [(1, 4, "+I", "added")]],
    )  # fmt: skip
    yield _of_runs(
        "Of two adds with the same number the newer run decides", "MRG-6 LSM-8",
        "Two writers have given the same numbers, and each file is a run of its own.",
        [[(1, 4, "+I", "of the newer run")], [(1, 4, "+I", "of the older run")]],
    )  # fmt: skip
    yield _of_writes("A sum and a maximum", "MRG-9", "Each column has its function.", SUM, [
        [("+I", 1, 5, 5)], [("+U", 1, 2, 9)], [("+U", 1, None, 7)],
    ])  # fmt: skip
    yield _of_writes(
        "The newest value that is not null", "MRG-13", "Each column is looked at by itself.", PARTIAL,
        [[("+I", 1, 10, None)], [("+U", 1, None, 20)], [("+U", 1, 11, None)]],
    )  # fmt: skip
    yield _of_writes(
        "A sequence group takes its columns from one record", "MRG-14",
        "Column a orders the group of b. The record of 7 is the newest of the group, though it was written first.",
        {**PLAIN, "merge-engine": "partial-update", "fields.a.sequence-group": "b"},
        [[("+I", 1, 7, 70)], [("+U", 1, 5, 50)]],
    )  # fmt: skip
    yield _of_writes(
        "The first row stays", "MRG-12 MRG-15", "Later records of the key are left out.", FIRST,
        [[("+I", 1, 10, 1)], [("+U", 1, 20, 2)], [("-D", 1, None, None)]],
    )  # fmt: skip
    yield _of_writes(
        "A retraction of no row changes nothing", "MRG-16", "Key 1 has no row, so nothing is subtracted.",
        SUMS, [[("-U", 1, 5, 5)], [("+I", 1, 2, 2)], [("-U", 1, 1, 0)]],
    )  # fmt: skip
    yield of_tale(
        Tale(
            "A retraction gets a run of its own",
            "A sum is retracted and added to in one write. The write has three files.",
            {**SUMS, "num-levels": "3"},
            (by(("+I", 1, 5, 5), ("-U", 1, 5, 5), ("+U", 1, 7, 7)), compact("A compaction", full=True)), TWO,
        ),
        "MRG-8", "LSM-5", shown=2,
    )  # fmt: skip
    timed = {**PLAIN, "sequence.field": "s"}
    yield _of_writes(
        "The column of sequence.field decides", "MRG-19 MRG-20", "The record of 3 was written last, and is late.",
        timed, [[("+I", 1, "a", 5)], [("+U", 1, "b", 3)], [("+I", 2, "c", None)], [("+U", 2, "d", 1)]], TIMED,
    )  # fmt: skip


def _of_runs(title: str, clauses: str, what: str, given: Sequence[Sequence[Given]]) -> Example:
    """Return a merge of records, given by run."""
    runs = [[_record(*one) for one in run] for run in given]
    merged = merge(runs)
    rows = [(f"run {at}", *_cells(record)) for at, run in enumerate(runs, 1) for record in run]
    rows += [("merged", *_cells(record)) for record in merged]
    left = ", ".join(f"`{text_of(one.row)}`" for one in merged if one.kind.is_add) or "no row"
    text = f"{what}\n\n{table(('', 'key', 'number', 'kind', 'value'), rows)}\n\nA read has {left}."
    return Example(title, tuple(clauses.split()), text)


def _record(key: int, number: int, kind: str, value: str | None) -> StoredRecord:
    return StoredRecord((key,), number, RowKind(ROW_KIND_SYMBOLS.index(kind)), (key, value))


def _cells(record: StoredRecord) -> tuple[str, ...]:
    return str(record.key[0]), str(record.sequence), ROW_KIND_SYMBOLS[record.kind], str(record.row[1] or "")


def _of_writes(
    title: str,
    clauses: str,
    what: str,
    options: Mapping[str, str],
    writes: Sequence[Changes],
    shape: Shape = TWO,
) -> Example:
    """Return writes and the rows of a read after each, by the oracle."""
    oracle = ModelTable(shape, options)
    rows = []
    for changes in writes:
        given = [Change(RowKind(ROW_KIND_SYMBOLS.index(str(kind))), tuple(row)) for kind, *row in changes]
        oracle.write(given, write_only=True)
        found = sorted(oracle.read(fresh=True), key=lambda row: str(row[0]))
        written = ", ".join(" ".join("null" if v is None else str(v) for v in one) for one in changes)
        rows.append((written, ", ".join(map(text_of, found)) or "no row"))
    shown = ", ".join(f"`{name}` = `{value}`" for name, value in options.items() if name not in PLAIN)
    text = f"{what} Columns: {', '.join(shape.names)}. Options: {shown}.\n\n{table(('write', 'rows after it'), rows)}"
    return Example(title, tuple(clauses.split()), text)
