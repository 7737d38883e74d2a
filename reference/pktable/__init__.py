"""Primary-key lake tables with deletion vectors, in Apache Paimon's format, on Spark or in one process.

`Table`, `Warehouse`, `HudiTable`, `CommitId` and `Effect` are imported at their first use: they bring Arrow, which
takes longer to load than many a command takes to run. `HudiTable` reads the tables of Apache Hudi.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pktable_spec.errors import (
    CommitConflictError,
    CommitUnknownError,
    CompactionFailedError,
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
    from pktable_hudi.table import HudiTable

    from pktable.catalog.changes import CommitId
    from pktable.catalog.effects import Effect
    from pktable.spark_sql.session import session
    from pktable.table import Table
    from pktable.warehouse import Warehouse
    from pktable.watching import Measured, watch

__all__ = [
    "CommitConflictError",
    "CommitId",
    "CommitUnknownError",
    "CompactionFailedError",
    "CorruptFileError",
    "Effect",
    "HudiTable",
    "InvalidRequestError",
    "Measured",
    "NotATableError",
    "OutsideTableError",
    "PkTableError",
    "SnapshotNotFoundError",
    "StorageError",
    "Table",
    "UnsupportedOptionError",
    "Warehouse",
    "session",
    "watch",
]
__version__ = "0.1.0"

LATE = {
    "CommitId": "pktable.catalog.changes",
    "Effect": "pktable.catalog.effects",
    "HudiTable": "pktable_hudi.table",
    "Measured": "pktable.watching",
    "Table": "pktable.table",
    "Warehouse": "pktable.warehouse",
    "session": "pktable.spark_sql.session",
    "watch": "pktable.watching",
}
"""Names that are imported at their first use, with their modules."""


if not TYPE_CHECKING:  # type checkers know the name, and would take this as a promise of any name

    def __getattr__(name: str) -> Any:
        if name not in LATE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = getattr(import_module(LATE[name]), name)  # from now on found without this function
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
