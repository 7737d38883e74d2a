"""ALTER TABLE: what a statement changes of a table is read as a whole, and then done by a method of `Table`.

So a statement that is not understood to its end changes nothing. The words about tags are those of Paimon's extension.

Clauses: WH-10, WH-14, WH-19.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from pktable_spec.errors import InvalidRequestError
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pktable.catalog.definitions import parse_definition
from pktable.catalog.nested_alteration import path_of
from pktable.format.metadata.schema import TableSchema
from pktable.run.spark.types import expect_distinct
from pktable.spark_sql.definitions import COMMENT, nothing, one_part, properties, property_name, struct_of
from pktable.spark_sql.queries import Queries
from pktable.spark_sql.rows import column_of, read_partition, where_partition
from pktable.sql.words import Name, Words, quoted
from pktable.table import Table

PLACES: Final = ("FIRST", "AFTER")
ACTIONS: Final = ("CREATE", "REPLACE", "DELETE", "RENAME")
Change: TypeAlias = Callable[[], object]
"""A statement that is read as a whole, as what carries it out: a statement that is not understood changes nothing."""


def alter(queries: Queries, words: Words) -> DataFrame | None:
    """Carry out an ALTER TABLE; None if it is about none of ours. Clauses: WH-14."""
    words.expect("ALTER")
    if not words.take("TABLE"):
        return None
    found = queries.names.find(words.name().parts)
    if found is None:
        return None
    if words.take("RENAME", "TO"):
        to = words.whole_name()
        target = queries.names.place(to.parts)
        if target is None or not target.database or not found.database or found.branch is not None:
            raise InvalidRequestError(f"RENAME TO {to}: expected a name such as database.table")
        database = found.database if len(to.parts) == 1 else target.database
        queries.names.warehouse.rename_table(found.name, f"{database}.{target.table}")
        return nothing(queries)
    change = _alteration(queries, queries.names.open(found), words)
    words.expect_end()
    change()
    return nothing(queries)


def _alteration(queries: Queries, table: Table, words: Words) -> Change:
    """Read what follows the name in an ALTER TABLE, but for RENAME TO, and return how it is carried out."""
    if (of_tag := tag_change(table, words)) is not None:
        return of_tag
    if words.take("ADD"):
        words.any_of("COLUMN", "COLUMNS")
        words.defines = True
        return _addition(table, words.group() if words.sees("(") else words.parts())
    if words.take("RENAME", "COLUMN"):
        path = words.name()
        old = field_of(table.schema, path)
        words.expect("TO")
        new = str(words.name())
        if len(path.parts) == 1:
            expect_distinct([new, *(name for name in table.schema.value_names if name != old)])
        return partial(table.alter, rename={old: new})
    if words.take("DROP", "PARTITION") or words.take("DROP", "IF", "EXISTS", "PARTITION"):
        return _dropped_partitions(queries, table, words)
    if words.take("DROP"):
        if words.any_of("COLUMN", "COLUMNS") is None:
            raise words.problem("COLUMN or PARTITION")
        return _dropped_columns(table, words)
    if words.any_of("ALTER", "CHANGE") is not None:
        words.take("COLUMN")
        return partial(table.alter, **_changed_column(table.schema, words))
    if words.take("SET", "TBLPROPERTIES"):
        options = properties(words)
        return partial(table.alter, comment=options.pop(COMMENT, None), set_options=options)
    if words.take("UNSET", "TBLPROPERTIES"):
        if_exists = words.take("IF", "EXISTS")
        names = [_whole_property(part) for part in words.group()]
        comment = "" if COMMENT in names else None
        names = [name for name in names if name != COMMENT and (not if_exists or name in table.options)]
        return partial(table.alter, reset_options=names, comment=comment)
    raise words.problem(
        "ADD, RENAME, DROP or ALTER COLUMN, RENAME TO, SET TBLPROPERTIES, UNSET TBLPROPERTIES, DROP PARTITION, or "
        "CREATE, REPLACE, RENAME or DELETE TAG"
    )


def _dropped_columns(table: Table, words: Words) -> Change:
    if_exists = words.take("IF", "EXISTS")
    wanted = [part.whole_name() for part in (words.group() if words.sees("(") else words.parts())]
    known = {name.lower() for name in table.schema.value_names}
    there = [name for name in wanted if not if_exists or name.parts[0].lower() in known]
    return partial(table.alter, drop=[field_of(table.schema, name) for name in there])


def _dropped_partitions(queries: Queries, table: Table, words: Words) -> Change:
    """Read partitions, each ``(name = value, …)``, whose rows are deleted in one commit."""
    holds = [where_partition(read_partition(queries, words, table.schema))]
    while words.take(","):
        words.expect("PARTITION")
        holds.append(where_partition(read_partition(queries, words, table.schema)))
    words.take("PURGE")
    where = " OR ".join(f"({one})" for one in holds)
    return partial(table.truncate, where=where)


def _addition(table: Table, parts: Sequence[Words]) -> Change:
    """Read new columns, each with the place that it gives."""
    texts, move = [], {}
    for part in parts:
        name = new_field_of(table.schema, part.name())
        text = f"{quoted(name)} {part.until(*PLACES)}"
        texts.append(text)
        if place := _place(part):
            move[name] = place
        part.expect_end()
    return partial(table.alter, add=struct_of(", ".join(texts)), move=move)


def _changed_column(schema: TableSchema, words: Words) -> dict[str, Any]:
    """Read one change of a column; return the argument of `Table.alter`."""
    name = field_of(schema, words.name())
    if words.take("TYPE"):
        struct = struct_of(f"{quoted(name)} {words.rest()}")
        if struct[0].metadata or not struct[0].nullable:
            raise InvalidRequestError(
                f"ALTER COLUMN {name}: TYPE changes the type alone; give COMMENT in a statement of its own"
            )
        return {"widen": {name: widened(struct)}}
    if words.take("COMMENT"):
        return {"comment": {name: words.string()}}
    if words.take("DROP", "NOT", "NULL"):
        return {"nullable": name}
    if place := _place(words):
        return {"move": {name: place}}
    raise words.problem("TYPE, COMMENT, DROP NOT NULL, FIRST or AFTER")


def widened(struct: StructType) -> str:
    """Return the type of one column as `Table.alter` takes it."""
    (field,) = parse_definition(struct)
    return str(field.type)


def _place(words: Words) -> str | None:
    """Read FIRST or AFTER, and return it as `Table.alter` takes it."""
    word = words.any_of(*PLACES)
    return None if word is None else word if word == "FIRST" else f"AFTER {one_part(words)}"


def _whole_property(words: Words) -> str:
    name = property_name(words)
    words.expect_end()
    return name


def field_of(schema: TableSchema, name: Name) -> str:
    """Return a column, or the path of a field inside of one, as `Table.alter` takes it."""
    first, *others = name.parts
    if dotted := next((one for one in others if "." in one), None):
        raise InvalidRequestError(f"column {name}: the name of a field of a ROW has no dot, found {dotted!r}")
    return ".".join((column_of(schema, first), *others))


def new_field_of(schema: TableSchema, name: Name) -> str:
    """Return a new column, or the path of a new field inside of one, as `Table.alter` takes it."""
    if len(name.parts) > 1:
        return field_of(schema, name)
    (column,) = name.parts
    if path_of(schema.fields, column) is not None:
        raise InvalidRequestError(
            f"column {name}: a new column cannot have the name of a column and a dot; without quotes it is a field of "
            "that column"
        )
    expect_distinct([column, *schema.value_names])
    return column


def tag_change(table: Table, words: Words) -> Callable[[], object] | None:
    """Read what follows the name in an ALTER TABLE, and return how it is carried out; None if it is about no tag.

    Raises InvalidRequestError, as the returned one does, which also raises SnapshotNotFoundError. Clauses: WH-19.
    """
    begin = words.at
    action = words.any_of(*ACTIONS)
    replaces = action == "CREATE" and words.take("OR", "REPLACE")
    if action is None or not words.take("TAG"):
        words.at = begin
        return None
    if_not_exists = action == "CREATE" and words.take("IF", "NOT", "EXISTS")
    if_exists = action in ("DELETE", "RENAME") and words.take("IF", "EXISTS")
    names = [str(words.name())]
    while action == "DELETE" and words.take(","):
        names.append(str(words.name()))
    names = [one.strip() for name in names for one in name.split(",")]
    there = table.tags()
    if action == "DELETE":
        return partial(delete_tags, table, [name for name in names if name in there or not if_exists])
    name = ",".join(names)
    if action == "RENAME":
        words.expect("TO")
        to = str(words.name())
        return partial(table.rename_tag, name, to) if name in there or not if_exists else _nothing
    snapshot, retained = _version(words), _retained(words)
    if action == "REPLACE" or (replaces and name in there):
        return partial(replace_tag, table, name, snapshot, retained)
    return (
        partial(table.create_tag, name, snapshot=snapshot, time_retained=retained)
        if name not in there or not if_not_exists
        else _nothing
    )


def _nothing() -> None:
    """Carry out what IF EXISTS or IF NOT EXISTS rules out."""


def _version(words: Words) -> int | None:
    """Read ``AS OF VERSION n``, None if it is not there. Raises InvalidRequestError."""
    return _number(words, "the id of a snapshot") if words.take("AS", "OF", "VERSION") else None


def _retained(words: Words) -> str | None:
    """Read ``RETAIN n DAYS``, hours or minutes, None if it is not there. Raises InvalidRequestError."""
    if not words.take("RETAIN"):
        return None
    number, unit = _number(words, "a number"), words.any_of("DAYS", "HOURS", "MINUTES")
    if unit is None:
        raise words.problem("DAYS, HOURS or MINUTES")
    return f"{number} {unit.lower()}"


def _number(words: Words, what: str) -> int:
    word = words.peek()
    if word is None or not word.text.isdecimal():
        raise words.problem(what)
    words.at += 1
    return int(word.text)


def replace_tag(table: Table, name: str, snapshot: int | None, retained: str | None) -> None:
    """Let a tag that is there keep another snapshot. Raises InvalidRequestError, SnapshotNotFoundError."""
    expect_there("tag", [name], table.tags())
    table.replace_tag(name, snapshot=snapshot, time_retained=retained)


def delete_tags(table: Table, names: list[str]) -> None:
    """Delete tags, all or none that is not there. Raises InvalidRequestError, which says which tags there are."""
    expect_there("tag", names, table.tags())
    for name in dict.fromkeys(names):
        table.delete_tag(name)


def expect_there(what: str, names: Iterable[str], there: Collection[str]) -> None:
    """Raise InvalidRequestError if one of ``names`` is not among those that are ``there``."""
    for name in names:
        if name not in there:
            raise InvalidRequestError(
                f"{what} {name!r}: not there; there are {', '.join(sorted(there)) or 'none'}"
            )
