"""ALTER TABLE … TAG, as Paimon's extension of SQL has it.

Clauses: WH-19.
"""

from __future__ import annotations

from typing import Any, Final

from pktable_spec.errors import InvalidRequestError

from pktable.sql.words import Words
from pktable.table import Table

ACTIONS: Final = ("CREATE", "REPLACE", "DELETE", "RENAME")


def altered_tag(table: Table, words: Words) -> bool:
    """Carry out what follows the name in an ALTER TABLE if it is about a tag; return whether it was.

    Raises InvalidRequestError, SnapshotNotFoundError. Clauses: WH-19.
    """
    begin = words.at
    action = words.any_of(*ACTIONS)
    replaces = action == "CREATE" and words.take("OR", "REPLACE")
    if action is None or not words.take("TAG"):
        words.at = begin
        return False
    if_not_exists = action == "CREATE" and words.take("IF", "NOT", "EXISTS")
    if_exists = action in ("DELETE", "RENAME") and words.take("IF", "EXISTS")
    names = [one.strip() for one in str(words.name()).split(",")]
    there = table.tags()
    if action == "DELETE":
        delete_tags(table, [name for name in names if name in there or not if_exists])
        return True
    (name,) = names if len(names) == 1 else (",".join(names),)
    if action == "RENAME":
        words.expect("TO")
        to = str(words.name())
        if name in there or not if_exists:
            table.rename_tag(name, to)
        return True
    snapshot = _version(words)
    if action == "REPLACE" or (replaces and name in there):
        replace_tag(table, name, snapshot)
    elif name not in there or not if_not_exists:
        table.create_tag(name, snapshot=snapshot)
    return True


def _version(words: Words) -> int | None:
    """Read ``AS OF VERSION n``, None if it is not there. Raises InvalidRequestError for RETAIN."""
    found: int | None = None
    if words.take("AS", "OF", "VERSION"):
        word: Any = words.peek()
        if word is None or not word.text.isdecimal():
            raise words.problem("the id of a snapshot")
        found = int(word.text)
        words.at += 1
    if words.sees("RETAIN"):
        raise InvalidRequestError(
            "ALTER: RETAIN is not supported, because nothing here deletes a tag by itself; leave RETAIN out"
        )
    return found


def replace_tag(table: Table, name: str, snapshot: int | None) -> None:
    """Let a tag that is there keep another snapshot. Raises InvalidRequestError, SnapshotNotFoundError."""
    _expect(table, name)
    table.replace_tag(name, snapshot=snapshot)


def delete_tags(table: Table, names: list[str]) -> None:
    """Delete tags, all or none that is not there. Raises InvalidRequestError, which says which tags there are."""
    for name in names:
        _expect(table, name)
    for name in names:
        table.delete_tag(name)


def _expect(table: Table, name: str) -> None:
    there = table.tags()
    if name not in there:
        raise InvalidRequestError(f"tag {name!r}: not there; there are {', '.join(sorted(there)) or 'none'}")
