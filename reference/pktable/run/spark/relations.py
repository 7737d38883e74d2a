"""Spark's relations of Parquet files, which are remembered, and where their partition columns come from.

Making a relation, Spark looks at every file. For one that is asked for again this would find nothing new: no data file
is ever written again. A relation is remembered with the size and the time of change of its files, and made again if one
of them is another file now, or gone. It is remembered with its filter by deletion vectors, which takes Spark longer to
make than the relation. Spark Connect looks for files when it analyses a plan, so nothing is remembered for it.

Spark knows the columns of a relation by numbers. Two reads that have one relation have the same numbers, and a join of
them would compare a column with itself. `renewed` gives columns numbers of their own: every DataFrame that is made of a
relation must have it applied once before it is returned to a user.

Every data file has its partition columns, but Spark must open a file to see them. Values that Spark knows before it
opens a file are compared when it plans a query, and the files of other partitions are never read.

1. Mostly they come from the directories, by Spark's own partition discovery. This needs a type whose text Spark reads
   back as it was, and a directory of the table that spells the value: null and blank ones share a directory.
2. Files of other types, values and places are scanned partition by partition, with the values as literals, if these
   are a few partitions.
3. The files of more partitions are scanned together, and the columns read from them.

Clauses: RD-1, RD-8, RD-24, RD-25, META-9.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, IntegerType, StringType, StructField, StructType

from pktable.bucket.read import BucketRead
from pktable.context import TableContext
from pktable.format.binary_row import decode_row
from pktable.format.paths import escaped
from pktable.format.type_text import quoted
from pktable.format.types import INTEGER_BITS, STRINGS, Field, Value
from pktable.predicate.spark_sql import spark_text
from pktable.predicate.tree import STRING, Literal
from pktable.run.spark.types import spark_type

FEW_PARTITIONS: Final = 8  # are scanned one by one
AS_SPELLED: Final = {*INTEGER_BITS, *STRINGS, "BOOLEAN", "DECIMAL", "DATE", "TIMESTAMP"}
"""Types whose values Spark reads from a directory as Paimon means them. Instants depend on the zone of the session."""

SPARKS_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The name of a value that Spark takes for null."""


@dataclass(frozen=True, slots=True)
class PartitionColumns:
    """How a scan gets the partition columns of some files.

    ``base``: the directory above those of the partitions, None if nothing is taken from their names.
    ``named``: the columns that the names of directories give. ``given``: SQL of columns that are not read as they are.
    """

    base: str | None = None
    named: tuple[StructField, ...] = ()
    given: tuple[tuple[str, str], ...] = ()


FROM_FILES: Final = PartitionColumns()

Groups = dict[PartitionColumns, list[BucketRead]]


def by_partition_columns(
    context: TableContext, parts: Sequence[BucketRead], columns: Sequence[str]
) -> Groups:
    """Return ``parts`` by the way in which a scan of ``columns`` gets the partition columns among them."""
    fields = [field for field in context.schema.partition_fields if field.name in columns]
    if not fields:
        return {FROM_FILES: list(parts)}
    groups: Groups = {}
    for part in parts:
        groups.setdefault(_partition_columns(context, part, fields), []).append(part)
    one_by_one = [how for how in groups if how.base is None]
    if len(one_by_one) > FEW_PARTITIONS:
        groups[FROM_FILES] = [part for how in one_by_one for part in groups.pop(how)]
    return groups


def _partition_columns(context: TableContext, part: BucketRead, fields: Sequence[Field]) -> PartitionColumns:
    place, everything = part.state.place, context.schema.partition_fields
    types = [field.type for field in everything]
    values = dict(zip(everything, decode_row(place.partition, types, at=context.root), strict=True))
    base, *names = place.directory.rsplit("/", len(everything) + 1)[:-1]
    texts = dict(zip(everything, (name.partition("=")[2] for name in names), strict=True))
    if any(file.external_path for file in part.state.files) or not all(
        _spells(texts[field], values[field], field) for field in fields
    ):
        return PartitionColumns(given=tuple((field.name, _literal(values[field], field)) for field in fields))
    as_days = context.options.partition_legacy_names
    return PartitionColumns(
        base,
        # Those that nobody asks for are found there too; as strings none of them can fail.
        tuple(
            StructField(field.name, _named_type(field, as_days) if field in fields else StringType())
            for field in everything
        ),
        tuple(
            (field.name, f"date_from_unix_date({quoted(field.name)})")
            for field in fields
            if as_days and field.type.root == "DATE"
        ),
    )


def _spells(text: str, value: Value, field: Field) -> bool:
    """Whether Spark reads ``value`` in ``text``, the directory's name after the equals sign."""
    if value is None or field.type.root not in AS_SPELLED or text == SPARKS_NULL:
        return False
    return not isinstance(value, str) or text == escaped(value)


def _named_type(field: Field, as_days: bool) -> DataType:
    return IntegerType() if as_days and field.type.root == "DATE" else spark_type(field.type)


def _literal(value: Value, field: Field) -> str:
    """Return ``value`` as SQL, nullable as every other column of a scan is."""
    kind = STRING if field.type.root in STRINGS else field.type
    return f"if(true, {spark_text(Literal(value, kind))}, NULL)"


MOST_FILES: Final = 20_000  # of all relations that are remembered: some ten megabytes of the driver
FILE_BYTES: Final = 512  # of the driver for a file of a relation
GLOB: Final = re.compile(r"[\[\]{}*?\\]")
"""Characters that a path must not have, because Spark takes paths as patterns."""


class Relations:
    """Remembers the relations that were used last, and what was made of them, up to a number of files.

    Threads may share it.
    """

    def __init__(self, most_files: int = MOST_FILES) -> None:
        self._most_files, self._files = most_files, 0
        self._known: OrderedDict[Hashable, tuple[int, DataFrame]] = OrderedDict()
        self._lock = Lock()

    def get(
        self, session: SparkSession, paths: Sequence[str], schema: StructType, options: Mapping[str, str]
    ) -> DataFrame:
        """Return the rows of the Parquet files ``paths``, with all columns of ``schema``. Starts no job.

        ``options``: of Spark's reader. Clauses: RD-24.
        """
        what = (schema, tuple(options.items()))
        return self.made(session, paths, what, lambda: _relation(session, paths, schema, options))

    def made(
        self,
        session: SparkSession,
        paths: Sequence[str],
        what: Hashable,
        make: Callable[[], DataFrame],
        *,
        held_bytes: int = 0,
    ) -> DataFrame:
        """Return what ``make`` makes of files, which depends on ``what`` besides. Starts no job.

        ``held_bytes``: what it holds in memory. Clauses: RD-24.
        """
        size = len(paths) + held_bytes // FILE_BYTES
        remembers = hasattr(session, "sparkContext") and size <= self._most_files
        files = _stamps(paths) if remembers else None
        if files is None:
            return make()
        name = (session, files, what)
        with self._lock:
            if name in self._known:
                self._known.move_to_end(name)
                return self._known[name][1]
        made = make()
        with self._lock:
            if name not in self._known:
                self._known[name] = size, made
                self._files += size
            while self._files > self._most_files:
                count, _ = self._known.popitem(last=False)[1]
                self._files -= count
        return made


RELATIONS: Final = Relations()


def renewed(columns: Iterable[str]) -> list[str]:
    """Return Spark SQL that selects ``columns``, as columns that no other DataFrame has. Clauses: RD-25."""
    return [f"{quoted(name)} AS {quoted(name)}" for name in columns]


def _stamps(paths: Sequence[str]) -> tuple[tuple[str, int, int], ...] | None:
    """Return what tells a change of the files, None if one is not on this machine or not there."""
    try:
        found = [(path, os.stat(path)) for path in paths]
    except OSError:
        return None
    return tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in found)


def _relation(
    session: SparkSession, paths: Sequence[str], schema: StructType, options: Mapping[str, str]
) -> DataFrame:
    patterns = [GLOB.sub(r"\\\g<0>", path) for path in paths]
    reader: Any = session.read.schema(schema).options(**options)
    java: Any = getattr(reader, "_jreader", None)
    if java is None:  # Spark Connect
        rows: DataFrame = reader.parquet(*patterns)
        return rows
    # py4j would send a list path by path, at 0.1 ms of CPU each. No path has a null character.
    machine: Any = session.sparkContext._jvm
    array = machine.java.util.regex.Pattern.compile("\0").split("\0".join(patterns))
    return DataFrame(java.parquet(array), session)
