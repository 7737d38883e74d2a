"""CALL: Paimon's procedures that a method does, with their parameters and columns.

Clauses: WH-15.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlglot
from pktable_spec.errors import InvalidRequestError
from pyspark.sql import DataFrame
from sqlglot import errors, exp

from pktable.catalog.holds import DEFAULT_LEAST
from pktable.predicate.dialect import SPARK
from pktable.run.spark.wire import frame_of_rows
from pktable.spark_sql.altering import delete_tags, expect_there, replace_tag
from pktable.spark_sql.queries import Queries, version
from pktable.spark_sql.rows import expect_same_words
from pktable.sql.words import Words, quoted, text_literal
from pktable.table import Table

RESULT: Final = "result BOOLEAN"
STRATEGIES: Final = ("full", "minor")
TIME: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure: its parameters in order after the table, those that must be given, its columns, and what it does.

    ``work`` takes the queries, the table and the arguments, and returns the rows of the result.
    """

    parameters: Mapping[str, type]
    needed: Sequence[str]
    columns: str
    work: Callable[[Queries, Table, Mapping[str, Any]], Sequence[tuple[Any, ...]]]


def _compact(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    strategy = str(given.get("compact_strategy", "full")).lower()
    if strategy not in STRATEGIES:
        raise InvalidRequestError(
            f"compact: expected a compact_strategy {' or '.join(STRATEGIES)}, found {strategy!r}"
        )
    if given.get("order_strategy", "none").lower() != "none" or "order_by" in given:
        raise InvalidRequestError(
            "compact: rows are not put in another order here; leave order_strategy and order_by out"
        )
    table.compact(full=strategy == "full", where=_where(queries, table, given))
    return [(True,)]


def _where(queries: Queries, table: Table, given: Mapping[str, Any]) -> str | None:
    """Return the condition on partitions that ``where`` or ``partitions`` gives. Raises InvalidRequestError."""
    if "partitions" not in given:
        if "where" in given:
            expect_same_words(queries, table.schema, given["where"], "where")
        return given.get("where")
    if "where" in given:
        raise InvalidRequestError("CALL: expected one of where and partitions")
    kinds = {one.name: replace(one.type, nullable=True) for one in table.schema.partition_fields}
    holds = []
    for part in given["partitions"].split(";"):
        pairs = [one.strip() for one in part.split(",")]
        texts = dict(one.split("=", 1) for one in pairs if "=" in one)
        if len(texts) < len(pairs) or not texts.keys() <= kinds.keys():
            raise InvalidRequestError(
                f"partitions: expected such as {','.join(f'{name}=…' for name in kinds)}, found {part!r}"
            )
        null = table.catalog.context.options.partition_default_name
        values = (
            f"{quoted(name)} IS NULL"
            if text == null
            else f"{quoted(name)} = CAST({text_literal(text)} AS {kinds[name]})"
            for name, text in texts.items()
        )
        holds.append(" AND ".join(values))
    return " OR ".join(f"({one})" for one in holds)


def _rescale(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    where = _where(queries, table, given)
    wanted = str(given.get("bucket_num", table.catalog.context.options.bucket))
    if where is not None and wanted != str(table.catalog.context.options.bucket):
        raise InvalidRequestError(
            "rescale: expected no partitions with another bucket_num, because that is the number of the whole table"
        )
    if wanted != table.options.get("bucket"):
        table.alter(set_options={"bucket": wanted})
    table.rescale(where=where)
    return [(True,)]


def _rename_tag(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    table.rename_tag(given["tag"], given["target_tag"])
    return [(True,)]


def _replace_tag(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    replace_tag(table, given["tag"], given.get("snapshot"), given.get("time_retained"))
    return [(True,)]


def _create_branch(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    if not given.get("ignoreIfExists", False) or given["branch"] not in table.branches():
        table.create_branch(given["branch"], tag=given.get("tag"), empty="tag" not in given)
    return [(True,)]


def _delete_branch(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    names = dict.fromkeys(name.strip() for name in given["branch"].split(","))
    expect_there("branch", names, table.branches())
    for name in names:
        table.delete_branch(name)
    return [(True,)]


def _fast_forward(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    table.fast_forward(given["branch"])
    return [(True,)]


def _expire_snapshots(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    retained = table.snapshots()
    most = given.get("retain_max")
    for name in ("retain_max", "retain_min"):
        if given.get(name, 1) < 1:
            raise InvalidRequestError(f"expire_snapshots: expected {name} of 1 or more, found {given[name]}")
    least = table.catalog.context.options.snapshot_retained_min or DEFAULT_LEAST
    least = given.get("retain_min", least if most is None else min(least, most))
    if most is None and "older_than" not in given:
        raise InvalidRequestError("expire_snapshots: expected retain_max or older_than")
    if most is not None and most < least:
        raise InvalidRequestError(f"expire_snapshots: expected retain_max of {least} or more, found {most}")
    expired = []
    if most is not None and len(retained) > most:
        expired += table.expire_snapshots(retain_last=most)
    if "older_than" in given:
        limit = _millis(queries, given["older_than"])
        expired += table.expire_snapshots(retain_last=least, older_than=limit)
    return [(len(expired),)]


def _create_tag(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    table.create_tag(given["tag"], snapshot=given.get("snapshot"), time_retained=given.get("time_retained"))
    return [(True,)]


def _create_tag_from_timestamp(
    queries: Queries, table: Table, given: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    later = [one for one in table.snapshots() if one.time_millis >= given["timestamp"]]
    if not later:
        raise InvalidRequestError(
            f"create_tag_from_timestamp: no snapshot is of {given['timestamp']} or later, in milliseconds since 1970"
        )
    table.create_tag(given["tag"], snapshot=later[0].id, time_retained=given.get("time_retained"))
    watermark = None if later[0].watermark is None else str(later[0].watermark)
    return [(given["tag"], later[0].id, later[0].time_millis, watermark)]


def _expire_partitions(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    found = table.expire_partitions(**given)
    return [(", ".join(f"{name}={value}" for name, value in one.items()),) for one in found]


def _expire_tags(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    limit = _millis(queries, given["older_than"]) if "older_than" in given else None
    return [(name,) for name in table.expire_tags(older_than=limit)]


def _delete_tag(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    delete_tags(table, [name.strip() for name in given["tag"].split(",")])
    return [(True,)]


def _rollback(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    wanted = [name for name in ("version", "snapshot", "tag") if name in given]
    if len(wanted) != 1:
        raise InvalidRequestError("rollback: expected one of version, snapshot and tag")
    value = given[wanted[0]]
    return _rolled_back(table, version(table, value) if wanted[0] == "version" else {wanted[0]: value})


def _rollback_to_timestamp(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    found = table.catalog.snapshots.as_of(given["timestamp"])
    return _rolled_back(table, {"snapshot": found.id})


def _rolled_back(table: Table, to: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    before = table.catalog.snapshots.latest_id()
    table.rollback(**to)
    return [(before, table.catalog.snapshots.latest_id())]


def _remove_orphan_files(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    limit = _millis(queries, given["older_than"]) if "older_than" in given else None
    found = table.remove_orphans(older_than=limit, dry_run=given.get("dry_run", False))
    return [(len(found), sum(one.size for one in found))]


def _reset_consumer(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    if "nextSnapshotId" in given:
        table.set_consumer(given["consumerId"], next_snapshot=given["nextSnapshotId"])
    else:
        table.delete_consumer(given["consumerId"])
    return [(True,)]


def _clear_consumers(queries: Queries, table: Table, given: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    among, but = (
        _pattern(f"clear_consumers: {which}", given.get(which))
        for which in ("includingConsumers", "excludingConsumers")
    )
    for name in table.consumers():
        if (among is None or among.fullmatch(name)) and not (but and but.fullmatch(name)):
            table.delete_consumer(name)
    return [(True,)]


def _pattern(what: str, text: str | None) -> re.Pattern[str] | None:
    """Return a regular expression, None for a blank text. Raises InvalidRequestError."""
    try:
        return re.compile(text) if text and text.strip() else None
    except re.error as error:
        raise InvalidRequestError(f"{what}: {text!r} is no regular expression of Python: {error}") from None


def _millis(queries: Queries, text: str) -> int:
    """Return a time as milliseconds since 1970: digits are that already, other text is in the session's time zone."""
    return int(text) if TIME.fullmatch(text) else queries.millis("'" + text.replace("'", "") + "'")


ROLLED_BACK: Final = "previous_snapshot_id BIGINT, current_snapshot_id BIGINT"
PROCEDURES: Final[Mapping[str, Procedure]] = {
    "compact": Procedure(
        {"partitions": str, "compact_strategy": str, "order_strategy": str, "order_by": str, "where": str},
        (),
        RESULT,
        _compact,
    ),
    "rescale": Procedure({"bucket_num": int, "partitions": str, "where": str}, (), RESULT, _rescale),
    "expire_snapshots": Procedure(
        {"retain_max": int, "retain_min": int, "older_than": str},
        (),
        "deleted_snapshots_count INT",
        _expire_snapshots,
    ),
    "create_tag": Procedure(
        {"tag": str, "snapshot": int, "time_retained": str}, ("tag",), RESULT, _create_tag
    ),
    "create_tag_from_timestamp": Procedure(
        {"tag": str, "timestamp": int, "time_retained": str},
        ("tag", "timestamp"),
        "tagName STRING, snapshot BIGINT, commit_time BIGINT, watermark STRING",
        _create_tag_from_timestamp,
    ),
    "delete_tag": Procedure({"tag": str}, ("tag",), RESULT, _delete_tag),
    "rename_tag": Procedure({"tag": str, "target_tag": str}, ("tag", "target_tag"), RESULT, _rename_tag),
    "replace_tag": Procedure(
        {"tag": str, "snapshot": int, "time_retained": str}, ("tag",), RESULT, _replace_tag
    ),
    "expire_partitions": Procedure(
        {
            "expiration_time": str,
            "timestamp_formatter": str,
            "timestamp_pattern": str,
            "expire_strategy": str,
            "max_expires": int,
        },
        (),
        "expired_partitions STRING",
        _expire_partitions,
    ),
    "expire_tags": Procedure({"older_than": str}, (), "expired_tags STRING", _expire_tags),
    "create_branch": Procedure(
        {"branch": str, "tag": str, "ignoreIfExists": bool}, ("branch",), RESULT, _create_branch
    ),
    "delete_branch": Procedure({"branch": str}, ("branch",), RESULT, _delete_branch),
    "fast_forward": Procedure({"branch": str}, ("branch",), RESULT, _fast_forward),
    "rollback": Procedure({"version": str, "snapshot": int, "tag": str}, (), ROLLED_BACK, _rollback),
    "rollback_to_timestamp": Procedure(
        {"timestamp": int}, ("timestamp",), ROLLED_BACK, _rollback_to_timestamp
    ),
    "remove_orphan_files": Procedure(
        {"older_than": str, "dry_run": bool},
        (),
        "deletedFileCount BIGINT, deletedFileTotalLenInBytes BIGINT",
        _remove_orphan_files,
    ),
    "reset_consumer": Procedure(
        {"consumerId": str, "nextSnapshotId": int}, ("consumerId",), RESULT, _reset_consumer
    ),
    "clear_consumers": Procedure(
        {"includingConsumers": str, "excludingConsumers": str}, (), RESULT, _clear_consumers
    ),
}
"""Those of Paimon's that a method does."""


def call(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out a CALL; None if it is of another schema than ``sys``. Clauses: WH-15."""
    words.expect("CALL")
    parts = words.name().parts
    if queries.names.is_catalog(parts[0]) and len(parts) == 3:
        parts = parts[1:]
    if len(parts) != 2 or parts[0].lower() != "sys":
        return None
    procedure = PROCEDURES.get(parts[1].lower())
    if procedure is None:
        raise InvalidRequestError(f"CALL sys.{parts[1]}: expected one of {', '.join(PROCEDURES)}")
    kinds = {"table": str, **procedure.parameters}
    given = _arguments(words, parts[1], kinds)
    words.expect_end()
    missing = [name for name in ("table", *procedure.needed) if name not in given]
    if missing:
        raise InvalidRequestError(f"CALL sys.{parts[1]}: expected {', '.join(missing)}, found none")
    table = queries.names.open(queries.names.expect(_parts(given.pop("table"))))
    rows = procedure.work(queries, table, given)
    return frame_of_rows(queries.spark, procedure.columns, rows)


def _parts(text: str) -> Sequence[str]:
    """Return the parts of a table's name in a text, where one with a branch needs no backquotes.

    Raises InvalidRequestError if there is more in the text.
    """
    if "$" in text and "`" not in text:
        return text.split(".")
    words = Words.of(text)
    parts = words.name().parts
    if words.peek() is not None:
        raise InvalidRequestError(f"CALL: table: expected a name such as 'db.t' or '`a-b`', found {text!r}")
    return parts


def _arguments(words: Words, name: str, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Read arguments by name (``name => value``) or by their place. Raises InvalidRequestError."""
    given: dict[str, Any] = {}
    for number, part in enumerate(words.group()):
        following = part.peek(1)
        if following is not None and following.text in ("=>", "="):
            key = str(part.peek() and part.words[0].text)
            part.at += 2
        elif number < len(kinds):
            key = list(kinds)[number]
        else:
            key = ""
        known = next((one for one in kinds if one.lower() == key.lower()), None)
        if known is None:
            raise InvalidRequestError(
                f"CALL sys.{name}: expected arguments {', '.join(kinds)}, found {key or part.written}"
            )
        if known in given:
            raise InvalidRequestError(f"CALL sys.{name}: {known}: given twice")
        value = _value(part.rest(), f"CALL sys.{name}: {known}")
        if kinds[known] is str and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is not None and type(value) is not kinds[known]:
            raise InvalidRequestError(
                f"CALL sys.{name}: {known}: expected {kinds[known].__name__}, found {value!r}"
            )
        given[known] = value
    return {known: value for known, value in given.items() if value is not None}


def _value(text: str, what: str) -> Any:
    """Return a literal as a Python value. Raises InvalidRequestError for anything else."""
    try:
        tree = sqlglot.parse_one(text, read=SPARK)
    except (errors.SqlglotError, RecursionError):
        tree = None
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Literal):  # TIMESTAMP '…', 5L
        tree = tree.this
    sign = 1
    if isinstance(tree, exp.Neg):
        sign, tree = -1, tree.this
    if isinstance(tree, exp.Literal):
        if tree.is_string:
            return str(tree.this)
        if str(tree.this).isdecimal():
            return sign * int(tree.this)
    raise InvalidRequestError(f"{what}: expected a number, a text, TRUE, FALSE or NULL, found {text!r}")
