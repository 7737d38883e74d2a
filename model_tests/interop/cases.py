"""The vectors that the project ships: tables that Paimon itself wrote, each for some bytes or some layout.

A case is a script for `Peer.java`. Rows are plain values (see `plain`); a ``span`` stands for many rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from model_tests.interop.environments import JVM, NEWER_JVM
from model_tests.interop.histories import BITMAP64, VALUES

Command: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A table to be made by ``script`` on the JVM ``writer``; ``what`` it shows, for which clauses."""

    name: str
    what: str
    writer: str
    clauses: tuple[str, ...]
    script: tuple[Command, ...]


def create(
    columns: Sequence[tuple[str, str]], key: Sequence[str], partition: Sequence[str] = (), **options: str
) -> Command:
    """Create a table with deletion vectors; names of options with ``__`` for ``-`` and ``_`` for ``.``."""
    given = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    defaults = {"bucket": "1", "deletion-vectors.enabled": "true", "file.format": "parquet"}
    return {
        "do": "create",
        "columns": [[name, f"{type} NOT NULL" if name in key else type] for name, type in columns],
        "primary_key": list(key),
        "partition_by": list(partition),
        "options": {**defaults, **given},
    }


def write(*rows: tuple[str | None, ...], write_only: bool = False) -> Command:
    return {"do": "write", "rows": [list(row) for row in rows], "write_only": write_only}


def span(kind: str, start: int, stop: int, step: int = 1) -> Command:
    """Write a row for each integer from ``start`` to before ``stop`` by ``step``; its value is the key modulo 7."""
    return {"do": "write", "span": [kind, start, stop, step]}


def compact(*, full: bool = False) -> Command:
    return {"do": "compact", "full": full}


def append_table(columns: Sequence[tuple[str, str]], **options: str) -> Command:
    """Create a table without a primary key, without buckets unless ``options`` say otherwise."""
    return create(columns, (), **{"bucket": "-1", **options})


def change_rows(column: str, operator: str, literal: str, *, to_null: int | None = None) -> Command:
    """Delete the rows that satisfy a condition, or add them again with null in the column numbered ``to_null``."""
    return {"do": "change rows", "where": [[column, operator, literal]], "to_null": to_null}


def loaded(*keys: tuple[str, ...]) -> tuple[Command, ...]:
    """Commands that put rows into one large run at the bottom, so that later writes delete its positions."""
    bulk = [("+I", *key, hashlib.sha256(str(number).encode()).hexdigest()) for number, key in enumerate(keys)]
    return write(*bulk, write_only=True), compact(full=True)


def insert(*values: str | None) -> tuple[str | None, ...]:
    return ("+I", *values)


def delete(*values: str | None) -> tuple[str | None, ...]:
    return ("-D", *values)


NUMBERS: Final = tuple((str(number),) for number in range(6))
INT_KEY: Final = (("k", "INT"), ("v", "STRING"))
DVF_32: Final = ("DVF-1", "DVF-2", "DVF-4", "DVF-5", "DVF-6", "DVF-9", "DVF-10", "DVF-13")

_VALUE_COLUMNS: Final = tuple((f"v{at}", type) for at, type in enumerate(VALUES))
_VALUES: Final = (
    write(
        insert("1", *(values[0] for values in VALUES.values())),
        insert("2", *(values[-1] for values in VALUES.values())),
        insert("3", *(None for _ in VALUES)),
    ),
    write(insert("1", *(None for _ in VALUES)), delete("2", *(None for _ in VALUES))),
)


def _keys(
    name: str, what: str, columns: Sequence[tuple[str, str]], *keys: tuple[str, ...], writer: str = JVM
) -> Case:
    names = [name for name, _ in columns]
    rows = [insert(*key, "old") for key in keys]
    return Case(
        f"keys-{name}",
        what,
        writer,
        ("META-4", "META-5", "META-6", "META-7", "META-24", "TBL-5", "MRG-7", "LSM-1"),
        (
            create([*columns, ("v", "STRING")], names, bucket="2"),
            *loaded(*keys),
            write(*rows[:1], delete(*keys[1], None)),
        ),
    )


CASES: Final = (
    Case(
        "containers",
        "one vector of 8,400 positions as it grows: an array container, then a bitmap, then runs",
        JVM,
        DVF_32,
        (
            create(INT_KEY, ["k"]),
            span("+I", 0, 8400),
            span("-D", 7, 8400, 1000),
            span("-D", 0, 8400, 2),
            span("-D", 1, 8000, 2),
            span("+I", 8000, 8400),
        ),
    ),
    Case(
        "several-vectors",
        "three files of one level, each with a vector, in one index file",
        JVM,
        (*DVF_32, "LSM-2", "CMP-15", "CMP-26"),
        (
            create(INT_KEY, ["k"], target__file__size="1 kb"),
            span("+I", 0, 2400),
            write(delete("3", None), delete("1500", None), insert("2300", "new")),
            write(delete("4", None)),
        ),
    ),
    Case(
        "vectors-of-64-bits",
        "a 64-bit vector, and a second one next to it",
        NEWER_JVM,
        ("DVF-1", "DVF-3", "DVF-4", "DVF-5", "DVF-6", "DVF-9", "DVF-11", "DVF-13"),
        (
            create(INT_KEY, ["k"], bucket="2", **{BITMAP64: "true"}),
            *loaded(*NUMBERS),
            write(delete("0", None), insert("1", "new")),
            write(delete("2", None), insert("3", "new")),
        ),
    ),
    Case(
        "vectors-of-both-kinds",
        "an index file with a 32-bit vector, and one of 64 bits, which an option has asked for since",
        NEWER_JVM,
        (*DVF_32, "DVF-3", "DVF-11", "DVF-12"),
        (
            create(INT_KEY, ["k"], target__file__size="1 kb"),
            span("+I", 0, 2400),
            write(delete("3", None), delete("4", None)),
            {"do": "alter", "changes": [["set option", BITMAP64, "true"]]},
            write(delete("5", None), delete("1500", None), insert("2300", "new")),
        ),
    ),
    Case(
        "empty-index",
        "a full compaction after deletes leaves an index file without vectors: one byte",
        JVM,
        ("DVF-7", "DVF-14", "DV-13"),
        (
            create(INT_KEY, ["k"]),
            *loaded(*NUMBERS),
            write(delete("0", None), insert("1", "new")),
            compact(full=True),
        ),
    ),
    Case(
        "dangling-vector",
        "a full compaction of one file leaves its vector behind, which names a file that is no longer live",
        NEWER_JVM,
        ("DVF-1", "DVF-2", "RD-1"),
        (
            create(INT_KEY, ["k"]),
            *loaded(*NUMBERS),
            write(delete("0", None)),
            compact(full=True),
            compact(full=True),
        ),
    ),
    Case(
        "partitions",
        "partitions with characters that are escaped, a blank one and one outside ASCII; one is never compacted",
        JVM,
        ("META-9", "META-12", "META-31", "TBL-3"),
        (
            create([("p", "STRING"), *INT_KEY], ["p", "k"], ["p"]),
            write(
                *(
                    insert(p, "1", "a")
                    for p in ("plain", "a:b=c%d", "", "\u00fc \U0001f600", "q'\"*?\\^{}[]#")
                )
            ),
            write(insert("a:b=c%d", "2", "b"), delete("", "1", None)),
            write(insert("plain", "2", "level 0"), write_only=True),
        ),
    ),
    Case(
        "partitions-of-other-types",
        "three partition keys: a date, written as a number of days, an integer and a boolean",
        NEWER_JVM,
        ("META-9", "META-12", "META-31", "TBL-3"),
        (
            create(
                [("d", "DATE"), ("n", "INT"), ("b", "BOOLEAN"), *INT_KEY],
                ["d", "n", "b", "k"],
                ["d", "n", "b"],
            ),
            write(insert("19000", "-1", "true", "1", "a"), insert("-5", "2147483647", "false", "1", "b")),
            write(insert("19000", "-1", "true", "1", "c")),
        ),
    ),
    _keys(
        "of-integers",
        "a composite key of every width of integer, a boolean and a date, at their edges",
        [("t", "TINYINT"), ("s", "SMALLINT"), ("b", "BIGINT"), ("o", "BOOLEAN"), ("d", "DATE")],
        ("-128", "-32768", "-9223372036854775808", "false", "-5"),
        ("127", "32767", "9223372036854775807", "true", "19000"),
        ("0", "0", "0", "false", "0"),
    ),
    _keys(
        "of-strings",
        "a composite key of strings: prefixes of each other, within and beyond 7 bytes, in another order as UTF-16",
        [("a", "STRING"), ("b", "VARCHAR(20)"), ("c", "BYTES")],
        ("ab\uffee", "", "00"),
        ("ab\U0001f600", "abcdefg", "ff00ff00ff00ff00ff"),
        ("a long one, of more than 16 code points", "abcdefgh", ""),
    ),
    _keys(
        "of-decimals",
        "a composite key of decimals that fit 64 bits and of one that does not",
        [("a", "DECIMAL(5, 0)"), ("b", "DECIMAL(18, 2)"), ("c", "DECIMAL(30, 5)")],
        ("-99999", "-0.01", "-0.00001"),
        ("99999", "9999999999999999.99", "123456789012345678901.12345"),
        ("0", "0.00", "0.00000"),
    ),
    _keys(
        "of-times",
        "a composite key of timestamps of seconds to nanoseconds, those before the epoch not of nanoseconds",
        [
            ("s", "TIMESTAMP(0)"),
            ("m", "TIMESTAMP(3)"),
            ("u", "TIMESTAMP(6)"),
            ("n", "TIMESTAMP(9)"),
            ("z", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        ],
        ("-1000000000", "-1000000", "-1000", "1", "-1000"),
        ("1000000000", "1700000000123000000", "1700000000123456000", "1700000000123456789", "1000"),
        ("0", "0", "0", "0", "0"),
        writer=NEWER_JVM,
    ),
    Case(
        "times-before-1970",
        "times of nanoseconds before 1970 in values: INT96 whose nanoseconds count back from a midnight",
        NEWER_JVM,
        ("META-4", "META-47"),
        (
            create(
                [("k", "INT"), ("t", "TIMESTAMP(9)"), ("z", "TIMESTAMP(9) WITH LOCAL TIME ZONE")],
                ["k"],
            ),
            write(
                insert("1", "-1", "-1"),
                insert("2", "-1000000", "-1500001"),
                insert("3", "-86400000000000", "-86400000000001"),
                insert("4", "-9223372036854775808", "9223372036854775807"),
                insert("5", None, "0"),
            ),
            write(insert("1", "-86399999999999", "-2208988800000000001"), delete("2", None, None)),
        ),
    ),
    Case(
        "values",
        "every atomic type: two values and null; statistics of all columns, as Paimon 0.9 has them",
        JVM,
        ("META-19", "META-3", "META-6", "META-7", "META-17", "META-26"),
        (create([("k", "INT"), *_VALUE_COLUMNS], ["k"]), *_VALUES),
    ),
    Case(
        "values-with-dense-statistics",
        "every atomic type: two values and null; statistics of the columns that have some, as since Paimon 1.0",
        NEWER_JVM,
        ("META-19", "META-3", "META-6", "META-7", "META-8", "META-17", "META-26", "META-27"),
        (create([("k", "INT"), *_VALUE_COLUMNS], ["k"]), *_VALUES),
    ),
    Case(
        "statistics-of-keys",
        "strings longer than the 16 code points that statistics keep, in keys and in values",
        NEWER_JVM,
        ("META-5", "META-6", "META-25"),
        (
            create([("k", "STRING"), ("v", "STRING")], ["k"]),
            write(
                insert("Two roads diverged in a yellow wood", "Two roads diverged in a yellow wood"),
                insert("\uffff" * 17, "\U0010ffff" * 17),
            ),
        ),
    ),
    Case(
        "upgraded-file",
        "a file of level 0 that goes to the last level as it is: DELETE and ADD of one name",
        JVM,
        ("CMT-4", "CMP-10", "META-12"),
        (create(INT_KEY, ["k"]), write(insert("1", "a"), insert("2", "b")), write(insert("3", "c"))),
    ),
    Case(
        "level-zero",
        "writes that nobody compacts stay invisible; a compaction then makes them visible together",
        JVM,
        ("RD-1", "RD-2", "RD-3", "RD-15", "CMP-17", "DV-14"),
        (
            create(INT_KEY, ["k"]),
            *loaded(*NUMBERS),
            write(insert("0", "first"), write_only=True),
            write(delete("0", None), insert("1", "second"), write_only=True),
            compact(),
        ),
    ),
    Case(
        "without-vectors",
        "a table without deletion vectors, read by merging its runs, with retractions in a middle level",
        JVM,
        ("RD-4", "MRG-1", "MRG-3", "LSM-4"),
        (
            create(INT_KEY, ["k"], deletion__vectors_enabled="false"),
            *loaded(*NUMBERS),
            write(delete("0", None), insert("1", "new")),
            write(delete("2", None), insert("0", "again")),
            compact(),
        ),
    ),
    Case(
        "tags-and-expiry",
        "a tag outlives its snapshot: snapshots 1 to 4 have expired",
        NEWER_JVM,
        ("RD-10", "CMT-13", "CMT-15", "CMT-17", "CMT-32"),
        (
            create(INT_KEY, ["k"]),
            *loaded(*NUMBERS),
            write(delete("0", None)),
            {"do": "tag", "name": "kept", "snapshot": 4},
            write(insert("1", "new")),
            compact(full=True),
            write(insert("2", "newest")),
            {"do": "expire", "retain": 2},
        ),
    ),
    Case(
        "changed-schema",
        "columns added, renamed, widened and dropped between writes, with vectors on files of the first schema",
        NEWER_JVM,
        ("META-15", "META-39", "RD-14"),
        (
            create([("k", "INT"), ("a", "INT"), ("b", "STRING"), ("v", "STRING")], ["k"]),
            *loaded(*((str(number), str(number), "b") for number in range(4))),
            {
                "do": "alter",
                "changes": [
                    ["add column", "c", "DOUBLE"],
                    ["rename column", "b", "renamed"],
                    ["change type", "a", "BIGINT"],
                ],
            },
            write(insert("1", "9223372036854775807", "new", "v", "3ff8000000000000")),
            {"do": "alter", "changes": [["drop column", "renamed"]]},
            write(delete("2", None, None, None)),
        ),
    ),
    Case(
        "merged-manifests",
        "manifests merged into one at every commit",
        NEWER_JVM,
        ("CMT-4", "CMT-5", "CMT-22", "META-12"),
        (
            create(INT_KEY, ["k"], manifest_merge__min__count="1"),
            *(write(insert(str(number), "a"), insert(str(number + 1), "b")) for number in range(3)),
        ),
    ),
    Case(
        "append-several-indexes",
        "an append table with vectors in several index files: a delete writes one again, a compaction leaves none",
        NEWER_JVM,
        ("APP-1", "APP-3", "APP-4", "APP-5", "APP-11", "APP-13", "APP-14", "APP-21", "APP-31"),
        (
            append_table(INT_KEY, compaction_min_file__num="2"),
            *(write(*(insert(str(k), "a") for k in range(first, first + 4))) for first in (0, 4, 8)),
            change_rows("k", "=", "1"),
            change_rows("k", "=", "5"),
            change_rows("k", ">=", "9"),
            change_rows("k", "<=", "4"),
            change_rows("k", "=", "8", to_null=1),
            compact(),
        ),
    ),
    Case(
        "append-empty-index",
        "an append table with buckets whose compaction leaves an index file without vectors: one byte",
        NEWER_JVM,
        ("APP-3", "APP-6", "APP-7", "APP-13", "DVF-7", "DV-13"),
        (
            append_table(INT_KEY, bucket="1", bucket__key="k"),
            write(*(insert(str(k), "a") for k in range(4)), write_only=True),
            write(*(insert(str(k), "b") for k in range(4, 8)), write_only=True),
            change_rows("k", "=", "1"),
            change_rows("k", ">", "5"),
            compact(full=True),
            write(insert("8", "c")),
        ),
    ),
    Case(
        "thin-files",
        "data files without the _KEY_ columns",
        NEWER_JVM,
        ("META-8", "META-30"),
        (
            create(INT_KEY, ["k"], data__file_thin__mode="true"),
            *loaded(*NUMBERS),
            write(delete("0", None), insert("1", "new")),
        ),
    ),
    *(
        Case(
            f"manifests-in-{kind}",
            f"manifests, manifest lists and index manifests in {title}",
            NEWER_JVM,
            ("META-23", "META-22", "META-84"),
            (
                create([*INT_KEY, ("p", "STRING")], ["p", "k"], ["p"], manifest_format=kind),
                write(insert("1", "a", "x"), insert("2", "b", "x"), insert("3", "c", "y")),
                compact(full=True),
                write(delete("1", None, "x"), insert("2", "new", "x")),
            ),
        )
        for kind, title in (("orc", "ORC"), ("parquet", "Parquet"))
    ),
)


def script_of(case: Case) -> list[Mapping[str, Any]]:
    """Return the commands with every span spelled out."""
    return [_spelled_out(command) for command in case.script]


def _spelled_out(command: Command) -> Command:
    if "span" not in command:
        return command
    kind, start, stop, step = command["span"]
    rows = [[kind, str(key), str(key % 7)] for key in range(start, stop, step)]
    return {"do": "write", "rows": rows, "write_only": False}
