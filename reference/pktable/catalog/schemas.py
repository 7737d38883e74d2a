"""Schema files: define a table, find the schemas of one.

Clauses: TBL-1, TBL-2, TBL-5, TBL-9, TBL-10, META-1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pktable_spec.options import parse_options
from pktable_spec.vocabulary import KEY_PREFIX, SEQUENCE_NUMBER, VALUE_KIND

from pktable.format.metadata.schema import TableSchema, decode_schema, encode_schema
from pktable.format.paths import SCHEMA, TablePaths, numbered
from pktable.format.types import (
    BINARIES,
    FLOATS,
    Field,
    from_arrow,
    highest_field_id,
    is_atomic,
    parse_columns,
)
from pktable.store.file_io import FileIO


def load_schemas(store: FileIO, paths: TablePaths) -> dict[int, TableSchema]:
    """Return the schemas of a table by id; none if there is no table. Raises CorruptFileError."""
    found = {}
    for name in store.list_names(paths.schemas):
        if (schema_id := numbered(name, SCHEMA)) is not None:
            path = paths.schema(schema_id)
            found[schema_id] = decode_schema(store.read(path), at=path)
    return found


def create_schema(
    store: FileIO,
    paths: TablePaths,
    columns: str | pa.Schema,
    primary_key: Sequence[str],
    partition_by: Sequence[str],
    options: Mapping[str, str],
    comment: str,
    now_millis: int,
) -> None:
    """Write ``schema-0`` of a new table, of one bucket unless ``options`` give another number.

    Raises InvalidRequestError, and then writes nothing.
    """
    given = {"bucket": "1", **options}
    schema = TableSchema(
        id=0,
        fields=_fields(columns, primary_key),
        highest_field_id=0,
        partition_keys=tuple(partition_by),
        primary_keys=tuple(primary_key),
        options={name: str(value) for name, value in given.items()},
        comment=comment,
        time_millis=now_millis,
    )
    schema = replace(schema, highest_field_id=highest_field_id(schema.fields))
    _check(schema)
    taken = any(name.startswith(SCHEMA) for name in store.list_names(paths.schemas))
    if taken or not store.put_if_absent(paths.schema(0), encode_schema(schema)):
        raise InvalidRequestError(f"{paths.root}: a table already exists here")


def _fields(columns: str | pa.Schema, primary_key: Sequence[str]) -> tuple[Field, ...]:
    if isinstance(columns, str):
        fields = parse_columns(columns)
    else:
        fields = tuple(Field(i, c.name, from_arrow(c.type, c.nullable)) for i, c in enumerate(columns))
    return tuple(replace(f, type=f.type.not_null()) if f.name in primary_key else f for f in fields)


def _check(schema: TableSchema) -> None:
    """Raise InvalidRequestError unless ``schema`` defines a table we can write. Clauses: TBL-1, TBL-9, TBL-10."""
    names = [field.name for field in schema.fields]
    options = parse_options(schema.options)
    options.require_writable()
    _expect("columns", bool(names) and len(set(names)) == len(names), "unique names", names)
    # The last are those of columns that rows have only while they are at work.
    prefixes = (KEY_PREFIX, "__pktable_")
    reserved = [n for n in names if n.startswith(prefixes) or n in (SEQUENCE_NUMBER, VALUE_KIND)]
    _expect(
        "columns",
        not reserved,
        f"no name beginning with {' or '.join(prefixes)}, nor {SEQUENCE_NUMBER}, {VALUE_KIND}",
        reserved,
    )
    keys = schema.primary_keys
    _expect(
        "primary key",
        bool(keys) and len(set(keys)) == len(keys) and set(keys) <= set(names),
        f"some of {', '.join(names)}",
        keys,
    )
    for name in keys:
        field = schema.field(name)
        _expect(f"primary key column {name}", is_atomic(field.type), "an atomic type", [str(field.type)])
    partition = schema.partition_keys
    for name in partition:
        kind = schema.field(name).type if name in names else None
        spelled = kind is None or kind.root not in (*FLOATS, *BINARIES)
        _expect(f"partition key {name}", spelled, "a type that spells a directory", [str(kind)])
    _expect(
        "partition keys",
        set(partition) < set(keys) and len(set(partition)) == len(partition),
        f"some but not all of the primary key {', '.join(keys)}",
        partition,
    )
    buckets = options.bucket_key
    trimmed = [name for name in keys if name not in partition]
    _expect("option bucket-key", set(buckets) <= set(trimmed), f"some of {', '.join(trimmed)}", buckets)


def _expect(what: str, holds: bool, expected: str, found: Sequence[str]) -> None:
    if not holds:
        raise InvalidRequestError(f"{what}: expected {expected}, found {', '.join(found) or 'none'}")
