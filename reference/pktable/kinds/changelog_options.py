"""Which changelog producer goes with which table.

Clauses: CHG-15, CMP-31.
"""

from __future__ import annotations

from typing import Final

from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.options import TableOptions

from pktable.format.metadata.schema import TableSchema
from pktable.format.types import is_atomic

PRODUCER: Final = "changelog-producer"
DEDUPLICATE: Final = f"{PRODUCER}.row-deduplicate"
IGNORED: Final = f"{DEDUPLICATE}-ignore-fields"
DELTA_COMMITS: Final = "full-compaction.delta-commits"


def expect_changelog_options(schema: TableSchema, options: TableOptions) -> None:
    """Raise InvalidRequestError unless a writer can make the changelog that the options ask for.

    Clauses: CHG-15, CMP-31.
    """
    producer = options.changelog_producer
    if producer != "none" and not schema.primary_keys:
        raise UnsupportedOptionError(PRODUCER, producer, "none in a table without a primary key")
    commits = options.full_compaction_delta_commits
    if commits is not None and (producer == "lookup" or not schema.primary_keys):
        expected = f"it in tables with a primary key whose {PRODUCER} is not lookup"
        raise UnsupportedOptionError(DELTA_COMMITS, str(commits), expected)
    if producer == "full-compaction" and options.deletion_vectors_enabled:
        raise UnsupportedOptionError(
            PRODUCER, producer, "none, input or lookup with deletion-vectors.enabled=true"
        )
    if producer in ("input", "full-compaction") and options.merge_engine == "first-row":
        raise UnsupportedOptionError(PRODUCER, producer, "none or lookup with merge-engine=first-row")
    for name in options.changelog_ignored_fields:
        if name not in schema.value_names:
            raise InvalidRequestError(
                f"option {IGNORED}: column {name} does not exist; columns are {', '.join(schema.value_names)}"
            )
    if options.changelog_row_deduplicate:
        for field in schema.fields:
            if not is_atomic(field.type) and field.name not in options.changelog_ignored_fields:
                raise UnsupportedOptionError(
                    DEDUPLICATE, "true", f"column {field.name}, of type {field.type}, in {IGNORED}"
                )
        if producer == "none":
            raise UnsupportedOptionError(DEDUPLICATE, "true", f"a {PRODUCER} other than none with it")
