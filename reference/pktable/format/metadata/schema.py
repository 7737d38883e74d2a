"""Encode and decode schema files; a `TableSchema` is one version of a table's schema.

The keys of a schema are names of columns. `TableSchema` derives two more: the trimmed primary key (without the
partition keys), which is the order of rows in a data file, and the bucket key, which is the trimmed primary key unless
an option names another. A file of an older version omits options whose default has changed since; decoding adds the
former defaults. Options name columns in their names, as `fields.a.ignore-retract`, and in their values.

Clauses: TBL-1, TBL-15, META-1, META-20.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
from pktable_spec.errors import CorruptFileError, InvalidRequestError, UnsupportedOptionError
from pktable_spec.vocabulary import SEQUENCE_NUMBER, VALUE_KIND

from pktable.format.metadata.json_text import JsonObject, decode_json, encode_json
from pktable.format.type_text import UNSUPPORTED
from pktable.format.types import Field, arrow_field, parse_field

VERSION = 3


@dataclass(frozen=True, repr=False)
class TableSchema:
    """One version of a schema. Clauses: TBL-1, META-1."""

    id: int
    fields: tuple[Field, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str
    time_millis: int
    version: int = VERSION

    def __repr__(self) -> str:
        """Return the schema as a person reads it: a column a line, then the keys and options."""
        lines = [f"schema {self.id}" + (f": {self.comment}" if self.comment else "")]
        for one in self.fields:
            lines.append(f"  {one.name} {one.type}" + (f"  -- {one.description}" if one.description else ""))
        keys = {"primary key": self.primary_keys, "partitioned by": self.partition_keys}
        lines += [f"{what} {', '.join(names)}" for what, names in keys.items() if names]
        lines += [f"{name} = {value}" for name, value in sorted(self.options.items())]
        return "\n".join(lines)

    def field(self, name: str) -> Field:
        """Return the field of that name. Raises InvalidRequestError if there is none."""
        try:
            return self._by_name[name]
        except KeyError:
            names = ", ".join(self.value_names)
            raise InvalidRequestError(f"column {name!r} does not exist; columns are {names}") from None

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """The SQL types of the columns by name."""
        return {field.name: str(field.type) for field in self.fields}

    @cached_property
    def by_id(self) -> Mapping[int, Field]:
        """The columns by field id, which a rename does not change."""
        return {field.id: field for field in self.fields}

    @cached_property
    def key_names(self) -> tuple[str, ...]:
        """The trimmed primary key: without partition keys, in order."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @property
    def system_columns(self) -> tuple[str, ...]:
        """The columns that data files have before those of the table, none without a key. Clauses: APP-5, META-7."""
        return (SEQUENCE_NUMBER, VALUE_KIND) if self.primary_keys else ()

    @cached_property
    def key_fields(self) -> tuple[Field, ...]:
        return tuple(self.field(name) for name in self.key_names)

    @cached_property
    def partition_fields(self) -> tuple[Field, ...]:
        return tuple(self.field(name) for name in self.partition_keys)

    @cached_property
    def bucket_key_fields(self) -> tuple[Field, ...]:
        """The columns whose hash selects the bucket. Clauses: TBL-15."""
        names = [name.strip() for name in self.options.get("bucket-key", "").split(",") if name.strip()]
        return tuple(self.field(name) for name in names) if names else self.key_fields

    @cached_property
    def value_names(self) -> tuple[str, ...]:
        """All columns of the table, in order."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """All columns of the table in Arrow, nullability included, without metadata."""
        return pa.schema([arrow_field(field) for field in self.fields])


def encode_schema(schema: TableSchema) -> bytes:
    """Return the schema file of ``schema``. Clauses: META-1, META-13."""
    assert not _defects(schema), _defects(schema)
    return encode_json(
        {
            "version": schema.version,
            "id": schema.id,
            "fields": [field.to_json() for field in schema.fields],
            "highestFieldId": schema.highest_field_id,
            "partitionKeys": list(schema.partition_keys),
            "primaryKeys": list(schema.primary_keys),
            "options": dict(schema.options),
            **({"comment": schema.comment} if schema.comment else {}),
            "timeMillis": schema.time_millis,
        }
    )


def decode_schema(data: bytes, *, at: str) -> TableSchema:
    """Return the schema that a schema file holds. ``at``: the path of the file, for errors.

    Raises CorruptFileError, and InvalidRequestError for features of Paimon that are not supported: some column types,
    and primary keys that may be null.
    Clauses: META-1.
    """
    json = decode_json(data, at=at)
    version = json.optional_long("version")
    if version is not None and not 1 <= version <= VERSION:
        raise CorruptFileError("version", at=at, expected=f"1 to {VERSION}", found=version)
    schema = TableSchema(
        id=json.long("id"),
        fields=_fields(json),
        highest_field_id=json.long("highestFieldId"),
        partition_keys=json.texts("partitionKeys"),
        primary_keys=json.texts("primaryKeys"),
        options=_former_defaults(version or 1) | json.text_map("options"),
        comment=json.optional_text("comment") or "",
        time_millis=json.optional_long("timeMillis") or 0,
        version=version or 1,
    )
    if schema.options.get("primary-key.nullable", "false").lower() == "true":
        raise UnsupportedOptionError("primary-key.nullable", "true", "false")
    for what, expected, found in _defects(schema):
        raise CorruptFileError(what, at=at, expected=expected, found=found)
    return schema


def _fields(json: JsonObject) -> tuple[Field, ...]:
    fields = []
    for found in json.list("fields"):
        try:
            fields.append(parse_field(found))
        except (InvalidRequestError, RecursionError) as error:  # to show what was found may go too deep
            if _names_unsupported(found):
                raise InvalidRequestError(f"{json.at}: {error}") from None
            raise CorruptFileError(
                "fields", at=json.at, expected="fields with known types", found=error
            ) from None
    return tuple(fields)


def _names_unsupported(json: object) -> bool:
    """Return whether ``json`` has, at any depth, a type that Paimon has and that is not supported."""
    parts = [json]
    while parts:
        part = parts.pop()
        if isinstance(part, dict | list):
            parts += part.values() if isinstance(part, dict) else part
        elif isinstance(part, str) and re.split("[ (<]", part.upper(), maxsplit=1)[0] in UNSUPPORTED:
            return True
    return False


def _former_defaults(version: int) -> dict[str, str]:
    """Return the options that a schema file of an older version leaves out, with the defaults of that version."""
    return ({"bucket": "1"} if version < 2 else {}) | ({"file.format": "orc"} if version < 3 else {})


def _defects(schema: TableSchema) -> list[tuple[str, object, object]]:
    """Return (what, expected, found) for each rule that a schema breaks. Clauses: TBL-1, META-1, META-20."""
    names = set(schema.value_names)
    ids = {field.id for field in schema.fields}
    wrong: list[tuple[str, object, object]] = []
    if not schema.fields or len(names) < len(schema.fields):
        wrong.append(("fields", "at least one, names unique", list(schema.value_names)))
    # Some writers restart ids inside a ROW, so only the ids of columns are compared.
    if len(ids) < len(schema.fields) or max(ids, default=0) > schema.highest_field_id:
        wrong.append(("highestFieldId", "unique ids, none greater", schema.highest_field_id))
    for what, keys in (("primaryKeys", schema.primary_keys), ("partitionKeys", schema.partition_keys)):
        if len(set(keys)) < len(keys) or not names.issuperset(keys):
            wrong.append((what, "names of fields, each once", list(keys)))
    if schema.primary_keys and set(schema.primary_keys) == set(schema.partition_keys):
        wrong.append(("primaryKeys", "a column that is no partition key", list(schema.primary_keys)))
    if not wrong:
        nullable = [name for name in schema.primary_keys if schema.field(name).type.nullable]
        if nullable:
            wrong.append(("fields", "primary-key fields NOT NULL", nullable))
    return wrong


NAMING: Final = (
    "bucket-key",
    "sequence.field",
    "changelog-producer.row-deduplicate-ignore-fields",
    "partial-update.remove-record-on-sequence-group",
    "record-level.time-field",
    "rowkind.field",
)
"""Options whose value is names of columns."""
OF_COLUMNS: Final = "fields."
"""Options that begin so have names of columns in their names, and some have names in their values."""
OF_NO_COLUMN: Final = "fields.default-aggregate-function"


def options_under(latest: TableSchema, schema: TableSchema) -> dict[str, str]:
    """Return the options of the latest schema for rows in the columns of an older one. Clauses: RD-22.

    Columns have their older names, and those that the older schema does not have are left out.
    """
    before = {field.id: field.name for field in schema.fields}
    names = {field.name: before.get(field.id) for field in latest.fields}
    return dict(_renamed(latest.options, names))


def renamed_options(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Return options with the names of their columns as they are after a rename. Clauses: TBL-40."""
    return dict(_renamed(options, names))


def _renamed(options: Mapping[str, str], names: Mapping[str, str | None]) -> Iterator[tuple[str, str]]:
    """Yield options with other names of columns, None for one that is left out. Others stay as they are."""

    def after(columns: list[str]) -> str:
        return ",".join(new for column in columns if (new := names.get(column, column)) is not None)

    for name, text in options.items():
        in_name, in_text = columns_in(name), split_columns(text) if names_columns(name) else []
        named, value = after(in_name), after(in_text)
        if (in_name and not named) or (in_text and not value):
            continue
        of_columns = OF_COLUMNS + named + name.removeprefix(OF_COLUMNS + _columns_text(name))
        yield of_columns if in_name else name, value if in_text else text


def names_columns(option: str) -> bool:
    """Return whether the value of an option is names of columns."""
    return option in NAMING or option.endswith(".sequence-group")


def columns_in(option: str) -> list[str]:
    """Return the columns in the name of an option, none if it is not about columns."""
    of_columns = option.startswith(OF_COLUMNS) and option != OF_NO_COLUMN
    return split_columns(_columns_text(option)) if of_columns else []


def _columns_text(option: str) -> str:
    """Return the columns in the name of an option such as ``fields.a,b.sequence-group``, as they stand there."""
    head, ending = option.removeprefix(OF_COLUMNS), ".map.storage-layout"
    return head.removesuffix(ending) if head.endswith(ending) else head.rpartition(".")[0]


def split_columns(text: str) -> list[str]:
    """Return the names in a text, which commas separate."""
    return [part.strip() for part in text.split(",") if part.strip()]
