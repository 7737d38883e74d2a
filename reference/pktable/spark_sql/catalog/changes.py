"""The changes of an ALTER TABLE as Spark gives them to a catalog, as the arguments of `Table.alter`.

Clauses: WH-42.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any

from pktable_spec.errors import InvalidRequestError
from pyspark.sql.types import StructType

from pktable.spark_sql.definitions import COMMENT, field_of, new_field_of, widened
from pktable.sql.words import Name
from pktable.table import Table


def alter(table: Table, changes: Iterable[Any]) -> None:
    """Carry out all ``changes``, or none. Raises InvalidRequestError. Clauses: WH-42."""
    given: dict[str, Any] = {}

    def put(argument: str, name: str, value: Any) -> None:
        given.setdefault(argument, {})[name] = value

    for change in changes:
        kind = change.getClass().getSimpleName()
        if kind in ("SetProperty", "RemoveProperty"):
            _option(given, kind, change, table.options)
            continue
        if not kind.endswith("Column") and not kind.startswith("UpdateColumn"):
            raise InvalidRequestError(f"ALTER TABLE: {kind} is not supported")
        parts = Name(tuple(change.fieldNames()), 0, 0)
        if kind == "AddColumn":
            name = new_field_of(table.schema, parts)
            _added(given, change, name)
            put("move", name, place) if (place := _place(change.position())) else None
            continue
        if kind == "DeleteColumn" and change.ifExists() and parts.parts[0] not in table.columns:
            continue
        name = field_of(table.schema, parts)
        if kind == "DeleteColumn":
            given.setdefault("drop", []).append(name)
        elif kind == "RenameColumn":
            put("rename", name, change.newName())
        elif kind == "UpdateColumnType":
            put("widen", name, widened(_field(name, change.newDataType(), nullable=True)))
        elif kind == "UpdateColumnComment":
            put("comment", name, change.newComment())
        elif kind == "UpdateColumnPosition":
            put("move", name, _place(change.position()))
        elif kind == "UpdateColumnNullability" and change.nullable():
            given.setdefault("nullable", []).append(name)
        else:
            raise InvalidRequestError(f"ALTER TABLE: {kind} is not supported for column {name}")
    table.alter(**given)


def _option(given: dict[str, Any], kind: str, change: Any, known: Collection[str]) -> None:
    """Take a change of an option. Spark does not say IF EXISTS of UNSET: one that is not set is none to reset."""
    name, sets = change.property(), kind == "SetProperty"
    if name == COMMENT:
        given["comment"] = change.value() if sets else ""
    elif sets:
        given.setdefault("set_options", {})[name] = change.value()
    elif name in known:
        given.setdefault("reset_options", []).append(name)


def _added(given: dict[str, Any], change: Any, name: str) -> None:
    if change.defaultValue() is not None:
        raise InvalidRequestError(f"column {name}: a default is not supported")
    comment = change.comment()
    column = _field(name, change.dataType(), nullable=change.isNullable(), comment=comment)
    given["add"] = StructType([*given.get("add", StructType()), *column])


def _field(name: str, kind: Any, *, nullable: bool, comment: str | None = None) -> StructType:
    """Return one column. ``kind``: a type of the JVM."""
    metadata = {} if comment is None else {"comment": comment}
    one = {"name": name, "type": json.loads(kind.json()), "nullable": nullable, "metadata": metadata}
    return StructType.fromJson({"type": "struct", "fields": [one]})


def _place(position: Any) -> str | None:
    """Return FIRST or AFTER and a column, as `Table.alter` takes it."""
    if position is None:
        return None
    return "FIRST" if position.getClass().getSimpleName() == "First" else f"AFTER {position.column()}"
