"""A condition in the forms in which callers have it: SQL text, or an expression of pyarrow or polars.

Clauses: WH-24.
"""

from __future__ import annotations

from typing import Any

from pktable_spec.errors import InvalidRequestError


def condition_text(where: Any, what: str = "where") -> str | None:
    """Return a condition as SQL. An expression of pyarrow or polars means what the same condition means in SQL.

    Raises InvalidRequestError for anything else, and for an expression that has no text here. Clauses: WH-24.
    """
    if where is None or isinstance(where, str):
        return where
    kind = type(where)
    if kind.__name__ == "Expression" and kind.__module__.partition(".")[0] == "pyarrow":
        from pktable.predicate.from_arrow import as_text  # late: it brings Arrow's kernels

        return as_text(where, what)
    if kind.__module__.partition(".")[0] == "polars":
        if kind.__name__ != "Expr":
            raise InvalidRequestError(f"{what}: expected a condition, found a {kind.__name__} of polars")
        from pktable.predicate.from_polars import as_text as polars_text

        return polars_text(where, what)
    raise InvalidRequestError(
        f"{what}: expected text, found {kind.__name__}; an expression of pyarrow or polars is taken, too"
    )
