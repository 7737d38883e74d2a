"""The tables of the archive that show one feature each: formats, nested columns, buckets, branches and changes."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pktable import Table
from pktable.format.metadata.schema import encode_schema

from model_tests.conform.tables import (
    HOUR,
    KEYS,
    MERGED,
    MERGES,
    VECTORS,
    Made,
    bulk,
    changes,
    created,
)
from model_tests.damage.table_damage import Surgeon

# --------------------------------------------------------------- data files

EVERY_TYPE: Final = (
    "k INT, t TINYINT, s SMALLINT, b BIGINT, o BOOLEAN, f FLOAT, d DOUBLE, n DECIMAL(20, 3), c DECIMAL(9, 2), "
    "v STRING, y BYTES, a DATE, m TIMESTAMP(3), u TIMESTAMP(6), z TIMESTAMP(6) WITH LOCAL TIME ZONE"
)


def of_every_type(number: int) -> dict[str, Any]:
    """Return a row of `EVERY_TYPE`, every third one of nulls."""
    moment = dt.datetime(1970, 1, 1, 0, 0, 0, 999000) + dt.timedelta(hours=number)
    values = {
        "t": -number,
        "s": number * 300,
        "b": 2**62 + number,
        "o": number % 2 == 0,
        "f": number / 4,
        "d": -number / 10,
        "n": Decimal(number * 10**15 - 7) / 1000,
        "c": Decimal(number - 1) / 100,
        "v": f"é{number}",
        "y": bytes([number, 0, 255]),
        "a": moment.date(),
        "m": moment,
        "u": moment + dt.timedelta(microseconds=number),
        "z": moment.replace(tzinfo=dt.timezone.utc),
    }
    return {"k": number, **{name: None if number % 3 == 2 else value for name, value in values.items()}}


def in_format(name: str) -> Callable[[Path], None]:
    """Return what makes a table whose deepest level is in a format, with a vector on its file, and the others not."""

    def make(root: Path) -> None:
        table = created(root, EVERY_TYPE, {**VECTORS, "file.format.per.level": f"3:{name}"})
        schema = table.schema.arrow_schema
        table.upsert(pa.Table.from_pylist([of_every_type(number) for number in range(9)], schema=schema))
        table.compact(full=True)
        table.upsert(pa.Table.from_pylist([{**of_every_type(4), "v": "new"}], schema=schema))
        table.delete(where="k = 6")

    return make


NESTED: Final = (
    "k INT, a ARRAY<INT>, m MAP<STRING, BIGINT>, r ROW<x INT, y STRING>, "
    "q ARRAY<ROW<u STRING, w DECIMAL(4, 1)>>"
)


def nested_row(number: int) -> dict[str, Any]:
    """Return a row of `NESTED`. There are empty ones and nulls at each depth."""
    found: dict[str, Any] = {
        "a": [number, None, -number][: number % 4],
        "m": [("b", number), ("a", None)][: number % 3],
        "r": {"x": number, "y": None if number % 2 else "y"},
        "q": [{"u": "x", "w": Decimal(number) / 10}, None, {"u": None, "w": None}][: number % 4],
    }
    return {
        "k": number,
        **{n: None if (number + at) % 5 == 0 else v for at, (n, v) in enumerate(found.items())},
    }


def nested(root: Path) -> None:
    table = created(root, NESTED, VECTORS)
    schema = table.schema.arrow_schema
    table.upsert(pa.Table.from_pylist([nested_row(number) for number in range(10)], schema=schema))
    table.compact(full=True)
    table.upsert(
        pa.Table.from_pylist([{"k": 3, "a": [], "m": [], "r": {"x": 1, "y": "z"}, "q": []}], schema=schema)
    )


def nested_evolution(root: Path) -> None:
    """Rename, add, drop and widen fields of a row, and of one that has none of its fields left."""
    table = created(root, "k INT, r ROW<x INT, y STRING>, l ARRAY<ROW<u INT>>, e ROW<old INT>", VECTORS)
    rows = [{"k": n, "r": {"x": n, "y": "y"}, "l": [{"u": n}, None], "e": {"old": n}} for n in range(3)]
    table.upsert(pa.Table.from_pylist(rows, schema=table.schema.arrow_schema))
    table.compact(full=True)
    path = root / "schema/schema-0"
    schema = json.loads(path.read_text())
    by_name = {field["name"]: field["type"] for field in schema["fields"]}
    x, _ = by_name["r"]["fields"]
    last = schema["highestFieldId"]
    by_name["r"]["fields"] = [
        {"id": last + 1, "name": "y", "type": "INT"},  # another column than the y that was there
        {**x, "name": "renamed", "type": "BIGINT"},
    ]
    (u,) = by_name["l"]["element"]["fields"]
    by_name["l"]["element"]["fields"] = [
        {**u, "name": "w"},
        {"id": last + 2, "name": "more", "type": "STRING"},
    ]
    by_name["e"]["fields"] = [{"id": last + 3, "name": "new", "type": "INT"}]
    stored = {name: value for name, value in schema.items() if name != "pktable.crc32"}
    changed = json.dumps({**stored, "id": 1, "highestFieldId": last + 3}).encode()
    (root / "schema/schema-1").write_bytes(changed)
    (root / "schema/schema-1").write_bytes(encode_schema(Table.open(root).schema))


# ------------------------------------------------------------------ buckets


def dynamic(root: Path) -> None:
    options = {**VECTORS, "bucket": "-1", "dynamic-bucket.target-row-num": "3"}
    table = created(root, "k INT, v STRING", options)
    changes(table, *(("+I", number, bulk(number)) for number in range(7)), write_only=True)
    table.compact(full=True)
    changes(table, ("-D", 1, None), ("+U", 5, "five"), ("+I", 8, "eight"))


def moving_keys(root: Path) -> None:
    """Let a key move from a partition to another one: its old partition has a retraction."""
    table = created(root, "k INT, p STRING, v STRING", {**MERGED, "bucket": "-1"}, partition_by=["p"])
    changes(table, ("+I", 1, "a", "one"), ("+I", 2, "a", "two"), ("+I", 3, "b", "three"), write_only=True)
    changes(table, ("+I", 1, "b", "uno"), write_only=True)


def waiting(root: Path) -> None:
    table = created(root, "k INT, v STRING", {**MERGED, "bucket": "-2"})
    changes(table, ("+I", 1, "one"), ("+I", 2, "two"))
    table.compact()
    changes(table, ("+U", 1, "uno"), ("+I", 3, "three"))


def append_buckets(root: Path) -> None:
    options = {"bucket": "2", "bucket-key": "k", "deletion-vectors.enabled": "true"}
    table = created(root, "k INT, v STRING", options, key=None)
    table.append(pa.table({"k": pa.array(range(8), pa.int32()), "v": list("abcdefgh")}))
    table.append(pa.table({"k": pa.array([1, 1, 9], pa.int32()), "v": ["b", "b", None]}))
    table.delete(where="k = 1 AND v = 'b' OR k = 4")


def elsewhere(root: Path) -> None:
    options = {**VECTORS, "data-file.path-directory": "rows"}
    table = created(root, "k INT, p STRING, v STRING", options, key=["p", "k"], partition_by=["p"])
    changes(table, *(("+I", number, "a", bulk(number)) for number in range(4)), write_only=True)
    table.compact(full=True)
    changes(table, ("-D", 3, "a", None))


OF_PARTITIONS: Final = (
    "k INT, c DECIMAL(5, 2), w DECIMAL(20, 2), m TIMESTAMP(3), u TIMESTAMP(6), a DATE, s STRING, b BIGINT"
)


def partitions(root: Path, options: Mapping[str, str] = MERGED) -> None:
    keys = ["c", "w", "m", "u", "a", "s", "b"]
    table = created(root, OF_PARTITIONS, options, key=["k", *keys], partition_by=keys)
    moment = dt.datetime(2026, 1, 31, 8, 30)
    first = (1, Decimal("1.50"), Decimal("-123456789012345678.90"), moment, moment.replace(second=1))
    second = (2, Decimal("-0.05"), Decimal("0.01"), moment, moment.replace(microsecond=500))
    changes(table, ("+I", *first, moment.date(), "a/b", -1), write_only=True)
    changes(table, ("+I", *second, dt.date(1969, 12, 31), "long enough: é", 2**62), write_only=True)


def times_of_day(root: Path) -> None:
    table = created(root, "k INT, p TIME(0), t TIME(3)", MERGED, key=["k", "p"], partition_by=["p"])
    for k, p, t in ((1, dt.time(8, 30), dt.time(23, 59, 59, 999000)), (2, dt.time(0), None)):
        changes(table, ("+I", k, p, t), write_only=True)


def newer_names(root: Path) -> None:
    partitions(root, {**MERGED, "partition.legacy-name": "false"})


def older_values(root: Path) -> None:
    """Write values that a newer run replaces: only the older run has those that a condition asks for."""
    table = created(root, "k INT, v STRING, n INT", {**MERGED, "bucket": "2"})
    changes(table, *(("+I", number, "old", number) for number in range(6)), write_only=True)
    changes(table, ("+U", 1, "new", 50), ("-D", 2, None, None), ("+U", 3, "new", None), write_only=True)


# ----------------------------------------------------- branches and changes


def branches(root: Path) -> None:
    table = created(root, "k INT, v STRING", VECTORS)
    changes(table, ("+I", 1, "one"), ("+I", 2, "two"))
    table.create_branch("trial")
    trial = table.branch("trial")
    trial.alter(add="n INT")
    trial = table.branch("trial")
    changes(trial, ("+U", 1, "uno", 1), ("-D", 2, None, None))
    trial.create_tag("kept")
    changes(table, ("+I", 3, "three"))


OF_BRANCH: Final = (
    {"branch": "trial"},
    {"branch": "trial", "snapshot": 2},
    {"branch": "trial", "tag": "kept"},
)


def recorded_by(producer: str, options: Mapping[str, str]) -> Callable[[Path], None]:
    """Return what makes a table whose changes a producer records."""

    def make(root: Path) -> None:
        table = created(root, "k INT, v STRING", {**options, "changelog-producer": producer})
        changes(table, ("+I", 1, "one"), ("+I", 2, "two"), ("+I", 3, "three"))
        changes(table, ("+U", 1, "uno"), ("-D", 2, None), ("+I", 4, "four"))
        table.compact(full=True)
        changes(table, ("+I", 2, "again"), ("-D", 3, None), write_only=True)

    return make


def overwritten(root: Path) -> None:
    recorded_by("input", MERGED)(root)
    table = Table.open(root)
    table.overwrite(pa.table({"k": pa.array([9], pa.int32()), "v": ["nine"]}))


def kept_changes(root: Path) -> None:
    options = {**VECTORS, "changelog.num-retained.min": "20", "changelog.num-retained.max": "20"}
    recorded_by("lookup", options)(root)
    Table.open(root).expire_snapshots(retain_last=2)


def expired(root: Path) -> None:
    recorded_by("lookup", VECTORS)(root)
    Table.open(root).expire_snapshots(retain_last=2)


def no_snapshot(root: Path) -> None:
    created(root, "k INT, v STRING", VECTORS)


def without_hints(root: Path) -> None:
    table = created(root, "k INT, v STRING", MERGED)
    for number in range(11):
        changes(table, ("+I", number, "v"), write_only=True)
    for number in range(1, 12):
        Surgeon(root).edit_snapshot(
            number, time_millis=(number if number != 3 else 20) * HOUR
        )  # a clock that was fast
    for hint in ("LATEST", "EARLIEST"):
        (root / "snapshot" / hint).unlink(missing_ok=True)


def moved(root: Path) -> None:
    """Put vectors in the directory of the data files, as an option says."""
    table = created(root, "k INT, v STRING", {**VECTORS, "index-file-in-data-file-dir": "true"})
    changes(table, *(("+I", number, bulk(number)) for number in range(6)), write_only=True)
    table.compact(full=True)
    changes(table, ("-D", 3, None))
    shutil.rmtree(root / "index", ignore_errors=True)


NESTED_KEYS: Final = (*KEYS, "nested")
SPECIAL: Final = (
    Made(
        "in-orc",
        "data files in ORC, next to those in Parquet",
        ("META-17", "META-29", "META-44", "META-71", "META-72", "META-82", "TBL-37"),
        (*KEYS, "orc"),
        in_format("orc"),
        ({"where": [["k", ">", "2"]]},),
    ),
    Made(
        "in-avro",
        "data files in Avro, next to those in Parquet",
        ("META-17", "META-29", "META-44", "META-71", "META-73", "META-82", "META-83"),
        (*KEYS, "avro"),
        in_format("avro"),
        ({"where": [["k", ">", "2"]]},),
    ),
    Made("nested", "columns of ARRAY, MAP and ROW", ("META-19", "META-82"), NESTED_KEYS, nested),
    Made(
        "nested-evolution",
        "fields of rows that were renamed, added, dropped and widened",
        ("META-16", "META-42", "META-15", "META-39"),
        (*NESTED_KEYS, "evolution"),
        nested_evolution,
    ),
    Made(
        "dynamic-buckets",
        "dynamic buckets, whose hash index files are no vectors",
        ("BKT-1", "BKT-2", "META-84"),
        KEYS,
        dynamic,
    ),
    Made(
        "moving-keys",
        "a key that has moved to another partition",
        ("TBL-16", "BKT-21"),
        MERGES,
        moving_keys,
    ),
    Made("waiting-rows", "rows that wait for a bucket", ("RD-21", "BKT-13"), MERGES, waiting),
    Made(
        "append-with-buckets",
        "an append table with buckets",
        ("APP-1", "APP-4", "APP-6", "APP-7"),
        ("append",),
        append_buckets,
    ),
    Made("vectors-by-data", "vectors in the directory of their bucket", ("META-50",), KEYS, moved),
    Made(
        "data-elsewhere",
        "data files below the directory that an option names",
        ("META-49", "META-9"),
        KEYS,
        elsewhere,
    ),
    Made(
        "partitions-of-every-form",
        "partitions of decimals, times, dates and longer texts",
        ("META-80", "META-81", "META-31", "META-24"),
        MERGES,
        partitions,
    ),
    Made(
        "times-of-day",
        "columns and partitions of TIME",
        ("META-70", "META-81"),
        MERGES,
        times_of_day,
    ),
    Made(
        "partitions-of-newer-names",
        "the same in directories whose names spell dates and times as SQL does",
        ("META-81",),
        MERGES,
        newer_names,
    ),
    Made(
        "conditions-before-merges",
        "conditions on values that newer records have replaced",
        ("RD-6", "RD-8", "RD-16", "RD-9", "RD-12"),
        MERGES,
        older_values,
        (
            {"where": [["v", "=", "old"]]},
            {"where": [["n", "<", "4"]]},
            {"where": [["v", "=", "new"], ["k", "<>", "3"]]},
            {"where": [["v", "=", "old"]], "limit": 2},
            {"where": [["v", "=", "old"]], "columns": ["n"], "snapshot": 1},
        ),
    ),
    Made("branches", "a branch with another schema", ("BRN-1", "META-59"), KEYS, branches, OF_BRANCH),
    Made("no-snapshot", "a table into which nothing was written", ("CMT-13", "CMT-51"), KEYS, no_snapshot),
    Made(
        "without-hints",
        "eleven snapshots, and no hint which is the latest",
        ("CMT-13", "RD-17"),
        MERGES,
        without_hints,
        ({"timestamp": 4 * HOUR}, {"timestamp": 5 * HOUR - 1}, {"timestamp": 3 * HOUR}),
    ),
    Made(
        "changes-of-input",
        "changes that writes record",
        ("CHG-1", "CHG-3", "CHG-4", "CHG-11"),
        MERGES,
        recorded_by("input", MERGED),
        ({"changes": [0, 3]}, {"changes": [1, 2]}, {"changes": [2, 2]}),
    ),
    Made(
        "changes-of-lookup",
        "changes that compactions of level 0 record",
        ("CHG-1", "CHG-3", "CHG-5", "CHG-11"),
        KEYS,
        recorded_by("lookup", VECTORS),
        ({"changes": [0, 4]}, {"changes": [2, 4]}),
    ),
    Made(
        "changes-of-full-compactions",
        "changes that full compactions record",
        ("CHG-7", "CHG-11"),
        MERGES,
        recorded_by("full-compaction", MERGED),
        ({"changes": [0, 4]},),
    ),
    Made(
        "changes-as-written",
        "changes that nobody records",
        ("CHG-11",),
        KEYS,
        recorded_by("none", VECTORS),
        ({"changes": [0, 3]}, {"changes": [2, 5]}),
    ),
    Made(
        "changes-of-an-overwrite",
        "changes whose range has an overwrite",
        ("CHG-12",),
        MERGES,
        overwritten,
        ({"changes": [0, 2]},),
        refused=({"changes": [0, 5]},),
    ),
    Made(
        "kept-changes",
        "changes of snapshots that have expired, and are kept",
        ("CHG-18", "CHG-11"),
        KEYS,
        kept_changes,
        ({"changes": [0, 4]},),
    ),
    Made(
        "expired-changes",
        "changes of snapshots that have expired",
        ("CHG-13", "RD-10"),
        KEYS,
        expired,
        refused=({"changes": [0, 4]}, {"snapshot": 1}, {"snapshot": 99}),
    ),
)
