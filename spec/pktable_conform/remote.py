"""A table of a runner as a `TableUnderTest`: values become text and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pktable_spec.interface import (
    EVERYTHING,
    BucketId,
    Change,
    FileInfo,
    Query,
    Row,
    Scalar,
    Shape,
    SnapshotInfo,
    VectorInfo,
)

from pktable_conform.reading import rows_of
from pktable_conform.runner import Runner, RunnerError

NUMBERS: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})


class RemoteTable:
    """A new table of a runner, in the directory ``path`` if the runner stores anything."""

    def __init__(self, runner: Runner, path: Path, shape: Shape, options: Mapping[str, str]) -> None:
        self._runner, self._shape = runner, shape
        self._types = {name: type.split()[0] for name, type in shape.columns}
        runner.ask(
            "create",
            table=str(path),
            columns=[list(column) for column in shape.columns],
            primary_key=list(shape.primary_key),
            partition_keys=list(shape.partition_keys),
            options=dict(options),
        )

    def write(self, changes: Sequence[Change], *, write_only: bool = False) -> None:
        sent = [[kind.symbol, [_text(value) for value in row]] for kind, row in changes]
        self._runner.ask("write", changes=sent, write_only=write_only)

    def compact(self, *, full: bool = False) -> None:
        self._runner.ask("compact", full=full)

    def read(
        self, *, snapshot: int | None = None, fresh: bool = False, query: Query = EVERYTHING
    ) -> list[Row]:
        arguments: dict[str, Any] = {}
        if snapshot is not None:
            arguments["snapshot"] = snapshot
        if fresh:
            arguments["fresh"] = True
        if query.where:
            arguments["where"] = [[one.column, one.operator, _text(one.literal)] for one in query.where]
        if query.columns is not None:
            arguments["columns"] = list(query.columns)
        if query.limit is not None:
            arguments["limit"] = query.limit
        names = query.columns or self._shape.names
        return [self._values(names, row) for row in rows_of(self._runner.ask("read", **arguments))]

    def snapshots(self) -> Sequence[SnapshotInfo]:
        return [
            SnapshotInfo(_integer(one, "id"), _string(one, "kind"))
            for one in _objects("snapshots", self._runner.ask("snapshots"))
        ]

    def files(self, snapshot: int) -> Sequence[FileInfo]:
        found = _objects("files", self._runner.ask("files", snapshot=snapshot))
        key = self._shape.trimmed_key
        numbers = ("min_sequence", "max_sequence", "retraction_count", "size", "created")
        return [
            FileInfo(
                _string(one, "name"),
                self._bucket(one),
                _integer(one, "level"),
                _integer(one, "row_count"),
                self._values(key, one.get("min_key")),
                self._values(key, one.get("max_key")),
                *(_integer(one, number) for number in numbers),
            )
            for one in found
        ]

    def vectors(self, snapshot: int) -> Sequence[VectorInfo]:
        found = _objects("vectors", self._runner.ask("vectors", snapshot=snapshot))
        return [
            VectorInfo(
                *(_string(one, "index_file"), self._bucket(one), _string(one, "data_file")),
                frozenset(_positions(one.get("positions"))),
            )
            for one in found
        ]

    def reopen(self) -> None:
        self._runner.ask("reopen")

    def close(self) -> None:
        """Do nothing: the next table takes the place of this one."""

    def _bucket(self, one: Mapping[str, Any]) -> BucketId:
        return self._values(self._shape.partition_keys, one.get("partition")), _integer(one, "bucket")

    def _values(self, names: Sequence[str], row: Any) -> Row:
        if not isinstance(row, list) or len(row) != len(names):
            raise RunnerError(
                f"expected a list of the values of {', '.join(names) or 'nothing'}, found {row!r:.80}"
            )
        return tuple(value_of(self._types[name], value, name) for name, value in zip(names, row, strict=True))


def value_of(type: str, value: Any, name: str) -> Scalar:
    """Return a value of a column as the oracle has it: a number, or the text of it. Raises RunnerError."""
    if value is None or type not in NUMBERS:
        if value is None or isinstance(value, str):
            return value
    elif isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    raise RunnerError(f"expected a value of {name}, {type}, as text, found {value!r:.80}")


def _text(value: Scalar) -> str | None:
    return value if value is None else str(value)


def _objects(do: str, found: Any) -> list[Mapping[str, Any]]:
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise RunnerError(f"{do}: expected a list of objects, found {found!r:.80}")
    return found


def _integer(one: Mapping[str, Any], field: str) -> int:
    value = one.get(field)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RunnerError(f"{field}: expected an integer, found {value!r:.80}")
    return value


def _string(one: Mapping[str, Any], field: str) -> str:
    value = one.get(field)
    if not isinstance(value, str):
        raise RunnerError(f"{field}: expected a string, found {value!r:.80}")
    return value


def _positions(found: Any) -> list[int]:
    if not isinstance(found, list) or not all(type(one) is int for one in found):
        raise RunnerError(f"positions: expected a list of integers, found {found!r:.80}")
    return found
