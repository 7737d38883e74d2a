"""Merge engines: how the records of one key become one record.

A table names its engine by the option ``merge-engine``. The same engine folds the rows of one write, the inputs of
a compaction and the runs of a read, so its result must not depend on how the records were grouped on their way:

* **associative over adjacent runs**: folding the results of two adjacent parts equals folding all their records;
* **idempotent**: the fold of a single record is that record;
* **oldest first**: an engine sees the records of a key in the order of their sequence numbers.

Deletion vectors ask for more. A compaction with deletion vectors looks up the keys that only level 0 has and deletes
the rows that older files hold of them. An engine whose result needs the value of such a row must say so (``lookup``).

Clauses: MRG-1, MRG-2, MRG-3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol

import pyarrow as pa
from pktable_spec.errors import UnsupportedOptionError

from pktable.merge.deduplicate import Deduplicate
from pktable.merge.grouping import Flags, Window

OPTION: Final = "merge-engine"
DEDUPLICATE: Final = "deduplicate"
DELETION_VECTORS: Final = "deletion-vectors.enabled"


class Folded(Protocol):
    """One record per key of a window, keys ascending: k records."""

    def adds(self) -> Flags:
        """Return per key whether its record leaves a row (+I, +U); otherwise it is a retraction."""
        ...

    def rows(self, chosen: Flags | None = None) -> pa.Table:
        """Return the records, or those of the keys where ``chosen`` (k flags) holds, with the window's columns."""
        ...


class MergeEngine(Protocol):
    """How the records of one key become one record. The module says which laws must hold."""

    @property
    def name(self) -> str:
        """The value of the option ``merge-engine``."""
        ...

    @property
    def lookup(self) -> Literal["position", "values"]:
        """What a compaction with deletion vectors must learn of an older row: where it is, or its values too."""
        ...

    def fold(self, window: Window) -> Folded:
        """Return one record per key of ``window``. Reads no file, raises nothing."""
        ...


ENGINES: dict[str, MergeEngine] = {DEDUPLICATE: Deduplicate()}
"""The implemented engines by name."""


def engine_of(options: Mapping[str, str]) -> MergeEngine:
    """Return the merge engine that a table's options name.

    Raises UnsupportedOptionError if it is not implemented, or not together with deletion vectors.
    """
    name = options.get(OPTION, DEDUPLICATE)
    engine = ENGINES.get(name)
    if engine is None:
        raise UnsupportedOptionError(OPTION, name, " or ".join(ENGINES))
    if engine.lookup == "values" and options.get(DELETION_VECTORS, "false").lower() == "true":
        raise UnsupportedOptionError(OPTION, name, "an engine that works with deletion vectors")
    return engine
