"""Read one file slice: its base file in batches, with the log merged in, then the rows that only the log has.

Record positions are used only if all of them are right: then a key is looked for at one position instead of among all
keys of the base file. If one is wrong, all keys are looked for, and a check reports the block.

Clauses: LOG-25, LOG-30, LOG-32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pktable.format.types import Field, one_array, to_arrow
from pktable.predicate import Predicate
from pktable.store.file_io import FileIO
from pktable_spec.errors import CorruptFileError

from pktable_hudi.log_rows import KEY, SIGNS, Wanted, block_rows
from pktable_hudi.log_scan import PlacedBlock, counting_blocks
from pktable_hudi.merge import ABSENT, Folded, Merger, fold, verified_positions
from pktable_hudi.settings import HudiSettings
from pktable_hudi.slices import FileSlice
from pktable_hudi.stored import parquet_tables
from pktable_hudi.timeline import Timeline


@dataclass(frozen=True)
class SliceReader:
    """Reads file slices as of an instant. It pickles, so that slices can be read on executors.

    ``fields``: the columns of the table, ``columns``: those to return. ``predicate``: of the rows to return.
    """

    store: FileIO
    root: str
    settings: HudiSettings
    timeline: Timeline
    instant: str
    fields: tuple[Field, ...]
    columns: tuple[str, ...]
    predicate: Predicate | None

    def read(self, slice_: FileSlice) -> Iterator[pa.Table]:
        """Yield the rows of a slice, with the wanted columns. Raises CorruptFileError, InvalidRequestError."""
        for table in self._rows(slice_):
            found = self.predicate.filter(table) if self.predicate is not None else table
            if found.num_rows:
                yield found.select(list(self.columns))

    def blocks(self, slice_: FileSlice) -> list[PlacedBlock]:
        """Return the blocks of a slice that count, oldest first. Raises CorruptFileError. Clauses: LOG-25."""
        paths = [slice_.path(self.root, log.name) for log in slice_.logs]
        files = ((path, self._read(path)) for path in paths)
        return counting_blocks(files, self.timeline, self.instant)

    def _rows(self, slice_: FileSlice) -> Iterator[pa.Table]:
        needed = self.needed()
        names = [field.name for field in needed]
        blocks = self.blocks(slice_)
        if not blocks:
            if slice_.base is not None:
                yield from (table for _, table in self._base(slice_, needed))
            return
        ordering = self._ordering()
        wanted = Wanted(needed, ordering)
        folded = fold(
            [block_rows(one, wanted) for one in blocks],
            pa.schema([(field.name, to_arrow(field.type)) for field in needed]),
            slice_.base.instant if slice_.base is not None else "",
        )
        merger = Merger(folded, KEY, ordering.name if ordering else None)
        if slice_.base is not None:
            verified = self._verified(slice_, folded)
            key = SIGNS[0] if verified is None or not verified.all() else None
            extra = [field for field in (key, ordering) if field is not None and field.name not in names]
            for position, batch in self._base(slice_, [*needed, *extra]):
                yield merger.merged(batch, names, verified=verified, position=position)
        yield merger.rest()

    def _verified(self, slice_: FileSlice, folded: Folded) -> Any:
        if not bool(np.any(folded.positions != ABSENT)):
            return None
        keys = ((at, one_array(table.column(KEY))) for at, table in self._base(slice_, SIGNS[:1]))
        return verified_positions(folded, keys)

    def _base(self, slice_: FileSlice, fields: Sequence[Field]) -> Iterator[tuple[int, pa.Table]]:
        assert slice_.base is not None
        path = slice_.path(self.root, slice_.base.name)
        try:
            source = self.store.open(path)
        except FileNotFoundError:
            raise CorruptFileError("base file", at=path, expected="a file", found="none") from None
        with source:
            yield from parquet_tables(source, path, fields)

    def _read(self, path: str) -> bytes:
        try:
            return self.store.read(path)
        except FileNotFoundError:
            raise CorruptFileError("log file", at=path, expected="a file", found="none") from None

    def needed(self) -> tuple[Field, ...]:
        """Return the columns to return, and those of the condition."""
        tested = self.predicate.columns() if self.predicate is not None else ()
        names = dict.fromkeys((*self.columns, *tested))
        by_name = {field.name: field for field in self.fields}
        return tuple(by_name[name] for name in names)

    def _ordering(self) -> Field | None:
        name = self.settings.ordering_field
        if name is None:
            return None
        found = next((field for field in self.fields if field.name == name), None)
        if found is None:
            raise CorruptFileError(
                "schema", at=self.root, expected=f"the ordering field {name}", found="none"
            )
        return found
