"""Objects of Python that the JVM calls, and values, changes of a table and errors as it has them.

The JVM calls an object through a proxy of py4j, on the thread of the caller. Each method of the proxy comes here:
default methods of an interface, too. So an object answers what this release of Spark asks, and all else is refused.

An error of Python would reach the JVM as the text of a traceback. A `ThrownError` is thrown there as the exception
that it has. py4j is allowed to do so for those errors alone, so what others let the JVM call stays as it is.

Clauses: WH-40, WH-41, WH-42.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError, PkTableError
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pktable.spark_sql.altering import field_of, new_field_of, widened
from pktable.spark_sql.definitions import COMMENT
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


SPARK: Final = "org.apache.spark.sql."
CATALOG: Final = f"{SPARK}connector.catalog."
CONVERTERS: Final = "scala.jdk.javaapi.CollectionConverters"
ANSWERS_KEPT: Final = 64
"""How many answers are kept. py4j lets the JVM free an object as soon as Python has, which may be before it is read."""


class ThrownError(Py4JJavaError):  # type: ignore[misc]
    """An exception of the JVM that a call from there ends with."""


class _OnlyThrown:
    """True while a `ThrownError` is handled: py4j asks it whether an exception of the JVM is to be thrown as it is."""

    def __bool__(self) -> bool:
        return isinstance(sys.exc_info()[1], ThrownError)


def _unless_thrown(record: logging.LogRecord) -> bool:
    """Whether py4j shall log this: a `ThrownError` is an answer, which the caller gets."""
    return record.exc_info is None or not isinstance(record.exc_info[1], ThrownError)


class Machine:
    """The JVM of a classic session, which calls back from now on. ``lacking``: what is said of a missing method."""

    def __init__(self, spark: SparkSession, lacking: Callable[[str], str]) -> None:
        self.spark, self.lacking = spark, lacking
        self.gateway = spark.sparkContext._gateway
        self.jvm: Any = self.gateway.jvm
        self._named: dict[str, Any] = {}
        self._answers: deque[Any] = deque(maxlen=ANSWERS_KEPT)
        ensure_callback_server_started(self.gateway)
        parameters = self.gateway.callback_server_parameters
        if not parameters.propagate_java_exceptions:
            parameters.propagate_java_exceptions = _OnlyThrown()
        for name in ("clientserver", "java_gateway"):
            logging.getLogger(f"py4j.{name}").addFilter(_unless_thrown)

    def offered(self, target: object, *interfaces: str) -> Offered:
        """Return what the JVM can call ``target`` by, as an object of some ``interfaces``."""
        return Offered(self, target, interfaces)

    def kept(self, answer: Any) -> Any:
        """Return ``answer``, which is not freed before the JVM has it."""
        self._answers.append(answer)
        return answer

    # Values

    def named(self, name: str) -> Any:
        """Return a class of the JVM; with # and a name, what the class has of that name. The JVM is asked once."""
        if name not in self._named:
            path, _, member = name.partition("#")
            found = self.jvm
            for part in filter(None, [*path.split("."), member]):
                found = getattr(found, part)
            self._named[name] = found
        return self._named[name]

    def single(self, name: str) -> Any:
        """Return the instance of an object of Scala."""
        return self.named(f"{name}$#MODULE$")

    def array(self, kind: str, values: Iterable[Any] = ()) -> Any:
        """Return an array of a class."""
        given = list(values)
        found = self.gateway.new_array(self.named(kind), len(given))
        for i, value in enumerate(given):
            found[i] = value
        return found

    def strings(self, values: Iterable[str]) -> Any:
        return self.array("java.lang.String", values)

    def option(self, value: Any) -> Any:
        return self.named("scala.Option#apply")(value)

    def sequence(self, values: Iterable[Any]) -> Any:
        """Return an immutable Seq of Scala."""
        java = self.named("java.util.ArrayList")()
        for value in values:
            java.add(value)
        return self.named(f"{CONVERTERS}#asScala")(java).toSeq()

    def java_map(self, values: Mapping[str, str]) -> Any:
        java = self.named("java.util.HashMap")()
        for name, value in values.items():
            java.put(name, value)
        return java

    def scala_map(self, values: Mapping[str, str]) -> Any:
        """Return an immutable Map of Scala."""
        converted = self.named(f"{CONVERTERS}#asScala")(self.java_map(values))
        return getattr(self.single("scala.collection.immutable.Map"), "from")(converted)

    def java_set(self, values: Iterable[Any] = ()) -> Any:
        java = self.named("java.util.HashSet")()
        for value in values:
            java.add(value)
        return java

    def java_schema(self, schema: StructType) -> Any:
        return self.named(f"{SPARK}types.DataType#fromJson")(schema.json())

    # Errors

    def error(self, name: str, *arguments: Any) -> ThrownError:
        """Return an exception of a class of the JVM, to raise."""
        return ThrownError(name, self.named(name)(*arguments))

    def refusal(self, text: str) -> ThrownError:
        """Return the error to raise for what plain Spark cannot do with a table of ours."""
        return self.error("java.lang.UnsupportedOperationException", text)

    def thrown(self, error: Exception) -> ThrownError:
        """Return what the JVM throws for an error of Python: an exception with the same sentence.

        Clauses: WH-40.
        """
        if isinstance(error, ThrownError):
            return error
        cause = None
        if isinstance(error, Py4JJavaError):
            cause = error.java_exception
        elif isinstance(error, CapturedException):
            cause = error._origin
        if cause is not None:
            if is_instance_of(self.gateway, cause, "java.lang.RuntimeException"):
                return ThrownError("cause", cause)
            return self.error("java.lang.RuntimeException", str(cause.getMessage()), cause)
        text = str(error) if isinstance(error, InvalidRequestError) else f"{type(error).__name__}: {error}"
        kind = "IllegalArgumentException" if isinstance(error, PkTableError) else "RuntimeException"
        return self.error(f"java.lang.{kind}", text)


class Offered:
    """A proxy: the JVM's ``loadTable`` is the method ``load_table`` of the target. Clauses: WH-40."""

    def __init__(self, machine: Machine, target: object, interfaces: Iterable[str]) -> None:
        self.target, self._machine = target, machine
        self.Java = type("Java", (), {"implements": list(interfaces)})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in OF_OBJECTS:
            return OF_OBJECTS[name](self)

        def called(*arguments: Any) -> Any:
            method = getattr(self.target, in_python(name), None)
            if method is None:
                raise self._machine.refusal(self._machine.lacking(name))
            try:
                return self._machine.kept(method(*arguments))
            except Exception as error:
                raise self._machine.thrown(error) from error

        return called


OF_OBJECTS: Final[dict[str, Callable[[Offered], Callable[..., Any]]]] = {
    "toString": lambda offered: lambda: repr(offered.target),
    "hashCode": lambda offered: lambda: id(offered.target) % 2**31,
    "equals": lambda offered: lambda other: other is offered,
}
"""The methods of every object of the JVM."""


def in_python(name: str) -> str:
    """Return the name of a method as Python writes it."""
    return re.sub("(?<!^)([A-Z])", r"_\1", name).lower()
