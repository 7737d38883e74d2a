"""Histories as plain values: drawn by the machine, stored in the corpus, printed by a failure.

A `History` is a table (shape and options) and a list of operations. Rows are written without their last
column, ``w``: it numbers the change, so that every row a read returns names the write it came from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from pktable_spec.interface import EVERYTHING, Change, Comparison, Query, Scalar, Shape
from pktable_spec.vocabulary import ROW_KIND_SYMBOLS, RowKind

SHAPES: Final[Mapping[str, Shape]] = {
    shape.name: shape
    for shape in (
        Shape("int", (("k", "INT"), ("v", "STRING"), ("w", "INT")), ("k",)),
        Shape("string", (("k", "STRING"), ("v", "STRING"), ("w", "INT")), ("k",)),
        Shape(
            "composite",
            (("a", "INT"), ("b", "STRING"), ("v", "STRING"), ("w", "INT")),
            primary_key=("a", "b"),
        ),
        Shape(
            "partitioned",
            (("p", "STRING"), ("k", "INT"), ("v", "STRING"), ("w", "INT")),
            primary_key=("p", "k"),
            partition_keys=("p",),
        ),
        Shape(
            "moving",
            (("k", "INT"), ("p", "STRING"), ("v", "STRING"), ("w", "INT")),
            primary_key=("k",),
            partition_keys=("p",),
        ),
    )
}

BULK, MORE_BULK = "bulk", "more bulk"
BULK_BYTES: Final[Mapping[Scalar, int]] = {BULK: 2_100, MORE_BULK: 6_000}
"""Values that stand for bytes that do not compress, so that files differ in size, by their number of bytes.

In hex they take twice as many bytes; the larger ones are longer than the statistics that Parquet keeps, 4096 bytes.
"""


def spelled_out(row: tuple[Scalar, ...], number: int) -> tuple[Scalar, ...]:
    """Return ``row`` with each value of `BULK_BYTES` replaced by the bytes it stands for in change ``number``."""
    return tuple(
        random.Random(number).randbytes(BULK_BYTES[value]).hex() if value in BULK_BYTES else value
        for value in row
    )


Changes: TypeAlias = tuple[tuple[str, tuple[Scalar, ...]], ...]
"""Row kinds by symbol, and rows without ``w``."""


@dataclass(frozen=True)
class Operation:
    """One operation on a table, by its name in ``do``, and a query to read the table with afterwards.

    ``do`` is one of write, concurrent writes, compact, begin write, begin compaction, commit, abandon, reopen, read,
    expire, tag, delete tag, damage vectors, reorder vectors, enable vectors, damage file, ask wrongly, one of
    `statements.STATEMENTS` and `statements.REPLACEMENTS`; race, which executes the second of ``statements``, with the
    last change, during the first; fill disk, which writes, or compacts fully without changes; or roll back, the last
    one, after an expiry if ``full``.
    ``job`` names staged work. ``refused`` is the clause by which a stored history expects a commit to be refused, empty
    for none. ``bit`` is the one to damage.
    ``number``: of the newest snapshots, those that an expiry retains, or those that are newer than the one to tag or to
    go back to; of a damage; or of the operation on a disk from which on it is full.
    ``handle``: the handle of the table that does it.
    """

    do: str
    changes: Changes = ()
    write_only: bool = False
    full: bool = False
    job: str = ""
    bit: int = 0
    number: int = 0
    tag: str = ""
    statements: tuple[str, ...] = ()
    handle: int = 0
    refused: str | None = None
    query: Query = EVERYTHING

    def to_json(self) -> dict[str, object]:
        """Return a JSON object without the fields that have their default value."""
        fields: dict[str, object] = {"do": self.do}
        if self.changes:
            fields["changes"] = [[kind, list(row)] for kind, row in self.changes]
        for name in ("write_only", "full", "job", "bit", "number", "tag", "handle"):
            if getattr(self, name):
                fields[name] = getattr(self, name)
        if self.statements:
            fields["statements"] = list(self.statements)
        if self.refused is not None:
            fields["refused"] = self.refused
        if self.query.where:
            fields["where"] = [[one.column, one.operator, one.literal] for one in self.query.where]
        if self.query.columns is not None:
            fields["columns"] = list(self.query.columns)
        if self.query.limit is not None:
            fields["limit"] = self.query.limit
        return fields

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> Operation:
        """Return the operation that `to_json` stored. Raises TypeError for an unknown field."""
        fields = dict(stored)
        columns = fields.pop("columns", None)
        query = Query(
            tuple(Comparison(*condition) for condition in fields.pop("where", [])),
            None if columns is None else tuple(columns),
            fields.pop("limit", None),
        )
        changes = tuple((kind, tuple(row)) for kind, row in fields.pop("changes", []))
        statements = tuple(fields.pop("statements", ()))
        return Operation(query=query, changes=changes, statements=statements, **fields)


@dataclass
class History:
    """A table and the operations on it, in order."""

    shape: Shape
    options: Mapping[str, str]
    operations: list[Operation] = field(default_factory=list)

    def to_json(self, *, columns: bool = False) -> str:
        """Return the text of a corpus file: one operation a line. ``columns``: give those of each table."""
        lines = ",\n".join("    " + json.dumps(one.to_json()) for one in self.operations)
        options = json.dumps(dict(self.options))
        shape: object = self.shape.name
        if columns or shape not in SHAPES:
            keys = ("primary_key", "partition_keys")
            shape = {"columns": self.shape.columns} | {key: getattr(self.shape, key) for key in keys}
        return f'{{"table": {json.dumps(shape)},\n "options": {options},\n "operations": [\n{lines}\n]}}\n'

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> History:
        """Return the history that `to_json` stored; other fields, such as why it is kept, are ignored."""
        operations = [Operation.from_json(one) for one in stored["operations"]]
        table = stored["table"]
        if isinstance(table, str):
            return History(SHAPES[table], stored["options"], operations)
        keys = tuple(table["primary_key"]), tuple(table.get("partition_keys", ()))
        shape = Shape("types", tuple((name, type) for name, type in table["columns"]), *keys)
        known = (one for one in SHAPES.values() if one == replace(shape, name=one.name))
        return History(next(known, shape), stored["options"], operations)


def row_kind(symbol: str) -> RowKind:
    """Return the row kind that ``+I``, ``-U``, ``+U`` or ``-D`` names."""
    return RowKind(ROW_KIND_SYMBOLS.index(symbol))


def numbered(changes: Changes, first: int) -> tuple[Change, ...]:
    """Return changes whose rows have their number as the last column; ``first``: that of the first one."""
    return tuple(
        Change(row_kind(kind), (*spelled_out(row, number), number))
        for number, (kind, row) in enumerate(changes, first)
    )
