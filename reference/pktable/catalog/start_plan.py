"""Which rows a stream begins with: those that all changes up to a snapshot fold to.

Which read gives them depends on who records the changes. Without a producer, and with ``input``, the changes are the
rows as they were written, so a fresh read does. Otherwise rows whose changes the producer has still to record come as
changes later, and are left out.

Clauses: CHG-9, CHG-26.
"""

from __future__ import annotations

from dataclasses import replace

from pktable.bucket.read import BucketRead
from pktable.catalog.read_plan import plan_read
from pktable.catalog.state import StateLoader, TableState
from pktable.context import TableContext
from pktable.predicate import Predicate


def plan_start(
    context: TableContext, states: StateLoader, state: TableState, predicate: Predicate | None
) -> list[BucketRead]:
    """Return the parts of a read of the rows that all changes up to ``state`` fold to. Raises as `plan_read`.

    Clauses: CHG-9, CHG-26.
    """
    options = context.options
    fresh = options.changelog_producer in ("none", "input")
    if not fresh and not options.deletion_vectors_enabled:
        # Without vectors every read merges all it is given.
        least = 1 if options.changelog_producer == "lookup" else options.max_level
        files = {
            bucket_id: tuple(file for file in live if file.level >= least)
            for bucket_id, live in state.files.items()
        }
        state = replace(state, files=files)
    return plan_read(context, states, state, fresh=fresh, predicate=predicate)
