"""The tables of the archive whose sorted runs overlap, and the larger tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table

from model_tests.conform.engine_tables import AGGREGATION, GROUPED, engine, functions, steps
from model_tests.conform.tables import MERGED, MERGES, Made, bulk, changes, created

# ------------------------------------------------------------ merged by lookups


def looked_up(columns: str, options: Mapping[str, str], *values: Any) -> Any:
    """Return what makes a table whose key 1 has records at levels 1, 2 and 3, and then one at level 0."""

    def make(root: Path) -> None:
        table = created(root, columns, options)
        changes(table, *(("+I", number, *values, bulk(number)) for number in range(6)), write_only=True)
        table.compact(full=True)
        for _ in range(2):
            changes(table, ("+I", 1, *values, None))
        changes(table, ("+I", 1, *values, None), ("+I", 2, *values, None), write_only=True)

    return make


DEFAULT: Final = {
    **engine("aggregation"),
    **functions(m="max", lo="min", s="max", y="max", l="last_non_null_value"),
    "fields.default-aggregate-function": "sum",
}
"""A function for the columns that have none, and some that have one."""
NAN: Final = float("nan")


# ------------------------------------------------------------------------ keys

DAY: Final = dt.datetime(2026, 1, 31, 8, 30)
EPOCH: Final = dt.datetime(1970, 1, 1)
MICRO: Final = dt.timedelta(microseconds=1)
WIDE: Final = Decimal("12345678901234567890.0000000001")
OF_KEYS: Final[Mapping[str, tuple[str, tuple[Any, ...]]]] = {
    "i": ("INT", (2, -10, -9, -2, 9, 10, 100, 2**31 - 1)),
    "t": ("TINYINT", (2, -128, -10, -9, 10, 127)),
    "l": ("SMALLINT", (2, -1000, -999, 10, 256, 1000)),
    "b": ("BIGINT", (2, -(2**63), -(2**53) - 1, -(2**53), 10, 2**53, 2**53 + 1, 2**63 - 1)),
    "s": ("STRING", ("a", "", "B", "a\0", "ab", "z", "é", "\uffff", "\U0001f600")),
    "y": ("BYTES", (b"\x02", b"", b"\0", b"\x7f", b"\x7f\0", b"\x80", b"\xff", b"\xff\0")),
    "n": (
        "DECIMAL(9, 2)",
        tuple(map(Decimal, ("2.00", "-10.00", "-9.50", "-0.05", "0.05", "9.99", "10.00"))),
    ),
    "w": ("DECIMAL(38, 10)", (Decimal(2), -WIDE, Decimal(-10), Decimal(10), WIDE, WIDE.next_plus())),
    "m": ("TIMESTAMP(6)", (DAY, EPOCH - MICRO, EPOCH, DAY + MICRO, DAY + 2 * MICRO, DAY + 1000 * MICRO)),
    "z": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", (DAY, EPOCH - MICRO, EPOCH, DAY + MICRO, DAY + 2 * MICRO)),
    "a": ("DATE", tuple(EPOCH.date() + dt.timedelta(days) for days in (2, -10, -9, 0, 9, 10))),
    "o": ("BOOLEAN", (False, True)),
}
"""The type of each column of a key, and its values. Rows about other columns have the first value."""
ZEROS: Final = ("-inf", "-2", "-1.5", "-0.0", "0.0", "1.5", "2", "10", "inf", "nan")
OF_FLOATS: Final[Mapping[str, tuple[str, tuple[Any, ...]]]] = {
    "f": ("FLOAT", tuple(map(float, ZEROS))),
    "d": ("DOUBLE", tuple(map(float, (*ZEROS, "1e-320", "9007199254740993")))),
}


def keys(of: Mapping[str, tuple[str, tuple[Any, ...]]]) -> Any:
    """Return what makes a table of a key of many columns, in four runs. In each row one column differs.

    A merge of runs in another order of a column meets a key in one run after it has passed it in another.
    """

    def make(root: Path) -> None:
        columns = ", ".join(f"{name} {type} NOT NULL" for name, (type, _) in of.items())
        table = created(root, f"{columns}, v STRING", MERGED, key=list(of))
        usual = {name: values[0] for name, (_, values) in of.items()}
        rows = [{**usual, name: value} for name, (_, values) in of.items() for value in values[1:]]
        for run, kept in enumerate((rows, rows[::2], rows[1::2], rows[::3])):
            changes(
                table, *(("+I", *row.values(), f"of run {run}") for row in [usual, *kept]), write_only=True
            )

    return make


# ----------------------------------------------------------------- larger files

SIZE: Final = 1 << 16
"""How many positions a container of a bitmap is about."""


def is_gone(file: int, position: int) -> bool:
    """Whether a row is deleted: the first file has two containers, and none for its second, the second file has four.

    A bitmap with a run has offsets to its containers only if these are four or more.
    """
    container, low = divmod(position, SIZE)
    if file == 1:
        array = low < 8192 and low % 2 == 0  # 4,096 positions, the most of an array
        return (100 <= low < 65000, False, array)[container]
    return (low % 10 != 0, low > 7, low % 16 != 3, low % 7 == 0)[container]


def larger(root: Path) -> None:
    """Append two files of several row groups, and delete rows by a column that says which."""
    options = {"deletion-vectors.enabled": "true", "parquet.block.row.count.limit": "50000"}
    table = created(root, "file INT, high INT, low INT, gone BOOLEAN", options, key=None)
    for file, count in ((1, 2 * SIZE + 9000), (2, 3 * SIZE + 100)):
        rows = range(count)
        high, low = zip(*(divmod(n, 500) for n in rows), strict=True)
        gone = [is_gone(file, n) for n in rows]
        table.append(pa.table([[file] * count, high, low, gone], schema=table.schema.arrow_schema))
    table.delete(where="gone")
    Table.open(root).expire_snapshots(retain_last=1)


TABLES: Final = (
    Made(
        "sums-that-lookups-wrote",
        "sums of a key at levels 0, 1, 2 and 3, of which that of level 1 holds those of the deeper ones",
        ("CHG-19", "CHG-20", "RD-4"),
        AGGREGATION,
        looked_up(
            "k INT, n BIGINT, v STRING",
            {**engine("aggregation", changelog__producer="lookup"), **functions(n="sum")},
            10,
        ),
    ),
    Made(
        "partial-updates-that-lookups-wrote",
        "the same with a sum in a sequence group, and with lookups that another option forces",
        ("CHG-35", "CHG-19", "MRG-14"),
        GROUPED,
        looked_up(
            "k INT, s INT, n BIGINT, v STRING",
            {
                **engine("partial-update", force__lookup="true", fields___s___sequence__group="n"),
                **functions(n="sum"),
            },
            1,
            10,
        ),
    ),
    Made(
        "functions-by-default",
        "a function of all columns that have none of their own, and the greatest zero, NaN, string and bytes",
        ("MRG-9", "MRG-7"),
        AGGREGATION,
        steps(
            "k INT, n BIGINT, m DOUBLE, lo DOUBLE, s STRING, y BYTES, l STRING",
            DEFAULT,
            [("+I", 1, 1, -0.0, -0.0, "\uffff", b"\x7f", "a"), ("+I", 2, 1, NAN, NAN, "B", b"a", None)],
            [("+I", 1, 2, 0.0, 0.0, "\U0001f600", b"\x80", None), ("+I", 2, None, 1.0, 1.0, "a", b"", "b")],
            [("+I", 1, 4, -0.0, -0.0, "z", b"", None), ("+I", 2, 2**62, -1.0, NAN, "", None, None)],
            compact_after=2,
        ),
    ),
    Made(
        "sums-that-do-not-fit",
        "a sum that its type cannot hold, which is refused, and one that it can",
        ("MRG-9",),
        AGGREGATION,
        steps(
            "k INT, n TINYINT",
            {**engine("aggregation"), **functions(n="sum")},
            [("+I", 1, 100), ("+I", 2, -100)],
            [("+I", 1, 27), ("+I", 2, -28)],
            [("+I", 1, 1)],
        ),
        refused=({}, {"snapshot": 3}),
    ),
    Made(
        "merged-keys",
        "runs that a merge has to go through in the order of keys of each type but floats",
        ("MRG-7", "LSM-1", "RD-4"),
        MERGES,
        keys(OF_KEYS),
    ),
    Made(
        "merged-keys-of-floats",
        "the same with keys of floats: two zeros and a NaN",
        ("MRG-7", "LSM-1", "RD-4"),
        MERGES,
        keys(OF_FLOATS),
    ),
    Made(
        "larger-files",
        "files of several row groups, and vectors with containers of each kind",
        ("DVF-2", "DV-1", "RD-7"),
        ("append",),
        larger,
        by_id=False,
    ),
)
