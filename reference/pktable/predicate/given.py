"""A condition in the forms in which callers have it: SQL text, or an expression of pyarrow or polars.

Clauses: WH-24.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pktable_spec.errors import InvalidRequestError

from pktable.format.types import Field


def condition_text(where: Any, fields: Sequence[Field], what: str = "where") -> str | None:
    """Return a condition on rows with the columns ``fields`` as SQL.

    An expression of pyarrow or polars means what the same condition means in SQL. Raises InvalidRequestError for
    anything else, and for an expression that has no text here. Clauses: WH-24, WH-32.
    """
    if where is None or isinstance(where, str):
        return where
    kind = type(where)
    if kind.__name__ == "Expression" and kind.__module__.partition(".")[0] == "pyarrow":
        from pktable.predicate.from_arrow import as_text  # late: it brings Arrow's kernels

        return as_text(where, fields, what)
    if kind.__module__.partition(".")[0] == "polars":
        if kind.__name__ != "Expr":
            raise InvalidRequestError(f"{what}: expected a condition, found a {kind.__name__} of polars")
        from pktable.predicate.from_polars import as_text as polars_text

        return polars_text(where, fields, what)
    raise InvalidRequestError(
        f"{what}: expected text, found {kind.__name__}; an expression of pyarrow or polars is taken, too"
    )
