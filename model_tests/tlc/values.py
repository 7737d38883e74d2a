"""TLA+ values as TLC prints them, read into Python.

Sequences become tuples, sets frozensets, records and functions `Map`s (hashable dicts), strings and
model values strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final, TypeAlias

Value: TypeAlias = Any  # int, bool, str, tuple, frozenset or Map, as the module has it

TOKEN: Final = re.compile(r'\s*(<<|>>|\|->|:>|@@|[{}\[\](),]|"[^"]*"|-?\d+|\w+)')
ASSIGNMENT: Final = re.compile(r"/\\ (\w+) = (.*?)(?=\n/\\ |\Z)", re.S)


class Map(dict[str, Value]):
    """A record or a function: a dict that can be an element of a set."""

    def __hash__(self) -> int:  # type: ignore[override]  # never changed after it was read
        return hash(frozenset(self.items()))


def parse(text: str) -> Value:
    """Return the value that ``text`` spells. Raises ValueError where it is none."""
    tokens = TOKEN.findall(text)
    if TOKEN.sub("", text).strip():
        raise ValueError(f"expected a TLA+ value, found {text!r}")
    reader = _Reader(tokens)
    value = reader.value()
    if reader.left():
        raise ValueError(f"expected one TLA+ value, found {text!r}")
    return value


def variables(text: str) -> dict[str, Value]:
    r"""Return the variables of a state, printed as ``/\ name = value`` lines."""
    return {name: parse(value) for name, value in ASSIGNMENT.findall(text.strip())}


def spelled(value: object) -> str:
    """Return a Python value as TLA+: tuples and lists are sequences, dicts records, sets sets."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return "[" + ", ".join(f"{name} |-> {spelled(one)}" for name, one in value.items()) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(spelled, value))) + "}"
    assert isinstance(value, tuple | list), f"no TLA+ for {value!r}"
    return "<<" + ", ".join(map(spelled, value)) + ">>"


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def left(self) -> int:
        return len(self.tokens) - self.at

    def next(self, expected: str | None = None) -> str:
        if not self.left() or (expected is not None and self.tokens[self.at] != expected):
            raise ValueError(f"expected {expected or 'a value'} at token {self.at} of {self.tokens}")
        self.at += 1
        return self.tokens[self.at - 1]

    def until(self, end: str, one: Callable[[], Hashable]) -> Iterator[Any]:
        while self.tokens[self.at : self.at + 1] != [end]:
            yield one()
            if self.tokens[self.at : self.at + 1] == [","]:
                self.next()
        self.next(end)

    def field(self) -> tuple[str, Value]:
        name = self.next()
        self.next("|->")
        return name, self.value()

    def value(self) -> Value:
        token = self.next()
        if token == "<<":
            return tuple(self.until(">>", self.value))
        if token == "{":
            return frozenset(self.until("}", self.value))
        if token == "[":
            return Map(self.until("]", self.field))
        if token == "(":
            return self.function()
        if token in ("TRUE", "FALSE"):
            return token == "TRUE"
        if token.startswith('"'):
            return token[1:-1]
        return int(token) if re.fullmatch(r"-?\d+", token) else token

    def function(self) -> Map:
        function = Map()
        while True:
            argument = self.value()
            self.next(":>")
            function[argument] = self.value()
            if self.next() == ")":
                return function
