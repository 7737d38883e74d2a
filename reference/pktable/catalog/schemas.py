"""Schema files: write the first one of a new table, read all of an existing one.

Clauses: TBL-1, TBL-9, TBL-12, TBL-16, TBL-17, META-1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import KEY_PREFIX, ROW_ID, SEQUENCE_NUMBER, VALUE_KIND

from pktable.catalog.arguments import expect_location, expect_text
from pktable.catalog.branch_names import branch_of_name, gone, is_there, no_such_branch
from pktable.catalog.definitions import column_names, option_texts, parse_definition
from pktable.context import TableContext
from pktable.format.metadata.schema import TableSchema, decode_schema, encode_schema
from pktable.format.paths import HUDI_PROPERTIES, SCHEMA, TablePaths, numbered, split_branch
from pktable.format.type_text import DEEPEST
from pktable.format.types import BINARIES, FLOATS, Field, highest_field_id, is_atomic
from pktable.store.directories import expect_no_remains, not_a_table
from pktable.store.file_io import FileIO, open_store
from pktable.store.guard import ExternalRoots, guarded
from pktable.store.new_files import put_once

RESERVED: Final = (SEQUENCE_NUMBER, VALUE_KIND, ROW_ID)
"""The names of columns that data files have for themselves."""
WORKING_PREFIX: Final = "__pktable_"
"""The prefix of columns that rows have only while a job works on them."""


def find_table(
    path: str | os.PathLike[str],
    store: FileIO | None = None,
    storage_options: Mapping[str, str] | None = None,
    external_roots: ExternalRoots = (),
    branch: str | None = None,
) -> tuple[FileIO, TablePaths, dict[int, TableSchema]]:
    """Return the store of the table at ``path``, its paths there, and its schemas by id. Arguments: as `find_branch`.

    Raises NotATableError, CorruptFileError, InvalidRequestError for options that the store does not have, and for a
    branch that is not there. Clauses: BRN-1, BRN-2, META-1.
    """
    found, paths = find_branch(path, store, storage_options, external_roots, branch)
    if paths.branch is not None and not is_there(found, paths):
        if not load_schemas(found, paths.of_branch(None)):
            raise not_a_table(found, paths.root, paths.root)
        raise no_such_branch(found, paths)
    try:
        schemas = load_schemas(found, paths)
    except FileNotFoundError:  # removed since the listing
        raise gone(found, paths) from None
    if not schemas:
        raise not_a_table(found, paths.root, os.fspath(path))
    return found, paths, schemas


def find_branch(
    path: str | os.PathLike[str],
    store: FileIO | None = None,
    storage_options: Mapping[str, str] | None = None,
    external_roots: ExternalRoots = (),
    branch: str | None = None,
) -> tuple[FileIO, TablePaths]:
    """Return the store of the table at ``path``, and the paths of a branch of it, whether it is there or not.

    ``branch``: its name, if ``path`` does not say it; None for the main branch. Otherwise as `find_store`.
    Raises InvalidRequestError. Clauses: BRN-3.
    """
    table, named = split_branch(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else (path, None)
    found, root = find_store(table, store, storage_options, external_roots)
    if named is not None and branch is not None and named != branch:
        raise InvalidRequestError(f"branch: expected {named!r}, which the path names, found {branch!r}")
    wanted = named if branch is None else branch
    return found, TablePaths(root, None if wanted is None else branch_of_name(wanted))


def find_store(
    path: str | os.PathLike[str],
    store: FileIO | None = None,
    storage_options: Mapping[str, str] | None = None,
    external_roots: ExternalRoots = (),
) -> tuple[FileIO, str]:
    """Return the store of the table at ``path``, guarded, and its path there.

    ``store``: where the table is, instead of the store that ``path`` names. ``storage_options``: of the store that
    ``path`` names. ``external_roots``: directories and URIs outside of the table that it may use, or one.
    Raises InvalidRequestError. Clauses: SAFE-1, SAFE-2.
    """
    expect_location(path, "table")
    if store is None:
        found, root = open_store(path, storage_options)
    elif storage_options:
        raise InvalidRequestError("give either store=… or storage_options=…: a store has its options already")
    else:
        found, root = store, os.fspath(path)
    return guarded(found, root, external_roots), root


def load_schemas(store: FileIO, paths: TablePaths) -> dict[int, TableSchema]:
    """Return the schemas of a table by id; none if there is no table. Raises CorruptFileError."""
    found = {}
    for name in store.list_names(paths.schemas):
        if (schema_id := numbered(name, SCHEMA)) is not None:
            path = paths.schema(schema_id)
            found[schema_id] = decode_schema(store.read(path), at=path)
    return found


def schema_at(store: FileIO, path: str) -> TableSchema | None:
    """Return the schema of a file, None if it is not there. Raises CorruptFileError."""
    try:
        return decode_schema(store.read(path), at=path)
    except FileNotFoundError:
        return None


def expect_latest_schema(context: TableContext) -> None:
    """Raise InvalidRequestError if the schema has changed since the table was opened. Clauses: TBL-19."""
    newer = context.paths.schema(context.schema.id + 1)
    if context.store.exists(newer):
        raise InvalidRequestError(
            f"{context.root}: the schema has changed since the table was opened ({newer}); open it again"
        )


def expect_opened(context: TableContext) -> None:
    """Raise InvalidRequestError if a table or branch was dropped or replaced since it was opened.

    Raises CorruptFileError. Clauses: BRN-9, TBL-60.
    """
    error = not_as_opened(context)
    if error is not None:
        raise error


def not_as_opened(context: TableContext) -> InvalidRequestError | None:
    """Return what `expect_opened` raises of a table, None if it is the one that was opened.

    Its latest schema of that time stays as it is for as long as the table does. Raises CorruptFileError.
    """
    store, paths, schema = context.store, context.paths, context.schema
    path = paths.schema(schema.id)
    found = schema_at(store, path)
    if found is None or (paths.branch is not None and not is_there(store, paths)):
        return gone(store, paths)
    return None if found == schema else _replaced(paths, path)


def is_table_of(context: TableContext, schema: TableSchema) -> bool:
    """Return whether the table that was opened is the one that had ``schema``."""
    return context.schemas.get(schema.id) == schema


def expect_table_of(context: TableContext, schema: TableSchema) -> None:
    """Raise InvalidRequestError unless `is_table_of`. Clauses: TBL-60."""
    if not is_table_of(context, schema):
        raise _replaced(context.paths, context.paths.schema(schema.id))


def _replaced(paths: TablePaths, path: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{paths.root}: another table has taken its place since it was opened ({path} differs); open it again"
    )


def create_schema(
    store: FileIO,
    paths: TablePaths,
    columns: Any,
    primary_key: str | Sequence[str] | None,
    partition_by: str | Sequence[str],
    options: Mapping[str, str],
    comment: str,
    now_millis: int,
) -> None:
    """Write ``schema-0`` of a new table. With a primary key it has one bucket unless ``options`` give another number.

    ``columns``: any form that `parse_definition` accepts; the key columns become NOT NULL.
    Raises InvalidRequestError, and then writes nothing.
    Clauses: TBL-1, TBL-9, TBL-12, TBL-16, TBL-17, META-1, LOG-82.
    """
    keys = () if primary_key is None else column_names("primary_key", primary_key)
    fields = tuple(
        replace(field, type=field.type.not_null()) if field.name in keys else field
        for field in parse_definition(columns)
    )
    schema = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=highest_field_id(fields),
        partition_keys=column_names("partition_by", partition_by),
        primary_keys=keys,
        options={**({"bucket": "1"} if keys else {}), **option_texts(options)},
        comment=comment,
        time_millis=now_millis,
    )
    check_definition(schema)
    if not any(name.startswith(SCHEMA) for name in store.list_names(paths.schemas)):
        if store.exists(f"{paths.root}/{HUDI_PROPERTIES}"):
            raise InvalidRequestError(
                f"{paths.root}: a table of Hudi already exists here; pktable.HudiTable opens it"
            )
        expect_no_remains(store, paths.root)
        if store.put_if_absent(paths.schema(0), encode_schema(schema)):
            return
    raise InvalidRequestError(f"{paths.root}: a table already exists here")


def put_schema(store: FileIO, paths: TablePaths, schema: TableSchema) -> bool:
    """Put the file of ``schema``; return False if another process has put one of its number. Clauses: TBL-38."""
    return put_once(store, paths.schema(schema.id), encode_schema(schema))


def check_definition(schema: TableSchema) -> None:
    """Raise InvalidRequestError unless ``schema`` defines a table we can write and read.

    Clauses: TBL-1, TBL-9, TBL-12, TBL-16, TBL-17, TBL-61.
    """
    from pktable.kinds import (
        kind_of,  # late: it brings what writes data files, which metadata alone does not need
    )

    _expect_texts(schema)
    options, kind = parse_options(schema.options), kind_of(schema, "a new table")
    keys, partition = schema.primary_keys, schema.partition_keys
    _check_names(schema)
    _expect_among("primary key", keys, "columns", schema.value_names)
    _expect_among("partition keys", partition, "columns", schema.value_names)
    if keys and set(partition) >= set(keys):
        raise InvalidRequestError(
            f"partition keys: all primary-key columns ({', '.join(keys)}) are partition keys; "
            f"at least one must not be"
        )
    for field in map(schema.field, keys):
        if not is_atomic(field.type):
            raise InvalidRequestError(
                f"primary key: column {field.name} is of type {field.type}; expected an atomic type"
            )
    for field in schema.partition_fields:
        if field.type.root in (*FLOATS, *BINARIES):
            raise InvalidRequestError(
                f"partition keys: column {field.name} is of type {field.type}, "
                f"which cannot be part of a directory name"
            )
    if keys:
        of_what, names = "key columns outside the partition", schema.key_names
    else:
        of_what = "columns outside the partition"
        names = tuple(name for name in schema.value_names if name not in partition)
    _expect_among("option bucket-key", options.bucket_key, of_what, names)
    for field in schema.bucket_key_fields:
        if not is_atomic(field.type):
            raise InvalidRequestError(
                f"option bucket-key: column {field.name} is of type {field.type}; expected an atomic type"
            )
    kind.require_writable(schema, options)
    options.require_readable()


def _expect_texts(schema: TableSchema) -> None:
    """Raise InvalidRequestError for what a schema file could not hold. Clauses: TBL-1, TBL-61."""
    expect_text("comment", schema.comment)
    for name, text in schema.options.items():
        expect_text("option", name)
        expect_text(f"option {name}", text)
    _expect_named(schema.fields, "", DEEPEST, PARQUET_LEVELS)


PARQUET_LEVELS: Final = 99
"""How deep the columns of a Parquet file may be nested, so that Arrow reads it."""


def _expect_named(fields: Sequence[Field], at: str, depth: int, levels: int) -> None:
    """Raise InvalidRequestError unless each field of a ROW has a name of its own.

    ``at``: its path, with a dot. ``depth``: how deep the types of the fields may be nested; ``levels``: and how deep
    Parquet may nest them, where an ARRAY, a MAP and a VARIANT take two.
    """
    seen: set[str] = set()
    column = at.partition(".")[0]
    if fields and not depth:
        raise InvalidRequestError(
            f"column {column}: expected types nested at most {DEEPEST} levels deep, found more"
        )
    if fields and levels < (2 if any(field.type.variant for field in fields) else 1):
        raise InvalidRequestError(
            f"column {column}: expected at most {PARQUET_LEVELS} levels in Parquet, found more; "
            "an ARRAY, a MAP and a VARIANT take two"
        )
    for field in fields:
        expect_text("name of a column" if not at else f"name of a field in {at[:-1]}", field.name)
        path = f"{at}{field.name}"
        if not field.name or field.name in seen:
            raise InvalidRequestError(
                f"column {path}: expected a name that no other has, found a second one"
                if field.name
                else f"column {path!r}: expected a name that is not empty"
            )
        seen.add(field.name)
        if field.description is not None:
            expect_text(f"comment of column {path}", field.description)
        if not field.type.variant:
            taken = 1 if field.type.root == "ROW" else 2
            _expect_named(field.type.children, f"{path}.", depth - 1, levels - taken)


def _check_names(schema: TableSchema) -> None:
    """Raise InvalidRequestError for a column name that data files or running jobs use for themselves."""
    for name in schema.value_names:
        if name.startswith((KEY_PREFIX, WORKING_PREFIX)) or name in RESERVED:
            raise InvalidRequestError(
                f"column {name}: the name is reserved, as are {', '.join(RESERVED)} "
                f"and all that begin with {KEY_PREFIX} or {WORKING_PREFIX}"
            )


def _expect_among(what: str, names: Sequence[str], of_what: str, allowed: Sequence[str]) -> None:
    """Raise InvalidRequestError unless ``names`` are some of ``allowed``, each once."""
    for name in names:
        if name not in allowed:
            same = [other for other in allowed if other.casefold() == name.casefold()]
            hint = f"; write {same[0]}" if same else ""
            raise InvalidRequestError(
                f"{what}: {name} is not one of the {of_what} {', '.join(allowed)}{hint}"
            )
        if names.count(name) > 1:
            raise InvalidRequestError(f"{what}: column {name} is given twice")
