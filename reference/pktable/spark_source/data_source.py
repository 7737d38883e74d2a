"""The face of the data source: Spark asks it for a schema, and for the readers and writers of one query.

    spark.read.format("pktable").option("scan.snapshot-id", 3).load(path)
    frame.write.format("pktable").mode("append").save(path)
    spark.readStream.format("pktable").option("read.changelog", "true").load(path)
    stream.writeStream.format("pktable").option("checkpointLocation", place).start(path)

Spark's interface for Python pushes no columns down, and filters only where a setting allows it. So a schema that the
user gives names the columns to read, and the option ``filter`` the rows. `Table.open` with a session reads by Spark's
own scan.

Clauses: RD-14, RD-27, CHG-26, CHG-27, CMT-55, CMT-56.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pktable_spec.errors import InvalidRequestError
from pyspark import __version__ as pyspark_version
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StringType, StructField, StructType

from pktable.spark_source.options import INCREMENTAL, READ, READ_STREAM, WRITE, WRITE_STREAM, Options

if TYPE_CHECKING:
    from pktable.format.metadata.schema import TableSchema
    from pktable.spark_source.pieces import BatchReader
    from pktable.spark_source.stream_reader import StreamReader
    from pktable.spark_source.writer import BatchWriter


class PkTableSource(DataSource):
    """The tables of pktable, for Spark's ``format("pktable")``. Supports pyspark 4.0 and later, streams partly."""

    _read: TableSchema | None = None
    """The schema whose columns a DataFrame was given. Spark keeps this object with it."""

    @classmethod
    def name(cls) -> str:
        return "pktable"

    def schema(self) -> StructType:
        """Return the columns of the snapshot to read, and ``_row_kind`` before them for changes.

        Raises InvalidRequestError for an option that no read has, NotATableError. Clauses: RD-14.
        """
        # Late: Spark imports this module in every session, to look for data sources.
        from pktable.bucket.changelog import ROW_KIND
        from pktable.run.spark.types import read_schema

        options = Options.given(self.options, READ, READ_STREAM)
        context = options.context(options.open_table().catalog)
        # As it is stored: a former schema is read with the options of today.
        self._read = context.schema_of(context.schema.id)
        columns = read_schema(self._read.fields)
        if options.mode == INCREMENTAL or options.flag("read.changelog", False):
            return StructType([StructField(ROW_KIND, StringType()), *columns.fields])
        return columns

    def reader(self, schema: StructType) -> BatchReader:
        """Return the reader of one query. Raises InvalidRequestError."""
        from pktable.spark_source.pieces import BatchReader

        return BatchReader(Options.given(self.options, READ), schema, self._read)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """Return the reader of a stream. Raises InvalidRequestError."""
        from pktable.spark_source.stream_reader import StreamReader

        return StreamReader(Options.given(self.options, READ_STREAM), schema, self._read)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of ``schema``, the columns of the DataFrame. Raises InvalidRequestError."""
        from pktable.spark_source.writer import BatchWriter

        return BatchWriter(Options.given(self.options, WRITE), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        """Return the writer of a stream; ``overwrite``: in complete mode. Raises InvalidRequestError."""
        if not hasattr(datasource, "DataSourceStreamArrowWriter"):
            raise InvalidRequestError(
                f"writeStream: expected pyspark 4.1 or later, found {pyspark_version}; use foreachBatch with "
                "Table.upsert(rows, commit_id=CommitId(name, batch_id))"
            )
        from pktable.spark_source.stream_writer import StreamWriter

        return StreamWriter(Options.given(self.options, WRITE_STREAM), schema, overwrite)
