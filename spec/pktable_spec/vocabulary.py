"""The constants that every part of the project shares: row kinds, commit kinds, system columns.

Clauses: TBL-4, META-2, META-12.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class RowKind(IntEnum):
    """The effect of a change on the row of its key. The values are those of the column ``_VALUE_KIND``.

    Clauses: TBL-4.
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    @property
    def is_add(self) -> bool:
        """Whether the key has a row after the change (+I, +U) or none (-U, -D)."""
        return self in (RowKind.INSERT, RowKind.UPDATE_AFTER)

    @property
    def symbol(self) -> str:
        """One of +I, -U, +U, -D."""
        return ROW_KIND_SYMBOLS[self]


ROW_KIND_SYMBOLS: Final = ("+I", "-U", "+U", "-D")

# Commit kinds, as spelled in a snapshot file.
APPEND: Final = "APPEND"
COMPACT: Final = "COMPACT"
OVERWRITE: Final = "OVERWRITE"

# System columns of a data file.
KEY_PREFIX: Final = "_KEY_"
SEQUENCE_NUMBER: Final = "_SEQUENCE_NUMBER"
ROW_ID: Final = "_ROW_ID"
VALUE_KIND: Final = "_VALUE_KIND"

DELETION_VECTORS: Final = "DELETION_VECTORS"
"""The index type of DV index files in an index manifest."""
HASH: Final = "HASH"
"""The index type of hash index files in an index manifest."""
