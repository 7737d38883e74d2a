"""The stream writer: each micro-batch is committed once, however often Spark plays it again.

Spark plays a batch again if it does not know that it was committed, with the same number and the same rows. The commit
is identified by that number and by the id of the query, which Spark keeps in the checkpoint, so both outlive a restart.
A place of a checkpoint would not do: whoever deletes a checkpoint to begin again numbers the batches from 0 again, and
they would be taken for those before. A module of its own, because Spark 4.0 has no such writer.

Clauses: CMT-53, CMT-55, CMT-56.
"""

from __future__ import annotations

from collections.abc import Sequence

from pktable_spec.errors import InvalidRequestError
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from pktable.catalog.changes import CommitId
from pktable.spark_source.writer import Message, RowWriter


class StreamWriter(RowWriter, DataSourceStreamArrowWriter):
    """Writes the batches of a stream: append mode adds to the table or upserts, complete mode overwrites it."""

    def commit(self, messages: Sequence[Message], batchId: int) -> None:  # noqa: N803
        """Commit a batch, unless it is there. Raises InvalidRequestError. Clauses: CMT-53, CMT-55."""
        user = self._options.text("commit-user")
        query = next((message.query for message in messages if message.query), None)
        if user is None and query is None:
            self._remove(messages)
            raise InvalidRequestError(
                "writeStream: Spark does not tell the id of the query, so a batch would be written again after a "
                'failure; give the stream a name: option("commit-user", …)'
            )
        self._commit(messages, CommitId.given(CommitId(user or f"spark-{query}", batchId)))

    def abort(self, messages: Sequence[Message | None], batchId: int) -> None:  # noqa: N803
        """Remove what the tasks of a batch have staged. Clauses: CMT-12, CMT-68."""
        self._remove(messages)
