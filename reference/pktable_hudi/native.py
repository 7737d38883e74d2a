"""The file slices that Spark's own Parquet scan reads: those of which nothing is to be merged.

Spark converts no columns, so the commit that wrote a base file must have had the columns of the read with the same
types. Files on object stores are read by the executors' Python: Spark would need a Hadoop client of the store.

Clauses: LOG-36.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pktable.datafile.evolution import same_values
from pktable.store.guard import GuardedStore
from pktable.store.object_store import is_object_uri

from pktable_hudi.format.avro_schema import fields_of
from pktable_hudi.slice_read import SliceReader
from pktable_hudi.slices import FileSlice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def native_slices(reader: SliceReader, slices: Sequence[FileSlice], own: Collection[str]) -> list[FileSlice]:
    """Return those of ``slices`` that Spark reads as they are. ``own``: Hudi's own columns, which all files have.

    Raises CorruptFileError.
    """
    from pktable.run.spark.native_scan import fits_spark

    needed = reader.needed()
    if not isinstance(reader.store, GuardedStore) or is_object_uri(reader.root) or not fits_spark(needed):
        return []
    users = [one for one in needed if one.name not in own]
    commits = {one.time: one for one in reader.timeline.completed}

    @cache  # a commit writes many files
    def unchanged(instant: str) -> bool:
        commit = commits.get(instant)
        schema = "" if commit is None else reader.timeline.metadata(commit).schema
        if not schema:
            return False
        before = {field.name: field.type for field in fields_of(schema, at=instant)}
        return all(one.name in before and same_values(before[one.name], one.type) for one in users)

    return [one for one in slices if not one.logs and one.base is not None and unchanged(one.base.instant)]


def native_frame(session: SparkSession, reader: SliceReader, slices: Sequence[FileSlice]) -> Any:
    """Return the rows of `native_slices` as a lazy DataFrame. Raises as the store for files that may not be read."""
    from pktable_hudi.spark.base_files import frame_of_base_files

    assert isinstance(reader.store, GuardedStore), "`native_slices` has chosen them"
    paths = [one.path(reader.root, one.base.name) for one in slices if one.base is not None]
    for path in paths:
        reader.store.expect_readable(path)  # Spark would follow any link
    return frame_of_base_files(session, paths, reader.needed(), reader.columns, reader.predicate)
