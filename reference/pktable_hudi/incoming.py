"""The rows of a write: brought to the table's columns, with their record keys and partitions, each key once.

Of several rows of a key the one is kept that would win if all were written: the greatest ordering value, of equal ones
the last one.

Clauses: LOG-58, LOG-59, TBL-8, TBL-13, TBL-23.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable.format.bounds import LONGEST_NAME, is_file_name
from pktable.format.metadata.schema import TableSchema
from pktable.format.types import Field, one_array
from pktable.ingest.changes import ChangeKind, conform, conform_keys
from pktable.ingest.columns import expect_distinct_keys
from pktable.ingest.sources import accept_rows, as_arrow, is_spark_frame
from pktable.run.runner import raised_for
from pktable_spec.errors import InvalidRequestError
from pktable_spec.vocabulary import RowKind

from pktable_hudi.merge import ranks_of
from pktable_hudi.settings import HudiSettings
from pktable_hudi.writable import partition_paths, record_keys

SHOWN: Final = 40

UPSERT, DELETE = ChangeKind(), ChangeKind(RowKind.DELETE, keys_only=True)


@dataclass(frozen=True)
class Incoming:
    """``rows``: the user's columns, of a delete the key columns. ``keys``, ``partitions``: of each row, as text."""

    rows: pa.Table
    keys: pa.Array
    partitions: pa.Array

    def take(self, numbers: npt.NDArray[np.int64]) -> Incoming:
        """Return some of the rows."""
        chosen = pa.array(numbers)
        return Incoming(self.rows.take(chosen), self.keys.take(chosen), self.partitions.take(chosen))


@dataclass(frozen=True)
class RowForm:
    """The form that the rows of a write must have. ``fields``: the user's columns. ``deletes``: keys only.

    ``hive_style``: whether partition directories have names. ``named``: whether a key of one column has its name.
    """

    fields: tuple[Field, ...]
    settings: HudiSettings
    hive_style: bool
    named: bool
    deletes: bool

    @property
    def schema(self) -> TableSchema:
        """The columns as those of a table. Raises InvalidRequestError."""
        return _schema(self.fields, self.settings)

    def accepted(self, rows: Any) -> Any:
        """Return rows of any form as a pyarrow.Table, a Spark DataFrame as it is. Raises InvalidRequestError."""
        return accept_rows(rows, self.schema, DELETE if self.deletes else UPSERT)

    def incoming(self, rows: Any) -> Incoming:
        """Return the rows of a write, each key of a partition once. ``rows``: accepted; a DataFrame is collected.

        Raises InvalidRequestError. Clauses: LOG-58, LOG-59.
        """
        with raised_for(rows):
            held = as_arrow(rows) if is_spark_frame(rows) else rows
        return self.winners(self.conformed(held))

    def conformed(self, rows: pa.Table) -> Incoming:
        """Return rows with the table's columns, and the key and the partition of each. Raises InvalidRequestError."""
        table = (conform_keys if self.deletes else conform)(rows, self.schema)
        if not self.deletes:
            expect_distinct_keys(table, self.fields)
        keys = record_keys(table, self.settings.key_fields, named=self.named)
        partitions = partition_paths(table, self.settings.partition_fields, hive_style=self.hive_style)
        _expect_directories(partitions)
        return Incoming(table, keys, partitions)

    def winners(self, given: Incoming) -> Incoming:
        """Return each key of a partition once, with the row that wins. Clauses: LOG-59."""
        numbers = self.winning(given)
        return given.take(numbers) if len(numbers) < len(given.keys) else given

    def winning(self, given: Incoming) -> npt.NDArray[np.int64]:
        """Return the number of the row of each key that wins, ascending. Clauses: LOG-59."""
        name = self.settings.ordering_field
        ordering = None if self.deletes or name is None else given.rows.column(name)
        if not len(given.keys):
            return np.empty(0, np.int64)
        return _winners(given.keys, given.partitions, ordering)


def _schema(fields: Sequence[Field], settings: HudiSettings) -> TableSchema:
    """Return the columns as those of a table whose key columns are the key and the partition of this one."""
    keys = tuple(dict.fromkeys((*settings.key_fields, *settings.partition_fields)))
    required = {*keys, settings.ordering_field}
    unknown = [
        name for name in (*keys, settings.ordering_field) if name and name not in {f.name for f in fields}
    ]
    if unknown or not settings.key_fields:
        raise InvalidRequestError(f"the table has no key column {', '.join(unknown)}; it cannot be written")
    columns = tuple(
        replace(field, type=field.type.not_null()) if field.name in required else field for field in fields
    )
    return TableSchema(0, columns, len(columns), (), keys, {}, "", 0)


def _expect_directories(partitions: pa.Array) -> None:
    """Raise InvalidRequestError if a file system does not take a name in the partitions. Clauses: LOG-58."""
    for path in pc.unique(partitions).to_pylist():
        for name in path.split("/") if path else ():
            if not is_file_name(name):
                shown = f"{name[:SHOWN]}…" if len(name) > SHOWN else name
                raise InvalidRequestError(
                    f"partition {shown!r} cannot be the name of a directory, which has {LONGEST_NAME} bytes at most"
                )


def _winners(keys: pa.Array, partitions: pa.Array, ordering: Any) -> npt.NDArray[np.int64]:
    """Return the number of the row of each key that wins, ascending. Clauses: LOG-59."""
    codes = [one.dictionary_encode().indices.to_numpy().astype(np.int64) for one in (keys, partitions)]
    code = codes[1] * (int(codes[0].max()) + 1) + codes[0]
    ranks = np.zeros(len(code), np.int64) if ordering is None else ranks_of(one_array(ordering))
    order = np.lexsort((np.arange(len(code)), ranks, code))
    last = np.append(code[order][1:] != code[order][:-1], True)
    return np.sort(order[last]).astype(np.int64)


def partition_numbers(found: Incoming) -> dict[str, npt.NDArray[np.int64]]:
    """Return the numbers of the rows of each partition."""
    encoded = found.partitions.dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(encoded.dictionary)))
    parts = np.split(order, ends[:-1]) if len(ends) else []
    return dict(zip(encoded.dictionary.to_pylist(), parts, strict=True))
