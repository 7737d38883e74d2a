"""Write the rows of a Spark DataFrame, which stay on the executors: only counts and names come to this process.

1. **Prepare.** Each batch is brought to the table's columns, and gets the key and the partition of each row. All rows
   are looked at before anything is written.
2. **Tag.** The rows of a key come to one task. It keeps the row that wins, and asks the indexes of the file slices.
3. **Place.** This process sees how many rows each file slice has, and how many new ones each partition. It divides
   the hashes of new keys among small groups and new ones, so a task that runs again gives each key to the same group.
4. **Write.** The rows of a file group come to one task, which writes its file. A file is created only if it is absent,
   so a task that runs again finds it, and two attempts leave one file.

Clauses: LOG-54, LOG-55, LOG-59, LOG-64, LOG-73.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pktable.format.types import DataType, Field, one_array

from pktable_hudi.format.bloom import HashedKeys
from pktable_hudi.group_write import WRITTEN, GroupWrite
from pktable_hudi.incoming import Incoming, RowForm
from pktable_hudi.lookup import SliceLookup
from pktable_hudi.pieces import Pieces
from pktable_hudi.placing import Numbers, tagged

KEY, PARTITION, ORDER, BYTES, SLICE, TARGET = (
    f"__pktable_{name}" for name in ("key", "partition", "order", "bytes", "slice", "target")
)
ADDED: Final = (
    Field(0, KEY, DataType("STRING")),
    Field(1, PARTITION, DataType("STRING")),
    Field(2, BYTES, DataType("BIGINT")),
)
HASHES: Final = 1 << 31
"""How many hashes a key can have."""
NEW: Final = -1


@dataclass(frozen=True)
class FrameForm:
    """How rows are taken out of a batch. ``given``: the names of the user's columns, which come first."""

    form: RowForm
    given: tuple[str, ...]

    def incoming(self, table: pa.Table) -> Incoming:
        """Return the rows of a batch. Raises InvalidRequestError."""
        return self.form.conformed(table.select(range(len(self.given))).rename_columns(list(self.given)))

    def prepared(self, table: pa.Table) -> pa.Table:
        """Return a batch with the columns `ADDED`. Raises InvalidRequestError. Clauses: LOG-58."""
        found = self.incoming(table)
        size = max(1, found.rows.nbytes // max(1, table.num_rows))
        added = (found.keys, found.partitions, pa.repeat(pa.scalar(size, pa.int64()), table.num_rows))
        for field, column in zip(ADDED, added, strict=True):
            table = table.append_column(field.name, column)
        return table


@dataclass(frozen=True)
class Tagging:
    """Tags all rows of some keys. ``lookups``: of the file slices."""

    form: FrameForm
    lookups: Sequence[SliceLookup]

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        """Yield the rows that win, each with the number of a slice of its key: once for each of them.

        Clauses: LOG-54, LOG-59, LOG-64.
        """
        table = table.sort_by(ORDER)
        given = self.form.incoming(table)
        chosen = self.form.form.winning(given)
        by_partition = _by_value(given.partitions, chosen)
        asked = [i for i, one in enumerate(self.lookups) if one.slice.partition in by_partition]
        lookups = [(self.lookups[i], by_partition[self.lookups[i].slice.partition]) for i in asked]
        rows = tagged(lookups, given.keys.to_pylist(), Pieces())
        fresh = np.setdiff1d(chosen, np.concatenate([chosen[:0], *rows]))
        if self.form.form.deletes:
            fresh = fresh[:0]
        slices = np.repeat([*asked, NEW], [*map(len, rows), len(fresh)])
        found = table.take(pa.array(np.concatenate([*rows, fresh])))
        yield found.append_column(SLICE, pa.array(slices, pa.int64()))


@dataclass(frozen=True)
class Placing:
    """Gives rows to targets. ``known``: the target of each slice, NEW last. ``new``: by partition, targets and parts.

    A part is the number of new rows that a target gets, of all those of the partition.
    """

    known: Numbers
    new: Mapping[str, Sequence[tuple[int, int]]]

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return a batch with the column `TARGET`. Clauses: LOG-54, LOG-55."""
        slices = table.column(SLICE).to_numpy()
        targets = self.known[slices]
        fresh = np.flatnonzero(slices == NEW)
        keys = one_array(table.column(KEY))
        for partition, numbers in _by_value(one_array(table.column(PARTITION)), fresh).items():
            names, parts = (np.array(column, np.int64) for column in zip(*self.new[partition], strict=True))
            hashes = HashedKeys(keys.take(pa.array(numbers)).cast(pa.binary())).hash(0)
            ends = np.cumsum(parts) * (HASHES / parts.sum())
            targets[numbers] = names[np.minimum(np.searchsorted(ends, hashes, side="right"), len(names) - 1)]
        return table.append_column(TARGET, pa.array(targets))


@dataclass(frozen=True)
class Writing:
    """Writes the rows of some targets. ``writes``: by target, still without rows."""

    form: FrameForm
    writes: Sequence[GroupWrite]

    def __call__(self, table: pa.Table) -> Iterator[pa.Table]:
        """Write a file for each target, and yield one row about it. Clauses: LOG-57, LOG-73."""
        table = table.sort_by(ORDER)
        targets, slices = table.column(TARGET).to_numpy(), table.column(SLICE).to_numpy()
        given = self.form.incoming(table)
        for target in np.unique(targets).tolist():
            numbers = np.flatnonzero(targets == target)
            rows = given.take(numbers)
            known = int((slices[numbers] != NEW).sum())
            write = replace(self.writes[target], keys=rows.keys, known=known)
            yield from (write if self.form.form.deletes else replace(write, rows=rows.rows))()


def _by_value(texts: pa.Array, numbers: Numbers) -> dict[str, Numbers]:
    """Return those of ``numbers`` at which each text is."""
    encoded = texts.take(pa.array(numbers)).dictionary_encode()
    codes = encoded.indices.to_numpy()
    return {text: numbers[codes == code] for code, text in enumerate(encoded.dictionary.to_pylist())}


class FrameRows:
    """A DataFrame that is written, as a context in which it stays prepared on the executors.

    ``partitions``: those that it has rows of. ``count``: of the rows. ``bytes_per_row``: in memory, about.
    """

    def __init__(self, frame: Any, form: RowForm) -> None:
        self.form = FrameForm(form, tuple(frame.columns))
        self.partitions: list[str] = []
        self.count = self.bytes_per_row = 0
        self._frame, self._kept = frame, list[Any]()

    def __enter__(self) -> FrameRows:
        from pktable_hudi.spark.rows_by_key import numbered, totals, with_added

        self._kept.append(with_added(numbered(self._frame, ORDER), self.form.prepared, ADDED).persist())
        try:
            found = totals(self._kept[0], [PARTITION], BYTES)
        except BaseException:
            self.__exit__()
            raise
        self.partitions = sorted(partition for partition, *_ in found)
        self.count = sum(count for _, count, _ in found)
        self.bytes_per_row = sum(size for *_, size in found) // max(1, self.count)
        return self

    def __exit__(self, *error: object) -> None:
        for frame in self._kept:
            frame.unpersist()

    def tag(self, lookups: Sequence[SliceLookup]) -> tuple[dict[int, int], dict[str, int]]:
        """Tag the rows; return how many each slice has, and how many new ones each partition."""
        from pktable_hudi.spark.rows_by_key import by_key, totals

        for frame in self._kept[1:]:  # of an attempt that failed
            frame.unpersist()
        added = (Field(0, SLICE, DataType("BIGINT")),)
        tagged = by_key(self._kept[0], (PARTITION, KEY), Tagging(self.form, lookups), added).persist()
        self._kept[1:] = [tagged]
        known: dict[int, int] = {}
        new: dict[str, int] = {}
        for slice_, partition, count in totals(tagged, [SLICE, PARTITION]):
            if slice_ == NEW:
                new[str(partition)] = int(count)
            else:
                known[int(slice_)] = int(count)
        return known, new

    def write(self, placing: Placing, writes: Sequence[GroupWrite]) -> pa.Table:
        """Write the tagged rows; return what was written, as `WRITTEN`."""
        from pktable.run.spark.errors import raised_here

        from pktable_hudi.spark.rows_by_key import by_key, with_added

        placed = with_added(self._kept[1], placing, (Field(0, TARGET, DataType("BIGINT")),))
        with raised_here():
            return by_key(placed, (TARGET,), Writing(self.form, writes), None, WRITTEN).toArrow()
