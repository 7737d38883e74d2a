"""What failed on an executor, raised in the driver as what it was.

Clauses: RD-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pktable_spec import errors
from pktable_spec.errors import CorruptFileError, PkTableError
from pyspark.errors import PySparkException

OURS = re.compile(r"^pktable_spec\.errors\.(\w+): (.*)$", re.M)
UNREADABLE = re.compile(r"(FAILED_READ_FILE[\w.]*)\]?\s*(?:Encountered error while reading file|.*?file)?\s*(\S+)", re.S)


@contextmanager
def raised_here() -> Iterator[None]:
    """Turn a Spark failure that carries one of our errors, or an unreadable file, into our error."""
    try:
        yield
    except PySparkException as failure:
        ours = translated(str(failure))
        if ours is None:
            raise
        raise ours from failure


def translated(message: str) -> PkTableError | None:
    """Return the error of ours that a Spark ``message`` tells of, or None."""
    found = OURS.search(message)
    if found:
        kind = getattr(errors, found[1], PkTableError)
        error: PkTableError = kind.__new__(kind)
        error.args = (found[2],)
        return error
    unreadable = UNREADABLE.search(message)
    if unreadable:
        cause = re.search(r"Caused by: (.*)", message)
        return CorruptFileError(
            "Parquet data", at=unreadable[2].rstrip("."), expected="a readable file", found=cause[1] if cause else unreadable[1]
        )
    return None
