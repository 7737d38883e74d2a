"""The tables of the archive whose records a merge engine folds, or a column of the user orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyroaring import BitMap

from model_tests.conform.tables import KEYS, MERGED, MERGES, VECTORS, Made, changes, created, with_options
from model_tests.engines import theta
from model_tests.format.long_sets import to_bytes

FIRST_ROW: Final = (*MERGES, "first-row")
PARTIAL_UPDATE: Final = (*MERGES, "partial-update")
GROUPED: Final = (*PARTIAL_UPDATE, "sequence groups")
AGGREGATION: Final = (*MERGES, "aggregation")
TAKES_BACK: Final = "engine retractions"
Change = tuple[Any, ...]


def steps(
    columns: str, options: Mapping[str, str], *writes: Sequence[Change], compact_after: int = 0
) -> Callable[[Path], None]:
    """Return what makes a table by writes that nobody compacts, but for a full compaction after so many of them."""

    def make(root: Path) -> None:
        table = created(root, columns, options)
        for number, write in enumerate(writes, 1):
            changes(table, *write, write_only=True)
            if number == compact_after:
                table.compact(full=True)

    return make


def engine(name: str, **options: str) -> dict[str, str]:
    """Return the options of an engine; ``__`` in a name stands for a hyphen, and ``___`` for a dot."""
    given = {one.replace("___", ".").replace("__", "-"): value for one, value in options.items()}
    return {**MERGED, "merge-engine": name, **given}


def functions(**of: str) -> dict[str, str]:
    """Return the options that give columns their functions; a semicolon and an option of the function may follow."""
    found = {}
    for column, text in of.items():
        name, *more = text.split(";")
        found[f"fields.{column}.aggregate-function"] = name
        found.update({f"fields.{column}.{option}": "true" for option in more})
    return found


def first_rows(root: Path) -> None:
    table = created(root, "k INT, v STRING", engine("first-row"))
    changes(table, ("+I", 1, "first"), ("+I", 2, "first"))
    changes(table, ("+I", 1, "second"), ("+I", 3, "first"))
    changes(table, ("+I", 4, "of level 0"), ("+I", 2, "second"), write_only=True)


def ignored(root: Path) -> None:
    """Write retractions before there is the option, which keeps a writer from writing them."""
    table = created(root, "k INT, v STRING", MERGED)
    changes(table, ("+I", 1, "one"), ("+I", 2, "two"), ("-D", 3, None), write_only=True)
    changes(table, ("-D", 1, None), ("-U", 2, "two"), write_only=True)
    with_options(root, {"deduplicate.ignore-delete": "true"})


def removed(root: Path) -> None:
    """Write retractions before there is the engine: a writer under its option leaves out each -U."""
    steps(
        "k INT, a STRING, b STRING",
        MERGED,
        [("+I", 1, "a", None), ("+I", 2, "a", "b"), ("+I", 3, "a", None)],
        [("-D", 1, None, None), ("-D", 2, None, None), ("-U", 3, None, None)],
        [("+I", 2, None, "again"), ("+I", 3, None, "b")],
    )(root)
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    with_options(root, options)


def ordered_later(root: Path) -> None:
    table = created(root, "k INT, v STRING, s INT", MERGED)
    changes(table, ("+I", 1, "of 9", 9), ("+I", 2, "of 3", 3), write_only=True)
    changes(table, ("+I", 1, "of 5", 5), ("+I", 2, "of 4", 4), write_only=True)
    table.alter(rename={"s": "t"}, add="later INT")
    table = with_options(root, {"sequence.field": "t,later"})
    changes(table, ("+I", 2, "of 4 and 1", 4, 1), write_only=True)


def remembered(root: Path) -> None:
    table = created(root, "k INT, v STRING, s INT", {**VECTORS, "sequence.field": "s"})
    changes(table, ("+I", 1, "of 5", 5), ("+I", 2, "of 5", 5), ("+I", 3, "of 5", 5))
    changes(table, ("-D", 1, None, 9), ("-D", 2, None, 9))
    changes(table, ("+I", 1, "of 7", 7), ("+I", 2, "of 10", 10), write_only=True)


NUMBERS: Final = "k INT, s BIGINT, p INT, d DECIMAL(9, 2), f DOUBLE, lo INT, hi STRING, a BOOLEAN, o BOOLEAN"
OF_NUMBERS: Final = functions(
    s="sum", p="product", d="sum", f="sum", lo="min", hi="max", a="bool_and", o="bool_or"
)
PLACES: Final = "k INT, fv STRING, lv STRING, fn STRING, ln STRING, l STRING, n INT"
OF_PLACES: Final = {
    **functions(fv="first_value", lv="last_value", fn="first_non_null_value", l="listagg"),
    "fields.default-aggregate-function": "last_non_null_value",
    "fields.l.list-agg-delimiter": "; ",
}
NESTED: Final = (
    "k INT, c ARRAY<INT>, u ARRAY<STRING>, m MAP<STRING, INT>, r ARRAY<ROW<i INT, t STRING>>, "
    "w ARRAY<ROW<i INT, t STRING>>"
)
OF_NESTED: Final = {
    **functions(c="collect", u="collect;distinct", m="merge_map", r="nested_update", w="nested_update"),
    "fields.w.nested-key": "i",
}


def _rows(*given: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"i": i, "t": t} for i, t in given]


def short_set(numbers: Iterable[int]) -> bytes:
    """Return a bitmap of 32 bits that is not run-optimised, as a library writes it that is not asked to."""
    return bytes(BitMap([*numbers], optimize=False).serialize())


SETS: Final = (
    (1, short_set((1, 2, 3)), to_bytes([1, 1 << 63])),
    (2, short_set(range(100)), None),
    (3, None, None),
    (1, short_set((5, 1 << 31)), to_bytes([2, 1 << 40, (1 << 63) + 1])),
    (3, short_set((7,)), to_bytes([7])),
    (1, short_set(range(3, 200)), to_bytes(range(300))),
)
"""Keys, bitmaps of 32 and of 64 bits."""
HASHES: Final = range(1 << 40, 5000 << 40, 1 << 40)
SKETCHES: Final = (
    (1, theta.encode((5, 1 << 40))),
    (2, theta.encode((7, 1 << 61), 1 << 62)),
    (3, None),
    (4, theta.encode(HASHES[:3000])),
    (1, theta.encode((1 << 62, 9), ordered=False)),
    (2, theta.encode((8, 1 << 60), 1 << 61)),
    (3, theta.encode((1 << 61, 3), ordered=False)),
    (4, theta.encode(HASHES[2000:])),
)
"""Keys and theta sketches."""


GROUPS: Final = {
    "fields.s.sequence-group": "a,b",
    "fields.x,y.sequence-group": "c,n",
    "fields.n.aggregate-function": "sum",
}


REMOVED_BY_GROUP: Final = {
    **engine("partial-update", fields___s___sequence__group="a"),
    "partial-update.remove-record-on-sequence-group": "s",
}


def with_vectors(root: Path) -> None:
    """Sum in a table with vectors, whose compactions look up what is older."""
    table = created(root, "k INT, n BIGINT", {**engine("aggregation"), **functions(n="sum"), **VECTORS})
    changes(table, *(("+I", number, number) for number in range(6)), write_only=True)
    table.compact(full=True)
    changes(table, ("+I", 1, 10), ("+I", 9, 9))
    changes(table, ("+I", 1, 100), ("+I", 2, None), write_only=True)


TABLES: Final = (
    Made(
        "first-rows",
        "the merge engine first-row, whose default read leaves level 0 out",
        ("RD-13", "MRG-12"),
        FIRST_ROW,
        first_rows,
        ({"fresh": True},),
    ),
    Made(
        "partial-updates",
        "the merge engine partial-update, with a sequence group",
        ("MRG-13", "MRG-14", "RD-4"),
        GROUPED,
        steps(
            "k INT, a STRING, b STRING, s INT",
            engine("partial-update", fields___s___sequence__group="b"),
            [("+I", 1, "a", "b", 5), ("+I", 2, "a", None, 1)],
            [("+I", 1, None, "older", 4), ("+I", 2, None, "b", 2)],
            [("+I", 2, "late", None, 1), ("+I", 3, None, None, None)],
            compact_after=2,
        ),
    ),
    Made(
        "groups",
        "two sequence groups, one ordered by two columns and with a sum in it, and retractions",
        ("MRG-14", "MRG-9", "RD-4"),
        (*GROUPED, TAKES_BACK),
        steps(
            "k INT, s INT, a STRING, b STRING, x INT, y STRING, c STRING, n INT",
            {**engine("partial-update"), **GROUPS},
            [("+I", 1, 3, "a", "b", 1, "z", "c", 10), ("+I", 2, None, "a", None, 1, "b", None, None)],
            [("+I", 1, 2, "late", "late", 2, "a", None, 5), ("+I", 2, None, "alone", "b", 1, "c", "c", 7)],
            [("-D", 1, 3, None, None, 1, "y", None, 2), ("+I", 2, 0, None, None, None, None, "c", 9)],
            [
                ("+I", 3, None, "single", None, None, None, "c", 1),
                ("-U", 2, None, None, None, 1, "c", None, 7),
            ],
            compact_after=1,
        ),
    ),
    Made(
        "rows-that-deletions-remove",
        "a deletion of partial-update that removes the row, and one of -U that does not",
        ("MRG-17", "MRG-13"),
        (*PARTIAL_UPDATE, TAKES_BACK),
        removed,
    ),
    Made(
        "rows-that-groups-remove",
        "a deletion that removes the row if it wins in a sequence group",
        ("MRG-17", "MRG-14"),
        (*GROUPED, TAKES_BACK),
        steps(
            "k INT, s INT, a STRING, b STRING",
            REMOVED_BY_GROUP,
            [("+I", 1, 5, "a", "b"), ("+I", 2, 5, "a", "b"), ("+I", 3, 5, "a", "b"), ("+I", 4, 5, "a", "b")],
            [
                ("-D", 1, 6, None, None),
                ("-D", 2, 4, None, None),
                ("-D", 3, 6, None, None),
                ("-U", 4, 6, None, None),
            ],
            [("+I", 3, 7, "again", None)],
        ),
    ),
    Made(
        "late-rows-after-a-removal",
        "a row after its removal, with a value of the sequence group that is less than that of the removal",
        ("MRG-17",),
        (*GROUPED, TAKES_BACK),
        steps(
            "k INT, s INT, a STRING, b STRING",
            REMOVED_BY_GROUP,
            [("+I", 1, 5, "a", "b")],
            [("-D", 1, 6, None, None)],
            [("+I", 1, 1, "again", None)],
        ),
    ),
    Made(
        "sums",
        "the merge engine aggregation: sum, max, last value that is not null",
        ("MRG-9", "RD-4"),
        AGGREGATION,
        steps(
            "k INT, n BIGINT, m INT, l STRING",
            {**engine("aggregation"), **functions(n="sum", m="max")},
            [("+I", 1, 10, 3, "x"), ("+I", 2, 1, None, "y")],
            [("+I", 1, -4, 1, None), ("+I", 2, None, 7, "z")],
            [("+I", 1, 1, None, "last")],
            compact_after=2,
        ),
    ),
    Made(
        "functions-of-numbers",
        "aggregate functions of numbers, strings and booleans, over nulls",
        ("MRG-9", "MRG-7", "RD-4"),
        AGGREGATION,
        steps(
            NUMBERS,
            {**engine("aggregation"), **OF_NUMBERS},
            [
                ("+I", 1, 2**40, 3, Decimal("1.25"), 0.5, -1, "é", True, False),
                ("+I", 2, *[None] * 8),
                ("+I", 3, None, None, None, None, 4, "b", None, None),
            ],
            [("+I", 1, 1, -4, Decimal("-2.50"), 0.25, -7, "z", None, True), ("+I", 2, *[None] * 8)],
            [
                ("+I", 1, None, 0, None, None, 9, "\U0001f600", False, False),
                ("+I", 3, 5, 6, Decimal("0.01"), -1.5, 4, "￿", True, None),
            ],
            compact_after=1,
        ),
    ),
    Made(
        "functions-of-places",
        "aggregate functions that take the value of one record, and the list of strings",
        ("MRG-9", "RD-4"),
        AGGREGATION,
        steps(
            PLACES,
            {**engine("aggregation"), **OF_PLACES},
            [("+I", 1, None, "a", None, "a", " ", 1), ("+I", 2, *["only"] * 4, " ", None)],
            [("+I", 1, "b", "b", "b", "b", "x", None), ("+I", 3, *["a"] * 4, "a", 1)],
            [("+I", 1, "c", None, "c", None, "y", None), ("+I", 3, *[None] * 4, "", 2)],
            [("+I", 1, "d", None, "d", None, None, 7)],
            compact_after=2,
        ),
    ),
    Made(
        "functions-of-nested-columns",
        "aggregate functions of arrays and maps",
        ("MRG-9", "MRG-27", "RD-4"),
        (*AGGREGATION, "nested"),
        steps(
            NESTED,
            {**engine("aggregation"), **OF_NESTED},
            [
                ("+I", 1, [1, 2], ["a", "a"], {"x": 1, "y": 2}, _rows((1, "a")), _rows((2, "b"))),
                ("+I", 2, None, None, None, None, None),
                ("+I", 3, [5, None, 5], ["c", "c"], {}, [], _rows((7, "a"), (7, "b"))),
            ],
            [
                ("+I", 1, [2, 1], ["a"], {"y": 3, "z": None}, _rows((1, "a")), _rows((2, "c"))),
                ("+I", 2, [], ["d"], {"x": 1}, None, _rows((1, "a"))),
            ],
            [("+I", 1, None, [], {"x": 9}, _rows((2, None)), None)],
            compact_after=1,
        ),
    ),
    Made(
        "functions-of-bitmaps",
        "unions of bitmaps of 32 and of 64 bits, and bytes of one record, which stay as they are",
        ("MRG-29", "MRG-30", "RD-4"),
        (*AGGREGATION, "bitmaps"),
        steps(
            "k INT, r BYTES, l BYTES",
            {**engine("aggregation"), **functions(r="rbm32", l="rbm64")},
            *([("+I", *one) for one in SETS[start:stop]] for start, stop in ((0, 3), (3, 5), (5, 6))),
            compact_after=2,
        ),
    ),
    Made(
        "functions-of-sketches",
        "unions of theta sketches, one of them of more hashes than a union keeps",
        ("MRG-31", "RD-4"),
        (*AGGREGATION, "sketches"),
        steps(
            "k INT, t BYTES",
            {**engine("aggregation"), **functions(t="theta_sketch")},
            *([("+I", *one) for one in SKETCHES[start:stop]] for start, stop in ((0, 4), (4, 8))),
        ),
    ),
    Made(
        "functions-that-take-back",
        "retractions that take values back, or leave a column as it is",
        ("MRG-9", "MRG-10", "MRG-32", "MRG-33"),
        (*AGGREGATION, TAKES_BACK, "nested"),
        steps(
            "k INT, s INT, lv STRING, ln STRING, hi INT, c ARRAY<INT>, m MAP<STRING, INT>, r ARRAY<ROW<i INT>>",
            {
                **engine("aggregation"),
                **functions(s="sum", lv="last_value", hi="max;ignore-retract", c="collect", m="merge_map"),
                **functions(r="nested_update"),
            },
            [
                ("+I", 1, 5, "a", "a", 5, [1, 2, 1, 3], {"x": 1, "y": 2}, [{"i": 1}, {"i": 1}, {"i": 2}]),
                ("+I", 2, 5, "a", "a", 5, [1], {"x": 1}, [{"i": 1}]),
            ],
            [("+U", 1, 3, "b", "b", 9, [1], {"z": 3}, [{"i": 3}])],
            [
                ("-U", 1, 5, "a", None, 20, [1, 9], {"x": 7}, [{"i": 1}]),
                ("-D", 2, None, None, "b", None, None, None, None),
            ],
        ),
    ),
    Made(
        "retractions-of-no-row",
        "retractions of keys that have no row, before an add and alone",
        ("MRG-16", "MRG-9"),
        (*AGGREGATION, TAKES_BACK),
        steps(
            "k INT, n INT",
            {**engine("aggregation"), **functions(n="sum")},
            [("-U", 1, 5), ("-D", 2, 5)],
            [("+I", 1, 7)],
            [("-U", 1, 2)],
        ),
    ),
    Made(
        "aggregates-with-vectors",
        "sums in a table with deletion vectors, whose default read merges nothing",
        ("RD-1", "RD-3", "MRG-9"),
        (*KEYS, "aggregation"),
        with_vectors,
        ({"fresh": True},),
    ),
    Made(
        "ignored-deletions",
        "retractions that an option ignores, under an older name of it",
        ("MRG-15", "RD-4"),
        MERGES,
        ignored,
    ),
    Made(
        "ordered-by-a-column",
        "records ordered by the option sequence.field",
        ("MRG-19", "MRG-4", "RD-4"),
        (*MERGES, "sequence fields"),
        steps(
            "k INT, v STRING, s INT",
            {**MERGED, "sequence.field": "s"},
            [("+I", 1, "of 5", 5), ("+I", 2, "of 1", 1), ("+I", 3, "of 3", 3)],
            [("+I", 1, "of 4", 4), ("+I", 2, "later of 1", 1), ("+I", 3, "of none", None)],
        ),
    ),
    Made(
        "ordered-by-a-renamed-column",
        "an order that a later schema asks for, by a column that had another name, and then by one that is new",
        ("RD-22", "MRG-19", "RD-14"),
        (*MERGES, "sequence fields", "evolution"),
        ordered_later,
    ),
    Made(
        "remembered-deletions",
        "a deletion at a greater level that its vector hides, and a late row that loses to it all the same",
        ("DV-22", "DV-21", "MRG-19", "RD-3"),
        (*KEYS, "sequence fields"),
        remembered,
        ({"fresh": True}, {"fresh": True, "snapshot": 5}),
    ),
    Made(
        "ordered-by-two-columns",
        "records whose least values of two columns are the newest, and a late deletion",
        ("MRG-19", "MRG-20", "MRG-3"),
        (*MERGES, "sequence fields"),
        steps(
            "k INT, v STRING, s DECIMAL(4, 1), t STRING",
            {**MERGED, "sequence.field": "s,t", "sequence.field.sort-order": "descending"},
            [
                ("+I", 1, "of 5 a", Decimal("5.0"), "a"),
                ("+I", 2, "of 1 b", Decimal("1.0"), "b"),
                ("+I", 3, "x", None, "b"),
            ],
            [
                ("+I", 1, "of 5 b", Decimal("5.0"), "b"),
                ("+I", 2, "of -1 z", Decimal("-1.0"), "z"),
                ("+I", 3, "y", None, "a"),
            ],
            [("-D", 1, None, Decimal("9.0"), "a"), ("-D", 2, None, Decimal("-2.0"), None)],
        ),
    ),
    Made(
        "sums-ordered-by-a-column",
        "sums whose last value is that of the record with the greatest value of a column",
        ("MRG-20", "MRG-9", "MRG-19"),
        (*AGGREGATION, "sequence fields"),
        steps(
            "k INT, n INT, l STRING, s INT, t STRING",
            {**engine("aggregation", sequence___field="s,t"), **functions(n="sum", l="last_value")},
            [("+I", 1, 1, "of 5", 5, None), ("+I", 2, 1, "of 1", 1, "a")],
            [("+I", 1, 2, "of 4", 4, "z"), ("+I", 2, 2, None, 2, None)],
            [("+I", 1, 4, "of none", None, "z")],
            compact_after=2,
        ),
    ),
)
