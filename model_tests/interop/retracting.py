"""Tables whose merge engine takes retractions back, instead of ignoring them or removing rows by them.

They are some of `model_tests.engines`, and mean what plain Python says there. Their histories are drawn by
`retracting_histories`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final

import pyarrow as pa
from pktable.format.types import parse_columns, to_arrow
from pktable_spec.interface import BucketId, Change, Key, Row
from pktable_spec.vocabulary import RowKind

from model_tests.engines import naive
from model_tests.engines.cases import EVERY, ROWS, Case, aggregation
from model_tests.interop.histories import VECTORS, Definition, Step
from model_tests.interop.plain import array_of, column_of

VALUES: Final[Mapping[str, tuple[str | None, ...]]] = {
    "INT": ("1", None, "-2", "3"),
    "BIGINT": ("1", None, "-4", "9000000000"),
    "DOUBLE": ("3ff8000000000000", None, "bfe0000000000000", "4000000000000000"),
    "DECIMAL(6, 2)": ("1.00", None, "-0.25", "99.99"),
    "STRING": ("a", None, "b", "ä"),
    "BOOLEAN": ("true", None, "false"),
    "ARRAY<INT>": ('["1"]', None, '["1","2"]', "[]", '["2",null]'),
    ROWS: ('[["0","x"]]', None, '[["0","y"],["1",null]]', "[]", '[[null,"x"]]'),
    "MAP<STRING, INT>": ('[["p","1"]]', None, '[["p","2"],["q","0"]]', "[]", '[["r",null]]'),
}
RANKS: Final = ("1", "0", "2", None)
"""The values of columns that order a sequence group."""
MARKS: Final = {"t": "STRING", "w": "INT"}
"""The last columns: one for long values, and the number of the change."""


@dataclass(frozen=True)
class Retracting:
    """A case. ``ranks``: the columns that order its sequence groups. ``newer``: whether Paimon 0.9 cannot merge it.

    ``drawn``: whether any Paimon can take its values back.
    """

    case: Case
    ranks: frozenset[str] = frozenset()
    newer: bool = False
    drawn: bool = True

    def values_of(self, column: str) -> tuple[str | None, ...]:
        return RANKS if column in self.ranks else VALUES[self.case.columns[column]]


def _summed(
    name: str,
    functions: Mapping[str, tuple[str, str]],
    *,
    kinds: Sequence[RowKind] = EVERY,
    removes: bool = False,
    ignores: Sequence[str] = (),
) -> Case:
    marks = {"t": ("STRING", "last_value"), "w": ("INT", "sum")}
    return aggregation(name, {**functions, **marks}, kinds=kinds, removes=removes, ignores=ignores)


def _updated(name: str, columns: Mapping[str, str], options: Mapping[str, str], **means: Any) -> Case:
    columns = {**columns, **MARKS}
    options = {"merge-engine": "partial-update", **options}
    return Case(name, columns, options, partial(naive.partial_update, **means), EVERY)


GROUPED: Final = {"a": "STRING", "g": "INT", "b": "STRING", "h": "INT", "n": "BIGINT", "x": "INT"}
GROUPS: Final[Mapping[str, Any]] = {
    "groups": {("g",): ("a",), ("h",): ("b", "n", "x")},
    "functions": {"n": "sum", "x": "max"},
    "ignores": ("x",),
}
GROUP_OPTIONS: Final = {
    "fields.g.sequence-group": "a",
    "fields.h.sequence-group": "b,n,x",
    "fields.n.aggregate-function": "sum",
    "fields.x.aggregate-function": "max",
    "fields.x.ignore-retract": "true",
}
CASES: Final[Mapping[str, Retracting]] = {
    one.case.name: one
    for one in (
        Retracting(
            _summed(
                "numbers",
                {
                    "a": ("INT", "sum"),
                    "b": ("BIGINT", "sum"),
                    "d": ("DECIMAL(6, 2)", "sum"),
                    "f": ("DOUBLE", "sum"),
                },
            )
        ),
        Retracting(
            _summed(
                "values",
                {
                    "l": ("INT", "last_value"),
                    "n": ("STRING", "last_non_null_value"),
                    "x": ("INT", "max"),
                    "y": ("STRING", "first_value"),
                    "o": ("BOOLEAN", "bool_or"),
                    "j": ("INT", "product"),
                },
                ignores=("x", "y", "o", "j"),
            )
        ),
        Retracting(
            _summed(
                "containers",
                {
                    "m": ("MAP<STRING, INT>", "merge_map"),
                    "c": ("ARRAY<INT>", "collect"),
                    "d": ("ARRAY<INT>", "distinct"),
                    "n": (ROWS, "nested_update"),
                    "np": (ROWS, "nested_update by p"),
                },
            )
        ),
        Retracting(_summed("collected rows", {"c": (ROWS, "collect")}), drawn=False),
        Retracting(
            _summed(
                "removals",
                {"a": ("INT", "sum"), "x": ("INT", "max")},
                kinds=(RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE),
                removes=True,
            ),
            newer=True,
        ),
        Retracting(_updated("sequence groups", GROUPED, GROUP_OPTIONS, **GROUPS), frozenset("gh")),
        Retracting(
            _updated(
                "sequence groups with removals",
                GROUPED,
                {**GROUP_OPTIONS, "partial-update.remove-record-on-sequence-group": "g"},
                **GROUPS,
                removing=("g",),
            ),
            frozenset("gh"),
            newer=True,
        ),
        Retracting(
            _updated(
                "updates with removals",
                {"a": "INT", "s": "STRING"},
                {"partial-update.remove-record-on-delete": "true"},
                removes=True,
            ),
            newer=True,
        ),
    )
}


def table(name: str, **options: str) -> Definition:
    """Return a table of a case, with the key ``k``."""
    case = CASES[name].case
    given = {VECTORS: "true", "file.format": "parquet", "bucket": "1", **options, **case.options}
    return Definition((("k", "INT"), *case.columns.items()), ("k",), (), given, name)


def write(by: str, name: str, *changes: tuple[str, Mapping[str, str]], write_only: bool = False) -> Step:
    """Return a write of changes: of each the kind, and the columns that are not null. The key is 1 if none is given."""
    columns = [column for column in CASES[name].case.columns if column != "w"]
    rows = [
        (kind, (values.get("k", "1"), *(values.get(column) for column in columns)))
        for kind, values in changes
    ]
    return Step(by, "write", changes=tuple(rows), write_only=write_only)


# ------------------------------------------------------------------------------ meaning


@dataclass
class Meaning:
    """The meaning of a table of a case, by plain Python over all changes of each key. See `pktable_spec.model`."""

    definition: Definition
    key_of: Callable[[Row], Key]
    bucket_of: Callable[[Row], BucketId]
    _log: list[tuple[int, tuple[Change, ...]]] = field(default_factory=list)

    def commit(self, snapshot: int, changes: Sequence[Change]) -> None:
        """Append a write that became visible with ``snapshot``."""
        self._log.append((snapshot, tuple(changes)))

    def rows(self, snapshot: int) -> list[Row]:
        """Return the rows after every write up to and including ``snapshot``."""
        return self.absorbed_rows(snapshot, {})

    def absorbed_rows(self, snapshot: int, first_unabsorbed: Mapping[BucketId, int]) -> list[Row]:
        """Return the rows after the writes up to ``snapshot``, and of each bucket before ``first_unabsorbed``."""
        records: dict[Key, list[Change]] = {}
        for at, write in self._log:
            for change in write if at <= snapshot else ():
                if at < first_unabsorbed.get(self.bucket_of(change.row), snapshot + 1):
                    records.setdefault(self.key_of(change.row), []).append(change)
        found = (
            row_after(self.definition, [(one.kind, one.row) for one in changes])
            for changes in records.values()
        )
        return [row for row in found if row is not None]


def row_after(definition: Definition, changes: Sequence[tuple[RowKind, Row]]) -> Row | None:
    """Return the row of a key after its changes, oldest first, in plain values."""
    case = CASES[definition.case].case
    kept = len(definition.columns) - len(case.columns)
    records = [
        (
            kind,
            {
                name: _value(text, type)
                for text, (name, type) in zip(row[kept:], case.columns.items(), strict=True)
            },
        )
        for kind, row in changes
    ]
    found = case.means(records)
    if found is None:
        return None
    return (*changes[0][1][:kept], *(_text(found[name], type) for name, type in case.columns.items()))


@cache
def _arrow(type: str) -> Any:
    (column,) = parse_columns(f"v {type}")
    return to_arrow(column.type)


def _value(text: Any, type: str) -> Any:
    return array_of([text], _arrow(type)).to_pylist()[0]


def _text(value: Any, type: str) -> str | None:
    return column_of(pa.array([value], _arrow(type)))[0]


def in_any_order(definition: Definition, rows: Sequence[Row]) -> list[Row]:
    """Return rows with the elements sorted in the columns whose function leaves their order open."""
    if not definition.case:
        return list(rows)
    names = [name for name, _ in definition.columns]
    open_ones = {
        names.index(option.split(".")[1])
        for option in definition.options
        if option.endswith((".distinct", ".nested-key"))
    }
    return [
        tuple(_sorted(value) if at in open_ones else value for at, value in enumerate(row)) for row in rows
    ]


def _sorted(text: Any) -> Any:
    return text if text is None else json.dumps(sorted(json.loads(text), key=json.dumps))
