"""Which row groups of a data file a predicate can match, from the file's own statistics.

Clauses: RD-7, RD-8.
"""

from __future__ import annotations

from typing import Any

from pktable_spec.vocabulary import KEY_PREFIX

from pktable.bucket.reader import DataReader
from pktable.datafile.readers import ParquetRows
from pktable.format.metadata.schema import TableSchema
from pktable.predicate import ColumnRange, Predicate, may_match

PLAIN = {"TINYINT", "SMALLINT", "INT", "BIGINT"}  # types whose Parquet statistics are our internal values
TEXTS = {
    "CHAR",
    "VARCHAR",
    "STRING",
}  # so are theirs, but not whole where a writer cuts them: a bound, no value


def greatest_of_row_groups(reader: DataReader, schema: TableSchema, key_column: str) -> list[Any] | None:
    """Return per row group a value that none of a ``_KEY_`` column exceeds, None where it is not known.

    None for all of the file if that is not known of any.
    """
    stored = reader.stored
    kind = schema.field(key_column[len(KEY_PREFIX) :]).type.root
    if not isinstance(stored, ParquetRows) or reader.meta.schema_id != schema.id or kind not in PLAIN | TEXTS:
        return None
    metadata = stored.metadata
    place = _places(metadata).get(key_column)
    if place is None:
        return None
    found = [metadata.row_group(group).column(place).statistics for group in range(metadata.num_row_groups)]
    return [stats.max if stats is not None and stats.has_min_max else None for stats in found]


def _places(metadata: Any) -> dict[str, int]:
    """Return where the columns are that are not nested, by name."""
    # A part of a nested column may spell its path as a plain column with a dot in its name does.
    plain = (i for i in range(metadata.num_columns) if metadata.schema.column(i).max_definition_level <= 1)
    return {metadata.schema.column(i).path: i for i in plain}


def row_groups_that_may_match(
    reader: DataReader, schema: TableSchema, predicate: Predicate
) -> list[int] | None:
    """Return the row groups of a Parquet file worth reading, or None for all of the file."""
    stored = reader.stored
    if not isinstance(stored, ParquetRows) or reader.meta.schema_id != schema.id:
        return None
    metadata = stored.metadata
    if metadata.num_row_groups < 2:
        return None
    places = _places(metadata)
    usable = {f.name: places[f.name] for f in schema.fields if f.name in places and f.type.root in PLAIN}
    chosen = []
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        ranges = {}
        for name, place in usable.items():
            stats = rows.column(place).statistics
            if stats is not None and stats.has_min_max:
                ranges[name] = ColumnRange(stats.min, stats.max, stats.null_count, rows.num_rows)
        if may_match(predicate, ranges):
            chosen.append(group)
    return chosen
