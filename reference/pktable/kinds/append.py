"""Append tables: without a primary key. A row is deleted by its position, and files are in no order.

All files are at level 0, and every read takes them all. With deletion vectors a deleted row is a position in a vector,
without them its file is written again.

Clauses: APP-1, APP-2, APP-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import TableOptions

from pktable.bucket.write import BucketAppend
from pktable.context import TableContext
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.metadata.schema import TableSchema
from pktable.lsm.bucket import BucketPath, BucketState
from pktable.lsm.universal import Pick
from pktable.store.new_files import NewFiles


class AppendTables:
    """The `TableKind` of tables without a primary key."""

    name: Final = "append table"

    def claims(self, schema: TableSchema) -> bool:
        return not schema.primary_keys

    def require_writable(self, schema: TableSchema, options: TableOptions) -> None:
        raise InvalidRequestError("append tables can only be read")

    def files_to_read(
        self, context: TableContext, live: Sequence[DataFileMeta], *, fresh: bool
    ) -> tuple[Sequence[DataFileMeta], bool]:
        """Return all files; a fresh read is a default read. Clauses: APP-4."""
        return live, False

    def choose_compaction(self, context: TableContext, state: BucketState, *, full: bool) -> Pick | None:
        raise AssertionError("append tables are only read")

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
        raise AssertionError("append tables are only read")
