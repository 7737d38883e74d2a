"""Primary-key lake tables with deletion vectors, in Apache Paimon's format, on Spark or in one process."""

from pktable_spec.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidRequestError,
    NotATableError,
    PkTableError,
    SnapshotNotFoundError,
    UnsupportedOptionError,
)

from pktable.table import Table

__all__ = [
    "CommitConflictError",
    "CorruptFileError",
    "InvalidRequestError",
    "NotATableError",
    "PkTableError",
    "SnapshotNotFoundError",
    "Table",
    "UnsupportedOptionError",
]
__version__ = "0.1.0"
