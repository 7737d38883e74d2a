"""Change the schema of a table: compute the next schema from the latest one, or say why a change is refused.

No file of rows is touched. Columns are distinguished by their ids, so old files stay readable under the new schema: a
column that was added is null in them, a renamed one is found, and values of a narrower type are converted.

Keys, partitions, the order of records and the places of files cannot change. The names of columns in options follow a
rename.

Clauses: TBL-38 to TBL-44.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import Effect, option_named, parse_options

from pktable.catalog.definitions import column_names, option_texts, parse_definition
from pktable.catalog.nested_alteration import (
    apart,
    changes_type,
    expect_consistent,
    expect_free,
    expect_nullable,
    expect_wider,
    moved,
    names_in,
    rows_without_fields,
    with_changes,
)
from pktable.catalog.schemas import check_definition
from pktable.catalog.state import TableState
from pktable.context import VECTORS, TableContext
from pktable.format.metadata.schema import (
    OF_COLUMNS,
    TableSchema,
    columns_in,
    names_columns,
    renamed_options,
    split_columns,
)
from pktable.format.types import DataType, Field, highest_field_id, parse_type

FIXED: Final = frozenset(
    {
        "bucket",
        "bucket-key",
        "bucket-function.type",
        "partition.default-name",
        "partition.legacy-name",
        "data-file.path-directory",
        "index-file-in-data-file-dir",
        "sequence.field",
        "row-tracking.enabled",
        "data-evolution.enabled",
        "changelog-producer",
        "force-lookup",
        "primary-key",
        "partition",
        "type",
        "branch",
    }
)
"""Options that say how rows lie in existing files. The options on which merging depends are others."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """A change that is asked for. Names of columns are those of before the change, those of ``move`` of after it.

    ``add``: columns, all nullable. ``rename``: old names to new ones. ``widen``: names to types. ``move``: names to
    places. ``comment``: of the table. ``comments``: of columns, None for none.
    """

    add: tuple[Field, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    widen: Mapping[str, DataType] = field(default_factory=dict)
    move: Mapping[str, str] = field(default_factory=dict)
    nullable: tuple[str, ...] = ()
    comment: str | None = None
    comments: Mapping[str, str | None] = field(default_factory=dict)
    set_options: Mapping[str, str] = field(default_factory=dict)
    reset_options: tuple[str, ...] = ()

    @classmethod
    def given(
        cls,
        *,
        add: Any,
        rename: Any,
        drop: Any,
        widen: Any,
        move: Any,
        nullable: Any,
        comment: Any,
        set_options: Any,
        reset_options: Any,
    ) -> Alteration:
        """Return what the arguments of `Table.alter` ask for. Raises InvalidRequestError."""
        of_table = comment if isinstance(comment, str) else None
        types = _texts("widen", widen)
        return cls(
            () if add is None else parse_definition(add),
            _texts("rename", rename),
            column_names("drop", () if drop is None else drop),
            {name: _type(name, text) for name, text in types.items()},
            _texts("move", move),
            column_names("nullable", () if nullable is None else nullable),
            of_table,
            {} if of_table is not None else _texts("comment", comment, nullable=True),
            option_texts({} if set_options is None else set_options),
            column_names("reset_options", () if reset_options is None else reset_options),
        )


def next_schema(
    context: TableContext, state: TableState, change: Alteration, *, now_millis: int
) -> TableSchema:
    """Return the schema after ``change``: the schema of ``context`` itself if nothing changes.

    ``state``: the latest. Raises InvalidRequestError. Clauses: TBL-39 to TBL-44.
    """
    before = context.schema
    after = _altered(before, change, now_millis=now_millis)
    if replace(after, id=before.id, time_millis=before.time_millis) == before:
        return before
    _expect_changeable(before, change)
    check_definition(after)
    _expect_fields_of_rows(context, state, after)
    options = parse_options(after.options)
    if options.levels < context.options.levels:
        raise InvalidRequestError(
            "alter: the number of levels cannot fall, because files may lie in the last one"
        )
    switched = options.deletion_vectors_enabled != context.options.deletion_vectors_enabled
    if switched and not _is_compacted(context, state):
        raise InvalidRequestError(
            f"alter: {VECTORS} cannot change while buckets have level 0, several levels or deletion vectors; "
            "stop other writers, and run compact(full=True) first"
        )
    return after


def _expect_fields_of_rows(context: TableContext, state: TableState, after: TableSchema) -> None:
    """Raise InvalidRequestError if a ROW of a file that may be live loses its last field. Clauses: TBL-63.

    ``after``: the next schema.
    """
    live = {file.schema_id for files in state.files.values() for file in files}
    # A write that has begun may still add a file of the latest schema.
    for schema in map(context.schema_of, live | {context.schema.id}):
        lost = rows_without_fields(schema, after)
        for at in lost.keys() - rows_without_fields(schema, context.schema).keys():
            raise InvalidRequestError(
                f"alter: {lost[at]} would keep none of the fields that it has in files; expected one that stays, by "
                "which readers find where rows, lists and maps are null; keep one, write the rows again by an "
                "overwrite, or add another column"
            )


def _altered(schema: TableSchema, change: Alteration, *, now_millis: int) -> TableSchema:
    """Return the schema that follows ``schema``. Raises InvalidRequestError. Clauses: TBL-39 to TBL-42, TBL-47.

    `_expect_changeable` says which options may change.
    """
    expect_consistent(schema, change)
    change, nested = apart(schema, change)
    _expect_columns(schema, change)
    options = {name: text for name, text in schema.options.items() if name not in change.reset_options}
    options |= change.set_options
    _expect_free(schema, change, options)
    expect_free(nested, lambda column, name: _nested_key(options, column, name))
    first = schema.highest_field_id + 1
    nested = replace(
        nested, add={at: [_numbered_from(one, first) for one in new] for at, new in nested.add.items()}
    )
    kept = [with_changes(one, nested) for one in schema.fields if one.name not in change.drop]
    fields = [_changed(one, change) for one in kept]
    fields += [_numbered_from(one, first) for one in change.add]
    for name, place in change.move.items():
        fields = moved(fields, name, place)
    return replace(
        schema,
        id=schema.id + 1,
        fields=tuple(fields),
        highest_field_id=max(schema.highest_field_id, highest_field_id(fields)),
        primary_keys=tuple(change.rename.get(name, name) for name in schema.primary_keys),
        options=renamed_options(options, change.rename),
        comment=schema.comment if change.comment is None else change.comment,
        time_millis=now_millis,
    )


def _nested_key(options: Mapping[str, str], column: str, name: str) -> str | None:
    """Return the option that names a field of the rows in a column, None if there is none."""
    option = f"{OF_COLUMNS}{column}.nested-key"
    return option if name in split_columns(options.get(option, "")) else None


def _expect_changeable(schema: TableSchema, change: Alteration) -> None:
    """Raise InvalidRequestError for a change of an option on which existing rows depend. Clauses: BKT-18, TBL-43."""
    new = {one.name for one in change.add}
    for name in (*change.set_options, *change.reset_options):
        if schema.options.get(name) == change.set_options.get(name):
            continue
        known, columns = option_named(name), columns_in(name)
        of_new_columns = bool(columns) and new.issuperset(columns)
        if name == "bucket" and _rescales(schema, change.set_options.get(name)):
            continue
        if name in FIXED or (known and known.effect is Effect.MERGING and not of_new_columns):
            raise InvalidRequestError(
                f"alter: option {name} cannot change, because the rows that the table has depend on it; "
                "write them to a new table instead"
            )


def _rescales(schema: TableSchema, wanted: str | None) -> bool:
    """Return whether ``wanted`` is another fixed number of buckets of a table with a primary key. Clauses: BKT-18."""
    from pktable.kinds import kind_of  # late, here and below: it brings what writes data files

    before = parse_options(schema.options).bucket
    after = parse_options({} if wanted is None else {"bucket": wanted}).bucket
    return kind_of(schema, "the table").has_keys and before > 0 and after > 0


def _is_compacted(context: TableContext, state: TableState) -> bool:
    """Return whether all files of each bucket are at one level above 0 and no vector deletes rows. Clauses: TBL-44.

    In an append table, whose files are all at level 0, only vectors count.
    """
    from pktable.kinds import kind_of

    if any(state.indexes.values()):
        return False
    levels = [{file.level for file in live} for live in state.files.values()]
    return not kind_of(context.schema, context.root).has_keys or all(
        len(one) == 1 and 0 not in one for one in levels
    )


def _columns_named(options: Mapping[str, str]) -> dict[str, str]:
    """Return the columns that options name, each with one such option. Clauses: TBL-42."""
    return {
        column: name
        for name, text in options.items()
        for column in (*columns_in(name), *(split_columns(text) if names_columns(name) else ()))
    }


def _expect_columns(schema: TableSchema, change: Alteration) -> None:
    """Raise InvalidRequestError for a column that is not there, and for an option that cannot be reset."""
    for name in names_in(change):
        schema.field(name)
    for name in change.reset_options:
        if name not in schema.options or name in change.set_options:
            raise InvalidRequestError(
                f"alter: option {name} cannot be reset, because it is not set, or is set again"
            )


def _expect_free(schema: TableSchema, change: Alteration, options: Mapping[str, str]) -> None:
    """Raise InvalidRequestError if a change is about a column that cannot change so. Clauses: TBL-39 to TBL-42."""
    keys = {*schema.primary_keys, *schema.partition_keys, *(one.name for one in schema.bucket_key_fields)}
    named = _columns_named(options)
    for name in change.drop:
        if name in keys or name in named:
            why = f"option {named[name]} names it" if name in named else "it is part of a key"
            raise InvalidRequestError(f"alter: column {name} cannot be dropped, because {why}")
    for name in change.rename:
        if name in schema.partition_keys:
            raise InvalidRequestError(
                f"alter: column {name} cannot be renamed, because directories of partitions have its name"
            )
    for one in change.add:
        expect_nullable(f"column {one.name}", one.type)
    for name in change.nullable:
        if name in schema.primary_keys:
            raise InvalidRequestError(
                f"alter: column {name} cannot hold null, because it is part of the primary key"
            )
    for name, kind in change.widen.items():
        before = schema.field(name).type
        if name in keys and changes_type(before, kind):
            raise InvalidRequestError(
                f"alter: the type of column {name} cannot change, because it is part of a key"
            )
        expect_wider(f"column {name}", "column", before, kind)


def _changed(one: Field, change: Alteration) -> Field:
    kind = change.widen.get(one.name, one.type)
    return replace(
        one,
        name=change.rename.get(one.name, one.name),
        type=replace(kind, nullable=one.type.nullable or one.name in change.nullable),
        description=change.comments.get(one.name, one.description),
    )


def _numbered_from(one: Field, first: int) -> Field:
    """Return a column, and what is in it, with ids from ``first`` on instead of 0."""
    return replace(one, id=one.id + first, type=_type_numbered_from(one.type, first))


def _type_numbered_from(kind: DataType, first: int) -> DataType:
    parts = [
        _numbered_from(part, first)
        if kind.root == "ROW" and not kind.variant
        else replace(part, type=_type_numbered_from(part.type, first))
        for part in kind.children
    ]
    return replace(kind, children=tuple(parts))


def _texts(what: str, given: Any, *, nullable: bool = False) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidRequestError(f"{what}: expected a dict of names and texts, found {given!r}")
    for name, text in given.items():
        if not isinstance(name, str) or not (isinstance(text, str) or (nullable and text is None)):
            raise InvalidRequestError(f"{what}: expected a dict of names and texts, found {name!r}: {text!r}")
    return dict(given)


def _type(name: str, text: str) -> DataType:
    try:
        return parse_type(text)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"widen: column {name}: {error}") from None
