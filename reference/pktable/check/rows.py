"""Read the rows of one data file once, batch by batch, and compare them with the file's metadata.

A file is checked under the schema under which it was written, not under the table's latest one.

Clauses: LSM-1, LSM-7, TBL-2 to TBL-5, META-5 to META-7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import CorruptFileError
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND, RowKind

from pktable.bucket.reader import DataReader
from pktable.check.findings import Findings, key_text
from pktable.check.omissions import Omissions
from pktable.context import TableContext
from pktable.datafile.readers import ParquetRows
from pktable.format.binary_row import decode_row, encode_row
from pktable.format.bucket_hash import bucket_of
from pktable.format.metadata.manifest import ManifestEntry
from pktable.format.metadata.stats import SimpleStats, decode_stats
from pktable.format.types import BINARIES, FLOATS, DataType, Field, is_atomic, values_of
from pktable.lsm.bucket import BucketPath
from pktable.merge.key_encoding import encode_keys

BATCH_ROWS = 1 << 16


def check_rows(
    context: TableContext,
    place: BucketPath,
    entry: ManifestEntry,
    snapshots: Sequence[int],
    findings: Findings,
    omissions: Omissions,
    *,
    changelog: bool = False,
) -> bool:
    """Check a data file, and return whether its keys are complete and ascend, so that `check_keys` can merge them.

    ``context``: under the schema of the file. ``snapshots``: those that have the file. ``omissions``: of the bucket.
    ``changelog``: whether it is a changelog file, in which a key may follow itself. Clauses: LSM-1, CHG-3.
    """
    check = _FileCheck(context, place, entry, snapshots, findings, omissions, changelog)
    with findings.guard("RD-11", snapshots=snapshots, file=check.path):
        for table in check.batches():
            check.take(table)
        check.finish()
        return check.reliable
    return False


@dataclass
class _FileCheck:
    """The check of one data file: `take` each of its `batches`, then `finish`."""

    context: TableContext
    place: BucketPath
    entry: ManifestEntry
    snapshots: Sequence[int]
    findings: Findings
    omissions: Omissions
    changelog: bool = False
    reliable: bool = True
    _last: pa.Table | None = None
    _first_key: bytes = b""
    _last_key: bytes = b""
    _rows: int = 0
    _retractions: int = 0
    _sequences: list[int] = field(default_factory=list)
    _reported: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.path = self.context.data_path(self.place, self.entry.file)
        schema, meta = self.context.schema, self.entry.file
        self._bounds = [_Bounds("key statistics", self.context.stored_key_fields, meta.key_stats)]
        values = meta.value_stats_fields(schema)
        if values is not None and all(self._is_stored(one.name) for one in values):
            self._bounds.append(_Bounds("value statistics", values, meta.value_stats))
        types = [one.type for one in schema.partition_fields]
        self._partition = decode_row(self.entry.partition, types, at=self.path)

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows of the file, at most `BATCH_ROWS` at a time."""
        columns = (*self.context.key_columns, *self.context.schema.system_columns)
        reader = DataReader(self.context, self.place, self.entry.file)
        if isinstance(reader.stored, ParquetRows):
            reader.guarded(reader.stored.expect_page_index)
        snapshots = tuple(self.snapshots)
        reader.guarded(lambda: self.omissions.look(self.context, reader.stored, self.path, snapshots))
        values = [one.name for one in self.context.schema.fields if self._is_stored(one.name)]
        for _, table in reader.read((*columns, *values), batch_rows=BATCH_ROWS):
            if table.num_rows:
                yield reader.valid(table)

    def _is_stored(self, column: str) -> bool:
        """Return whether the file has a column; with data evolution it may have a few. Clauses: APP-23."""
        file, context = self.entry.file, self.context
        return file.holds(context.schema.field(column).id, context.schema_of(file.schema_id))

    def take(self, table: pa.Table) -> None:
        """Check the next rows."""
        self._rows += table.num_rows
        if self.context.schema.system_columns:
            self._take_records(table)
        else:
            self._check_place(table)
        for bounds in self._bounds:
            bounds.take(table)

    def _take_records(self, table: pa.Table) -> None:
        """Check what rows of a table with a primary key have besides its columns. Clauses: TBL-4."""
        kinds = table.column(VALUE_KIND).to_numpy()
        self._expect_none("TBL-4", "row kinds", (kinds < 0) | (kinds > max(RowKind)), "0 to 3", kinds)
        self._retractions += int(np.count_nonzero(kinds & 1))
        sequences = table.column(SEQUENCE_NUMBER).to_numpy()
        self._sequences = [
            min(*self._sequences, int(sequences.min())) if self._sequences else int(sequences.min()),
            max(*self._sequences, int(sequences.max())) if self._sequences else int(sequences.max()),
        ]
        if self._keys_are_present(table):
            self._check_keys(table)
            self._check_place(table)

    def finish(self) -> None:
        """Compare the totals over all rows with the metadata. Clauses: LSM-7, META-5, META-6."""
        meta = self.entry.file
        stated = [meta.min_sequence_number, meta.max_sequence_number]
        holds = self._sequences in (stated, [])
        self._expect("LSM-7", "sequence numbers", holds, _ends(stated), _ends(self._sequences))
        deletes = meta.delete_row_count
        self._expect("LSM-7", "retractions", deletes in (None, self._retractions), deletes, self._retractions)
        if self._first_key:
            order = self.context.order
            for what, stored, row in (
                ("smallest key", meta.min_key, self._first_key),
                ("greatest key", meta.max_key, self._last_key),
            ):
                with suppress(CorruptFileError):  # a key that cannot be decoded has been reported
                    stated_key, true_key = order.key(stored, self.path), order.key(row, self.path)
                    self._expect(
                        "META-5", what, stated_key == true_key, key_text(stated_key), key_text(true_key)
                    )
        for bounds in self._bounds:
            for what, expected, value in bounds.broken(self.path):
                self._expect("META-6", what, False, expected, value)

    def _keys_are_present(self, table: pa.Table) -> bool:
        """Return whether no key column has a null. Clauses: TBL-2."""
        names = [*self.context.key_columns, *(one.name for one in self.context.schema.key_fields)]
        nulls = [name for name in names if table.column(name).null_count]
        self._expect("TBL-2", "key columns", not nulls, "no null", f"null in {', '.join(nulls)}")
        self.reliable = self.reliable and not nulls
        return not nulls

    def _check_keys(self, table: pa.Table) -> None:
        """Expect the keys to ascend, and to equal the value columns of the same name. Clauses: LSM-1, META-7."""
        names = self.context.key_columns
        plain = [name[len(KEY_PREFIX) :] for name in names]
        before = [self._last] if self._last is not None else []
        keys, same, *last = encode_keys(
            [
                [table.column(name) for name in names],
                [table.column(name) for name in plain],
                *([one.column(name) for name in names] for one in before),
            ],
            self.context.key_types,
        )
        self._expect_none(
            "META-7", "key columns", keys != same, "the values of the row's own columns", "others"
        )
        together = np.concatenate([*last, keys])
        in_order = together[1:] >= together[:-1] if self.changelog else together[1:] > together[:-1]
        wrong = ~in_order
        if wrong.any():
            self.reliable = False
        # Without a row before it, the first of a file is not in `wrong`; positions count from the end.
        clause, expected = ("CHG-3", "ascending") if self.changelog else ("LSM-1", "strictly ascending")
        self._expect_none(clause, "keys", wrong, expected, "not ascending")
        self._last = table.slice(table.num_rows - 1).select(list(names))
        self._first_key = self._first_key or self._key(table.slice(0, 1))
        self._last_key = self._key(self._last)

    def _check_place(self, table: pa.Table) -> None:
        """Expect every row to belong to the file's partition and bucket. Clauses: TBL-3, TBL-5."""
        for column, value in zip(self.context.schema.partition_fields, self._partition, strict=True):
            if not self._is_stored(column.name):
                continue
            distinct = values_of(table.column(column.name).unique(), column.type)
            strange = [one for one in distinct if one != value]
            found = ", ".join(map(repr, strange[:3]))
            self._expect("TBL-3", f"partition column {column.name}", not strange, repr(value), found)
        total = self.entry.total_buckets
        if (
            total > 0
            and self.context.schema.bucket_key_fields
            and self.context.schema.options.get("bucket-function.type", "default") == "default"
        ):
            fields = self.context.schema.bucket_key_fields
            buckets = bucket_of(
                [table.column(one.name) for one in fields], [one.type for one in fields], total
            )
            wrong = buckets != self.entry.bucket
            self._expect_none("TBL-5", "bucket of the keys", wrong, self.entry.bucket, buckets)

    def _key(self, row: pa.Table) -> bytes:
        columns = zip(self.context.key_columns, self.context.key_types, strict=True)
        return encode_row(
            [values_of(row.column(name), kind)[0] for name, kind in columns], self.context.key_types
        )

    def _expect_none(
        self, clause: str, what: str, wrong: npt.NDArray[np.bool_], expected: object, found: Any
    ) -> None:
        """Expect no row of the batch to be ``wrong``; otherwise report the first one and the number of others.

        ``wrong``: a flag per row, the last one of the batch's last row. ``found``: a value per row, or one for all.
        """
        at = np.flatnonzero(wrong)
        if len(at):
            value = found if isinstance(found, str) else found[at[0]]
            position = self._rows - len(wrong) + int(at[0])
            more = f" and {len(at) - 1} more" if len(at) > 1 else ""
            self._expect(clause, what, False, expected, f"{value} at position {position}{more}")

    def _expect(self, clause: str, what: str, holds: bool, expected: object, value: object) -> None:
        # Of a long file every batch may be wrong; once is enough.
        if holds or what in self._reported:
            return
        self._reported.add(what)
        self.findings.add(clause, what, self.path, expected=expected, found=value, snapshots=self.snapshots)


class _Bounds:
    """The statistics of some columns, and the true bounds and null counts of the rows so far."""

    def __init__(self, what: str, fields: Sequence[Field], stats: SimpleStats) -> None:
        self._what, self._fields, self._stats = what, fields, stats
        self._true: list[list[Any]] = [[] for _ in fields]
        self._nulls = [0] * len(fields)
        self._nan = [False] * len(fields)

    def take(self, table: pa.Table) -> None:
        """Add rows."""
        for i, one in enumerate(self._fields):
            column = table.column(one.name)
            self._nulls[i] += column.null_count
            if not is_atomic(one.type) or one.type.root in BINARIES or column.null_count == len(column):
                continue
            if one.type.root in FLOATS:
                self._nan[i] |= bool(pc.any(pc.is_nan(column)).as_py())
            self._true[i] += [value for value in _extremes(column, one.type) if value == value]

    def broken(self, at: str) -> Iterator[tuple[str, object, object]]:
        """Yield (what, expected, found) for each statistic that a row contradicts. Clauses: META-6."""
        stats = decode_stats(self._stats, [one.type for one in self._fields], at=f"{at}: {self._what}")
        for i, (low, high, nulls) in enumerate(stats):
            what = f"{self._what} of {self._fields[i].name}"
            true = self._true[i]
            if nulls is not None and nulls != self._nulls[i]:
                yield f"{what}: nulls", nulls, self._nulls[i]
            if (low is None) != (high is None):
                yield f"{what}: bounds", "both or none", f"{low!r} to {high!r}"
            elif low is not None and self._nan[i]:
                yield f"{what}: bounds", "none, because a NaN is present", f"{low!r} to {high!r}"
            elif low is not None and true and not low <= min(true) <= max(true) <= high:
                yield f"{what}: bounds", f"{low!r} to {high!r}", f"{min(true)!r} to {max(true)!r}"


def _ends(numbers: Sequence[int]) -> str:
    return " to ".join(map(str, numbers))


def _extremes(column: Any, t: DataType) -> list[Any]:
    """Return the smallest and the greatest value of a column that has at least one."""
    ends = pc.min_max(column)
    return values_of(pa.array([ends["min"], ends["max"]], column.type), t)
