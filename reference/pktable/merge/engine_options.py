"""The table options of the merge engines, read for one engine and its columns.

An option of another engine, and a value that does not fit its column, are refused by name:
`EngineOptions.expect_known` once before a table is written, the rest when an engine is made.

Clauses: MRG-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pktable_spec.errors import InvalidRequestError, UnsupportedOptionError
from pktable_spec.options import Effect, option_named
from pktable_spec.vocabulary import RowKind

from pktable.format.metadata.schema import TableSchema

ENGINE: Final = "merge-engine"
IGNORE_DELETE: Final = "ignore-delete"
VECTORS: Final = "deletion-vectors.enabled"
FIELDS: Final = "fields."
DEFAULT_FUNCTION: Final = "fields.default-aggregate-function"
FUNCTION: Final = "aggregate-function"
GROUP: Final = "sequence-group"
IGNORE_RETRACT: Final = "ignore-retract"
DELIMITER: Final = "list-agg-delimiter"
DISTINCT: Final = "distinct"
NESTED_KEY: Final = "nested-key"
COUNT_LIMIT: Final = "count-limit"
SEQUENCE_FIELD: Final = "sequence.field"
OF_SEQUENCE_FIELD: Final = (f"{SEQUENCE_FIELD}.sort-order", f"{SEQUENCE_FIELD}.retractions")
REMOVE_ON_GROUP: Final = "partial-update.remove-record-on-sequence-group"

RETRACTIONS: Final = frozenset({RowKind.UPDATE_BEFORE, RowKind.DELETE})

_OF_COLUMN: Final = {
    "aggregation": (FUNCTION, IGNORE_RETRACT, DELIMITER, DISTINCT, NESTED_KEY, COUNT_LIMIT),
    "partial-update": (FUNCTION, GROUP, IGNORE_RETRACT, DELIMITER, DISTINCT),
}
"""The endings of ``fields.<column>.<ending>`` that an engine knows."""

_OF_FUNCTION: Final = {
    DELIMITER: "listagg",
    DISTINCT: "collect",
    NESTED_KEY: "nested_update",
    COUNT_LIMIT: "nested_update",
}
"""The endings that belong to one function, and that function."""

_NAMES_OF_IGNORE_DELETE: Final = (
    IGNORE_DELETE,
    *(f"{engine}.{IGNORE_DELETE}" for engine in ("first-row", "deduplicate", "partial-update")),
)
"""The names of one option. Readers take the first that is set, whatever the engine, as Paimon does."""


def remove_on_delete(engine: str) -> str:
    """Return the option by which a deletion removes the row instead of being folded into it."""
    return f"{engine}.remove-record-on-delete"


@dataclass(frozen=True)
class EngineOptions:
    """The options of a table, as its merge engine asks for them. Raises InvalidRequestError for what is malformed."""

    schema: TableSchema
    options: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", {name: str(value) for name, value in self.schema.options.items()})

    @property
    def engine(self) -> str:
        """The name of the engine, in lower case."""
        return self.options.get(ENGINE, "deduplicate").lower()

    @property
    def common(self) -> tuple[str, ...]:
        """The columns that all records of a key have in common, in their bucket. Clauses: BKT-23."""
        keys = self.schema.primary_keys
        return (*keys, *(name for name in self.schema.partition_keys if name not in keys))

    @property
    def ignores(self) -> frozenset[RowKind]:
        """The row kinds that ``ignore-delete`` leaves out of each merge."""
        name = next((one for one in _NAMES_OF_IGNORE_DELETE if one in self.options), IGNORE_DELETE)
        return RETRACTIONS if self.flag(name) else frozenset()

    def flag(self, name: str) -> bool:
        value = self.options.get(name, "false").lower()
        if value not in ("true", "false"):
            raise InvalidRequestError(f"option {name}={value!r}: expected true or false")
        return value == "true"

    def of_column(self, column: str, ending: str) -> str | None:
        """Return the value of ``fields.<column>.<ending>``, None if it is absent."""
        return self.options.get(f"{FIELDS}{column}.{ending}")

    def function_of(self, column: str) -> str | None:
        """Return the aggregate function that the options name for a column, None if they name none."""
        return self.of_column(column, FUNCTION) or self.options.get(DEFAULT_FUNCTION)

    def groups(self) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
        """Return the sequence groups: the option of each, the columns that order it, and those that it protects.

        Raises InvalidRequestError for a column that is unknown, in the primary key, or in two groups.
        """
        found = []
        taken: dict[str, str] = {}
        for name, value in self.options.items():
            if not (name.startswith(FIELDS) and name.endswith(f".{GROUP}")):
                continue
            ordering = _names(name[len(FIELDS) : -len(GROUP) - 1])
            if not ordering:
                raise InvalidRequestError(
                    f"option {name}: expected the columns that order the group, found none"
                )
            protected = _names(value)
            for column in (*ordering, *protected):
                self._expect_column(name, column)
                if column in self.common:
                    which = "primary" if column in self.schema.primary_keys else "partition"
                    raise InvalidRequestError(f"option {name}: column {column} is in the {which} key")
                if column in taken:
                    raise InvalidRequestError(f"option {name}: column {column} is in {taken[column]} already")
                taken[column] = name
            found.append((name, ordering, protected))
        return found

    def refuse_together(self, one: str, other: str) -> None:
        raise InvalidRequestError(f"option {one}: expected not to be set together with {other}")

    def expect_known(self) -> None:
        """Raise UnsupportedOptionError for an option of another engine, or one without that which it belongs to."""
        for name, value in self.options.items():
            if name.startswith(FIELDS):
                option = option_named(name)
                # Of the others `TableOptions` knows which values are honoured, and they say nothing to a merge engine.
                if option is not None and option.effect is Effect.MERGING and option.values is None:
                    self._expect_known_of_column(name, value)
            for engine in ("deduplicate", "first-row", "partial-update", "aggregation"):
                if name.startswith(f"{engine}.") and engine != self.engine:
                    raise UnsupportedOptionError(name, value, f"{ENGINE}={engine} with it")
            if name in OF_SEQUENCE_FIELD and not _names(self.options.get(SEQUENCE_FIELD, "")):
                raise UnsupportedOptionError(name, value, f"{SEQUENCE_FIELD} with it")

    def _expect_known_of_column(self, name: str, value: str) -> None:
        column, _, ending = name[len(FIELDS) :].rpartition(".")
        default = name == DEFAULT_FUNCTION
        engines = [one for one, known in _OF_COLUMN.items() if default or ending in known]
        if self.engine not in engines:
            expected = " or ".join(f"{ENGINE}={engine}" for engine in engines)
            raise UnsupportedOptionError(name, value, f"{expected} with it")
        if default:
            return
        if ending == GROUP:
            if not _names(value):
                raise UnsupportedOptionError(name, value, "the columns of the group")
            return
        self._expect_column(name, column)
        function = _OF_FUNCTION.get(ending)
        if function not in (None, self.function_of(column)):
            expected = f"{FIELDS}{column}.{FUNCTION}={function} with it"
            raise UnsupportedOptionError(name, value, expected)

    def _expect_column(self, option: str, column: str) -> None:
        if column not in self.schema:
            names = ", ".join(self.schema.value_names)
            raise InvalidRequestError(f"option {option}: column {column} does not exist; columns are {names}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
