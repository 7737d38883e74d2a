"""Run pieces of work, one per file group: in this process one after the other, or on Spark's executors.

A piece yields tables. It pickles, and may run twice on Spark, with the same result.

Clauses: LOG-64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pktable.format.arrow_values import declared
from pktable.format.types import Field, to_arrow
from pktable.ingest.sources import as_arrow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Piece = Callable[[], Iterator[pa.Table]]


@dataclass(frozen=True)
class Pieces:
    """Runs pieces where ``session`` says, None for this process."""

    session: SparkSession | None = None

    def rows(self, pieces: Sequence[Piece], fields: Sequence[Field]) -> pa.Table:
        """Return the rows that all pieces yield, which have the columns ``fields``. Raises what they raise."""
        schema = pa.schema([(field.name, to_arrow(field.type)) for field in fields])
        if self.session is None or len(pieces) < 2:
            tables = [declared(table, schema) for piece in pieces for table in piece()]
            return pa.concat_tables([schema.empty_table(), *tables])
        from pktable.run.spark.errors import raised_here
        from pktable.run.spark.types import spark_schema
        from pktable.run.spark.wire import frame_of_pieces

        with raised_here():
            frame = frame_of_pieces(self.session, pieces, called, spark_schema(fields), spread=True)
            return declared(as_arrow(frame), schema)


def called(piece: Piece) -> Iterator[pa.Table]:
    """Return what ``piece`` yields."""
    return piece()
