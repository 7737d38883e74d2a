"""Examples on small tables of the implementation: what is refused, and functions that the oracle does not have."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable.format.vectors.roaring_tree import encode
from pktable_spec.errors import PkTableError
from pyroaring import BitMap

from model_tests.engines import theta
from model_tests.examples.shown import Example, table
from model_tests.format.long_sets import bitmaps_of

VECTORS: Final = {"bucket": "1", "deletion-vectors.enabled": "true"}
PLAIN: Final = {"bucket": "1", "deletion-vectors.enabled": "false"}
AGGREGATION: Final = {**PLAIN, "merge-engine": "aggregation"}
FUNCTION: Final = "fields.v.aggregate-function"

Work = Callable[[Table], Any]


def nothing(table: Table) -> None:
    """Do nothing to a table that may be refused when it is made."""


def made(columns: str, options: Mapping[str, str], work: Work = nothing) -> Any:
    """Return what ``work`` returns for a new table, or the message with which it is refused."""
    with tempfile.TemporaryDirectory(prefix="pktable-example-") as folder:
        try:
            return work(Table.create(f"{folder}/t", columns, primary_key=["k"], options=options))
        except PkTableError as error:
            return re.sub(r"/\S*pktable-example-\w+/", "", f"{type(error).__name__}: {error}")


def written(table: Table, *changes: tuple[str, int, Any]) -> Table:
    """Write changes one after the other, each given as its kind, key and value."""
    types = table.schema.arrow_schema
    for kind, key, value in changes:
        row = {"k": pa.array([key], types.field("k").type), "v": pa.array([value], types.field("v").type)}
        table.write_changes(pa.table({**row, "op": [kind]}), row_kind="op")
    return table


def value(table: Table) -> Any:
    """Return the value of the only row of a table, or a text for a table without rows."""
    rows = table.to_arrow(fresh=True).to_pylist()
    return rows[0]["v"] if rows else "no row"


def after(*changes: tuple[str, int, Any]) -> Work:
    return lambda table: value(written(table, *changes))


def doing(work: Work) -> Work:
    return lambda table: work(table) or "done"


REFUSED: Final[tuple[tuple[str, str, str, Mapping[str, str], Work], ...]] = (
    ("MRG-10", "a retraction of a maximum", "k INT, v INT", {**AGGREGATION, FUNCTION: "max"},
     after(("+I", 1, 5), ("-U", 1, 5))),
    ("MRG-11", "an option of another merge engine", "k INT, v INT", {**PLAIN, "fields.v.sequence-group": "k"}, nothing),
    ("MRG-18", "a deletion by keys where deletions are ignored", "k INT, v INT",
     {**PLAIN, "merge-engine": "first-row", "ignore-delete": "true"},
     doing(lambda one: written(one, ("+I", 1, 5)).delete(pa.table({"k": pa.array([1], pa.int32())})))),
    ("MRG-23", "a sequence field that does not exist", "k INT, v INT", {**PLAIN, "sequence.field": "w"}, nothing),
    ("MRG-24", "a sequence field with first-row", "k INT, v INT",
     {**PLAIN, "merge-engine": "first-row", "sequence.field": "v"}, nothing),
    ("MRG-25", "an update of a sequence field", "k INT, v INT", {**PLAIN, "sequence.field": "v"},
     doing(lambda one: written(one, ("+I", 1, 5)).update({"v": "6"}, where="k = 1"))),
    ("MRG-26", "an option without the one that it belongs to", "k INT, v INT",
     {**PLAIN, "sequence.field.sort-order": "descending"}, nothing),
    ("MRG-28", "a function that there is not", "k INT, v INT", {**AGGREGATION, FUNCTION: "count"}, nothing),
    ("DV-24", "deletion vectors with first-row", "k INT, v INT", {**VECTORS, "merge-engine": "first-row"}, nothing),
    ("CMP-31", "full-compaction.delta-commits with a lookup", "k INT, v INT",
     {**VECTORS, "changelog-producer": "lookup", "full-compaction.delta-commits": "3"}, nothing),
    ("META-74", "a column that Avro does not have", "k INT, v TIMESTAMP(9)", {**PLAIN, "file.format": "avro"}, nothing),
)  # fmt: skip
"""Refusals: the clause, what is asked for, the columns and options of a table, and what is done to it."""


def refusals() -> Iterator[Example]:
    """Yield what is refused, each with the message."""
    for clause, what, columns, options, work in REFUSED:
        message = made(columns, options, work)
        assert isinstance(message, str), f"{clause}: expected a refusal, found {message}"
        assert "Error: " in message, f"{clause}: expected a refusal, found {message}"
        shown = ", ".join(f"`{name}` = `{given}`" for name, given in options.items() if name != "bucket")
        yield Example(
            f"Refused: {what}", (clause,), f"Columns: `{columns}`. Options: {shown}.\n\n```\n{message}\n```"
        )


def forgetting(table: Table) -> Any:
    """Return the value that a late record gives to a key that was deleted and compacted fully."""
    written(table, ("+I", 1, 5), ("-D", 1, 7)).compact(full=True)
    return value(written(table, ("+I", 1, 6)))


def removals() -> Iterator[Example]:
    """Yield what becomes of deletions under options that the oracle does not have."""
    deleting = (("+I", 1, 5), ("-D", 1, 5))
    partial = {**PLAIN, "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    rows = [
        (f"{kind} {given}", _text(made("k INT, v INT", partial, after(*deleting[:count]))))
        for count, (kind, _, given) in enumerate(deleting, 1)
    ]
    text = (
        f"`partial-update.remove-record-on-delete` = `true`.\n\n{table(('written', 'value after it'), rows)}"
    )
    yield Example("A deletion removes the row of partial-update", ("MRG-17",), text)
    ordered = {**PLAIN, "sequence.field": "v"}
    dropped = "drop-in-full-compaction"
    outcomes = [
        (f"`{name}`", _text(made("k INT, v INT", {**ordered, **options}, forgetting)))
        for name, options in (("keep, the default", {}), (dropped, {"sequence.field.retractions": dropped}))
    ]
    text = (
        "Key 1 is written with 5, deleted with 7, compacted fully, and written late with 6. `sequence.field` is v.\n\n"
        + table(("sequence.field.retractions", "value"), outcomes)
    )
    yield Example("A full compaction may forget a deletion", ("MRG-21", "MRG-22"), text)


ROWS: Final = "k INT, v ARRAY<ROW<p INT, q STRING>>"


ON_NUMBERS: Final = ("sum", "product", "max", "min", "first_value", "last_value", "last_non_null_value")
ON_STRINGS: Final = ("listagg", "max", "first_value", "first_non_null_value", "last_value")
ON_SAME: Final[tuple[tuple[str, tuple[str, ...], tuple[Any, ...]], ...]] = (
    ("INT", ON_NUMBERS, (3, None, -1)),
    ("STRING", ON_STRINGS, (None, "b", " ", "a", None)),
    ("BOOLEAN", ("bool_and", "bool_or"), (True, False, None)),
    ("ARRAY<INT>", ("collect",), ([1, 2, 1], [2])),
    ("MAP<STRING, INT>", ("merge_map",), ([("x", 1), ("y", 2)], [("y", 3)])),
)
"""Types, functions of them, and the values that are written one after the other."""


def same_values() -> Example:
    """Return a table of functions of the same values, and of a retraction of the last one."""
    rows = []
    for kind, names, given in ON_SAME:
        for name in names:
            options = {**AGGREGATION, FUNCTION: name}
            adds = [("+I", 1, one) for one in given]
            found, back = (made(f"k INT, v {kind}", options, after(*some)) for some in (
                adds, [*adds, ("-U", 1, given[-1])],
            ))  # fmt: skip
            taken = "refused" if "Error: " in str(back) else _text(back)
            rows.append((name, f"`{kind}`", ", ".join(f"`{one}`" for one in given), _text(found), taken))
    heads = ("function", "type", "written, one after the other", "value", "after -U of the last one")
    return Example("What functions make of the same values", ("MRG-9", "MRG-10"), table(heads, rows))


def functions() -> Iterator[Example]:
    """Yield functions of columns on values that are written one after the other."""
    yield same_values()
    one, two = [{"p": 1, "q": "a"}], [{"p": 2, "q": "b"}, {"p": 1, "q": "c"}]
    yield _values("nested_update keeps all rows", "MRG-27", ROWS, {FUNCTION: "nested_update"}, one, two)
    by_key = {FUNCTION: "nested_update", "fields.v.nested-key": "p"}
    yield _values("nested_update by a key keeps the newest row of it", "MRG-27", ROWS, by_key, one, two)
    bitmaps = BitMap([1, 2, 3]).serialize(), BitMap([3, 4]).serialize()
    yield _values("rbm32 is the union of bitmaps", "MRG-29", "k INT, v BYTES", {FUNCTION: "rbm32"}, *bitmaps)
    sets = encode(bitmaps_of([1, 2])), encode(bitmaps_of([2, 1 << 40]))
    yield _values(
        "rbm64 is the union of sets of 64 bits", "MRG-30", "k INT, v BYTES", {FUNCTION: "rbm64"}, *sets
    )
    sketches = theta.encode({11 << 40}), theta.encode({11 << 40, 12 << 40})
    named = {FUNCTION: "theta_sketch"}
    yield _values("theta_sketch is the union of sketches", "MRG-31", "k INT, v BYTES", named, *sketches)


def _values(title: str, clause: str, columns: str, options: Mapping[str, str], *values: Any) -> Example:
    rows = []
    for count in range(1, len(values) + 1):
        changes = [("+I", 1, one) for one in values[:count]]
        rows.append(
            (_text(values[count - 1]), _text(made(columns, {**AGGREGATION, **options}, after(*changes))))
        )
    shown = ", ".join(f"`{name}` = `{given}`" for name, given in options.items())
    text = f"Columns: `{columns}`. Options: {shown}.\n\n{table(('written', 'value after it'), rows)}"
    return Example(title, (clause,), text)


def _text(found: Any) -> str:
    return f"`{found.hex(' ') if isinstance(found, bytes) else found}`"
