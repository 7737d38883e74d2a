"""The interface of a kind of table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.options import TableOptions

from pktable.bucket.write import BucketAppend
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import TableSchema
from pktable.lsm.bucket import BucketPath, BucketState
from pktable.lsm.universal import Pick
from pktable.store.new_files import NewFiles


class TableKind(Protocol):
    """A kind of table. It holds no state: one object serves all tables of its kind, on every executor."""

    @property
    def name(self) -> str:
        """How messages call the kind."""
        ...

    def claims(self, schema: TableSchema) -> bool:
        """Return whether a table with ``schema`` is of this kind."""
        ...

    def require_writable(self, schema: TableSchema, options: TableOptions) -> None:
        """Raise InvalidRequestError unless a writer can honour every option of the table. Clauses: TBL-9, TBL-20."""
        ...

    def files_to_read(
        self, context: TableContext, live: Sequence[DataFileMeta], *, fresh: bool
    ) -> tuple[Sequence[DataFileMeta], bool]:
        """Return which of a bucket's live files a read takes, and whether it must merge them.

        ``fresh``: a fresh read, which sees level 0; otherwise a default read. Reads no data.
        """
        ...

    def choose_compaction(self, context: TableContext, state: BucketState, *, full: bool) -> Sequence[Pick]:
        """Return what to compact in a bucket, each part by itself. Reads no data."""
        ...

    @property
    def has_keys(self) -> bool:
        """Whether rows have keys: files are sorted runs in levels, and a write compacts the buckets it touches."""
        ...

    @property
    def reserved_columns(self) -> tuple[str, ...]:
        """The names that no column may have, since data files have columns of these names."""
        ...

    def write(
        self,
        context: TableContext,
        place: BucketPath,
        rows: pa.Table,
        kinds: npt.NDArray[np.int8],
        first_sequence: int,
        new: NewFiles,
        *,
        now_millis: int,
    ) -> BucketAppend:
        """Write ``rows`` (n rows of the table's columns, ``kinds`` their n row kinds) as new level-0 files.

        Row i has sequence number ``first_sequence + i``. Nothing becomes visible.
        """
        ...

    def renumber(
        self,
        context: TableContext,
        append: BucketAppend,
        first_sequence: int,
        new: NewFiles,
        *,
        now_millis: int,
    ) -> BucketAppend:
        """Return ``append`` with sequence numbers from ``first_sequence`` on; files that must be written again are.

        Clauses: CMT-24, APP-6.
        """
        ...
