"""Kinds of table: how rows of a bucket are written, read and compacted depends on the kind.

`kind_of` returns the kind of a table from its schema: a table with a primary key, or an append table, which has none.
A table of a kind that is not supported is refused by the name of that kind, by readers and by writers.

Clauses: TBL-12, TBL-16.
"""

from __future__ import annotations

from pktable_spec.errors import InvalidRequestError

from pktable.format.metadata.schema import TableSchema
from pktable.kinds.append import AppendTables
from pktable.kinds.kind import TableKind
from pktable.kinds.primary_key import PrimaryKeyTables

KINDS: list[TableKind] = [PrimaryKeyTables(), AppendTables()]
"""The implemented kinds; the first that claims a schema has the table."""


def kind_of(schema: TableSchema, at: str) -> TableKind:
    """Return the kind of the table with this schema. ``at``: the table's path, for the message.

    Raises InvalidRequestError if no kind claims it.
    """
    for kind in KINDS:
        if kind.claims(schema):
            return kind
    raise InvalidRequestError(
        f"{at}: tables of this kind are not supported: {', '.join(schema.primary_keys)}"
    )


__all__ = ["KINDS", "TableKind", "kind_of"]
