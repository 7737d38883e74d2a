"""Names of columns in the options of a table: in their names, as `fields.a.ignore-retract`, and in their values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pktable.format.metadata.schema import TableSchema

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
