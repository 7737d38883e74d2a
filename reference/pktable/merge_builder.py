"""A MERGE in the making.

Clauses: STM-1 to STM-6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pktable_spec.errors import InvalidRequestError
from pktable_spec.vocabulary import RowKind

from pktable.catalog.changes import CommitId
from pktable.catalog.effects import Result
from pktable.context import TableContext
from pktable.format.metadata.schema import TableSchema
from pktable.predicate import Predicate
from pktable.predicate.literals import general
from pktable.predicate.tree import Column, Expression
from pktable.run.runner import raised_for
from pktable.statements.arguments import (
    Assignments,
    accept_source,
    assigned,
    join_condition,
    source_fields,
    source_types,
    texts_of,
    updated,
)
from pktable.statements.names import Names, join_of
from pktable.statements.plan import (
    SOURCE,
    TARGET,
    Clause,
    SparkText,
    SparkWords,
    Statement,
    When,
    qualified,
    target_condition,
)
from pktable.watching import measured


@dataclass(frozen=True)
class MergeBuilder:
    """A MERGE in the making: add clauses, then `execute`. Each method returns a new builder.

    ``run`` executes it. Of the clauses about a row the first whose condition holds decides; without one the row stays
    as it is. Names of columns are written ``target.x`` and ``source.x`` where both have a column x. A value is SQL
    text, or any other Python value as it is (text: ``"'abc'"``). Clauses: STM-1 to STM-6.
    """

    run: Callable[[Statement, Any, Predicate | None, CommitId], Result | None]
    context: TableContext
    names: Names
    source: Any
    on: Expression | SparkText
    on_text: str
    clauses: tuple[Clause, ...] = field(default=())

    @classmethod
    def of(
        cls,
        run: Callable[[Statement, Any, Predicate | None, CommitId], Result | None],
        context: TableContext,
        source: Any,
        on: str | Sequence[str],
        aliases: tuple[str, str],
        *,
        by_spark: SparkWords | None = None,
    ) -> MergeBuilder:
        """Return a builder without clauses. Raises InvalidRequestError."""
        schema = context.schema
        if not all(isinstance(alias, str) for alias in aliases):
            raise InvalidRequestError(f"merge: expected aliases that are text, found {aliases!r}")
        if aliases[0].lower() == aliases[1].lower():
            raise InvalidRequestError(
                f"merge: expected two aliases that differ, found {aliases[0]!r} for both"
            )
        source = accept_source(source, schema)
        with raised_for(source):
            types = source_types(source)
        names = Names(schema.fields, source_fields(types), aliases, by_spark)
        condition = join_condition(on, names)
        text = on if isinstance(on, str) else ", ".join(on)
        return cls(run, context, names, source, condition, text)

    def __repr__(self) -> str:
        return f"<MergeBuilder of {self.context.root}: {len(self.clauses)} clauses, not executed>"

    def when_matched_update(self, set: Assignments, condition: str | None = None) -> MergeBuilder:
        """Update the columns ``set`` of a target row that a source row matches; the others keep their values."""
        what = "when_matched_update"
        values = updated(set, self._schema, self.names, what, (TARGET, SOURCE))
        return self._with(When.MATCHED, RowKind.UPDATE_AFTER, condition, values, what, set)

    def when_matched_update_all(self, condition: str | None = None) -> MergeBuilder:
        """Update all columns but those of the key from the source's columns of the same names."""
        what, schema = "when_matched_update_all", self._schema
        others = [name for name in schema.value_names if name not in schema.primary_keys]
        values = updated(self._of_source(others, what), schema, self.names, what, (SOURCE,))
        return self._with(When.MATCHED, RowKind.UPDATE_AFTER, condition, values, what)

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete a target row that a source row matches."""
        return self._with(When.MATCHED, RowKind.DELETE, condition, None, "when_matched_delete")

    def when_not_matched_insert(self, values: Assignments, condition: str | None = None) -> MergeBuilder:
        """Insert a row for a source row that matches none; a column that is not in ``values`` is null."""
        what = "when_not_matched_insert"
        inserted = self._inserted(values, what)
        return self._with(When.NOT_MATCHED, RowKind.INSERT, condition, inserted, what, values)

    def when_not_matched_insert_all(self, condition: str | None = None) -> MergeBuilder:
        """Insert a source row that matches none, all columns by name."""
        what = "when_not_matched_insert_all"
        inserted = self._inserted(self._of_source(self._schema.value_names, what), what)
        return self._with(When.NOT_MATCHED, RowKind.INSERT, condition, inserted, what)

    def when_not_matched_by_source_update(
        self, set: Assignments, condition: str | None = None
    ) -> MergeBuilder:
        """Update the columns ``set`` of a target row that no source row matches."""
        what = "when_not_matched_by_source_update"
        values = updated(set, self._schema, self.names, what, (TARGET,))
        return self._with(When.NOT_MATCHED_BY_SOURCE, RowKind.UPDATE_AFTER, condition, values, what, set)

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete a target row that no source row matches."""
        what = "when_not_matched_by_source_delete"
        return self._with(When.NOT_MATCHED_BY_SOURCE, RowKind.DELETE, condition, None, what)

    @measured("merge", lambda builder: str(builder.context.root))
    def execute(self, *, commit_id: CommitId | None = None) -> Result | None:
        """Compute and commit the changes; return the id of the snapshot after them, None if nothing changes.

        ``commit_id``: as in `Table.upsert`. Raises InvalidRequestError before anything is committed: for a value that
        cannot be evaluated or stored, or if several source rows change one row. Raises CommitConflictError.
        """
        statement = self.statement()
        condition = target_condition(statement, self.source if isinstance(self.source, pa.Table) else None)
        predicate = Predicate(statement.on, condition, "on") if condition else None
        return self.run(statement, self.source, predicate, CommitId.given(commit_id))

    def statement(self) -> Statement:
        """Return the MERGE as it is so far. Raises InvalidRequestError."""
        if not self.clauses:
            raise InvalidRequestError(
                "merge: add a clause, such as when_matched_update_all(), before execute()"
            )
        keys, residual = self._join()
        if not keys and not isinstance(residual, SparkText):
            raise InvalidRequestError("merge: on needs an equality of a target column and a source column")
        schema, tracked = self._schema, self.context.options.row_tracking
        return Statement(
            self.clauses,
            schema.value_names,
            schema.primary_keys,
            keys,
            residual,
            tracked,
            self.on_text,
            aliases=self.names.aliases,
        )

    def _join(
        self,
    ) -> tuple[tuple[tuple[Expression, Expression], ...], Expression | SparkText | None]:
        """Return the equal values of the join, and what else must hold; Spark joins by any condition."""
        if isinstance(self.on, SparkText):
            return (), self.on
        keys, residual = join_of(self.on)
        if not keys and self.names.by_spark is not None:
            return (), SparkText(self.on_text)
        return keys, residual

    @property
    def _schema(self) -> TableSchema:
        return self.context.schema

    def _of_source(self, names: Sequence[str], what: str) -> dict[str, Expression]:
        """Return the columns ``names`` of the source, by name. Raises InvalidRequestError if one is missing."""
        types = {f.name: general(f.type) for f in self.names.source}
        missing = [name for name in names if name not in types]
        if missing:
            raise InvalidRequestError(
                f"{what}: the source has no column {', '.join(missing)}; it has {', '.join(types)}"
            )
        return {name: Column(qualified(SOURCE, name), types[name]) for name in names}

    def _inserted(self, values: Assignments, what: str) -> tuple[Expression | SparkText, ...]:
        schema = self._schema
        given = assigned(values, schema, self.names, what, (SOURCE,))
        missing = [name for name in schema.primary_keys if name not in given]
        if missing:
            raise InvalidRequestError(f"{what}: primary-key column {', '.join(missing)} has no value")
        for name in schema.value_names:
            if name not in given:
                given[name] = self.names.null(schema.field(name))
        return tuple(given[name] for name in schema.value_names)

    def _with(
        self,
        when: When,
        kind: RowKind,
        condition: str | None,
        values: tuple[Expression | SparkText, ...] | None,
        what: str,
        given: Assignments = MappingProxyType({}),
    ) -> MergeBuilder:
        if any(clause.when is when and clause.condition is None for clause in self.clauses):
            raise InvalidRequestError(
                f"{what}: a clause without a condition comes before it, which takes all rows"
            )
        sides = {When.NOT_MATCHED: (SOURCE,), When.NOT_MATCHED_BY_SOURCE: (TARGET,)}.get(
            when, (TARGET, SOURCE)
        )
        holds = None if condition is None else self.names.condition(condition, what=what, sides=sides)
        clause = Clause(when, kind, holds, values, what, condition, texts_of(given))
        return replace(self, clauses=(*self.clauses, clause))
