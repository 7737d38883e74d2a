"""Where a query names tables, and at which version: found by sqlglot, as places in the text.

The tree of sqlglot says which names are tables: not those of columns, nor of the query's own WITH. The clauses VERSION
AS OF and TIMESTAMP AS OF are found by words, and blanked out for sqlglot. So is CHANGES FROM VERSION, which gives the
changes of a table with the columns that Spark gives them.

Clauses: WH-21.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import sqlglot
from pktable_spec.errors import InvalidRequestError
from sqlglot import errors, exp

from pktable.sql.words import Word, Words, quoted, without_quotes

if TYPE_CHECKING:
    from pktable.change_scan import ChangeScan
    from pktable.table import Table


VERSIONS: Final = ("VERSION", "SYSTEM_VERSION")
TIMES: Final = ("TIMESTAMP", "SYSTEM_TIME")
BEFORE_QUERIES: Final = ("(", ")", "UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "MINUS", "AS")
BEFORE_PARENTHESES: Final = (*BEFORE_QUERIES, "FROM", "JOIN", "IN", "EXISTS")
SIGNS: Final = ("+", "-")
PARAMETER: Final = re.compile(r"(?<!:):[A-Za-z_]|\?")


class NotUnderstoodError(InvalidRequestError):
    """A statement that cannot be parsed here."""


@dataclass(frozen=True, slots=True)
class Travel:
    """A clause VERSION AS OF or TIMESTAMP AS OF. ``value``: its text, ``word`` where that is a single word."""

    is_version: bool
    value: str
    word: Word | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ChangesClause:
    """A clause CHANGES FROM VERSION, as Spark 4.2 has it. ``first``, ``last``: ids or tags, None for the latest.

    ``after``, ``before``: whether the changes of the first or the last version are left out.
    """

    first: Word
    last: Word | None
    after: bool
    before: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reference:
    """A table that a query reads: its name, and its first and last character with the clause ``travel`` or ``changes``.

    ``alias_at``: where an alias belongs if the query gives none, after a TABLESAMPLE; None if it gives one.
    ``is_alone``: whether nothing else in the query has its name without the database.
    """

    parts: tuple[str, ...]
    start: int
    end: int
    travel: Travel | None
    alias_at: int | None
    changes: ChangesClause | None = None
    is_alone: bool = True


def references(text: str) -> list[Reference]:
    """Return the tables that a query or a statement names, in order. Raises NotUnderstoodError."""
    words = Words.of(text)
    travels = list(_travels(words))
    blanked = text
    for one in travels:
        blanked = blanked[: one.start] + " " * (one.end + 1 - one.start) + blanked[one.end + 1 :]
    try:
        tree = sqlglot.parse_one(blanked, read="spark")
    except errors.ParseError as error:
        found = error.errors[0] if error.errors else {}
        place = f"line {found.get('line', '?')}, column {found.get('col', '?')}"
        raise NotUnderstoodError(
            f"{place}, at {found.get('highlight', '')!r}: {found.get('description')}"
        ) from None
    except (errors.SqlglotError, AssertionError) as error:  # which it raises for some queries with |>
        raise NotUnderstoodError(str(error).partition("\n")[0]) from None
    except RecursionError:
        raise NotUnderstoodError("it is nested too deeply") from None
    if tree.find(exp.Command) is not None:
        raise NotUnderstoodError(f"{words.first} …")
    named = sorted(
        (one for one in tree.find_all(exp.Table) if not _is_of_the_query(one)), key=lambda one: _span(one)
    )
    known = _named_by(tree)
    found = [_reference(one, words, travels) for one in named if one.parts]
    return [replace(one, is_alone=len(known[one.parts[-1].lower()]) == 1) for one in found]


def _named_by(tree: exp.Expression) -> Mapping[str, set[str]]:
    """Return what each name means somewhere in a query: tables by all parts of their names, or an alias."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for one in tree.find_all(exp.Table):
        found[one.name.lower()].add(".".join(part.name.lower() for part in one.parts))
    for alias in tree.find_all(exp.TableAlias):
        found[alias.name.lower()].add("alias")
    return found


def with_tables(
    text: str, instead: Sequence[tuple[Reference, str]], others: Callable[[str], str] = str
) -> str:
    """Return a query with other words in place of tables, which keep the names that the query gives them.

    ``others``: what becomes of all other parts of the text. A column that is named with the database of its table loses
    it, because what stands in place of the table has none.
    """
    edits = [(*span, "") for span in _databases(text, [one for one, _ in instead])]
    for one, words in instead:
        edits.append((one.start, one.end + 1, words))
        if one.alias_at is not None:
            edits.append((one.alias_at, one.alias_at, f" AS {quoted(one.parts[-1])}"))
    return _edited(text, edits, others)


def without_databases(words: Words) -> Words:
    """Return an UPDATE, DELETE or MERGE in which no column is named with the database of its table."""
    dots = [word.text == "." for word in words.words]
    if not any(dots[i] and dots[i + 2] for i in range(len(dots) - 2)):  # no name has three parts
        return words
    try:
        spans = _databases(words.text, references(words.text))
    except NotUnderstoodError:
        return words
    return Words.of(_edited(words.text, [(*span, "") for span in spans]))


def _edited(text: str, edits: Iterable[tuple[int, int, str]], others: Callable[[str], str] = str) -> str:
    """Return ``text`` with (first, end, words in place) of each edit."""
    out, at = [], 0
    for start, end, words in sorted(edits):
        out += [others(text[at:start]), words]
        at = end
    return "".join(out) + others(text[at:])


def _databases(text: str, tables: Sequence[Reference]) -> list[tuple[int, int]]:
    """Return where names of columns begin with the database of one of ``tables``: from there to the table's name."""
    known = {
        tuple(part.lower() for part in one.parts[i:])
        for one in tables
        if one.alias_at is not None and one.is_alone
        for i in range(len(one.parts) - 1)
    }
    words, found, i = Words.of(text).words if known else (), [], 0
    while i < len(words):
        begin = i
        while i + 2 < len(words) and words[i + 1].text == "." and words[i + 2].is_name:
            i += 2
        has_more = i + 1 < len(words) and words[i + 1].text == "."  # t.*
        name = words[begin : i + 1 : 2]
        for count in range(2, len(name) + has_more):
            if tuple(word.text.lower() for word in name[:count]) in known:
                found.append((name[0].start, name[count - 1].start))
                break
        i += 1
    return found


def has_parameters(text: str) -> bool:
    """Return whether a version or a time that a query asks for is a parameter, such as VERSION AS OF :v."""
    return any(isinstance(one, Travel) and PARAMETER.search(one.value) for one in _travels(Words.of(text)))


def selecting(text: str) -> str:
    """Return a query with ``SELECT * FROM t`` in place of each ``TABLE t``, which sqlglot does not know as a query.

    The argument of a function, as in ``f(TABLE t)``, is another thing.
    """
    words = Words.of(text).words
    out, at = [], 0
    for i, word in enumerate(words[:-1]):
        before = words[i - 1] if i else None
        begins = before is None or before.upper in BEFORE_QUERIES
        outside = words[i - 2] if before is not None and before.text == "(" and i > 1 else None
        called = outside is not None and outside.is_name and outside.upper not in BEFORE_PARENTHESES
        if word.upper == "TABLE" and begins and not called and words[i + 1].is_name:
            out += [text[at : word.start], "SELECT * FROM"]
            at = word.end + 1
    return "".join(out) + text[at:]


def _reference(table: exp.Table, words: Words, travels: Sequence[Travel | ChangesClause]) -> Reference:
    parts = tuple(part.name for part in table.parts)
    start, end = _span(table)
    if words.text[start] in "'\"":
        raise NotUnderstoodError(f"{words.text[start : end + 1]} is a text and no name of a table")
    if words.text[end + 1 : end + 2] == "$":
        raise without_quotes(parts[-1])
    after = next((i for i, word in enumerate(words.words) if word.start > end), len(words.words))
    following = words.words[after] if after < len(words.words) else None
    found = next((one for one in travels if following is not None and one.start == following.start), None)
    end = found.end if found else end
    alias_at = None if table.alias else _alias_at(words, end)
    if isinstance(found, ChangesClause):
        return Reference(parts, start, end, None, alias_at, found)
    return Reference(parts, start, end, found, alias_at)


def _alias_at(words: Words, end: int) -> int:
    """Return the place after a name that ends at ``end``, and after its TABLESAMPLE."""
    at = next((i for i, word in enumerate(words.words) if word.start > end), len(words.words))
    cursor = Words(words.text, words.words, at)
    if not cursor.take("TABLESAMPLE"):
        return end + 1
    cursor.take("SYSTEM")
    cursor.group()
    if cursor.take("REPEATABLE"):
        cursor.group()
    return cursor.words[cursor.at - 1].end + 1


def _span(table: exp.Table) -> tuple[int, int]:
    places = [part.meta for part in table.parts]
    if not places or any("start" not in one for one in places):
        raise NotUnderstoodError(f"a table without a name: {table.sql('spark')}")
    return int(places[0]["start"]), int(places[-1]["end"])


def _is_of_the_query(table: exp.Table) -> bool:
    """Return whether a name is one that a WITH around it defines, or no name at all, as of a function."""
    if not isinstance(table.this, exp.Identifier):
        return True
    if len(table.parts) > 1:
        return False
    name = table.name.lower()
    inside, around = table, table.parent
    while around is not None:
        if isinstance(
            around, exp.With
        ):  # a name is known after its definition, and of the query around it no other
            number = around.expressions.index(inside) + bool(around.args.get("recursive"))
            known = around.expressions[:number]
            around = around.parent
        else:
            with_ = around.args.get("with_") or around.args.get("with")
            known = with_.expressions if with_ is not None else []
        if any(cte.alias.lower() == name for cte in known):
            return True
        inside, around = around, around.parent if around is not None else None
    return False


def _travels(words: Words) -> Iterator[Travel | ChangesClause]:
    """Yield the clauses VERSION AS OF, TIMESTAMP AS OF and CHANGES FROM VERSION."""
    cursor = Words(words.text, words.words)
    while cursor.peek() is not None:
        found = read_travel(cursor) or _read_changes(cursor)
        if found is None:
            cursor.at += 1
        else:
            yield found


def read_travel(cursor: Words) -> Travel | None:
    """Read a clause VERSION AS OF or TIMESTAMP AS OF if it comes next. Raises InvalidRequestError."""
    begin = cursor.at
    cursor.take("FOR")
    kind = cursor.any_of(*VERSIONS, *TIMES)
    if kind is None or not cursor.take("AS", "OF"):
        cursor.at = begin
        return None
    first = cursor.at
    _term(cursor)
    while kind in TIMES and (sign := cursor.peek()) is not None and sign.text in SIGNS:
        cursor.at += 1
        _term(cursor)
    words, last = cursor.words, cursor.words[cursor.at - 1]
    alone = words[first] if cursor.at == first + 1 else None
    value = cursor.text[words[first].start : last.end + 1]
    return Travel(kind in VERSIONS, value, alone, words[begin].start, last.end)


def _read_changes(cursor: Words) -> ChangesClause | None:
    """Read a clause CHANGES FROM VERSION if it comes next. Raises InvalidRequestError. Clauses: WH-21."""
    begin = cursor.at
    if (
        not cursor.take("CHANGES", "FROM")
        or not (word := cursor.peek())
        or word.upper not in VERSIONS + TIMES
    ):
        cursor.at = begin
        return None
    first, after = _end_of_changes(cursor)
    last, before = _end_of_changes(cursor) if cursor.take("TO") else (None, False)
    return ChangesClause(
        first, last, after, before, cursor.words[begin].start, cursor.words[cursor.at - 1].end
    )


def _end_of_changes(cursor: Words) -> tuple[Word, bool]:
    """Read ``VERSION n`` and whether it is EXCLUSIVE. Raises InvalidRequestError."""
    if cursor.any_of(*VERSIONS) is None:
        raise InvalidRequestError("CHANGES: expected VERSION and the id of a snapshot or a tag in quotes")
    word = cursor.peek()
    if word is None or not (word.is_text or word.text.isdecimal()):
        raise cursor.problem("the id of a snapshot, or a tag in quotes")
    cursor.at += 1
    return word, cursor.any_of("INCLUSIVE", "EXCLUSIVE") == "EXCLUSIVE"


def _term(cursor: Words) -> None:
    """Read a value: a literal, an interval, a call, or something in parentheses."""
    if cursor.sees("("):
        cursor.group()
        return
    if cursor.take("INTERVAL"):
        cursor.at += 2
    elif (word := cursor.peek()) is None:
        raise cursor.problem("a version or a time")
    elif word.is_name:
        cursor.at += 1
        if cursor.sees("("):
            cursor.group()
        elif (following := cursor.peek()) is not None and following.is_text:
            cursor.at += 1  # TIMESTAMP '…'
    else:
        cursor.at += 1 + (word.text == ":")  # :name


CHANGE_TYPE: Final = "_change_type"
CHANGE_TYPES: Final = MappingProxyType(
    {"+I": "insert", "-D": "delete", "-U": "update_preimage", "+U": "update_postimage"}
)
"""Each kind of change as Spark calls it."""


def changes_of(table: Table, clause: ChangesClause) -> ChangeScan:
    """Return the changes that a clause asks for, with the id and the time of their snapshot.

    Raises InvalidRequestError, SnapshotNotFoundError. Clauses: WH-21.
    """
    latest = table.catalog.snapshots.latest_id() or 0
    start = _snapshot(table, clause.first, latest)
    end = None if clause.last is None else _snapshot(table, clause.last, latest)
    if end is not None and start > end:
        raise InvalidRequestError(
            f"CHANGES FROM VERSION {start} TO VERSION {end}: the first is after the last"
        )
    return table.changes(
        start if clause.after else start - 1,
        end if end is None or not clause.before else end - 1,
        commits=True,
    )


def _snapshot(table: Table, word: Word, latest: int) -> int:
    """Return the id of a snapshot that a word names: a tag of that name, or a number. Clauses: WH-11."""
    if word.text.isdecimal() and word.text not in table.catalog.snapshots.tags():
        if not 1 <= int(word.text) <= latest:
            raise InvalidRequestError(
                f"CHANGES FROM VERSION: expected a snapshot from 1 to {latest} or a tag in quotes, found {word.text}"
            )
        return int(word.text)
    return table.catalog.snapshots.by_tag(word.text).id
