"""The default read with deletion vectors, as Spark's own Parquet scan plus a filter by position.

A row of a file with a vector stays if its bit in the words of the vector is not set. How the words reach the row
depends on how many there are:

* A few small vectors are written into the filter as positions.
* A few larger ones are one array, the answer of a scalar subquery, in which each file has its place. No job is needed.
* More words than every task should be sent are joined, by a broadcast.

Files without a vector are scanned apart and without a filter, unless they are so few that a second scan costs more.

A condition of the caller's comes first, and reaches Parquet unless it is on floats: `row_index` counts the rows of the
file, whatever the scan skips. A condition that can fail, such as a quotient, is asked of live rows only, inside the
same filter: Spark may move one of two filters below the other, or below the join.

All this is done for the files of each group of `partition_columns`; mostly there is one group. Without a condition
the result is remembered for reads of the same files with the same vectors.

Clauses: RD-1, RD-6, RD-7, RD-11.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa
from pktable_spec.vocabulary import ROW_ID
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DecimalType,
    FractionalType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from pktable.bucket.read import BucketRead
from pktable.bucket.reader import DataReader
from pktable.context import TableContext
from pktable.datafile.evolution import same_values
from pktable.format.metadata.manifest import DataFileMeta
from pktable.format.type_text import quoted
from pktable.format.types import Field
from pktable.format.vectors.deletion_vector import DeletionVector
from pktable.predicate import Predicate
from pktable.predicate.spark_sql import VARIABLE
from pktable.run.spark.relations import FROM_FILES, RELATIONS, PartitionColumns, by_partition_columns
from pktable.run.spark.session import listed_in_driver
from pktable.run.spark.types import is_scanned, read_schema, spark_schema
from pktable.run.spark.wire import whole_frame
from pktable.statements.plan import PLACE
from pktable.store.object_store import is_object_uri

FEW_VECTORS, FEW_POSITIONS = 8, 256  # that a filter spells out
FILES_BY_SIZE = 16  # are distinguished by comparing a number with each
TASK_WORDS = 1 << 18  # 2 MiB, that every task is sent
MANY_ROWS = 1 << 27  # whose words are 16 MiB: a manifest of someone else may state any number
FEW_ROWS = 2_000_000  # have their positions made for less than a scan of their own costs

OPTIONS: Final = {
    "parquet.page.verify-checksum.enabled": "true",
    # Settings of the session are about other files. Of these files nothing may be skipped.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
SPARKS_OWN: Final = {"_metadata", "_tmp_metadata_row_index"}


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """A data file with a vector: its size in bytes, its rows, the vector."""

    size: int
    rows: int
    vector: DeletionVector

    @property
    def word_count(self) -> int:
        return -(-self.rows // 64)


WORDS, FILE, POSITION = "__pktable_words", "__pktable_words_file", "__pktable_words_position"
PLACE_FIELDS: Final = (StructField(PLACE[0], StringType()), StructField(PLACE[1], LongType()))
ROW_ID_FIELD: Final = StructField(ROW_ID, LongType())

# As text, because each part of an expression that is made by a call costs a millisecond or more.
WORD = "cast(shiftright({}, 6) AS INT)"
BIT = "cast({} & 63 AS INT)"


def native_test(context: TableContext, columns: Sequence[str]) -> Callable[[BucketRead], bool]:
    """Return a function that tells whether Spark's scan reads ``columns`` of a part as they are.

    It does where there is nothing to merge and all files are Parquet. They have the columns under today's names and
    types, no type finer than microseconds, and no name of a column of Spark's own.
    Files on object stores are read by the kernel: Spark would need a Hadoop client of the store, and its credentials.
    Clauses: RD-12, META-15, META-39.
    """

    @cache  # many files were written under few schemas
    def unchanged(schema_id: int) -> bool:
        return _unchanged(context, schema_id, columns)

    def is_native(part: BucketRead) -> bool:
        return (
            not part.merges
            and not context.options.data_evolution
            and all(
                file.file_name.endswith(".parquet")
                and unchanged(file.schema_id)
                and not is_object_uri(context.data_path(part.state.place, file))
                for file in part.state.files
            )
        )

    return is_native


def _unchanged(context: TableContext, schema_id: int, columns: Sequence[str]) -> bool:
    before = context.schema_of(schema_id).by_id
    fields = [context.schema.field(name) for name in columns]
    if not fits_spark(fields) or any(field.name.casefold() in SPARKS_OWN for field in before.values()):
        return False
    return all(
        field.id in before
        and before[field.id].name == field.name
        and same_values(before[field.id].type, field.type)
        for field in fields
    )


def native_scan(
    session: SparkSession,
    context: TableContext,
    parts: Sequence[BucketRead],
    columns: Sequence[str],
    predicate: Predicate | None,
    *,
    located: bool = False,
    row_ids: bool = False,
) -> DataFrame:
    """Return the live rows of ``parts``, none of which merges, that satisfy ``predicate``, in ``columns``.

    ``located``: with where they lie, in the columns `PLACE`. ``row_ids``: with the ids that files store, `ROW_ID`.
    Starts no job.
    """
    live = [part for part in parts if _has_live_rows(context, part)]
    if not live:
        schema = read_schema([context.schema.field(name) for name in columns])
        place = [*(PLACE_FIELDS if located else ()), *([ROW_ID_FIELD] if row_ids else [])]
        return session.createDataFrame([], StructType([*schema, *place]))
    # A condition on partition columns alone is asked of every partition. One that can fail must be asked of rows.
    asks_rows = (
        predicate is not None
        and not predicate.never_fails
        and not set(context.schema.partition_keys).isdisjoint(predicate.columns())
    )
    groups = {FROM_FILES: live} if asks_rows else by_partition_columns(context, live, columns)
    with listed_in_driver(session, sum(len(part.state.files) for part in live)):
        frames = [
            _live_rows(session, context, same, columns, how, predicate, located=located, row_ids=row_ids)
            for how, same in groups.items()
        ]
        rows = reduce(DataFrame.unionAll, frames)
        if not hasattr(session, "sparkContext"):
            rows.schema  # noqa: B018 - lets Spark Connect look for the files now
    return rows


def _has_live_rows(context: TableContext, part: BucketRead) -> bool:
    vectors = context.vectors(part.state)
    return any(
        vector is None or vector.cardinality < file.row_count
        for file in part.state.files
        for vector in [vectors.get(file.file_name)]
    )


def _live_rows(
    session: SparkSession,
    context: TableContext,
    parts: Sequence[BucketRead],
    columns: Sequence[str],
    how: PartitionColumns,
    predicate: Predicate | None,
    *,
    located: bool,
    row_ids: bool,
) -> DataFrame:
    """Return the rows of `native_scan` from ``parts``, whose partition columns all come from ``how``."""
    plain: dict[str, DataFileMeta] = {}
    marked: dict[str, DeletedRows] = {}
    for part in parts:
        vectors = context.vectors(part.state)
        for file in part.state.files:
            path = context.data_path(part.state.place, file)
            context.expect_readable(path)  # Spark would follow any link
            vector = vectors.get(file.file_name)
            if vector is None or not vector.cardinality:
                plain[path] = file
            else:
                if vector.max_position >= MANY_ROWS:
                    DataReader(context, part.state.place, file)  # expects the file to have so many rows
                marked[path] = DeletedRows(file.file_size, file.row_count, vector)
    schema = spark_schema([context.schema.field(name) for name in columns])
    schema = schema.add(ROW_ID_FIELD) if row_ids else schema  # null in files without it

    asked = predicate.text if predicate else None
    first, then = (asked, None) if not predicate or predicate.never_fails else (None, asked)

    def scan(paths: Sequence[str], condition: str | None = first) -> DataFrame:
        rows = scan_files(session, paths, schema, how)
        if located:
            file, position = PLACE
            rows = rows.selectExpr(
                "*", f"_metadata.file_name AS {file}", f"_metadata.row_index AS {position}"
            )
        return rows.where(condition) if condition else rows

    if not marked:
        return scan(list(plain), asked)
    word_count = sum(one.word_count for one in marked.values())

    def filtered() -> DataFrame:
        names = [*schema.names, *(PLACE if located else ())]
        return _filtered(session, scan, plain, marked, names, asked, then)

    # The meaning of a condition may depend on settings of the session, which change.
    if asked or word_count > TASK_WORDS:
        return filtered()
    what = (schema, how, located, tuple(marked), _digest(marked.values()))
    paths = (*plain, *marked)
    return RELATIONS.made(session, paths, what, filtered, held_bytes=8 * word_count)


def _digest(marked: Iterable[DeletedRows]) -> bytes:
    """Return a digest of which rows of files are deleted."""
    found = blake2b()
    for one in marked:
        words = one.vector.words()
        found.update(f"{one.size} {one.rows} {len(words)} ".encode())
        found.update(words.tobytes())
    return found.digest()


def _filtered(
    session: SparkSession,
    scan: Callable[..., DataFrame],
    plain: Mapping[str, DataFileMeta],
    marked: Mapping[str, DeletedRows],
    names: Sequence[str],
    asked: str | None,
    then: str | None,
) -> DataFrame:
    """Return the live rows of files, some of which have vectors, that satisfy a condition.

    ``asked``: the condition. ``then``: the same if it can fail. ``names``: of the columns of ``scan``.
    """
    every = (*plain, *marked)
    if (
        len(marked) <= FEW_VECTORS
        and sum(one.vector.max_position for one in marked.values()) <= FEW_POSITIONS
    ):
        return filtered_by_positions(scan(every), marked, then)
    sizes = [file.file_size for file in plain.values()] + [one.size for one in marked.values()]
    if (
        len(marked) > FILES_BY_SIZE
        or len(set(sizes)) < len(sizes)
        or sum(one.word_count for one in marked.values()) > TASK_WORDS
    ):
        live = filtered_by_join(session, scan(list(marked)), marked, names, then)
    elif sum(file.row_count for file in plain.values()) <= FEW_ROWS:
        return filtered_by_lookup(session, scan(every), marked, then)
    else:
        live = filtered_by_lookup(session, scan(list(marked)), marked, then)
    return scan(list(plain), asked).unionAll(live) if plain else live


def _live(rows: DataFrame, is_live: Column, then: str | None) -> DataFrame:
    """Keep the live rows that satisfy ``then``, which is never evaluated on deleted rows."""
    return rows.where(F.when(is_live, F.expr(then)) if then else is_live)


def fits_spark(fields: Iterable[Field]) -> bool:
    """Return whether Spark's scan gives columns as they are: no time it cannot read, no name it takes otherwise."""
    return not any(
        not is_scanned(one.type) or VARIABLE in one.name or one.name.casefold() in SPARKS_OWN
        for one in fields
    )


def scan_files(
    session: SparkSession, paths: Sequence[str], schema: StructType, how: PartitionColumns = FROM_FILES
) -> DataFrame:
    """Return the rows of Parquet files, in the columns of ``schema``; one that a file lacks is null. Starts no job."""
    named, given = {field.name for field in how.named}, dict(how.given)
    stored = [field for field in schema if field.name not in named and field.name not in given]
    # Under the first option names of directories say nothing.
    option = {"recursiveFileLookup": "true"} if how.base is None else {"basePath": how.base}
    rows = RELATIONS.get(session, paths, StructType([*stored, *how.named]), {**OPTIONS, **option})
    if how == FROM_FILES and not any(map(_has_floats, schema)):
        return rows
    return rows.selectExpr(
        *(
            f"{given[field.name]} AS {quoted(field.name)}" if field.name in given else _out_of_reach(field)
            for field in schema
        )
    )


def _has_floats(part: StructField | DataType) -> bool:
    kind = part.dataType if isinstance(part, StructField) else part
    if isinstance(kind, StructType):
        return any(map(_has_floats, kind))
    return isinstance(kind, FractionalType) and not isinstance(kind, DecimalType)


def _out_of_reach(field: StructField) -> str:
    """Return a column as it is, but so that Spark pushes no condition on a float in it down to Parquet.

    Parquet's own statistics and dictionaries know neither that NaN is the greatest nor that the zeros are equal.
    """
    name = quoted(field.name)
    if not _has_floats(field):
        return name
    return f"coalesce({name}, {name}) AS {name}"


def filtered_by_positions(scan: DataFrame, marked: Mapping[str, DeletedRows], then: str | None) -> DataFrame:
    """Return the rows of ``scan`` that no vector deletes, the positions spelled out in the filter. Clauses: DV-1."""
    dead = [
        (F.col("_metadata.file_name") == path.rpartition("/")[2])
        & F.expr(f"_metadata.row_index IN ({', '.join(map(str, one.vector.positions().tolist()))})")
        for path, one in marked.items()
    ]
    return _live(scan, ~reduce(Column.__or__, dead), then)


def filtered_by_lookup(
    session: SparkSession, scan: DataFrame, marked: Mapping[str, DeletedRows], then: str | None
) -> DataFrame:
    """Return the rows of ``scan`` that no vector deletes. No two files have the same size. Clauses: DV-1, RD-7."""
    sizes = [one.size for one in marked.values()]
    starts = np.cumsum([0, *(one.word_count for one in marked.values())]).tolist()
    words = np.zeros(starts[-1], np.int64)
    for one, start in zip(marked.values(), starts, strict=False):
        found = one.vector.words()
        words[start : start + len(found)] = found
    array = whole_frame(session, pa.table({WORDS: pa.array([words], pa.list_(pa.int64()))})).scalar()
    # A file without a vector has no start, and so no bit.
    start = " ".join(f"WHEN {size} THEN {at}" for size, at in zip(sizes, starts, strict=False))
    place = F.expr(f"CASE _metadata.file_size {start} END + {WORD.format('_metadata.row_index')}")
    bit = F.getbit(F.get(array, place), F.expr(BIT.format("_metadata.row_index")))
    return _live(scan, F.coalesce(bit, F.expr("0Y")) == F.expr("0Y"), then)


def filtered_by_join(
    session: SparkSession,
    scan: DataFrame,
    marked: Mapping[str, DeletedRows],
    columns: Sequence[str],
    then: str | None,
) -> DataFrame:
    """Return ``columns`` of the rows of ``scan`` that no vector deletes. Clauses: DV-1, RD-7."""
    sizes = [one.size for one in marked.values()]
    # Both tell the file; a number is cheaper to join on than a name, as long as it tells.
    by_size = len(set(sizes)) == len(sizes)
    names = [path.rpartition("/")[2] for path in marked]
    words = whole_frame(
        session,
        pa.table(
            {
                FILE: pa.array(sizes, pa.int64()) if by_size else pa.array(names),
                WORDS: pa.array([one.vector.words() for one in marked.values()], pa.list_(pa.int64())),
            }
        ),
    )
    key = "_metadata.file_size" if by_size else "_metadata.file_name"
    rows = scan.selectExpr("*", f"{key} AS {FILE}", f"_metadata.row_index AS {POSITION}")
    joined = rows.join(F.broadcast(words), FILE, "left")
    bit = f"getbit(get({WORDS}, {WORD.format(POSITION)}), {BIT.format(POSITION)})"
    return _live(joined, F.expr(f"coalesce({bit}, 0Y) = 0Y"), then).select(*map(quoted, columns))
