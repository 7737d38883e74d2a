"""A read as an Arrow dataset: DuckDB, polars and pyarrow ask it for some columns of the rows that satisfy a filter.

`TableDataset` is a `pyarrow.dataset.Dataset` by class alone: engines look for that class, and call `scanner`. What a
filter asks for chooses files and pages as a condition of `Scan` does (`predicate.from_arrow`), and Arrow evaluates the
filter itself on the rows that are left. Nothing is planned before an engine asks.

Clauses: RD-6, RD-8, RD-16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pktable_spec.errors import InvalidRequestError

from pktable.predicate import parse
from pktable.predicate.from_arrow import Node, names_in, necessary, parts_of

if TYPE_CHECKING:
    from pktable.context import TableContext
    from pktable.scan import Scan

UNKNOWN: Final = Node("call")
"""A call of something unknown."""
Columns = Sequence[str] | Mapping[str, pc.Expression] | None


class TableDataset(ds.Dataset):  # type: ignore[misc]
    """The rows of a scan. It pickles, as the scan does."""

    def __init__(self, scan: Scan) -> None:  # the class of Arrow has no state that Python makes
        self._scan = scan

    def __reduce__(self) -> tuple[object, ...]:
        return TableDataset, (self._scan,)

    def __repr__(self) -> str:
        return f"<TableDataset of {self._scan!r}>"

    @cached_property
    def schema(self) -> pa.Schema:
        """Columns and types of the rows, as of the first look. Raises SnapshotNotFoundError, InvalidRequestError."""
        return self._scan.schema

    @cached_property
    def _context(self) -> TableContext:
        """The table under the schema of the snapshot that is read."""
        scan = self._scan
        return scan.catalog.read_as_of(scan.as_of, lambda _, context: context)

    @property
    def partition_expression(self) -> pc.Expression:
        """True: nothing is known of all rows."""
        return pc.scalar(True)

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        batch_size: int | None = None,
        **how: Any,
    ) -> ds.Scanner:
        """Return a scan of some columns of the rows that satisfy ``filter``, read as batches are asked for.

        ``columns``: names, or expressions by name. ``batch_size``: rows at most. Other arguments of Arrow, about
        threads and memory, change nothing. Raises InvalidRequestError for a column that there is not.
        """
        names = self.schema.names
        asked = None if filter is None else _parts(filter)
        wanted = _read_by(columns, names) | (set() if asked is None else _names_of([asked], names))
        inner = replace(
            self._scan, columns=tuple(name for name in names if name in wanted) or tuple(names[:1])
        )
        if asked is not None and (text := self._condition(asked)):
            given = self._context.condition(inner.where)
            inner = replace(inner, where=f"({given}) AND {text}" if given else text)
        sizes = {} if batch_size is None else {"batch_size": batch_size}
        reader = inner.to_batches()
        chosen = names if columns is None else columns
        return ds.Scanner.from_batches(reader, columns=chosen, filter=filter, **sizes)

    def count_rows(self, filter: pc.Expression | None = None, **how: Any) -> int:
        """Return the number of rows, from metadata alone where nothing is merged or filtered."""
        return self._scan.count() if filter is None else int(self.scanner([], filter).count_rows())

    def _condition(self, asked: Node) -> str | None:
        """Return what a filter asks for as a condition of a scan, None if that cannot be said."""
        if self._scan.limit is not None:  # of all rows, not of those of the filter
            return None
        try:
            fields = self._context.schema.fields
            text = necessary(asked, fields)
            if text is not None:
                parse(text, fields)
        except InvalidRequestError:  # a literal of another type than the column
            return None
        return text

    def _refuse(self, *arguments: Any, **names: Any) -> NoReturn:
        raise InvalidRequestError("a dataset of a table has no fragments; use to_table() or scanner()")

    get_fragments = replace_schema = filter = join = join_asof = sort_by = take = _refuse


def _parts(expression: pc.Expression) -> Node:
    """Return the tree of an expression, `UNKNOWN` for one that cannot be looked into."""
    try:
        return parts_of(expression)
    except (ValueError, pa.ArrowException):
        return UNKNOWN


def _read_by(columns: Columns, names: Sequence[str]) -> set[str]:
    """Return the names of the columns that are read for ``columns``."""
    if columns is None:
        return set(names)
    if not isinstance(columns, Mapping):
        unknown = sorted(set(columns) - set(names))
        if unknown:
            raise InvalidRequestError(
                f"columns: expected some of {', '.join(names)}, found {', '.join(unknown)}"
            )
        return set(columns)
    return _names_of([_parts(expression) for expression in columns.values()], names)


def _names_of(trees: Sequence[Node], names: Sequence[str]) -> set[str]:
    """Return the names of the columns that expressions read, all of ``names`` if one is unknown."""
    return set(names) if UNKNOWN in trees else {name for tree in trees for name in names_in(tree)}
