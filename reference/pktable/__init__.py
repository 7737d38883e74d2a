"""Primary-key lake tables with deletion vectors, in Apache Paimon's format, on Spark or in one process.

`Table` is imported at its first use: it brings Arrow, which takes longer to load than many a command to run.
"""

from typing import TYPE_CHECKING, Any

from pktable_spec.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidRequestError,
    NotATableError,
    OutsideTableError,
    PkTableError,
    SnapshotNotFoundError,
    StorageError,
    UnsupportedOptionError,
)

if TYPE_CHECKING:
    from pktable.table import Table

__all__ = [
    "CommitConflictError",
    "CorruptFileError",
    "InvalidRequestError",
    "NotATableError",
    "OutsideTableError",
    "PkTableError",
    "SnapshotNotFoundError",
    "StorageError",
    "Table",
    "UnsupportedOptionError",
]
__version__ = "0.1.0"


if not TYPE_CHECKING:  # type checkers know the name, and would take this as a promise of any name

    def __getattr__(name: str) -> Any:
        if name != "Table":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from pktable.table import Table

        globals()[name] = Table  # from now on found without this function
        return Table


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
