"""A condition in the forms in which callers have it: SQL text, or an expression of pyarrow or polars.

Clauses: WH-24.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pktable_spec.errors import InvalidRequestError

from pktable.format.types import Field


def expect_condition(where: Any, what: str = "where") -> str | None:
    """Return whose expression a condition is: of pyarrow or polars, None of text. Raises InvalidRequestError."""
    if where is None or isinstance(where, str):
        return None
    kind = type(where)
    library = kind.__module__.partition(".")[0]
    if (library, kind.__name__) in (("pyarrow", "Expression"), ("polars", "Expr")):
        return library
    if library == "polars":
        raise InvalidRequestError(f"{what}: expected a condition, found a {kind.__name__} of polars")
    raise InvalidRequestError(
        f"{what}: expected text, found {kind.__name__}; an expression of pyarrow or polars is taken, too"
    )


def condition_text(where: Any, fields: Sequence[Field], what: str = "where") -> str | None:
    """Return a condition on rows with the columns ``fields`` as SQL.

    An expression of pyarrow or polars means what the same condition means in SQL. Raises InvalidRequestError for
    anything else, and for an expression that has no text here. Clauses: WH-24, WH-32.
    """
    library = expect_condition(where, what)
    if library == "pyarrow":
        from pktable.predicate.from_arrow import as_text  # late: it brings Arrow's kernels

        return as_text(where, fields, what)
    if library == "polars":
        from pktable.predicate.from_polars import as_text as polars_text

        return polars_text(where, fields, what)
    text: str | None = where
    return text
