"""The rows that a delete by a condition deletes.

They are read before the write begins, so that a delete of nothing ends no write of others. They are read again if a
write has been completed until the instant of the delete is claimed.

Clauses: LOG-74.
"""

from __future__ import annotations

from typing import Final

from pktable.format.types import one_array

from pktable_hudi.incoming import Incoming
from pktable_hudi.scan import OWN_COLUMNS, HudiScan
from pktable_hudi.timeline import Instant, load_timeline

PLACE: Final = OWN_COLUMNS[2:4]
"""The record key and the partition."""


class Matching:
    """The keys of the rows of ``scan``, which has the columns `PLACE`, as of the latest write."""

    def __init__(self, scan: HudiScan) -> None:
        self._scan = scan
        self._known: tuple[tuple[Instant, ...], Incoming] | None = None

    def rows(self) -> Incoming:
        """Return the rows. Raises InvalidRequestError, CorruptFileError."""
        scan = self._scan
        completed = load_timeline(scan.store, scan.root, scan.settings).completed
        if self._known is None or self._known[0] != completed:
            found = scan.to_arrow()
            keys, partitions = (one_array(found.column(name)) for name in PLACE)
            self._known = completed, Incoming(found, keys, partitions)
        return self._known[1]
