"""Where the partition columns of Spark's scan come from, so that a filter on them leaves out files.

Every data file has its partition columns, but Spark must open a file to see them. Values that Spark knows before it
opens a file are compared when it plans a query, and the files of other partitions are never read.

1. Mostly they come from the directories, by Spark's own partition discovery. This needs a type whose text Spark reads
   back as it was, and a directory of the table that spells the value: null and blank ones share a directory.
2. Files of other types, values and places are scanned partition by partition, with the values as literals, if these
   are a few partitions.
3. The files of more partitions are scanned together, and the columns read from them.

Clauses: RD-1, RD-8, META-9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import DataType, IntegerType, StringType, StructField

from pktable.bucket.read import BucketRead
from pktable.context import TableContext
from pktable.format.binary_row import decode_row
from pktable.format.partition_path import escaped
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
