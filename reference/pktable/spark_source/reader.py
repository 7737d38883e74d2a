"""The batch reader: all partitions are planned at once, on one snapshot or one range of snapshots.

Clauses: RD-10, RD-12, RD-27, CHG-11.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pktable.catalog.as_of import AsOf
from pktable.catalog.change_plan import change_range, snapshots_between
from pktable.scan import Split
from pktable.spark_source.options import INCREMENTAL, Options
from pktable.spark_source.pieces import change_partitions, columns_of, row_partitions, spark_batches
from pktable.table import Table


class BatchReader(DataSourceReader):
    """Reads one snapshot, or with ``incremental-between`` the changes of a range. Has no ``pushFilters``.

    Spark fails every read of a reader that has it while ``spark.sql.python.filterPushdown.enabled`` is off.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options, self._schema = options, schema

    def partitions(self) -> list[InputPartition]:
        """Plan the read. Raises InvalidRequestError, SnapshotNotFoundError, CorruptFileError. Clauses: RD-27."""
        options, table = self._options, self._options.open_table()
        where = options.text("filter")
        if options.mode == INCREMENTAL:
            snapshots = table.catalog.snapshots
            wanted = change_range(snapshots, *options.between)
            found = snapshots_between(table.catalog.context, snapshots, wanted)
            return change_partitions(table.catalog, found, self._schema, where, wanted)
        return row_partitions(self._splits(table, where))

    def _splits(self, table: Table, where: str | None) -> list[Split]:
        as_of = self._options.as_of
        changes = self._options.flag("read.changelog", False)
        columns = table.catalog.read_as_of(
            AsOf.given(**as_of), lambda state, context: columns_of(self._schema, context, changes=changes)
        )
        fresh = self._options.flag("fresh", False)
        return table.scan(**as_of, columns=columns, where=where, fresh=fresh).splits()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition. Raises SnapshotNotFoundError if its snapshot has expired since."""
        return spark_batches(partition.value, self._schema)
