"""Spark's relations of Parquet files, which are remembered, so that the same files are not looked for twice.

Making a relation, Spark looks at every file. For one that is asked for again this would find nothing new: no data file
is ever written again. A relation is remembered with the size and the time of change of its files, and made again if one
of them is another file now, or gone.

A relation with its filter by deletion vectors is remembered too, because to make it again takes Spark longer than to
make the relation.

Spark knows the columns of a relation by numbers. Two reads that have one relation have the same numbers, and a join of
them would compare a column with itself. `renewed` gives columns numbers of their own: every DataFrame that is made of a
relation must have it applied once before it is returned to a user.

Spark Connect looks for files when it analyses a plan, so nothing is remembered for it.

Clauses: RD-24, RD-25.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pktable.format.type_text import quoted

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
