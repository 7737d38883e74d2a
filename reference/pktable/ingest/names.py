"""Compare the columns that a caller gives with those that the table expects, and say plainly how they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from pktable_spec.errors import InvalidRequestError

from pktable.format.metadata.schema import TableSchema

Optional: TypeAlias = Sequence[frozenset[str]]
"""Sets of columns that rows of a write can leave out, each as a whole."""


def optional_columns(schema: TableSchema) -> Optional:
    """Return the columns that rows of a write can leave out, because nulls there change nothing.

    Those of a sequence group are one set: with a value of its sequence, a null takes the place of a value.
    Clauses: TBL-24.
    """
    if schema.options.get("merge-engine") != "partial-update":
        return ()
    left = {f.name for f in schema.fields if f.type.nullable and f.name not in schema.primary_keys}
    groups = []
    for name, value in schema.options.items():
        if name.startswith("fields.") and name.endswith(".sequence-group"):
            ordering = name.removeprefix("fields.").removesuffix(".sequence-group")
            groups.append(frozenset(one.strip() for one in f"{ordering},{value}".split(",")))
    alone = left.difference(*groups)
    return [*(group for group in groups if group <= left), *(frozenset([name]) for name in alone)]


def expect_columns(
    found: Sequence[object],
    expected: Sequence[str],
    schema: TableSchema,
    *,
    at: str = "columns",
    optional: Optional = (),
) -> None:
    """Raise InvalidRequestError unless ``found`` are the ``expected`` columns, each once, in any order.

    ``at``: where the columns were found; the message begins with it. ``optional``: what may be absent.
    Clauses: TBL-8, TBL-13, TBL-24.
    """
    names = set(found)
    absent = {name for one in optional if names.isdisjoint(one) for name in one}
    if len(found) == len(names) and set(expected) - absent <= names <= set(expected):
        return
    problems = [f"{name} occurs {count} times" for name, count in Counter(found).items() if count > 1]
    missing = [name for name in expected if name not in found]
    unknown = [str(name) for name in dict.fromkeys(found) if name not in expected]
    for name in list(unknown):
        same = [other for other in missing if other.casefold() == name.casefold()]
        if same:  # SQL would take one for the other
            problems.append(f"{name} must be written {same[0]}")
            unknown.remove(name)
            missing.remove(same[0])
    missing = [name for name in missing if name not in absent]
    keys = [name for name in missing if name in schema.primary_keys]
    others = [name for name in missing if name not in keys]
    problems += [f"primary-key column {name} is missing" for name in keys]
    problems += [f"column {name} is missing" for name in others]
    for name in unknown:
        # Only deletes by key do not expect all columns of the table.
        what = "is not part of the primary key" if name in schema.value_names else "is not in the table"
        problems.append(f"column {name} {what}")
    raise InvalidRequestError(f"{at}: {'; '.join(problems)}; expected {', '.join(expected)}")
