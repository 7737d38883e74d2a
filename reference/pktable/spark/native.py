"""The DV read as Spark's own Parquet scan plus a filter by position.

Files without a vector are scanned and nothing else. The others are joined, by a broadcast, with their
vectors as arrays of 64-bit words, and a row stays if its bit is not set. A few small vectors are written
into the filter itself instead: a broadcast is a job of its own, which costs more than a small read.
Filters of the caller still reach Parquet: `row_index` counts the rows of the file, whatever the scan skips.

Clauses: RD-1, RD-6, RD-7, RD-11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from pktable.bucket.read import BucketRead
from pktable.bucket.table_files import TableFiles
from pktable.format.deletion_vector import DeletionVector
from pktable.format.evolution import same_values
from pktable.spark.types import is_finer, quoted, spark_schema

FEW_VECTORS, FEW_POSITIONS = 8, 256
Marked = tuple[int, DeletionVector]
"""The size of a data file in bytes, and its vector."""

GLOB = re.compile(r"[\[\]{}*?\\]")
"""What a path must not say to Spark, which takes paths as patterns."""

WORDS, FILE, POSITION = "__pktable_words", "__pktable_file", "__pktable_position"


def is_native(files: TableFiles, part: BucketRead, columns: Sequence[str]) -> bool:
    """Whether Spark's scan reads ``columns`` of ``part`` as they are.

    So it is where there is nothing to merge, and all files are Parquet that has these columns under today's
    names and types, none of them finer than microseconds. Clauses: RD-12, META-15.
    """
    return not part.merges and all(
        file.file_name.endswith(".parquet") and _unchanged(files, file.schema_id, columns)
        for file in part.state.files
    )


def _unchanged(files: TableFiles, schema_id: int, columns: Sequence[str]) -> bool:
    before = files.schema_of(schema_id).by_id
    fields = [files.schema.field(name) for name in columns]
    return not any(is_finer(field.type) for field in fields) and all(
        field.id in before
        and before[field.id].name == field.name
        and same_values(before[field.id].type, field.type)
        for field in fields
    )


def native_scan(
    session: SparkSession, files: TableFiles, parts: Sequence[BucketRead], columns: Sequence[str]
) -> DataFrame:
    """Return the live rows of ``parts``, none of which merges, in ``columns``. Starts no job."""
    plain: list[str] = []
    marked: dict[str, Marked] = {}
    for part in parts:
        vectors = files.vectors(part.state)
        for file in part.state.files:
            path = files.data_path(part.state.place, file)
            vector = vectors.get(file.file_name)
            if vector is None or not vector.cardinality:
                plain.append(path)
            else:
                marked[path] = (file.file_size, vector)
    schema = spark_schema([files.schema.field(name) for name in columns])
    if (
        marked
        and len(marked) <= FEW_VECTORS
        and sum(v.max_position for _, v in marked.values()) <= FEW_POSITIONS
    ):
        return _small_filter(_scan(session, [*plain, *marked], schema), marked)
    scans = []
    if plain:
        scans.append(_scan(session, plain, schema))
    if marked:
        scans.append(_without_marked(session, _scan(session, list(marked), schema), marked, schema))
    return reduce(DataFrame.unionAll, scans)


def _scan(session: SparkSession, paths: Sequence[str], schema: StructType) -> DataFrame:
    # Without recursiveFileLookup Spark would take partition values from directory names; the files have them.
    return (
        session.read.schema(schema)
        .option("recursiveFileLookup", "true")
        .option("parquet.page.verify-checksum.enabled", "true")
        .parquet(*(GLOB.sub(r"\\\g<0>", path) for path in paths))
    )


def _small_filter(scan: DataFrame, marked: Mapping[str, Marked]) -> DataFrame:
    """Return the rows of ``scan`` that no vector marks, the positions spelled out in the filter. Clauses: DV-1."""
    position = F.col("_metadata.row_index")
    dead = [
        (F.col("_metadata.file_name") == path.rpartition("/")[2]) & position.isin(vector.positions().tolist())
        for path, (_, vector) in marked.items()
    ]
    return scan.where(~reduce(Column.__or__, dead))


def _without_marked(
    session: SparkSession, scan: DataFrame, marked: Mapping[str, Marked], schema: StructType
) -> DataFrame:
    """Return the rows of ``scan`` that no vector marks. Clauses: DV-1, RD-7."""
    sizes = [size for size, _ in marked.values()]
    # Both tell the file; a number is cheaper to join on than a name, as long as it tells.
    by_size = len(set(sizes)) == len(sizes)
    names = [path.rpartition("/")[2] for path in marked]
    words = session.createDataFrame(
        pa.table(
            {
                FILE: pa.array(sizes, pa.int64()) if by_size else pa.array(names),
                WORDS: pa.array([vector.words() for _, vector in marked.values()], pa.list_(pa.int64())),
            }
        )
    )
    key = F.col("_metadata.file_size" if by_size else "_metadata.file_name")
    rows = scan.select("*", key.alias(FILE), F.col("_metadata.row_index").alias(POSITION))
    joined = rows.join(F.broadcast(words), FILE, "left")
    return joined.where(_unmarked()).select(*map(quoted, schema.names))


def _unmarked() -> Column:
    word = F.get(F.col(WORDS), F.shiftright(POSITION, 6).cast("int"))
    bit = F.getbit(word, F.col(POSITION).bitwiseAND(F.lit(63)).cast("int"))
    return F.coalesce(bit, F.lit(0).cast("tinyint")) == F.lit(0).cast("tinyint")
