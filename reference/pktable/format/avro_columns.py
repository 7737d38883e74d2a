"""Decode the records of an Avro block column by column, many records at once, for blocks of many records.

Records have no lengths: where one begins is known once the one before it has been decoded. This module guesses.

1. `decode_columns` gets the places where a record may begin, found by what records of a kind begin with. The first
   record begins at 0.
2. All guesses are decoded in step, field by field: a cursor for each, and numpy for all of them at once.
3. The records are a chain from 0: each ends where the next begins. If the chain ends at the end of the block, and has
   as many records as the block says, a decoder that goes record by record would find the same, because it is the same
   walk. Guesses outside of the chain are dropped.

Whatever else is found is no error here: `NotInColumns` is raised, and the caller decodes record by record, which says
what is wrong. Schemas may have integers, bytes, strings, arrays, records, and unions of one of these and null.

Clauses: META-3, META-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

MOST_SHIFT: Final = 56  # of the ninth byte of an integer; one of ten bytes is decoded record by record
MOST_ITEMS: Final = 4096  # of an array; a wrong guess may state any number
ROOM: Final = 1  # bytes behind a block, so that a cursor at its end can be read from


class NotInColumns(Exception):  # noqa: N818 - a request to decode otherwise, no error
    """The block has to be decoded record by record."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of integers, one a record."""

    values: Integers

    def list(self) -> list[Any]:
        values: list[Any] = self.values.tolist()
        return values

    def chosen(self, places: Integers) -> Numbers:
        return Numbers(self.values[places])


@dataclass(frozen=True)
class Spans:
    """A column of bytes, or of strings if ``text``: where in ``block`` each begins and ends."""

    block: bytes
    starts: Integers
    ends: Integers
    text: bool

    def chosen(self, places: Integers) -> Spans:
        return Spans(self.block, self.starts[places], self.ends[places], self.text)

    def list(self) -> list[Any]:
        """Return the values, which are remembered. Raises NotInColumns for text that is not UTF-8."""
        values: list[Any] = self._values
        return values

    @cached_property
    def _values(self) -> Any:
        block = self.block
        found = [block[i:j] for i, j in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]
        if not self.text:
            return found
        try:
            return [value.decode() for value in found]
        except UnicodeDecodeError:
            raise NotInColumns from None


@dataclass(frozen=True, slots=True)
class Nullable:
    """A column of which some values are null: which are ``present``, and the column of these."""

    present: Flags
    column: Column

    def chosen(self, places: Integers) -> Nullable:
        present = self.present[places]
        return Nullable(present, self.column.chosen(_ranks(self.present)[places[present]]))


@dataclass(frozen=True, slots=True)
class Lists:
    """A column of arrays: how many items each has, and the i-th items of all that have so many."""

    counts: Integers
    items: list[Column]

    def chosen(self, places: Integers) -> Lists:
        counts = self.counts[places]
        items = [
            item.chosen(_ranks(self.counts > i)[places[counts > i]])
            for i, item in enumerate(self.items[: int(counts.max(initial=0))])
        ]
        return Lists(counts, items)


@dataclass(frozen=True, slots=True)
class Records:
    """A column of records: a column for each field."""

    count: int
    fields: Mapping[str, Column]

    def chosen(self, places: Integers) -> Records:
        """Return the records at ``places``, as every column returns its values there."""
        return Records(len(places), {name: column.chosen(places) for name, column in self.fields.items()})


Column: TypeAlias = "Numbers | Spans | Nullable | Lists | Records"


def _ranks(flags: Flags) -> Integers:
    """Return for each flag that is set how many are set before it."""
    ranks: Integers = np.cumsum(flags) - 1
    return ranks


def decode_columns(block: bytes, schema: Any, count: int, starts: Integers) -> Records:
    """Return the ``count`` records of a block. ``schema``: as JSON, without logical types.

    ``starts``: ascending, where records may begin; the records are among them. Raises NotInColumns.
    """
    if not len(starts) or starts[0] != 0:
        raise NotInColumns
    walk = _Walk(block)
    found, ends, wrong = walk.records(schema, starts)
    if len(starts) != count or wrong or ends[-1] != len(block) or bool(np.any(ends[:-1] != starts[1:])):
        chosen = _chain(starts.tolist(), ends.tolist(), len(block))
        if len(chosen) != count or len(chosen) == len(starts):
            raise NotInColumns
        return decode_columns(block, schema, count, starts[chosen])
    return found


def _chain(starts: list[int], ends: list[int], end: int) -> list[int]:
    """Return the numbers of the guesses that follow one another from the first one to ``end``."""
    numbers = {start: i for i, start in enumerate(starts)}
    at, chosen = 0, []
    while at != end:
        number = numbers.get(at)
        if number is None or ends[number] <= at:
            raise NotInColumns
        chosen.append(number)
        at = ends[number]
    return chosen


class _Walk:
    """Cursors over one block. A cursor that would leave the block stays at its end, and counts as ``wrong``."""

    def __init__(self, block: bytes) -> None:
        self._block, self._end = block, len(block)
        self._bytes = np.frombuffer(block + bytes(ROOM), np.uint8)
        self._wrong = False

    def records(self, schema: Any, starts: Integers) -> tuple[Records, Integers, bool]:
        """Return the records that begin at ``starts``, where each ends, and whether any cannot be one."""
        at = starts.astype(np.int64)
        found = self._record(schema, at)
        return found, at, self._wrong

    def _record(self, schema: Any, at: Integers) -> Records:
        fields = {field["name"]: self._column(field["type"], at) for field in schema["fields"]}
        if len(fields) != len(schema["fields"]):
            raise NotInColumns
        return Records(len(at), fields)

    def _column(self, schema: Any, at: Integers) -> Column:
        """Decode a value of ``schema`` at each cursor, and move the cursors behind it."""
        if isinstance(schema, list):
            return self._nullable(schema, at)
        if isinstance(schema, dict):
            if schema["type"] == "record":
                return self._record(schema, at)
            if schema["type"] == "array":
                return self._lists(schema["items"], at)
            return self._column(schema["type"], at)
        if schema in ("int", "long"):
            return Numbers(self._numbers(at))
        if schema in ("bytes", "string"):
            lengths = self._numbers(at)
            starts = at.copy()
            at += self._allowed((lengths >= 0) & (lengths <= self._end - at), lengths)
            return Spans(self._block, starts, at.copy(), schema == "string")
        raise NotInColumns

    def _nullable(self, schema: list[Any], at: Integers) -> Nullable:
        if len(schema) != 2 or schema.count("null") != 1:
            raise NotInColumns
        branches = self._numbers(at)
        self._allowed((branches >= 0) & (branches <= 1), branches)
        present = branches == 1 - schema.index("null")
        return Nullable(present, self._some(schema[1 - schema.index("null")], at, present))

    def _lists(self, items: Any, at: Integers) -> Lists:
        """Decode arrays. Those in several parts, or with the length of a part, are left to the other decoder."""
        counts = self._numbers(at)
        counts = self._allowed((counts >= 0) & (counts <= MOST_ITEMS), counts)
        columns = [self._some(items, at, counts > i) for i in range(int(counts.max(initial=0)))]
        full = counts > 0
        if bool(full.any()):
            column = self._some("long", at, full)
            assert isinstance(column, Numbers)
            self._allowed(column.values == 0, column.values)
        return Lists(counts, columns)

    def _some(self, schema: Any, at: Integers, chosen: Flags) -> Column:
        """Decode a value at some of the cursors, and move these."""
        if bool(chosen.all()):
            return self._column(schema, at)
        moved = at[chosen]
        column = self._column(schema, moved)
        at[chosen] = moved
        return column

    def _numbers(self, at: Integers) -> Integers:
        """Decode an integer at each cursor: zigzag, 7 bits a byte, lowest first."""
        byte = self._bytes[at]
        values = (byte & 0x7F).astype(np.int64)
        more = np.flatnonzero(byte & 0x80)
        at += 1
        shift = 7
        while len(more):
            if shift > MOST_SHIFT:
                self._wrong = True
                break
            places = np.minimum(at[more], self._end)
            byte = self._bytes[places]
            values[more] |= (byte & 0x7F).astype(np.int64) << shift
            at[more] = places + 1
            more = more[byte >= 0x80]
            shift += 7
        if int(at.max(initial=0)) > self._end:
            self._wrong = True
            np.minimum(at, self._end, out=at)
        return (values >> 1) ^ -(values & 1)

    def _allowed(self, allowed: Flags, values: Integers) -> Integers:
        """Return ``values``, and 0 in place of each that is not allowed, where no record can begin."""
        if bool(allowed.all()):
            return values
        self._wrong = True
        return np.where(allowed, values, 0)
