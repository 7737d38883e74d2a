"""Parse the SQL text of types and of column lists.

The text is split into tokens, which a recursive-descent parser reads from left to right. ``ARRAY<INT NOT NULL>``,
``MAP<STRING, INT>``, ``ROW<a INT, b STRING>`` and ``STRUCT<a: INT>`` may be nested `DEEPEST` levels deep. Keywords may
be in any case. A name that is a keyword or has special characters must be in backquotes.

Clauses: META-19.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from pktable_spec.errors import InvalidRequestError

TOKEN: Final = re.compile(
    r"\s*(?:(?P<word>[^\W\d]\w*)|(?P<number>[0-9]+)|(?P<punctuation>[<>(),:])"
    r"|`(?P<quoted>(?:[^`]|``)+)`|'(?P<text>(?:[^']|'')*)')",
)
ALIASES: Final = {
    "INTEGER": "INT",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    "STRUCT": "ROW",
}
PLAIN: Final = frozenset(
    {
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DATE",
        "STRING",
        "BYTES",
        "VARIANT",
    }
)
SIZED: Final = frozenset({"CHAR", "VARCHAR", "BINARY", "VARBINARY"})
UNBOUNDED: Final = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}
UNSUPPORTED: Final = frozenset({"MULTISET", "BLOB", "VECTOR", "GEOMETRY", "GEOGRAPHY"})
"""Types that Paimon has and that are not supported."""

GREATEST_LENGTH: Final = (1 << 31) - 1  # of VARCHAR and VARBINARY, where it means no limit
DEEPEST: Final = 64


@dataclass(frozen=True)
class ParsedType:
    """A type as its text states it, before fields have ids."""

    root: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    children: tuple[ParsedField, ...] = ()
    nullable: bool = True


@dataclass(frozen=True)
class ParsedField:
    """A name with a type; ARRAY and MAP name their parts element, key and value."""

    name: str
    type: ParsedType
    comment: str | None = None


@dataclass
class Tokens:
    """A cursor over the tokens of ``text``, ``what`` it is in messages.

    ``rest``: (kind, value) of each token not yet read, the next one last.
    """

    text: str
    what: str = "type"
    rest: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rest = list(_tokens(self.text, self.what))[::-1]

    def peek(self) -> str:
        """Return the next token if it is a word (in capitals) or punctuation, else an empty string."""
        kind, value = self.rest[-1] if self.rest else ("end", "")
        return value.upper() if kind in ("word", "punctuation") else ""

    def accept(self, *words: str) -> bool:
        """Consume ``words`` if all of them come next; return whether they did."""
        ahead = [
            value.upper() if kind in ("word", "punctuation") else ""
            for kind, value in self.rest[-len(words) :]
        ]
        if ahead[::-1] != list(words):
            return False
        del self.rest[-len(words) :]
        return True

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise self.error(f"expected {word}")

    def take(self, *kinds: str) -> str:
        """Consume a token of one of ``kinds`` and return its value."""
        if not self.rest or self.rest[-1][0] not in kinds:
            raise self.error(f"expected a {'name' if 'quoted' in kinds else kinds[0]}")
        return self.rest.pop()[1]

    def error(self, expected: str) -> InvalidRequestError:
        found = repr(self.rest[-1][1]) if self.rest else "the end"
        return InvalidRequestError(f"{self.what} {self.text!r}: {expected}, found {found}")


def _tokens(text: str, what: str) -> Iterator[tuple[str, str]]:
    at = 0
    end = len(text.rstrip())
    while at < end:
        match = TOKEN.match(text, at)
        if match is None:
            raise InvalidRequestError(f"{what} {text!r}: expected a type, found {text[at:].strip()!r}")
        kind = match.lastgroup or ""
        value = match[kind]
        if kind in ("quoted", "text"):
            delimiter = "`" if kind == "quoted" else "'"
            value = value.replace(delimiter * 2, delimiter)
        yield kind, value
        at = match.end()


def quoted(name: str) -> str:
    """Return a name in backquotes, which SQL takes literally, dots and all."""
    return "`" + name.replace("`", "``") + "`"


def parse_type(text: str) -> ParsedType:
    """Return all of ``text`` parsed as one type. Raises InvalidRequestError."""
    tokens = Tokens(text)
    parsed = _type(tokens, DEEPEST)
    if tokens.rest:
        raise tokens.error("expected the end")
    return parsed


def parse_columns(text: str) -> tuple[ParsedField, ...]:
    """Return ``text`` parsed as a list of columns, at least one. Raises InvalidRequestError."""
    tokens = Tokens(text, "columns")
    columns = [_field(tokens, DEEPEST)]
    while tokens.accept(","):
        columns.append(_field(tokens, DEEPEST))
    if tokens.rest:
        raise tokens.error("expected a comma or the end")
    return tuple(columns)


def _field(tokens: Tokens, depth: int) -> ParsedField:
    name = tokens.take("word", "quoted")
    tokens.accept(":")
    parsed = _type(tokens, depth)
    tokens.accept("COMMENT")
    comment = tokens.take("text") if tokens.rest and tokens.rest[-1][0] == "text" else None
    return ParsedField(name, parsed, comment)


def _type(tokens: Tokens, depth: int) -> ParsedType:
    if not depth:
        raise tokens.error(f"expected types nested at most {DEEPEST} levels deep")
    word = tokens.peek()
    root = ALIASES.get(word, word)
    if root in UNSUPPORTED:
        raise tokens.error("expected a supported type")
    if root in PLAIN or root in SIZED or root in ("DECIMAL", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ"):
        tokens.take("word")
        parsed = _atomic(tokens, root)
    elif root in ("ARRAY", "MAP", "ROW"):
        tokens.take("word")
        parsed = _nested(tokens, root, depth - 1)
    else:
        raise tokens.error("expected a type")
    nullable = not tokens.accept("NOT", "NULL")
    if nullable:
        tokens.accept("NULL")
    return replace(parsed, nullable=nullable)


def _atomic(tokens: Tokens, root: str) -> ParsedType:
    if root in PLAIN:
        if root == "DOUBLE":
            tokens.accept("PRECISION")
        return ParsedType(root)
    numbers = _parameters(tokens, 2 if root == "DECIMAL" else 1)
    if root in SIZED:
        length = numbers[0] if numbers else 1
        if not 1 <= length <= GREATEST_LENGTH:
            raise InvalidRequestError(
                f"{tokens.what} {tokens.text!r}: expected a length from 1 to {GREATEST_LENGTH}"
            )
        unbounded = UNBOUNDED.get(root) if length == GREATEST_LENGTH else None
        return ParsedType(unbounded) if unbounded else ParsedType(root, length=length)
    if root == "DECIMAL":
        precision, scale = (*numbers, *(10, 0)[len(numbers) :])
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise InvalidRequestError(
                f"{tokens.what} {tokens.text!r}: expected at most 38 digits and a scale within them"
            )
        return ParsedType(root, precision=precision, scale=scale)
    precision = numbers[0] if numbers else 0 if root == "TIME" else 6
    if precision > 9:
        raise InvalidRequestError(f"{tokens.what} {tokens.text!r}: expected a precision from 0 to 9")
    if root == "TIMESTAMP" and tokens.accept("WITH", "LOCAL", "TIME", "ZONE"):
        root = "TIMESTAMP_LTZ"
    else:
        tokens.accept("WITHOUT", "TIME", "ZONE")
    return ParsedType(root, precision=precision)


def _parameters(tokens: Tokens, most: int) -> tuple[int, ...]:
    if not tokens.accept("("):
        return ()
    numbers = [int(tokens.take("number")[:12])]
    while len(numbers) < most and tokens.accept(","):
        numbers.append(int(tokens.take("number")[:12]))
    tokens.expect(")")
    return tuple(numbers)


def _nested(tokens: Tokens, root: str, depth: int) -> ParsedType:
    tokens.expect("<")
    if root == "ROW":
        children = [_field(tokens, depth)]
        while tokens.accept(","):
            children.append(_field(tokens, depth))
    elif root == "ARRAY":
        children = [ParsedField("element", _type(tokens, depth))]
    else:
        key = _type(tokens, depth)
        tokens.expect(",")
        children = [ParsedField("key", key), ParsedField("value", _type(tokens, depth))]
    tokens.expect(">")
    return ParsedType(root, children=tuple(children))
