"""Parse SQL text in Spark's dialect with sqlglot, and resolve it to the typed tree with `resolver`.

Clauses: RD-6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pktable_spec.errors import InvalidRequestError
from sqlglot import errors, exp

from pktable.format.types import Field
from pktable.predicate.dialect import SPARK
from pktable.predicate.resolver import Node, Resolver, quoted
from pktable.predicate.scope import Scope
from pktable.predicate.tree import Expression, depth

DEEPEST: Final = 200
"""How deeply a condition may be nested: whoever evaluates it calls itself for each level, twice or three times.

Clauses: WH-33.
"""


def resolve(where: str, fields: Sequence[Field]) -> Expression:
    """Return ``where`` as a condition over ``fields``. Raises InvalidRequestError."""
    return resolve_condition(where, Scope.of(fields), what="where")


def resolve_condition(text: str, scope: Scope, *, what: str) -> Expression:
    """Return ``text`` as a condition over ``scope``. ``what``: how messages call it. Raises InvalidRequestError."""
    return _resolved(text, scope, what, Resolver.condition)


def resolve_value(text: str, scope: Scope, *, what: str) -> Expression:
    """Return ``text`` as a value over ``scope``. ``what``: how messages call it. Raises InvalidRequestError."""
    return _resolved(text, scope, what, Resolver.expression)


def columns_named(text: str) -> list[tuple[str, str]]:
    """Return the columns that ``text`` names outside of subqueries, each with its table, "" if it has none.

    None are returned of a text that cannot be parsed here.
    """
    try:
        nodes = SPARK.parse_into(exp.Condition, text)
    except (errors.ParseError, errors.TokenError, RecursionError):
        return []
    columns = (column for node in nodes if node is not None for column in node.find_all(exp.Column))
    return [(one.table, one.name) for one in columns if one.find_ancestor(exp.Query) is None]


def _resolved(
    text: str, scope: Scope, what: str, meaning: Callable[[Resolver, Node], Expression]
) -> Expression:
    if not isinstance(text, str):
        raise InvalidRequestError(f"{what}: expected SQL text, found {type(text).__name__}")
    at = f"{what} {quoted(text)}"
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(f"{at}: expected whole characters, found half a surrogate pair") from None
    try:
        nodes = SPARK.parse_into(exp.Condition, text)
        if len(nodes) != 1 or nodes[0] is None:
            count = "none" if nodes[0] is None else str(len(nodes))
            raise InvalidRequestError(f"{at}: expected one condition, found {count}")
        found = meaning(Resolver(at, scope), nodes[0])
        if depth(found) > DEEPEST:
            raise RecursionError
        return found
    except errors.ParseError as error:
        raise InvalidRequestError(f"{at}: {_parse_problem(error)}") from None
    except errors.TokenError as error:
        of_digits = str(error.__cause__).startswith("Numeric string")  # as sqlglot calls X'…'
        problem = "expected hexadecimal digits" if of_digits else "a quote is not closed"
        raise InvalidRequestError(f"{at}: {problem}") from None
    except RecursionError:
        raise InvalidRequestError(f"{at}: expression is nested too deeply") from None


def _parse_problem(error: errors.ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    problem = str(found.get("description") or error).partition(" for <")[0]
    line, column, text = (found.get(name, "?") for name in ("line", "col", "highlight"))
    return f"line {line}, column {column}, at {text!r}: {problem}"
