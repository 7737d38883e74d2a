"""Requests that `pktable` must refuse, each with the words in which it does: definitions of tables, and work on one.

`answered` makes all of them, and returns those that were not refused, or otherwise. Tests of definitions take their
cases from here, and histories make all requests on tables in use.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pktable import CommitId, InvalidRequestError, Table

KEYS: Final = [
    ("k INT, k STRING", ["k"], [], "k"),
    ("k INT, v INT", ["x"], [], "primary key"),
    ("k INT, v INT", ["k", "k"], [], "primary key"),
    ("k INT, v INT", ["k"], ["v"], "partition keys"),
    ("k INT, v INT", ["k"], ["k"], "partition keys"),
    ("k ARRAY<INT>, v INT", ["k"], [], "atomic"),
    ("_KEY_a INT, v INT", ["v"], [], "_KEY_"),
    ("__pktable_kind INT, v INT", ["v"], [], "__pktable_"),
    ("k INT, _ROW_ID STRING", ["k"], [], "column _ROW_ID: the name is reserved"),
    ("k INT, _SEQUENCE_NUMBER INT", ["k"], [], "_SEQUENCE_NUMBER"),
    ("k INT, _VALUE_KIND INT", [], [], "_VALUE_KIND"),
    ("k NOTATYPE", ["k"], [], "type"),
]
"""Columns, primary key, partition keys, and a word of the refusal."""

DAYS: Final = "id INT, day INT, v DOUBLE"
KEYS_OF_DAYS: Final[list[tuple[Any, Any, str]]] = [
    ("Id", (), "primary key: Id is not one of the columns id, day, v; write id"),
    ("x", (), "primary key: x is not one of the columns id, day, v"),
    (5, (), "primary_key: expected a column name or a list of them, found 5"),
    ([1], (), "primary_key: expected column names, found 1"),
    (["id", "id"], (), "primary key: column id is given twice"),
    ("id", "day", "partition keys: day is not one of the primary-key columns id"),
    ("id", "id", r"partition keys: all primary-key columns \(id\) are partition keys"),
    (["id", "v"], "v", "partition keys: column v is of type DOUBLE NOT NULL, which cannot be part of a dir"),
    ("id", 5, "partition_by: expected a column name or a list of them, found 5"),
]
"""Primary key and partition keys of a table of `DAYS`, and how the refusal begins."""


def spark_struct(kind: str) -> Any:
    """Return a StructType of a key ``k`` and a column ``v`` of a type that no table has."""
    from pyspark.sql import types as st

    kinds = {
        "void": st.NullType(),
        "interval": st.DayTimeIntervalType(),
        "collated": st.StringType("UTF8_LCASE"),
    }
    return st.StructType().add("k", st.IntegerType()).add("v", kinds[kind])


COLUMNS: Final[list[tuple[Any, str]]] = [
    (None, "columns: expected SQL text .*dict.*Arrow.*StructType, found NoneType"),
    (["k INT"], "columns: expected SQL text .* found list"),
    (pa.table({"k": [1]}), "columns: expected SQL text .* found Table"),
    ({}, "columns: expected at least one, found none"),
    (pa.schema([]), "columns: expected at least one, found none"),
    ({"k": "INT, v INT"}, "column k: type 'INT, v INT': expected the end, found ','"),
    ({"k": 5}, "column k: expected the SQL text of a type, found 5"),
    ({"k": pa.duration("s")}, "column k: Arrow type duration"),
    ({7: "INT"}, "columns: expected names that are text and not empty, found 7"),
    ({"": "INT"}, "columns: expected names that are text and not empty, found ''"),
    ({"k": "INT", "\ud800": "INT"}, r"name of a column: expected text of whole characters, found '\\ud800'"),
    ({"k": "INT", "r": "ROW<`\ud800` INT>"}, "name of a field in r: expected text of whole characters"),
    (
        {"k": "INT", "a": f"{'ARRAY<' * 50}INT{'>' * 50}"},
        "column a: expected at most 99 levels in Parquet, found more",
    ),
    ("k INT COMMENT '\ud800'", "comment of column k: expected text of whole characters"),
    (pa.field("k", pa.int32()), "columns: Arrow reads no columns from this Field"),
    (pa.schema({"k": pa.int32(), "v": pa.duration("s")}), "column v: Arrow type duration"),
    (pa.schema([("k", pa.int32()), ("k", pa.int32())]), "column 'k' is defined twice"),
    (spark_struct("void"), "column v: Spark type void is not supported"),
    (spark_struct("interval"), "column v: Spark type interval day to second is not supported"),
    (spark_struct("collated"), "column v: Spark type string collate UTF8_LCASE is not supported"),
]
"""Columns, whose key would be ``k``, and how the refusal begins."""

NOT_IMPLEMENTED: Final = [
    ("merge-engine", "newest"),
    ("sequence.field.sort-order", "random"),
    ("changelog-producer", "newest"),
    ("bucket", "-3"),
    ("file.format", "lance"),
    ("no.such.option", "1"),
    ("bucket-function.type", "mod"),
]
MALFORMED: Final = [
    ("bucket", "two"),
    ("bucket", str(1 << 31)),
    ("num-sorted-run.compaction-trigger", str(1 << 31)),
    ("compaction.size-ratio", str(-(1 << 31) - 1)),
    ("write-only", "yes"),
    ("target-file-size", "big"),
]
"""Options and their values; the refusal names the option."""

MERGED: Final = "k INT, a INT, b STRING, g INT"
PARTIAL: Final = {"merge-engine": "partial-update"}
AGGREGATION: Final = {"merge-engine": "aggregation"}
FIRST: Final = {"merge-engine": "first-row"}
SUMS: Final = {**AGGREGATION, "fields.a.aggregate-function": "sum"}
ENGINES: Final[list[tuple[Mapping[str, str], str]]] = [
    (
        {"fields.a.aggregate-function": "sum"},
        "fields.a.aggregate-function='sum' is not supported: expected merge",
    ),
    ({"partial-update.remove-record-on-delete": "true"}, "partial-update.remove-record-on-delete='true'"),
    (
        {**PARTIAL, "aggregation.remove-record-on-delete": "true"},
        "expected merge-engine=aggregation with it",
    ),
    ({**AGGREGATION, "fields.g.sequence-group": "a"}, "fields.g.sequence-group='a' is not supported"),
    ({**AGGREGATION, "fields.a.nested-key": "x"}, "expected fields.a.aggregate-function=nested_update with"),
    ({**AGGREGATION, "fields.a.aggregate-function": "nested_update"}, "expected ARRAY<ROW<...>>"),
    ({**AGGREGATION, "fields.a.aggregate-function": "rbm32"}, "INT; expected BYTES or VARBINARY"),
    ({**AGGREGATION, "fields.a.aggregate-function": "rbm64"}, "INT; expected BYTES or VARBINARY"),
    ({**AGGREGATION, "fields.a.aggregate-function": "theta_sketch"}, "INT; expected BYTES or VARBINARY"),
    ({**AGGREGATION, "fields.a.count-limit": "2"}, "expected fields.a.aggregate-function=nested_update with"),
    ({**AGGREGATION, "fields.z.aggregate-function": "sum"}, "column z does not exist"),
    (
        {**AGGREGATION, "fields.b.aggregate-function": "sum"},
        "column b is of type STRING; expected a number",
    ),
    ({**AGGREGATION, "fields.a.aggregate-function": "hll_sketch"}, "'hll_sketch' is not supported"),
    ({**AGGREGATION, "fields.default-aggregate-function": "nothing"}, "fields.default-aggregate-function"),
    ({**AGGREGATION, "fields.b.distinct": "true"}, "expected fields.b.aggregate-function=collect with"),
    (
        {**SUMS, "aggregation.remove-record-on-delete": "true", "fields.a.ignore-retract": "true"},
        "together",
    ),
    ({**PARTIAL, "fields.g.sequence-group": "a,z"}, "fields.g.sequence-group: column z does not exist"),
    ({**PARTIAL, "fields.z.sequence-group": "a"}, "fields.z.sequence-group: column z does not exist"),
    ({**PARTIAL, "fields.g.sequence-group": "k"}, "column k is in the primary key"),
    (
        {**PARTIAL, "fields.g.sequence-group": "a", "fields.b.sequence-group": "a"},
        "fields.b.sequence-group: column a is in fields.g.sequence-group already",
    ),
    ({**PARTIAL, "fields.a.aggregate-function": "sum"}, "column a is in no sequence group"),
    (
        {**PARTIAL, "fields.g.sequence-group": "b", "fields.b.aggregate-function": "listagg"},
        "fields.b.aggregate-function='listagg' is not supported",
    ),
    (
        {**PARTIAL, "partial-update.remove-record-on-sequence-group": "g"},
        "column g orders no sequence group",
    ),
    (
        {**PARTIAL, "partial-update.remove-record-on-delete": "true", "ignore-delete": "true"},
        "not to be set together with ignore-delete",
    ),
    (
        {**PARTIAL, "partial-update.remove-record-on-delete": "true", "fields.g.sequence-group": "a"},
        "not to be set together with a sequence group",
    ),
    (
        {
            **PARTIAL,
            "partial-update.remove-record-on-sequence-group": "g",
            "fields.g.sequence-group": "a",
            "ignore-delete": "true",
        },
        "not to be set together with ignore-delete",
    ),
    ({**FIRST, "deletion-vectors.enabled": "true"}, "or deletion-vectors.enabled=false"),
    ({**FIRST, "sequence.field": "a"}, "an engine that sequence.field works with"),
    ({**PARTIAL, "sequence.field": "a"}, "sequence groups order partial updates"),
    ({**SUMS, "sequence.field": "a"}, "not to be set together with sequence.field=a"),
    (
        {**AGGREGATION, "aggregation.remove-record-on-delete": "true", "sequence.field": "g"},
        "expected sequence.field without it",
    ),
    (
        {**AGGREGATION, "fields.b.aggregate-function": "listagg", "sequence.field": "g"},
        "or a function that values may reach in any order",
    ),
    (
        {"fields.g.sequence-group": "a"},
        "fields.g.sequence-group='a' is not supported: expected merge-engine=partial-update with it",
    ),
    (
        {**PARTIAL, "fields..sequence-group": "a"},
        "option fields..sequence-group: expected the columns that order the group, found none",
    ),
    ({**PARTIAL, "fields.g.sequence-group": ""}, "option fields.g.sequence-group='' is not supported"),
    ({"first-row.ignore-delete": "true"}, "first-row.ignore-delete='true' is not supported: expected merge"),
    (
        {**FIRST, "deduplicate.ignore-delete": "true"},
        "deduplicate.ignore-delete='true' is not supported: expected merge-engine=deduplicate with it",
    ),
    (
        {**SUMS, "fields.b.list-agg-delimiter": "|"},
        "fields.b.list-agg-delimiter='|' is not supported: expected fields.b.aggregate-function=listagg with",
    ),
    (
        {"sequence.field.sort-order": "descending"},
        "sequence.field.sort-order='descending' is not supported: expected sequence.field with it",
    ),
    ({"sequence.field.retractions": "keep"}, "'keep' is not supported: expected sequence.field with it"),
    ({"changelog-producer.row-deduplicate": "true"}, "expected a changelog-producer other than none with it"),
    ({"sequence.field": "a,a"}, "option sequence.field: column a is named twice"),
    ({"sequence.field": "z"}, "option sequence.field: column z does not exist"),
]
"""Options of a table of `MERGED`, and some words of the refusal."""

MANY: Final = 1_000_000  # more snapshots than any table has
WORK: Final[list[tuple[Callable[[Any], Any], str]]] = [
    (lambda table: table.to_arrow(snapshot="1"), "^snapshot: expected an integer, found '1'"),
    (lambda table: table.to_arrow(snapshot=True), "^snapshot: expected an integer, found True"),
    (lambda table: table.to_arrow(snapshot=MANY), "^snapshot 1000000 does not exist.*retained: "),
    (lambda table: table.to_arrow(tag=5), "^tag: expected a name, found 5"),
    (lambda table: table.to_arrow(tag="a/b"), "^tag: expected a name, found 'a/b'"),
    (lambda table: table.to_arrow(tag="none"), "^tag 'none' does not exist"),
    (lambda table: table.to_arrow(snapshot=1, tag="a"), "^read: give one of .* not snapshot and tag"),
    (lambda table: table.to_arrow(timestamp="soon"), "^timestamp: expected ISO text .* found 'soon'"),
    (lambda table: table.to_arrow(timestamp=True), "^timestamp: expected a datetime.* found True"),
    (
        lambda table: table.to_arrow(timestamp=0),
        "^a snapshot at or before 1970-01-01T00:00:00Z .*retained: (none|.*, the oldest of 2.*Z)$",
    ),
    (lambda table: table.to_arrow(timestamp=-(10**18)), "^a snapshot at or before -1000000000000000000 ms "),
    (lambda table: table.to_arrow(columns=["nope"]), "^columns: expected some of .* found nope"),
    (lambda table: table.to_arrow(columns=[]), "^columns: expected some of .* found none"),
    (lambda table: table.to_arrow(limit=-1), "^limit: expected an integer from 0 to 2147483647, found -1"),
    (
        lambda table: table.to_arrow(limit=True),
        "^limit: expected an integer from 0 to 2147483647, found True",
    ),
    (
        lambda table: table.to_arrow(limit=1 << 31),
        "^limit: expected an integer from 0 to 2147483647, found 2147483648",
    ),
    (lambda table: table.to_arrow(where=5), "^where: expected text, found int"),
    (lambda table: table.to_arrow(where="nope = 1"), "column 'nope' does not exist"),
    (lambda table: table.scan(limit=1).splits(), "^splits: a scan with a limit cannot be divided"),
    (lambda table: table.create_tag("1"), "^tag '1': (not a name of a tag|the table has no snapshot yet)"),
    (lambda table: table.create_tag(None), "^tag None: (not a name of a tag|the table has no snapshot yet)"),
    (lambda table: table.create_tag("a", snapshot=MANY), "^snapshot 1000000 does not exist"),
    (
        lambda table: table.create_tag(min(table.tags(), default="."), snapshot=_latest(table)),
        "^tag '.*' exists already|^tag '.': not a name|^snapshot 0 does not exist",
    ),
    (lambda table: table.delete_tag("none"), "^tag 'none' does not exist"),
    (lambda table: table.expire_snapshots(retain_last=0), "^retain_last: expected 1 or more, found 0"),
    (lambda table: table.expire_snapshots(retain_last=1, older_than="soon"), "^older_than: expected ISO "),
    (lambda table: table.rollback(), "^rollback: expected either a snapshot or a tag"),
    (lambda table: table.rollback(snapshot=1, tag="a"), "^rollback: expected either a snapshot or a tag"),
    (lambda table: table.rollback(snapshot=MANY), "^snapshot 1000000 does not exist"),
    (lambda table: table.rollback(tag="none"), "^tag 'none' does not exist"),
    (lambda table: table.changes(5, 2).to_arrow(), "^changes: start 5 is after end 2"),
    (lambda table: table.changes(0, MANY).to_arrow(), "^changes after snapshot 0 up to 1000000: snapshot "),
    (lambda table: table.changes(-1).to_arrow(), "^start: expected the id .* found -1"),
    (lambda table: table.changes(True).to_arrow(), "^start: expected the id .* found True"),
    (lambda table: table.changes("none").to_arrow(), "^tag 'none' does not exist"),
    (lambda table: table.truncate(commit_id=5), r"^commit_id: expected CommitId\(user, number\), found 5"),
    (
        lambda table: table.truncate(commit_id=CommitId(5)),  # type: ignore[arg-type]
        "^commit_id: expected a text that is not empty, of whole characters, and an integer of 64 bits, found 5 and ",
    ),
    (
        lambda table: table.truncate(commit_id=CommitId("a", 1 << 63)),
        "^commit_id: expected a text that is not empty, of whole characters, and an integer of 64 bits, "
        "found 'a' and 9223372036854775808",
    ),
    (lambda table: table.append(pa.table({})), "^append: the table has a primary key"),
    (lambda table: table.upsert(pa.table({"nope": [1]})), "^columns: "),
    (lambda table: table.upsert(_rows(table, 1).drop_columns(table.schema.primary_keys[0])), "^columns: "),
    (lambda table: table.overwrite(_rows(table, 1).drop_columns(["v"])), "^columns: "),
    (lambda table: table.upsert(_rows(table, None)), "^column .*: expected .* NOT NULL, found null in 1 of"),
    (
        lambda table: table.write_changes(_rows(table, 1).append_column("op", [["+X"]]), row_kind="op"),
        r"^row kind of row 0: expected one of \+I, -U, \+U, -D or 0..3, found '\+X'",
    ),
    (lambda table: Table.create(table.path, "k INT", primary_key="k"), "a table already exists here"),
    (lambda table: Table.open(f"{table.path}-absent"), "expected a table directory .*, found nothing"),
    (lambda table: Table.open(" "), "^path: expected the directory or URI of a table, found ' '"),
    (lambda table: Table.open("\ud800"), r"^path: expected the directory or URI of a table, found '\\ud800'"),
    (lambda table: table.to_arrow(tag="\ud800"), r"^tag: expected a name, found '\\ud800'"),
    (
        lambda table: Table.open(table.path, store=table.catalog.context.store, storage_options={"a": "b"}),
        "^give either store=… or storage_options=…",
    ),
]
"""Requests to a table with a column ``v``, each with a pattern of the refusal."""


def _latest(table: Table) -> int:
    return max((one.id for one in table.snapshots()), default=0)


def _rows(table: Table, key: int | None) -> pa.Table:
    """Return one row with the same value in each column."""
    schema = table.schema.arrow_schema
    values = {field.name: [str(key) if key and pa.types.is_string(field.type) else key] for field in schema}
    return pa.table({name: pa.array(values[name], schema.field(name).type) for name in schema.names})


def answered(table: Table) -> list[str]:
    """Make all requests, and return what was wrong with the answers. Definitions are those of a table next to it.

    The caller looks whether something was written.
    """
    return [
        f"expected a refusal that says {message!r}, found {found}"
        for request, message in _requests(table)
        if not re.search(message, found := _answer(request))
    ]


def _requests(table: Table) -> Iterator[tuple[Callable[[], Any], str]]:
    def define(columns: Any, keys: Any, partitions: Any = (), **options: Any) -> Callable[[], Any]:
        path = f"{table.path}-absent"
        return lambda: Table.create(path, columns, primary_key=keys, partition_by=partitions, **options)

    for columns, keys, partitions, message in KEYS:
        yield define(columns, keys, partitions), message
    for keys, partitions, message in KEYS_OF_DAYS:
        yield define(DAYS, keys, partitions), f"^{message}"
    for columns, message in COLUMNS:
        yield define(columns, "k"), f"^{message}"
    for name, value in (*NOT_IMPLEMENTED, *MALFORMED):
        yield define("k INT, v INT", "k", options={name: value}), re.escape(name)
    yield define("k INT, v INT", "k", options={"bucket-key": "v"}), "^option bucket-key: v is not one of"
    yield define("k INT, v INT", "k", options=5), "^options: expected a dict of names and values, found 5"
    for options, message in ENGINES:
        yield define(MERGED, "k", options=dict(options)), re.escape(message)
    for ask, message in WORK:
        yield lambda ask=ask: ask(table), message  # type: ignore[misc]


def _answer(request: Callable[[], Any]) -> str:
    """Return the words of a refusal, or what came instead."""
    try:
        return f"no refusal, but {request()!r:.200}"
    except InvalidRequestError as refusal:
        text = str(refusal)
        return text if "\n" not in text else f"more than one line: {text!r}"
    except Exception as error:
        return f"no refusal, but {type(error).__name__}: {error}"
