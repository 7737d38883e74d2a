"""The words of a statement with their places in its text, so that parts of it are passed on as they were written.

A statement is never printed from a tree: that would change what the user wrote. Its kind and its parts are found by
words, and the text between two words goes to Spark as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, Final

import sqlglot
from pktable_spec.errors import InvalidRequestError
from sqlglot import errors, exp

from pktable.predicate.dialect import SPARK

BLANK: Final = re.compile(r"(?:\s+|--[^\n]*(?:\n|$))*")
CONTINUED: Final = re.compile(r"--[^\n]*\\\r?(?:\n|$)")
FIRST: Final = re.compile(r"[A-Za-z_]\w*")
OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")
QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
"""What a query begins with."""
TEXTS: Final = frozenset({"STRING", "RAW_STRING", "NATIONAL_STRING", "HEREDOC_STRING"})


@dataclass(frozen=True, slots=True)
class Word:
    """A token: its text without quotes, and its first and last character in the statement. ``kind``: of sqlglot's."""

    text: str
    start: int
    end: int
    kind: str

    @property
    def upper(self) -> str:
        """The word as a keyword, "" if it is a text or a quoted name."""
        return "" if self.kind in TEXTS or self.kind == "IDENTIFIER" else self.text.upper()

    @property
    def is_text(self) -> bool:
        return self.kind in TEXTS

    @property
    def is_name(self) -> bool:
        """Whether it can be a name: quoted, or of letters, as keywords are."""
        return self.kind == "IDENTIFIER" or (not self.is_text and bool(FIRST.fullmatch(self.text)))


@dataclass(frozen=True, slots=True)
class Name:
    """A name of one or several parts, and its first and last character."""

    parts: tuple[str, ...]
    start: int
    end: int

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass
class Words:
    """A statement, and how far it has been read: ``at`` is the number of the next word.

    ``defines``: whether it is of columns with their types, where ``<`` and ``>`` are brackets.
    """

    text: str
    words: Sequence[Word] = ()
    at: int = 0
    defines: bool = False

    @classmethod
    def of(cls, text: str) -> Words:
        """Return the words of one statement, a semicolon at its end left out. Raises InvalidRequestError."""
        if not isinstance(text, str):
            raise InvalidRequestError(f"sql: expected the text of a statement, found {type(text).__name__}")
        begin = _after_blank(text)
        first = FIRST.match(text, begin)
        found = []
        # The tokenizer takes what follows CALL or SHOW as one text, so it does not see the first word.
        if first is not None:
            found.append(Word(first[0], first.start(), first.end() - 1, "VAR"))
            begin = first.end()
        try:
            tokens = sqlglot.tokenize(text[begin:], read=SPARK)
        except errors.TokenError:
            raise InvalidRequestError("sql: a quote or a comment is not closed") from None
        found += [word for one in tokens for word in _apart(one, begin, text)]
        ends = [0, *(word.end + 1 for word in found)]
        starts = [*(word.start for word in found), len(text)]
        if any(CONTINUED.search(text, *gap) for gap in zip(ends, starts, strict=True)):
            raise InvalidRequestError(
                "sql: a comment ends in a backslash, so for Spark the next line belongs to it"
            )
        while found and found[-1].kind == "SEMICOLON":
            found.pop()
        if not found:
            raise InvalidRequestError("sql: expected a statement, found none")
        if any(one.kind == "SEMICOLON" for one in found):
            raise InvalidRequestError("sql: expected one statement, found several")
        return cls(text[: found[-1].end + 1], found)

    @property
    def first(self) -> str:
        """The first word."""
        return self.words[0].upper or self.words[0].text

    def peek(self, ahead: int = 0) -> Word | None:
        """Return a word that is not read yet, None beyond the end."""
        return self.words[self.at + ahead] if self.at + ahead < len(self.words) else None

    def sees(self, *keywords: str) -> bool:
        """Return whether the next words are ``keywords``."""
        found = self.words[self.at : self.at + len(keywords)]
        return [one.upper for one in found] == list(keywords)

    def take(self, *keywords: str) -> bool:
        """Read ``keywords`` if they come next; return whether they did."""
        if not self.sees(*keywords):
            return False
        self.at += len(keywords)
        return True

    def expect(self, *keywords: str) -> None:
        """Read ``keywords``. Raises InvalidRequestError if others come next."""
        if not self.take(*keywords):
            raise self.problem(" ".join(keywords))

    def any_of(self, *keywords: str) -> str | None:
        """Read and return the next word if it is one of ``keywords``."""
        word = self.peek()
        if word is None or word.upper not in keywords:
            return None
        self.at += 1
        return word.upper

    def problem(self, expected: str) -> InvalidRequestError:
        """Return the error that something else was expected here."""
        word = self.peek()
        found = "the end" if word is None else repr(self.text[word.start : word.end + 1])
        first = FIRST.match(self.text, _after_blank(self.text))
        statement = first[0].upper() if first else "sql"
        return InvalidRequestError(f"{statement}: expected {expected}, found {found}")

    def name(self) -> Name:
        """Read a name of one or several parts. Raises InvalidRequestError."""
        parts, start = [self._part()], self.words[self.at - 1].start
        while self.sees("."):
            self.at += 1
            parts.append(self._part())
        return Name(tuple(parts), start, self.words[self.at - 1].end)

    def whole_name(self) -> Name:
        """Read a name to the end. Raises InvalidRequestError if more follows."""
        name = self.name()
        self.expect_end()
        return name

    def _part(self) -> str:
        word = self.peek()
        if word is None or not word.is_name:
            raise self.problem("a name")
        self.at += 1
        following = self.peek()
        if following is not None and following.text == "$" and following.start == word.end + 1:
            raise without_quotes(word.text)
        return word.text

    def alias(self, *, but: Sequence[str]) -> str | None:
        """Read an alias, with AS or without, unless the next word is one of ``but``."""
        word = self.peek()
        if not self.take("AS") and (word is None or not word.is_name or word.upper in but):
            return None
        return self._part()

    def string(self) -> str:
        """Read a text in quotes. Raises InvalidRequestError."""
        word = self.peek()
        if word is None or not word.is_text:
            raise self.problem("a text in quotes")
        self.at += 1
        return word.text

    def constant(self) -> str:
        """Read a constant to the end: NULL, TRUE, FALSE, a number, or a text with its type before it or without.

        Returns the text read. Raises InvalidRequestError for anything else, which might hold for other rows, too.
        """
        begin = self.at
        text = self.rest()
        try:
            tree = sqlglot.parse_one(text, read=SPARK)
        except (errors.SqlglotError, RecursionError):
            tree = None
        while isinstance(tree, exp.Neg | exp.Cast):
            tree = tree.this
        if not isinstance(tree, exp.Literal | exp.Null | exp.Boolean | exp.HexString):
            self.at = begin
            raise self.problem("a constant")
        return text

    def until(self, *keywords: str) -> str:
        """Read up to one of ``keywords`` outside of parentheses and CASE, or the end; return the text read."""
        begin, depth, cases = self.at, 0, 0
        while (word := self.peek()) is not None:
            if _parameter(self.words, self.at) is not None:  # which may be called :end or :from
                self.at += 2
                continue
            if not depth and not cases and word.upper in keywords:
                break
            depth += (word.text in OPENING) - (word.text in CLOSING) if word.upper else 0
            depth += word.text.count("<") - word.text.count(">") if self.defines and word.upper else 0
            cases += (word.upper == "CASE") - (word.upper == "END" and cases > 0)
            self.at += 1
        return self._between(begin, self.at)

    def rest(self) -> str:
        """Read to the end; return the text read."""
        begin, self.at = self.at, len(self.words)
        return self._between(begin, self.at)

    def query(self) -> str:
        """Read a query to the end; return the text read. Raises InvalidRequestError."""
        word = self.peek()
        if word is None or word.upper not in QUERIES:
            raise self.problem("a query or VALUES")
        return self.rest()

    def group(self) -> list[Words]:
        """Read what is in parentheses, and return its parts between commas. Raises InvalidRequestError."""
        if not self.sees("("):
            raise self.problem("(")
        self.at += 1
        parts = self.parts()
        self.expect(")")
        return [] if len(parts) == 1 and not parts[0].words else parts

    def parts(self, *ends: str) -> list[Words]:
        """Read parts between commas up to one of the keywords ``ends``, a closing parenthesis, or the end."""
        found = [self._part_of(*ends)]
        while self.take(","):
            found.append(self._part_of(*ends))
        return found

    def _part_of(self, *ends: str) -> Words:
        begin = self.at
        self.until(",", *ends, ")")
        return Words(self.text, self.words[begin : self.at], defines=self.defines)

    @property
    def written(self) -> str:
        """The text of all words, as it was written."""
        return self._between(0, len(self.words))

    def _between(self, begin: int, end: int) -> str:
        return self.text[self.words[begin].start : self.words[end - 1].end + 1] if end > begin else ""

    def expect_end(self) -> None:
        """Raise InvalidRequestError unless everything is read."""
        if self.peek() is not None:
            raise self.problem("the end")


def _after_blank(text: str) -> int:
    """Return where a text goes on after blanks and comments, which may have others inside."""
    at, depth = 0, 0
    while True:
        blank = BLANK.match(text, at) if not depth else None
        at = blank.end() if blank else at
        if text.startswith("/*", at):
            at, depth = at + 2, depth + 1
        elif depth and text.startswith("*/", at):
            at, depth = at + 2, depth - 1
        elif depth and at < len(text):
            at += 1
        else:
            return at


def _apart(token: Any, begin: int, text: str) -> Iterator[Word]:
    """Yield the words of a token, which may be several, as PARTITIONED BY is. ``begin``: where it counts from."""
    start, end, kind = token.start + begin, token.end + begin, token.token_type.name
    if kind in TEXTS or kind == "IDENTIFIER" or not re.search(r"\s", token.text):
        yield Word(token.text, start, end, kind)
        return
    for found in re.finditer(r"\S+", text[start : end + 1]):
        yield Word(found[0], start + found.start(), start + found.end() - 1, "VAR")


def bound(statement: Words, args: Any) -> Words:
    """Return a statement with the values ``args`` in place of its parameters ``:name`` or ``?``.

    Raises InvalidRequestError for a parameter without a value, and a value that has no SQL.
    """
    if not args:
        return statement
    text, at, number, out = statement.text, 0, 0, []
    words = statement.words
    for i, word in enumerate(words):
        if word.text == "?" and word.upper and not isinstance(args, Mapping):
            key: Any = number
            number += 1
            end = word.end
        elif (named := _parameter(words, i)) is not None:
            key, end = named.text, named.end
        else:
            continue
        try:
            value = args[key]
        except (KeyError, IndexError, TypeError):
            raise InvalidRequestError(
                f"args: expected a value for the parameter {key!r}, found none"
            ) from None
        if isinstance(value, datetime) and value.tzinfo is None:  # of the zone of Python, as Spark takes it
            value = value.astimezone(timezone.utc)
        written = literal(value)
        apart = " " if written.startswith("-") else ""  # two minus begin a comment
        out += [text[at : word.start], apart, written]
        at = end + 1
    return Words.of("".join(out) + text[at:])


def has_parameters(words: Sequence[Word]) -> bool:
    """Return whether one of ``words`` begins a parameter ``:name`` or ``?``."""
    return any(
        (word.text == "?" and word.upper) or _parameter(words, i) is not None for i, word in enumerate(words)
    )


def _parameter(words: Sequence[Word], i: int) -> Word | None:
    """Return the name of a parameter after its colon, None for another colon, such as in STRUCT<a:INT>."""
    word = words[i]
    if (
        word.text != ":"
        or not word.upper
        or (i and words[i - 1].is_name and words[i - 1].end + 1 == word.start)
    ):
        return None
    return next((one for one in words[i + 1 : i + 2] if one.start == word.end + 1), None)


def literal(value: Any) -> str:
    """Return a Python value as SQL. Raises InvalidRequestError."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, str):
        return text_literal(value).replace("${", "\\u0024{")  # or a session puts a variable there
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, time) and value.tzinfo is None:
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    raise InvalidRequestError(f"args: expected a number, text, date or time, found {type(value).__name__}")


def without_quotes(name: str) -> InvalidRequestError:
    """Return the error for a name before ``$`` that is not quoted, which Spark does not read as one name."""
    return InvalidRequestError(f"{name}$…: a name with $ needs backquotes, such as `{name}$snapshots`")


def text_literal(text: str) -> str:
    """Return a text as Spark quotes it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"
