"""Compare the records of each key with each other, over all versions of a bucket at once.

1. A record is live in an interval of versions: from the one in which its file appears until the file is removed or a
   vector deletes the record's position. `intervals` computes these.
2. All files of the bucket, of all versions, are merged once by key.
3. Two records of one key whose intervals overlap are live together. `_judge` decides whether they may be:

   * both above level 0, with deletion vectors: never (DV-12);
   * both at the same level above 0: never, because a run has a key once (LSM-2);
   * otherwise the record in the newer run must be the newer one (LSM-6), or a copy of the older (CHG-20).

Memory holds the vectors and a window of rows, whatever the size of the bucket. The subtle case is a bucket with very
many files over time: its versions are checked in groups, so that not all files are open at once.

Clauses: CHG-20, DV-12, LSM-2, LSM-4, LSM-6, MRG-4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable_spec.vocabulary import SEQUENCE_NUMBER

from pktable.bucket.reader import DataReader
from pktable.bucket.windows import WINDOW_BYTES, RunBuffer, Tables, aligned, rows_to_hold
from pktable.check.findings import Findings, counted
from pktable.check.history import BucketHistory, Version
from pktable.check.intervals import Intervals, Longs, Span, by_files, live_intervals, pairs_together
from pktable.check.layout import Range
from pktable.check.vectors import Vectors
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.types import values_of
from pktable.kinds.primary_key import may_shadow_rows_without_vector
from pktable.lsm.bucket import sorted_runs
from pktable.lsm.plan import sections

MOST_FILES = 256  # that are open at once, unless a single version has more
FILE_NUMBER, POSITION_IN_FILE = "__pktable_file_number", "__pktable_position_in_file"

WORDS: Final = {
    "DV-12": ("live keys", "each key live once", "also live in"),
    "LSM-2": ("keys of a run", "each key once", "also in"),
    "LSM-6": ("order of records", "the newer record in the newer run", "in the other order with"),
}
"""How a conflict is reported: what, what is expected, and how the text about the other file begins."""


@dataclass(slots=True)
class Conflict:
    """Records of two files that must not be live together: how many keys, an example, in which versions."""

    keys: int = 0
    example: str = ""
    versions: set[int] = field(default_factory=set)


def check_keys(
    context: TableContext,
    bucket: BucketHistory,
    vectors: Sequence[Vectors | None],
    ranges: Mapping[str, Range],
    reliable: Set[str],
    findings: Findings,
) -> None:
    """Check the keys of the files named in ``reliable``: their keys ascend, and lie in their ``ranges``.

    ``vectors``: by version, None where they could not be read.
    """
    for first, end in _groups(bucket.versions):
        check = _KeyCheck(context, bucket, ranges, findings)
        for number in range(first, end):
            known = vectors[number]
            if known is not None:
                check.add_version(number, known, reliable)
        check.run()


def _groups(versions: Sequence[Version]) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of groups of versions: of a single one, or of at most `MOST_FILES` files."""
    first, names = 0, set[str]()
    for number, version in enumerate(versions):
        names |= {entry.file.file_name for entry in version.entries}
        if len(names) > MOST_FILES and number > first:
            yield first, number
            first, names = number, {entry.file.file_name for entry in version.entries}
    yield first, len(versions)


class _KeyCheck:
    """The check of one group of versions."""

    def __init__(
        self, context: TableContext, bucket: BucketHistory, ranges: Mapping[str, Range], findings: Findings
    ) -> None:
        self._context, self._bucket, self._ranges, self._findings = context, bucket, ranges, findings
        self._metas: dict[str, DataFileMeta] = {}
        self._spans: dict[str, dict[int, list[Span]]] = {}
        self._conflicts: dict[tuple[str, str, str], Conflict] = {}

    def add_version(self, number: int, vectors: Vectors, reliable: Set[str]) -> None:
        """Add the live files of a version, and their vectors."""
        version = self._bucket.versions[number]
        usable = [e.file for e in version.entries if e.file.file_name in reliable & self._ranges.keys()]
        for section in sections(usable, self._context.order):
            if len(section) > 1:  # a file that overlaps no other shares no key
                self._metas.update((file.file_name, file) for file in section)
        # As long as default reads merge, a key may be live at several levels (DV-15).
        merged = may_shadow_rows_without_vector(self._context, [entry.file for entry in version.entries])
        unmerged = version.vectors_enabled and not merged
        for file in usable:
            spans = self._spans.setdefault(file.file_name, {}).setdefault(file.level, [])
            vector = vectors.get(file.file_name)
            new = Span(number, number + 1, file.level, unmerged, vector)
            if spans and new.continues(spans[-1]) and spans[-1].vector == vector:
                new = Span(spans.pop().start, number + 1, file.level, unmerged, vector)
            spans.append(new)

    def run(self) -> None:
        """Merge the files, compare the records of each key, and add the findings."""
        self._names = sorted(self._metas)
        self._number = {name: number for number, name in enumerate(self._names)}
        self._age = self._ages()
        chains = self._chains()
        if not chains:
            return
        share = rows_to_hold(chains, WINDOW_BYTES)
        buffers = [RunBuffer(self._tables(chain, share), share, 0) for chain in chains]
        for parts in aligned(self._context, buffers):
            rows = pa.concat_tables([rows for _, rows, _ in parts])
            self._compare(rows, np.concatenate([keys for _, _, keys in parts]))
        self._report()

    def _ages(self) -> Longs:
        """Return the rank that each file would have among the runs of level 0, newest first. Clauses: LSM-4."""
        as_if_fresh = [meta.at_level(0) for meta in self._metas.values()]
        runs = sorted_runs(as_if_fresh, self._context.order)
        place = {run.files[0].file_name: i for i, run in enumerate(runs)}
        return np.array([place[name] for name in self._names], np.int64)

    def _chains(self) -> list[tuple[DataFileMeta, ...]]:
        """Return the files as few sequences, in each of which key ranges ascend and do not overlap."""
        chains: list[list[DataFileMeta]] = []
        for meta in sorted(self._metas.values(), key=lambda meta: self._ranges[meta.file_name]):
            smallest = self._ranges[meta.file_name][0]
            fitting = (one for one in chains if self._ranges[one[-1].file_name][1] < smallest)
            chain = next(fitting, None)
            if chain is None:
                chains.append([meta])
            else:
                chain.append(meta)
        return [tuple(chain) for chain in chains]

    def _tables(self, chain: Sequence[DataFileMeta], share: int) -> Tables:
        """Yield the keys and sequence numbers of a chain, with the number of the file and the position of each."""
        for meta in chain:
            reader = DataReader(self._context, self._bucket.place, meta)
            number = self._number[meta.file_name]
            columns = (*self._context.key_columns, SEQUENCE_NUMBER)
            for position, table in reader.read(columns, batch_rows=min(share, 1 << 17)):
                count = table.num_rows
                yield (
                    reader.path,
                    table.append_column(
                        FILE_NUMBER, pa.array(np.full(count, number, np.int64))
                    ).append_column(
                        POSITION_IN_FILE, pa.array(np.arange(position, position + count, dtype=np.int64))
                    ),
                )

    # ------------------------------------------------------------ comparing

    def _compare(self, rows: pa.Table, keys: Any) -> None:
        """Record the conflicts among the records of one window. ``keys``: encoded, one per row."""
        order = np.argsort(keys, kind="stable")
        fresh = np.ones(len(keys), bool)
        fresh[1:] = keys[order[1:]] != keys[order[:-1]]
        alone = fresh & np.append(fresh[1:], True)
        shared = np.sort(order[~alone])
        if not len(shared):
            return
        group = np.empty(len(keys), np.int64)
        group[order] = np.cumsum(fresh)
        intervals = self._intervals(rows, shared)
        for left, right in pairs_together(intervals, group[intervals.rows]):
            self._judge(rows, intervals, left, right)

    def _intervals(self, rows: pa.Table, chosen: Longs) -> Intervals:
        """Return the intervals in which each of the ``chosen`` rows is live: none, one or several per row."""
        files, positions = (rows.column(name).to_numpy()[chosen] for name in (FILE_NUMBER, POSITION_IN_FILE))
        parts: list[Sequence[Longs]] = [[np.empty(0, np.int64)] * 5]
        for number in np.unique(files):
            of_file = np.flatnonzero(files == number)
            for spans in self._spans[self._names[number]].values():
                parts += live_intervals(spans, chosen[of_file], positions[of_file])
        return Intervals.of(parts)

    def _judge(self, rows: pa.Table, live: Intervals, left: Longs, right: Longs) -> None:
        """Record those pairs (left, right) that must not be live together. Each is two intervals of one key.

        Clauses: CHG-20, DV-12, LSM-2, LSM-6.
        """
        levels = live.levels[left], live.levels[right]
        above = (levels[0] > 0) & (levels[1] > 0)
        twice = above & ((live.enabled[left] & live.enabled[right]) > 0)
        in_one_run = above & ~twice & (levels[0] == levels[1])
        files, numbers = (rows.column(name).to_numpy() for name in (FILE_NUMBER, SEQUENCE_NUMBER))
        ages, sequences = [], []
        for side, level in zip((left, right), levels, strict=True):
            records = live.rows[side]
            fresh_age = np.where(level > 0, 0, self._age[files[records]])
            ages.append(level * (len(self._names) + 1) + fresh_age)
            sequences.append(numbers[records])
        newer_first = ages[0] < ages[1]
        right_order = np.where(newer_first, sequences[0] > sequences[1], sequences[0] < sequences[1])
        if self._context.deeper_rows_are_merged(self._metas.values()):
            # Where a late record was merged, the newer run has a copy of the deeper record.
            right_order |= above & (sequences[0] == sequences[1])
        self._record("DV-12", rows, live, left[twice], right[twice])
        self._record("LSM-2", rows, live, left[in_one_run], right[in_one_run])
        if not self._context.options.unmergeable:
            wrong = ~twice & ~in_one_run & ~right_order
            self._record("LSM-6", rows, live, left[wrong], right[wrong])

    def _record(self, clause: str, rows: pa.Table, live: Intervals, left: Longs, right: Longs) -> None:
        """Add pairs that violate a clause to the conflicts of their two files."""
        files = rows.column(FILE_NUMBER).to_numpy()
        for file, other, versions, example, count in by_files(live, files, left, right):
            name = clause, self._names[file], self._names[other]
            conflict = self._conflicts.setdefault(name, Conflict())
            conflict.keys += count
            conflict.versions.update(versions)
            conflict.example = conflict.example or self._as_text(rows, example)

    def _as_text(self, rows: pa.Table, records: Longs) -> str:
        """Return the key of two records and their positions as text."""
        columns = zip(self._context.key_columns, self._context.key_types, strict=True)
        key = [values_of(rows.column(name).slice(int(records[0]), 1), kind)[0] for name, kind in columns]
        positions = [rows.column(POSITION_IN_FILE)[int(record)].as_py() for record in records]
        return f"{', '.join(map(repr, key))} at positions {positions[0]} and {positions[1]}"

    def _report(self) -> None:
        """Add a finding for each conflict."""
        for (clause, file, other), conflict in self._conflicts.items():
            versions = self._bucket.versions
            what, expected, found = WORDS[clause]
            self._findings.add(
                clause,
                what,
                self._context.data_path(self._bucket.place, self._metas[file]),
                expected=expected,
                found=f"{counted(conflict.keys, 'key')} {found} {other}, such as {conflict.example}",
                snapshots=sorted(one for number in conflict.versions for one in versions[number].snapshots),
            )
